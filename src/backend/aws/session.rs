//! Sessions that an MFA device vouches for. The code is asked for once; the session is kept, for its owner only, until it ends.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sdk_sts::types::Credentials as Issued;
use aws_types::SdkConfig;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::error::{from_credentials, from_sdk};
use super::profile::Role;
use crate::config::Secret;
use crate::domain::aws::{AwsError, AwsErrorKind};

/// A session that ends within this time is as good as ended.
const MARGIN: Duration = Duration::from_secs(60);
/// The most that is read of a kept session.
const LIMIT: u64 = 64 * 1024;

/// What the device vouches for.
pub(super) struct Vouched<'a> {
    /// The device's serial number or ARN.
    pub(super) serial: &'a str,
    /// The role; none: the user's own session.
    pub(super) role: Option<&'a Role>,
    /// How long, in seconds.
    pub(super) seconds: Option<i32>,
}

/// A kept session.
#[derive(Serialize, Deserialize)]
struct Kept {
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    expires: Timestamp,
}

impl Kept {
    fn is_good(&self, now: Timestamp) -> bool {
        now + MARGIN < self.expires
    }

    fn credentials(self) -> Credentials {
        let expires = SystemTime::from(self.expires);
        Credentials::new(
            self.access_key_id,
            self.secret_access_key,
            Some(self.session_token),
            Some(expires),
            "mfa",
        )
    }
}

/// A role session's name: what AWS's own log calls us.
pub(super) fn name(own: Option<&str>) -> String {
    let user = || std::env::var("USER").unwrap_or_default();
    let legal = |c: &char| c.is_ascii_alphanumeric() || "=,.@-_".contains(*c);
    let text = own.map_or_else(|| format!("hostwright-{}", user()), str::to_owned);
    text.chars().filter(legal).take(64).collect::<String>().trim_end_matches('-').to_owned()
}

/// The kept session, or a new one with the code.
pub(super) async fn credentials(
    base: &SdkConfig,
    from: SharedCredentialsProvider,
    vouched: &Vouched<'_>,
    code: Option<&Secret>,
) -> Result<Credentials, AwsError> {
    let doing = "get AWS credentials with MFA";
    let whose = from.provide_credentials().await.map_err(|error| from_credentials(doing, &error))?;
    let path = place(&parameters(base, whose.access_key_id(), vouched));
    if let Some(kept) = path.as_deref().and_then(read)
        && kept.is_good(Timestamp::now())
    {
        return Ok(kept.credentials());
    }
    let Some(code) = code else { return Err(AwsError::needs_code(doing, vouched.serial)) };
    let config = base.clone().into_builder().credentials_provider(from).build();
    let issued = issue(&config, vouched, code.reveal()).await?;
    let expires = Timestamp::from_second(issued.expiration.secs())
        .map_err(|_| AwsError::new(AwsErrorKind::Failed, doing, "the session has no end"))?;
    let kept = Kept {
        access_key_id: issued.access_key_id,
        secret_access_key: issued.secret_access_key,
        session_token: issued.session_token,
        expires,
    };
    if let Some(path) = &path
        && let Err(error) = write(path, &kept)
    {
        tracing::warn!(path = %path.display(), %error, "the session is not kept: the code will be asked for again");
    }
    Ok(kept.credentials())
}

async fn issue(config: &SdkConfig, vouched: &Vouched<'_>, code: &str) -> Result<Issued, AwsError> {
    let sts = aws_sdk_sts::Client::new(config);
    let (doing, issued) = match vouched.role {
        Some(role) => {
            let doing = format!("take the role {}", role.arn);
            let call = sts
                .assume_role()
                .role_arn(&role.arn)
                .role_session_name(name(role.session.as_deref()))
                .set_external_id(role.external_id.clone())
                .set_duration_seconds(vouched.seconds)
                .serial_number(vouched.serial)
                .token_code(code);
            let answer = call.send().await.map_err(|error| from_sdk(&doing, &error))?;
            (doing, answer.credentials)
        }
        None => {
            let doing = "start a session with MFA".to_owned();
            let call = sts
                .get_session_token()
                .set_duration_seconds(vouched.seconds)
                .serial_number(vouched.serial)
                .token_code(code);
            let answer = call.send().await.map_err(|error| from_sdk(&doing, &error))?;
            (doing, answer.credentials)
        }
    };
    issued.ok_or_else(|| AwsError::new(AwsErrorKind::Failed, doing, "the answer has no credentials"))
}

/// What makes a session another one.
fn parameters(base: &SdkConfig, whose: &str, vouched: &Vouched<'_>) -> String {
    let role = vouched.role.map(|role| (&role.arn, &role.external_id, &role.session));
    format!("{:?}", (whose, base.endpoint_url(), vouched.serial, role, vouched.seconds))
}

/// Where a session is kept; none: there is no such place.
fn place(parameters: &str) -> Option<PathBuf> {
    let cache =
        std::env::var_os("XDG_CACHE_HOME").filter(|path| Path::new(path).is_absolute()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(std::env::home_dir()?.join(".cache")))?;
    let name: String = Sha256::digest(parameters).iter().map(|byte| format!("{byte:02x}")).collect();
    Some(cache.join("hostwright").join("aws").join(format!("{name}.json")))
}

/// A kept session that is nobody else's to write or read; anything else counts as none.
fn read(path: &Path) -> Option<Kept> {
    use std::io::Read as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
        .ok()?;
    let about = file.metadata().ok()?;
    let own = about.uid() == rustix::process::geteuid().as_raw() && about.permissions().mode() & 0o077 == 0;
    let mut text = String::new();
    file.take(LIMIT).read_to_string(&mut text).ok().filter(|_| own)?;
    serde_json::from_str(&text).ok()
}

fn write(path: &Path, kept: &Kept) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // A temporary file has mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec(kept)?)?;
    file.persist(path).map(|_| ()).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_kept_for_its_owner_only_and_until_it_ends() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hostwright/aws/x.json");
        let now = Timestamp::now();
        let kept = Kept {
            access_key_id: "a".into(),
            secret_access_key: "b".into(),
            session_token: "c".into(),
            expires: now + Duration::from_secs(600),
        };
        write(&path, &kept).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let again = read(&path).unwrap();
        assert!(again.is_good(now) && !again.is_good(now + Duration::from_secs(570)));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read(&path).is_none(), "others could have written it");
    }

    #[test]
    fn a_sessions_name_is_legal() {
        assert_eq!(name(Some("olga+x y@example.org")), "olgaxy@example.org");
        assert_eq!(name(Some(&"a".repeat(80))).len(), 64);
    }
}
