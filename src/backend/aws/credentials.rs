//! Where credentials come from, in the order of the AWS command line.

use std::time::Duration;

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::ecs::EcsCredentialsProvider;
use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::imds::credentials::ImdsCredentialsProvider;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::sts::AssumeRoleProvider;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_types::SdkConfig;

use super::error::from_credentials;
use super::profile::{From, Profile, Profiles, Role, Source, files};
use super::session::{self, Vouched};
use super::{Origin, Request};
use crate::config::Secret;
use crate::domain::aws::{AwsError, AwsErrorKind};

const DOING: &str = "get AWS credentials";

/// What was found.
pub(super) struct Found {
    pub(super) provider: SharedCredentialsProvider,
    pub(super) origin: Origin,
}

/// Finds credentials and gets them once.
pub(super) async fn find(
    request: &Request,
    profiles: &Profiles,
    base: &SdkConfig,
    code: Option<&Secret>,
) -> Result<Found, AwsError> {
    let found = if of_variables() {
        whole()?;
        let origin = "AWS_ACCESS_KEY_ID".to_owned();
        Found {
            provider: SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new()),
            origin,
        }
    } else if profiles.get(&request.profile).is_some() {
        let source = profiles.source(&request.profile)?;
        let maker = Maker { profiles, base, code };
        let origin = format!("profile {}{}", request.profile, how(&source));
        Found { provider: maker.provider(&request.profile, &source).await?, origin }
    } else {
        of_machine(request, base).await
    };
    match found.provider.provide_credentials().await {
        Ok(_) => Ok(found),
        Err(CredentialsError::CredentialsNotLoaded(_)) => Err(nothing(request, profiles)),
        Err(error) => Err(from_credentials(&format!("{DOING} ({})", found.origin), &error)),
    }
}

/// The variables hold credentials, or at least the first of them: half of them is a mistake and not a reason to look elsewhere.
fn of_variables() -> bool {
    std::env::var("AWS_ACCESS_KEY_ID").is_ok_and(|id| !id.trim().is_empty())
}

/// Half of the variables is a mistake.
fn whole() -> Result<(), AwsError> {
    let secret = std::env::var("AWS_SECRET_ACCESS_KEY").is_ok_and(|secret| !secret.trim().is_empty());
    let text = "AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not: set both or neither";
    if secret { Ok(()) } else { Err(AwsError::new(AwsErrorKind::Invalid, DOING, text)) }
}

fn how(source: &Source) -> &'static str {
    match source {
        Source::Keys => "",
        Source::Sdk => " (SSO, a process or a web identity)",
        Source::Session { .. } => " (with MFA)",
        Source::Role(role) if role.serial.is_some() => " (a role with MFA)",
        Source::Role(_) => " (a role)",
    }
}

/// What the machine itself has: a web identity's token, a container's or an instance's role.
async fn of_machine(request: &Request, base: &SdkConfig) -> Found {
    let chain = DefaultCredentialsChain::builder().configure(provider_config(base));
    // The chain would look for the profile too, and complain of another one than ours.
    let chain = chain.profile_name(&request.profile).build().await;
    Found { provider: SharedCredentialsProvider::new(chain), origin: "this machine's own role".to_owned() }
}

/// The error of who has nothing at all: everything that was tried.
fn nothing(request: &Request, profiles: &Profiles) -> AwsError {
    let [config, credentials] = files();
    let credentials = request.credentials_file.clone().unwrap_or(credentials);
    let names = profiles.names();
    let others = match names.as_slice() {
        [] => "there are no profiles".to_owned(),
        names => format!("there are {}", names.join(", ")),
    };
    let text = format!(
        "there are none: AWS_ACCESS_KEY_ID is not set, {} and {} have no profile {} ({others}), and this machine has no role of its own",
        config.display(),
        credentials.display(),
        request.profile
    );
    AwsError::new(AwsErrorKind::NoCredentials, DOING, text)
}

fn provider_config(base: &SdkConfig) -> ProviderConfig {
    let mut config = ProviderConfig::without_region().with_region(base.region().cloned());
    if let Some(http) = base.http_client() {
        config = config.with_http_client(http);
    }
    config
}

/// Makes the providers of profiles.
struct Maker<'a> {
    profiles: &'a Profiles,
    base: &'a SdkConfig,
    code: Option<&'a Secret>,
}

impl Maker<'_> {
    /// The provider of a profile's credentials. A session that an MFA device vouches for is got at once: it needs the code.
    fn provider<'b>(
        &'b self,
        name: &'b str,
        source: &'b Source,
    ) -> futures_util::future::BoxFuture<'b, Result<SharedCredentialsProvider, AwsError>> {
        Box::pin(async move {
            match source {
                Source::Keys => Ok(SharedCredentialsProvider::new(self.keys(name)?)),
                Source::Sdk => Ok(SharedCredentialsProvider::new(
                    ProfileFileCredentialsProvider::builder()
                        .configure(&provider_config(self.base))
                        .profile_name(name)
                        .profile_files(self.profiles.files().clone())
                        .build(),
                )),
                Source::Session { serial, seconds } => {
                    let keys = SharedCredentialsProvider::new(self.keys(name)?);
                    let vouched = Vouched { serial, role: None, seconds: *seconds };
                    session::credentials(self.base, keys, &vouched, self.code)
                        .await
                        .map(SharedCredentialsProvider::new)
                }
                Source::Role(role) => self.role(role).await,
            }
        })
    }

    async fn role(&self, role: &Role) -> Result<SharedCredentialsProvider, AwsError> {
        let from = match &role.from {
            From::Profile(name, source) => self.provider(name, source).await?,
            From::Machine(word) => self.machine(word)?,
        };
        if let Some(serial) = &role.serial {
            let vouched = Vouched { serial, role: Some(role), seconds: role.seconds };
            return session::credentials(self.base, from, &vouched, self.code)
                .await
                .map(SharedCredentialsProvider::new);
        }
        let mut builder = AssumeRoleProvider::builder(&role.arn)
            .configure(self.base)
            .session_name(session::name(role.session.as_deref()));
        if let Some(id) = &role.external_id {
            builder = builder.external_id(id);
        }
        if let Some(seconds) = role.seconds {
            builder = builder.session_length(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
        }
        Ok(SharedCredentialsProvider::new(builder.build_from_provider(from).await))
    }

    fn machine(&self, word: &str) -> Result<SharedCredentialsProvider, AwsError> {
        let config = provider_config(self.base);
        Ok(match word {
            "Environment" => SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new()),
            "Ec2InstanceMetadata" => {
                SharedCredentialsProvider::new(ImdsCredentialsProvider::builder().configure(&config).build())
            }
            "EcsContainer" => {
                SharedCredentialsProvider::new(EcsCredentialsProvider::builder().configure(&config).build())
            }
            other => {
                let text = format!(
                    "credential_source {other:?} is not one of Environment, Ec2InstanceMetadata and EcsContainer"
                );
                return Err(AwsError::new(AwsErrorKind::Invalid, DOING, text));
            }
        })
    }

    /// The keys that stand in a profile.
    fn keys(&self, name: &str) -> Result<Credentials, AwsError> {
        let profile = self.profiles.get(name);
        let text = |key: &str| {
            profile.and_then(|profile: &Profile| profile.get(key)).filter(|text| !text.is_empty())
        };
        match (text("aws_access_key_id"), text("aws_secret_access_key")) {
            (Some(id), Some(secret)) => {
                let token = text("aws_session_token").map(str::to_owned);
                Ok(Credentials::new(id, secret, token, None, "profile"))
            }
            _ => {
                let text = format!("profile {name} has no aws_access_key_id and aws_secret_access_key");
                Err(AwsError::new(AwsErrorKind::NoCredentials, DOING, text))
            }
        }
    }
}
