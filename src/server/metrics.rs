//! What is counted, for `/metrics`: nothing is labelled by host or run, so that their number does not grow with the machines.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::follow::{Overview, Runs, lock};
use crate::domain::{Health, Phase};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Status {
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPhase {
    phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BackEnd {
    back_end: &'static str,
}

/// All counters.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    calls: Family<Status, Counter>,
    took: Histogram,
    created: Counter,
    deliveries: Family<Outcome, Counter>,
    pruned: Counter,
    runs: Family<OfPhase, Gauge>,
    undelivered: Gauge,
    up: Family<BackEnd, Gauge>,
    delivers: Gauge,
    held: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Registry::with_prefix("hostwright_server"),
            calls: Family::default(),
            took: Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]),
            created: Counter::default(),
            deliveries: Family::default(),
            pruned: Counter::default(),
            runs: Family::default(),
            undelivered: Gauge::default(),
            up: Family::default(),
            delivers: Gauge::default(),
            held: Gauge::default(),
        };
        metrics.registered()
    }
}

impl Metrics {
    fn registered(mut self) -> Self {
        let registry = &mut self.registry;
        registry.register("hook_calls", "Calls of POST /host/online by status", self.calls.clone());
        let help = "How long such a call took";
        registry.register_with_unit("hook_call_duration", help, Unit::Seconds, self.took.clone());
        registry.register("runs_created", "Runs that announcements made", self.created.clone());
        registry.register("deliveries", "Deliveries of approved runs by result", self.deliveries.clone());
        registry.register("runs_pruned", "Old runs that were deleted", self.pruned.clone());
        registry.register("runs", "Runs in the cluster by phase", self.runs.clone());
        let help = "Approved runs whose message is not with the broker";
        registry.register("runs_undelivered", help, self.undelivered.clone());
        registry.register("back_end_up", "Whether a back end answers", self.up.clone());
        registry.register("delivers", "Whether this replica delivers", self.delivers.clone());
        registry.register("approvals_held", "Whether approvals are held", self.held.clone());
        self
    }

    /// A machine called and got this answer.
    pub(super) fn called(&self, status: u16, took: Duration) {
        self.calls.get_or_create(&Status { status }).inc();
        self.took.observe(took.as_secs_f64());
    }

    /// An announcement made a run.
    pub(super) fn created(&self) {
        self.created.inc();
    }

    /// A delivery was tried.
    pub(super) fn delivered(&self, well: bool) {
        self.deliveries.get_or_create(&Outcome { result: if well { "done" } else { "failed" } }).inc();
    }

    /// A run was deleted for its age or number.
    pub(super) fn pruned(&self) {
        self.pruned.inc();
    }

    /// As text in the OpenMetrics format, with everything as it stands now.
    pub(super) fn text(&self, runs: &Runs, overview: &Overview, broker: Option<bool>) -> String {
        self.look(runs);
        let ara = match overview.ara {
            Health::Unused => None,
            ref health => Some(*health == Health::Up),
        };
        let cluster = Some(overview.cluster == Health::Up);
        for (back_end, up) in [("kubernetes", cluster), ("ara", ara), ("amqp", broker)] {
            if let Some(up) = up {
                self.up.get_or_create(&BackEnd { back_end }).set(i64::from(up));
            }
        }
        self.delivers.set(i64::from(overview.delivers));
        self.held.set(i64::from(overview.approvals.hold().is_some()));
        let mut text = String::new();
        if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            tracing::error!(%error, "the metrics cannot be written");
        }
        text
    }

    fn look(&self, runs: &Runs) {
        let runs = lock(runs);
        for phase in Phase::ALL {
            let count = runs.values().filter(|run| run.phase == phase).count();
            let phase = phase.as_str();
            self.runs.get_or_create(&OfPhase { phase }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let undelivered = runs.values().filter(|run| run.undelivered()).count();
        self.undelivered.set(i64::try_from(undelivered).unwrap_or(i64::MAX));
    }
}
