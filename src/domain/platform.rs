//! The platform: what its secrets are made of (certificates, tokens, configurations) and the steps that bring it up.

mod access;
mod certificate;
mod step;

pub use access::{
    API_PORT, AUTH_PORT, Access, Kubeconfig, POLICY, TOKENS, accesses, kubeconfig, rules, webhooks,
};
pub use certificate::{
    CA, CA_DAYS, CA_KEY, LEAF_DAYS, Leaf, RENEWED_BEFORE, SERVICE_ACCOUNT_KEY, SERVICE_ACCOUNT_PUBLIC,
    SSH_KEY, SSH_PUBLIC, Usage, ca_name, leaves,
};
pub use step::Step;
