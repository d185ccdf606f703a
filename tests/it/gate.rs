//! A gate in front of an API server: it records every request, and answers as a real API server does where something is forbidden or
//! the credentials are not good, and as one that is in trouble does.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

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
    /// What went wrong with it on purpose.
    pub(crate) fault: Option<Fault>,
}

/// The two shapes in which an API server says that a watch's version is too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// Status 410.
    Refused,
    /// Status 200, and an event that says so.
    Event,
}

/// What an API server in trouble, or what stands before it, does in place of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It answers with this status.
    Status(u16),
    /// It answers with this status, and wants to be left alone for so many seconds.
    Busy(u16, u64),
    /// A page of a load balancer's with this status.
    Page(u16),
    /// It takes the request and never answers.
    Silence,
    /// The connection is reset.
    Reset,
    /// The head of an answer comes, and never a byte more.
    Mute,
}

/// The connection is to be reset.
#[derive(Debug)]
struct Reset;

impl std::fmt::Display for Reset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("reset")
    }
}

impl std::error::Error for Reset {}

/// What goes wrong, and how often.
struct Plan {
    verb: &'static str,
    path: String,
    fault: Fault,
    left: usize,
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
            fault: None,
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
    plans: Mutex<Vec<Plan>>,
    seen: Mutex<Vec<Request>>,
}

impl Inner {
    /// The user that it speaks of is olga.
    fn denies(&self, verb: &str, resource: &str, path: &str) -> bool {
        let kind = self.denied.lock().unwrap().iter().any(|(v, r)| *v == verb && *r == resource);
        kind || self.spared.lock().unwrap().iter().any(|(v, end)| *v == verb && path.ends_with(end))
    }

    /// What goes wrong with this request.
    fn fault(&self, verb: &str, path: &str) -> Option<Fault> {
        let mut plans = self.plans.lock().unwrap();
        let fits = |plan: &&mut Plan| {
            plan.left > 0 && (plan.verb.is_empty() || plan.verb == verb) && path.contains(&plan.path)
        };
        let plan = plans.iter_mut().find(fits)?;
        plan.left -= 1;
        Some(plan.fault)
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
    cuts: watch::Sender<u32>,
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
            cuts: watch::Sender::new(0),
            task: Arc::new(Task(Mutex::new(None))),
        };
        let (inner, http, cuts) = (gate.inner.clone(), gate.http.clone(), gate.cuts.clone());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (inner, http, mut cuts) = (inner.clone(), http.clone(), cuts.subscribe());
                connections.spawn(async move {
                    tokio::select! {
                        () = serve(stream, inner, http) => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
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

    /// So often a request of this verb (empty: any) whose path contains this ends so.
    pub(crate) fn fail(&self, verb: &'static str, path: &str, fault: Fault, times: usize) {
        self.inner.plans.lock().unwrap().push(Plan { verb, path: path.to_owned(), fault, left: times });
    }

    /// Nothing goes wrong any more.
    pub(crate) fn mend(&self) {
        self.inner.plans.lock().unwrap().clear();
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
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

/// Serves one connection.
async fn serve(stream: TcpStream, inner: Arc<Inner>, http: reqwest::Client) {
    let stream = stream.into_std().unwrap();
    // The last handle on a socket decides how it is closed.
    let last = TcpStream::from_std(stream.try_clone().unwrap()).unwrap();
    let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
        let (inner, http) = (inner.clone(), http.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| Reset)?.to_bytes();
            forward(inner, http, head.method, head.uri, head.headers, body).await
        }
    });
    let stream = TokioIo::new(TcpStream::from_std(stream).unwrap());
    if hyper::server::conn::http1::Builder::new().serve_connection(stream, service).await.is_err() {
        last.set_zero_linger().ok();
    }
}

/// What a fault looks like to whoever asked; silence lasts.
async fn fail(fault: Fault) -> Result<Response, Reset> {
    let known = |code: u16| {
        let (reason, message) = match code {
            401 => ("Unauthorized", "Unauthorized"),
            403 => ("Forbidden", "forbidden: no rule for olga"),
            404 => ("NotFound", "the server could not find the requested resource"),
            409 => {
                ("Conflict", "the object has been modified; please apply your changes to the latest version")
            }
            410 => ("Expired", "too old resource version: 1 (2)"),
            429 => ("TooManyRequests", "too many requests"),
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
            _ => ("InternalError", "an error on the server has prevented the request from succeeding"),
        };
        refusal(StatusCode::from_u16(code).unwrap(), reason, message)
    };
    match fault {
        Fault::Status(code) => Ok(known(code)),
        Fault::Busy(code, seconds) => {
            let mut answer = known(code);
            answer.headers_mut().insert("retry-after", HeaderValue::from(seconds));
            Ok(answer)
        }
        Fault::Page(code) => {
            let page = format!("<html><body>{}</body></html>", "an error page ".repeat(200));
            Ok((StatusCode::from_u16(code).unwrap(), [("content-type", "text/html")], page).into_response())
        }
        Fault::Silence => std::future::pending().await,
        Fault::Reset => Err(Reset),
        Fault::Mute => {
            let nothing = futures_util::stream::pending::<Result<Bytes, Reset>>();
            Ok(([("content-type", "application/json")], Body::from_stream(nothing)).into_response())
        }
    }
}

async fn forward(
    inner: Arc<Inner>,
    http: reqwest::Client,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Reset> {
    let mut request = Request::read(&method, &uri);
    if let Some(fault) = inner.fault(request.verb, uri.path()) {
        request.fault = Some(fault);
        inner.seen.lock().unwrap().push(request);
        return fail(fault).await;
    }
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
    Ok(answer)
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
