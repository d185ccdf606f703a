//! The pod's log: Ansible's output as it comes, and our own lines between, each with our name in front.

use std::fmt::Display;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::domain::text::plain;

/// How long a line of ours may take: a log that nobody reads must not hold up a signal.
const LIMIT: Duration = Duration::from_secs(1);

/// The pod's log.
pub(super) struct Log<W> {
    /// Where Ansible's output goes, as it is.
    pub(super) out: W,
}

impl<W: AsyncWrite + Unpin> Log<W> {
    /// Writes a line, or several, of our own.
    pub(super) async fn say(&mut self, text: impl Display) {
        let text: String = text.to_string().lines().map(|l| format!("hostwright: {}\n", plain(l))).collect();
        let write = async {
            self.out.write_all(text.as_bytes()).await?;
            self.out.flush().await
        };
        // There is nowhere else to complain to.
        tokio::time::timeout(LIMIT, write).await.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_line_has_our_name() {
        let mut log = Log { out: Vec::new() };
        log.say("one\ntwo \u{1b}[2J").await;
        assert_eq!(String::from_utf8(log.out).unwrap(), "hostwright: one\nhostwright: two \u{241b}[2J\n");
    }
}
