# The variables of the environment play-USER, made from Hostwright's template. This file is yours: it is never overwritten.
#
# Fill in what says NEEDS_ADDING, then: hostwright env check play-USER
# docs/environments.md says what each is; what is not here has a default. Variables that only your Terraform knows may stand here too.

environment           = "play-USER"
aws_region            = "eu-west-1"

# The KMS key that the secrets are encrypted with: its id, its ARN, or alias/NAME.
kms_master_id         = "NEEDS_ADDING"

# The DNS zones: the one that all the world sees, and the one inside the network.
public_zone_name      = "NEEDS_ADDING"
private_zone_name     = "NEEDS_ADDING"

# The buckets: of the secrets and manifests, and of Terraform's state.
secrets_bucket_name   = "play-USER-kube-secrets-eu-west-1"
terraform_bucket_name = "play-USER-kube-terraform-eu-west-1"

# The API server's names in the two zones.
kubeapi_dns           = "kube-play-USER"
kubeapi_internal_dns  = "kube"
