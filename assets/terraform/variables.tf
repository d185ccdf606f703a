# What environments/NAME.tfvars says: docs/environments.md. The defaults are the same there and here.

variable "environment" {
  description = "The environment's name: the first part of the name of everything"
  type        = string
}

variable "kms_master_id" {
  description = "The KMS key of the secrets: id, ARN or alias/NAME"
  type        = string
}

variable "public_zone_name" {
  description = "The DNS zone that all the world sees"
  type        = string
}

variable "private_zone_name" {
  description = "The DNS zone inside the network"
  type        = string
}

variable "secrets_bucket_name" {
  description = "The bucket of the secrets and manifests"
  type        = string
}

variable "terraform_bucket_name" {
  description = "The bucket of this state"
  type        = string
}

variable "kubeapi_dns" {
  description = "The API server's name in the public zone"
  type        = string
  default     = "kube"
}

variable "kubeapi_internal_dns" {
  description = "The API server's name in the private zone"
  type        = string
  default     = "kube"
}

variable "aws_region" {
  description = "The region"
  type        = string
  default     = "eu-west-1"
}

variable "aws_account" {
  description = "The account that it all belongs to, twelve digits; null: that of the credentials"
  type        = string
  default     = null
}

variable "aws_profile" {
  description = "The credentials' profile: Hostwright's, which hands the credentials on"
  type        = string
  default     = null
}

variable "vpc_cidr" {
  description = "The network"
  type        = string
  default     = "10.100.0.0/16"
}

variable "secure_subnets" {
  description = "The API servers' and etcd's subnets: NAME_cidr and NAME_zone"
  type        = map(string)
  default     = {}
}

variable "compute_subnets" {
  description = "The workers' subnets"
  type        = map(string)
  default     = {}
}

variable "elb_subnets" {
  description = "The load balancers' subnets"
  type        = map(string)
  default     = {}
}

variable "nat_subnets" {
  description = "The NAT gateways' subnets"
  type        = map(string)
  default     = {}
}

variable "mgmt_subnets" {
  description = "The bastion's subnets"
  type        = map(string)
  default     = {}
}

variable "secure_nodes" {
  description = "The etcd nodes: names and addresses, each in one of the secure subnets"
  type        = map(string)
  default     = {}
}

variable "secure_nodes_info" {
  description = "ADDRESS_zone and ADDRESS_subnet of the etcd nodes; by default what their subnets say"
  type        = map(string)
  default     = {}
}

# What only Terraform reads.

variable "image_id" {
  description = "The machine image (AMI) of all layers; it has Hostwright, containerd and the kubelet"
  type        = string

  validation {
    condition     = can(regex("^ami-[0-9a-f]+$", var.image_id))
    error_message = "image_id is a machine image, such as ami-0123456789abcdef0."
  }
}

variable "key_name" {
  description = "The EC2 key pair for SSH; null: only what cloud-init gives"
  type        = string
  default     = null
}

variable "operator_cidrs" {
  description = "The networks that may reach the bastion with SSH"
  type        = list(string)
  default     = []
}

variable "kubeapi_cidrs" {
  description = "The networks that may reach the API server from outside"
  type        = list(string)
  default     = []
}

variable "secure_type" {
  description = "The instance type of the secure layer"
  type        = string
  default     = "m6i.large"
}

variable "compute_type" {
  description = "The instance type of the workers"
  type        = string
  default     = "m6i.large"
}

variable "compute_size" {
  description = "How many workers: least, at first, and most"
  type        = object({ min = number, desired = number, max = number })
  default     = { min = 0, desired = 3, max = 12 }
}

variable "bastion_type" {
  description = "The instance type of the bastion"
  type        = string
  default     = "t3.micro"
}

variable "etcd_volume_gb" {
  description = "The size of each etcd node's volume"
  type        = number
  default     = 20
}
