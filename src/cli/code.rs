//! The code of an MFA device, asked for on the terminal.

use std::io::{BufRead as _, BufReader, Write as _};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::fail;
use crate::config::Secret;
use crate::domain::aws::AwsErrorKind;
use crate::domain::text::plain;
use crate::ops::OpError;

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
        hidden.local_modes.remove(LocalModes::ECHO);
        // Hidden before it is asked for: nobody types before the question.
        tcsetattr(&terminal, OptionalActions::Flush, &hidden).ok()?;
        write!(terminal, "MFA code of {}: ", plain(&serial)).ok();
        let mut line = String::new();
        let read = BufReader::new(&terminal).read_line(&mut line);
        tcsetattr(&terminal, OptionalActions::Now, &before).ok()?;
        writeln!(terminal).ok()?;
        read.ok()?;
        let code = line.trim();
        (!code.is_empty()).then(|| Secret::new(code))
    })
    .await
    .ok()
    .flatten()
}
