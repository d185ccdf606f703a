# The platform of one environment. `hostwright platform` lays this folder, the operator's own *.tf files and the environment's variables
# together; see docs/platform.md. The state's place comes from the command line (`-backend-config`): each environment has its own.

terraform {
  required_version = ">= 1.10"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.60, < 7"
    }
  }

  backend "s3" {}
}

provider "aws" {
  region = var.aws_region

  # Another account than the environment's is refused before anything is looked at.
  allowed_account_ids = var.aws_account == null ? null : [var.aws_account]

  default_tags {
    tags = {
      "hostwright:environment" = var.environment
    }
  }
}
