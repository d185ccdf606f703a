//! After the playbook of a host that joins: its Node is waited for. Ready means that the kubelet has a certificate of its own, and needs
//! the bootstrap token no more; which is deleted then, or when the waiting ends.

use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::time::Instant;

use super::join::{self, Minted};
use super::log::Log;
use super::patience::LONG;
use super::session::Session;
use super::{Failure, unless_stopped};
use crate::domain::ExitCode;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Waits until the Node of this name is ready.
///
/// A Node of the same name from before that machine was installed anew is no trap: its kubelet is silent for longer than the 40 s
/// after which the cluster itself takes a Node for lost.
///
/// # Errors
/// `NotJoined` when `provision.join_timeout` or the token's lifetime has ended; as a call to the cluster fails; when the pod is told
/// to stop.
pub(super) async fn wait<W: AsyncWrite + Unpin>(
    session: &Session<'_>,
    name: &str,
    minted: &Minted,
    log: &mut Log<W>,
) -> Result<(), Failure> {
    let started = Instant::now();
    let patience = started + session.settings.provision.join_timeout;
    let until = patience.min(minted.until);
    let mut pause = FIRST_PAUSE;
    let mut said = String::new();
    loop {
        let state = match join::look(session, name, LONG).await? {
            Some(state) if state.ready => {
                log.say(format!("node {name} is ready")).await;
                return Ok(());
            }
            Some(state) => format!("is there and not ready: {}", state.why),
            None => "is not there".to_owned(),
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late(name, &state, started.elapsed(), minted.until < patience));
        }
        if state != said {
            log.say(format!("node {name} {state}: waiting for it, for {} s at most", left.as_secs())).await;
            said = state;
        }
        unless_stopped(session.shutdown, tokio::time::sleep(pause.min(left))).await?;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn late(name: &str, state: &str, waited: Duration, expired: bool) -> Failure {
    let end = match expired {
        true => "when its bootstrap token ended (provision.token_lifetime)",
        false => "in time (provision.join_timeout)",
    };
    let text = format!(
        "the host did not join {end}: after {} s node {name} {state}; see its kubelet's log (journalctl -u kubelet)",
        waited.as_secs()
    );
    Failure::new(ExitCode::NotJoined, text)
}
