//! What the values of settings may be: each function reads one kind, or says what is wrong with it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;

use super::place::{alternatives, nearest};
use super::tree::{Node, Value};
use crate::domain::{RawAnnouncement, environment};

/// What is wrong with a value: the rest of a sentence that starts with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) text: String,
    pub(super) advice: String,
}

impl Wrong {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), advice: String::new() }
    }

    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    pub(super) fn kind(wanted: &str, node: &Node) -> Self {
        Self::new(format!("is {}, not {wanted}", node.value.kind()))
    }
}

type Result<T> = std::result::Result<T, Wrong>;

/// The longest time that a setting may name: beyond it clocks overflow and nobody waits.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A text, which may be empty; a variable's number or word counts as the text that it is.
pub(super) fn any_text(node: &Node) -> Result<&str> {
    match (&node.value, &node.raw) {
        (Value::Text(text), _) | (_, Some(text)) => Ok(text),
        _ => Err(Wrong::kind("text", node)),
    }
}

/// A text that is not empty.
pub(super) fn text(node: &Node) -> Result<String> {
    let text = any_text(node)?;
    if text.trim().is_empty() { Err(Wrong::new("is empty")) } else { Ok(text.to_owned()) }
}

pub(super) fn flag(node: &Node) -> Result<bool> {
    match node.value {
        Value::Flag(flag) => Ok(flag),
        _ => Err(Wrong::kind("true or false", node)),
    }
}

/// A whole number between two bounds, both included.
pub(super) fn number<T>(node: &Node, least: i64, most: i64) -> Result<T>
where
    T: TryFrom<i64>,
{
    let Value::Integer(number) = node.value else { return Err(Wrong::kind("a whole number", node)) };
    (least..=most)
        .contains(&number)
        .then(|| T::try_from(number).ok())
        .flatten()
        .ok_or_else(|| Wrong::new(format!("is not between {least} and {most}")))
}

/// One of some words.
pub(super) fn word<T: Copy>(node: &Node, words: &[(&str, T)]) -> Result<T> {
    let text = any_text(node)?;
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let names = || words.iter().map(|(word, _)| *word);
    let wrong = Wrong::new(format!("is not {}", alternatives(names(), "or")));
    Err(match nearest(text, names()) {
        Some(near) => wrong.advise(format!("did you mean {near:?}?")),
        None => wrong,
    })
}

/// `30s`, `5m`, `1h30m`, `250ms`, `2d`.
pub(super) fn duration(node: &Node, least: Duration) -> Result<Duration> {
    const FORM: &str = "write a number and a unit, such as \"30s\", \"5m\" or \"2h\"";
    let text = any_text(node).map_err(|wrong| wrong.advise(FORM))?;
    let time = parse_duration(text).ok_or_else(|| Wrong::new("is not a duration").advise(FORM))?;
    if time < least {
        return Err(Wrong::new(format!("is too short: at least {least:?}")));
    }
    if time > LONGEST {
        return Err(Wrong::new("is too long: at most 366d"));
    }
    Ok(time)
}

/// Reads `30s`, `5m`, `1h30m`, `250ms`, `2d`; nothing when it is no such time.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at_checked(digits)?;
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(letters)?;
        let number: u64 = number.parse().ok()?;
        let part = match unit {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "h" => Duration::from_secs(number.checked_mul(60 * 60)?),
            "d" => Duration::from_secs(number.checked_mul(24 * 60 * 60)?),
            _ => return None,
        };
        total = total.checked_add(part)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

/// An address and a port.
pub(super) fn address(node: &Node) -> Result<SocketAddr> {
    let wrong = || {
        Wrong::new("is not an address and a port")
            .advise("write one such as \"127.0.0.1:8470\" or \"[::]:8470\"")
    };
    any_text(node)?.parse().map_err(|_| wrong())
}

/// A network, or an address as the network of one.
pub(super) fn network(node: &Node) -> Result<IpNet> {
    let text = any_text(node)?;
    text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from)).ok_or_else(|| {
        Wrong::new("is not a network").advise("write one such as \"10.0.0.0/8\" or \"fd00::/8\"")
    })
}

/// A URL with one of these schemes and a host; `advice` shows one. User and password are allowed only where `secret` says.
pub(super) fn url(text: &str, schemes: &[&str], example: &str, user: bool) -> Result<()> {
    let wrong = |what: &str| Wrong::new(what).advise(format!("write one such as {example:?}"));
    let parsed: http::Uri = text.parse().map_err(|_| wrong("is not a URL"))?;
    let Some(scheme) = parsed.scheme_str() else { return Err(wrong("is not a URL")) };
    if !schemes.contains(&scheme) {
        return Err(wrong(&format!(
            "is not a URL of scheme {}",
            alternatives(schemes.iter().copied(), "or")
        )));
    }
    let Some(authority) = parsed.authority() else { return Err(wrong("is not a URL")) };
    let (who, host) = match authority.as_str().rsplit_once('@') {
        Some((who, host)) => (Some(who), host),
        None => (None, authority.as_str()),
    };
    if who.is_some() && !user {
        return Err(Wrong::new("holds a user").advise("give it in the settings for it"));
    }
    // `http` takes a port that is no number, or too large, for none at all.
    let port = host.rsplit_once(':').filter(|_| !host.ends_with(']'));
    if port.is_some_and(|(_, port)| port.parse::<u16>().is_err()) {
        return Err(wrong("has no valid port"));
    }
    if authority.host().is_empty() {
        return Err(wrong("names no host"));
    }
    Ok(())
}

/// `http://…` or `https://…`.
pub(super) fn web(node: &Node) -> Result<String> {
    let text = any_text(node)?;
    url(text, &["http", "https"], "https://ara.example.org", false)?;
    Ok(text.trim_end_matches('/').to_owned())
}

/// ARA's base URL.
pub(super) fn ara(node: &Node) -> Result<String> {
    let url = web(node)?;
    match url.strip_suffix("/api/v1").or_else(|| url.strip_suffix("/api")) {
        Some(base) => Err(Wrong::new("names the API itself").advise(format!("write {base:?}"))),
        None => Ok(url),
    }
}

/// What can stand in an HTTP header.
pub(super) fn header_value(text: &str) -> Result<()> {
    http::HeaderValue::try_from(text)
        .map(|_| ())
        .map_err(|_| Wrong::new("holds characters that no HTTP header can"))
}

/// `amqp://…` or `amqps://…`, with user and password.
pub(super) fn broker(text: &str) -> Result<()> {
    url(text, &["amqp", "amqps"], "amqps://user:password@rabbit.example.org/vhost", true)
}

/// The URL with its password masked, if it has one. A user without a password is often a token; only for ssh it is a user.
pub(super) fn mask_url(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at_checked(end)?;
    let (who, host) = authority.rsplit_once('@')?;
    let user = match who.split_once(':') {
        Some((user, _)) => format!("{user}:"),
        None if scheme == "ssh" => return None,
        None => String::new(),
    };
    Some(format!("{scheme}://{user}{}@{host}{tail}", super::MASK))
}

/// A name as Kubernetes has it for most objects (RFC 1123 subdomain).
pub(super) fn object_name(node: &Node) -> Result<String> {
    let text = any_text(node)?;
    let legal = text.len() <= 253 && text.split('.').all(is_label);
    if legal { Ok(text.to_owned()) } else { Err(Wrong::new("is not a name that Kubernetes takes")) }
}

/// A name of PostgreSQL's that needs no quotes, and that no program takes for an option.
pub(super) fn database_name(node: &Node) -> Result<String> {
    let text = any_text(node)?;
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
    if first && text.len() <= 63 && text.bytes().all(legal) {
        Ok(text.to_owned())
    } else {
        let advice = "at most 63 lower-case letters, digits and underscores, not a digit first";
        Err(Wrong::new("is not a name for PostgreSQL").advise(advice))
    }
}

/// A namespace (RFC 1123 label).
pub(super) fn namespace(node: &Node) -> Result<String> {
    let text = any_text(node)?;
    if text.len() <= 63 && is_label(text) {
        Ok(text.to_owned())
    } else {
        Err(Wrong::new("is not a namespace").advise("at most 63 lower-case letters, digits and hyphens"))
    }
}

/// Lower-case letters, digits, and hyphens inside.
pub(super) fn is_label(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(legal) && !text.starts_with('-') && !text.ends_with('-')
}

/// The operator's name as a part of `play-USER`.
pub(super) fn user(node: &Node) -> Result<String> {
    let text = any_text(node)?;
    environment::user(text).map_err(|error| Wrong::new(error.to_string()))?;
    Ok(text.to_owned())
}

/// The name of a profile in AWS's shared files.
pub(super) fn profile(node: &Node) -> Result<String> {
    let text = any_text(node)?;
    environment::profile(text).map_err(|error| Wrong::new(error.to_string()))?;
    Ok(text.to_owned())
}

/// A key inside a ConfigMap.
pub(super) fn data_key(node: &Node) -> Result<String> {
    let text = any_text(node)?;
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(legal)
        && !text.starts_with("..")
        && text != "."
    {
        Ok(text.to_owned())
    } else {
        Err(Wrong::new("is not a key of a ConfigMap").advise("letters, digits, \"-\", \"_\" and \".\""))
    }
}

/// A container image.
pub(super) fn image(node: &Node) -> Result<String> {
    let text = any_text(node)?;
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(legal) {
        Ok(text.to_owned())
    } else {
        Err(Wrong::new("is not an image").advise("write one such as \"registry.example.org/hostwright:1.0\""))
    }
}

/// Whether an image's name leaves open which image it is.
pub(super) fn floating(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or(image);
    !image.contains('@') && last.split_once(':').is_none_or(|(_, tag)| tag.is_empty() || tag == "latest")
}

/// A name of an exchange and of its queues.
pub(super) fn exchange(node: &Node) -> Result<String> {
    let text = text(node)?;
    if text.starts_with("amq.") {
        return Err(Wrong::new("starts with \"amq.\", which the broker keeps for itself"));
    }
    if text.len() > 127 || text.chars().any(char::is_control) {
        return Err(Wrong::new("is not the name of an exchange: at most 127 bytes"));
    }
    Ok(text)
}

/// A branch of the policy: the same rule as for the one that a host announces.
pub(super) fn branch(node: &Node) -> Result<String> {
    let text = text(node)?;
    let announced = RawAnnouncement { branch: Some(text.clone()), ..host() };
    announced.check().map(|_| text).map_err(|error| Wrong::new(error.reason))
}

/// An inventory group: the same rule as for the ones that a host announces.
pub(super) fn group(node: &Node) -> Result<String> {
    let text = text(node)?;
    let announced = RawAnnouncement { groups: vec![text.clone()], ..host() };
    announced.check().map(|_| text).map_err(|error| Wrong::new(error.reason))
}

fn host() -> RawAnnouncement {
    RawAnnouncement { hostname: "host".to_owned(), ..RawAnnouncement::default() }
}

/// A path inside the policy.
pub(super) fn playbook(node: &Node) -> Result<String> {
    let text = text(node)?;
    let outside = text.starts_with(['/', '-', '~']) || text.split('/').any(|part| part == "..");
    if outside || text.chars().any(char::is_control) {
        Err(Wrong::new("is not a path inside the policy").advise("write one such as \"site.yml\""))
    } else {
        Ok(text)
    }
}

/// A pattern of host names.
pub(super) fn pattern(node: &Node) -> Result<String> {
    let text = text(node)?;
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-.*".contains(&b);
    if text.bytes().all(legal) && !text.contains("***") {
        Ok(text)
    } else {
        Err(Wrong::new("is not a pattern of host names").advise(
            "letters, digits, \"-\" and \".\"; \"*\" for anything without a dot, \"**\" for anything",
        ))
    }
}

/// The name of a theme: also that of a file, so it is no path.
pub(super) fn theme(node: &Node) -> Result<String> {
    let text = any_text(node)?;
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !text.is_empty() && text.bytes().all(legal) {
        Ok(text.to_owned())
    } else {
        Err(Wrong::new("is not the name of a theme").advise("letters, digits, \"-\" and \"_\""))
    }
}

/// The name of an HTTP header.
pub(super) fn header(node: &Node) -> Result<String> {
    let text = any_text(node)?;
    http::HeaderName::try_from(text).map(|_| text.to_owned()).map_err(|_| {
        Wrong::new("is not the name of an HTTP header").advise("write one such as \"X-Api-Key\"")
    })
}

/// What a source of the policy is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Something that git clones over a network.
    Url,
    /// A folder, or a repository on this machine.
    Path,
}

/// A git URL (`https://…`, `ssh://…`, `git@host:path`) or a path.
pub(super) fn source(text: &str) -> Result<Source> {
    // `ext::` and its like make git run a command; a leading hyphen makes the source one of git's options.
    if text.starts_with('-') || text.contains("::") {
        return Err(Wrong::new("is not a git URL or a folder"));
    }
    if text.contains("://") {
        if text.starts_with("file:///") {
            return Ok(Source::Url);
        }
        let example = "https://git.example.org/policy.git";
        return url(text, &["https", "http", "ssh", "git"], example, true).map(|()| Source::Url);
    }
    // `https:/user:password@host` and the like: a URL with a slip in it, whose password would pass for a part of a path.
    if text.rsplit_once('@').is_some_and(|(before, _)| before.contains(':')) {
        return Err(Wrong::new("is not a git URL or a folder"));
    }
    let head = text.split('/').next().unwrap_or_default();
    Ok(if head.contains(':') { Source::Url } else { Source::Path })
}

#[cfg(test)]
mod tests {
    use super::super::place::{Layer, LayerKind, Place};
    use super::*;

    fn node(text: &str) -> Node {
        let place = Place::whole(&Layer::new(0, "x", LayerKind::BuiltIn));
        Node { value: Value::Text(text.to_owned()), place, raw: None }
    }

    #[test]
    fn durations() {
        let read = |text| duration(&node(text), Duration::from_millis(10));
        for (text, seconds) in [
            ("30s", 30.0),
            ("5m", 300.0),
            ("2h", 7200.0),
            ("1h30m", 5400.0),
            ("250ms", 0.25),
            ("2d", 172_800.0),
        ] {
            assert_eq!(read(text).unwrap().as_secs_f64(), seconds, "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "5 m",
            "5min",
            "-5m",
            "1.5h",
            "0s",
            "9ms",
            "367d",
            "99999999999999999999s",
            "18446744073709551615d",
            "5mé",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn urls() {
        for good in ["amqp://h", "amqps://u:p%40@h:5671/%2f", "amqp://[::1]:5672", "amqp://u:p@10.0.0.1/v"] {
            assert_eq!(broker(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "h",
            "amqp://",
            "amqp:h",
            "http://h",
            "amqp://h:99999",
            "amqp://h:",
            "amqp://h:x",
            "amqp://u:p/w@h",
            "amqp://h h",
        ] {
            assert!(broker(bad).is_err(), "{bad}");
        }
        assert_eq!(web(&node("http://127.0.0.1:8000/")), Ok("http://127.0.0.1:8000".to_owned()));
        assert!(web(&node("https://me:pw@ara")).is_err());
    }

    #[test]
    fn passwords_in_urls_are_masked() {
        assert_eq!(mask_url("amqp://u:p:x%40@h:1/v@w").as_deref(), Some("amqp://u:********@h:1/v@w"));
        assert_eq!(mask_url("https://token@h/a:b@c").as_deref(), Some("https://********@h/a:b@c"));
        assert_eq!(mask_url("ssh://git@h/a:b@c"), None);
        assert_eq!(mask_url("git@host:path"), None);
        assert_eq!(broker(&mask_url("amqp://u:p@h/%2f").unwrap()), Ok(()), "a masked URL is still one");
    }

    #[test]
    fn sources() {
        for url in [
            "https://git.example.org/p.git",
            "ssh://git@h:22/p",
            "git@github.com:a/b.git",
            "h:p",
            "file:///srv/p",
        ] {
            assert_eq!(source(url), Ok(Source::Url), "{url}");
        }
        for path in ["policy", "./policy", "/srv/policy", "~/policy", "../a:b/c"] {
            assert_eq!(source(path), Ok(Source::Path), "{path}");
        }
        for bad in [
            "https:/me:pw@h/p",
            "https//me:pw@h",
            "--upload-pack=x",
            "ext::sh -c id",
            "ftp://h/p",
            "file://h/p",
        ] {
            assert!(source(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn images_that_float() {
        for image in ["hostwright", "a.b:5000/hostwright", "x:latest"] {
            assert!(floating(image), "{image}");
        }
        for image in ["x:1", "a:5000/x:1", "x@sha256:abc"] {
            assert!(!floating(image), "{image}");
        }
    }

    #[test]
    fn words_know_their_nearest() {
        let words = [("auto", 1), ("unicode", 2), ("ascii", 3)];
        assert_eq!(word(&node("ascii"), &words), Ok(3));
        let wrong = word(&node("asci"), &words).unwrap_err();
        assert_eq!(wrong.text, "is not \"auto\", \"unicode\" or \"ascii\"");
        assert_eq!(wrong.advice, "did you mean \"ascii\"?");
        assert_eq!(word(&node("7-bit"), &words).unwrap_err().advice, "");
    }
}
