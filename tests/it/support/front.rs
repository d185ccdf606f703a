//! A way in to a real API server as the loopback API has one: plain HTTP on loopback, where everybody may do everything.
//!
//! So the same tests run against both, and what a test left running can't reach the server once another test has it. Who shows a
//! token is let in as whom the token says.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use reqwest::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::envtest::Real;

#[derive(Clone)]
struct Front {
    server: String,
    admin: Client,
    stranger: Client,
    shutdown: CancellationToken,
}

/// Lets requests in until it is told to stop, which ends those under way too.
pub(crate) async fn serve(real: &Real, listener: TcpListener, shutdown: CancellationToken) {
    let front = Front {
        server: real.url(),
        admin: real.admin(),
        stranger: real.stranger(),
        shutdown: shutdown.clone(),
    };
    let served = axum::serve(listener, Router::new().fallback(forward).with_state(front));
    served.with_graceful_shutdown(shutdown.cancelled_owned()).await.unwrap();
}

/// What belongs to one connection and not to the next.
const HOP: [header::HeaderName; 4] =
    [header::HOST, header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH];

fn passed_on(headers: &HeaderMap) -> HeaderMap {
    headers.iter().filter(|(name, _)| !HOP.contains(name)).map(|(n, v)| (n.clone(), v.clone())).collect()
}

async fn forward(State(front): State<Front>, request: Request) -> Response {
    tokio::select! {
        response = ask(&front, request) => response,
        () = front.shutdown.cancelled() => StatusCode::BAD_GATEWAY.into_response(),
    }
}

async fn ask(front: &Front, request: Request) -> Response {
    let (head, body) = request.into_parts();
    // The server says itself what is too large for it.
    let Ok(body) = to_bytes(body, usize::MAX).await else { return StatusCode::BAD_REQUEST.into_response() };
    // A certificate would count more than the token.
    let known = head.headers.contains_key(header::AUTHORIZATION);
    let client = if known { &front.stranger } else { &front.admin };
    let asked = client.request(head.method, format!("{}{}", front.server, head.uri));
    let Ok(answer) = asked.headers(passed_on(&head.headers)).body(body).send().await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let (status, headers) = (answer.status(), passed_on(answer.headers()));
    // Piece by piece: a watch never ends.
    let pieces = stream::try_unfold(answer, async |mut answer| {
        Ok::<_, reqwest::Error>(answer.chunk().await?.map(|piece| (piece, answer)))
    });
    let pieces = pieces.take_until(front.shutdown.clone().cancelled_owned());
    (status, headers, Body::from_stream(pieces)).into_response()
}
