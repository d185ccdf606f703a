//! AWS: who we are there, in which region, and the key that the secrets are encrypted with.
//!
//! Credentials are looked for as the AWS command line does: the operator's variables, then a profile of the shared files, then what the
//! machine itself has (web identity, container, instance). A role with MFA, which the SDK does not do, is done here.

mod clock;
mod credentials;
mod error;
mod profile;
mod session;

use std::path::PathBuf;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region};
use aws_credential_types::provider::ProvideCredentials as _;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_types::SdkConfig;
use aws_types::sdk_config::{RetryConfig, TimeoutConfig};
use jiff::{SignedDuration, Timestamp};

use crate::config::{Permit, Secret};
use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::text::chain;

use error::{from_credentials, from_sdk};

/// How long a connection may take to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// How long an answer may take to begin.
const READ_LIMIT: Duration = Duration::from_secs(20);
/// How often a call is tried in all.
const TRIES: u32 = 4;

/// How an environment reaches AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The profile in the shared files, when there are no credentials in the variables.
    pub profile: String,
    /// A credentials file in place of the operator's own.
    pub credentials_file: Option<PathBuf>,
    /// The region that the environment asks for; none: that of the variables or the profile.
    pub region: Option<String>,
    /// The region when nothing else names one.
    pub default_region: String,
    /// The URL of an AWS server of one's own; none: AWS itself.
    pub endpoint: Option<String>,
}

/// Where something was found, in words for the operator.
pub type Origin = String;

/// The connection: credentials that renew themselves as far as they can, and the region. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Aws {
    config: SdkConfig,
    region: String,
    region_origin: Origin,
    credentials_origin: Origin,
    clock: clock::Clock,
}

/// Who we are to AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The account's number.
    pub account: String,
    /// The ARN of the user or the role's session.
    pub arn: String,
    /// How far this machine's clock is ahead of AWS's (negative: behind); none: the answer did not say.
    pub ahead: Option<SignedDuration>,
}

/// A KMS key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KmsKey {
    /// Its ARN, whatever it was asked for by.
    pub arn: String,
    /// Whether it can be used now.
    pub enabled: bool,
    /// Its state in AWS's word, for example `PendingDeletion`.
    pub state: String,
}

impl Aws {
    /// Finds credentials and tries them out as far as that costs no call, or only those calls that they need: a role is assumed, an
    /// instance asked. `code` is the six digits of an MFA device, after [`AwsErrorKind::NeedsCode`] asked for them.
    ///
    /// # Errors
    /// When there are none, they are incomplete or expired, or a code is needed.
    pub async fn connect(request: &Request, code: Option<&Secret>) -> Result<Self, AwsError> {
        let profiles = profile::Profiles::load(request.credentials_file.as_deref()).await?;
        let own = profiles.get(&request.profile);
        let (region, region_origin) = region(request, own);
        let http = http_client(is_here(request))?;
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(region.clone()))
            .http_client(http)
            .retry_config(RetryConfig::standard().with_max_attempts(TRIES))
            .timeout_config(
                TimeoutConfig::builder().connect_timeout(CONNECT_LIMIT).read_timeout(READ_LIMIT).build(),
            )
            .no_credentials();
        if own.is_some() {
            // Its endpoint_url counts too.
            loader = loader.profile_name(&request.profile).profile_files(profiles.files().clone());
        }
        if let Some(endpoint) = &request.endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        let base = loader.load().await;
        let found = credentials::find(request, &profiles, &base, code).await?;
        let config = base
            .into_builder()
            .credentials_provider(found.provider)
            .identity_cache(aws_config::identity::IdentityCache::lazy().build())
            .build();
        let clock = clock::Clock::default();
        Ok(Self { config, region, region_origin, credentials_origin: found.origin, clock })
    }

    /// What the SDK's clients are made from.
    #[must_use]
    pub fn sdk(&self) -> &SdkConfig {
        &self.config
    }

    /// The region, and where its name was found.
    #[must_use]
    pub fn region(&self) -> (&str, &str) {
        (&self.region, &self.region_origin)
    }

    /// Where the credentials were found.
    #[must_use]
    pub fn credentials_origin(&self) -> &str {
        &self.credentials_origin
    }

    /// When the credentials end, if they do.
    ///
    /// # Errors
    /// When they cannot be got any more.
    pub async fn expiry(&self) -> Result<Option<Timestamp>, AwsError> {
        let Some(provider) = self.config.credentials_provider() else { return Ok(None) };
        let doing = "get credentials";
        let credentials = provider.provide_credentials().await.map_err(|e| from_credentials(doing, &e))?;
        Ok(credentials.expiry().and_then(|at| Timestamp::try_from(at).ok()))
    }

    /// Asks AWS who we are.
    ///
    /// # Errors
    /// When it does not answer or does not take the credentials.
    pub async fn identity(&self) -> Result<Identity, AwsError> {
        let sts = aws_sdk_sts::config::Builder::from(&self.config).interceptor(self.clock.clone()).build();
        let call = aws_sdk_sts::Client::from_conf(sts).get_caller_identity().send();
        let ahead = |clock: &clock::Clock| clock.ahead();
        match call.await {
            Ok(answer) => Ok(Identity {
                account: answer.account.unwrap_or_default(),
                arn: answer.arn.unwrap_or_default(),
                ahead: ahead(&self.clock),
            }),
            Err(error) => Err(from_sdk("ask who we are", &error).with_clock(ahead(&self.clock))),
        }
    }

    /// Makes a KMS key and answers its ARN.
    ///
    /// # Errors
    /// When AWS does not do it.
    pub async fn create_kms_key(&self, _: &Permit, description: &str) -> Result<String, AwsError> {
        let doing = "make a KMS key";
        let call = aws_sdk_kms::Client::new(&self.config).create_key().description(description).send();
        let made = call.await.map_err(|error| from_sdk(doing, &error))?.key_metadata;
        let arn = made.and_then(|key| key.arn);
        arn.ok_or_else(|| AwsError::new(AwsErrorKind::Failed, doing, "the answer does not say which it is"))
    }

    /// Looks at a KMS key: its id, its ARN or an `alias/…`.
    ///
    /// # Errors
    /// When there is none, or we may not look.
    pub async fn kms_key(&self, key: &str) -> Result<KmsKey, AwsError> {
        let doing = format!("look at KMS key {key}");
        let call = aws_sdk_kms::Client::new(&self.config).describe_key().key_id(key).send();
        let answer = call.await.map_err(|error| from_sdk(&doing, &error))?;
        let Some(data) = answer.key_metadata else {
            return Err(AwsError::new(AwsErrorKind::Failed, doing, "the answer does not say which it is"));
        };
        let state = data.key_state.map_or_else(String::new, |state| state.as_str().to_owned());
        Ok(KmsKey { arn: data.arn.unwrap_or(data.key_id), enabled: data.enabled, state })
    }
}

/// Whether AWS is on this machine: no proxy is asked for it then.
fn is_here(request: &Request) -> bool {
    let of_variables = || std::env::var("AWS_ENDPOINT_URL").ok();
    let endpoint = request.endpoint.clone().or_else(of_variables);
    let uri = endpoint.and_then(|endpoint| endpoint.parse::<http::Uri>().ok());
    uri.is_some_and(|uri| uri.host().is_some_and(crate::domain::is_here))
}

/// HTTPS with the one TLS stack, through the proxy that the operator's variables name. `AWS_CA_BUNDLE` names more authorities to be
/// trusted, as it does for the AWS command line.
fn http_client(here: bool) -> Result<SharedHttpClient, AwsError> {
    let proxy = if here { ProxyConfig::disabled() } else { ProxyConfig::from_env() };
    let mut trusted = tls::TrustStore::default();
    if let Some(path) = std::env::var_os("AWS_CA_BUNDLE").filter(|path| !path.is_empty()) {
        let failed = |error: std::io::Error| {
            let text = format!("{}: {error}", path.display());
            AwsError::new(AwsErrorKind::Invalid, "read AWS_CA_BUNDLE", text)
        };
        trusted.add_pem_certificate(std::fs::read(&path).map_err(failed)?);
    }
    let context = tls::TlsContext::builder().with_trust_store(trusted).build();
    let wrong = |error| AwsError::new(AwsErrorKind::Invalid, "prepare TLS", chain(&error));
    let context = context.map_err(wrong)?;
    Ok(aws_smithy_http_client::Builder::new().build_with_connector_fn(move |settings, runtime| {
        let mut builder = aws_smithy_http_client::Connector::builder().proxy_config(proxy.clone());
        builder.set_connector_settings(settings.cloned());
        builder.set_sleep_impl(runtime.and_then(|components| components.sleep_impl()));
        let provider = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring);
        builder.tls_provider(provider).tls_context(context.clone()).build()
    }))
}

/// The environment's own region, else the variables', else the profile's, else the default.
fn region(request: &Request, profile: Option<&profile::Profile>) -> (String, Origin) {
    if let Some(region) = &request.region {
        return (region.clone(), "aws_region of the environment".to_owned());
    }
    for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
        if let Some(region) = std::env::var(name).ok().filter(|region| !region.is_empty()) {
            return (region, name.to_owned());
        }
    }
    if let Some(region) = profile.and_then(|profile| profile.get("region")) {
        return (region.to_owned(), format!("profile {}", request.profile));
    }
    (request.default_region.clone(), "the default".to_owned())
}
