//! One connection: name lookup, TCP, TLS and the AMQP handshake, each bounded, and an end that leaves nothing behind.

use std::fmt;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapin::tcp::{AsyncTcpStream, OwnedTLSConfig};
use lapin::uri::AMQPScheme;
use lapin::{Connection, ConnectionProperties, ErrorKind};
use tokio::time::timeout;

use super::AmqpError;
use super::address::Address;
use super::error::plain;

/// How long one of the broker's addresses may take to accept.
const TCP_LIMIT: Duration = Duration::from_secs(3);
/// How long name lookup, TCP and TLS may take together.
const DIAL_LIMIT: Duration = Duration::from_secs(4);
/// How long all of it may take, with the AMQP handshake.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long a good-bye may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// A connection that ends when this is dropped, whatever state it is in.
pub(super) struct Connected {
    pub(super) connection: Arc<Connection>,
    _socket: SocketGuard,
}

/// A second hold on the connection's socket, which shuts it down in the end. The client library drives a connection in a
/// thread of its own, and that waits for the socket: with a peer that never answers it would wait for ever.
struct SocketGuard(Held);

type Held = Arc<Mutex<Option<TcpStream>>>;

impl Drop for SocketGuard {
    fn drop(&mut self) {
        if let Some(stream) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It fails when the peer was first, which is as good.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Connected {
    /// Closes in good order.
    pub(super) async fn close(self) {
        let bye = self.connection.close(200, "OK".into());
        // A peer that does not answer is left without a good-bye.
        let _ = timeout(CLOSE_LIMIT, bye).await;
    }
}

/// Connects within five seconds, or says why not.
pub(super) async fn connect(address: &Address, lane: &str) -> Result<Connected, AmqpError> {
    let guard = SocketGuard(Held::default());
    let held = guard.0.clone();
    let runtime = lapin::runtime::default_runtime().map_err(|e| named(address, &e))?;
    let called = format!("hostwright {lane}");
    let properties = ConnectionProperties::default().with_connection_name(called.into());
    let opening = Box::pin(Connection::connector(
        address.uri.clone(),
        runtime,
        async move |uri, runtime| {
            let work = async {
                let mut last = no_answer();
                for to in tokio::net::lookup_host((uri.authority.host.as_str(), uri.authority.port)).await? {
                    let stream = match timeout(TCP_LIMIT, AsyncTcpStream::connect(&runtime, to)).await {
                        Ok(Ok(stream)) => stream,
                        Ok(Err(error)) => {
                            last = error;
                            continue;
                        }
                        Err(_) => continue,
                    };
                    if let AsyncTcpStream::Plain(plain) = &stream {
                        hold(&held, plain.get_ref())?;
                    }
                    if uri.scheme == AMQPScheme::AMQP {
                        return Ok(stream);
                    }
                    let config = OwnedTLSConfig::default();
                    let secured = stream.into_tls(&uri.authority.host, config.as_ref()).await;
                    return secured.map_err(|e| io::Error::other(TlsFailure(e.to_string())));
                }
                Err(last)
            };
            timeout(DIAL_LIMIT, work).await.unwrap_or_else(|_| Err(no_answer())).map_err(lapin::Error::from)
        },
        properties,
    ));
    match timeout(CONNECT_LIMIT, opening).await {
        Ok(Ok(connection)) => Ok(Connected { connection: Arc::new(connection), _socket: guard }),
        Ok(Err(error)) => Err(named(address, &error)),
        Err(_) => Err(AmqpError::Unreachable {
            broker: address.name.clone(),
            reason: format!("it accepts, but says nothing within {} s", CONNECT_LIMIT.as_secs()),
        }),
    }
}

fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it does not answer")
}

fn hold(held: &Held, stream: &impl AsFd) -> io::Result<()> {
    let copy = TcpStream::from(stream.as_fd().try_clone_to_owned()?);
    *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(copy);
    Ok(())
}

/// Marks an error of TLS inside an I/O error, which is all that the client library carries.
#[derive(Debug)]
struct TlsFailure(String);

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsFailure {}

/// Why there is no connection.
fn named(address: &Address, error: &lapin::Error) -> AmqpError {
    let broker = address.name.clone();
    match error.kind() {
        ErrorKind::ProtocolError(said) => {
            let reason = plain(said.get_message().as_str());
            match said.get_id() {
                403 => {
                    let user = address.uri.authority.userinfo.username.clone();
                    AmqpError::Login { broker, user, reason }
                }
                402 | 530 => AmqpError::VirtualHost { broker, vhost: address.uri.vhost.clone(), reason },
                _ => AmqpError::Unreachable { broker, reason },
            }
        }
        ErrorKind::IOError(io) => {
            let tls = io.get_ref().and_then(|inner| inner.downcast_ref::<TlsFailure>());
            if let Some(tls) = tls {
                return AmqpError::Tls { broker, reason: tls.to_string() };
            }
            let reason = match io.kind() {
                io::ErrorKind::ConnectionAborted | io::ErrorKind::UnexpectedEof => {
                    "it hangs up during the handshake".to_owned()
                }
                io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
                _ => io.to_string(),
            };
            AmqpError::Unreachable { broker, reason }
        }
        ErrorKind::ParsingError(_) | ErrorKind::InvalidProtocolVersion(_) => {
            AmqpError::NotAmqp { broker, reason: error.to_string() }
        }
        _ => AmqpError::Unreachable { broker, reason: error.to_string() },
    }
}
