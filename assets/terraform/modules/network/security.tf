# Who may speak to whom. Each line of `flows` is one rule: the layer that is spoken to, who speaks, and the ports.

locals {
  layers = toset(["secure", "compute", "elb", "mgmt"])

  flows = {
    "api from elb"         = { to = "secure", from = "elb", low = 6443, high = 6443 }
    "api from compute"     = { to = "secure", from = "compute", low = 6443, high = 6443 }
    "api from mgmt"        = { to = "secure", from = "mgmt", low = 6443, high = 6443 }
    "secure among itself"  = { to = "secure", from = "secure", low = 0, high = 65535 }
    "ssh to secure"        = { to = "secure", from = "mgmt", low = 22, high = 22 }
    "kubelets from secure" = { to = "compute", from = "secure", low = 0, high = 65535 }
    "ssh to compute"       = { to = "compute", from = "mgmt", low = 22, high = 22 }
    "services from elb"    = { to = "compute", from = "elb", low = 30000, high = 32767 }
    "api within"           = { to = "elb", from = "compute", low = 6443, high = 6443 }
    "api from secure"      = { to = "elb", from = "secure", low = 6443, high = 6443 }
    "api from the bastion" = { to = "elb", from = "mgmt", low = 6443, high = 6443 }
  }

  outside = merge(
    { for cidr in var.operator_cidrs : "ssh ${cidr}" => { to = "mgmt", cidr = cidr, port = 22 } },
    { for cidr in var.kubeapi_cidrs : "api ${cidr}" => { to = "elb", cidr = cidr, port = 6443 } },
  )
}

resource "aws_security_group" "this" {
  for_each = local.layers

  name        = "${var.environment}-${each.key}"
  description = "The layer ${each.key}"
  vpc_id      = aws_vpc.this.id
  tags        = { Name = "${var.environment}-${each.key}", "hostwright:layer" = each.key }
}

resource "aws_vpc_security_group_ingress_rule" "flow" {
  for_each = local.flows

  security_group_id            = aws_security_group.this[each.value.to].id
  referenced_security_group_id = aws_security_group.this[each.value.from].id
  ip_protocol                  = "tcp"
  from_port                    = each.value.low
  to_port                      = each.value.high
  description                  = each.key
}

# Pods of two workers speak whatever their network makes of it.
resource "aws_vpc_security_group_ingress_rule" "workers" {
  for_each = toset(["compute", "secure"])

  security_group_id            = aws_security_group.this["compute"].id
  referenced_security_group_id = aws_security_group.this[each.key].id
  ip_protocol                  = "-1"
  description                  = "pods, from ${each.key}"
}

resource "aws_vpc_security_group_ingress_rule" "pods_to_secure" {
  security_group_id            = aws_security_group.this["secure"].id
  referenced_security_group_id = aws_security_group.this["compute"].id
  ip_protocol                  = "udp"
  from_port                    = 4789
  to_port                      = 8472
  description                  = "pods, over VXLAN"
}

resource "aws_vpc_security_group_ingress_rule" "outside" {
  for_each = local.outside

  security_group_id = aws_security_group.this[each.value.to].id
  cidr_ipv4         = each.value.cidr
  ip_protocol       = "tcp"
  from_port         = each.value.port
  to_port           = each.value.port
  description       = each.key
}

resource "aws_vpc_security_group_egress_rule" "all" {
  for_each = local.layers

  security_group_id = aws_security_group.this[each.key].id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "-1"
}
