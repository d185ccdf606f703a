//! Accepting connections: bounded in number, in all and from one address, in how long a request's head may take, and in how long
//! the end may take.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::ConnectInfo;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use ipnet::IpNet;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::access::contains;
use super::hook::Routes;
use crate::config::ServerSettings;

/// Connections that are served in full.
const CONNECTIONS: usize = 960;
/// Further ones that are served the health pages alone, one request each: so that a flood does not make a healthy server look dead.
const RESERVE: usize = 64;
/// Connections of one address, unless it is a configured proxy's.
const CONNECTIONS_PER_PEER: usize = 64;
const HEAD_LIMIT: Duration = Duration::from_secs(10);
const HEAD_LIMIT_CROWDED: Duration = Duration::from_secs(2);
/// After an error such as "too many open files" there is no point in accepting at once again.
const PAUSE: Duration = Duration::from_millis(100);

/// Opens the port. `[::]` is both families, and IPv4 alone on a machine that has no IPv6.
///
/// # Errors
/// When the address is taken, or not this machine's.
pub async fn bind(listen: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(listen).await {
        Err(error) if listen.ip() == IpAddr::from(Ipv6Addr::UNSPECIFIED) && is_no_family(&error) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, listen.port())).await
        }
        bound => bound,
    }
}

/// The kernel has no such family, or has it and no address of it.
fn is_no_family(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(errno, Some(rustix::io::Errno::AFNOSUPPORT | rustix::io::Errno::ADDRNOTAVAIL))
}

pub(super) async fn serve(
    listener: TcpListener,
    routes: Routes,
    settings: &ServerSettings,
    shutdown: CancellationToken,
) {
    let guests = Arc::new(Mutex::new(Guests::default()));
    let graceful = GracefulShutdown::new();
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
            () = shutdown.cancelled() => break,
        };
        match Guest::enter(&guests, peer.ip(), &settings.proxies) {
            Some(guest) => connect(stream, peer, guest, &routes, &graceful),
            None => tracing::debug!(%peer, "too many connections: this one is closed"),
        }
    }
    drop(listener);
    if tokio::time::timeout(settings.request_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!("gave up on requests that did not end");
    }
}

fn connect(stream: TcpStream, peer: SocketAddr, guest: Guest, routes: &Routes, graceful: &GracefulShutdown) {
    let router = if guest.crowded { &routes.crowded } else { &routes.all };
    let router = router.clone().layer(axum::Extension(ConnectInfo::<SocketAddr>(peer)));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(if guest.crowded { HEAD_LIMIT_CROWDED } else { HEAD_LIMIT })
        .keep_alive(!guest.crowded)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%peer, %error, "connection broke off");
        }
        drop(guest);
    });
}

/// The open connections.
#[derive(Debug, Default)]
struct Guests {
    all: usize,
    by_peer: HashMap<IpAddr, usize>,
}

/// One of them.
#[derive(Debug)]
struct Guest {
    guests: Arc<Mutex<Guests>>,
    /// The address that it is counted under; none for a proxy, who speaks for many.
    peer: Option<IpAddr>,
    crowded: bool,
}

impl Guest {
    fn enter(guests: &Arc<Mutex<Guests>>, peer: IpAddr, proxies: &[IpNet]) -> Option<Self> {
        let peer = peer.to_canonical();
        let peer = (!contains(proxies, peer)).then(|| group(peer));
        let mut counted = guests.lock().unwrap_or_else(PoisonError::into_inner);
        let crowded = counted.all >= CONNECTIONS;
        if counted.all >= CONNECTIONS + RESERVE {
            return None;
        }
        if let Some(peer) = peer {
            let own = counted.by_peer.entry(peer).or_default();
            if *own >= CONNECTIONS_PER_PEER {
                return None;
            }
            *own += 1;
        }
        counted.all += 1;
        drop(counted);
        Some(Self { guests: Arc::clone(guests), peer, crowded })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut counted = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        counted.all = counted.all.saturating_sub(1);
        if let Some(peer) = self.peer
            && let Some(own) = counted.by_peer.get_mut(&peer)
        {
            *own = own.saturating_sub(1);
            if *own == 0 {
                counted.by_peer.remove(&peer);
            }
        }
    }
}

/// An IPv6 host has a whole /64 to call from.
fn group(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_its_share_and_the_health_pages_have_theirs() {
        let guests = Arc::default();
        let proxies = ["10.0.0.1/32".parse().unwrap()];
        let enter = |peer: &str| Guest::enter(&guests, peer.parse().unwrap(), &proxies);
        let mut open: Vec<_> = (0..CONNECTIONS_PER_PEER).map(|_| enter("192.0.2.1").unwrap()).collect();
        assert!(enter("192.0.2.1").is_none() && enter("::ffff:192.0.2.1").is_none());
        assert!(!enter("192.0.2.2").unwrap().crowded);
        open.pop();
        open.push(enter("192.0.2.1").unwrap());

        let mut six: Vec<_> =
            (0..CONNECTIONS_PER_PEER).map(|n| enter(&format!("2001:db8::{n:x}")).unwrap()).collect();
        assert!(enter("2001:db8::ffff").is_none());
        assert!(enter("2001:db8:0:1::1").is_some());

        // A proxy speaks for many, up to the number of all.
        let rest = CONNECTIONS - 2 * CONNECTIONS_PER_PEER;
        let many: Vec<_> = (0..rest).map(|_| enter("10.0.0.1").unwrap()).collect();
        assert!(many.iter().all(|guest| !guest.crowded));
        let reserve: Vec<_> = (0..RESERVE).map(|_| enter("10.0.0.1").unwrap()).collect();
        assert!(reserve.iter().all(|guest| guest.crowded));
        assert!(enter("192.0.2.3").is_none());
        six.clear();
        drop(reserve);
        assert!(!enter("192.0.2.3").unwrap().crowded);
    }
}
