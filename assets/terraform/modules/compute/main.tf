# The workers. How many there are is also the operators' to say (`platform scale`): a later apply leaves their number.

module "template" {
  source = "../template"

  environment       = var.environment
  layer             = "compute"
  image_id          = var.image_id
  type              = var.type
  key_name          = var.key_name
  security_group_id = var.security_group_id
  profile_name      = var.profile_name
  disk_key_arn      = var.disk_key_arn
}

resource "aws_autoscaling_group" "this" {
  name                = "${var.environment}-compute"
  vpc_zone_identifier = var.subnet_ids
  min_size            = var.size.min
  desired_capacity    = var.size.desired
  max_size            = var.size.max
  health_check_type   = "EC2"

  launch_template {
    id      = module.template.id
    version = module.template.version
  }

  tag {
    key                 = "hostwright:layer"
    value               = "compute"
    propagate_at_launch = false
  }

  lifecycle {
    ignore_changes = [desired_capacity]
  }
}

output "group_name" {
  value = aws_autoscaling_group.this.name
}
