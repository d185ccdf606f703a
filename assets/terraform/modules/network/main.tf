# Five layers over three zones. elb, nat and mgmt have a way to and from the Internet; secure and compute have none: they go out through the
# NAT gateway of their zone, and in comes only what elb forwards.

locals {
  flat = merge([
    for layer, subnets in var.subnets : {
      for name, subnet in subnets : "${layer}.${name}" => merge(subnet, { layer = layer, name = name })
    }
  ]...)

  open   = { for key, subnet in local.flat : key => subnet if contains(["elb", "nat", "mgmt"], subnet.layer) }
  closed = { for key, subnet in local.flat : key => subnet if contains(["secure", "compute"], subnet.layer) }

  # The NAT gateway of a zone, or the first one for a zone that has none.
  nat_of_zone = { for key, subnet in local.flat : subnet.zone => key... if subnet.layer == "nat" }
  first_nat   = sort([for key, subnet in local.flat : key if subnet.layer == "nat"])[0]
}

resource "aws_vpc" "this" {
  cidr_block           = var.cidr
  enable_dns_support   = true
  enable_dns_hostnames = true
  tags                 = { Name = var.environment }
}

# Nobody uses it, and nothing passes it.
resource "aws_default_security_group" "this" {
  vpc_id = aws_vpc.this.id
}

resource "aws_subnet" "this" {
  for_each = local.flat

  vpc_id                  = aws_vpc.this.id
  cidr_block              = each.value.cidr
  availability_zone       = each.value.zone
  map_public_ip_on_launch = each.value.layer == "mgmt"

  tags = {
    Name               = "${var.environment}-${each.value.layer}-${each.value.name}"
    "hostwright:layer" = each.value.layer
  }
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = var.environment }
}

resource "aws_route_table" "open" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.environment}-open" }
}

resource "aws_route" "internet" {
  route_table_id         = aws_route_table.open.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this.id
}

resource "aws_route_table_association" "open" {
  for_each = local.open

  subnet_id      = aws_subnet.this[each.key].id
  route_table_id = aws_route_table.open.id
}

resource "aws_eip" "nat" {
  for_each = { for key, subnet in local.flat : key => subnet if subnet.layer == "nat" }

  domain = "vpc"
  tags   = { Name = "${var.environment}-${each.key}" }
}

resource "aws_nat_gateway" "this" {
  for_each = aws_eip.nat

  allocation_id = each.value.id
  subnet_id     = aws_subnet.this[each.key].id
  tags          = { Name = "${var.environment}-${each.key}" }

  depends_on = [aws_route.internet]
}

resource "aws_route_table" "closed" {
  for_each = local.closed

  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.environment}-${each.value.layer}-${each.value.name}" }
}

resource "aws_route" "nat" {
  for_each = local.closed

  route_table_id         = aws_route_table.closed[each.key].id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[try(local.nat_of_zone[each.value.zone][0], local.first_nat)].id
}

resource "aws_route_table_association" "closed" {
  for_each = local.closed

  subnet_id      = aws_subnet.this[each.key].id
  route_table_id = aws_route_table.closed[each.key].id
}

# The bucket without a way through the NAT gateways.
resource "aws_vpc_endpoint" "s3" {
  vpc_id            = aws_vpc.this.id
  service_name      = "com.amazonaws.${var.region}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = concat([aws_route_table.open.id], [for table in aws_route_table.closed : table.id])
  tags              = { Name = "${var.environment}-s3" }
}

resource "aws_route53_zone" "private" {
  name = var.private_zone_name

  vpc {
    vpc_id = aws_vpc.this.id
  }
}
