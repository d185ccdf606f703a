//! The key pair, the CA and the certificates under it.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::Serialize;
use x509_cert::Certificate;
use x509_cert::der::{DecodePem as _, Encode as _};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::batch::Batch;
use super::bring_up::Report;
use super::keys::{self, Pair};
use super::{access, keys::spki};
use crate::domain::environment::EnvironmentVariables;
use crate::domain::platform::{
    CA, CA_KEY, Leaf, POLICY, RENEWED_BEFORE, SERVICE_ACCOUNT_KEY, SERVICE_ACCOUNT_PUBLIC, SSH_KEY,
    SSH_PUBLIC, Step, TOKENS, accesses, ca_name, leaves, webhooks,
};
use crate::domain::secret::{check, shown};
use crate::ops::OpError;
use crate::ops::secrets::{Here, Secrets};

/// A certificate, and when it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ending {
    /// Its key in the bucket.
    pub key: String,
    /// When it ends; none: it is not there, or no certificate.
    pub expires: Option<Timestamp>,
    /// What is wrong with it, beside its age.
    pub trouble: Vec<Trouble>,
}

/// What may be wrong with a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// It is not here.
    Missing,
    /// It has ended, or will within the time in which it is to be renewed.
    Ends,
    /// It lacks a name or address that the environment says.
    Lacks(String),
    /// It is not the certificate of the key beside it.
    OtherKey,
    /// It cannot be read.
    Unreadable,
}

impl Trouble {
    /// The words: the rest of a sentence that begins with the certificate.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Missing => "is not here".to_owned(),
            Self::Ends => format!("ends within {RENEWED_BEFORE} days"),
            Self::Lacks(name) => format!("does not name {name}"),
            Self::OtherKey => "is not of the key beside it".to_owned(),
            Self::Unreadable => "is no certificate".to_owned(),
        }
    }
}

/// The operators' SSH key pair. An RSA key of their own beside it is as good.
pub(super) async fn key_pair(secrets: &Secrets, environment: &str) -> Result<Report, OpError> {
    let mut batch = Batch::open(secrets, Step::KeyPair).await?;
    let rsa = SSH_KEY.replace("ed25519", "rsa");
    if batch.here(&rsa).await?.is_some() {
        batch.keep();
        return batch.end(false).await;
    }
    match (batch.here(SSH_KEY).await?, batch.here(SSH_PUBLIC).await?) {
        (None, None) => {
            let pair = keys::ssh(&format!("hostwright {environment}"))?;
            batch.add(SSH_KEY, pair.private, None);
            batch.add(SSH_PUBLIC, pair.public, None);
        }
        (Some(private), None) => batch.add(SSH_PUBLIC, keys::ssh_public(&private.bytes)?, None),
        (None, Some(_)) => return Err(alone(SSH_PUBLIC, SSH_KEY)),
        (Some(_), Some(_)) => batch.keep(),
    }
    batch.end(false).await
}

/// CA, certificates, the service accounts' key, tokens and configurations.
pub(super) async fn make(secrets: &Secrets, variables: &EnvironmentVariables) -> Result<Report, OpError> {
    let mut batch = Batch::open(secrets, Step::Certificates).await?;
    let ca = ca(&mut batch, &variables.environment).await?;
    for leaf in leaves(variables) {
        issue(&mut batch, &ca, &leaf).await?;
    }
    service_account(&mut batch).await?;
    access::make(&mut batch, variables, &ca.certificate).await?;
    batch.end(false).await
}

/// The keys of all that [`make`] makes.
pub(super) fn keys(variables: &EnvironmentVariables) -> Vec<String> {
    let single = [CA_KEY, CA, SERVICE_ACCOUNT_KEY, SERVICE_ACCOUNT_PUBLIC, TOKENS, POLICY];
    let of_users = accesses().map(|access| access.path);
    let of_webhooks = webhooks(variables).map(|(key, _)| key);
    let single = single.into_iter().chain(of_users).chain(of_webhooks).map(str::to_owned);
    single.chain(leaves(variables).into_iter().flat_map(|leaf| [leaf.key(), leaf.certificate()])).collect()
}

/// The CA. Without its key nothing can be signed, which counts only when something must be.
struct Ca {
    certificate: Vec<u8>,
    key: Option<Vec<u8>>,
}

impl Ca {
    fn pair(&self) -> Result<Pair, OpError> {
        let key = self.key.clone().ok_or_else(|| alone(CA, CA_KEY))?;
        Ok(Pair { private: key, public: self.certificate.clone() })
    }
}

async fn ca(batch: &mut Batch<'_>, environment: &str) -> Result<Ca, OpError> {
    match (batch.here(CA).await?, batch.here(CA_KEY).await?) {
        (Some(certificate), key) => {
            batch.keep();
            Ok(Ca { certificate: certificate.bytes, key: key.map(|key| key.bytes) })
        }
        (None, Some(_)) => Err(alone(CA_KEY, CA)),
        (None, None) => {
            let Pair { private, public } = keys::ca(&ca_name(environment))?;
            // The key first: who is killed in between is told that it stands alone.
            batch.add(CA_KEY, private.clone(), None);
            batch.add(CA, public.clone(), None);
            Ok(Ca { certificate: public, key: Some(private) })
        }
    }
}

async fn issue(batch: &mut Batch<'_>, ca: &Ca, leaf: &Leaf) -> Result<(), OpError> {
    let (certificate, key) = (leaf.certificate(), leaf.key());
    match (batch.here(&certificate).await?, batch.here(&key).await?) {
        (Some(there), key) => {
            for trouble in troubles(leaf, Some(&there.bytes), key.as_ref().map(|key| key.bytes.as_slice())) {
                let text = format!("{certificate} {}: `platform renew {}`", trouble.words(), leaf.path);
                batch.note(text);
            }
            batch.keep();
        }
        (None, there) => {
            let pair = keys::issue(&ca.pair()?, leaf, there.as_ref().map(|key| key.bytes.as_slice()))?;
            if there.is_none() {
                batch.add(&key, pair.private, None);
            }
            batch.add(&certificate, pair.public, None);
        }
    }
    Ok(())
}

async fn service_account(batch: &mut Batch<'_>) -> Result<(), OpError> {
    match (batch.here(SERVICE_ACCOUNT_KEY).await?, batch.here(SERVICE_ACCOUNT_PUBLIC).await?) {
        (None, None) => {
            let pair = keys::service_account()?;
            batch.add(SERVICE_ACCOUNT_KEY, pair.private, None);
            batch.add(SERVICE_ACCOUNT_PUBLIC, pair.public, None);
        }
        (Some(key), None) => {
            batch.add(SERVICE_ACCOUNT_PUBLIC, keys::service_account_public(&key.bytes)?, None);
        }
        (None, Some(_)) => return Err(alone(SERVICE_ACCOUNT_PUBLIC, SERVICE_ACCOUNT_KEY)),
        (Some(_), Some(_)) => batch.keep(),
    }
    Ok(())
}

/// One half without the other: making the other anew would make the first worthless.
fn alone(there: &str, missing: &str) -> OpError {
    OpError::Apart(format!(
        "{} is there and {} is not: bring it back (`secrets history`), or remove both to begin anew",
        shown(there),
        shown(missing)
    ))
}

/// What is wrong with a certificate as it is here.
fn troubles(leaf: &Leaf, certificate: Option<&[u8]>, key: Option<&[u8]>) -> Vec<Trouble> {
    let Some(pem) = certificate else { return vec![Trouble::Missing] };
    let Ok(read) = Certificate::from_pem(pem) else { return vec![Trouble::Unreadable] };
    let mut troubles = Vec::new();
    let soon = Timestamp::now() + jiff::SignedDuration::from_hours(24 * RENEWED_BEFORE);
    if check(&leaf.certificate(), pem).expires.is_none_or(|end| end <= soon) {
        troubles.push(Trouble::Ends);
    }
    let (names, addresses) = subjects(&read);
    let lacking = leaf.names.iter().filter(|name| !names.contains(name)).cloned();
    let no_address =
        leaf.addresses.iter().filter(|address| !addresses.contains(address)).map(IpAddr::to_string);
    troubles.extend(lacking.chain(no_address).map(Trouble::Lacks));
    let own = read.tbs_certificate.subject_public_key_info.to_der().ok();
    if key.is_none_or(|key| spki(key).ok() != own) {
        troubles.push(Trouble::OtherKey);
    }
    troubles
}

/// The names and addresses that a certificate is for (RFC 5280, 4.2.1.6).
fn subjects(certificate: &Certificate) -> (Vec<String>, Vec<IpAddr>) {
    let found = certificate.tbs_certificate.get::<SubjectAltName>().ok().flatten();
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    for name in found.map(|(_, names)| names.0).unwrap_or_default() {
        match name {
            GeneralName::DnsName(name) => names.push(name.to_string()),
            GeneralName::IpAddress(bytes) => {
                let bytes = bytes.as_bytes();
                let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
                addresses.extend(v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)));
            }
            _ => {}
        }
    }
    (names, addresses)
}

/// All certificates with their end and what is wrong with them.
pub(super) async fn endings(
    secrets: &Secrets,
    variables: &EnvironmentVariables,
) -> Result<Vec<Ending>, OpError> {
    let bytes = async |key: &str| Ok::<_, OpError>(secrets.here(key).await?.map(|here| here.bytes));
    let ca = bytes(CA).await?;
    let expires = ca.as_deref().and_then(|pem| check(CA, pem).expires);
    let trouble = if ca.is_none() { vec![Trouble::Missing] } else { Vec::new() };
    let mut all = vec![Ending { key: CA.to_owned(), expires, trouble }];
    for leaf in leaves(variables) {
        let (certificate, key) = (bytes(&leaf.certificate()).await?, bytes(&leaf.key()).await?);
        let expires = certificate.as_deref().and_then(|pem| check(&leaf.certificate(), pem).expires);
        let trouble = troubles(&leaf, certificate.as_deref(), key.as_deref());
        all.push(Ending { key: leaf.certificate(), expires, trouble });
    }
    Ok(all)
}

/// Makes certificates anew, with keys of their own: those that are named by their path, or all that have a trouble.
pub(super) async fn renew(
    secrets: &Secrets,
    variables: &EnvironmentVariables,
    named: &[String],
    dry: bool,
) -> Result<Report, OpError> {
    let all = leaves(variables);
    let is_named = |leaf: &Leaf, name: &str| name == leaf.path || name == leaf.certificate();
    if let Some(unknown) = named.iter().find(|name| !all.iter().any(|leaf| is_named(leaf, name))) {
        return Err(OpError::NotFound(format!(
            "certificate {}: `platform certificates` lists them",
            shown(unknown)
        )));
    }
    let mut batch = Batch::open(secrets, Step::Certificates).await?;
    let (Some(certificate), Some(key)) = (batch.here(CA).await?, batch.here(CA_KEY).await?) else {
        return Err(OpError::NotFound(format!(
            "CA: {CA} and {CA_KEY} sign the certificates (`platform bring-up`)"
        )));
    };
    let ca = Pair { private: key.bytes, public: certificate.bytes };
    for leaf in all {
        let (old, old_key) = (batch.here(&leaf.certificate()).await?, batch.here(&leaf.key()).await?);
        let bytes = |here: &Option<Here>| here.as_ref().map(|here| here.bytes.clone());
        let has_trouble = || !troubles(&leaf, bytes(&old).as_deref(), bytes(&old_key).as_deref()).is_empty();
        let wanted =
            if named.is_empty() { has_trouble() } else { named.iter().any(|name| is_named(&leaf, name)) };
        if !wanted {
            batch.keep();
            continue;
        }
        let pair = keys::issue(&ca, &leaf, None)?;
        batch.add(&leaf.key(), pair.private, old_key);
        batch.add(&leaf.certificate(), pair.public, old);
    }
    batch.end(dry).await
}
