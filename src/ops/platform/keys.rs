//! Keys and certificates, made with random numbers.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType, date_time_ymd,
};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use ssh_key::LineEnding;
use ssh_key::private::{Ed25519Keypair, Ed25519PrivateKey, KeypairData};
use ssh_key::public::Ed25519PublicKey;

use crate::domain::platform::{CA_DAYS, LEAF_DAYS, Leaf, Usage};
use crate::ops::OpError;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Certificates begin this much earlier, for machines whose clocks are behind.
const BACKDATED: Duration = Duration::from_secs(60 * 60);

/// A private key and what is public of it, both in PEM or OpenSSH's form.
pub(super) struct Pair {
    pub(super) private: Vec<u8>,
    pub(super) public: Vec<u8>,
}

/// A CA of ten years, which signs certificates and no further CAs.
pub(super) fn ca(name: &str) -> Result<Pair, OpError> {
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    valid(&mut params, CA_DAYS);
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok(Pair { private: key.serialize_pem().into_bytes(), public: certificate.pem().into_bytes() })
}

/// A certificate under a CA; for a key that is there already, or a new one.
pub(super) fn issue(ca: &Pair, leaf: &Leaf, key: Option<&[u8]>) -> Result<Pair, OpError> {
    let signer = KeyPair::from_pem(text(&ca.private)?).map_err(failed)?;
    let issuer = Issuer::from_ca_cert_pem(text(&ca.public)?, signer).map_err(failed)?;
    let key = match key {
        Some(pem) => KeyPair::from_pem(text(pem)?).map_err(failed)?,
        None => KeyPair::generate().map_err(failed)?,
    };
    let mut params = CertificateParams::new(leaf.names.clone()).map_err(failed)?;
    params.subject_alt_names.extend(leaf.addresses.iter().map(|address| SanType::IpAddress(*address)));
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, leaf.common_name);
    if let Some(group) = leaf.organization {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = match leaf.usage {
        Usage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
        Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        Usage::Both => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
    };
    valid(&mut params, LEAF_DAYS);
    let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
    Ok(Pair { private: key.serialize_pem().into_bytes(), public: certificate.pem().into_bytes() })
}

/// The key that service accounts' tokens are signed with, and its public half.
pub(super) fn service_account() -> Result<Pair, OpError> {
    let key = KeyPair::generate().map_err(failed)?;
    Ok(Pair { private: key.serialize_pem().into_bytes(), public: public_of(&key) })
}

/// The public half of a key in PEM.
pub(super) fn service_account_public(private: &[u8]) -> Result<Vec<u8>, OpError> {
    Ok(public_of(&KeyPair::from_pem(text(private)?).map_err(failed)?))
}

/// The public half of a key in DER: what a certificate for it holds.
pub(super) fn spki(private: &[u8]) -> Result<Vec<u8>, OpError> {
    Ok(PublicKeyData::subject_public_key_info(&KeyPair::from_pem(text(private)?).map_err(failed)?))
}

fn public_of(key: &KeyPair) -> Vec<u8> {
    PublicKeyData::subject_public_key_info(key)
        .chunks(48)
        .fold("-----BEGIN PUBLIC KEY-----\n".to_owned(), |text, line| {
            text + &data_encoding::BASE64.encode(line) + "\n"
        })
        .into_bytes()
        .into_iter()
        .chain(*b"-----END PUBLIC KEY-----\n")
        .collect()
}

/// An SSH key pair (ed25519) in OpenSSH's own form, without a passphrase: whoever may read the bucket's locked folder has it.
pub(super) fn ssh(comment: &str) -> Result<Pair, OpError> {
    let mut seed = [0; Ed25519PrivateKey::BYTE_SIZE];
    getrandom::fill(&mut seed).map_err(failed)?;
    let public = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(failed)?;
    let public: [u8; 32] = public.public_key().as_ref().try_into().map_err(failed)?;
    let pair =
        Ed25519Keypair { public: Ed25519PublicKey(public), private: Ed25519PrivateKey::from_bytes(&seed) };
    let key = ssh_key::PrivateKey::new(KeypairData::Ed25519(pair), comment).map_err(failed)?;
    let private = key.to_openssh(LineEnding::LF).map_err(failed)?;
    let public = key.public_key().to_openssh().map_err(failed)? + "\n";
    Ok(Pair { private: private.as_bytes().to_vec(), public: public.into_bytes() })
}

/// The public half of an SSH key.
pub(super) fn ssh_public(private: &[u8]) -> Result<Vec<u8>, OpError> {
    let key = ssh_key::PrivateKey::from_openssh(private).map_err(failed)?;
    Ok((key.public_key().to_openssh().map_err(failed)? + "\n").into_bytes())
}

fn valid(params: &mut CertificateParams, days: u64) {
    let now = SystemTime::now();
    let days = DAY.saturating_mul(u32::try_from(days).unwrap_or(u32::MAX));
    params.not_before = now.checked_sub(BACKDATED).map_or_else(|| date_time_ymd(2000, 1, 1), Into::into);
    params.not_after = now.checked_add(days).map_or_else(|| date_time_ymd(2099, 1, 1), Into::into);
}

fn text(pem: &[u8]) -> Result<&str, OpError> {
    std::str::from_utf8(pem).map_err(|_| OpError::Invalid("a key or certificate is not PEM".to_owned()))
}

/// Nothing of a key stands in what these crates say.
fn failed(error: impl std::fmt::Display) -> OpError {
    OpError::Invalid(format!("cannot make a key or certificate: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_half_is_pem_of_any_reader() {
        let pair = service_account().unwrap();
        let text = String::from_utf8(pair.public).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            (lines.first(), lines.last()),
            (Some(&"-----BEGIN PUBLIC KEY-----"), Some(&"-----END PUBLIC KEY-----"))
        );
        assert!(lines.iter().all(|line| line.len() <= 64));
        assert_eq!(service_account_public(&pair.private).unwrap(), text.as_bytes());
    }

    #[test]
    fn an_ssh_key_reads_back() {
        let pair = ssh("hostwright staging").unwrap();
        let key = ssh_key::PrivateKey::from_openssh(&pair.private).unwrap();
        let public = String::from_utf8(pair.public).unwrap();
        assert_eq!(key.public_key().to_openssh().unwrap(), public.trim_end());
        assert!(public.starts_with("ssh-ed25519 ") && public.ends_with(" hostwright staging\n"));
    }
}
