//! Accepting encrypted connections: bounded in number, and in how long a handshake and a request's head may take.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// API servers keep few connections, and use them over and over.
const CONNECTIONS: usize = 512;
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
const HEAD_LIMIT: Duration = Duration::from_secs(10);
/// After an error such as "too many open files" there is no point in accepting at once again.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether the client has shown a certificate of the client CA; put into each request.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientIsKnown(pub(super) bool);

pub(super) async fn serve(
    listener: TcpListener,
    routes: Router,
    tls: Arc<ServerConfig>,
    drain: Duration,
    shutdown: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(tls);
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let graceful = GracefulShutdown::new();
    loop {
        let accepting = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        let Some((place, accepted)) = shutdown.run_until_cancelled(accepting).await else { break };
        let Ok(place) = place else { break };
        match accepted {
            Ok((stream, peer)) => {
                let connection = connect(stream, acceptor.clone(), routes.clone(), graceful.watcher(), place);
                tokio::spawn(async move {
                    if let Err(problem) = connection.await {
                        tracing::debug!(%peer, problem, "connection broke off");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("gave up on requests that did not end");
    }
}

async fn connect(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    routes: Router,
    watcher: Watcher,
    place: OwnedSemaphorePermit,
) -> Result<(), String> {
    stream.set_nodelay(true).ok();
    let stream = tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream))
        .await
        .map_err(|_| "the handshake took too long".to_owned())?
        .map_err(|error| error.to_string())?;
    let known = stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
    let routes = routes.layer(axum::Extension(ClientIsKnown(known)));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let ended = watcher.watch(connection).await.map_err(|error| error.to_string());
    drop(place);
    ended
}
