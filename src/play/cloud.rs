//! The playground's AWS: a key, a bucket with some secrets, the variables of the environment, and credentials that mean nothing.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::playground::PlayError;
use super::services::private_file;
use crate::backend::aws::{Aws, Request};
use crate::backend::s3::{Bucket, Content};
use crate::config::Permit;
use crate::domain::bucket::Condition;
use crate::domain::environment;
use crate::domain::platform;
use crate::domain::secret::Checksum;

const NAME: &str = "the playground";
const REGION: &str = "eu-west-1";
const TEMPLATE: &str = include_str!("../../assets/environments/play.tfvars");
const CREDENTIALS: &str =
    "[play]\naws_access_key_id = AKIAPLAYGROUND\naws_secret_access_key = nothing-to-lose\n";
/// The secrets that a new bucket has.
const SECRETS: [(&str, &str); 5] = [
    ("compute/registry.yaml", include_str!("../../assets/play/secrets/compute/registry.yaml")),
    ("locked/README.md", include_str!("../../assets/play/secrets/locked/README.md")),
    ("secure/etcd.env", include_str!("../../assets/play/secrets/secure/etcd.env")),
    (platform::POLICY, include_str!("../../assets/play/secrets/secure/kube-auth/policy.jsonl")),
    (platform::TOKENS, include_str!("../../assets/play/secrets/secure/kube-auth/tokens.csv")),
];

/// The manifests that a new playground has: they are the operator's then.
const MANIFESTS: [(&str, &str); 6] = [
    ("_labels.j2", include_str!("../../assets/manifests/_labels.j2")),
    ("addons/etcd-endpoints.yaml.j2", include_str!("../../assets/manifests/addons/etcd-endpoints.yaml.j2")),
    ("platform/namespace.yaml", include_str!("../../assets/manifests/platform/namespace.yaml")),
    ("platform/settings.yaml.j2", include_str!("../../assets/manifests/platform/settings.yaml.j2")),
    ("secure/kube-apiserver.yaml.j2", include_str!("../../assets/manifests/secure/kube-apiserver.yaml.j2")),
    ("secure/kube-auth.yaml.j2", include_str!("../../assets/manifests/secure/kube-auth.yaml.j2")),
];

/// What the environment's table in the configuration names.
#[derive(Debug, Clone)]
pub(super) struct Cloud {
    pub(super) endpoint: String,
    pub(super) credentials: PathBuf,
    pub(super) variables: PathBuf,
    pub(super) secrets: PathBuf,
    pub(super) manifests: PathBuf,
}

impl Cloud {
    /// In the playground's folder, at this server.
    pub(super) fn new(root: &Path, endpoint: String) -> Self {
        Self {
            endpoint,
            credentials: root.join("aws-credentials"),
            variables: root.join("play.tfvars"),
            secrets: root.join("secrets"),
            manifests: root.join("manifests"),
        }
    }
}

/// Fills the server, which has just started and is empty, and writes the files that lead there.
pub(super) async fn fill(cloud: &Cloud, permit: &Permit) -> Result<(), PlayError> {
    private_file(NAME, &cloud.credentials, CREDENTIALS)?;
    manifests(&cloud.manifests)?;
    let failed = |error: &dyn std::fmt::Display| PlayError::SetUp(error.to_string());
    let request = Request {
        profile: environment::PLAY.to_owned(),
        credentials_file: Some(cloud.credentials.clone()),
        region: Some(REGION.to_owned()),
        default_region: REGION.to_owned(),
        endpoint: Some(cloud.endpoint.clone()),
    };
    let aws = Aws::connect(&request, None).await.map_err(|error| failed(&error))?;
    let key = aws.create_kms_key(permit, "the playground's").await.map_err(|error| failed(&error))?;
    let user = user();
    let text = TEMPLATE
        .replace("play-USER", &environment::play_of(&user))
        .replacen("NEEDS_ADDING", "play.example", usize::MAX)
        .replace("kms_master_id         = \"play.example\"", &format!("kms_master_id         = \"{key}\""));
    private_file(NAME, &cloud.variables, &text)?;
    for what in ["secrets", "terraform"] {
        let name = format!("{}-kube-{what}-{REGION}", environment::play_of(&user));
        let bucket = Bucket::new(aws.sdk(), true, &name, &key);
        bucket.create(permit, REGION).await.map_err(|error| failed(&error))?;
        let secrets = if what == "secrets" { SECRETS.as_slice() } else { &[] };
        for (key, text) in secrets {
            let (content, sum) =
                (Content::Bytes(Bytes::from_static(text.as_bytes())), Checksum::of(text.as_bytes()));
            let put = bucket.put(permit, key, content, sum, "hostwright play", &Condition::IsNot);
            put.await.map_err(|error| failed(&error))?;
        }
    }
    Ok(())
}

/// Writes the sample, unless there is something already.
fn manifests(folder: &Path) -> Result<(), PlayError> {
    if folder.exists() {
        return Ok(());
    }
    for (name, text) in MANIFESTS {
        let path = folder.join(name);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.map_err(|error| PlayError::SetUp(format!("cannot make {}: {error}", folder.display())))?;
        private_file(NAME, &path, text)?;
    }
    Ok(())
}

/// The operator's name, as the environment's name has it.
fn user() -> String {
    let names = ["USER", "LOGNAME"].iter().filter_map(|name| std::env::var(name).ok());
    let mut legal = names.filter(|user| environment::user(user).is_ok());
    legal.next().unwrap_or_else(|| "operator".to_owned())
}
