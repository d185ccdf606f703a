//! The end of an attempt, in the order that survives a kill at any moment: what ARA recorded and the outcome go on the Job, then
//! the message is acknowledged. What another pod is to try again puts its message back, and no outcome, which would stop that pod:
//! only a note of how this attempt ended, for people, after the message is back.

use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio_util::sync::CancellationToken;

use super::details::{Letter, advised};
use super::log::Log;
use super::patience::{LONG, patiently};
use super::session::Session;
use super::{End, Failure};
use crate::backend::kube::KubeError;
use crate::domain::Outcome;

/// How long noting an attempt may take: a pod that was told to stop has little time.
const NOTE_LIMIT: Duration = Duration::from_secs(3);
/// How long taking leave of the broker may take.
const GOODBYE: Duration = Duration::from_secs(1);
/// Where Kubernetes looks for a container's last word, unless it was told another place.
const TERMINATION_LOG: &str = "/dev/termination-log";
/// Kubernetes keeps this many bytes of it.
const TERMINATION_LIMIT: usize = 4096;

/// Writes everything down and settles the message. Returns how the attempt really ended.
pub(super) async fn finish<W: AsyncWrite + Unpin>(
    session: &Session<'_>,
    mut end: End,
    playbooks: &[u64],
    letter: Letter,
    log: &mut Log<W>,
) -> End {
    if !end.exit.retry_may_mend()
        && let Err(error) = write(session, &end.outcome(), playbooks).await
    {
        log.say(&error).await;
        // Without an outcome the next pod would not know: so let it try, Ansible does nothing twice.
        let Failure { exit, text } = Failure::kube(&error);
        end =
            End { exit, text: format!("{}: {}; but {text}", end.exit.words(), end.text), counts: end.counts };
    }
    settle(&end, letter, log).await;
    if end.exit.retry_may_mend() {
        note(session, &end.outcome(), playbooks, log).await;
    }
    end
}

/// Writes the outcome on the Job, also when the pod is told to stop meanwhile.
async fn write(session: &Session<'_>, outcome: &Outcome, playbooks: &[u64]) -> Result<(), KubeError> {
    let Session { own, permit, kube, .. } = session;
    let writing = || kube.set_outcome(permit, &own.name, &own.uid, Some(outcome), playbooks);
    patiently(kube, LONG, &CancellationToken::new(), writing).await.map(drop)
}

/// Notes on the Job how an attempt ended that another may mend. Nothing depends on it: it is tried once.
async fn note<W: AsyncWrite + Unpin>(
    session: &Session<'_>,
    attempt: &Outcome,
    playbooks: &[u64],
    log: &mut Log<W>,
) {
    let own = session.own;
    let noting = session.kube.set_last_attempt(&session.permit, &own.name, &own.uid, attempt, playbooks);
    match tokio::time::timeout(NOTE_LIMIT, noting).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => log.say(error).await,
        Err(_) => {
            let seconds = NOTE_LIMIT.as_secs();
            log.say(format!("this attempt is not noted on the run: no answer within {seconds} s")).await;
        }
    }
}

async fn settle<W: AsyncWrite + Unpin>(end: &End, letter: Letter, log: &mut Log<W>) {
    let Letter::Held(broker, delivery) = letter else { return };
    let settled =
        if end.exit.retry_may_mend() { delivery.requeue().await } else { delivery.ack().await.map(drop) };
    if let Err(error) = settled {
        // The next pod finds the outcome, or takes the message again.
        log.say(format!("the message is not settled: {}", advised(&error))).await;
    }
    // Only a courtesy to the broker's log.
    tokio::time::timeout(GOODBYE, broker.close()).await.ok();
}

/// Leaves the reason where the pod's status shows it.
pub(super) fn leave_word(path: Option<&Path>, end: &End) {
    let mut text = format!("{}: {}", end.exit.words(), end.line());
    let limit = (0..=TERMINATION_LIMIT.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(limit.unwrap_or(0));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).truncate(true);
    let file = match path {
        Some(path) => options.create(true).open(path),
        // Outside a pod there is no such file, and none is made.
        None => options.open(TERMINATION_LOG),
    };
    let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
    if let Err(error) = written {
        tracing::debug!(%error, "no termination message");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ExitCode;

    #[test]
    fn the_last_word_fits_into_a_pods_status() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("word");
        let end = End::from(Failure::new(ExitCode::NoPolicy, "ü漢".repeat(4000)));
        leave_word(Some(&path), &end);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("no such policy: ü漢") && text.len() <= TERMINATION_LIMIT, "{}", text.len());
        leave_word(Some(&path), &End::from(Failure::new(ExitCode::Ready, "x")));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "ready: x");
    }
}
