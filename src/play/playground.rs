//! Bringing the playground up and down.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::api::{Api, ApiError};
use super::cloud::{self, Cloud};
use super::folder::{Addresses, Folder, read_ready};
use super::packages::Install;
use super::policy::PolicyError;
use super::progress::{Progress, Report};
use super::python::{Python, PythonError};
use super::services::{ServiceError, ara, moto, rabbitmq, remembered_port};
use super::{leash, policy, python, runner};
use crate::backend::hook::Hook;
use crate::backend::kube::{Kube, KubeError};
use crate::config::{Mistakes, Permit, Settings, Sources, Variables};
use crate::ops;
use crate::server::{self, ServeError};

pub use super::folder::Ready;

/// The namespace of the playground's Jobs.
const NAMESPACE: &str = "hostwright";
/// What Kubernetes waits before a second attempt is long for somebody who plays.
const BACKOFF: Duration = Duration::from_secs(2);
/// How long everything together may take to end.
const STOP_WITHIN: Duration = Duration::from_secs(20);
const PODS_STOP_WITHIN: Duration = Duration::from_secs(12);

/// What a playground is started with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its folder; everything that it keeps lies there.
    pub folder: PathBuf,
    /// Where the Python environment is made; shared by all playgrounds of a user.
    pub python: PathBuf,
    /// The `hostwright` program.
    pub exe: PathBuf,
    /// RabbitMQ is wanted, and installed where that is possible; else it is used when it is there.
    pub amqp: bool,
    /// Whether missing packages may be installed.
    pub install: Install,
    /// Whether the first machines come online by themselves.
    pub machines: bool,
}

/// Why there is no playground.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// One is running in this folder.
    #[error("a playground is running already{}", .0.as_ref().map(|r| format!(" (process {}, kubeconfig {})", r.pid, r.kubeconfig.display())).unwrap_or_default())]
    Running(Option<Box<Ready>>),
    /// A file of it cannot be read or written.
    #[error("cannot prepare the playground: {path}: {error}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Something else cannot be prepared.
    #[error("cannot prepare the playground: {0}")]
    SetUp(String),
    /// The Python environment cannot be made.
    #[error(transparent)]
    Python(#[from] PythonError),
    /// A service does not start.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The sample policy cannot be written.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The loopback API does not start.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The configuration that we wrote has mistakes, or the user's variables do.
    #[error("the playground's configuration has mistakes:\n{0}")]
    Settings(#[from] Mistakes),
    /// The loopback API cannot be reached.
    #[error(transparent)]
    Kube(#[from] KubeError),
    /// The webhook server does not start.
    #[error(transparent)]
    Server(#[from] ServeError),
}

/// A running playground.
#[derive(Debug)]
pub struct Playground {
    /// How it is reached.
    pub ready: Ready,
    folder: Folder,
    shutdown: CancellationToken,
    api_shutdown: CancellationToken,
    tasks: TaskTracker,
    api: tokio::task::JoinHandle<()>,
    ara: ara::Ara,
    moto: moto::Moto,
    rabbitmq: Option<rabbitmq::RabbitMq>,
}

/// The playground that runs in this folder, if one does.
#[must_use]
pub fn running(folder: &Path) -> Option<Ready> {
    match Folder::open(folder) {
        Err(PlayError::Running(ready)) => ready.map(|r| *r).or_else(|| read_ready(folder)),
        _ => None,
    }
}

/// Prepares what takes long, so that a later start is quick: the Python environment.
///
/// # Errors
/// When it cannot be made.
pub async fn set_up(options: &Options, report: Report<'_>) -> Result<Python, PlayError> {
    Ok(python::ensure(&options.python, &options.exe, options.install, report).await?)
}

/// Brings the playground up, and returns when all of it is ready.
///
/// Cancelled by `shutdown` it returns none. Then, and after an error, what it had started has ended when it returns, so that another
/// start finds nothing in its way.
///
/// # Errors
/// When one runs in this folder already, or a part of it does not start.
pub async fn start(
    options: &Options,
    report: Report<'_>,
    shutdown: &CancellationToken,
) -> Result<Option<Playground>, PlayError> {
    let folder = Folder::open(&options.folder)?;
    let services = tokio::select! {
        services = start_services(&folder, options, report) => services.map(Some),
        () = shutdown.cancelled() => Ok(None),
    };
    let started = match services {
        // The rest takes no time, and can be stopped as a whole.
        Ok(Some(services)) => start_cluster(folder, options, services, report).await.map(Some),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    if !matches!(started, Ok(Some(_))) && tokio::time::timeout(STOP_WITHIN, leash::all_ended()).await.is_err()
    {
        tracing::warn!("not everything that was started ended in time; the leashes end the rest");
    }
    started
}

/// What runs as processes of its own.
struct Services {
    python: Python,
    ara: ara::Ara,
    moto: moto::Moto,
    rabbitmq: Option<rabbitmq::RabbitMq>,
}

async fn start_services(
    folder: &Folder,
    options: &Options,
    report: Report<'_>,
) -> Result<Services, PlayError> {
    let step = |step, detail: &str| report(Progress { step, detail: detail.to_owned(), fraction: None });
    let python = set_up(options, report).await?;
    step("policy", "unpacking the sample policy");
    policy::unpack(&folder.path("policy")).await?;
    if options.amqp {
        rabbitmq::ensure_installed(options.install, report).await?;
    }
    step("services", "starting ARA, the AWS server and RabbitMQ");
    let ara_folder = folder.path("services/ara");
    let moto_folder = folder.path("services/moto");
    let rabbitmq_folder = folder.path("services/rabbitmq");
    let rabbitmq = async {
        match rabbitmq::installed() {
            true => rabbitmq::start(&rabbitmq_folder, &options.exe).await.map(Some),
            false => Ok(None),
        }
    };
    let ara = ara::start(&ara_folder, &python, &options.exe);
    let moto = moto::start(&moto_folder, &python, &options.exe);
    let (ara, moto, rabbitmq) = tokio::join!(ara, moto, rabbitmq);
    Ok(Services { ara: ara?, moto: moto?, rabbitmq: rabbitmq?, python })
}

async fn start_cluster(
    folder: Folder,
    options: &Options,
    services: Services,
    report: Report<'_>,
) -> Result<Playground, PlayError> {
    let Services { python, ara, moto, rabbitmq } = services;
    let detail = "starting the Kubernetes API, the Job runner and the webhook server".to_owned();
    report(Progress { step: "cluster", detail, fraction: None });
    let api_listener = listen(&folder, "api").await?;
    let hook_listener = listen(&folder, "hook").await?;
    let token = folder.token()?;
    let addresses = Addresses {
        api: format!("http://{}", address(&api_listener)?),
        token: &token,
        hook: address(&hook_listener)?,
        ara: ara.url(),
        amqp: rabbitmq.as_ref().map(rabbitmq::RabbitMq::url),
        cloud: Cloud::new(&folder.path(""), moto.url()),
    };
    folder.write(&addresses, &python)?;
    let ready = Ready {
        pid: std::process::id(),
        kubeconfig: folder.path("kubeconfig"),
        config: folder.path("config.toml"),
        hook: format!("http://{}", addresses.hook),
        ara: addresses.ara.clone(),
        amqp: addresses.amqp.clone(),
        aws: addresses.cloud.endpoint.clone(),
        hosts: folder.path("hosts"),
    };
    let api_shutdown = CancellationToken::new();
    let api = start_api(&folder, &addresses, api_listener, &api_shutdown)?;
    let settings = settings(&folder)?;
    let permit = settings.permit().map_err(ServeError::from)?;
    Box::pin(cloud::fill(&addresses.cloud, &permit)).await?;
    let shutdown = CancellationToken::new();
    let tasks = TaskTracker::new();
    let playground = Playground { ready, folder, shutdown, api_shutdown, tasks, api, ara, moto, rabbitmq };
    let rest = playground.start_rest(options, &settings, &python, hook_listener).await;
    match rest.and_then(|()| playground.folder.announce(&playground.ready)) {
        Ok(()) => Ok(playground),
        Err(error) => {
            playground.stop().await;
            Err(error)
        }
    }
}

fn start_api(
    folder: &Folder,
    addresses: &Addresses<'_>,
    listener: TcpListener,
    shutdown: &CancellationToken,
) -> Result<tokio::task::JoinHandle<()>, PlayError> {
    let mut options = super::api::Options::new(folder.path("logs"), folder.root_ca()?, addresses.api.clone());
    options.state = Some(folder.path("api/state"));
    options.token = Some(addresses.token.reveal().to_owned());
    options.user =
        std::env::var("USER").ok().filter(|u| !u.is_empty()).unwrap_or_else(|| "operator".to_owned());
    let api = Api::open(options)?;
    let shutdown = shutdown.clone();
    Ok(tokio::spawn(async move {
        if let Err(error) = api.run(listener, shutdown).await {
            tracing::error!(%error, "the loopback API ended");
        }
    }))
}

/// The settings of the server and the pods: from our own file only, whatever else the user has configured.
fn settings(folder: &Folder) -> Result<Settings, PlayError> {
    let sources = Sources {
        file: Some(folder.path("agents.toml")),
        environment: Some("play".to_owned()),
        read_only: false,
        extra: Vec::new(),
    };
    Ok(crate::config::load_with(&sources, &Variables::default())?.settings(None)?)
}

impl Playground {
    async fn start_rest(
        &self,
        options: &Options,
        settings: &Settings,
        python: &Python,
        hook: TcpListener,
    ) -> Result<(), PlayError> {
        let kube = Kube::connect(&settings.environment.kubernetes).await?;
        let context = server::Context::new(settings).await?.alone();
        self.tasks.spawn(server::run(hook, context, self.shutdown.clone()));
        let path = std::env::var("PATH").unwrap_or_default();
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let runner = runner::Options {
            namespace: NAMESPACE.to_owned(),
            logs: self.folder.path("logs"),
            work: self.folder.path("pods"),
            program: options.exe.clone(),
            leash: vec![text(options.exe.clone()), "leash".to_owned()],
            env: vec![
                ("HOSTWRIGHT_CONFIG".to_owned(), text(self.folder.path("agents.toml"))),
                ("HOSTWRIGHT_ENV".to_owned(), "play".to_owned()),
                ("PATH".to_owned(), format!("{}:{path}", python.bin.display())),
            ],
            node: "playground".to_owned(),
            backoff: BACKOFF,
            stop_within: PODS_STOP_WITHIN,
        };
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            if let Err(error) = runner::run(kube.client(), runner, shutdown).await {
                tracing::error!(%error, "the Job runner ended");
            }
        });
        if options.machines {
            let (hook, shutdown, permit) =
                (self.ready.hook.clone(), self.shutdown.clone(), settings.permit());
            let permit = permit.map_err(ServeError::from)?;
            self.tasks.spawn(async move {
                tokio::select! {
                    () = boot_first(&hook, &permit) => {}
                    () = shutdown.cancelled() => {}
                }
            });
        }
        Ok(())
    }

    /// Ends everything: first what uses the API, then the API, then the services. Bounded in time; what does not end by then is
    /// ended by its leash.
    pub async fn stop(self) {
        self.folder.withdraw();
        let end = async {
            self.shutdown.cancel();
            self.tasks.close();
            self.tasks.wait().await;
            self.api_shutdown.cancel();
            self.api.await.ok();
            let rabbitmq = async {
                if let Some(rabbitmq) = &self.rabbitmq {
                    rabbitmq.stop().await;
                }
            };
            tokio::join!(self.ara.stop(), self.moto.stop(), rabbitmq);
        };
        if tokio::time::timeout(STOP_WITHIN, end).await.is_err() {
            tracing::warn!("not everything ended in time; the leashes end the rest");
        }
    }
}

/// The first machines come online. Their boot id stays the same: at the next start of the playground nothing new comes of it.
async fn boot_first(url: &str, permit: &Permit) {
    let hook = match Hook::at(url, None) {
        Ok(hook) => hook,
        Err(error) => return tracing::error!(%error, "no machine boots"),
    };
    for name in ops::machine::FIRST {
        let Ok(host) = ops::machine::full_name(name) else { continue };
        let mut pause = Duration::from_millis(200);
        while let Err(error) = ops::machine::boot(&hook, permit, &host, "first").await {
            tracing::info!(%host, %error, "the machine tries again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(10));
        }
    }
}

async fn listen(folder: &Folder, part: &'static str) -> Result<TcpListener, PlayError> {
    let port = remembered_port(part, &folder.path(part))?;
    TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port))
        .await
        .map_err(|error| PlayError::SetUp(format!("cannot listen on 127.0.0.1:{port}: {error}")))
}

fn address(listener: &TcpListener) -> Result<String, PlayError> {
    listener.local_addr().map(|a| a.to_string()).map_err(|error| PlayError::SetUp(error.to_string()))
}
