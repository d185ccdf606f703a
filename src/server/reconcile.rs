//! The server's loop: it watches all runs and does what they ask for: approval by rule, delivery, answers to marks, queues to
//! delete, places for runs that wait for one, old runs to prune.
//!
//! Level-triggered: what is to be done is read from the runs as they are, so that nothing is lost when this process is killed at
//! any point. Only the holder of the Lease works; every replica watches.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::follow::{self, Overview, Runs, lock};
use super::notes::Notes;
use super::places::Places;
use super::told::Told;
use super::{Context, approvals};
use crate::backend::kube::Holder;
use crate::domain::approvals::{Approvals, Standing};
use crate::domain::{Health, Phase, Run};
use crate::ops::marks::Wish;
use crate::ops::prune::Keep;
use crate::ops::{self, OpError};

const LEASE: &str = "hostwright-server";
const LEASE_LIFETIME: Duration = Duration::from_secs(15);
const LEASE_RENEWED_EVERY: Duration = Duration::from_secs(5);
/// What failed is left alone for this long, unless a full pass is due.
const REST: Duration = Duration::from_secs(5);
const AT_ONCE: usize = 8;
/// What else than a run the log is told of.
const BROKER: &str = "broker";
const PRUNE: &str = "prune";

pub(super) async fn run(
    context: Arc<Context>,
    runs: Runs,
    overview: watch::Sender<Overview>,
    shutdown: CancellationToken,
) {
    let changed = Arc::new(Notify::new());
    let leads = Arc::new(AtomicBool::new(false));
    let lines = watch::Sender::new(0);
    tokio::join!(
        follow::follow(&context, &runs, &changed, &overview, &lines, &shutdown),
        approvals::follow(&context, &changed, &overview, &lines, &shutdown),
        lead(&context, &leads, &changed, &overview, &shutdown),
        work(&context, &runs, &changed, &leads, &overview, &shutdown),
        ask_ara(&context, &overview, &shutdown),
        connect(&context, &shutdown),
    );
}

/// Asks ARA now and then whether it is there.
async fn ask_ara(context: &Context, overview: &watch::Sender<Overview>, shutdown: &CancellationToken) {
    let Some(ara) = &context.ara else {
        overview.send_modify(|o| o.ara = Health::Unused);
        return;
    };
    loop {
        let health = match ara.ping().await {
            Ok(()) => Health::Up,
            Err(error) => Health::Down { since: Timestamp::now(), problem: error.problem() },
        };
        overview.send_if_modified(|o| match (&o.ara, &health) {
            (Health::Up, Health::Up) | (Health::Down { .. }, Health::Down { .. }) => false,
            _ => {
                tracing::info!(up = health == Health::Up, "ARA");
                o.ara = health;
                true
            }
        });
        tokio::select! {
            () = tokio::time::sleep(context.settings.repair_interval) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

/// Connects to the broker before there is something to deliver; further tries are its own.
async fn connect(context: &Context, shutdown: &CancellationToken) {
    let Some(broker) = &context.broker else { return };
    tokio::select! {
        connected = broker.connect() => {
            if let Err(error) = connected {
                tracing::warn!(%error, "the broker is not there yet");
            }
        }
        () = shutdown.cancelled() => {}
    }
}

/// Takes and keeps the Lease.
async fn lead(
    context: &Context,
    leads: &AtomicBool,
    changed: &Notify,
    overview: &watch::Sender<Overview>,
    shutdown: &CancellationToken,
) {
    let us = identity(context.alone);
    let mut last_held = None;
    while !shutdown.is_cancelled() {
        // The Lease runs from before it was asked for, and an answer that comes late is none.
        let asked = Instant::now();
        let held = context.kube.hold_lease(&context.permit, LEASE, &us, LEASE_LIFETIME, Timestamp::now());
        match tokio::time::timeout(LEASE_RENEWED_EVERY, held).await {
            Ok(Ok(Holder::Us)) => last_held = Some(asked),
            Ok(Ok(Holder::Other(_))) => last_held = None,
            Ok(Err(error)) => tracing::debug!(%error, "the Lease could not be renewed"),
            Err(_) => tracing::debug!("the Lease could not be renewed: no answer"),
        }
        // An API server that does not answer takes the Lease from nobody before it expires.
        let now_leads = last_held.is_some_and(|at| at.elapsed() < LEASE_LIFETIME);
        if leads.swap(now_leads, Ordering::Relaxed) != now_leads {
            tracing::info!(delivers = now_leads, "Lease");
            overview.send_modify(|o| o.delivers = now_leads);
            changed.notify_one();
        }
        tokio::select! {
            () = tokio::time::sleep(LEASE_RENEWED_EVERY) => {}
            () = shutdown.cancelled() => {}
        }
    }
    if leads.load(Ordering::Relaxed)
        && let Err(error) = context.kube.release_lease(&context.permit, LEASE, &us).await
    {
        tracing::debug!(%error, "the Lease was not released: it expires by itself");
    }
}

/// Who we are to other replicas.
fn identity(alone: bool) -> String {
    if alone {
        return "alone".to_owned();
    }
    let mut bytes = [0; 8];
    // Without random numbers the process id must do.
    if getrandom::fill(&mut bytes).is_err() {
        bytes = u64::from(std::process::id()).to_le_bytes();
    }
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{name}_{}", data_encoding::HEXLOWER.encode(&bytes))
}

/// Does what there is to do: on every change, when the broker comes back, and in full every repair interval.
async fn work(
    context: &Context,
    runs: &Runs,
    changed: &Notify,
    leads: &AtomicBool,
    overview: &watch::Sender<Overview>,
    shutdown: &CancellationToken,
) {
    let mut broker = context.broker.as_ref().map(crate::backend::amqp::Broker::health);
    let mut full = tokio::time::interval(context.settings.repair_interval);
    full.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut resting: HashMap<String, Instant> = HashMap::new();
    let notes = Notes::default();
    let mut places = Places::default();
    let told = Told::default();
    loop {
        let mut pass = Pass::Changes;
        tokio::select! {
            () = changed.notified() => {}
            _ = full.tick() => pass = Pass::Full,
            () = back(&mut broker) => pass = Pass::Full,
            () = shutdown.cancelled() => return,
        }
        if !leads.load(Ordering::Relaxed) {
            continue;
        }
        if pass == Pass::Full {
            resting.clear();
        }
        resting.retain(|_, since| since.elapsed() < REST);
        notes.forget_old();
        told.keep(|uid| uid == BROKER || uid == PRUNE || lock(runs).contains_key(uid));
        let approvals = overview.borrow().approvals.clone();
        let due: Vec<Run> = lock(runs)
            .values()
            .filter(|run| !resting.contains_key(&run.uid) && needs_work(context, run, &approvals))
            .cloned()
            .collect();
        let waiting = due.iter().filter(|run| run.undelivered()).count();
        match broker_problem(context) {
            Some(why) if waiting > 0 && told.is_news(BROKER, &why) => {
                tracing::warn!(waiting, why, "the broker is down: deliveries wait");
            }
            None => _ = told.is_over(BROKER),
            Some(_) => {}
        }
        tokio::select! {
            () = places.tell(context, &approvals, pass == Pass::Full) => {}
            () = shutdown.cancelled() => return,
        }
        let failed = tokio::select! {
            failed = serve_all(context, due, &notes, &told, &approvals) => failed,
            () = shutdown.cancelled() => return,
        };
        resting.extend(failed.into_iter().map(|uid| (uid, Instant::now())));
        tokio::select! {
            () = places.fill(context, runs, &approvals, pass == Pass::Full) => {}
            () = shutdown.cancelled() => return,
        }
        if pass == Pass::Full {
            tokio::select! {
                () = prune(context, runs, &told) => {}
                () = shutdown.cancelled() => return,
            }
        }
    }
}

/// What the worker looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Runs that have changed; what failed a moment ago rests.
    Changes,
    /// Everything.
    Full,
}

/// Waits until the broker's health turns to up.
async fn back(health: &mut Option<watch::Receiver<Health>>) {
    match health {
        None => std::future::pending().await,
        Some(health) => loop {
            if health.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if *health.borrow_and_update() == Health::Up {
                return;
            }
        },
    }
}

fn needs_work(context: &Context, run: &Run, approvals: &Standing) -> bool {
    by_rule(context, run, approvals)
        || run.undelivered()
        || Wish::ALL.into_iter().any(|wish| wish.is_due(run, approvals.hold().is_some()))
        || ops::forget::asked(run)
        || (run.queue && run.is_over())
}

/// Whether the rule approves a run: not while approvals are held, or while nobody knows whether they are.
fn by_rule(context: &Context, run: &Run, approvals: &Standing) -> bool {
    let pending = run.phase == Phase::Pending && !run.deleting;
    pending && approvals.is_open() && context.environment.approval.approves(run.host.as_str())
}

/// Serves several runs at once; returns those that failed.
async fn serve_all(
    context: &Context,
    due: Vec<Run>,
    notes: &Notes,
    told: &Told,
    approvals: &Standing,
) -> Vec<String> {
    futures_util::stream::iter(due)
        .map(|run| async move {
            let Err(failed) = serve_one(context, &run, notes, approvals).await else {
                told.is_over(&run.uid);
                return None;
            };
            if told.is_news(&run.uid, &failed) {
                tracing::warn!(run = run.name, error = %failed, "tried again later");
            }
            Some(run.uid)
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await
}

async fn serve_one(context: &Context, run: &Run, notes: &Notes, approvals: &Standing) -> Result<(), OpError> {
    let Context { kube, permit, environment, settings, template, broker, .. } = context;
    // The limit is this server's, whatever it has told others before.
    let hold = approvals.hold().cloned();
    let terms = Approvals { hold, released: None, runs_at_once: settings.runs_at_once };
    if by_rule(context, run, approvals) {
        match ops::decide::approve_by_rule(kube, permit, environment, &run.into(), settings.runs_at_once)
            .await
        {
            Ok(_) | Err(OpError::Decided { .. } | OpError::Changed(_) | OpError::NotFound(_)) => {}
            // The watch over the hold tells when it is over, and then this run is looked at again.
            Err(OpError::Held { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    ops::marks::answer(kube, permit, environment, template, run, &terms).await?;
    if ops::forget::asked(run) {
        Box::pin(ops::forget::carry_out(kube, permit, run)).await?;
    }
    if let Some(problem) = broker_problem(context) {
        // It tries by itself to come back, and then everything is looked at again.
        notes.write(context, run, &problem).await;
        return Ok(());
    }
    if run.undelivered() {
        let delivered = ops::deliver::deliver(kube, permit, broker.as_ref(), run).await;
        context.metrics.delivered(delivered.is_ok());
        if let Err(error) = delivered {
            notes.write(context, run, &error.to_string()).await;
            return Err(error);
        }
    }
    if run.queue && run.is_over() {
        ops::deliver::clean_up(kube, permit, broker.as_ref(), run).await?;
    }
    Ok(())
}

/// Why the broker is down, when it is.
fn broker_problem(context: &Context) -> Option<String> {
    match &*context.broker.as_ref()?.health().borrow() {
        Health::Down { problem, .. } => Some(problem.text.clone()),
        _ => None,
    }
}

async fn prune(context: &Context, runs: &Runs, told: &Told) {
    let keep = Keep { number: context.settings.keep_runs, time: context.settings.keep_for };
    let surplus: Vec<Run> = {
        let runs = lock(runs);
        ops::prune::surplus(runs.values(), keep, Timestamp::now()).into_iter().cloned().collect()
    };
    for run in surplus {
        let note = format!("pruned: {} has newer runs", run.host);
        match ops::prune::delete(&context.kube, &context.permit, &run, &note).await {
            Ok(()) => {
                context.metrics.pruned();
                told.is_over(PRUNE);
            }
            // One reason is as good as ten: it is not the run that cannot be deleted.
            Err(error) if told.is_news(PRUNE, format!("{:?}", error.problem("").kind)) => {
                tracing::warn!(%error, "not pruned: tried again later");
            }
            Err(_) => {}
        }
    }
}
