# What the two buckets must be, whoever made them (`platform bring-up` makes them): private, with versions kept, encrypted with the
# environment's key, and spoken to over TLS only. Their content is not Terraform's: destroying the platform leaves both.

variable "secrets" {
  type = string
}

variable "terraform" {
  type = string
}

variable "key_arn" {
  type = string
}

locals {
  buckets = { secrets = var.secrets, terraform = var.terraform }
}

data "aws_s3_bucket" "this" {
  for_each = local.buckets

  bucket = each.value
}

resource "aws_s3_bucket_public_access_block" "this" {
  for_each = data.aws_s3_bucket.this

  bucket                  = each.value.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_versioning" "this" {
  for_each = data.aws_s3_bucket.this

  bucket = each.value.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  for_each = data.aws_s3_bucket.this

  bucket = each.value.id

  rule {
    bucket_key_enabled = true

    apply_server_side_encryption_by_default {
      sse_algorithm     = "aws:kms"
      kms_master_key_id = var.key_arn
    }
  }
}

data "aws_iam_policy_document" "this" {
  for_each = data.aws_s3_bucket.this

  statement {
    sid       = "OverTLSOnly"
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [each.value.arn, "${each.value.arn}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }

  # Where a write names a key it must be ours; one that names none gets the bucket's, which is ours too.
  statement {
    sid       = "UnderNoOtherKey"
    effect    = "Deny"
    actions   = ["s3:PutObject"]
    resources = ["${each.value.arn}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "StringNotEqualsIfExists"
      variable = "s3:x-amz-server-side-encryption-aws-kms-key-id"
      values   = [var.key_arn]
    }

    condition {
      test     = "Null"
      variable = "s3:x-amz-server-side-encryption-aws-kms-key-id"
      values   = ["false"]
    }
  }
}

resource "aws_s3_bucket_policy" "this" {
  for_each = data.aws_s3_bucket.this

  bucket = each.value.id
  policy = data.aws_iam_policy_document.this[each.key].json

  depends_on = [aws_s3_bucket_public_access_block.this]
}
