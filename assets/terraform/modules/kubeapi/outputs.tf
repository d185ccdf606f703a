output "target_group_arns" {
  value = [for group in aws_lb_target_group.this : group.arn]
}

output "names" {
  value = { public = local.public_fqdn, internal = local.internal_fqdn }
}
