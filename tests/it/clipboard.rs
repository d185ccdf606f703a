//! Copying through what stands between the console and the terminal.

use data_encoding::BASE64;

use crate::console::{Far, Near};
use crate::pty::Pty;

/// tmux with nobody's settings but its own, and with the console in it.
fn in_tmux(far: &Far) -> Pty {
    let mut command = Pty::command("tmux");
    far.equip(&mut command);
    command.env("TMUX_TMPDIR", far.path());
    command.args(["-f", "/dev/null", "new-session", env!("CARGO_BIN_EXE_hostwright")]);
    Pty::start(command, (120, 40))
}

#[tokio::test(flavor = "multi_thread")]
async fn in_tmux_a_copy_reaches_the_terminal_outside() {
    let near = Near::new().await;
    near.pending("web-1.example.org").await;
    let mut pty = in_tmux(&near.far);
    pty.wait_for("web-1.example.org");
    let from = pty.mark();
    pty.keys("y").wait_for("sent 17 characters to the clipboard");
    pty.wait_bytes(from, BASE64.encode(b"web-1.example.org").as_bytes());
    // What the terminal outside says of its clipboard presses no key.
    pty.write(b"\x1b]52;c;cT8/cQ==\x07").keys("?").wait_for("HOSTS").keys("<esc>").wait_gone("HOSTS");
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_screen_a_copy_is_wrapped_and_elsewhere_it_is_not() {
    let near = Near::new().await;
    near.pending("web-1.example.org").await;
    let bare = format!("\x1b]52;c;{}\x07", BASE64.encode(b"web-1.example.org"));
    for (screen, wanted) in [(true, format!("\x1bP{bare}\x1b\\")), (false, bare.clone())] {
        let mut command = near.far.command(&[]);
        if screen {
            command.env("STY", "4711.pts-1.bastion");
        }
        let mut pty = Pty::start(command, (120, 40));
        pty.wait_for("web-1.example.org").keys("y").wait_for("sent 17 characters");
        pty.wait_bytes(0, wanted.as_bytes()).keys("q");
        assert_eq!(pty.wait_exit(), 0);
        let sent = String::from_utf8_lossy(&pty.bytes()).into_owned();
        assert_eq!(sent.contains(&format!("\x1bP{bare}")), screen);
    }
}
