//! Authelia's rules for ARA, judged as Authelia documents and does it: a rule matches when all its criteria do, the first that matches
//! counts, resources are compared with the decoded and cleaned path and its query. No Authelia is at hand here; what ARA itself makes of
//! the same paths is asked in `ara_postgres.rs`.

use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use regex::Regex;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    access_control: AccessControl,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessControl {
    default_policy: Policy,
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Policy {
    Bypass,
    OneFactor,
    TwoFactor,
    Deny,
}

/// Go's regular expressions and these are the same language, and both search anywhere unless anchored.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct Pattern(Regex);

impl TryFrom<String> for Pattern {
    type Error = regex::Error;

    fn try_from(pattern: String) -> Result<Self, Self::Error> {
        Regex::new(&pattern).map(Self)
    }
}

/// The criteria that we use. One that is absent matches everything.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    domain: String,
    policy: Policy,
    #[serde(default)]
    resources: Vec<Pattern>,
    #[serde(default)]
    methods: Vec<String>,
    #[serde(default)]
    networks: Vec<IpNet>,
}

impl Rule {
    fn matches(&self, request: &Request<'_>) -> bool {
        let path = clean(request.target);
        // An IPv4 address written as IPv6 is the IPv4 address to Go.
        let from = request.from.parse::<IpAddr>().unwrap().to_canonical();
        self.domain == request.domain
            && (self.resources.is_empty() || self.resources.iter().any(|pattern| pattern.0.is_match(&path)))
            && (self.methods.is_empty() || self.methods.iter().any(|method| method == request.method))
            && (self.networks.is_empty() || self.networks.iter().any(|network| network.contains(&from)))
    }
}

pub(crate) struct Request<'a> {
    pub(crate) domain: &'a str,
    /// The first address of `X-Forwarded-For`.
    pub(crate) from: &'a str,
    pub(crate) method: &'a str,
    /// Path and query as the client wrote them.
    pub(crate) target: &'a str,
}

/// The shipped rules.
pub(crate) struct Rules(AccessControl);

impl Rules {
    pub(crate) fn shipped() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/deploy/authelia/access-control.yaml");
        let file: File = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        Self(file.access_control)
    }

    pub(crate) fn policy(&self, request: &Request<'_>) -> Policy {
        let first = self.0.rules.iter().find(|rule| rule.matches(request));
        first.map_or(self.0.default_policy, |rule| rule.policy)
    }
}

/// What Authelia compares resources with (`URLPathFullClean` there): the path decoded and cleaned as Go's `path.Clean` does, a slash at
/// its end kept, and the query as it is.
fn clean(target: &str) -> String {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let path = decode(path);
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut cleaned = format!("/{}", parts.join("/"));
    if path.len() > 1 && path.ends_with('/') {
        cleaned.push('/');
    }
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        cleaned.push('?');
        cleaned.push_str(query);
    }
    cleaned
}

fn decode(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = after.get(2..).unwrap();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Paths with which somebody might reach a web page as if it were the API, or the API as if it were something else.
pub(crate) const TRICKS: [&str; 22] = [
    "/api/../",
    "/api/..",
    "/api/v1/../../",
    "/api/../playbooks/1.html",
    "/api/%2e%2e/",
    "/api/%2E%2E/hosts",
    "/api%2f..%2fhosts",
    "/api/v1/..%2f..%2fhosts",
    "/api/..;/hosts",
    "/api;/../hosts",
    "/x/../api/v1/playbooks",
    "/hosts/../api/v1/playbooks",
    "/./api/v1/playbooks",
    "//api/v1/playbooks",
    "///hosts",
    "/%61pi/v1/playbooks",
    "/API/v1/playbooks",
    "/Api/",
    "/apis",
    "/api%3F/../hosts",
    "/hosts?/api/",
    "/?x=/api/v1/playbooks",
];

const ARA: &str = "ara.example.org";
const INSIDE: [&str; 8] = [
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.7.9",
    "fd12:3456::1",
    "fc00::1",
    "::ffff:10.1.2.3",
];
const OUTSIDE: [&str; 10] = [
    "203.0.113.9",
    "9.255.255.255",
    "11.0.0.1",
    "172.15.255.255",
    "172.32.0.1",
    "192.169.0.1",
    "2001:db8::1",
    "fe80::1",
    "::ffff:203.0.113.9",
    "127.0.0.1",
];
const READS: [&str; 3] = ["GET", "HEAD", "OPTIONS"];
const WRITES: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];
const API: [&str; 9] = [
    "/api",
    "/api/",
    "/api/v1/",
    "/api/v1/playbooks",
    "/api/v1/playbooks/7",
    "/api/v1/playbooks?label=run:x&limit=1",
    "/api?format=json",
    "/api/v1/results?order=-id&path=/admin/",
    "/api/v1/playbooks?next=../../hosts",
];
const PAGES: [&str; 9] = [
    "/",
    "/?limit=10",
    "/hosts",
    "/tasks",
    "/playbooks/7.html",
    "/results/7.html",
    "/static/css/ara.css",
    "/robots.txt",
    "/apis/v1",
];

/// Every request of the matrix with the policy that it must get.
fn matrix() -> Vec<(Request<'static>, Policy)> {
    let mut all = Vec::new();
    let mut add = |from: &'static str, method, target, policy| {
        all.push((Request { domain: ARA, from, method, target }, policy));
    };
    for (addresses, inside) in [(&INSIDE[..], true), (&OUTSIDE[..], false)] {
        for from in addresses {
            for method in READS.into_iter().chain(WRITES) {
                for target in API {
                    add(from, method, target, if inside { Policy::Bypass } else { Policy::Deny });
                }
                for target in PAGES {
                    let read = ["GET", "HEAD"].contains(&method);
                    add(from, method, target, if read { Policy::OneFactor } else { Policy::Deny });
                }
                for target in
                    ["/admin", "/admin/", "/admin/login/?next=/admin/", "/healthcheck/", "/healthcheck"]
                {
                    add(from, method, target, Policy::Deny);
                }
            }
            for method in ["TRACE", "CONNECT", "PROPFIND", "get"] {
                add(from, method, "/api/v1/playbooks", Policy::Deny);
                add(from, method, "/", Policy::Deny);
            }
        }
    }
    all
}

/// The requests of the matrix that get another policy than they must.
fn wrong(rules: &Rules) -> Vec<String> {
    let wrong = matrix().into_iter().filter_map(|(request, policy)| {
        let got = rules.policy(&request);
        let Request { from, method, target, .. } = request;
        (got != policy).then(|| format!("{from} {method} {target}: {got:?}, not {policy:?}"))
    });
    wrong.collect()
}

#[test]
fn the_api_is_open_to_private_networks_the_pages_to_who_logs_in_and_nothing_else_to_anybody() {
    let rules = Rules::shipped();
    assert_eq!(rules.0.default_policy, Policy::Deny);
    assert_eq!(wrong(&rules), Vec::<String>::new());
    // Of another site they say nothing.
    for target in API.into_iter().chain(PAGES) {
        for domain in ["other.example.org", "ara.example.org.evil.example", "xara.example.org"] {
            let request = Request { domain, from: "10.0.0.1", method: "GET", target };
            assert_eq!(rules.policy(&request), Policy::Deny, "{domain}");
        }
    }
}

#[test]
fn every_rule_and_their_order_count() {
    let rules = Rules::shipped().0.rules;
    let with = |rules: Vec<Rule>| wrong(&Rules(AccessControl { default_policy: Policy::Deny, rules }));
    assert!(rules.len() > 2);
    for at in 0..rules.len() {
        let mut fewer = rules.clone();
        fewer.remove(at);
        assert!(!with(fewer).is_empty(), "rule {at} changes nothing");
    }
    for at in 1..rules.len() {
        let mut swapped = rules.clone();
        swapped.swap(at - 1, at);
        assert!(!with(swapped).is_empty(), "rules {} and {at} can be swapped", at - 1);
    }
    for at in 0..rules.len() {
        let mut open = rules.clone();
        open[at].networks.clear();
        open[at].methods.clear();
        let criteria = !rules[at].networks.is_empty() || !rules[at].methods.is_empty();
        assert_eq!(!with(open).is_empty(), criteria, "rule {at}");
    }
}

#[test]
fn no_trick_with_the_path_opens_a_page() {
    let rules = Rules::shipped();
    for target in TRICKS {
        let cleaned = clean(target);
        let api = cleaned == "/api" || cleaned.starts_with("/api/") || cleaned.starts_with("/api?");
        for from in INSIDE {
            let policy = rules.policy(&Request { domain: ARA, from, method: "GET", target });
            assert_eq!(policy, if api { Policy::Bypass } else { Policy::OneFactor }, "{target} is {cleaned}");
        }
        for from in OUTSIDE {
            let policy = rules.policy(&Request { domain: ARA, from, method: "GET", target });
            assert_eq!(policy, if api { Policy::Deny } else { Policy::OneFactor }, "{target} is {cleaned}");
        }
        // Nothing is written but through the API, and that from inside.
        let write = Request { domain: ARA, from: "203.0.113.9", method: "POST", target };
        assert_eq!(rules.policy(&write), Policy::Deny, "{target}");
    }
}

#[test]
fn a_path_is_cleaned_as_authelia_does_it() {
    for (target, cleaned) in [
        ("/", "/"),
        ("//", "//"),
        ("/api/", "/api/"),
        ("/api/../", "//"),
        ("/api/..", "/"),
        ("/../../api", "/api"),
        ("/a/./b//c/", "/a/b/c/"),
        ("/api%2Fv1?a=%2F..", "/api/v1?a=%2F.."),
        ("/%zz", "/%zz"),
        ("/?", "/"),
    ] {
        assert_eq!(clean(target), cleaned, "{target}");
    }
}
