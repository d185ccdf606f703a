//! HTTP with ARA: one client, credentials on every request, bounded in time and size, every way to fail named.

use std::error::Error;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Certificate, Client, Response, StatusCode, Url, redirect};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::AraError;
use crate::config::{self, AraCredentials};

/// How long a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(4);
/// How long one request may take, with its answer. ARA needs seconds for a full page on a slow machine.
const REQUEST_LIMIT: Duration = Duration::from_secs(20);
/// The largest answer that is read: a result holds all of a command's output.
const ANSWER_LIMIT: usize = 64 * 1024 * 1024;
/// How much of an answer that we don't expect is repeated.
const QUOTE_LIMIT: usize = 120;

/// The client and where it goes.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    client: Client,
    /// With a slash at its end.
    base: Url,
    /// The base as people know it.
    name: String,
    identified: bool,
}

/// One page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct Page<T> {
    /// How many there are in all.
    pub(super) count: u64,
    /// The URL of the next page. Only whether there is one matters: behind a proxy it names the wrong server.
    pub(super) next: Option<String>,
    pub(super) results: Vec<T>,
}

impl Transport {
    pub(super) fn new(settings: &config::Ara) -> Result<Self, AraError> {
        let name = settings.url.trim_end_matches('/').trim_end_matches("/api/v1").to_owned();
        let base = base(&name)?;
        let identified = !matches!(settings.credentials, AraCredentials::Anonymous);
        // Without one the client panics; `main` has installed it, a test need not.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // It fails when somebody else was quicker, who installed the same.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let mut builder = Client::builder()
            .default_headers(headers(&settings.credentials)?)
            .connect_timeout(CONNECT_LIMIT)
            .timeout(REQUEST_LIMIT)
            // A login page answers with one, and a password must not follow it.
            .redirect(redirect::Policy::none())
            .user_agent(concat!("hostwright/", env!("CARGO_PKG_VERSION")));
        if base.host_str().is_some_and(crate::domain::is_here) {
            builder = builder.no_proxy();
        }
        if let Some(path) = &settings.ca {
            let bad = |reason: String| AraError::Ca { path: path.clone(), reason };
            let pem = std::fs::read(path).map_err(|e| bad(e.to_string()))?;
            let certificates = Certificate::from_pem_bundle(&pem).map_err(|e| bad(root_cause(&e)))?;
            if certificates.is_empty() {
                return Err(bad("there is no certificate in it".into()));
            }
            builder = builder.tls_certs_merge(certificates);
        }
        let client = builder.build().map_err(|e| AraError::Url(root_cause(&e)))?;
        Ok(Self { client, base, name, identified })
    }

    /// One page of a list.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        list: &str,
        query: &[(&str, &str)],
    ) -> Result<Page<T>, AraError> {
        self.get(list, query, "API at /api/v1").await
    }

    /// Something under `/api/v1`; `what` is said to be missing on 404.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        what: &str,
    ) -> Result<T, AraError> {
        let url = self.base.join(path).map_err(|e| AraError::Url(e.to_string()))?;
        let asked = self.client.get(url).query(query).send().await;
        let mut response = asked.map_err(|e| self.broken(&e))?;
        self.expect_json(&response, what)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.broken(&e))? {
            if body.len() + chunk.len() > ANSWER_LIMIT {
                return Err(self.malformed(format!("it is larger than {} MiB", ANSWER_LIMIT / 1024 / 1024)));
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).map_err(|e| self.malformed(e.to_string()))
    }

    fn expect_json(&self, response: &Response, what: &str) -> Result<(), AraError> {
        let url = || self.name.clone();
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let html = kind.starts_with("text/html");
        match status {
            StatusCode::UNAUTHORIZED if self.identified => Err(AraError::NotAuthenticated { url: url() }),
            StatusCode::UNAUTHORIZED => Err(AraError::WantsCredentials { url: url() }),
            StatusCode::FORBIDDEN => Err(AraError::Forbidden { url: url() }),
            StatusCode::NOT_FOUND => Err(AraError::NotFound { url: url(), what: what.to_owned() }),
            _ if status.is_redirection() => {
                let to = response.headers().get(LOCATION).and_then(|v| v.to_str().ok()).unwrap_or_default();
                // What follows a question mark may be a secret of the login page's.
                let to: String =
                    to.split(['?', '#']).next().unwrap_or_default().chars().take(QUOTE_LIMIT).collect();
                Err(AraError::NotAra { url: url(), reason: format!("it sends us on to {to}") })
            }
            _ if !status.is_success() => {
                Err(AraError::Failed { url: url(), reason: format!("HTTP status {status}") })
            }
            _ if html => Err(AraError::NotAra { url: url(), reason: "it sends a web page".into() }),
            _ => Ok(()),
        }
    }

    fn broken(&self, error: &reqwest::Error) -> AraError {
        let url = self.name.clone();
        let reason = root_cause(error);
        if error.is_timeout() {
            let limit = if error.is_connect() { CONNECT_LIMIT } else { REQUEST_LIMIT };
            AraError::TimedOut { url, seconds: limit.as_secs() }
        } else if reason.contains("certificate") || reason.contains("TLS") {
            AraError::Tls { url, reason }
        } else {
            AraError::Unreachable { url, reason }
        }
    }

    fn malformed(&self, reason: String) -> AraError {
        AraError::Malformed { url: self.name.clone(), reason }
    }
}

fn base(name: &str) -> Result<Url, AraError> {
    let base = Url::parse(&format!("{name}/api/v1/")).map_err(|e| AraError::Url(e.to_string()))?;
    if !matches!(base.scheme(), "http" | "https") {
        return Err(AraError::Url("it starts neither with http:// nor with https://".into()));
    }
    if !base.username().is_empty() || base.password().is_some() {
        return Err(AraError::Url("it holds credentials".into()));
    }
    if base.query().is_some() || base.fragment().is_some() {
        return Err(AraError::Url("it has a query or a fragment".into()));
    }
    Ok(base)
}

fn headers(credentials: &AraCredentials) -> Result<HeaderMap, AraError> {
    let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
    let (name, text) = match credentials {
        AraCredentials::Anonymous => return Ok(headers),
        AraCredentials::Basic { username, password } => {
            if username.contains(':') {
                return Err(AraError::Credentials("a user's name has no colon".into()));
            }
            let pair = format!("{username}:{}", password.reveal());
            (AUTHORIZATION, format!("Basic {}", data_encoding::BASE64.encode(pair.as_bytes())))
        }
        AraCredentials::Bearer(token) => (AUTHORIZATION, format!("Bearer {}", token.reveal())),
        AraCredentials::Header { name, value } => {
            let bad = |_| AraError::Credentials(format!("{name:?} is no name of a header"));
            (HeaderName::try_from(name.as_str()).map_err(bad)?, value.reveal().to_owned())
        }
    };
    let bad =
        |_| AraError::Credentials(format!("what belongs in header {name} has characters that it cannot"));
    let mut value = HeaderValue::try_from(text).map_err(bad)?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(headers)
}

/// The innermost cause: what the others wrap says where we were, which we say ourselves, and repeats the URL.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let text = cause.to_string();
    // "Connection refused (os error 111)"
    text.split(" (os error").next().unwrap_or_default().chars().take(2 * QUOTE_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    fn new(url: &str, credentials: AraCredentials) -> Result<Transport, AraError> {
        Transport::new(&config::Ara { url: url.into(), credentials, ca: None })
    }

    #[test]
    fn a_url_is_taken_as_people_write_it() {
        for url in ["https://a/ara", "https://a/ara/", "https://a/ara/api/v1", "https://a/ara/api/v1/"] {
            let transport = new(url, AraCredentials::Anonymous).unwrap();
            assert_eq!(transport.base.join("playbooks").unwrap().as_str(), "https://a/ara/api/v1/playbooks");
            assert_eq!(transport.name, "https://a/ara");
        }
        for url in ["", "ara", "ftp://a", "https://ann:hunter2@a", "https://a?x=1"] {
            let error = new(url, AraCredentials::Anonymous).unwrap_err();
            assert!(matches!(error, AraError::Url(_)), "{url:?}: {error}");
            assert!(!format!("{error:?}{}", error.problem()).contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn credentials_go_into_headers_and_nowhere_else() {
        let secret = || Secret::new("hunter2");
        let basic = AraCredentials::Basic { username: "ann".into(), password: secret() };
        assert_eq!(headers(&basic).unwrap().get(AUTHORIZATION).unwrap(), "Basic YW5uOmh1bnRlcjI=");
        let bearer = AraCredentials::Bearer(secret());
        assert_eq!(headers(&bearer).unwrap().get(AUTHORIZATION).unwrap(), "Bearer hunter2");
        let header = AraCredentials::Header { name: "X-Api-Key".into(), value: secret() };
        assert_eq!(headers(&header).unwrap().get("x-api-key").unwrap(), "hunter2");
        assert!(!format!("{:?}", new("https://a", header).unwrap()).contains("hunter2"));
        let bad = AraCredentials::Header { name: "X-Api-Key".into(), value: Secret::new("hunter2\n") };
        let error = headers(&bad).unwrap_err();
        assert!(matches!(error, AraError::Credentials(_)) && !error.to_string().contains("hunter2"));
    }
}
