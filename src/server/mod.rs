//! The HTTP servers: the one that new machines call, with the loop that delivers approved runs, and [`kube_auth`].
//!
//! `run(listener, context, shutdown)` ends when it is told to, after what is under way is done.

mod access;
mod approvals;
mod follow;
mod hook;
pub mod kube_auth;
mod listen;
mod metrics;
mod notes;
mod pages;
mod places;
mod reconcile;
mod room;
mod told;

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use listen::bind;

use crate::backend::amqp::{AmqpError, Broker};
use crate::backend::ara::{Ara, AraError};
use crate::backend::kube::{JobTemplate, Kube, KubeError, TemplateError};
use crate::config::{Environment, Permit, ReadOnly, Secret, ServerSettings, Settings};

/// The built-in Job template.
const JOB: &str = include_str!("../../assets/job.yaml");

/// Everything that a server works with.
#[derive(Debug)]
pub struct Context {
    kube: Kube,
    permit: Permit,
    environment: Environment,
    settings: ServerSettings,
    template: JobTemplate,
    broker: Option<Broker>,
    ara: Option<Ara>,
    token: Option<Secret>,
    metrics: metrics::Metrics,
    /// The only server of its cluster: it does not wait for its own predecessor's Lease.
    alone: bool,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The settings are read-only, and a server changes things all the time.
    #[error(transparent)]
    ReadOnly(#[from] ReadOnly),
    /// The cluster's settings cannot be used.
    #[error(transparent)]
    Kube(#[from] KubeError),
    /// The broker's settings cannot be used.
    #[error(transparent)]
    Amqp(#[from] AmqpError),
    /// ARA's settings cannot be used.
    #[error(transparent)]
    Ara(#[from] AraError),
    /// The Job template cannot be used.
    #[error("{place}: {error}")]
    Template {
        /// Where it is.
        place: String,
        /// What is wrong.
        error: TemplateError,
    },
    /// There is a file for the token, and no token in it: everybody would be heard, or nobody.
    #[error(
        "server.token_file: {0} is empty: write the bearer token into it, or leave the setting out to ask for none"
    )]
    EmptyToken(String),
    /// A file cannot be read.
    #[error("cannot read {path}: {error}")]
    File {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
}

impl ServeError {
    /// 4 for read-only settings, 2 for all else: nothing is sent before the server runs, so it is the configuration that is wrong.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::ReadOnly(_) => 4,
            _ => 2,
        }
    }
}

impl Context {
    /// Makes the back ends' handles and reads template and token. Nothing is sent yet: a back end that is down at start is as
    /// good as one that goes down later.
    ///
    /// # Errors
    /// When something in the settings cannot be used.
    pub async fn new(settings: &Settings) -> Result<Self, ServeError> {
        let read = async |path: &std::path::Path| {
            tokio::fs::read_to_string(path)
                .await
                .map_err(|error| ServeError::File { path: path.display().to_string(), error })
        };
        let (place, yaml) = match &settings.job.template {
            Some(path) => (path.display().to_string(), read(path).await?),
            None => ("the built-in Job template".to_owned(), JOB.to_owned()),
        };
        let template = JobTemplate::parse(&yaml, &settings.job)
            .map_err(|error| ServeError::Template { place, error })?;
        let token = match &settings.server.token_file {
            Some(path) => match read(path).await?.trim() {
                "" => return Err(ServeError::EmptyToken(path.display().to_string())),
                token => Some(Secret::new(token)),
            },
            None => None,
        };
        Ok(Self {
            kube: Kube::connect(&settings.environment.kubernetes)
                .await?
                .of_environment(&settings.environment.name),
            permit: settings.permit()?,
            broker: settings.environment.amqp.as_ref().map(Broker::new).transpose()?,
            ara: settings.environment.ara.as_ref().map(Ara::new).transpose()?,
            environment: settings.environment.clone(),
            settings: settings.server.clone(),
            template,
            token,
            metrics: metrics::Metrics::default(),
            alone: false,
        })
    }

    /// The same for a server that is known to be the only one of its cluster, such as the playground's.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { alone: true, ..self }
    }
}

/// Serves until `shutdown`, then ends what is under way (bounded by the request time limit) and gives up the Lease.
pub async fn run(listener: TcpListener, context: Context, shutdown: CancellationToken) {
    let context = Arc::new(context);
    let (overview, seen) = tokio::sync::watch::channel(follow::Overview::default());
    let runs = follow::Runs::default();
    let room = room::Room::new(Arc::clone(&runs), context.settings.pending_limit);
    let seen_runs = Arc::clone(&runs);
    let reconcile = tokio::spawn(reconcile::run(Arc::clone(&context), runs, overview, shutdown.clone()));
    let routes = hook::routes(Arc::clone(&context), seen_runs, seen, room);
    listen::serve(listener, routes, &context.settings, shutdown).await;
    if reconcile.await.is_err() {
        tracing::error!("the delivering loop ended with a panic");
    }
}
