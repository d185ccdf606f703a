variable "environment" {
  type = string
}

variable "region" {
  type = string
}

variable "cidr" {
  type = string
}

variable "subnets" {
  description = "By layer, then by name: addresses and zone"
  type        = map(map(object({ cidr = string, zone = string })))
}

variable "private_zone_name" {
  type = string
}

variable "operator_cidrs" {
  type = list(string)
}

variable "kubeapi_cidrs" {
  type = list(string)
}
