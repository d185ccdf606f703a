//! The loopback Kubernetes API: a small real API server in this process.
//!
//! It implements what this program calls, as a real API server answers it, and says 501 to the rest. The playground opens it
//! ([`Api::open`]) and runs it ([`Api::run`]) on a loopback port; everything else, the Job runner included, speaks to it over
//! HTTP like to any cluster, with the same client. Nothing else in the program may reach into it.
//!
//! Where things are:
//!
//! | file | what |
//! | --- | --- |
//! | `server`, `route`, `params`, `view`, `table`, `status` | HTTP: paths, queries, the forms of answers and errors |
//! | `kinds`, `discovery`, `reviews` | which resources there are, and what the server tells of itself and its caller |
//! | `identity`, `tokens`, `access`, `rbac` | who asks, for whom, and what Roles say to it |
//! | `admission` | what admission policies and quotas say to it |
//! | `verbs`, `apply`, `delete`, `reads`, `watch`, `select` | what can be done |
//! | `rules`, `meta`, `job`, `jobstatus`, `podspec`, `events`, `manifests`, `schema` | what objects look like and what is refused |
//! | `store`, `stored`, `journal` | where they are, in memory and on the disk |
//! | `controllers`, `collect`, `signer`, `seeds` | what happens by itself |
//! | `bootstrap` | who comes with a bootstrap token |
//! | `logs` | the files that the Job runner writes |

mod access;
mod admission;
mod apply;
mod bootstrap;
mod collect;
mod controllers;
mod delete;
mod discovery;
mod door;
mod events;
mod identity;
mod job;
mod jobstatus;
mod journal;
mod kinds;
mod logs;
mod manifests;
mod meta;
mod params;
mod podspec;
mod rbac;
mod reads;
mod reviews;
mod route;
mod rules;
mod schema;
mod seeds;
mod select;
mod server;
mod signer;
mod status;
mod store;
mod stored;
mod table;
mod tokens;
mod verbs;
mod view;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use controllers::Controllers;
use server::Server;
use store::Store;

/// How a watch is told that its version has left the history. Real servers do both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gone {
    /// HTTP 200, then an `ERROR` event with code 410.
    #[default]
    Event,
    /// HTTP 410.
    Status,
}

/// What the API needs to know before it starts.
#[derive(Clone)]
pub struct Options {
    /// Where the state survives a restart; `None` keeps it in memory only.
    pub state: Option<PathBuf>,
    /// The folder of pod logs: `<pod uid>/<container>.log` in it, written by whoever runs the pods.
    pub logs: PathBuf,
    /// The token that requests must bring; `None` lets everybody on this machine in, except browsers. It may come as a bearer
    /// token or as the first part of the path (`http://127.0.0.1:PORT/TOKEN` as the server in a kubeconfig): kubectl sends no
    /// credentials over plain HTTP.
    pub token: Option<String>,
    /// The user as whom everybody is known who shows no token of a service account. Everything is allowed to it, also to speak for
    /// others (`Impersonate-User`).
    pub user: String,
    /// The cluster's root CA in PEM, for `kube-root-ca.crt` and `cluster-info`.
    pub ca: String,
    /// The URL of the API server that `cluster-info` names.
    pub endpoint: String,
    /// How many changes watches and pages can look back on.
    pub history: usize,
    /// The shape of 410.
    pub gone: Gone,
    /// How often a watch that asked for bookmarks gets one, if there is something new.
    pub bookmark_every: Duration,
}

impl Options {
    /// Options with usual values: no state file, no token, a history of 4096 changes, bookmarks each minute.
    pub fn new(logs: impl Into<PathBuf>, ca: impl Into<String>, endpoint: impl Into<String>) -> Self {
        Self {
            state: None,
            logs: logs.into(),
            token: None,
            user: "playground".to_owned(),
            ca: ca.into(),
            endpoint: endpoint.into(),
            history: 4096,
            gone: Gone::Event,
            bookmark_every: Duration::from_secs(60),
        }
    }
}

/// Why the API cannot start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The state file cannot be read or written.
    #[error("cannot keep the playground's state in {path}: {error}")]
    State {
        /// The state file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Another playground is running on this state file.
    #[error("the playground's state {0} is in use: another playground is running on it")]
    InUse(PathBuf),
    /// The state file is not one, or somebody changed it.
    #[error("the playground's state {path} is damaged in line {line}: {why}; remove the file to start anew")]
    Broken {
        /// The state file.
        path: PathBuf,
        /// The first line that cannot be read.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The system has no random numbers.
    #[error("cannot make a key for service account tokens: {0}")]
    Key(getrandom::Error),
    /// The first objects could not be made.
    #[error("cannot set up the playground's API: {0}")]
    SetUp(String),
    /// The listener failed.
    #[error("the playground's API stopped: {0}")]
    Serve(#[source] std::io::Error),
}

/// The API, open but not yet served.
pub struct Api {
    store: Arc<Store>,
    controllers: Controllers,
    options: Options,
}

impl Api {
    /// Opens the state and puts what every cluster has in its place.
    ///
    /// # Errors
    /// When the state file is in use, damaged or cannot be written.
    pub fn open(options: Options) -> Result<Self, ApiError> {
        let set_up = |failure: status::Failure| ApiError::SetUp(failure.to_string());
        let (store, fresh) = Store::open(options.state.as_deref(), options.history)?;
        let store = Arc::new(store);
        seeds::plant(&store, &options, fresh).map_err(set_up)?;
        let controllers = Controllers::new(Arc::clone(&store), options.ca.clone()).map_err(set_up)?;
        Ok(Self { store, controllers, options })
    }

    /// Serves until `shutdown` is cancelled. Watches and followed logs end at once then, other requests within three seconds;
    /// when this returns, the state is on the disk and its file is free.
    ///
    /// # Errors
    /// When the listener fails or the state cannot be written at the end.
    pub async fn run(self, listener: TcpListener, shutdown: CancellationToken) -> Result<(), ApiError> {
        // When serving fails the controllers end too.
        let shutdown = shutdown.child_token();
        let server = Arc::new(Server {
            store: Arc::clone(&self.store),
            watches: watch::Setting {
                store: Arc::clone(&self.store),
                gone: self.options.gone,
                bookmark_every: self.options.bookmark_every,
                shutdown: shutdown.clone(),
            },
            logs: self.options.logs,
            token: self.options.token,
            tokens: tokens::Signer::new().map_err(ApiError::Key)?,
            user: self.options.user,
            shutdown: shutdown.clone(),
        });
        let serving = async {
            let served = server::serve(server, listener).await;
            shutdown.cancel();
            served
        };
        let (served, ()) = tokio::join!(serving, self.controllers.run(shutdown.clone()));
        let closed = self.store.close();
        served.map_err(ApiError::Serve)?;
        closed.map_err(|error| ApiError::State { path: self.options.state.unwrap_or_default(), error })
    }
}
