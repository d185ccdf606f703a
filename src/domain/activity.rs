//! What was done, by whom, on what and how it ended: one line of the activity.

use jiff::Timestamp;
use serde::Serialize;

/// What operators and servers do, as Kubernetes Events and the activity file name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Deed {
    Approve,
    Reject,
    Stop,
    Retry,
    Check,
    Forget,
    Deliver,
    Prune,
    AddTargets,
    RemoveTargets,
    LabelTargets,
    CreateToken,
    DeleteToken,
    Requeue,
    Drop,
    Hold,
    Release,
    Start,
}

impl Deed {
    /// Each with the reason of its Event and the word on screen.
    const ALL: [(Self, &'static str, &'static str); 18] = [
        (Self::Approve, "Approved", "approve"),
        (Self::Reject, "Rejected", "reject"),
        (Self::Stop, "Stopped", "stop"),
        (Self::Retry, "RetryRequested", "retry"),
        (Self::Check, "CheckRequested", "check"),
        (Self::Forget, "ForgetRequested", "forget"),
        (Self::Deliver, "Delivered", "deliver"),
        (Self::Prune, "Pruned", "prune"),
        (Self::AddTargets, "TargetsAdded", "add targets"),
        (Self::RemoveTargets, "TargetsRemoved", "remove targets"),
        (Self::LabelTargets, "TargetsLabelled", "label targets"),
        (Self::CreateToken, "TokenCreated", "create token"),
        (Self::DeleteToken, "TokenDeleted", "delete token"),
        (Self::Requeue, "Requeued", "requeue"),
        (Self::Drop, "Dropped", "drop"),
        (Self::Hold, "ApprovalsHeld", "hold approvals"),
        (Self::Release, "ApprovalsReleased", "release approvals"),
        (Self::Start, "Started", "start"),
    ];

    fn names(self) -> (&'static str, &'static str) {
        Self::ALL
            .into_iter()
            .find(|(deed, ..)| *deed == self)
            .map_or(("", ""), |(_, reason, word)| (reason, word))
    }

    /// The reason of its Event.
    #[must_use]
    pub fn reason(self) -> &'static str {
        self.names().0
    }

    /// The word on screen.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.names().1
    }

    /// The word for an Event's reason; a reason that we do not know stands for itself.
    #[must_use]
    pub fn word_of(reason: &str) -> &str {
        Self::ALL.into_iter().find(|(_, known, _)| *known == reason).map_or(reason, |(.., word)| word)
    }
}

/// How a deed ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// It was done.
    Done,
    /// It was not.
    Failed,
}

impl Ending {
    /// The word on screen.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// One deed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Activity {
    /// What tells it from others: the Event's UID.
    pub id: String,
    /// When.
    pub at: Timestamp,
    /// Who did it: a user of the cluster, `rule` or `server`.
    pub who: String,
    /// What was done, in a word or two.
    pub action: String,
    /// On what: `run provision-…`, `targets default/scrape-collectd`, `token abcdef`.
    pub on: String,
    /// How it ended.
    pub outcome: Ending,
    /// More about it, one line.
    pub text: String,
}

/// How the thing that an Event is about is called, by its kind, namespace and name.
#[must_use]
pub fn subject(kind: &str, namespace: &str, name: &str) -> String {
    match kind {
        "Job" => format!("run {name}"),
        "ConfigMap" if name == super::approvals::CONFIGMAP => "approvals".to_owned(),
        "ConfigMap" => format!("targets {namespace}/{name}"),
        "Secret" => format!("token {}", name.strip_prefix("bootstrap-token-").unwrap_or(name)),
        "Namespace" => format!("namespace {name}"),
        _ => format!("{kind} {namespace}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_deed_has_a_reason_and_a_word_of_its_own() {
        for (at, (deed, reason, word)) in Deed::ALL.into_iter().enumerate() {
            assert_eq!((deed.reason(), deed.word(), Deed::word_of(reason)), (reason, word, word));
            assert!(Deed::ALL.iter().skip(at + 1).all(|(d, r, w)| *d != deed && *r != reason && *w != word));
        }
        assert_eq!(Deed::word_of("Rebooted"), "Rebooted");
    }
}
