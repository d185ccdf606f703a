# The way in for operators: one machine in mgmt, made anew when it dies.

module "template" {
  source = "../template"

  environment       = var.environment
  layer             = "mgmt"
  image_id          = var.image_id
  type              = var.type
  key_name          = var.key_name
  security_group_id = var.security_group_id
  profile_name      = var.profile_name
  disk_key_arn      = var.disk_key_arn
}

resource "aws_autoscaling_group" "this" {
  name                = "${var.environment}-mgmt"
  vpc_zone_identifier = var.subnet_ids
  min_size            = 1
  desired_capacity    = 1
  max_size            = 1

  launch_template {
    id      = module.template.id
    version = module.template.version
  }

  tag {
    key                 = "hostwright:layer"
    value               = "mgmt"
    propagate_at_launch = false
  }
}

output "group_name" {
  value = aws_autoscaling_group.this.name
}
