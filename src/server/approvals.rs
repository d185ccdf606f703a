//! The server's watch over the hold on all approvals: what is held waits, and goes on by itself once it is released.

use futures_util::StreamExt;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::Context;
use super::follow::Overview;
use crate::domain::approvals::Standing;
use crate::ops;

/// Keeps up to date whether approvals are held; begins anew whenever the line turned out to be dead.
pub(super) async fn follow(
    context: &Context,
    changed: &Notify,
    overview: &watch::Sender<Overview>,
    lines: &watch::Sender<u64>,
    shutdown: &CancellationToken,
) {
    let mut lines = lines.subscribe();
    let mut told = Box::pin(ops::approvals::watch(&context.kube));
    loop {
        let standing = tokio::select! {
            standing = told.next() => standing,
            Ok(()) = lines.changed() => {
                told = Box::pin(ops::approvals::watch(&context.kube));
                continue;
            }
            () = shutdown.cancelled() => return,
        };
        let Some(standing) = standing else { return };
        let news = overview.send_if_modified(|o| {
            let news = o.approvals != standing;
            if news {
                say(&o.approvals, &standing);
                o.approvals = standing;
            }
            news
        });
        if news {
            changed.notify_one();
        }
    }
}

fn say(before: &Standing, now: &Standing) {
    match (before, now) {
        (_, Standing::Unreadable(why)) => {
            tracing::warn!(why, "whether approvals are held cannot be read: the rule approves nothing");
        }
        (_, now) if now.hold().is_some() => {
            let words = now.hold().map(crate::domain::approvals::Hold::words).unwrap_or_default();
            tracing::warn!("approvals are {words}: the rule and retries wait");
        }
        (Standing::Known(_) | Standing::Unreadable(_), now) if now.is_open() && !before.is_open() => {
            tracing::info!("approvals are not held any more");
        }
        _ => {}
    }
}
