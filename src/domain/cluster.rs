//! What is known of a cluster: its API server, its certificates, what it tells machines that join.

use jiff::Timestamp;
use serde::Serialize;

use super::Problem;

/// A certificate, as far as people look at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Certificate {
    /// Whom it is for.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
    /// The host names and addresses that it is good for; a CA has none.
    pub names: Vec<String>,
    /// From when it is good.
    pub begins: Timestamp,
    /// Until when.
    pub expires: Timestamp,
    /// SHA-256 of the whole certificate, `AB:CD:…`.
    pub fingerprint: String,
    /// `sha256:…` of the public key, as kubeadm's `--discovery-token-ca-cert-hash` wants it.
    pub key_hash: String,
}

/// How the API server shows itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Served {
    /// With this certificate.
    Tls(Certificate),
    /// Over plain HTTP, as only the playground's does.
    Plain,
}

/// What is known of a cluster; what could not be read is left out and named among the problems.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterInfo {
    /// The API server's URL.
    pub server: String,
    /// Its version.
    pub version: Option<String>,
    /// How it shows itself.
    pub served: Option<Served>,
    /// The API server that `cluster-info` sends machines to.
    pub join_server: Option<String>,
    /// The CAs that `cluster-info` has them trust.
    pub join_ca: Vec<Certificate>,
    /// The CAs that pods trust, from `kube-root-ca.crt`.
    pub root_ca: Vec<Certificate>,
    /// Whether the two are the same; none when one of them is not known.
    pub same_ca: Option<bool>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}
