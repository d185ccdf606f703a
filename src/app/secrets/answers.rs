//! What deeds on secrets brought.

use super::{SecretDeed, act, pages};
use crate::app::effect::Effect;
use crate::app::msg::Answer;
use crate::app::screens::Screen;
use crate::app::state::State;
use crate::domain::Problem;

/// Takes an answer in. Returns whether it is still to be told.
pub(in crate::app) fn answer(state: &mut State, deed: &SecretDeed, result: &Result<Answer, Problem>) -> bool {
    match deed {
        SecretDeed::History(key) => {
            let versions = match result {
                Ok(Answer::Versions(versions)) => Ok(versions.clone()),
                Ok(_) => return false,
                Err(problem) => Err(problem.clone()),
            };
            pages::versions_came(state, key, versions);
            false
        }
        SecretDeed::Compare { key, sides, values } => {
            let compared = match result {
                Ok(Answer::Compared(compared)) => Ok(&**compared),
                Ok(_) => return false,
                Err(problem) => Err(problem.clone()),
            };
            pages::differences_came(state, (key, sides, *values), compared);
            false
        }
        _ => {
            // What is shown is old now.
            if state.screen == Screen::Secrets {
                state.outbox.push(Effect::LookSecrets);
            } else if matches!(state.screen, Screen::Versions | Screen::Differences) {
                pages::refresh(state);
            }
            match result {
                Ok(Answer::Secrets(done)) => {
                    act::done(state, deed, done.clone());
                    false
                }
                Err(problem) => {
                    if let SecretDeed::Edit(secret) = deed {
                        state.secrets.set_outcome(&secret.key, Some(Err(problem.text.clone())));
                    }
                    true
                }
                Ok(_) => true,
            }
        }
    }
}
