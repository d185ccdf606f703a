//! Carrying out effects: each on its own task of the runtime, each answered exactly once.
//!
//! A task that panics or is cancelled is answered for. Nothing here decides whether an effect is allowed: the mind offers only
//! what is, and the back ends' methods that change something want a permit.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinError, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::caps::Multiplexer;
use super::edit::Opened;
use super::outside::Outside;
use super::{clipboard, deeds, notify, rights, secrets, topics, watch};
use crate::app::secrets::{Back, SecretDeed};
use crate::app::{Answer, Effect, EffectId, Msg, RunRef};
use crate::config::{Config, Settings};
use crate::domain::secret::shown;
use crate::domain::{BackEnd, Health, Problem, ProblemKind};
use crate::ops;
use crate::ops::shell::Shell;

/// How many effects are carried out at a time.
const AT_ONCE: usize = 16;
/// How long the end of the console waits for changes that are under way.
const LAST_CHANGES: Duration = Duration::from_secs(3);

/// All effects that are under way, and the streams.
#[derive(Debug)]
pub(crate) struct Effects {
    outside: Outside,
    /// Takes what is ready to get the terminal for a while.
    lends: mpsc::Sender<Lend>,
    tell: mpsc::Sender<Msg>,
    inside: Multiplexer,
    /// What is under way, by id.
    cancel: HashMap<EffectId, Pending>,
    /// Those that answer; the changes among them are waited for at the end.
    changes: JoinSet<()>,
    others: JoinSet<()>,
    /// The ends of environments that were left; each says what it does not know.
    left: JoinSet<Vec<String>>,
    /// What runs for as long as the console.
    streams: JoinSet<()>,
    /// The run that is followed: its UID and the tasks that do it.
    followed: Option<(String, JoinSet<()>)>,
    /// What sends the rows of the topic that is shown.
    looked: Option<JoinSet<()>>,
    /// Bytes for the terminal.
    words: VecDeque<Vec<u8>>,
    /// Lets so many effects through at a time.
    gate: Arc<Semaphore>,
}

/// What is ready to get the terminal for a while, or what comes back from that.
#[derive(Debug)]
pub(crate) enum Lend {
    /// A shell on a host.
    Shell(Shell),
    /// A text in the editor.
    Edit(Box<Opened>),
    /// A text that was not uploaded: the operator is asked.
    Back(Box<Opened>, Back),
}

/// An effect that is under way.
#[derive(Debug)]
struct Pending {
    task: AbortHandle,
    /// How it is cancelled gently: it ends by itself and says what it did.
    stop: Option<CancellationToken>,
    doing: String,
    changes: bool,
}

type Done = Result<Answer, Problem>;

impl Effects {
    pub(crate) fn new(
        settings: Arc<Settings>,
        config: Arc<Config>,
        inside: Multiplexer,
        tell: mpsc::Sender<Msg>,
        lends: mpsc::Sender<Lend>,
    ) -> Self {
        Self {
            outside: Outside::new(settings, config, tell.clone()),
            lends,
            tell,
            inside,
            cancel: HashMap::new(),
            changes: JoinSet::new(),
            others: JoinSet::new(),
            left: JoinSet::new(),
            streams: JoinSet::new(),
            followed: None,
            looked: None,
            words: VecDeque::new(),
            gate: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Starts to speak to the back ends. Called once, after the first frame.
    pub(crate) fn connect(&mut self) {
        if !self.outside.configured() {
            return;
        }
        let environment = &self.outside.settings.environment;
        for (back_end, used) in
            [(BackEnd::Queue, environment.amqp.is_some()), (BackEnd::Ara, environment.ara.is_some())]
        {
            if !used {
                let tell = self.tell.clone();
                self.streams.spawn(async move {
                    let _ = tell.send(Msg::Health(back_end, Health::Unused)).await;
                });
            }
        }
        self.streams.spawn(self.outside.clone().connect_kube(self.tell.clone()));
        self.streams.spawn(self.outside.clone().tell_operator(self.tell.clone()));
        self.streams.spawn(rights::watch(self.outside.clone(), self.tell.clone()));
        self.streams.spawn(self.outside.clone().watch_queue(self.tell.clone()));
        self.streams.spawn(watch::ara(self.outside.clone()));
        self.streams.spawn(watch::runs(self.outside.clone(), self.tell.clone()));
    }

    /// Whether there is something to say to the terminal.
    pub(crate) fn speaks(&self) -> bool {
        !self.words.is_empty()
    }

    /// What is to be said to the terminal with the next frame.
    pub(crate) fn words(&mut self) -> impl Iterator<Item = Vec<u8>> + use<'_> {
        self.words.drain(..)
    }

    /// Starts one.
    pub(crate) fn start(&mut self, effect: Effect) {
        while self.changes.try_join_next().is_some() || self.others.try_join_next().is_some() {}
        self.cancel.retain(|_, pending| !pending.task.is_finished());
        match effect {
            Effect::Cancel(id) => {
                if let Some(pending) = self.cancel.get(&id) {
                    match &pending.stop {
                        Some(stop) => stop.cancel(),
                        None => pending.task.abort(),
                    }
                }
            }
            Effect::Follow { run } => self.follow(run),
            Effect::Unfollow { run } => {
                self.followed.take_if(|(uid, _)| *uid == run);
            }
            Effect::Look(topic) => {
                let mut task = JoinSet::new();
                task.spawn(topics::look(self.outside.clone(), topic, self.tell.clone()));
                self.looked = Some(task);
            }
            Effect::LookSecrets => self.look_at_secrets(),
            Effect::GiveCode(code) => {
                let mut task = JoinSet::new();
                task.spawn(secrets::look_with(self.outside.clone(), code, self.tell.clone()));
                self.looked = Some(task);
            }
            Effect::LookAway => self.looked = None,
            Effect::AskRights => self.outside.ask_rights.notify_one(),
            Effect::Notify(text) => {
                let console = &self.outside.settings.console;
                self.words.extend(notify::sequence(&text, console.bell, console.notify, self.inside));
            }
            Effect::WriteLog(line) => tracing::info!("{line}"),
            Effect::Copy { id, text } => {
                let size = format!("{} characters", text.chars().count());
                self.copy(id, text.into_bytes(), &size);
            }
            Effect::CopyBytes { id, bytes } => {
                let size = format!("{} bytes", bytes.len());
                self.copy(id, bytes, &size);
            }
            Effect::Shell { id, run } => self.open_shell(id, run),
            Effect::Secret { id, deed: SecretDeed::Edit(secret) } => self.open_editor(id, secret.key),
            effect => self.spawn(effect),
        }
    }

    /// Makes ready what opens a shell; the loop opens it.
    fn open_shell(&mut self, id: EffectId, run: RunRef) {
        let (outside, lends) = (self.outside.clone(), self.lends.clone());
        let doing = format!("opening a shell on {}", run.host);
        let task = tokio::spawn(async move {
            let host = run.host.to_string();
            let permit = outside.permit(&host)?;
            let kube = outside.kube().await?;
            let shell = ops::shell::prepare(&kube, &permit, &outside.settings.environment, &run.name).await;
            // Nobody opens it any more when the console ends.
            let _ = lends.send(Lend::Shell(shell.map_err(|error| error.problem(&host))?)).await;
            Ok(Answer::Done(String::new()))
        });
        self.cancel.insert(id, Pending::new(&task, doing.clone(), false));
        self.others.spawn(answer(id, doing, false, task, self.tell.clone()));
    }

    fn look_at_secrets(&mut self) {
        let mut task = JoinSet::new();
        task.spawn(secrets::look(self.outside.clone(), self.tell.clone()));
        self.looked = Some(task);
    }

    /// Makes a secret's text ready; the loop opens it, and the answer comes when all is done.
    fn open_editor(&mut self, id: EffectId, key: String) {
        let (outside, lends) = (self.outside.clone(), self.lends.clone());
        let doing = format!("editing {}", shown(&key));
        let task = tokio::spawn(async move {
            let secrets = outside.secrets().await?;
            let opened =
                Opened::prepare(id, secrets, &key).await.map_err(|error| error.problem(shown(&key)))?;
            // Nobody opens it any more when the console ends.
            let _ = lends.send(Lend::Edit(Box::new(opened))).await;
            Ok(None)
        });
        self.cancel.insert(id, Pending::new(&task, doing.clone(), false));
        self.others.spawn(answer_some(id, doing, false, task, self.tell.clone()));
    }

    /// Uploads a text that was edited; what the bucket does not take comes back to the loop.
    pub(crate) fn save(&mut self, opened: Opened, text: Vec<u8>) {
        let (id, lends) = (opened.id, self.lends.clone());
        let doing = format!("uploading {}", shown(opened.key()));
        let task = tokio::spawn(async move {
            match Box::pin(opened.save(text)).await {
                Ok(answer) => Ok(Some(answer)),
                Err((opened, why)) => {
                    // Nobody asks any more when the console ends.
                    let _ = lends.send(Lend::Back(opened, why)).await;
                    Ok(None)
                }
            }
        });
        self.cancel.insert(id, Pending::new(&task, doing.clone(), true));
        self.changes.spawn(answer_some(id, doing, true, task, self.tell.clone()));
    }

    /// Waits, for a bounded time, for the changes that are under way; the rest is broken off. Returns the changes whose answer did
    /// not come: whether they were made is not known.
    pub(crate) async fn finish(mut self) -> Vec<String> {
        // Nobody takes the answers any more: without room for them their senders would wait.
        let (nowhere, _) = mpsc::channel(1);
        self.tell = nowhere;
        self.streams.abort_all();
        self.others.abort_all();
        (self.followed, self.looked) = (None, None);
        let mut unknown: Vec<String> = self.left.join_all().await.into_iter().flatten().collect();
        let all = async { while self.changes.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_CHANGES, all).await.is_ok() {
            return unknown;
        }
        tracing::warn!("the console ended before it heard whether its last changes were made");
        let open = self.cancel.iter().filter(|(_, pending)| !pending.task.is_finished());
        unknown.extend(open.filter(|(_, p)| p.changes).map(|(_, p)| p.doing.clone()));
        unknown
    }

    /// Waits at the end for these changes too: those of environments that were left.
    pub(crate) fn with_left(mut self, left: JoinSet<Vec<String>>) -> Self {
        self.left = left;
        self
    }

    fn spawn(&mut self, effect: Effect) {
        let Some(id) = effect.id() else { return };
        let (doing, changes) = (effect.doing(), effect.changes());
        let (gate, outside, tell) = (self.gate.clone(), self.outside.clone(), self.tell.clone());
        let stop = effect.is_stoppable().then(CancellationToken::new);
        let cancel = stop.clone().unwrap_or_default();
        let task = tokio::spawn(async move {
            // Hundreds of marked rows are worked through; the API server is not stormed. The gate is never closed.
            let _turn = gate.acquire().await;
            deeds::carry_out(outside, effect, &cancel, tell).await
        });
        self.cancel.insert(id, Pending { stop, ..Pending::new(&task, doing.clone(), changes) });
        let answering = answer(id, doing, changes, task, self.tell.clone());
        if changes {
            self.changes.spawn(answering)
        } else {
            self.others.spawn(answering)
        };
    }

    /// Follows this run, in place of any other.
    fn follow(&mut self, run: RunRef) {
        let mut tasks = JoinSet::new();
        let (over, is_over) = tokio::sync::watch::channel(false);
        tasks.spawn(watch::log(self.outside.clone(), run.clone(), over, self.tell.clone()));
        tasks.spawn(watch::results(self.outside.clone(), run.clone(), is_over, self.tell.clone()));
        self.followed = Some((run.uid, tasks));
    }

    fn copy(&mut self, id: EffectId, text: Vec<u8>, size: &str) {
        let sent = Answer::Done(format!("sent {size} to the clipboard"));
        let tell = self.tell.clone();
        if self.inside == Multiplexer::Tmux {
            let task = tokio::spawn(async move { clipboard::tmux(&text).await.map(|()| sent) });
            let doing = "copying".to_owned();
            self.cancel.insert(id, Pending::new(&task, doing.clone(), false));
            self.others.spawn(answer(id, doing, false, task, tell));
            return;
        }
        let result = clipboard::sequence(&text, self.inside).map(|bytes| {
            self.words.push_back(bytes);
            sent
        });
        self.others.spawn(async move {
            let _ = tell.send(Msg::Answer { id, result }).await;
        });
    }
}

impl Pending {
    fn new<T>(task: &JoinHandle<T>, doing: String, changes: bool) -> Self {
        Self { task: task.abort_handle(), stop: None, doing, changes }
    }
}

/// Waits for a task and answers for it, whatever became of it.
async fn answer(id: EffectId, doing: String, changes: bool, task: JoinHandle<Done>, tell: mpsc::Sender<Msg>) {
    let task = async { task.await.map(|done| done.map(Some)) };
    answer_some(id, doing, changes, task, tell).await;
}

/// The same for a task that may leave the answer to somebody else.
async fn answer_some(
    id: EffectId,
    doing: String,
    changes: bool,
    task: impl Future<Output = Result<Result<Option<Answer>, Problem>, JoinError>>,
    tell: mpsc::Sender<Msg>,
) {
    let result = task.await.unwrap_or_else(|error| {
        let (kind, what) = match (error.is_cancelled(), changes) {
            (true, true) => (ProblemKind::Refused, "cancelled; it may have been done all the same"),
            (true, false) => (ProblemKind::Refused, "cancelled"),
            (false, _) => (ProblemKind::Failed, "it crashed; the log has the details"),
        };
        Err(Problem::new(doing.clone(), kind, format!("{doing}: {what}")))
    });
    if let Some(result) = result.transpose() {
        // Nobody listens any more when the console ends.
        let _ = tell.send(Msg::Answer { id, result }).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answered(task: JoinHandle<Done>, changes: bool) -> Result<String, String> {
        let (tell, mut told) = mpsc::channel(4);
        answer(EffectId(7), "approving web-1".to_owned(), changes, task, tell).await;
        let Some(Msg::Answer { id, result }) = told.recv().await else { panic!("no answer") };
        assert_eq!(id, EffectId(7));
        assert!(told.recv().await.is_none(), "one answer, no more");
        result.map(|answer| format!("{answer:?}")).map_err(|problem| problem.text)
    }

    #[tokio::test]
    async fn each_effect_is_answered_once_whatever_becomes_of_it() {
        let done = tokio::spawn(async { Ok(Answer::Done("approved".to_owned())) });
        assert_eq!(answered(done, true).await, Ok("Done(\"approved\")".to_owned()));

        let crashed = tokio::spawn(async { panic!("in a test") });
        assert!(answered(crashed, true).await.unwrap_err().contains("crashed"));

        for (changes, word) in [(true, "may have been done"), (false, "cancelled")] {
            let endless = tokio::spawn(std::future::pending::<Done>());
            endless.abort();
            assert!(answered(endless, changes).await.unwrap_err().contains(word));
        }
    }
}
