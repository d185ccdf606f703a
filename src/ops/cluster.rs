//! What a machine needs to join the cluster: `cluster-info`, and the cluster's root CA; and all that is known of the cluster.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::OpError;
use crate::backend::kube::{ConfigMapData, Kube, KubeErrorKind};
use crate::domain::Problem;
use crate::domain::cluster::{Certificate, ClusterInfo, Served};

/// What `cluster-info` says, with what is computed from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinInfo {
    /// The API server's URL.
    pub endpoint: String,
    /// The same as `HOST:PORT`, an IPv6 address in brackets: what kubeadm and load balancers take.
    pub server: String,
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

/// All that is known of the cluster. What cannot be read is named among the problems: the rest is worth showing.
pub async fn look(kube: &Kube) -> ClusterInfo {
    let (version, served, join, root) = tokio::join!(kube.ping(), served(kube), join(kube), root_ca(kube));
    let mut problems = Vec::new();
    let version = version.map_err(|e| problems.push(e.problem("API server"))).ok();
    let served = served.map_err(|e| problems.push(e.problem("API server's certificate"))).ok();
    let join = join.map_err(|e| problems.push(e.problem("cluster-info"))).ok();
    let root = root.map_err(|e| problems.push(e.problem("kube-root-ca.crt"))).ok();
    let mut chain = |pem: Option<&str>, subject: &str| match pem.map(certificates) {
        Some(Ok(chain)) => chain,
        Some(Err(what)) => {
            let text = format!("{subject} has a CA that cannot be read: {what}");
            problems.push(Problem::new(subject, crate::domain::ProblemKind::Failed, text));
            Vec::new()
        }
        None => Vec::new(),
    };
    let join_ca = chain(join.as_ref().map(|join| join.ca_cert.as_str()), "cluster-info");
    let root_ca = chain(root.as_deref(), "kube-root-ca.crt");
    let trusted = |chain: &[Certificate]| {
        chain.iter().map(|c| c.fingerprint.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    let known = !join_ca.is_empty() && !root_ca.is_empty();
    ClusterInfo {
        server: kube.place(),
        version,
        served,
        join_server: join.map(|join| join.endpoint),
        same_ca: known.then(|| trusted(&join_ca) == trusted(&root_ca)),
        join_ca,
        root_ca,
        problems,
    }
}

/// How the API server shows itself.
///
/// # Errors
/// When it does not answer, or shows a certificate that cannot be read.
pub async fn served(kube: &Kube) -> Result<Served, OpError> {
    let Some(der) = kube.served_certificate().await? else { return Ok(Served::Plain) };
    let unreadable = |what: String| OpError::Missing(format!("the API server's certificate {what}"));
    let certificate =
        x509_cert::Certificate::from_der(&der).map_err(|e| unreadable(format!("cannot be read: {e}")))?;
    read(&certificate).map(Served::Tls).map_err(unreadable)
}

/// The certificates of a PEM text.
fn certificates(pem: &str) -> Result<Vec<Certificate>, String> {
    let chain = x509_cert::Certificate::load_pem_chain(pem.as_bytes()).map_err(|e| e.to_string())?;
    chain.iter().map(read).collect()
}

fn read(certificate: &x509_cert::Certificate) -> Result<Certificate, String> {
    let tbs = &certificate.tbs_certificate;
    let der = certificate.to_der().map_err(|e| e.to_string())?;
    let key =
        tbs.subject_public_key_info.to_der().map_err(|e| format!("has a key that cannot be read: {e}"))?;
    let time = |time: x509_cert::time::Time| {
        i64::try_from(time.to_unix_duration().as_secs())
            .ok()
            .and_then(|seconds| Timestamp::from_second(seconds).ok())
            .unwrap_or(Timestamp::MAX)
    };
    let names = match tbs.get::<SubjectAltName>() {
        Ok(names) => names.map(|(_, names)| names.0).unwrap_or_default(),
        Err(error) => return Err(format!("has names that cannot be read: {error}")),
    };
    let bytes: Vec<String> = Sha256::digest(&der).iter().map(|byte| format!("{byte:02X}")).collect();
    Ok(Certificate {
        subject: tbs.subject.to_string(),
        issuer: tbs.issuer.to_string(),
        names: names.iter().filter_map(name).collect(),
        begins: time(tbs.validity.not_before),
        expires: time(tbs.validity.not_after),
        fingerprint: bytes.join(":"),
        key_hash: format!("sha256:{}", data_encoding::HEXLOWER.encode(&Sha256::digest(&key))),
    })
}

fn name(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
            let address = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()?;
            Some(address.to_string())
        }
        GeneralName::UniformResourceIdentifier(uri) => Some(uri.to_string()),
        _ => None,
    }
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
    // While a CA is being replaced there are two; the hash of either would do.
    let chain = certificates(&pem).map_err(|e| format!("has a CA that cannot be read: {e}"))?;
    let first = chain.into_iter().next().ok_or("has no CA")?;
    let server = host_port(&cluster.server)
        .ok_or_else(|| format!("names a server that is no URL of one: {}", cluster.server))?;
    Ok(JoinInfo {
        endpoint: cluster.server,
        server,
        ca_hash: first.key_hash,
        ca_cert: pem,
        kubeconfig: kubeconfig.to_owned(),
    })
}

/// `HOST:PORT` of a server's URL, in a form that a shell takes as it is.
fn host_port(url: &str) -> Option<String> {
    let uri: http::Uri = url.trim().parse().ok()?;
    let host = uri.host()?;
    let port = match uri.scheme_str() {
        Some("https") => 443,
        // That of the playground.
        Some("http") => 80,
        _ => return None,
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._[]:".contains(&b);
    host.bytes().all(plain).then(|| format!("{host}:{}", uri.port_u16().unwrap_or(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_place_is_safe_in_a_shell_and_has_brackets_and_a_port() {
        for (url, place) in [
            ("https://[2001:db8::1]:6443", Some("[2001:db8::1]:6443")),
            ("https://[2001:db8::1]", Some("[2001:db8::1]:443")),
            ("https://k8s.example.org:6443/", Some("k8s.example.org:6443")),
            ("https://10.0.0.1", Some("10.0.0.1:443")),
            ("http://127.0.0.1:8001", Some("127.0.0.1:8001")),
            ("https://2001:db8::1:6443", None),
            ("https://a$(id):1", None),
            ("https://a;b:1", None),
            ("ftp://a:1", None),
            ("a:1", None),
            ("", None),
        ] {
            assert_eq!(host_port(url).as_deref(), place, "{url}");
        }
    }

    const CA: &str = include_str!("../../tests/data/ca.pem");

    #[test]
    fn a_certificate_is_read_as_openssl_reads_it() {
        // openssl x509 -fingerprint -sha256; openssl x509 -pubkey | openssl pkey -pubin -outform der | sha256sum
        let read = certificates(CA).unwrap().remove(0);
        assert_eq!((read.subject.as_str(), read.issuer.as_str()), ("CN=test-ca", "CN=test-ca"));
        assert_eq!(read.expires.to_string(), "2126-11-07T15:06:09Z");
        assert_eq!(
            read.fingerprint,
            "16:EE:21:6D:25:D1:72:60:25:58:45:FA:29:DF:84:13:65:60:97:F1:ED:EC:77:CB:B5:44:AD:40:D2:2A:D7:4F"
        );
        assert_eq!(read.key_hash, "sha256:71c5ab64b5e1c7b82df5d516b75e9561b0daa870d8c27f93132b191d859713f1");
        assert_eq!(certificates(&format!("{CA}{CA}")).unwrap().len(), 2);
        assert!(certificates("no certificate").is_err());
    }
}
