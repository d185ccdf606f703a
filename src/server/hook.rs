//! `POST /host/online`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequest, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::Context;
use super::access::{caller, contains, has_token};
use super::follow::{Overview, Runs};
use super::pages;
use super::room::{Place, Room};
use super::told::Told;
use crate::domain::{ANNOUNCEMENT_LIMIT, Announcement, Health, RawAnnouncement, Run};
use crate::ops::{self, OpError};

const BODY_LIMIT: usize = 16 * 1024;
/// Requests that speak to the API server at the same time; the others wait their turn.
const AT_ONCE: usize = 32;
/// When a machine is to come again, in seconds.
const RETRY_SOON: u64 = 5;
const RETRY_LATER: u64 = 60;
/// What the log is told of: announcements that are not recorded.
const RECORDING: &str = "recording";

#[derive(Clone)]
pub(super) struct Hook {
    pub(super) context: Arc<Context>,
    pub(super) overview: watch::Receiver<Overview>,
    pub(super) runs: Runs,
    turns: Arc<Semaphore>,
    room: Arc<Room>,
    told: Arc<Told>,
}

/// What the server answers.
#[derive(Clone)]
pub(super) struct Routes {
    /// Everything.
    pub(super) all: Router,
    /// The same when there are too many connections: only whether it is alive and ready.
    pub(super) crowded: Router,
}

pub(super) fn routes(
    context: Arc<Context>,
    runs: Runs,
    overview: watch::Receiver<Overview>,
    room: Arc<Room>,
) -> Routes {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let hook = Hook { context, overview, runs, turns, room, told: Arc::default() };
    let health = pages::routes();
    let crowded = health.clone().fallback(async || {
        try_again(StatusCode::SERVICE_UNAVAILABLE, RETRY_SOON, "too many machines call at once: try again")
    });
    let all = health
        .route("/host/online", post(online))
        .fallback(async || refuse(StatusCode::NOT_FOUND, None, "there is nothing here: POST /host/online"))
        .method_not_allowed_fallback(async || {
            refuse(
                StatusCode::METHOD_NOT_ALLOWED,
                None,
                "use POST for /host/online, GET for /healthz, /readyz and /metrics",
            )
        })
        .layer(DefaultBodyLimit::max(BODY_LIMIT));
    Routes { all: all.with_state(hook.clone()), crowded: crowded.with_state(hook) }
}

/// What is answered when a request is refused.
#[derive(Debug)]
struct Refusal(Box<Response>);

impl From<Response> for Refusal {
    fn from(response: Response) -> Self {
        Self(Box::new(response))
    }
}

fn refuse(status: StatusCode, field: Option<&str>, reason: impl std::fmt::Display) -> Response {
    let mut body = Map::new();
    if let Some(field) = field {
        body.insert("field".to_owned(), json!(field));
    }
    body.insert("error".to_owned(), json!(reason.to_string()));
    (status, Json(Value::Object(body))).into_response()
}

fn try_again(status: StatusCode, after: u64, reason: impl std::fmt::Display) -> Response {
    let mut response = refuse(status, None, reason);
    response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(after));
    response
}

fn unavailable(after: u64, why: impl std::fmt::Display) -> Refusal {
    try_again(StatusCode::SERVICE_UNAVAILABLE, after, why).into()
}

/// When a machine is to come again after a failure: when the API server wants to be asked again, within bounds.
fn patience(error: &OpError) -> u64 {
    let wanted = match error {
        OpError::Kube(error) => error.retry_after(),
        _ => None,
    };
    wanted.map_or(RETRY_SOON, |wanted| wanted.as_secs().clamp(RETRY_SOON, RETRY_LATER))
}

async fn online(
    State(hook): State<Hook>,
    Extension(ConnectInfo(peer)): Extension<ConnectInfo<SocketAddr>>,
    request: Request,
) -> Response {
    let limit = hook.context.settings.request_timeout;
    let begun = Instant::now();
    let response = match tokio::time::timeout(limit, hook.answer(peer.ip(), request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(Refusal(response))) => *response,
        Err(_) => *unavailable(RETRY_SOON, "the request took too long: try again").0,
    };
    hook.context.metrics.called(response.status().as_u16(), begun.elapsed());
    response
}

impl Hook {
    async fn answer(&self, peer: IpAddr, request: Request) -> Result<Response, Refusal> {
        let settings = &self.context.settings;
        let caller = caller(peer, request.headers(), &settings.proxies).ok_or_else(|| {
            refuse(
                StatusCode::BAD_REQUEST,
                None,
                "the forwarded header of the proxy cannot be read: nobody knows who called",
            )
        })?;
        if !settings.networks.is_empty() && !contains(&settings.networks, caller) {
            return Err(Refusal::from(refuse(
                StatusCode::FORBIDDEN,
                None,
                format!("{caller} may not call from there"),
            )));
        }
        if let Some(token) = &self.context.token
            && !has_token(request.headers(), token)
        {
            let mut response = refuse(StatusCode::UNAUTHORIZED, None, "the bearer token is missing or wrong");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
            return Err(response.into());
        }
        let announcement = read(request, caller).await?;
        self.record(&announcement).await
    }

    async fn record(&self, announcement: &Announcement) -> Result<Response, Refusal> {
        let context = &self.context;
        self.runs_are_known().await?;
        let _turn = self.turns.acquire().await.map_err(|e| unavailable(RETRY_SOON, e))?;
        let place = self.place(announcement).await?;
        let queue = context.broker.is_some();
        let announced =
            ops::announce::announce(&context.kube, &context.permit, &context.template, announcement, queue)
                .await
                .map_err(|error| self.not_recorded(announcement, &error))?;
        self.told.is_over(RECORDING);
        let run = announced.run;
        if let Some(place) = place.filter(|_| announced.created) {
            place.taken_by(&run);
        }
        if announced.created {
            context.metrics.created();
        }
        let status = if announced.created { StatusCode::ACCEPTED } else { StatusCode::OK };
        tracing::info!(host = %run.host, run = run.name, created = announced.created, "online");
        Ok((status, Json(json!({"host": run.host, "run": run.name, "phase": run.phase}))).into_response())
    }

    /// What the machine is told of a failure that it cannot mend. Why it was is in the log, once for all machines that call meanwhile.
    fn not_recorded(&self, announcement: &Announcement, error: &OpError) -> Refusal {
        if self.told.is_news(RECORDING, format!("{:?}", error.problem("").kind)) {
            tracing::warn!(host = %announcement.host, %error, "announcements are not recorded: machines come again");
        } else {
            tracing::debug!(host = %announcement.host, %error, "an announcement was not recorded");
        }
        unavailable(patience(error), "the announcement could not be recorded: try again")
    }

    /// Before all runs are known nobody knows how many are pending. Waits for the first list, but not for a cluster that is down.
    async fn runs_are_known(&self) -> Result<(), Refusal> {
        let mut overview = self.overview.clone();
        let known =
            overview.wait_for(|o| o.pending.is_some() || matches!(o.cluster, Health::Down { .. })).await;
        if known.is_ok_and(|o| o.pending.is_some()) {
            return Ok(());
        }
        Err(unavailable(RETRY_SOON, "the runs are not known yet: try again"))
    }

    /// With too many pending runs only hosts that have a run already are heard; they need no place.
    async fn place(&self, announcement: &Announcement) -> Result<Option<Place>, Refusal> {
        if let Some(place) = self.room.enter(&announcement.host) {
            return Ok(Some(place));
        }
        let limit = self.context.settings.pending_limit;
        let answered = |run: &Run| announcement.boot.is_some() && run.boot == announcement.boot;
        match ops::runs::of_host(&self.context.kube, &announcement.host).await {
            Ok(details) if !details.run.is_over() || answered(&details.run) => Ok(None),
            Ok(_) | Err(OpError::NotFound(_)) => Err(Refusal::from(try_again(
                StatusCode::TOO_MANY_REQUESTS,
                RETRY_LATER,
                format!("{limit} hosts are pending already: try again later"),
            ))),
            Err(error) => Err(self.not_recorded(announcement, &error)),
        }
    }
}

/// Reads and checks the request's body.
async fn read(request: Request, caller: IpAddr) -> Result<Announcement, Refusal> {
    let form = is_form(request.headers())?;
    let body = Bytes::from_request(request, &()).await.map_err(|rejection| {
        let status = rejection.status();
        let text = match status {
            StatusCode::PAYLOAD_TOO_LARGE => format!("the body has more than {BODY_LIMIT} bytes"),
            _ => "the body could not be read".to_owned(),
        };
        Refusal::from(refuse(status, None, text))
    })?;
    let mut raw = if form { from_form(&body) } else { from_json(&body) }?;
    raw.address = raw.address.filter(|a| !a.is_empty());
    let announced = raw.address.is_some();
    raw.address = raw.address.or_else(|| Some(caller.to_string()));
    let announcement = raw
        .check()
        .map_err(|e| Refusal::from(refuse(StatusCode::BAD_REQUEST, Some(e.field), e.to_string())))?;
    if announced && !caller.is_loopback() && announcement.address.is_some_and(is_own_or_link_local) {
        return Err(wrong(
            "address",
            "is a loopback or link-local address: it names no host to anybody else",
        ));
    }
    let size = announcement.to_json().len();
    if size > ANNOUNCEMENT_LIMIT {
        let text =
            format!("the announcement has {size} bytes, more than {ANNOUNCEMENT_LIMIT}: send fewer facts");
        return Err(Refusal::from(refuse(StatusCode::PAYLOAD_TOO_LARGE, None, text)));
    }
    Ok(announcement)
}

/// Ansible would go to this machine, or to somebody on another wire.
fn is_own_or_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unicast_link_local(),
    }
}

fn is_form(headers: &HeaderMap) -> Result<bool, Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/json" => Ok(false),
        "application/x-www-form-urlencoded" => Ok(true),
        _ => Err(Refusal::from(refuse(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            None,
            "send application/json or application/x-www-form-urlencoded",
        ))),
    }
}

fn wrong(field: &'static str, reason: impl std::fmt::Display) -> Refusal {
    Refusal::from(refuse(StatusCode::BAD_REQUEST, Some(field), format!("{field} {reason}")))
}

fn from_json(body: &[u8]) -> Result<RawAnnouncement, Refusal> {
    let value: Value = serde_json::from_slice(body).map_err(|e| {
        Refusal::from(refuse(StatusCode::BAD_REQUEST, None, format!("the body is not JSON: {e}")))
    })?;
    let Value::Object(mut fields) = value else {
        return Err(Refusal::from(refuse(StatusCode::BAD_REQUEST, None, "the body is not a JSON object")));
    };
    let mut text = |name: &'static str| match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Array(items)) if name == "sshkeys" || name == "groups" => {
            let lines: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            lines.map(|l| Some(l.join("\n"))).ok_or_else(|| wrong(name, "is not a list of texts"))
        }
        Some(_) => Err(wrong(name, "is not a text")),
    };
    let mut raw = RawAnnouncement {
        hostname: text("hostname")?.ok_or_else(|| wrong("hostname", "is missing"))?,
        sshkeys: text("sshkeys")?.unwrap_or_default(),
        boot: text("boot")?,
        address: text("address")?,
        branch: text("branch")?,
        groups: split(&text("groups")?.unwrap_or_default()),
        facts: Map::new(),
    };
    raw.facts = match fields.remove("facts") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(facts)) => facts,
        Some(_) => return Err(wrong("facts", "is not a JSON object")),
    };
    Ok(raw)
}

fn from_form(body: &[u8]) -> Result<RawAnnouncement, Refusal> {
    let mut raw = RawAnnouncement::default();
    let mut named = false;
    for (name, value) in form_urlencoded::parse(body) {
        match name.as_ref() {
            "hostname" => {
                raw.hostname = value.into_owned();
                named = true;
            }
            "sshkeys" => {
                raw.sshkeys.push_str(&value);
                raw.sshkeys.push('\n');
            }
            "boot" => raw.boot = Some(value.into_owned()),
            "address" => raw.address = Some(value.into_owned()),
            "branch" => raw.branch = Some(value.into_owned()),
            "groups" => raw.groups.extend(split(&value)),
            "facts" if !value.trim().is_empty() => {
                raw.facts = serde_json::from_str(&value)
                    .map_err(|e| wrong("facts", format!("is not a JSON object: {e}")))?;
            }
            _ => {}
        }
    }
    if named { Ok(raw) } else { Err(wrong("hostname", "is missing")) }
}

fn split(groups: &str) -> Vec<String> {
    groups.split([',', ' ', '\n', '\t', '\r']).filter(|g| !g.is_empty()).map(str::to_owned).collect()
}

/// The state alone: why a back end is down names addresses and users, and is in the log.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_and_json_say_the_same() {
        let json = from_json(
            br#"{"hostname":"web-1","sshkeys":["a","b"],"groups":["web","db"],"facts":{"cores":4},"boot":"1"}"#,
        )
        .unwrap();
        let form =
            from_form(b"hostname=web-1&sshkeys=a%0Ab&groups=web,db&facts=%7B%22cores%22%3A4%7D&boot=1")
                .unwrap();
        assert_eq!(json.groups, form.groups);
        assert_eq!(json.facts, form.facts);
        assert_eq!(json.sshkeys.trim(), form.sshkeys.trim());
        assert_eq!((json.hostname, json.boot), (form.hostname, form.boot));
    }

    #[test]
    fn wrong_types_are_refused_with_the_field() {
        for body in [
            r#"{}"#,
            r#"{"hostname":1}"#,
            r#"{"hostname":"a","facts":[]}"#,
            r#"{"hostname":"a","groups":[1]}"#,
            "[]",
            "{",
        ] {
            assert_eq!(from_json(body.as_bytes()).unwrap_err().0.status(), StatusCode::BAD_REQUEST, "{body}");
        }
        assert!(from_form(b"hostnam=x").is_err());
    }
}
