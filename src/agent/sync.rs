//! What runs on a node: `hostwright sync`, which keeps a folder as some folders of the bucket are.

mod metrics;
mod report;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::backend::aws::{Aws, Request};
use crate::backend::command::OwnCommand;
use crate::backend::s3::Bucket;
use crate::config::{Config, ReadOnly, parse_duration};
use crate::domain::aws::AwsError;
use crate::domain::environment::{self as variables, DEFAULT_REGION, VariableError};
use crate::domain::manifest::{NodeName, NodeNameError, Pace, Prefix, PrefixError, Scope};
use crate::ops::environment::{self, EnvironmentError};
use crate::ops::sync::{NodeBucket, SyncError, SyncOptions, Syncer};
use crate::ops::{OpError, aws};

use report::Report;

/// The longest time between two words of the node, though nothing changes.
const HEARTBEAT: Duration = Duration::from_secs(300);
/// How often one round may be repeated because objects changed meanwhile, with `--once`.
const AGAIN: usize = 3;

/// What is kept in sync, and how.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Folders of the bucket, such as `manifests` or `secure/etcd`
    #[arg(required = true, value_name = "PREFIX")]
    pub prefixes: Vec<String>,
    /// The folder on this node, for this agent alone to write to
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Name the files without their PREFIX: `manifests/a.yaml` becomes `a.yaml` (with one PREFIX only)
    #[arg(long)]
    pub strip: bool,
    /// How long to wait between two looks at the bucket
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = pause)]
    pub every: Duration,
    /// Look once, and exit: 0 when all is as in the bucket, else 1
    #[arg(long)]
    pub once: bool,
    /// The bucket; without it the secrets bucket of the environment (-e), whose variables must be here then
    #[arg(long, value_name = "NAME")]
    pub bucket: Option<String>,
    /// With --bucket: the KMS key to encrypt with what this node says of itself; without it the node says nothing
    #[arg(long, value_name = "KEY", requires = "bucket")]
    pub kms_key: Option<String>,
    /// With --bucket: the bucket's region; without it that of AWS_REGION or the profile
    #[arg(long, value_name = "REGION", requires = "bucket")]
    pub region: Option<String>,
    /// With --bucket: the profile in AWS's shared files, when there are no credentials in the variables
    #[arg(long, value_name = "PROFILE", requires = "bucket", default_value = "default")]
    pub profile: String,
    /// With --bucket: the URL of an S3 server of one's own, asked by path
    #[arg(long, value_name = "URL", requires = "bucket")]
    pub endpoint: Option<String>,
    /// This node's name on the console; without it its host name
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Say nothing of this node in the bucket
    #[arg(long)]
    pub silent: bool,
    /// Serve what is counted for Prometheus: address and port
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,
    /// How long COMMAND may take
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = pause)]
    pub command_limit: Duration,
    /// Run this after a change, again in each round until it succeeds; no shell looks at it
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// A span of time that is not nothing.
fn pause(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .filter(|pause| *pause >= Duration::from_millis(100))
        .ok_or_else(|| "write one such as 10s or 1m30s, and no less than 100ms".to_owned())
}

/// Why it does not start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SyncAgentError {
    /// What is asked for cannot be taken.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// The node has no name that can be used.
    #[error(transparent)]
    Node(#[from] NodeNameError),
    /// The bucket or the key can be none.
    #[error("{option} {value:?} {error}")]
    Value {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
        /// Why.
        error: VariableError,
    },
    /// The environment.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// AWS.
    #[error(transparent)]
    Op(#[from] OpError),
    /// AWS.
    #[error("{}", .0.problem(""))]
    Aws(#[from] AwsError),
    /// Nothing may be changed.
    #[error(transparent)]
    ReadOnly(#[from] ReadOnly),
    /// The folder.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// The metrics cannot be served there.
    #[error("cannot serve metrics on {address}: {error}")]
    Metrics {
        /// Where.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
}

impl SyncAgentError {
    /// The program's exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Prefix(_) | Self::Node(_) | Self::Value { .. } => 2,
            Self::Environment(error) => error.exit_code(),
            Self::ReadOnly(_) => 4,
            Self::Sync(error) => error.exit_code(),
            Self::Op(_) | Self::Aws(_) | Self::Metrics { .. } => 1,
        }
    }
}

/// Keeps the folder in sync until `shutdown`, or once; what is done goes to the log. The exit code is 0, or 1 when `--once` did not do all.
///
/// # Errors
/// When it cannot start, or what it remembers cannot be written any more.
pub async fn run(
    options: Options,
    config: &Config,
    shutdown: CancellationToken,
) -> Result<u8, SyncAgentError> {
    let prefixes = options.prefixes.iter().map(|text| Prefix::parse(text)).collect::<Result<_, _>>()?;
    let scope = Scope::new(prefixes, options.strip)?;
    let node = match &options.node {
        Some(name) => NodeName::parse(name)?,
        None => NodeName::parse(&rustix::system::uname().nodename().to_string_lossy())?,
    };
    let permit = config.permit()?;
    let (bucket, encrypts) = tokio::select! {
        biased;
        () = shutdown.cancelled() => return Ok(u8::from(options.once)),
        connected = bucket(&options, config) => connected?,
    };
    let to = std::path::absolute(&options.to).unwrap_or_else(|_| options.to.clone());
    let settings = SyncOptions {
        scope,
        node: node.clone(),
        tells: encrypts && !options.silent,
        heartbeat: HEARTBEAT.max(options.every),
        command: own_command(&options, &to),
    };
    if !settings.tells && !options.silent {
        tracing::info!("this node says nothing of itself in the bucket: --kms-key names the key for that");
    }
    let store = NodeBucket::new(bucket, permit, node.as_str());
    let mut syncer = Syncer::open(store, permit, &to, settings).await?;
    tracing::info!(folder = %to.display(), %node, "keeping in sync");
    let served = serve_metrics(&options, &syncer, &shutdown).await?;
    let code = rounds(&options, &mut syncer, &shutdown).await;
    shutdown.cancel();
    if let Some(served) = served {
        served.await.ok();
    }
    code
}

/// The bucket, and whether it is known what to encrypt with.
async fn bucket(options: &Options, config: &Config) -> Result<(Bucket, bool), SyncAgentError> {
    let Some(name) = &options.bucket else {
        let named = environment::named(config, None)?;
        let cloud = aws::connect(config, &named, None).await?;
        return Ok((cloud.secrets_bucket(), true));
    };
    let wrong = |option, value: &str| {
        let value = value.to_owned();
        move |error| SyncAgentError::Value { option, value, error }
    };
    variables::bucket(name).map_err(wrong("--bucket", name))?;
    if let Some(key) = &options.kms_key {
        variables::kms_key(key).map_err(wrong("--kms-key", key))?;
    }
    let request = Request {
        profile: options.profile.clone(),
        credentials_file: None,
        region: options.region.clone(),
        default_region: DEFAULT_REGION.to_owned(),
        endpoint: options.endpoint.clone(),
    };
    let aws = Aws::connect(&request, None).await?;
    let key = options.kms_key.as_deref();
    let bucket = Bucket::new(aws.sdk(), options.endpoint.is_some(), name, key.unwrap_or_default());
    Ok((bucket, key.is_some()))
}

fn own_command(options: &Options, to: &std::path::Path) -> Option<OwnCommand> {
    (!options.command.is_empty()).then(|| OwnCommand {
        argv: options.command.clone(),
        limit: options.command_limit,
        variables: vec![("HOSTWRIGHT_SYNC_FOLDER".to_owned(), to.as_os_str().to_owned())],
        // Not the folder itself: what is written there is the bucket's.
        folder: PathBuf::from("/"),
    })
}

async fn serve_metrics(
    options: &Options,
    syncer: &Syncer<NodeBucket>,
    shutdown: &CancellationToken,
) -> Result<Option<tokio::task::JoinHandle<()>>, SyncAgentError> {
    let Some(address) = options.metrics else { return Ok(None) };
    let failed = |error| SyncAgentError::Metrics { address, error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    tracing::info!(address = %bound, "metrics are served");
    Ok(Some(tokio::spawn(metrics::serve(listener, syncer.counters(), shutdown.clone()))))
}

async fn rounds(
    options: &Options,
    syncer: &mut Syncer<NodeBucket>,
    shutdown: &CancellationToken,
) -> Result<u8, SyncAgentError> {
    let mut pace = Pace::new(options.every);
    let mut report = Report::default();
    for number in 1.. {
        let round = syncer.round(shutdown).await?;
        report.tell(&round);
        if options.once && (round.moving == 0 || number >= AGAIN) {
            let well = round.is_well() && round.moving == 0 && round.left.is_empty();
            return Ok(u8::from(!well));
        }
        let pause = pace.next(!round.broken, random());
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    // With --once it was interrupted.
    Ok(u8::from(options.once))
}

/// A number from 0 to 1.
fn random() -> f64 {
    let mut bytes = [0; 4];
    // Without random numbers the middle must do.
    getrandom::fill(&mut bytes).map_or(0.5, |()| f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX))
}
