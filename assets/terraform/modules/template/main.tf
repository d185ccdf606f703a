# What all machines have in common: an encrypted disk, no metadata without a session, and a tag that says their layer.

variable "environment" {
  type = string
}

variable "layer" {
  type = string
}

variable "image_id" {
  type = string
}

variable "type" {
  type = string
}

variable "key_name" {
  type = string
}

variable "security_group_id" {
  type = string
}

variable "profile_name" {
  type = string
}

variable "disk_key_arn" {
  type = string
}

variable "device" {
  description = "The root device of the image"
  type        = string
  default     = "/dev/xvda"
}

resource "aws_launch_template" "this" {
  name                   = "${var.environment}-${var.layer}"
  image_id               = var.image_id
  instance_type          = var.type
  key_name               = var.key_name
  vpc_security_group_ids = [var.security_group_id]
  update_default_version = true

  iam_instance_profile {
    name = var.profile_name
  }

  # A container reaches the metadata through one more hop: one hop keeps it out.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  block_device_mappings {
    device_name = var.device

    ebs {
      encrypted             = true
      kms_key_id            = var.disk_key_arn
      volume_type           = "gp3"
      volume_size           = 40
      delete_on_termination = true
    }
  }

  dynamic "tag_specifications" {
    for_each = toset(["instance", "volume"])

    content {
      resource_type = tag_specifications.value

      tags = {
        Name                     = "${var.environment}-${var.layer}"
        "hostwright:environment" = var.environment
        "hostwright:layer"       = var.layer
      }
    }
  }
}

output "id" {
  value = aws_launch_template.this.id
}

output "version" {
  value = aws_launch_template.this.latest_version
}
