# The API servers and etcd: a group of machines in each zone, as many as etcd nodes have their place there. A machine may die; its volume and
# its interface stay, and the next machine of the zone takes them (`hostwright attach`). Their tags are what it finds them by.

locals {
  in_subnet = { for name, _ in var.subnets : name => length([for node in var.nodes : node if node.subnet == name]) }
  groups    = { for name, count in local.in_subnet : name => count if count > 0 }
}

module "template" {
  source = "../template"

  environment       = var.environment
  layer             = "secure"
  image_id          = var.image_id
  type              = var.type
  key_name          = var.key_name
  security_group_id = var.security_group_id
  profile_name      = var.profile_name
  disk_key_arn      = var.disk_key_arn
}

resource "aws_autoscaling_group" "this" {
  for_each = local.groups

  name                      = "${var.environment}-secure-${each.key}"
  vpc_zone_identifier       = [var.subnet_ids[each.key]]
  min_size                  = each.value
  desired_capacity          = each.value
  max_size                  = each.value
  target_group_arns         = var.target_group_arns
  health_check_type         = "EC2"
  wait_for_capacity_timeout = "0"

  launch_template {
    id      = module.template.id
    version = module.template.version
  }

  tag {
    key                 = "hostwright:layer"
    value               = "secure"
    propagate_at_launch = false
  }

  # A machine that starts looks for both.
  depends_on = [aws_ebs_volume.etcd, aws_network_interface.etcd]
}

resource "aws_ebs_volume" "etcd" {
  for_each = var.nodes

  availability_zone = var.subnets[each.value.subnet].zone
  size              = var.volume_gb
  type              = "gp3"
  encrypted         = true
  kms_key_id        = var.disk_key_arn

  # It is the cluster's memory: what is destroyed leaves a snapshot.
  final_snapshot = true

  tags = {
    Name                     = "${var.environment}-etcd-${each.key}"
    "hostwright:environment" = var.environment
    "hostwright:node"        = each.key
    "hostwright:use"         = "etcd"
  }
}

resource "aws_network_interface" "etcd" {
  for_each = var.nodes

  subnet_id       = var.subnet_ids[each.value.subnet]
  private_ips     = [each.value.address]
  security_groups = [var.security_group_id]
  description     = "etcd ${each.key}"

  tags = {
    Name                     = "${var.environment}-etcd-${each.key}"
    "hostwright:environment" = var.environment
    "hostwright:node"        = each.key
    "hostwright:use"         = "etcd"
  }
}

output "group_names" {
  value = [for group in aws_autoscaling_group.this : group.name]
}

output "nodes" {
  value = {
    for node, place in var.nodes : node => {
      address   = place.address
      volume    = aws_ebs_volume.etcd[node].id
      interface = aws_network_interface.etcd[node].id
      zone      = var.subnets[place.subnet].zone
    }
  }
}
