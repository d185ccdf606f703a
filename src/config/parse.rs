//! From the merged tree to the typed settings: one function a table. `config.toml` documents each key.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::place::{MistakeKind, Place};
use super::reader::{Findings, Reader, World};
use super::settings::{
    Amqp, Approval, Ara, AraCredentials, AwsSettings, ConsoleSettings, DeploySettings, Environment,
    JobSettings, Kubernetes, PlatformSettings, Policy, ProvisionSettings, ServerSettings, Signer, Symbols,
    TargetSettings,
};
use super::tree::{Entry, Table, Value};
use super::{MASK, ara_server, values};

/// The tables and keys at the top of a configuration.
pub(super) const TOP: [&str; 8] =
    ["environment", "console", "server", "job", "provision", "platform", "deploy", "environments"];

/// Secrets that may be given in plain or as a file: table of an environment, key, key of the file.
pub(super) const PAIRS: [(&str, &str, &str); 4] = [
    ("amqp", "url", "url_file"),
    ("ara", "password", "password_file"),
    ("ara", "token", "token_file"),
    ("ara", "header_value", "header_value_file"),
];

/// Everything that was read.
pub(super) struct Parsed {
    /// `environment`, and where it was written.
    pub(super) default: Option<(String, Place)>,
    pub(super) console: ConsoleSettings,
    pub(super) server: ServerSettings,
    pub(super) job: JobSettings,
    pub(super) provision: ProvisionSettings,
    pub(super) platform: PlatformSettings,
    pub(super) deploy: DeploySettings,
    pub(super) environments: BTreeMap<String, Environment>,
}

/// Stands in for a wrong address; what was read is not used then.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const SECOND: Duration = Duration::from_secs(1);
const SHORT: Duration = Duration::from_millis(10);

/// Reads the merged tree. The settings count only if the findings have no mistakes.
pub(super) fn read(tree: Table, world: &World<'_>) -> (Parsed, Findings) {
    let mut findings = Findings::default();
    let place = match tree.get("environment") {
        Some(Entry { node, .. }) if matches!(node.value, Value::Text(_)) => Some(node.place.clone()),
        _ => None,
    };
    let parsed = Reader::root(tree, None, world, &mut findings, |top| Parsed {
        default: top.optional("environment", values::text).zip(place),
        console: top.section("console", console),
        server: top.section("server", server),
        job: top.section("job", job),
        provision: top.section("provision", provision),
        platform: top.section("platform", platform),
        deploy: top.section("deploy", deploy),
        environments: top.section("environments", |all| all.each(legal_name, environment)),
    });
    warn_of_exposed_secrets(&mut findings);
    (parsed, findings)
}

fn console(t: &mut Reader<'_>) -> ConsoleSettings {
    let symbols = [("auto", Symbols::Auto), ("unicode", Symbols::Unicode), ("ascii", Symbols::Ascii)];
    ConsoleSettings {
        theme: t.given("theme", values::theme).unwrap_or_default(),
        symbols: t.given("symbols", |node| values::word(node, &symbols)).unwrap_or(Symbols::Auto),
        utc: t.given("utc", values::flag).unwrap_or_default(),
        mouse: t.given("mouse", values::flag).unwrap_or_default(),
        bell: t.given("bell", values::flag).unwrap_or_default(),
        notify: t.given("notify", values::flag).unwrap_or_default(),
        keys: t.section("keys", |keys| keys.each(|_| None, |screen| screen.lists())),
    }
}

fn server(t: &mut Reader<'_>) -> ServerSettings {
    ServerSettings {
        listen: t.given("listen", values::address).unwrap_or(NOWHERE),
        token_file: t.path("token_file"),
        networks: t.list("networks", None, values::network),
        proxies: t.list("proxies", None, values::network),
        request_timeout: duration(t, "request_timeout", SHORT),
        repair_interval: duration(t, "repair_interval", SHORT),
        pending_limit: t.given("pending_limit", |n| values::number(n, 1, 100_000)).unwrap_or_default(),
        runs_at_once: t.given("runs_at_once", |n| values::number(n, 0, 100_000)).unwrap_or_default(),
        keep_runs: t.given("keep_runs", |n| values::number(n, 1, 1_000)).unwrap_or_default(),
        keep_for: duration(t, "keep_for", Duration::ZERO),
    }
}

fn job(t: &mut Reader<'_>) -> JobSettings {
    let image = t.given("image", values::image).unwrap_or_default();
    if values::floating(&image) && !image.is_empty() {
        t.warn("image", "has no fixed tag: two runs may use different programs");
    }
    JobSettings {
        template: t.path("template"),
        image,
        service_account: t.optional("service_account", values::object_name),
        backoff_limit: t.given("backoff_limit", |n| values::number(n, 0, 100)).unwrap_or_default(),
        // Kubernetes counts both in whole seconds.
        deadline: duration(t, "deadline", SECOND),
        grace: duration(t, "grace", SECOND),
    }
}

fn provision(t: &mut Reader<'_>) -> ProvisionSettings {
    let signer = [("required", Signer::Required), ("off", Signer::Off)];
    ProvisionSettings {
        message_timeout: duration(t, "message_timeout", SECOND),
        work_dir: t.path("work_dir"),
        ansible_playbook: t.program("ansible_playbook").unwrap_or_default(),
        python: t.program("python").unwrap_or_default(),
        token_lifetime: duration(t, "token_lifetime", SECOND),
        join_timeout: duration(t, "join_timeout", SECOND),
        signer: t.given("signer", |node| values::word(node, &signer)).unwrap_or(Signer::Required),
    }
}

fn platform(t: &mut Reader<'_>) -> PlatformSettings {
    PlatformSettings {
        environments: t.path("environments").unwrap_or_default(),
        secrets: t.path("secrets").unwrap_or_default(),
        manifests: t.path("manifests").unwrap_or_default(),
        user: t.optional("user", values::user),
    }
}

fn deploy(t: &mut Reader<'_>) -> DeploySettings {
    DeploySettings {
        replicas: t.given("replicas", |n| values::number(n, 1, 9)).unwrap_or_default(),
        jobs: t.given("jobs", |n| values::number(n, 1, 1_000_000)).unwrap_or_default(),
        egress: t.list("egress", None, values::network),
        ingress_class: t.optional("ingress_class", values::object_name),
    }
}

fn duration(t: &mut Reader<'_>, key: &str, least: Duration) -> Duration {
    t.given(key, |node| values::duration(node, least)).unwrap_or_default()
}

/// Names stand in variables, file names and dialogs that want them typed.
fn legal_name(name: &str) -> Option<values::Wrong> {
    let wrong = || {
        values::Wrong::new("is not a name for an environment")
            .advise("at most 40 lower-case letters, digits and hyphens")
    };
    (!values::is_label(name) || name.len() > 40).then(wrong)
}

fn environment(t: &mut Reader<'_>) -> Environment {
    let playground = t.default("playground", false, values::flag).unwrap_or_default();
    Environment {
        name: t.name(),
        playground,
        guarded: t.default("guarded", !playground, values::flag).unwrap_or_default(),
        read_only: t.default("read_only", false, values::flag).unwrap_or_default(),
        approval: approval(t),
        cluster_groups: t.list("cluster_groups", Some(&["k8s_worker", "k8s_controller"]), values::group),
        hook: t.optional("hook", values::web),
        hook_token_file: t.path("hook_token_file"),
        shell: shell(t),
        kubernetes: t.section("kubernetes", kubernetes),
        amqp: t.optional_section("amqp", amqp),
        aws: t.section("aws", aws),
        variables: t.path("variables"),
        secrets: t.path("secrets"),
        manifests: t.path("manifests"),
        ara: t.optional_section("ara", ara),
        ara_server: t.optional_section("ara_server", ara_server::read),
        policy: t.section("policy", policy),
        targets: t.section("targets", targets),
    }
}

fn approval(t: &mut Reader<'_>) -> Approval {
    #[derive(Clone, Copy)]
    enum Word {
        Manual,
        Auto,
    }
    let words = [("manual", Word::Manual), ("auto", Word::Auto)];
    let hosts = |table: &mut Reader<'_>| table.list("hosts", Some(&[]), values::pattern);
    match t.word_or_table("approval", "manual", &words, hosts) {
        Ok(Some(Word::Auto)) => Approval::Auto,
        Ok(Some(Word::Manual) | None) => Approval::Manual,
        Err(patterns) => Approval::Hosts(patterns),
    }
}

fn shell(t: &mut Reader<'_>) -> Vec<String> {
    let before = t.mistakes();
    let shell = t.list("shell", Some(&["ssh", "{host}"]), values::text);
    if shell.is_empty() && t.mistakes() == before {
        t.complain(MistakeKind::Value, "has an empty shell", "write one such as [\"ssh\", \"{host}\"]");
    }
    shell
}

fn kubernetes(t: &mut Reader<'_>) -> Kubernetes {
    Kubernetes {
        kubeconfig: t.path("kubeconfig"),
        context: t.optional("context", values::text),
        namespace: t.optional("namespace", values::namespace),
    }
}

fn amqp(t: &mut Reader<'_>) -> Amqp {
    let before = t.mistakes();
    let url = t.secret("url", values::broker, values::mask_url);
    if url.is_none() && t.mistakes() == before {
        t.complain(MistakeKind::Missing, "has no url", "give url or url_file");
    }
    let exchange = t.default("exchange", "hostwright", values::exchange).unwrap_or_default();
    let dead_letter = t.default("dead_letter", "hostwright.dead", values::exchange).unwrap_or_default();
    if exchange == dead_letter && t.mistakes() == before {
        let text = "has one name for exchange and dead_letter";
        t.complain(
            MistakeKind::Conflict,
            text,
            "dead letters would come back to the runs: give them a name of their own",
        );
    }
    Amqp { url: url.unwrap_or_else(|| super::Secret::new("")), exchange, dead_letter }
}

fn aws(t: &mut Reader<'_>) -> AwsSettings {
    let endpoint = t.optional("endpoint", values::web);
    AwsSettings {
        profile: t.optional("profile", values::profile),
        credentials_file: t.path("credentials_file"),
        path_style: t.default("path_style", endpoint.is_some(), values::flag).unwrap_or_default(),
        endpoint,
    }
}

fn ara(t: &mut Reader<'_>) -> Ara {
    Ara {
        url: t.required("url", "where ARA's API is, without /api/v1", values::ara).unwrap_or_default(),
        credentials: credentials(t),
        ca: t.path("ca"),
    }
}

fn credentials(t: &mut Reader<'_>) -> AraCredentials {
    let before = t.mistakes();
    let masked = |_: &str| Some(MASK.to_owned());
    let username = t.optional("username", values::text);
    let password = t.secret("password", |_| Ok(()), masked);
    let token = t.secret("token", values::header_value, masked);
    let header = t.optional("header", values::header);
    let value = t.secret("header_value", values::header_value, masked);
    if t.mistakes() > before {
        return AraCredentials::Anonymous;
    }
    let kinds =
        [username.is_some() || password.is_some(), token.is_some(), header.is_some() || value.is_some()];
    if kinds.into_iter().filter(|given| *given).count() > 1 {
        let text = "has more than one kind of credentials";
        t.complain(
            MistakeKind::Conflict,
            text,
            "keep username and password, or token, or header and header_value",
        );
        return AraCredentials::Anonymous;
    }
    let lacking = match (username, password, token, header, value) {
        (Some(username), Some(password), ..) => return AraCredentials::Basic { username, password },
        (_, _, Some(token), ..) => return AraCredentials::Bearer(token),
        (.., Some(name), Some(value)) => return AraCredentials::Header { name, value },
        (None, None, None, None, None) => return AraCredentials::Anonymous,
        (Some(_), ..) => ("has a username, but no password", "give password or password_file"),
        (_, Some(_), ..) => ("has a password, but no username", "give username"),
        (.., Some(_), None) => {
            ("has a header, but no header_value", "give header_value or header_value_file")
        }
        _ => ("has a header_value, but no header", "give header"),
    };
    t.complain(MistakeKind::Missing, lacking.0, lacking.1);
    AraCredentials::Anonymous
}

fn policy(t: &mut Reader<'_>) -> Policy {
    Policy {
        source: t.source("source", "the git URL or the folder of the policy").unwrap_or_default(),
        branch: t.optional("branch", values::branch),
        playbook: t.default("playbook", "site.yml", values::playbook).unwrap_or_default(),
        variables: t.variables("variables"),
    }
}

fn targets(t: &mut Reader<'_>) -> TargetSettings {
    TargetSettings {
        namespace: t.default("namespace", "default", values::namespace).unwrap_or_default(),
        name: t.default("name", "scrape-collectd", values::object_name).unwrap_or_default(),
        key: t.default("key", "targets.json", values::data_key).unwrap_or_default(),
        port: t.default("port", 9103, |n| values::number(n, 1, 65_535)).unwrap_or_default(),
    }
}

/// One warning a file that holds secrets in plain and that others can read.
fn warn_of_exposed_secrets(findings: &mut Findings) {
    use super::place::LayerKind;
    let mut exposed: BTreeMap<(usize, &str), Vec<&str>> = BTreeMap::new();
    for (place, what) in &findings.plain {
        if matches!(place.layer.kind, LayerKind::File { exposed: true, .. }) {
            exposed.entry((place.layer.rank, &place.layer.name)).or_default().push(what);
        }
    }
    for ((_, file), secrets) in exposed {
        findings.warnings.push(format!(
            "{file} holds secrets ({}) and others can read it: chmod 600, or name files with the secrets instead",
            secrets.join(", ")
        ));
    }
}
