variable "environment" {
  type = string
}

variable "vpc_id" {
  type = string
}

variable "subnet_ids" {
  description = "The elb layer's subnets, by name"
  type        = map(string)
}

variable "security_group_id" {
  type = string
}

variable "public_zone_name" {
  type = string
}

variable "private_zone_id" {
  type = string
}

variable "public_name" {
  type = string
}

variable "internal_name" {
  type = string
}
