//! The settings, merged and checked: plain types, one per table of `config.toml`, which documents each of them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

/// All settings, with one environment chosen.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `[console]`.
    pub console: ConsoleSettings,
    /// `[server]`.
    pub server: ServerSettings,
    /// `[job]`.
    pub job: JobSettings,
    /// `[provision]`.
    pub provision: ProvisionSettings,
    /// The chosen `[environments.NAME]`.
    pub environment: Environment,
    /// The names of all environments, sorted.
    pub environments: Vec<String>,
    /// Nothing may be changed: `--read-only`, or the environment says so.
    pub read_only: bool,
}

/// Leave to change something outside. Back-end methods that change anything take one; only writable settings give it.
#[derive(Debug, Clone, Copy)]
pub struct Permit(());

/// The settings are read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is read-only: nothing was changed (start without --read-only, or take read_only out of the environment)"
)]
pub struct ReadOnly;

impl Settings {
    /// The permit to change something.
    ///
    /// # Errors
    /// When the settings are read-only.
    pub fn permit(&self) -> Result<Permit, ReadOnly> {
        if self.read_only { Err(ReadOnly) } else { Ok(Permit(())) }
    }
}

impl super::Config {
    /// The permit to change what belongs to no environment in the configuration.
    ///
    /// # Errors
    /// With `--read-only`.
    pub fn permit(&self) -> Result<Permit, ReadOnly> {
        if self.read_only { Err(ReadOnly) } else { Ok(Permit(())) }
    }
}

/// How the console looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleSettings {
    /// The theme's name: a built-in one, or a file in the configuration folder's `themes/`.
    pub theme: String,
    /// Unicode or ASCII symbols; `auto` goes by the locale.
    pub symbols: Symbols,
    /// Absolute times in UTC instead of the local zone.
    pub utc: bool,
    /// Take the mouse.
    pub mouse: bool,
    /// Ring the bell when a run ends.
    pub bell: bool,
    /// Ask for a desktop notification when a run ends.
    pub notify: bool,
    /// Keys that replace the default ones: screen (or `global`) to action to keys.
    pub keys: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// The set of symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symbols {
    /// By the locale.
    Auto,
    /// Unicode.
    Unicode,
    /// ASCII only.
    Ascii,
}

/// The webhook server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// A file with the bearer token that machines must send; none: no token.
    pub token_file: Option<PathBuf>,
    /// Networks that machines may call from; empty: all.
    pub networks: Vec<IpNet>,
    /// Proxies whose forwarded header counts.
    pub proxies: Vec<IpNet>,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How often everything approved and undelivered is looked at again.
    pub repair_interval: Duration,
    /// The most pending runs; further hosts get 429.
    pub pending_limit: usize,
    /// How many runs of each host are kept.
    pub keep_runs: usize,
    /// How long ended runs are kept, the newest of each host always; zero: as long as their number allows.
    pub keep_for: Duration,
    /// How many runs go on at a time; 0: any number.
    pub runs_at_once: usize,
}

/// The Job that a run becomes.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSettings {
    /// A Job manifest that replaces the built-in template.
    pub template: Option<PathBuf>,
    /// The container's image, with a fixed tag or digest.
    pub image: String,
    /// The pod's service account; none: the namespace's default.
    pub service_account: Option<String>,
    /// How many failed pods before the run fails.
    pub backoff_limit: u32,
    /// How long a run may take in all.
    pub deadline: Duration,
    /// How long a pod that is ended may take to put its message back.
    pub grace: Duration,
}

/// What `deploy render` prints, beside what the other tables say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploySettings {
    /// How many servers answer machines.
    pub replicas: u16,
    /// The namespace's quota on Jobs.
    pub jobs: u32,
    /// The networks that server and runs may reach; empty: the private ones.
    pub egress: Vec<IpNet>,
    /// The class of the Ingress that ends TLS in front of the hook; none: no Ingress.
    pub ingress_class: Option<String>,
}

/// The platform that the hosts join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformSettings {
    /// The folder of the environments' variables, `NAME.tfvars`.
    pub environments: PathBuf,
    /// The folder of the secrets' local copies, one folder inside it for each environment.
    pub secrets: PathBuf,
    /// The folder of the manifests and their templates.
    pub manifests: PathBuf,
    /// The operator's name in `play-USER`; none: that of the session.
    pub user: Option<String>,
}

/// `hostwright provision`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvisionSettings {
    /// How long it waits for its message.
    pub message_timeout: Duration,
    /// Where its private work folder is made; none: the system's temporary folder.
    pub work_dir: Option<PathBuf>,
    /// The `ansible-playbook` program.
    pub ansible_playbook: String,
    /// The Python that runs Ansible, asked where ARA's plug-ins are.
    pub python: String,
    /// How long a minted bootstrap token lives.
    pub token_lifetime: Duration,
    /// How long a host may take to join after its playbook went well.
    pub join_timeout: Duration,
    /// Whether `cluster-info` must carry a signature for the token before the playbook starts.
    pub signer: Signer,
}

/// Whether somebody signs `cluster-info` for new tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signer {
    /// The cluster's bootstrap signer runs: its signature is waited for.
    Required,
    /// It does not.
    Off,
}

/// One environment: the back ends and the rules.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Its name.
    pub name: String,
    /// Outside the playground, dangerous actions ask for the name to be typed; a guarded one has its own colour.
    pub guarded: bool,
    /// This is the playground.
    pub playground: bool,
    /// Nothing may be changed.
    pub read_only: bool,
    /// The cluster.
    pub kubernetes: Kubernetes,
    /// The broker; none: details travel in the Job.
    pub amqp: Option<Amqp>,
    /// How AWS is reached.
    pub aws: AwsSettings,
    /// The file of its variables; none: `NAME.tfvars` in the folder of all.
    pub variables: Option<PathBuf>,
    /// The folder of its secrets' local copy; none: its name in the folder of all.
    pub secrets: Option<PathBuf>,
    /// The folder of its manifests; none: that of all.
    pub manifests: Option<PathBuf>,
    /// ARA; none: results are not recorded.
    pub ara: Option<Ara>,
    /// The ARA server that `deploy render` ships; none: ARA is somebody else's.
    pub ara_server: Option<super::AraServer>,
    /// The policy.
    pub policy: Policy,
    /// The scrape targets.
    pub targets: TargetSettings,
    /// Groups whose hosts are members of the cluster, and so no targets.
    pub cluster_groups: Vec<String>,
    /// Who approves.
    pub approval: Approval,
    /// The URL of the hook, for `hosts announce`; none: the server's own listening address.
    pub hook: Option<String>,
    /// A file with the hook's bearer token, for `hosts announce`.
    pub hook_token_file: Option<PathBuf>,
    /// The command that opens a shell on a host: an argument vector in which `{host}`, `{address}` and `{known_hosts}` are replaced.
    pub shell: Vec<String>,
}

/// The cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubernetes {
    /// The kubeconfig; none: `KUBECONFIG`, `~/.kube/config` or the pod's own account.
    pub kubeconfig: Option<PathBuf>,
    /// The context; none: the current one.
    pub context: Option<String>,
    /// The namespace of the Jobs; none: the context's.
    pub namespace: Option<String>,
}

/// How AWS is reached: what is not said here comes from the environment's variables and the shared files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AwsSettings {
    /// The profile of the credentials; none: what the variables say, else the environment's name.
    pub profile: Option<String>,
    /// A credentials file in place of the operator's own.
    pub credentials_file: Option<PathBuf>,
    /// The URL of an AWS server of one's own, for every service; none: AWS itself.
    pub endpoint: Option<String>,
    /// The bucket's name stands in the path of a URL and not before the host's name, as servers of one's own need it.
    pub path_style: bool,
}

/// The broker.
#[derive(Debug, Clone)]
pub struct Amqp {
    /// `amqp://` or `amqps://` with user and password.
    pub url: Secret,
    /// The exchange that runs are published to.
    pub exchange: String,
    /// Where dead letters go: the name of an exchange and of the queue bound to it.
    pub dead_letter: String,
}

/// ARA's API.
#[derive(Debug, Clone)]
pub struct Ara {
    /// The base URL, without `/api/v1`.
    pub url: String,
    /// Who we are.
    pub credentials: AraCredentials,
    /// A PEM file with the CA that signed its certificate.
    pub ca: Option<PathBuf>,
}

/// How we identify ourselves to ARA.
#[derive(Debug, Clone)]
pub enum AraCredentials {
    /// Not at all.
    Anonymous,
    /// HTTP Basic.
    Basic {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// `Authorization: Bearer`.
    Bearer(Secret),
    /// A header that the proxy in front of it wants.
    Header {
        /// The header's name.
        name: String,
        /// Its value.
        value: Secret,
    },
}

/// The policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// A git URL, or the path of a folder.
    pub source: String,
    /// The branch when neither host nor operator says another; none: the repository's default.
    pub branch: Option<String>,
    /// The playbook's path inside the policy.
    pub playbook: String,
    /// Extra variables for every run.
    pub variables: BTreeMap<String, serde_json::Value>,
}

/// The `scrape-collectd` ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSettings {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The key that holds the list.
    pub key: String,
    /// The port that is scraped on a host.
    pub port: u16,
}

/// Who approves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// An operator.
    Manual,
    /// The rule, at once.
    Auto,
    /// The rule for hosts whose names match one of these patterns (`*` matches any characters but a dot, `**` any), an
    /// operator for the others.
    Hosts(Vec<String>),
}

/// A text that is never shown: its `Debug` and `Display` are masked.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a secret.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the back end that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("********")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("********")
    }
}

impl Approval {
    /// Whether the rule approves this host.
    #[must_use]
    pub fn approves(&self, host: &str) -> bool {
        match self {
            Self::Manual => false,
            Self::Auto => true,
            Self::Hosts(patterns) => patterns.iter().any(|p| glob(p.as_bytes(), host.as_bytes())),
        }
    }
}

fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            let (dots, rest) = rest.strip_prefix(b"*").map_or((false, rest), |rest| (true, rest));
            glob(rest, text)
                || text.split_first().is_some_and(|(c, tail)| (dots || *c != b'.') && glob(pattern, tail))
        }
        (Some((p, rest)), Some((c, tail))) => p.eq_ignore_ascii_case(c) && glob(rest, tail),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_matches_whole_names() {
        let rule = Approval::Hosts(vec!["*.lan.example.org".into(), "db-**".into()]);
        assert!(rule.approves("web-1.lan.example.org"));
        assert!(!rule.approves("a.b.lan.example.org"));
        assert!(!rule.approves("web-1.lan.example.org.evil.org"));
        assert!(rule.approves("db-3.a.b"));
        assert!(!Approval::Manual.approves("x") && Approval::Auto.approves("x"));
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?} {}", Secret::new("hunter2"), Secret::new("hunter2")), "******** ********");
    }
}
