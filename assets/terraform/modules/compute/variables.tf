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

variable "subnet_ids" {
  type = list(string)
}

variable "size" {
  type = object({ min = number, desired = number, max = number })
}
