//! What is counted, for Prometheus: `/metrics`.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::ops::sync::Counters;

/// Serves what is counted until `shutdown`.
pub(super) async fn serve(
    listener: TcpListener,
    counters: watch::Receiver<Counters>,
    shutdown: CancellationToken,
) {
    let routes = Router::new().route("/metrics", get(metrics)).with_state(counters);
    let served = axum::serve(listener, routes).with_graceful_shutdown(shutdown.cancelled_owned()).await;
    if let Err(error) = served {
        tracing::error!(%error, "the metrics are not served any more");
    }
}

async fn metrics(State(counters): State<watch::Receiver<Counters>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let text = text(&counters.borrow());
    ([(http::header::CONTENT_TYPE, kind)], text).into_response()
}

/// As text in the OpenMetrics format, which Prometheus and Victoria Metrics read.
fn text(counters: &Counters) -> String {
    let mut registry = Registry::with_prefix("hostwright_sync");
    let counted = [
        ("rounds", "Rounds that ended", counters.rounds),
        ("failed_rounds", "Rounds in which something could not be done", counters.failed_rounds),
        ("listing_pages", "Pages of listings that were asked for", counters.pages),
        ("downloads", "Objects that were read", counters.downloads),
        ("downloaded_bytes", "Bytes that were read", counters.bytes),
        ("removals", "Files that were removed", counters.removals),
        (
            "put_back",
            "Files that were put back after they had been altered or removed here",
            counters.put_back,
        ),
        ("commands", "Times that the command ran", counters.commands),
        ("failed_commands", "Times that the command failed", counters.failed_commands),
    ];
    for (name, help, count) in counted {
        registry.register(name, help, ConstCounter::new(count));
    }
    let gauge = |number: u64| ConstGauge::new(i64::try_from(number).unwrap_or(i64::MAX));
    registry.register("files", "Files that are as in the bucket", gauge(counters.files));
    registry.register("skipped_objects", "Objects that can be no files", gauge(counters.left));
    let synced = counters.synced.map_or(0, |synced| synced.as_second());
    let help = "When all was last as in the bucket, in Unix time; 0: never yet";
    registry.register_with_unit("synced", help, Unit::Seconds, ConstGauge::new(synced));
    let mut text = String::new();
    if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &registry) {
        tracing::error!(%error, "the metrics cannot be written");
    }
    text
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn what_is_counted_is_told() {
        let synced = Some(Timestamp::from_second(1_700_000_000).unwrap());
        let text = text(&Counters { rounds: 7, put_back: 1, files: 3, synced, ..Counters::default() });
        for line in [
            "hostwright_sync_rounds_total 7",
            "hostwright_sync_put_back_total 1",
            "hostwright_sync_files 3",
            "hostwright_sync_synced_seconds 1700000000",
            "hostwright_sync_failed_rounds_total 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
    }
}
