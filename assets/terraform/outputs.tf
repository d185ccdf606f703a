output "vpc_id" {
  description = "The network"
  value       = module.network.vpc_id
}

output "subnet_ids" {
  description = "The subnets of each layer, by name"
  value       = module.network.subnet_ids
}

output "kubeapi" {
  description = "The API server's address for those outside and for those inside"
  value       = module.kubeapi.names
}

output "etcd_nodes" {
  description = "The etcd nodes: address, volume and interface"
  value       = module.secure.nodes
}

output "groups" {
  description = "The Auto Scaling groups of each layer"
  value = {
    secure  = module.secure.group_names
    compute = [module.compute.group_name]
    mgmt    = [module.bastion.group_name]
  }
}
