//! What a machine needs to join the cluster: `cluster-info`, and the cluster's root CA.

use serde::Deserialize;
use sha2::{Digest, Sha256};
use x509_cert::der::{DecodePem, Encode};

use super::OpError;
use crate::backend::kube::{ConfigMapData, Kube, KubeErrorKind};

/// What `cluster-info` says, with what is computed from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinInfo {
    /// The API server's URL.
    pub endpoint: String,
    /// The CA's certificate, PEM.
    pub ca_cert: String,
    /// `sha256:…` over the CA's public key, as kubeadm's `--discovery-token-ca-cert-hash` wants it.
    pub ca_hash: String,
    /// The kubeconfig without credentials, YAML.
    pub kubeconfig: String,
}

#[derive(Deserialize)]
struct Kubeconfig {
    clusters: Vec<NamedCluster>,
}

#[derive(Deserialize)]
struct NamedCluster {
    cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority_data: String,
}

/// The ConfigMap `cluster-info` in `kube-public`.
///
/// # Errors
/// When there is none, or the API server does not answer or refuses.
pub async fn info(kube: &Kube) -> Result<ConfigMapData, OpError> {
    kube.config_map("kube-public", "cluster-info").await.map_err(|error| {
        if error.kind == KubeErrorKind::NotFound {
            OpError::Missing(
                "there is no ConfigMap kube-public/cluster-info: no machine can join (kubeadm init phase bootstrap-token makes it)".to_owned(),
            )
        } else {
            error.into()
        }
    })
}

/// What a joining machine needs.
///
/// # Errors
/// When `cluster-info` is missing or cannot be read as a kubeconfig with a CA.
pub async fn join(kube: &Kube) -> Result<JoinInfo, OpError> {
    let info = info(kube).await?;
    parse(info.get("kubeconfig").unwrap_or_default())
        .map_err(|what| OpError::Missing(format!("ConfigMap kube-public/cluster-info {what}")))
}

/// The cluster's root CA, PEM, from the ConfigMap that every namespace has.
///
/// # Errors
/// When it is missing, or the API server does not answer or refuses.
pub async fn root_ca(kube: &Kube) -> Result<String, OpError> {
    let data = kube.config_map(kube.namespace(), "kube-root-ca.crt").await?;
    data.get("ca.crt").map(str::to_owned).ok_or_else(|| {
        OpError::Missing(format!("ConfigMap {}/kube-root-ca.crt has no ca.crt", kube.namespace()))
    })
}

fn parse(kubeconfig: &str) -> Result<JoinInfo, String> {
    let parsed: Kubeconfig =
        serde_saphyr::from_str(kubeconfig).map_err(|e| format!("has no readable kubeconfig: {e}"))?;
    let cluster = parsed.clusters.into_iter().next().ok_or("names no cluster")?.cluster;
    let pem = data_encoding::BASE64
        .decode(cluster.certificate_authority_data.trim().as_bytes())
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or("has a CA that is not base64")?;
    let certificate = x509_cert::Certificate::from_pem(pem.as_bytes())
        .map_err(|e| format!("has a CA that cannot be read: {e}"))?;
    let key = certificate
        .tbs_certificate
        .subject_public_key_info
        .to_der()
        .map_err(|e| format!("has a CA whose key cannot be read: {e}"))?;
    Ok(JoinInfo {
        endpoint: cluster.server,
        ca_hash: format!("sha256:{}", data_encoding::HEXLOWER.encode(&Sha256::digest(&key))),
        ca_cert: pem,
        kubeconfig: kubeconfig.to_owned(),
    })
}
