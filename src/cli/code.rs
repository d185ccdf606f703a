//! The code of an MFA device, asked for on the terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};

use super::fail;
use crate::config::Secret;
use crate::domain::aws::AwsErrorKind;
use crate::domain::text::plain;
use crate::ops::OpError;

/// What Ctrl-C types.
const INTERRUPT: u8 = 3;
/// How often a wrong code is asked for again.
const TRIES: usize = 3;

/// Does something that may need a code, and asks for it when it does.
pub(super) async fn asked<T>(
    attempt: impl AsyncFn(Option<&Secret>) -> Result<T, OpError>,
) -> Result<T, OpError> {
    let mut code = None;
    let mut serial = None;
    for tries in 0..=TRIES {
        match attempt(code.as_ref()).await {
            Ok(done) => return Ok(done),
            Err(OpError::Aws(error)) => {
                let needed = match &error.kind {
                    AwsErrorKind::NeedsCode(serial) => Some(serial.clone()),
                    // AWS does not say which of several things was wrong: most likely the code.
                    AwsErrorKind::Forbidden if code.is_some() && tries < TRIES => {
                        fail(&error.to_string());
                        serial.clone()
                    }
                    _ => None,
                };
                let Some(needed) = needed else { return Err(OpError::Aws(error)) };
                let Some(given) = ask(needed.clone()).await else { return Err(OpError::Aws(error)) };
                (code, serial) = (Some(given), Some(needed));
            }
            Err(error) => return Err(error),
        }
    }
    Err(OpError::Refused("no code was right".to_owned()))
}

/// Asks on the terminal, which does not show what is typed. None: there is no terminal, or nothing was typed.
async fn ask(serial: String) -> Option<Secret> {
    tokio::task::spawn_blocking(move || {
        let mut terminal = std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let before = tcgetattr(&terminal).ok()?;
        let mut hidden = before.clone();
        // Ctrl-C would end us and leave the terminal without its echo: it ends the line instead.
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        hidden.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
        // Hidden before it is asked for: nobody types before the question.
        tcsetattr(&terminal, OptionalActions::Flush, &hidden).ok()?;
        write!(terminal, "MFA code of {}: ", plain(&serial)).ok();
        let line = line(&terminal);
        tcsetattr(&terminal, OptionalActions::Now, &before).ok()?;
        writeln!(terminal).ok()?;
        let line = line.ok()?;
        let code = line.trim();
        (!code.is_empty()).then(|| Secret::new(code))
    })
    .await
    .ok()
    .flatten()
}

/// What is typed until the end of the line; nothing when that is Ctrl-C.
fn line(mut terminal: &File) -> std::io::Result<String> {
    let mut typed = Vec::new();
    let mut byte = [0];
    while terminal.read(&mut byte)? == 1 {
        match byte {
            [INTERRUPT] => return Ok(String::new()),
            [b'\n'] => break,
            [other] => typed.push(other),
        }
    }
    Ok(String::from_utf8_lossy(&typed).into_owned())
}
