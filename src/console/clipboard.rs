//! Putting text into the operator's clipboard, from wherever the console runs.
//!
//! The terminal does it when it is asked with OSC 52; no terminal says whether it did, so we say "sent". tmux drops that sequence by
//! default, but reaches the terminal itself when it is given the text; GNU screen passes it on when it is wrapped.

use std::process::Stdio;
use std::time::Duration;

use data_encoding::BASE64;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::caps::Multiplexer;
use crate::domain::{Problem, ProblemKind};

/// xterm drops longer sequences.
const LONGEST: usize = 74_994;
const TMUX_LIMIT: Duration = Duration::from_secs(5);

/// The sequence that asks the terminal to take a text.
///
/// # Errors
/// When it is longer than terminals take.
pub(crate) fn sequence(text: &[u8], inside: Multiplexer) -> Result<Vec<u8>, Problem> {
    let encoded = BASE64.encode(text);
    if encoded.len() > LONGEST {
        let text = format!("cannot copy {} bytes: terminals take {}", text.len(), LONGEST / 4 * 3);
        return Err(Problem::new("clipboard", ProblemKind::Refused, text).advise("copy a part of it"));
    }
    Ok(inside.wrap(&format!("\x1b]52;c;{encoded}\x07")))
}

/// Gives a text to tmux, which passes it on.
pub(crate) async fn tmux(text: &[u8]) -> Result<(), Problem> {
    let failed = |what: String| {
        Problem::new("clipboard", ProblemKind::Failed, format!("cannot copy through tmux: {what}"))
    };
    let run = async {
        let mut child = Command::new("tmux")
            .args(["load-buffer", "-w", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(text).await?;
        }
        child.wait_with_output().await
    };
    match tokio::time::timeout(TMUX_LIMIT, run).await {
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("it did not answer".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_arrives_exactly() {
        let text = "a\x1b]0;x\x07\n漢字 \\ end";
        let bytes = sequence(text.as_bytes(), Multiplexer::None).unwrap();
        let body = bytes.strip_prefix(b"\x1b]52;c;").unwrap().strip_suffix(b"\x07").unwrap();
        assert_eq!(BASE64.decode(body).unwrap(), text.as_bytes());
        assert!(!body.contains(&0x1b));
    }

    #[test]
    fn what_terminals_drop_is_refused() {
        for inside in [Multiplexer::None, Multiplexer::Screen] {
            assert!(sequence(&[b'x'; 56_000], inside).is_ok());
            assert_eq!(sequence(&[b'x'; 57_000], inside).unwrap_err().kind, ProblemKind::Refused);
        }
    }

    /// GNU screen passes on what stands between `ESC P` and `ESC \\`, piece by piece.
    #[test]
    fn screen_passes_it_on_in_pieces() {
        let text = [b'x'; 1_000];
        let bytes = sequence(&text, Multiplexer::Screen).unwrap();
        let pieces = String::from_utf8(bytes).unwrap();
        let pieces: Vec<&str> = pieces
            .strip_prefix("\x1bP")
            .unwrap()
            .strip_suffix("\x1b\\")
            .unwrap()
            .split("\x1b\\\x1bP")
            .collect();
        assert!(pieces.len() > 5 && pieces.iter().all(|piece| piece.len() <= 240));
        assert_eq!(pieces.concat().into_bytes(), sequence(&text, Multiplexer::None).unwrap());
    }
}
