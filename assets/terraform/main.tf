locals {
  # Where the file names no subnets: three of 256 addresses, in the zones a, b and c, from these third bytes on.
  first_bytes = { secure = 10, compute = 20, elb = 30, nat = 90, mgmt = 100 }

  defaults = {
    for layer, byte in local.first_bytes : layer => {
      for index, letter in ["a", "b", "c"] : "az${index}" => {
        cidr = "10.100.${byte + index}.0/24"
        zone = "${var.aws_region}${letter}"
      }
    }
  }

  written = {
    secure  = var.secure_subnets
    compute = var.compute_subnets
    elb     = var.elb_subnets
    nat     = var.nat_subnets
    mgmt    = var.mgmt_subnets
  }

  # NAME_cidr and NAME_zone to NAME => {cidr, zone}.
  subnets = {
    for layer, map in local.written : layer => length(map) == 0 ? local.defaults[layer] : {
      for name in toset([for key in keys(map) : trimsuffix(key, "_cidr") if endswith(key, "_cidr")]) : name => {
        cidr = map["${name}_cidr"]
        zone = map["${name}_zone"]
      }
    }
  }

  secure_names = sort(keys(local.subnets.secure))

  # By default one etcd node in each secure subnet, at address number 100.
  nodes = length(var.secure_nodes) > 0 ? var.secure_nodes : {
    for index, name in local.secure_names : "node${index}" => cidrhost(local.subnets.secure[name].cidr, 100)
  }

  # Which subnet an address is in: the one whose network it shares.
  homes = {
    for node, address in local.nodes : node => one([
      for name, subnet in local.subnets.secure : name
      if cidrhost("${address}/${split("/", subnet.cidr)[1]}", 0) == cidrhost(subnet.cidr, 0)
    ])
  }
}

data "aws_kms_key" "secrets" {
  key_id = var.kms_master_id
}

module "network" {
  source = "./modules/network"

  environment       = var.environment
  region            = var.aws_region
  cidr              = var.vpc_cidr
  subnets           = local.subnets
  private_zone_name = var.private_zone_name
  operator_cidrs    = var.operator_cidrs
  kubeapi_cidrs     = var.kubeapi_cidrs
}

module "keys" {
  source = "./modules/keys"

  environment = var.environment
}

module "buckets" {
  source = "./modules/buckets"

  secrets   = var.secrets_bucket_name
  terraform = var.terraform_bucket_name
  key_arn   = data.aws_kms_key.secrets.arn
}

module "access" {
  source = "./modules/access"

  environment = var.environment
  bucket      = var.secrets_bucket_name
  key_arn     = data.aws_kms_key.secrets.arn
}

module "kubeapi" {
  source = "./modules/kubeapi"

  environment       = var.environment
  vpc_id            = module.network.vpc_id
  subnet_ids        = module.network.subnet_ids.elb
  security_group_id = module.network.security_group_ids.elb
  public_zone_name  = var.public_zone_name
  private_zone_id   = module.network.private_zone_id
  public_name       = var.kubeapi_dns
  internal_name     = var.kubeapi_internal_dns
}

module "bastion" {
  source = "./modules/bastion"

  environment       = var.environment
  image_id          = var.image_id
  type              = var.bastion_type
  key_name          = var.key_name
  subnet_ids        = values(module.network.subnet_ids.mgmt)
  security_group_id = module.network.security_group_ids.mgmt
  profile_name      = module.access.profile_names.mgmt
  disk_key_arn      = module.keys.volumes_key_arn
}

module "secure" {
  source = "./modules/secure"

  environment       = var.environment
  image_id          = var.image_id
  type              = var.secure_type
  key_name          = var.key_name
  subnets           = local.subnets.secure
  subnet_ids        = module.network.subnet_ids.secure
  security_group_id = module.network.security_group_ids.secure
  profile_name      = module.access.profile_names.secure
  disk_key_arn      = module.keys.volumes_key_arn
  target_group_arns = module.kubeapi.target_group_arns
  volume_gb         = var.etcd_volume_gb
  nodes             = { for node, address in local.nodes : node => { address = address, subnet = local.homes[node] } }
}

module "compute" {
  source = "./modules/compute"

  environment       = var.environment
  image_id          = var.image_id
  type              = var.compute_type
  key_name          = var.key_name
  size              = var.compute_size
  subnet_ids        = values(module.network.subnet_ids.compute)
  security_group_id = module.network.security_group_ids.compute
  profile_name      = module.access.profile_names.compute
  disk_key_arn      = module.keys.volumes_key_arn
}
