output "vpc_id" {
  value = aws_vpc.this.id
}

output "subnet_ids" {
  description = "By layer, then by name"
  value = {
    for layer, subnets in var.subnets : layer => { for name, _ in subnets : name => aws_subnet.this["${layer}.${name}"].id }
  }
}

output "security_group_ids" {
  description = "By layer"
  value       = { for layer, group in aws_security_group.this : layer => group.id }
}

output "private_zone_id" {
  value = aws_route53_zone.private.zone_id
}
