//! The webhook that an API server asks who a bearer token is (TokenReview) and what a user may do (SubjectAccessReview):
//! `hostwright kube-auth`.
//!
//! Its files are reloaded while it runs, and a broken one leaves the last good one (`files`). Only what has been read whole is
//! ever answered from: a request sees one set of tokens or one policy, the old or the new.

mod accept;
mod files;
mod metrics;
mod reviews;
mod tls;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::domain::kube_auth::{Identity, LineNote, Policies, Read, TokenEntry, parse_tokens};
use files::{Followed, Parsed};

/// How long what is under way may take once the server is to end.
const DRAIN: Duration = Duration::from_secs(5);

/// Which files, and how they are served.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Where it listens: address and port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8471")]
    pub listen: SocketAddr,
    /// The token file: token,user,uid,"group,group"
    #[arg(long, value_name = "FILE")]
    pub tokens: PathBuf,
    /// The ABAC policy: one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub policy: PathBuf,
    /// The server's certificate and those between it and the CA, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_cert: PathBuf,
    /// The certificate's private key, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: PathBuf,
    /// The CA that signed the API server's client certificate, PEM; without it everybody who reaches the port may ask
    #[arg(long, value_name = "FILE")]
    pub client_ca: Option<PathBuf>,
}

/// Why it does not start.
#[derive(Debug, thiserror::Error)]
pub enum KubeAuthError {
    /// The client CA cannot be used. It is the only file that must be right at the start: nobody must be let in for its lack.
    #[error("the client CA {path}: {problem}")]
    ClientCa {
        /// The file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// No way to encrypt connections can be set up.
    #[error("no encrypted connections can be served: {0}")]
    Tls(rustls::Error),
    /// The system gives no random bytes.
    #[error("there are no random bytes to be had: {0}")]
    Random(getrandom::Error),
}

/// The tokens of a file, as they are kept: their digests under a key of this process. A look-up tells nothing of a token by the time
/// it takes, and a memory dump holds none.
struct Tokens {
    key: [u8; 32],
    by_digest: HashMap<[u8; 32], Identity>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("count", &self.by_digest.len()).finish_non_exhaustive()
    }
}

impl Tokens {
    fn new(entries: Vec<TokenEntry>, key: [u8; 32]) -> Self {
        let by_digest = entries.into_iter().map(|e| (digest(&key, &e.token), e.identity)).collect();
        Self { key, by_digest }
    }

    /// Whose token it is.
    fn identity(&self, token: &str) -> Option<&Identity> {
        let asked = digest(&self.key, token);
        let (found, identity) = self.by_digest.get_key_value(&asked)?;
        bool::from(found.ct_eq(&asked)).then_some(identity)
    }
}

fn digest(key: &[u8; 32], token: &str) -> [u8; 32] {
    // The key may have any length: this cannot fail.
    let Ok(mut hmac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    hmac.update(token.as_bytes());
    hmac.finalize().into_bytes().into()
}

/// What the requests are answered from.
#[derive(Debug, Clone)]
struct Known {
    tokens: watch::Receiver<Followed<Tokens>>,
    policy: watch::Receiver<Followed<Policies>>,
    certificate: watch::Receiver<Followed<tls::Certificate>>,
    metrics: Arc<metrics::Metrics>,
    clients_are_known: bool,
}

/// Serves until `shutdown`, then ends what is under way.
///
/// # Errors
/// When the client CA cannot be used.
pub async fn run(
    listener: TcpListener,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), KubeAuthError> {
    let clients = options.client_ca.as_deref().map(tls::clients).transpose()?;
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(KubeAuthError::Random)?;
    let read_tokens = move |contents: &[Vec<u8>]| {
        let read = parse_tokens(only(contents)).map_err(|note| note.to_string())?;
        Ok(parsed(read, Vec::len, |entries| Tokens::new(entries, key)))
    };
    let read_policy = |contents: &[Vec<u8>]| {
        let read = Policies::parse(only(contents)).map_err(|note| note.to_string())?;
        Ok(parsed(read, Policies::len, |policies| policies))
    };
    let following = CancellationToken::new();
    let metrics = Arc::new(metrics::Metrics::default());
    let follow = files::Follow { shutdown: following.clone(), metrics: Arc::clone(&metrics) };
    let pair = vec![options.tls_cert, options.tls_key];
    let ((tokens, tokens_task), (policy, policy_task), (certificate, certificate_task)) = tokio::join!(
        follow.start("tokens", vec![options.tokens], read_tokens),
        follow.start("policy", vec![options.policy], read_policy),
        follow.start("certificate", pair, tls::certificate),
    );
    let clients_are_known = clients.is_some();
    let known = Known { tokens, policy, certificate, metrics, clients_are_known };
    let config = tls::server(known.certificate.clone(), clients).map_err(KubeAuthError::Tls)?;
    accept::serve(listener, reviews::routes(known), config, DRAIN, shutdown).await;
    following.cancel();
    for task in [tokens_task, policy_task, certificate_task] {
        if task.await.is_err() {
            tracing::error!("a file was followed no longer: its task ended with a panic");
        }
    }
    Ok(())
}

fn only(contents: &[Vec<u8>]) -> &[u8] {
    contents.first().map(Vec::as_slice).unwrap_or_default()
}

fn parsed<T, U>(read: Read<T>, count: impl Fn(&T) -> usize, keep: impl FnOnce(T) -> U) -> Parsed<U> {
    let warnings = read.warnings.iter().map(LineNote::to_string).collect();
    Parsed { entries: count(&read.value), warnings, value: keep(read.value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_by_all_of_their_bytes_and_not_kept() {
        let read = parse_tokens(b"abc,alice,1\nabcd,bob,2,\"x,y\"\n").unwrap();
        let tokens = Tokens::new(read.value, [7; 32]);
        assert_eq!(tokens.identity("abc").unwrap().username, "alice");
        assert_eq!(tokens.identity("abcd").unwrap().groups, ["x", "y"]);
        for other in ["", "ab", "abcde", "ABC", "abc "] {
            assert!(tokens.identity(other).is_none(), "{other}");
        }
        assert_eq!(format!("{tokens:?}"), "Tokens { count: 2, .. }");
    }
}
