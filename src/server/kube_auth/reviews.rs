//! The two reviews and what is around them, as HTTP. Both are answered in the version that they were asked in
//! (<https://kubernetes.io/docs/reference/access-authn-authz/webhook/> and `…/authentication/#webhook-token-authentication>`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::accept::ClientIsKnown;
use super::files::Followed;
use super::metrics::{Answer, Review};
use super::{Known, Tokens};
use crate::domain::kube_auth::{Policies, Question, Target};

/// A review carries what the user's certificate or provider said of them (`extra`), which may be much.
const LARGEST: usize = 1 << 20;
/// How long a request may take, its body included: who sends a byte now and then must not keep a connection.
const LIMIT: Duration = Duration::from_secs(10);

pub(super) fn routes(known: Known) -> Router {
    let health = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics));
    let reviews = Router::new()
        .route("/authorize/token", post(token))
        .route("/authorize/policy", post(policy))
        .layer(DefaultBodyLimit::max(LARGEST))
        .layer(axum::middleware::from_fn(limited));
    health.merge(reviews).with_state(known)
}

async fn limited(request: Request, next: Next) -> Response {
    let late =
        |_| Refusal(StatusCode::REQUEST_TIMEOUT, "the request did not come whole in time").into_response();
    tokio::time::timeout(LIMIT, next.run(request)).await.unwrap_or_else(late)
}

/// Why a review is not answered.
#[derive(Debug)]
struct Refusal(StatusCode, &'static str);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({"error": self.1}))).into_response()
    }
}

const NOT_KNOWN: Refusal =
    Refusal(StatusCode::UNAUTHORIZED, "a client certificate of the configured CA is needed");
const NOT_READY: Refusal = Refusal(StatusCode::SERVICE_UNAVAILABLE, "there is no good file yet: see /readyz");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked<S> {
    api_version: String,
    kind: String,
    spec: S,
}

impl<'a, S: Deserialize<'a>> Asked<S> {
    fn read(body: &'a [u8], kind: &str, versions: [&str; 2]) -> Result<Self, Refusal> {
        let bad = |text| Refusal(StatusCode::BAD_REQUEST, text);
        // The error of serde may quote the request, and that holds a token.
        let asked: Self = serde_json::from_slice(body).map_err(|_| bad("this is no review"))?;
        if asked.kind != kind || !versions.contains(&asked.api_version.as_str()) {
            return Err(bad("another kind or version of review was expected"));
        }
        Ok(asked)
    }

    fn answer(&self, status: &Value) -> Response {
        Json(json!({"apiVersion": self.api_version, "kind": self.kind, "status": status})).into_response()
    }
}

#[derive(Deserialize)]
struct TokenSpec {
    #[serde(default)]
    token: String,
}

/// TokenReview. A token that nobody has is no error. The answer names no audiences: that is how a reviewer says that it knows of
/// none, and the API server then takes the token as one for itself.
async fn token(
    State(known): State<Known>,
    Extension(client): Extension<ClientIsKnown>,
    body: Bytes,
) -> Result<Response, Refusal> {
    let begun = Instant::now();
    counted(&known, Review::Token, begun, review_token(&known, client, &body))
}

fn review_token(known: &Known, client: ClientIsKnown, body: &[u8]) -> Result<(Response, bool), Refusal> {
    admit(known, client)?;
    let versions = ["authentication.k8s.io/v1", "authentication.k8s.io/v1beta1"];
    let asked = Asked::<TokenSpec>::read(body, "TokenReview", versions)?;
    let tokens: Arc<Tokens> = known.tokens.borrow().good.clone().ok_or(NOT_READY)?;
    Ok(match tokens.identity(&asked.spec.token) {
        Some(identity) => (asked.answer(&json!({"authenticated": true, "user": identity})), true),
        None => (asked.answer(&json!({"authenticated": false})), false),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccessSpec {
    resource_attributes: Option<Resource>,
    non_resource_attributes: Option<NonResource>,
    #[serde(default)]
    user: String,
    /// As v1 has it.
    groups: Option<Vec<String>>,
    /// As v1beta1 has it.
    group: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resource {
    namespace: String,
    verb: String,
    group: String,
    resource: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NonResource {
    path: String,
    verb: String,
}

/// SubjectAccessReview. What no line allows is left to the API server's other authorizers: it is not denied.
async fn policy(
    State(known): State<Known>,
    Extension(client): Extension<ClientIsKnown>,
    body: Bytes,
) -> Result<Response, Refusal> {
    let begun = Instant::now();
    counted(&known, Review::Access, begun, review_access(&known, client, &body))
}

/// An answer with its yes or no, counted.
fn counted(
    known: &Known,
    review: Review,
    begun: Instant,
    answer: Result<(Response, bool), Refusal>,
) -> Result<Response, Refusal> {
    let outcome = match &answer {
        Ok((_, true)) => Answer::Yes,
        Ok((_, false)) => Answer::No,
        Err(_) => Answer::Refused,
    };
    known.metrics.answered(review, outcome, begun.elapsed());
    answer.map(|(response, _)| response)
}

fn review_access(known: &Known, client: ClientIsKnown, body: &[u8]) -> Result<(Response, bool), Refusal> {
    admit(known, client)?;
    let versions = ["authorization.k8s.io/v1", "authorization.k8s.io/v1beta1"];
    let asked = Asked::<AccessSpec>::read(body, "SubjectAccessReview", versions)?;
    let spec = &asked.spec;
    let (verb, target) = match (&spec.resource_attributes, &spec.non_resource_attributes) {
        (Some(at), None) => (
            &at.verb,
            Target::Resource { namespace: &at.namespace, group: &at.group, resource: &at.resource },
        ),
        (None, Some(at)) => (&at.verb, Target::Path(&at.path)),
        _ => {
            let text = "exactly one of resourceAttributes and nonResourceAttributes is needed";
            return Err(Refusal(StatusCode::BAD_REQUEST, text));
        }
    };
    let groups = spec.groups.as_deref().or(spec.group.as_deref()).unwrap_or_default();
    let policies: Arc<Policies> = known.policy.borrow().good.clone().ok_or(NOT_READY)?;
    let allowed = policies.allows(&Question { user: &spec.user, groups, verb, target });
    let status = match allowed {
        Some(policy) => json!({"allowed": true, "reason": format!("line {} of the policy", policy.line)}),
        None => json!({"allowed": false, "reason": "no line of the policy allows it"}),
    };
    Ok((asked.answer(&status), allowed.is_some()))
}

fn admit(known: &Known, client: ClientIsKnown) -> Result<(), Refusal> {
    if known.clients_are_known && !client.0 { Err(NOT_KNOWN) } else { Ok(()) }
}

/// Ready once each file was good; what is wrong with one now is told, and does not make it less ready.
async fn ready(State(known): State<Known>) -> Response {
    let files = [file(&known.tokens), file(&known.policy), file(&known.certificate)];
    let status =
        if files.iter().all(|(good, _)| *good) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let [(_, tokens), (_, policy), (_, certificate)] = files;
    (status, Json(json!({"tokens": tokens, "policy": policy, "certificate": certificate}))).into_response()
}

fn file<T>(known: &tokio::sync::watch::Receiver<Followed<T>>) -> (bool, Value) {
    let known = known.borrow();
    let told = json!({
        "entries": known.entries,
        "since": known.since,
        "problem": known.problem,
        "warnings": known.warnings,
    });
    (known.good.is_some(), told)
}

async fn metrics(State(known): State<Known>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(http::header::CONTENT_TYPE, kind)], known.metrics.text()).into_response()
}
