variable "environment" {
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

variable "subnets" {
  description = "By name: addresses and zone"
  type        = map(object({ cidr = string, zone = string }))
}

variable "subnet_ids" {
  description = "By name"
  type        = map(string)
}

variable "target_group_arns" {
  description = "The API server's load balancers"
  type        = list(string)
}

variable "volume_gb" {
  type = number
}

variable "nodes" {
  description = "The etcd nodes: address, and the subnet that it is in"
  type        = map(object({ address = string, subnet = string }))
}
