//! The certificate that the API server shows, trusted or not: a handshake that ends as soon as it is seen.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{CONNECT_LIMIT, Kube, KubeError, KubeErrorKind};

const DOING: &str = "look at the API server's certificate";

impl Kube {
    /// The API server's own certificate in DER, as it is served to us; none when it speaks plain HTTP. It is looked at, not
    /// trusted: nothing else is sent.
    ///
    /// # Errors
    /// When the API server does not answer (a proxy is not asked), or speaks no TLS.
    pub async fn served_certificate(&self) -> Result<Option<Vec<u8>>, KubeError> {
        let refuse = |kind, why: &str| KubeError::new(kind, DOING, why);
        let uri: http::Uri =
            self.server.parse().map_err(|_| refuse(KubeErrorKind::Invalid, "its address is no URL"))?;
        if uri.scheme_str() != Some("https") {
            return Ok(None);
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let look = handshake(host, uri.port_u16().unwrap_or(443));
        match tokio::time::timeout(CONNECT_LIMIT, look).await {
            Ok(Ok(certificate)) => Ok(Some(certificate)),
            Ok(Err(error)) => Err(refuse(KubeErrorKind::Unreachable, &error.to_string())),
            Err(_) => Err(refuse(KubeErrorKind::Unreachable, "it does not answer")),
        }
    }

    /// The API server's address without what stands behind it: the playground's path holds its token.
    #[must_use]
    pub fn place(&self) -> String {
        let uri: http::Uri = self.server.parse().unwrap_or_default();
        let scheme = uri.scheme_str().unwrap_or("https");
        let host = uri.host().unwrap_or_default();
        uri.port_u16()
            .map_or_else(|| format!("{scheme}://{host}"), |port| format!("{scheme}://{host}:{port}"))
    }
}

async fn handshake(host: &str, port: u16) -> std::io::Result<Vec<u8>> {
    let other = std::io::Error::other::<String>;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let witness = Arc::new(Witness { provider: provider.clone(), seen: Mutex::new(None) });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| other(e.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(witness.clone())
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|e| other(e.to_string()))?;
    let mut tls = ClientConnection::new(Arc::new(config), name).map_err(|e| other(e.to_string()))?;
    let mut stream = TcpStream::connect((host, port)).await?;
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let mut out = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut out)?;
        }
        stream.write_all(&out).await?;
        let read = stream.read(&mut buffer).await?;
        let mut bytes = buffer.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            return Err(other("it hangs up during the TLS handshake".to_owned()));
        }
        while !bytes.is_empty() {
            tls.read_tls(&mut bytes)?;
            let done = tls.process_new_packets();
            if let Some(seen) = witness.seen.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Ok(seen);
            }
            done.map_err(|e| other(format!("it speaks no TLS that we know: {e}")))?;
        }
    }
}

/// Keeps the certificate that is shown, and trusts none.
#[derive(Debug)]
struct Witness {
    provider: Arc<CryptoProvider>,
    seen: Mutex<Option<Vec<u8>>>,
}

fn only_looked_at<T>() -> Result<T, rustls::Error> {
    Err(rustls::Error::General("it was only looked at".to_owned()))
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(certificate.as_ref().to_vec());
        only_looked_at()
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        only_looked_at()
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        only_looked_at()
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
