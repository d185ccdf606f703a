//! The server's certificate, replaced while it runs, and who its clients are.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::watch;

use super::KubeAuthError;
use super::files::{Followed, Parsed};

/// A certificate chain with its key.
#[derive(Debug)]
pub(super) struct Certificate(Arc<CertifiedKey>);

/// Reads chain and key; a pair that does not match, as between two renames, is refused.
pub(super) fn certificate(contents: &[Vec<u8>]) -> Result<Parsed<Certificate>, String> {
    let [chain, key] = contents else { return Err("needs a certificate and its key".to_owned()) };
    let chain = certificates(chain)?;
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|_| "the key is no private key in PEM".to_owned())?;
    let provider = rustls::crypto::ring::default_provider();
    let entries = chain.len();
    let pair = CertifiedKey::from_der(chain, key, &provider).map_err(|error| error.to_string())?;
    Ok(Parsed { value: Certificate(Arc::new(pair)), entries, warnings: Vec::new() })
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err("holds no certificate in PEM".to_owned()),
        Err(error) => Err(format!("a certificate cannot be read: {error}")),
    }
}

/// What proves that a client is the API server. Probes have no certificate: they are let in, and asked for one by what they may not
/// see.
pub(super) fn clients(ca: &Path) -> Result<Arc<dyn ClientCertVerifier>, KubeAuthError> {
    let wrong = |problem: String| KubeAuthError::ClientCa { path: ca.display().to_string(), problem };
    let pem = std::fs::read(ca).map_err(|error| wrong(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&pem).map_err(wrong)? {
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated()
        .build()
        .map_err(|error| wrong(error.to_string()))
}

/// How connections are encrypted.
pub(super) fn server(
    certificate: watch::Receiver<Followed<Certificate>>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(Newest(certificate)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The newest good certificate.
#[derive(Debug)]
struct Newest(watch::Receiver<Followed<Certificate>>);

impl ResolvesServerCert for Newest {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.borrow().good.as_ref().map(|certificate| Arc::clone(&certificate.0))
    }
}
