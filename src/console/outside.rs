//! The back ends as the console holds them: connected after the first frame, each on its own, none waited for by the loop.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Mutex, Notify, OnceCell, mpsc, watch};

use crate::app::Msg;
use crate::backend::amqp::Broker;
use crate::backend::ara::Ara;
use crate::backend::hook::Hook;
use crate::backend::kube::Kube;
use crate::config::{Config, Permit, Secret, Settings};
use crate::domain::{BackEnd, Health, Problem, ProblemKind};
use crate::ops::secrets::Secrets;
use crate::ops::{self, OpError};

/// How long an effect waits for a back end that is being connected.
const PATIENCE: Duration = Duration::from_secs(5);
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// Handles on the back ends; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Outside {
    pub(crate) settings: Arc<Settings>,
    /// The whole configuration: the environment's variables and files are found by it.
    pub(super) config: Arc<Config>,
    /// The secrets, once AWS has let us in.
    pub(super) secrets: Arc<Mutex<Option<Secrets>>>,
    /// The code of an MFA device that was given for it.
    pub(super) code: Arc<Mutex<Option<Secret>>>,
    kube: Arc<watch::Sender<Option<Kube>>>,
    broker: Arc<OnceLock<Broker>>,
    ara: Arc<OnceCell<Ara>>,
    /// ARA's health: whoever asks something of it learns it.
    ara_health: Arc<Mutex<Trouble>>,
    /// What we may do is to be asked again.
    pub(crate) ask_rights: Arc<Notify>,
}

impl Outside {
    /// Nothing is connected yet.
    pub(crate) fn new(settings: Arc<Settings>, config: Arc<Config>, tell: mpsc::Sender<Msg>) -> Self {
        Self {
            settings,
            config,
            secrets: Arc::default(),
            code: Arc::default(),
            kube: Arc::new(watch::Sender::new(None)),
            broker: Arc::default(),
            ara: Arc::default(),
            ara_health: Arc::new(Mutex::new(Trouble::new(BackEnd::Ara, tell))),
            ask_rights: Arc::default(),
        }
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
                    let kube = kube.of_environment(&self.settings.environment.name);
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

    /// ARA's client; none when the environment has no ARA.
    pub(crate) async fn ara(&self) -> Option<Result<&Ara, Problem>> {
        let settings = self.settings.environment.ara.as_ref()?;
        let made = self.ara.get_or_try_init(async || Ara::new(settings)).await;
        Some(made.map_err(|error| error.problem()))
    }

    /// Something was asked of ARA, and this came of it; it is asked again after this time.
    pub(crate) async fn ara_said(&self, result: Result<(), &Problem>, delay: Duration) {
        let mut health = self.ara_health.lock().await;
        match result {
            Ok(()) => health.up().await,
            Err(problem) => health.down(problem.clone(), delay).await,
        }
    }

    /// The webhook, as the playground's machines call it.
    pub(crate) fn hook(&self) -> Result<Hook, Problem> {
        Hook::new(&self.settings).map_err(|error| error.problem())
    }

    /// The broker: one connection for all that is asked of it.
    pub(crate) fn broker(&self) -> Result<&Broker, Problem> {
        if let Some(broker) = self.broker.get() {
            return Ok(broker);
        }
        let subject = BackEnd::Queue.word();
        let made = ops::queue::broker(&self.settings.environment).map_err(|error| error.problem(subject))?;
        Ok(self.broker.get_or_init(|| made))
    }

    /// Keeps a connection to the broker and tells how it fares.
    pub(crate) async fn watch_queue(self, tell: mpsc::Sender<Msg>) {
        if self.settings.environment.amqp.is_none() {
            return;
        }
        let say = async |health| tell.send(Msg::Health(BackEnd::Queue, health)).await.is_ok();
        let broker = match self.broker() {
            Ok(broker) => broker,
            Err(problem) => {
                say(Health::Down { since: Timestamp::now(), problem }).await;
                return;
            }
        };
        let mut health = broker.health();
        let connect = async {
            // Its first failure is told as health, and further tries are the broker's own.
            broker.connect().await.ok();
            std::future::pending::<()>().await;
        };
        let listen = async {
            while health.changed().await.is_ok() {
                let now = health.borrow_and_update().clone();
                if !say(now).await {
                    return;
                }
            }
        };
        tokio::select! {
            () = connect => {}
            () = listen => {}
        }
    }

    /// Tells whom the cluster takes us for, once it can be asked.
    pub(crate) async fn tell_operator(self, tell: mpsc::Sender<Msg>) {
        let Some(kube) = self.kube_at_last().await else { return };
        let name = match self.operator(&kube, "cluster").await {
            Ok(name) => name,
            // What has to be signed says so itself when it comes to it.
            Err(problem) => return tracing::warn!(%problem, "whom the cluster takes us for is not known"),
        };
        // Nobody listens any more when the console ends.
        let _ = tell.send(Msg::Operator(name)).await;
    }

    /// The permit to change something.
    pub(crate) fn permit(&self, subject: &str) -> Result<Permit, Problem> {
        self.settings.permit().map_err(|error| OpError::from(error).problem(subject))
    }

    /// The name that a decision is signed with.
    pub(crate) async fn operator(&self, kube: &Kube, subject: &str) -> Result<String, Problem> {
        ops::operator(kube, &self.settings.environment).await.map_err(|error| error.problem(subject))
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

    async fn say(&self, health: Health) {
        // Nobody listens any more when the console ends.
        let _ = self.tell.send(Msg::Health(self.back_end, health)).await;
    }
}
