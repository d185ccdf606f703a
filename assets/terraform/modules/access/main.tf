# One role a layer. Each reads only its own prefixes of the secrets bucket, says in status/ what its nodes have, and nobody reads locked/.

variable "environment" {
  type = string
}

variable "bucket" {
  type = string
}

variable "key_arn" {
  type = string
}

data "aws_partition" "this" {}

locals {
  bucket_arn = "arn:${data.aws_partition.this.partition}:s3:::${var.bucket}"

  prefixes = {
    secure  = ["common", "secure", "manifests", "addons"]
    compute = ["common", "compute"]
    mgmt    = ["common"]
  }
}

data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "secrets" {
  for_each = local.prefixes

  statement {
    sid       = "ListItsOwn"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket_arn]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = [for prefix in each.value : "${prefix}/*"]
    }
  }

  statement {
    sid       = "ReadItsOwn"
    actions   = ["s3:GetObject", "s3:GetObjectVersion"]
    resources = [for prefix in each.value : "${local.bucket_arn}/${prefix}/*"]
  }

  statement {
    sid       = "SayWhatItHas"
    actions   = ["s3:GetObject", "s3:PutObject"]
    resources = ["${local.bucket_arn}/status/sync/*"]
  }

  statement {
    sid       = "UseTheKeyForThat"
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = [var.key_arn]

    condition {
      test     = "StringLike"
      variable = "kms:EncryptionContext:aws:s3:arn"
      values   = concat([local.bucket_arn], [for prefix in concat(each.value, ["status/sync"]) : "${local.bucket_arn}/${prefix}/*"])
    }
  }
}

# An etcd node takes its volume and its interface itself: `hostwright attach`.
data "aws_iam_policy_document" "attach" {
  statement {
    sid       = "Look"
    actions   = ["ec2:DescribeInstances", "ec2:DescribeVolumes", "ec2:DescribeNetworkInterfaces"]
    resources = ["*"]
  }

  statement {
    sid       = "AttachOnlyThisEnvironments"
    actions   = ["ec2:AttachVolume", "ec2:DetachVolume", "ec2:AttachNetworkInterface", "ec2:DetachNetworkInterface", "ec2:CreateTags"]
    resources = ["*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/hostwright:environment"
      values   = [var.environment]
    }
  }
}

resource "aws_iam_role" "this" {
  for_each = local.prefixes

  name               = "${var.environment}-${each.key}"
  description        = "The machines of the layer ${each.key}"
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

resource "aws_iam_role_policy" "secrets" {
  for_each = local.prefixes

  name   = "secrets"
  role   = aws_iam_role.this[each.key].id
  policy = data.aws_iam_policy_document.secrets[each.key].json
}

resource "aws_iam_role_policy" "attach" {
  name   = "attach"
  role   = aws_iam_role.this["secure"].id
  policy = data.aws_iam_policy_document.attach.json
}

resource "aws_iam_instance_profile" "this" {
  for_each = local.prefixes

  name = "${var.environment}-${each.key}"
  role = aws_iam_role.this[each.key].name
}

output "profile_names" {
  description = "The instance profiles, by layer"
  value       = { for layer, profile in aws_iam_instance_profile.this : layer => profile.name }
}
