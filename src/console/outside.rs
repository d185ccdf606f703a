//! The back ends as the console holds them: connected after the first frame, each on its own, none waited for by the loop.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};

use crate::app::Msg;
use crate::backend::kube::Kube;
use crate::config::{Permit, Settings};
use crate::domain::{BackEnd, Health, Problem, ProblemKind};
use crate::ops::{self, OpError};

/// How long an effect waits for a back end that is being connected.
const PATIENCE: Duration = Duration::from_secs(5);
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// Handles on the back ends; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Outside {
    pub(crate) settings: Arc<Settings>,
    kube: Arc<watch::Sender<Option<Kube>>>,
}

impl Outside {
    /// Nothing is connected yet.
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, kube: Arc::new(watch::Sender::new(None)) }
    }

    /// Whether an environment is configured at all.
    pub(crate) fn configured(&self) -> bool {
        !self.settings.environment.name.is_empty()
    }

    /// Makes the Kubernetes client: reads the kubeconfig and the trust roots, again and again until it can be made.
    pub(crate) async fn connect_kube(self, tell: mpsc::Sender<Msg>) {
        let mut delay = FIRST_DELAY;
        let mut trouble = Trouble::new(BackEnd::Cluster, tell);
        loop {
            match Kube::connect(&self.settings.environment.kubernetes).await {
                Ok(kube) => {
                    self.kube.send_replace(Some(kube));
                    return;
                }
                Err(error) => trouble.down(error.problem(BackEnd::Cluster.word()), delay).await,
            }
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(LONGEST_DELAY);
        }
    }

    /// The Kubernetes client, as soon as there is one.
    pub(crate) async fn kube(&self) -> Result<Kube, Problem> {
        let mut made = self.kube.subscribe();
        let made = tokio::time::timeout(PATIENCE, made.wait_for(Option::is_some)).await;
        made.ok().and_then(Result::ok).and_then(|kube| kube.clone()).ok_or_else(|| {
            Problem::new(
                BackEnd::Cluster.word(),
                ProblemKind::Unreachable,
                "there is no cluster to speak to yet",
            )
        })
    }

    /// The Kubernetes client, however long that takes.
    pub(crate) async fn kube_at_last(&self) -> Option<Kube> {
        self.kube.subscribe().wait_for(Option::is_some).await.ok().and_then(|kube| kube.clone())
    }

    /// The permit to change something.
    pub(crate) fn permit(&self, subject: &str) -> Result<Permit, Problem> {
        self.settings.permit().map_err(|error| OpError::from(error).problem(subject))
    }

    /// The name that a decision is signed with.
    pub(crate) async fn operator(&self, kube: &Kube) -> String {
        ops::operator(kube, &self.settings.environment).await
    }
}

/// Tells the health of one back end: since when it is down, why, and when it is tried again.
#[derive(Debug)]
pub(crate) struct Trouble {
    back_end: BackEnd,
    since: Option<Timestamp>,
    told: bool,
    tell: mpsc::Sender<Msg>,
}

impl Trouble {
    pub(crate) fn new(back_end: BackEnd, tell: mpsc::Sender<Msg>) -> Self {
        Self { back_end, since: None, told: false, tell }
    }

    /// It failed, and is tried again after this time.
    pub(crate) async fn down(&mut self, mut problem: Problem, delay: Duration) {
        let now = Timestamp::now();
        let since = *self.since.get_or_insert(now);
        problem.retry_at = now.checked_add(delay).ok();
        self.told = true;
        self.say(Health::Down { since, problem }).await;
    }

    /// It answers. Said once.
    pub(crate) async fn up(&mut self) {
        let news = self.since.take().is_some() || !self.told;
        self.told = true;
        if news {
            self.say(Health::Up).await;
        }
    }

    /// Whether it is down, as far as is known.
    pub(crate) fn is_down(&self) -> bool {
        self.since.is_some()
    }

    async fn say(&self, health: Health) {
        // Nobody listens any more when the console ends.
        let _ = self.tell.send(Msg::Health(self.back_end, health)).await;
    }
}
