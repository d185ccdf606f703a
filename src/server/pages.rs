//! `GET /healthz`, `/readyz` and `/metrics`: how the server is.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{StatusCode, header};
use serde_json::json;

use super::hook::Hook;
use crate::domain::Health;

pub(super) fn routes() -> Router<Hook> {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
}

fn word(health: &Health) -> &'static str {
    match health {
        Health::Unused => "unused",
        Health::Unknown => "unknown",
        Health::Up => "up",
        Health::Down { .. } => "down",
    }
}

async fn ready(State(hook): State<Hook>) -> Response {
    let overview = hook.overview.borrow().clone();
    let queue = queue(&hook);
    let status = if overview.cluster == Health::Up && overview.pending.is_some() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = json!({
        "cluster": word(&overview.cluster),
        "queue": word(&queue),
        "ara": word(&overview.ara),
        "pending": overview.pending,
        "delivers": overview.delivers,
        "approvals": overview.approvals.word(),
    });
    (status, Json(body)).into_response()
}

/// The broker's health.
fn queue(hook: &Hook) -> Health {
    hook.context.broker.as_ref().map_or(Health::Unused, |broker| broker.health().borrow().clone())
}

async fn metrics(State(hook): State<Hook>) -> Response {
    let overview = hook.overview.borrow().clone();
    let broker = match queue(&hook) {
        Health::Unused => None,
        health => Some(health == Health::Up),
    };
    let text = hook.context.metrics.text(&hook.runs, &overview, broker);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
