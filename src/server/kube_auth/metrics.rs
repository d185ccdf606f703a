//! What is counted, for `/metrics`.

use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Which review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(super) enum Review {
    /// TokenReview.
    Token,
    /// SubjectAccessReview.
    Access,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(super) enum Answer {
    /// Authenticated, or allowed.
    Yes,
    /// Not.
    No,
    /// It was no review, the client is not known, or there is no good file yet.
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    review: Review,
    answer: Answer,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct File {
    file: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reload {
    file: &'static str,
    good: &'static str,
}

/// All counters.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    reviews: Family<Answered, Counter>,
    took: Histogram,
    reloads: Family<Reload, Counter>,
    entries: Family<File, Gauge>,
    since: Family<File, Gauge>,
    broken: Family<File, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Registry::with_prefix("hostwright_kube_auth"),
            reviews: Family::default(),
            took: Histogram::new([0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05]),
            reloads: Family::default(),
            entries: Family::default(),
            since: Family::default(),
            broken: Family::default(),
        };
        metrics.registered()
    }
}

impl Metrics {
    fn registered(mut self) -> Self {
        let registry = &mut self.registry;
        registry.register("reviews", "Reviews by kind and answer", self.reviews.clone());
        let help = "How long an answer took, without the network";
        registry.register_with_unit("review_duration", help, Unit::Seconds, self.took.clone());
        registry.register(
            "reloads",
            "Changes of a file that were seen, by whether they were good",
            self.reloads.clone(),
        );
        registry.register("file_entries", "Entries of the last good file", self.entries.clone());
        let help = "When the last good file was taken, in Unix time";
        registry.register_with_unit("file_loaded", help, Unit::Seconds, self.since.clone());
        registry.register("file_broken", "1 while a file cannot be used as it is", self.broken.clone());
        self
    }

    pub(super) fn answered(&self, review: Review, answer: Answer, took: Duration) {
        self.reviews.get_or_create(&Answered { review, answer }).inc();
        self.took.observe(took.as_secs_f64());
    }

    /// A change was seen: how many entries the file has, or none when it cannot be used.
    pub(super) fn reload(&self, file: &'static str, entries: Option<usize>) {
        let good = if entries.is_some() { "yes" } else { "no" };
        self.reloads.get_or_create(&Reload { file, good }).inc();
        self.broken.get_or_create(&File { file }).set(i64::from(entries.is_none()));
        if let Some(entries) = entries {
            self.entries.get_or_create(&File { file }).set(i64::try_from(entries).unwrap_or(i64::MAX));
            self.since.get_or_create(&File { file }).set(Timestamp::now().as_second());
        }
    }

    /// As text in the OpenMetrics format, which Prometheus and Victoria Metrics read.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            tracing::error!(%error, "the metrics cannot be written");
        }
        text
    }
}
