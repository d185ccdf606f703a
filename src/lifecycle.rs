//! Signals, cancellation and drain, shared by everything that runs until it is told to stop.

use tokio_util::sync::CancellationToken;

/// A token that is cancelled at the first SIGTERM, SIGINT or SIGHUP.
///
/// Call it once, in a runtime. A second signal is not handled here: what drains has its own grace period.
///
/// # Errors
/// When a signal handler cannot be installed.
pub fn shutdown_on_signals() -> std::io::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut hup = signal(SignalKind::hangup())?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            _ = hup.recv() => {}
        }
        cancelled.cancel();
    });
    Ok(token)
}
