# The key of the machines' disks and of etcd's volumes. The secrets' key is not made here: it must be there before the first secret is.

variable "environment" {
  type = string
}

data "aws_caller_identity" "this" {}

data "aws_partition" "this" {}

locals {
  account = "arn:${data.aws_partition.this.partition}:iam::${data.aws_caller_identity.this.account_id}"
  scaling = "${local.account}:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
}

data "aws_iam_policy_document" "volumes" {
  statement {
    sid       = "TheAccountsOwnPoliciesDecide"
    actions   = ["kms:*"]
    resources = ["*"]

    principals {
      type        = "AWS"
      identifiers = ["${local.account}:root"]
    }
  }

  # Auto Scaling starts machines with encrypted disks by itself.
  statement {
    sid       = "AutoScalingUsesIt"
    actions   = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"]
    resources = ["*"]

    principals {
      type        = "AWS"
      identifiers = [local.scaling]
    }
  }

  statement {
    sid       = "AutoScalingHandsItOn"
    actions   = ["kms:CreateGrant"]
    resources = ["*"]

    principals {
      type        = "AWS"
      identifiers = [local.scaling]
    }

    condition {
      test     = "Bool"
      variable = "kms:GrantIsForAWSResource"
      values   = ["true"]
    }
  }
}

resource "aws_kms_key" "volumes" {
  description             = "Disks and etcd volumes of ${var.environment}"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  policy                  = data.aws_iam_policy_document.volumes.json
}

resource "aws_kms_alias" "volumes" {
  name          = "alias/${var.environment}-volumes"
  target_key_id = aws_kms_key.volumes.key_id
}

output "volumes_key_arn" {
  value = aws_kms_key.volumes.arn
}
