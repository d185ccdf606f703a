//! Between our calls and the connection: an API server that is busy is asked again, a few times and not before it wants to be; and
//! what it answers in place of an error that can be read becomes one.
//!
//! The library's own retries are off: they begin after 5 ms, hide for minutes what the API server says, and wait for as long as it
//! says, watches too.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ::kube::Client;
use ::kube::client::Body;
use ::kube::core::Status;
use ::kube::core::response::StatusDetails;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use tower::{BoxError, Service};

use crate::domain::text::plain;

/// How often a call is made while the API server says that it is busy. All tries and pauses have to fit into the limit of a call.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Whoever asks for more patience than this is left alone: the caller knows what can wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// How long the head of a stream's answer is waited for: also the time of a credential plugin that has to ask somebody.
const HEAD_LIMIT: Duration = Duration::from_secs(120);
/// An error's body that is longer is not read: a proxy's page, say.
const BODY_LIMIT: usize = 64 * 1024;
/// How much of a text that is no Kubernetes error is told, in characters.
const LONGEST_SAYING: usize = 200;

/// The same client with that patience.
pub(super) fn patient(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    Client::new(Patient(client), namespace)
}

/// A random share of a time: at least half of it, so that those who were turned away together do not come back together.
#[must_use]
pub fn about(time: Duration) -> Duration {
    // Without random numbers the whole time must do.
    let share = getrandom::u32().map_or(1.0, |n| f64::from(n) / f64::from(u32::MAX));
    time.mul_f64(0.5 + share / 2.0)
}

struct Patient(Client);

impl Service<Request<Body>> for Patient {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move { readable(send(&client, request).await?).await })
    }
}

async fn send(client: &Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    if is_stream(&request) {
        let answer = tokio::time::timeout(HEAD_LIMIT, client.send(request)).await;
        let late = |_| format!("no answer within {} s", HEAD_LIMIT.as_secs());
        return Ok(answer.map_err(late)??);
    }
    let (parts, body) = request.into_parts();
    let reads = parts.method == Method::GET;
    let mut pause = FIRST_PAUSE;
    for _ in 1..TRIES {
        let Some(again) = body.try_clone() else { break };
        let answer = client.send(Request::from_parts(parts.clone(), again)).await?;
        let wanted = retry_after(answer.headers());
        if !may_go_again(answer.status(), reads, wanted) {
            return Ok(answer);
        }
        let wait = wanted.map_or_else(|| about(pause), |wanted| wanted.max(about(pause)));
        if wait > LONGEST_PAUSE {
            return Ok(answer);
        }
        tokio::time::sleep(wait).await;
        pause *= 2;
    }
    Ok(client.send(Request::from_parts(parts, body)).await?)
}

/// Whether the same call may be made again: one that only reads after everything that passes; one that changes something only when
/// it was turned away before it was looked at.
fn may_go_again(status: StatusCode, reads: bool, wanted: Option<Duration>) -> bool {
    match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::SERVICE_UNAVAILABLE => reads || wanted.is_some(),
        status => reads && status.is_server_error(),
    }
}

fn is_stream(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1" | "follow=true" | "follow=1"))
}

/// When the API server wants to be asked again, where it says so in seconds (it never names a date).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// An answer whose error can be read: a Kubernetes error with the status and the time that the head tells.
async fn readable(answer: Response<Body>) -> Result<Response<Body>, BoxError> {
    let code = answer.status();
    if !code.is_client_error() && !code.is_server_error() {
        return Ok(answer);
    }
    let (parts, body) = answer.into_parts();
    let wanted = retry_after(&parts.headers);
    let text = match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(read) => String::from_utf8_lossy(&read.to_bytes()).into_owned(),
        Err(_) => String::new(),
    };
    let mut status = serde_json::from_str::<Status>(&text)
        .ok()
        .filter(|status| status.code != 0)
        .unwrap_or_else(|| Status::failure(&saying(code, &text), "").with_code(code.as_u16()));
    if let Some(wanted) = wanted {
        let retry_after_seconds = u32::try_from(wanted.as_secs()).unwrap_or(u32::MAX);
        let none = || StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds,
        };
        status.details.get_or_insert_with(none).retry_after_seconds = retry_after_seconds;
    }
    Ok(Response::from_parts(parts, Body::from(serde_json::to_vec(&status)?)))
}

/// What a proxy, or an API server in need, says in place of an error of Kubernetes: one line of it, if it is no page.
fn saying(code: StatusCode, text: &str) -> String {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    if first.is_empty() || first.starts_with('<') {
        return format!("the API server answered {code}");
    }
    let first: String = plain(first).chars().take(LONGEST_SAYING).collect();
    format!("the API server answered {code}: {first}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, after: Option<&str>, body: &str) -> Response<Body> {
        let mut answer = Response::new(Body::from(body.as_bytes().to_vec()));
        *answer.status_mut() = StatusCode::from_u16(code).unwrap();
        if let Some(after) = after {
            answer.headers_mut().insert(header::RETRY_AFTER, after.parse().unwrap());
        }
        answer
    }

    async fn read(answer: Response<Body>) -> Status {
        let body = readable(answer).await.unwrap().into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap()
    }

    #[tokio::test]
    async fn whatever_is_answered_becomes_an_error_with_its_status_and_time() {
        let busy = read(answer(429, Some("7"), "Too many requests, please try again later.\n")).await;
        assert_eq!((busy.code, busy.details.unwrap().retry_after_seconds), (429, 7));
        assert!(busy.message.ends_with("429 Too Many Requests: Too many requests, please try again later."));
        let page = read(answer(502, None, "<html><body>\x1b[2Jbad gateway</body></html>")).await;
        assert_eq!((page.code, page.message.as_str()), (502, "the API server answered 502 Bad Gateway"));
        let own = serde_json::to_string(&Status::failure("timed out", "Timeout").with_code(504)).unwrap();
        let own = read(answer(504, Some("soon"), &own)).await;
        assert_eq!((own.message.as_str(), own.reason.as_str(), own.details), ("timed out", "Timeout", None));
        assert_eq!(read(answer(500, None, &"x".repeat(BODY_LIMIT + 1))).await.code, 500);
        let fine = readable(answer(200, None, "not JSON")).await.unwrap().into_body();
        assert_eq!(fine.collect().await.unwrap().to_bytes(), "not JSON");
    }

    #[test]
    fn what_changes_something_goes_again_only_when_it_was_turned_away() {
        let second = Some(Duration::from_secs(1));
        for (code, reads, wanted, again) in [
            (429, false, None, true),
            (503, false, second, true),
            (503, false, None, false),
            (504, false, second, false),
            (500, false, None, false),
            (500, true, None, true),
            (503, true, None, true),
            (410, true, None, false),
            (401, true, second, false),
        ] {
            let code = StatusCode::from_u16(code).unwrap();
            assert_eq!(may_go_again(code, reads, wanted), again, "{code} {reads}");
        }
    }

    #[test]
    fn streams_are_told_from_calls() {
        let is = |uri: &str| is_stream(&Request::get(uri).body(Body::empty()).unwrap());
        assert!(is("/apis/batch/v1/jobs?limit=5&watch=true") && is("/pods/x/log?&follow=true"));
        assert!(!is("/apis/batch/v1/jobs?limit=5") && !is("/jobs/watch=true") && !is("/jobs"));
    }

    #[test]
    fn pauses_differ_and_stay_in_their_bounds() {
        let time = Duration::from_secs(2);
        let pauses: Vec<Duration> = (0..64).map(|_| about(time)).collect();
        assert!(pauses.iter().all(|pause| *pause >= time / 2 && *pause <= time), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }
}
