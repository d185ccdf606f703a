//! The shared config and credentials files: <https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html>.

use std::path::{Path, PathBuf};

use aws_config::profile::ProfileSet;
use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};
use aws_types::os_shim_internal::{Env, Fs};

use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::text::chain;

pub(super) use aws_config::profile::Profile;

/// How many profiles may name each other as their source.
const LONGEST_CHAIN: usize = 8;

/// All profiles of both files.
pub(super) struct Profiles {
    all: ProfileSet,
    files: EnvConfigFiles,
}

/// How a profile gets its credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// Keys that stand in the file.
    Keys,
    /// As the SDK itself does it: SSO, a process, a web identity's token.
    Sdk,
    /// A session of the keys' user that an MFA device vouches for.
    Session {
        /// The device's serial number or ARN.
        serial: String,
        /// How long, in seconds; none: AWS's default.
        seconds: Option<i32>,
    },
    /// A role.
    Role(Box<Role>),
}

/// A role that a profile takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Role {
    /// Its ARN.
    pub(super) arn: String,
    /// With whose credentials it is taken.
    pub(super) from: From,
    /// What the role's owner asks for besides.
    pub(super) external_id: Option<String>,
    /// The session's name; none: ours.
    pub(super) session: Option<String>,
    /// How long, in seconds; none: AWS's default.
    pub(super) seconds: Option<i32>,
    /// The MFA device, if the role wants one.
    pub(super) serial: Option<String>,
}

/// Whose credentials a role is taken with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum From {
    /// Another profile's.
    Profile(String, Source),
    /// `Environment`, `Ec2InstanceMetadata` or `EcsContainer`.
    Machine(String),
}

impl Profiles {
    /// Reads both files; those that are not there have no profiles. `credentials` is read in place of the operator's own file.
    pub(super) async fn load(credentials: Option<&Path>) -> Result<Self, AwsError> {
        let files = match credentials {
            None => EnvConfigFiles::default(),
            Some(path) => EnvConfigFiles::builder()
                .include_default_config_file(true)
                .with_file(EnvConfigFileKind::Credentials, path)
                .build(),
        };
        let read = aws_config::profile::load(&Fs::real(), &Env::real(), &files, None).await;
        // The SDK's error names file and line, and no value.
        let wrong = |error| AwsError::new(AwsErrorKind::Invalid, "read the AWS profiles", chain(&error));
        Ok(Self { all: read.map_err(wrong)?, files })
    }

    /// The files that were read.
    pub(super) fn files(&self) -> &EnvConfigFiles {
        &self.files
    }

    /// A profile by its name.
    pub(super) fn get(&self, name: &str) -> Option<&Profile> {
        self.all.get_profile(name)
    }

    /// All names, sorted.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.all.profiles().collect();
        names.sort_unstable();
        names
    }

    /// How a profile gets its credentials.
    pub(super) fn source(&self, name: &str) -> Result<Source, AwsError> {
        self.source_within(name, &mut Vec::new())
    }

    fn source_within(&self, name: &str, seen: &mut Vec<String>) -> Result<Source, AwsError> {
        let wrong = |text: String| AwsError::new(AwsErrorKind::Invalid, "read the AWS profiles", text);
        let Some(profile) = self.get(name) else {
            let from = seen.last().map_or_else(String::new, |by| format!(", which {by} names as its source"));
            return Err(wrong(format!("there is no profile {name}{from}")));
        };
        seen.push(format!("profile {name}"));
        if seen.len() > LONGEST_CHAIN {
            return Err(wrong(format!("the profiles lead to each other: {}", seen.join(", then "))));
        }
        let text = |key: &str| profile.get(key).map(str::trim).filter(|text| !text.is_empty());
        let serial = text("mfa_serial").map(str::to_owned);
        let seconds = seconds(name, text("duration_seconds")).map_err(wrong)?;
        let Some(arn) = text("role_arn").filter(|_| text("web_identity_token_file").is_none()) else {
            return Ok(match (serial, text("aws_access_key_id")) {
                (Some(serial), Some(_)) => Source::Session { serial, seconds },
                (None, Some(_)) => Source::Keys,
                _ => Source::Sdk,
            });
        };
        let from = match (text("source_profile"), text("credential_source")) {
            (Some(_), Some(_)) => {
                return Err(wrong(format!(
                    "profile {name} has a source_profile and a credential_source: keep one"
                )));
            }
            // It means the keys beside it, and not the role again.
            (Some(own), None) if own == name => From::Profile(own.to_owned(), Source::Keys),
            (Some(other), None) => From::Profile(other.to_owned(), self.source_within(other, seen)?),
            (None, Some(machine)) => From::Machine(machine.to_owned()),
            (None, None) => {
                return Err(wrong(format!(
                    "profile {name} has a role_arn: give its source_profile or credential_source"
                )));
            }
        };
        Ok(Source::Role(Box::new(Role {
            arn: arn.to_owned(),
            from,
            external_id: text("external_id").map(str::to_owned),
            session: text("role_session_name").map(str::to_owned),
            seconds,
            serial,
        })))
    }
}

fn seconds(name: &str, text: Option<&str>) -> Result<Option<i32>, String> {
    let Some(text) = text else { return Ok(None) };
    match text.parse() {
        Ok(seconds @ 900..=129_600) => Ok(Some(seconds)),
        _ => Err(format!("duration_seconds of profile {name} is not a number from 900 to 129600")),
    }
}

/// Where the two files are, as the variables or the home folder say.
pub(super) fn files() -> [PathBuf; 2] {
    let home = || std::env::home_dir().unwrap_or_default();
    let file = |variable: &str, name: &str| {
        std::env::var_os(variable)
            .filter(|path| !path.is_empty())
            .map_or_else(|| home().join(".aws").join(name), PathBuf::from)
    };
    [file("AWS_CONFIG_FILE", "config"), file("AWS_SHARED_CREDENTIALS_FILE", "credentials")]
}
