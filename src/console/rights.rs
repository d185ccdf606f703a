//! What the operator may do: asked once the cluster can be reached, then from time to time, and when something tells that it may be
//! otherwise by now.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::outside::Outside;
use crate::app::Msg;
use crate::config::Rights;
use crate::ops;

/// How long an answer is taken as it is: rights and identities change seldom.
const EVERY: Duration = Duration::from_secs(300);
/// How long where not everything was answered.
const UNANSWERED: Duration = Duration::from_secs(60);
/// Whoever presses a grey key again and again does not make us ask as often.
const PAUSE: Duration = Duration::from_secs(2);

/// Tells what the operator may do, for as long as the console lives.
pub(crate) async fn watch(outside: Outside, tell: mpsc::Sender<Msg>) {
    let Some(kube) = outside.kube_at_last().await else { return };
    let mut told = Rights::default();
    loop {
        let asked = Instant::now();
        let mut rights = ops::rights::look(&kube, &outside.settings.environment).await;
        let patience = if rights.complete() { EVERY } else { UNANSWERED };
        rights.keep(&told);
        if rights != told {
            told.clone_from(&rights);
            if tell.send(Msg::Rights(Box::new(rights))).await.is_err() {
                return;
            }
        }
        tokio::time::sleep_until(asked + PAUSE).await;
        tokio::select! {
            () = tokio::time::sleep(patience) => {}
            () = outside.ask_rights.notified() => {}
        }
    }
}
