//! What can go wrong with the broker, in words for an operator.

use std::sync::Arc;

use lapin::ErrorKind;

use crate::domain::{BackEnd, MessageError, Problem, ProblemKind};

/// What went wrong with the broker. Its texts never hold the URL's user or password; what to do is in
/// [`problem`](AmqpError::problem).
#[derive(Debug, Clone, thiserror::Error)]
#[allow(missing_docs)]
pub enum AmqpError {
    /// The settings' URL.
    #[error("the URL of the broker cannot be used: {0}")]
    Url(String),
    /// Nobody answers.
    #[error("cannot reach RabbitMQ at {broker}: {reason}")]
    Unreachable { broker: String, reason: String },
    /// Somebody else answers.
    #[error("what answers at {broker} does not speak AMQP: {reason}")]
    NotAmqp { broker: String, reason: String },
    /// The certificate, or no TLS there.
    #[error("no TLS connection to RabbitMQ at {broker}: {reason}")]
    Tls { broker: String, reason: String },
    /// User or password.
    #[error("RabbitMQ at {broker} does not let user {user:?} in: {reason}")]
    Login { broker: String, user: String, reason: String },
    /// The virtual host.
    #[error("RabbitMQ at {broker} has no virtual host {vhost:?} for us: {reason}")]
    VirtualHost { broker: String, vhost: String, reason: String },
    /// The connection broke.
    #[error("cannot {doing}: the connection to RabbitMQ at {broker} broke: {reason}")]
    Lost { broker: String, doing: String, reason: String },
    /// No answer in time.
    #[error("cannot {doing}: no answer from RabbitMQ at {broker} within {seconds} s")]
    TimedOut { broker: String, doing: String, seconds: u64 },
    /// An alarm.
    #[error("RabbitMQ at {broker} takes no messages: {reason}")]
    Blocked { broker: String, reason: String },
    /// Published, but to nobody.
    #[error("no queue bound for {key:?} at exchange {exchange:?}: the message came back")]
    Unroutable { exchange: String, key: String },
    /// The broker could not keep it.
    #[error("cannot {doing}: RabbitMQ could not keep the message")]
    Nack { doing: String },
    /// 404.
    #[error("cannot {doing}: {reason}")]
    NotFound { doing: String, reason: String },
    /// 405, 406.
    #[error("cannot {doing}: {reason}")]
    Mismatch { doing: String, reason: String },
    /// 403.
    #[error("cannot {doing}: {reason}")]
    Forbidden { doing: String, reason: String },
    /// Anything else.
    #[error("cannot {doing}: {reason}")]
    Failed { doing: String, reason: String },
    /// The message itself.
    #[error("cannot publish: {0}")]
    Message(Arc<MessageError>),
}

impl From<MessageError> for AmqpError {
    fn from(error: MessageError) -> Self {
        Self::Message(Arc::new(error))
    }
}

impl AmqpError {
    /// What the client library says of something that was done on a connection.
    pub(super) fn of(broker: &str, doing: &str, error: &lapin::Error) -> Self {
        let (broker, doing) = (broker.to_owned(), doing.to_owned());
        let ErrorKind::ProtocolError(said) = error.kind() else {
            return match error.kind() {
                ErrorKind::IOError(e) => Self::Lost { broker, doing, reason: e.to_string() },
                ErrorKind::MissingHeartbeatError => {
                    Self::Lost { broker, doing, reason: "it stopped answering heartbeats".into() }
                }
                ErrorKind::InvalidChannelState(..)
                | ErrorKind::InvalidConnectionState(_)
                | ErrorKind::InvalidChannel(_) => {
                    Self::Lost { broker, doing, reason: "it was closed".into() }
                }
                _ => Self::Failed { doing, reason: error.to_string() },
            };
        };
        let reason = plain(said.get_message().as_str());
        match said.get_id() {
            403 => Self::Forbidden { doing, reason },
            404 => Self::NotFound { doing, reason },
            405 | 406 => Self::Mismatch { doing, reason },
            320 => Self::Lost { broker, doing, reason },
            _ => Self::Failed { doing, reason },
        }
    }

    /// True when waiting may mend it.
    pub(super) fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Lost { .. } | Self::TimedOut { .. } | Self::Blocked { .. }
        )
    }

    /// The same for the console, with what to do about it.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let (kind, advice) = match self {
            Self::Url(_) => (
                ProblemKind::Invalid,
                "write amqp.url as amqp://USER:PASSWORD@HOST:PORT/VHOST (%2f is the default virtual host; special characters percent-encoded)",
            ),
            Self::Unreachable { .. } => {
                (ProblemKind::Unreachable, "check that it runs and that this machine may reach the port")
            }
            Self::NotAmqp { .. } => (
                ProblemKind::Invalid,
                "check host and port in amqp.url: 5672 is AMQP, 5671 AMQP over TLS (amqps://), 15672 is not AMQP",
            ),
            Self::Tls { .. } => (
                ProblemKind::Unreachable,
                "check that the port speaks TLS and that this machine trusts its CA (SSL_CERT_FILE names another)",
            ),
            Self::Login { .. } => (
                ProblemKind::NotAuthenticated,
                "check user and password in amqp.url (guest may only come from the broker's own machine)",
            ),
            Self::VirtualHost { .. } => (
                ProblemKind::NotFound,
                "check the end of amqp.url (%2f is the default virtual host) and the user's permissions there",
            ),
            Self::Lost { .. } | Self::TimedOut { .. } | Self::Nack { .. } => {
                (ProblemKind::Unreachable, "it is tried again; see the broker's log if it stays so")
            }
            Self::Blocked { .. } => (
                ProblemKind::Unreachable,
                "free memory or disk on the broker's machine (rabbitmqctl status shows the alarm)",
            ),
            Self::Unroutable { .. } => (
                ProblemKind::NotFound,
                "somebody removed the run's queue or its binding meanwhile: try again",
            ),
            Self::NotFound { .. } => (ProblemKind::NotFound, "somebody removed it meanwhile: try again"),
            Self::Mismatch { .. } => (
                ProblemKind::Conflict,
                "it was declared otherwise before: delete it at the broker, or choose another name in [amqp]",
            ),
            Self::Forbidden { .. } => (
                ProblemKind::Forbidden,
                "give the user configure, write and read permission there (rabbitmqctl set_permissions)",
            ),
            Self::Failed { .. } => (ProblemKind::Failed, "see the broker's log"),
            Self::Message(_) => (ProblemKind::Invalid, "make variables and facts smaller"),
        };
        Problem::new(BackEnd::Queue.word(), kind, self.to_string()).advise(advice)
    }
}

impl From<AmqpError> for Problem {
    fn from(error: AmqpError) -> Self {
        error.problem()
    }
}

/// RabbitMQ shouts: `ACCESS_REFUSED - access to …` becomes `access to …`.
pub(super) fn plain(said: &str) -> String {
    match said.split_once(" - ") {
        Some((code, text)) if code.chars().all(|c| c.is_ascii_uppercase() || c == '_') => text.to_owned(),
        _ => said.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lapin::protocol::AMQPError;

    #[test]
    fn what_the_broker_says_gets_a_name() {
        let of = |code, text: &str| {
            let said = AMQPError::from_id(code, text.into()).unwrap();
            AmqpError::of("amqp://b:5672", "publish", &ErrorKind::ProtocolError(said).into())
        };
        assert!(matches!(of(404, "NOT_FOUND - no exchange 'x'"), AmqpError::NotFound { .. }));
        assert!(matches!(of(406, "PRECONDITION_FAILED - x"), AmqpError::Mismatch { .. }));
        assert!(matches!(of(403, "ACCESS_REFUSED - x"), AmqpError::Forbidden { .. }));
        assert!(matches!(of(320, "CONNECTION_FORCED - x"), AmqpError::Lost { .. }));
        assert_eq!(of(404, "NOT_FOUND - no exchange 'x'").to_string(), "cannot publish: no exchange 'x'");
    }
}
