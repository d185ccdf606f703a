# The API server's two load balancers, in the elb layer, and their names. TLS passes through: the API server's own certificate counts.

locals {
  sides = {
    public   = { internal = false, suffix = "api" }
    internal = { internal = true, suffix = "api-int" }
  }
}

data "aws_route53_zone" "public" {
  name = var.public_zone_name
}

data "aws_route53_zone" "private" {
  zone_id = var.private_zone_id
}

resource "aws_lb" "this" {
  for_each = local.sides

  # A load balancer's name has 32 characters at most.
  name                             = "${trimsuffix(substr(var.environment, 0, 23), "-")}-${each.value.suffix}"
  load_balancer_type               = "network"
  internal                         = each.value.internal
  subnets                          = values(var.subnet_ids)
  security_groups                  = [var.security_group_id]
  enable_cross_zone_load_balancing = true
  tags                             = { Name = "${var.environment}-${each.value.suffix}", "hostwright:layer" = "elb" }
}

resource "aws_lb_target_group" "this" {
  for_each = local.sides

  name     = "${trimsuffix(substr(var.environment, 0, 23), "-")}-${each.value.suffix}"
  vpc_id   = var.vpc_id
  port     = 6443
  protocol = "TCP"

  # A node that calls the load balancer may be sent to itself: that needs the load balancer's address as the caller's.
  preserve_client_ip = false

  health_check {
    protocol            = "HTTPS"
    path                = "/readyz"
    matcher             = "200"
    interval            = 10
    healthy_threshold   = 2
    unhealthy_threshold = 2
  }
}

resource "aws_lb_listener" "this" {
  for_each = local.sides

  load_balancer_arn = aws_lb.this[each.key].arn
  port              = 6443
  protocol          = "TCP"

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.this[each.key].arn
  }
}

locals {
  public_zone  = trimsuffix(data.aws_route53_zone.public.name, ".")
  private_zone = trimsuffix(data.aws_route53_zone.private.name, ".")

  # A name that ends in its zone's is whole already.
  public_fqdn   = endswith(var.public_name, ".${local.public_zone}") ? var.public_name : "${var.public_name}.${local.public_zone}"
  internal_fqdn = endswith(var.internal_name, ".${local.private_zone}") ? var.internal_name : "${var.internal_name}.${local.private_zone}"
}

resource "aws_route53_record" "public" {
  zone_id = data.aws_route53_zone.public.zone_id
  name    = local.public_fqdn
  type    = "A"

  alias {
    name                   = aws_lb.this["public"].dns_name
    zone_id                = aws_lb.this["public"].zone_id
    evaluate_target_health = true
  }
}

resource "aws_route53_record" "internal" {
  zone_id = data.aws_route53_zone.private.zone_id
  name    = local.internal_fqdn
  type    = "A"

  alias {
    name                   = aws_lb.this["internal"].dns_name
    zone_id                = aws_lb.this["internal"].zone_id
    evaluate_target_health = true
  }
}
