//! What holds for all approvals of an environment: whether an operator holds them, and how many runs may go on at a time. It stands on one ConfigMap in the namespace of
//! the runs, where every console, command and server reads it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Wait;
use super::record::stamp;
use super::text::plain;

/// The ConfigMap, in the namespace of the runs. Where there is none nothing is held.
pub const CONFIGMAP: &str = "hostwright-approvals";
/// Key: a [`Hold`], as JSON; absent while nothing is held.
pub const HOLD: &str = "hold";
/// Key: the last [`Release`], as JSON.
pub const RELEASED: &str = "released";

/// Key: how many runs may go on at a time, as the server's settings say; absent without a limit.
pub const RUNS_AT_ONCE: &str = "runs-at-once";

/// What stands in for a name or a reason that is too long ends here, in characters.
const SHOWN: usize = 200;

/// An operator holds all approvals.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hold {
    /// The operator.
    pub by: String,
    /// Since when.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

/// Why a text is no reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReasonError {
    /// Nothing is said.
    #[error("say why: everybody who wants to approve will read it")]
    Empty,
    /// It has no place on a line.
    #[error("the reason has {0} characters, more than {SHOWN}")]
    Long(usize),
}

/// The reason of a hold, as it is written down: one line.
///
/// # Errors
/// When nothing is said, or too much.
pub fn reason(text: &str) -> Result<String, ReasonError> {
    let line = plain(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    match line.chars().count() {
        0 => Err(ReasonError::Empty),
        long if long > SHOWN => Err(ReasonError::Long(long)),
        _ => Ok(line),
    }
}

impl Hold {
    /// Who, since when and why, in a sentence's end: `held by ann since 2026-12-03T10:00:00Z: the API servers are patched`.
    #[must_use]
    pub fn words(&self) -> String {
        format!("held by {} since {}: {}", self.by, stamp(self.at), self.reason)
    }

    /// What was written by hand, or by somebody else, must not flood a screen.
    fn bounded(self) -> Self {
        let short = |text: &str| plain(text).chars().take(SHOWN).collect();
        Self { by: short(&self.by), reason: short(&self.reason), at: self.at }
    }
}

/// The end of a hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The operator.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// What the ConfigMap says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Approvals {
    /// The hold, while there is one.
    pub hold: Option<Hold>,
    /// Who released the last one.
    pub released: Option<Release>,
    /// How many runs may go on at a time; 0: any number.
    pub runs_at_once: usize,
}

impl Approvals {
    /// Reads it; `get` gives the value of a key. A hold that cannot be read holds all the same: somebody meant something by it.
    #[must_use]
    pub fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Self {
        let unreadable = |error: &serde_json::Error| Hold {
            by: "somebody".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            reason: format!("key {HOLD} of ConfigMap {CONFIGMAP} cannot be read: {error}"),
        };
        let hold = get(HOLD)
            .map(|text| serde_json::from_str(text).unwrap_or_else(|error| unreadable(&error)).bounded());
        // Only a note: it decides nothing.
        let released = get(RELEASED).and_then(|text| serde_json::from_str(text).ok());
        // Written by the server, which mends what it finds there.
        let runs_at_once = get(RUNS_AT_ONCE).and_then(|text| text.trim().parse().ok()).unwrap_or_default();
        Self { hold, released, runs_at_once }
    }

    /// What is written on a run that is approved now: with a limit, that it waits for a place.
    #[must_use]
    pub fn wait(&self, now: Timestamp) -> Option<Wait> {
        (self.runs_at_once > 0).then_some(Wait { since: now, of: self.runs_at_once })
    }
}

/// What is known of the ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Standing {
    /// It was not looked at yet.
    #[default]
    Unknown,
    /// This.
    Known(Approvals),
    /// We may not look at it, and why.
    Unreadable(String),
}

impl Standing {
    /// The hold, where one is known.
    #[must_use]
    pub fn hold(&self) -> Option<&Hold> {
        match self {
            Self::Known(approvals) => approvals.hold.as_ref(),
            Self::Unknown | Self::Unreadable(_) => None,
        }
    }

    /// Whether it is known that nothing is held: only then the rule approves.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Known(Approvals { hold: None, .. }))
    }

    /// In one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Known(Approvals { hold: None, .. }) => "open",
            Self::Known(_) => "held",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Approvals {
        Approvals::read(|key| pairs.iter().find(|(k, _)| *k == key).map(|(_, value)| *value))
    }

    #[test]
    fn a_hold_comes_back_as_it_was_written() {
        let hold = Hold { by: "ann".into(), at: Timestamp::UNIX_EPOCH, reason: "patching".into() };
        let text = serde_json::to_string(&hold).unwrap();
        let found = read(&[(HOLD, &text)]);
        assert_eq!(found.hold.as_ref(), Some(&hold));
        assert_eq!(hold.words(), "held by ann since 1970-01-01T00:00:00Z: patching");
        let standing = Standing::Known(found);
        assert_eq!((standing.word(), standing.is_open(), standing.hold()), ("held", false, Some(&hold)));
    }

    #[test]
    fn nothing_written_is_nothing_held_and_not_knowing_is_not_open() {
        assert_eq!(read(&[]), Approvals::default());
        let released = read(&[(RELEASED, r#"{"by":"ben","at":"1970-01-01T00:00:00Z"}"#), ("other", "x")]);
        assert_eq!(released.released.as_ref().map(|r| r.by.as_str()), Some("ben"));
        assert!(Standing::Known(released).is_open());
        assert_eq!(read(&[(RELEASED, "{")]), Approvals::default());
        for unsure in [Standing::Unknown, Standing::Unreadable("forbidden".into())] {
            assert!(!unsure.is_open() && unsure.hold().is_none(), "{unsure:?}");
        }
    }

    #[test]
    fn a_hold_that_cannot_be_read_holds_and_a_hostile_one_is_harmless_and_short() {
        let hold = read(&[(HOLD, "by hand")]).hold.unwrap();
        assert!(hold.reason.contains(CONFIGMAP), "{hold:?}");
        let hostile = format!(
            r#"{{"by":"\u001b[2Jeve","at":"2026-01-01T00:00:00Z","reason":"{}"}}"#,
            "long ".repeat(10_000)
        );
        let hold = read(&[(HOLD, &hostile)]).hold.unwrap();
        assert!(!hold.by.contains('\u{1b}') && hold.reason.chars().count() == SHOWN, "{hold:?}");
    }

    #[test]
    fn a_reason_is_one_line_that_says_something() {
        assert_eq!(reason("  the API\n servers\tare patched "), Ok("the API servers are patched".to_owned()));
        assert_eq!(reason(" \n "), Err(ReasonError::Empty));
        assert_eq!(reason(&"x".repeat(201)), Err(ReasonError::Long(201)));
        assert_eq!(reason("a\u{1b}[2Jb").map(|line| line.contains('\u{1b}')), Ok(false));
    }
}
