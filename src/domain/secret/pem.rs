//! Certificates and keys in PEM (RFC 7468, and the older form with headers): whether each block is what it says.

use jiff::Timestamp;
use x509_cert::Certificate;
use x509_cert::der::{Decode as _, Reader as _, SliceReader, Tag, asn1::AnyRef};

use super::check::Checked;
use crate::domain::kube_auth::{LineNote, utf8};

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";
/// The first byte of anything in DER that may stand in a file of its own.
const SEQUENCE: u8 = 0x30;

/// One block.
struct Block<'a> {
    line: usize,
    label: &'a str,
    /// Lines such as `Proc-Type: 4,ENCRYPTED`.
    encrypted: bool,
    body: Vec<u8>,
}

/// Looks at a file whose name says that it holds certificates or keys.
pub(super) fn look(key: &str, bytes: &[u8], checked: &mut Checked) {
    let name = key.rsplit('/').next().unwrap_or(key).to_ascii_lowercase();
    let is_certificate = name.ends_with(".crt") || name.ends_with(".cer");
    if is_certificate && bytes.first() == Some(&SEQUENCE) {
        return certificate(bytes, 1, checked);
    }
    let is_key = name.ends_with(".key");
    // A key may be no more than random bytes.
    let has_blocks = bytes.windows(DASHES.len()).any(|window| window == DASHES.as_bytes());
    if is_key && !has_blocks {
        return checked.doubtful(LineNote::new(1, "holds no PEM block: it was not looked into"));
    }
    let text = match utf8(bytes) {
        Ok(text) => text,
        Err(note) => return checked.wrong(note),
    };
    let mut labels = Vec::new();
    for block in blocks(text) {
        match block {
            Ok(block) => {
                labels.push(block.label);
                content(&block, checked);
            }
            Err(note) => checked.wrong(note),
        }
    }
    if !checked.problems.is_empty() {
        return;
    }
    let missing = if labels.is_empty() {
        Some("PEM block (-----BEGIN …-----)")
    } else if is_key && !labels.iter().any(|label| label.contains("PRIVATE KEY")) {
        Some("private key, as its name says")
    } else if is_certificate && !labels.iter().any(|label| is_certificate_label(label)) {
        Some("certificate, as its name says")
    } else {
        None
    };
    if let Some(missing) = missing {
        checked.wrong(LineNote::new(1, format!("holds no {missing}")));
    }
}

fn is_certificate_label(label: &str) -> bool {
    matches!(label, "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE")
}

/// The blocks of a text; what stands between them is no matter.
fn blocks(text: &str) -> impl Iterator<Item = Result<Block<'_>, LineNote>> {
    let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    std::iter::from_fn(move || {
        let (line, first) = lines.find(|(_, line)| line.starts_with(BEGIN) || line.starts_with(END))?;
        let label = first.strip_prefix(BEGIN).and_then(|label| label.strip_suffix(DASHES));
        let Some(label) = label else {
            let what = if first.starts_with(END) {
                "ends a block that was not begun"
            } else {
                "does not end with five dashes"
            };
            return Some(Err(LineNote::new(line, what)));
        };
        Some(block(line, label, &mut lines))
    })
}

fn block<'a>(
    begin: usize,
    label: &'a str,
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Result<Block<'a>, LineNote> {
    let mut encrypted = false;
    let mut text = String::new();
    for (line, content) in lines {
        if let Some(end) = content.strip_prefix(END) {
            if end.strip_suffix(DASHES) != Some(label) {
                return Err(LineNote::new(line, format!("does not end the block that line {begin} began")));
            }
            // An OpenPGP block ends with a checksum of its own and is none of ours.
            let body = if label.starts_with("PGP ") { Vec::new() } else { decode(&text, begin)? };
            return Ok(Block { line: begin, label, encrypted, body });
        }
        if content.starts_with(BEGIN) {
            return Err(LineNote::new(
                line,
                format!("begins a block inside the one that line {begin} began"),
            ));
        }
        if content.contains(':') {
            encrypted |= content.starts_with("Proc-Type:") && content.contains("ENCRYPTED");
        } else {
            text.push_str(content);
        }
    }
    Err(LineNote::new(begin, "begins a block that is not ended"))
}

fn decode(text: &str, line: usize) -> Result<Vec<u8>, LineNote> {
    let text: String = text.split_ascii_whitespace().collect();
    let body = data_encoding::BASE64.decode(text.as_bytes());
    body.map_err(|_| LineNote::new(line, "begins a block that is no base64, or not all of it")).and_then(
        |body| {
            if body.is_empty() {
                Err(LineNote::new(line, "begins a block with nothing in it"))
            } else {
                Ok(body)
            }
        },
    )
}

/// Whether a block holds what its label says.
fn content(block: &Block<'_>, checked: &mut Checked) {
    let is_key = block.label.ends_with("PRIVATE KEY");
    let right = match block.label {
        "CERTIFICATE" | "X509 CERTIFICATE" => return certificate(&block.body, block.line, checked),
        // With more behind the certificate.
        "TRUSTED CERTIFICATE" => block.body.first() == Some(&SEQUENCE),
        _ if block.label.starts_with("PGP ") || block.encrypted => true,
        "OPENSSH PRIVATE KEY" => block.body.starts_with(b"openssh-key-v1\0"),
        _ if is_key => fields(&block.body).is_some_and(|tags| is_private_key(block.label, &tags)),
        _ => AnyRef::from_der(&block.body).is_ok(),
    };
    if !right {
        let what = if is_key { "private key" } else { "block" };
        checked.wrong(LineNote::new(block.line, format!("begins a {what} that is none, or not all of it")));
    }
}

/// What a key of this kind begins with: PKCS #8 (RFC 5958), PKCS #1 (RFC 8017), SEC 1 (RFC 5915), OpenSSL's own for DSA.
fn is_private_key(label: &str, tags: &[Tag]) -> bool {
    let integers =
        |count: usize| tags.len() >= count && tags.iter().take(count).all(|tag| *tag == Tag::Integer);
    match label {
        "PRIVATE KEY" => tags.starts_with(&[Tag::Integer, Tag::Sequence, Tag::OctetString]),
        "ENCRYPTED PRIVATE KEY" => tags == [Tag::Sequence, Tag::OctetString],
        "RSA PRIVATE KEY" => integers(9),
        "DSA PRIVATE KEY" => integers(6),
        "EC PRIVATE KEY" => tags.starts_with(&[Tag::Integer, Tag::OctetString]),
        _ => true,
    }
}

/// What stands in a sequence that is all of some bytes.
fn fields(der: &[u8]) -> Option<Vec<Tag>> {
    let mut reader = SliceReader::new(der).ok()?;
    let sequence: AnyRef<'_> = reader.decode().ok()?;
    reader.finish(()).ok()?;
    let inside = sequence.sequence(|inside| {
        let mut tags = Vec::new();
        while !inside.is_finished() {
            let field: AnyRef<'_> = inside.decode()?;
            tags.push(x509_cert::der::Tagged::tag(&field));
        }
        Ok(tags)
    });
    inside.ok()
}

fn certificate(der: &[u8], line: usize, checked: &mut Checked) {
    let Ok(certificate) = Certificate::from_der(der) else {
        return checked.wrong(LineNote::new(line, "begins a certificate that is none, or not all of it"));
    };
    let end = certificate.tbs_certificate.validity.not_after.to_unix_duration().as_secs();
    let end =
        i64::try_from(end).ok().and_then(|end| Timestamp::from_second(end).ok()).unwrap_or(Timestamp::MAX);
    checked.expires = Some(checked.expires.map_or(end, |first| first.min(end)));
}

#[cfg(test)]
mod tests;
