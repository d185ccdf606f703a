//! The kubelet's part: which pods of this node have a worker, and what they are told.
//!
//! Owned by the loop in `run.rs`, which passes on what the watch on pods says. The API alone says what is to run: a pod without a
//! worker that says it runs is one that an earlier runner lost.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

use super::events::Recorder;
use super::jobs::{exactly, unless_gone};
use super::worker::{Order, Worker, is_fresh};
use super::{Options, launch, pods, process};

/// What the last writes may take once every container has ended.
const LAST_WRITES: Duration = Duration::from_secs(3);
/// How long what an earlier runner left may take to end by itself.
const LEFTOVER: Duration = Duration::from_secs(40);

struct Hand {
    pod: Pod,
    orders: watch::Sender<Order>,
}

/// The workers of this node.
pub(super) struct Kubelet {
    client: Client,
    api: Api<Pod>,
    options: Arc<Options>,
    recorder: Recorder,
    hands: HashMap<String, Hand>,
    /// Pods that have finished, so that an old view of one starts nothing.
    done: HashSet<String>,
    workers: JoinSet<()>,
    /// Whose task it is.
    tasks: HashMap<Id, String>,
    /// Small deeds that nothing waits for, but the end.
    chores: JoinSet<()>,
    /// What was in the work folder when the runner started.
    leftovers: Vec<String>,
    seen: HashSet<String>,
}

impl Kubelet {
    /// A kubelet that has seen no pod yet. `leftovers` are the names in the work folder.
    pub(super) fn new(
        client: Client,
        options: &Arc<Options>,
        recorder: Recorder,
        leftovers: Vec<String>,
    ) -> Self {
        Self {
            api: Api::namespaced(client.clone(), &options.namespace),
            client,
            options: Arc::clone(options),
            recorder,
            hands: HashMap::new(),
            done: HashSet::new(),
            workers: JoinSet::new(),
            tasks: HashMap::new(),
            chores: JoinSet::new(),
            leftovers,
            seen: HashSet::new(),
        }
    }

    /// A list of all pods begins.
    pub(super) fn list_begins(&mut self) {
        self.seen.clear();
    }

    /// A pod of that list.
    pub(super) fn listed(&mut self, pod: &Pod) {
        self.seen.insert(pods::uid(pod).to_owned());
        self.observe(pod);
    }

    /// The list is complete: what it lacked is gone. The first time, what an earlier runner left is cleared away.
    pub(super) fn list_ends(&mut self) {
        let known: HashSet<&String> = self.hands.keys().chain(&self.done).collect();
        let gone: Vec<String> = known.into_iter().filter(|u| !self.seen.contains(*u)).cloned().collect();
        for uid in gone {
            self.gone(&uid);
        }
        self.seen.clear();
        for name in std::mem::take(&mut self.leftovers) {
            let uid = name.trim_end_matches(".pid").to_owned();
            if is_uid(&uid) && !self.hands.contains_key(&uid) {
                let options = Arc::clone(&self.options);
                self.chores.spawn(async move {
                    process::end_noted(&launch::note(&options, &uid), LEFTOVER).await;
                    launch::clear(&options, &uid).await;
                });
            }
        }
    }

    /// A pod was created or changed.
    pub(super) fn observe(&mut self, pod: &Pod) {
        let uid = pods::uid(pod);
        if !pods::is_on_node(pod, &self.options.node) || !is_uid(uid) {
            return;
        }
        let order = match (&pod.metadata.deletion_timestamp, pod.metadata.deletion_grace_period_seconds) {
            (None, _) => Order::Run,
            (Some(_), grace) => {
                let grace = grace.and_then(|g| u64::try_from(g).ok()).unwrap_or(pods::grace_seconds(pod));
                Order::End(Duration::from_secs(grace))
            }
        };
        if let Some(hand) = self.hands.get(uid) {
            hand.orders.send_if_modified(|known| {
                let newer =
                    matches!(*known, Order::Run | Order::End(_)) && order != Order::Run && *known != order;
                if newer {
                    *known = order;
                }
                newer
            });
        } else if self.done.contains(uid) || pods::is_terminal(pod) {
            self.done.insert(uid.to_owned());
            if matches!(order, Order::End(grace) if !grace.is_zero()) {
                self.remove(pod);
            }
        } else {
            self.hire(pod.clone(), order, !is_fresh(pod));
        }
    }

    /// A pod is not there any more.
    pub(super) fn gone(&mut self, uid: &str) {
        self.done.remove(uid);
        if let Some(hand) = self.hands.get(uid) {
            hand.orders.send_replace(Order::Gone);
        } else if is_uid(uid) {
            self.remove_logs(uid);
        }
    }

    /// Whether any worker is at work.
    pub(super) fn is_busy(&self) -> bool {
        !self.workers.is_empty()
    }

    /// Waits for a worker to end and sees to what is left to do for its pod. Only while [`Kubelet::is_busy`].
    pub(super) async fn next_end(&mut self) {
        let Some(ended) = self.workers.join_next_with_id().await else { return };
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        let Some(hand) = self.tasks.remove(&id).and_then(|uid| self.hands.remove(&uid)) else { return };
        let uid = pods::uid(&hand.pod).to_owned();
        let order = *hand.orders.borrow();
        if let Err(error) = ended {
            if !error.is_cancelled() {
                tracing::error!(pod = pods::name(&hand.pod), %error, "the worker of a pod broke down");
                self.hire(hand.pod, order, true);
            }
            return;
        }
        if order == Order::Gone {
            self.remove_logs(&uid);
            return;
        }
        self.done.insert(uid);
        if matches!(order, Order::End(_)) {
            self.remove(&hand.pod);
        }
    }

    /// Ends every container and waits until their pods' statuses are written, within the time that the options give. Returns the
    /// Jobs whose pods were ended.
    pub(super) async fn stop(&mut self) -> HashSet<String> {
        let jobs =
            self.hands.values().filter_map(|h| pods::owner(&h.pod)).map(|(job, _)| job.to_owned()).collect();
        for hand in self.hands.values() {
            hand.orders.send_if_modified(|known| {
                let running = *known == Order::Run;
                if running {
                    *known = Order::Stop;
                }
                running
            });
        }
        let until = Instant::now() + self.options.stop_within + LAST_WRITES;
        let all = async {
            while self.is_busy() {
                self.next_end().await;
            }
            while self.chores.join_next().await.is_some() {}
        };
        if tokio::time::timeout_at(until, all).await.is_err() {
            tracing::warn!(
                pods = self.hands.len(),
                "not every pod could be ended in time; the rest is left to its leash"
            );
            self.workers.abort_all();
            self.chores.abort_all();
        }
        jobs
    }

    fn hire(&mut self, pod: Pod, order: Order, begun: bool) {
        let uid = pods::uid(&pod).to_owned();
        let (sender, orders) = watch::channel(order);
        let worker = Worker {
            client: self.client.clone(),
            api: self.api.clone(),
            options: Arc::clone(&self.options),
            recorder: self.recorder.clone(),
            pod: pod.clone(),
            begun,
            orders,
        };
        let task = self.workers.spawn(worker.live());
        self.tasks.insert(task.id(), uid.clone());
        self.hands.insert(uid, Hand { pod, orders: sender });
    }

    /// Deletes a finished pod for good, as only its kubelet may.
    fn remove(&mut self, pod: &Pod) {
        let (api, name, uid) = (self.api.clone(), pods::name(pod).to_owned(), pods::uid(pod).to_owned());
        self.reap_chores();
        self.chores.spawn(async move {
            let params = kube::api::DeleteParams { grace_period_seconds: Some(0), ..exactly(&uid) };
            let mut wait = Duration::from_millis(100);
            for _ in 0..10 {
                match unless_gone(api.delete(&name, &params).await.map(|_| ())) {
                    Ok(_) => return,
                    // Another pod of this name: ours is gone.
                    Err(kube::Error::Api(status)) if status.code == 409 => return,
                    Err(error) => tracing::warn!(pod = name, %error, "cannot remove a pod; trying again"),
                }
                tokio::time::sleep(wait).await;
                wait = wait.saturating_mul(2);
            }
        });
    }

    fn remove_logs(&mut self, uid: &str) {
        let logs = self.options.logs.join(uid);
        self.reap_chores();
        self.chores.spawn(async move {
            remove_folder(&logs).await;
        });
    }

    fn reap_chores(&mut self) {
        while self.chores.try_join_next().is_some() {}
    }
}

async fn remove_folder(folder: &Path) {
    match tokio::fs::remove_dir_all(folder).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(folder = %folder.display(), %error, "cannot remove the log of a pod");
        }
        _ => {}
    }
}

/// Whether this may name a folder: a UID is letters, digits and hyphens.
fn is_uid(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}
