//! A gate in front of an API server: it records every request, and answers as a real API server does where something is forbidden or
//! the credentials are not good.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::net::TcpListener;

/// One request: the verb and resource as an API server calls them.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) at: Instant,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) verb: &'static str,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) status: u16,
    /// It was told that its version is too old.
    pub(crate) expired: bool,
}

/// The two shapes in which an API server says that a watch's version is too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// Status 410.
    Refused,
    /// Status 200, and an event that says so.
    Event,
}

impl Request {
    fn read(method: &Method, uri: &Uri) -> Self {
        let parts: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
        let rest = if parts.first() == Some(&"apis") { parts.get(3..) } else { parts.get(2..) };
        let (namespace, rest) = match rest.unwrap_or_default() {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let resource = rest.first().copied().unwrap_or_default().to_owned();
        let resource = rest.get(2).map_or(resource.clone(), |part| format!("{resource}/{part}"));
        let watches =
            uri.query().is_some_and(|query| query.contains("watch=true") || query.contains("watch=1"));
        let verb = match method.as_str() {
            "GET" if watches => "watch",
            "GET" if rest.len() < 2 => "list",
            "GET" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "unknown",
        };
        Self {
            at: Instant::now(),
            method: method.clone(),
            path: uri.to_string(),
            verb,
            resource,
            namespace: namespace.to_owned(),
            status: 0,
            expired: false,
        }
    }

    /// The request that is asked about: whether it would be let through.
    fn reviewed(&self, body: &[u8]) -> Option<Asked> {
        if self.verb != "create" || self.resource != "selfsubjectaccessreviews" {
            return None;
        }
        let review: serde_json::Value = serde_json::from_slice(body).unwrap();
        let text = |field: &str| review["spec"]["resourceAttributes"][field].as_str().map(str::to_owned);
        let part = text("subresource").map(|part| format!("/{part}")).unwrap_or_default();
        let resource = text("resource")? + &part;
        Some(Asked { verb: text("verb")?, resource, name: text("name"), review })
    }

    /// True for what changes something: asking who one is and what one may is a POST too.
    pub(crate) fn changes(&self) -> bool {
        self.method != Method::GET && !self.resource.starts_with("selfsubject")
    }
}

/// What a review asks about.
struct Asked {
    verb: String,
    resource: String,
    name: Option<String>,
    review: serde_json::Value,
}

#[derive(Default)]
struct Inner {
    server: String,
    /// Verb and resource.
    denied: Mutex<Vec<(&'static str, &'static str)>>,
    /// Verb and the end of a path: forbidden for this object alone.
    spared: Mutex<Vec<(&'static str, String)>>,
    /// The only token that is good; none: all are.
    token: Mutex<Option<String>>,
    /// What the next watches of jobs are told.
    expiries: Mutex<VecDeque<Expiry>>,
    seen: Mutex<Vec<Request>>,
}

impl Inner {
    /// The user that it speaks of is olga.
    fn denies(&self, verb: &str, resource: &str, path: &str) -> bool {
        let kind = self.denied.lock().unwrap().iter().any(|(v, r)| *v == verb && *r == resource);
        kind || self.spared.lock().unwrap().iter().any(|(v, end)| *v == verb && path.ends_with(end))
    }

    /// What a review would be told: the same as the request itself.
    fn review(&self, asked: Option<Asked>) -> Option<Response> {
        let Asked { verb, resource, name, mut review } = asked?;
        let path = name.map(|name| format!("/{name}")).unwrap_or_default();
        if !self.denies(&verb, &resource, &path) {
            return None;
        }
        review["status"] = json!({"allowed": false, "reason": "no rule for olga"});
        Some((StatusCode::CREATED, axum::Json(review)).into_response())
    }
}

/// It ends when dropped.
#[derive(Clone)]
pub(crate) struct Gate {
    port: u16,
    inner: Arc<Inner>,
    http: reqwest::Client,
    task: Arc<Task>,
}

struct Task(Mutex<Option<tokio::task::JoinHandle<()>>>);

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = self.0.lock().unwrap().take() {
            task.abort();
        }
    }
}

impl Gate {
    /// In front of this server, on a free port of loopback.
    pub(crate) async fn start(server: &str) -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gate = Self {
            port: listener.local_addr().unwrap().port(),
            inner: Arc::new(Inner { server: server.to_owned(), ..Inner::default() }),
            http: reqwest::Client::new(),
            task: Arc::new(Task(Mutex::new(None))),
        };
        let served = (gate.inner.clone(), gate.http.clone());
        let router = axum::Router::new().fallback(forward).with_state(served);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        *gate.task.0.lock().unwrap() = Some(task);
        gate
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The next watch of jobs is told that its version is too old.
    pub(crate) fn expire(&self, shape: Expiry) {
        self.inner.expiries.lock().unwrap().push_back(shape);
    }

    /// Forbids a verb on a resource from now on.
    pub(crate) fn deny(&self, verb: &'static str, resource: &'static str) {
        self.inner.denied.lock().unwrap().push((verb, resource));
    }

    /// Forbids a verb on the object of this name.
    pub(crate) fn deny_one(&self, verb: &'static str, name: &str) {
        self.inner.spared.lock().unwrap().push((verb, format!("/{name}")));
    }

    /// Forbids nothing any more.
    pub(crate) fn allow(&self) {
        self.inner.denied.lock().unwrap().clear();
        self.inner.spared.lock().unwrap().clear();
    }

    /// From now on no other token is good.
    pub(crate) fn only(&self, token: &str) {
        *self.inner.token.lock().unwrap() = Some(token.to_owned());
    }

    /// Everything that came so far.
    pub(crate) fn seen(&self) -> Vec<Request> {
        self.inner.seen.lock().unwrap().clone()
    }
}

fn refusal(code: StatusCode, reason: &str, message: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "code": code.as_u16(), "message": message,
    });
    (code, axum::Json(status)).into_response()
}

fn too_old(shape: Expiry) -> Response {
    let message = "too old resource version: 1 (2)";
    match shape {
        Expiry::Refused => refusal(StatusCode::GONE, "Expired", message),
        Expiry::Event => {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "reason": "Expired", "code": 410, "message": message,
            });
            let event = format!("{}\n", json!({"type": "ERROR", "object": status}));
            ([("content-type", "application/json")], event).into_response()
        }
    }
}

async fn forward(
    State((inner, http)): State<(Arc<Inner>, reqwest::Client)>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut request = Request::read(&method, &uri);
    let token = inner.token.lock().unwrap().clone();
    let given = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let denied = inner.denies(request.verb, &request.resource, uri.path());
    let watches_jobs = request.verb == "watch" && request.resource == "jobs";
    let expiry = if watches_jobs { inner.expiries.lock().unwrap().pop_front() } else { None };
    request.expired = expiry.is_some();
    let answer = if let Some(shape) = expiry {
        too_old(shape)
    } else if token.is_some_and(|token| given != format!("Bearer {token}")) {
        refusal(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    } else if denied {
        let Request { verb, resource, namespace, .. } = &request;
        let message = format!(
            "{resource} is forbidden: User \"olga\" cannot {verb} resource \"{resource}\" in the namespace \"{namespace}\""
        );
        refusal(StatusCode::FORBIDDEN, "Forbidden", &message)
    } else if let Some(answer) = inner.review(request.reviewed(&body)) {
        answer
    } else {
        ask(&inner.server, &http, method, &uri, &headers, body).await
    };
    request.status = answer.status().as_u16();
    inner.seen.lock().unwrap().push(request);
    answer
}

async fn ask(
    server: &str,
    http: &reqwest::Client,
    method: Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: Bytes,
) -> Response {
    let mut asked = http.request(method, format!("{server}{uri}")).body(body);
    for name in ["content-type", "accept", "user-agent"] {
        if let Some(value) = headers.get(name) {
            asked = asked.header(name, value);
        }
    }
    let Ok(answer) = asked.send().await else { return StatusCode::BAD_GATEWAY.into_response() };
    let mut response = Response::builder().status(answer.status());
    for name in ["content-type", "date", "warning"] {
        if let Some(value) = answer.headers().get(name) {
            response = response.header(name, value);
        }
    }
    // Piece by piece: a watch never ends.
    let pieces = futures_util::stream::try_unfold(answer, async |mut answer| {
        Ok::<_, reqwest::Error>(answer.chunk().await?.map(|piece| (piece, answer)))
    });
    response.body(Body::from_stream(pieces)).unwrap()
}
