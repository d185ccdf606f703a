//! The complete list of what the console can do to the world. Effects carry what, never how.

use super::change::Change;
use super::fetch::Fetch;
use super::items::Topic;
use super::secrets::SecretDeed;
use crate::config::Secret;
use crate::domain::approvals::Hold;
use crate::domain::{HostName, Parameters};

/// Tells one effect from another, and late answers from awaited ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EffectId(pub u64);

/// A run, as effects name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunRef {
    /// The Job's UID: the identity.
    pub uid: String,
    /// The Job's name.
    pub name: String,
    /// The host, for messages.
    pub host: HostName,
}

/// Something for the shell to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Approve a pending run, as it was seen.
    Approve {
        /// The id of the answer.
        id: EffectId,
        /// Which run.
        run: RunRef,
        /// The digest of the announcement that was seen: another one refuses the approval.
        digest: String,
        /// What to apply; none: the environment's defaults laid under what the host announced.
        parameters: Option<Parameters>,
    },
    /// Ask for a run in check mode.
    Check {
        /// The id of the answer.
        id: EffectId,
        /// Which run.
        run: RunRef,
        /// The digest of the announcement that was seen.
        digest: String,
    },
    /// Reject a pending run.
    Reject {
        /// The id of the answer.
        id: EffectId,
        /// Which run.
        run: RunRef,
        /// The digest of the announcement that was seen.
        digest: String,
    },
    /// Ask for another run of the same host.
    Retry {
        /// The id of the answer.
        id: EffectId,
        /// Which run.
        run: RunRef,
    },
    /// Stop a run.
    Stop {
        /// The id of the answer.
        id: EffectId,
        /// Which run.
        run: RunRef,
    },
    /// Have all runs of this run's host deleted.
    Forget {
        /// The id of the answer.
        id: EffectId,
        /// The host's newest run.
        run: RunRef,
    },
    /// Hold all approvals.
    Hold {
        /// The id of the answer.
        id: EffectId,
        /// Why.
        reason: String,
    },
    /// Release approvals.
    Release {
        /// The id of the answer.
        id: EffectId,
        /// The hold that was looked at.
        hold: Hold,
    },
    /// Change something that is listed.
    Change {
        /// The id of the answer.
        id: EffectId,
        /// What.
        change: Change,
    },
    /// Do something with secrets.
    Secret {
        /// The id of the answer.
        id: EffectId,
        /// What.
        deed: SecretDeed,
    },
    /// Open the text that this effect had edited again.
    EditAgain(EffectId),
    /// Show what differs in it, with its values.
    EditShow(EffectId),
    /// Take this code of an MFA device for the credentials.
    GiveCode(Secret),
    /// Open a shell on the host of this run, with the terminal as its own.
    Shell {
        /// The id of the answer.
        id: EffectId,
        /// Which run.
        run: RunRef,
    },
    /// Boot another machine in the playground.
    BootMachine {
        /// The id of the answer.
        id: EffectId,
    },
    /// Fetch the whole run: [`Answer::Run`](super::Answer::Run).
    OpenRun {
        /// The id of the answer.
        id: EffectId,
        /// Which run.
        run: RunRef,
    },
    /// Fetch something and show it.
    Fetch {
        /// The id of the answer.
        id: EffectId,
        /// What.
        what: Fetch,
    },
    /// Fetch one result: [`Answer::Result`](super::Answer::Result).
    FetchResult {
        /// The id of the answer.
        id: EffectId,
        /// The UID of its run.
        run: String,
        /// ARA's id of it.
        result: u64,
    },
    /// Send the log and the results of this run from now on, from their beginning, in place of any other's.
    Follow {
        /// Which run.
        run: RunRef,
    },
    /// Stop sending them.
    Unfollow {
        /// The run's UID.
        run: String,
    },
    /// Send the rows of this topic now and from time to time, in place of any other's.
    Look(Topic),
    /// The same with the secrets.
    LookSecrets,
    /// Stop sending them.
    LookAway,
    /// Put this text into the clipboard, exactly; the answer says how it went.
    Copy {
        /// The id of the answer.
        id: EffectId,
        /// The text.
        text: String,
    },
    /// The same with bytes that are no text.
    CopyBytes {
        /// The id of the answer.
        id: EffectId,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Fetch a run's log again, whole, and save it; the answer says where.
    SaveLog {
        /// The id of the answer.
        id: EffectId,
        /// Which run.
        run: RunRef,
    },
    /// Try to cancel an effect; its answer comes as always.
    Cancel(EffectId),
    /// Tell who looks elsewhere, as the settings want it: with the bell, with a notification.
    Notify(String),
    /// Keep one line in the log file.
    WriteLog(String),
    /// Ask the cluster again what we may do.
    AskRights,
    /// Leave this environment for the one of this name.
    Switch(String),
    /// Draw everything again.
    Redraw,
    /// Give the terminal back and stop the process, as Ctrl-Z does.
    Suspend,
    /// End the console.
    Quit,
}

impl Effect {
    /// The id under which its answer comes.
    #[must_use]
    pub fn id(&self) -> Option<EffectId> {
        match self {
            Self::Approve { id, .. }
            | Self::Check { id, .. }
            | Self::Reject { id, .. }
            | Self::Retry { id, .. }
            | Self::Stop { id, .. }
            | Self::Forget { id, .. }
            | Self::Hold { id, .. }
            | Self::Release { id, .. }
            | Self::Change { id, .. }
            | Self::Secret { id, .. }
            | Self::Shell { id, .. }
            | Self::Fetch { id, .. }
            | Self::BootMachine { id }
            | Self::OpenRun { id, .. }
            | Self::FetchResult { id, .. }
            | Self::CopyBytes { id, .. }
            | Self::SaveLog { id, .. }
            | Self::Copy { id, .. } => Some(*id),
            Self::Follow { .. }
            | Self::Unfollow { .. }
            | Self::Look(_)
            | Self::LookSecrets
            | Self::LookAway
            | Self::EditAgain(_)
            | Self::EditShow(_)
            | Self::GiveCode(_)
            | Self::Cancel(_)
            | Self::WriteLog(_)
            | Self::Notify(_)
            | Self::AskRights
            | Self::Switch(_)
            | Self::Redraw
            | Self::Suspend
            | Self::Quit => None,
        }
    }

    /// True when it changes something outside the console: never sent in read-only mode.
    #[must_use]
    pub fn changes(&self) -> bool {
        match self {
            Self::Secret { deed, .. } => deed.changes(),
            Self::Approve { .. }
            | Self::Check { .. }
            | Self::Reject { .. }
            | Self::Retry { .. }
            | Self::Stop { .. }
            | Self::Forget { .. }
            | Self::Hold { .. }
            | Self::Release { .. }
            | Self::Change { .. }
            | Self::Shell { .. }
            | Self::BootMachine { .. } => true,
            Self::OpenRun { .. }
            | Self::Fetch { .. }
            | Self::FetchResult { .. }
            | Self::Follow { .. }
            | Self::Unfollow { .. }
            | Self::Look(_)
            | Self::LookSecrets
            | Self::LookAway
            | Self::EditAgain(_)
            | Self::EditShow(_)
            | Self::GiveCode(_)
            | Self::Copy { .. }
            | Self::CopyBytes { .. }
            | Self::SaveLog { .. }
            | Self::Cancel(_)
            | Self::WriteLog(_)
            | Self::Notify(_)
            | Self::AskRights
            | Self::Switch(_)
            | Self::Redraw
            | Self::Suspend
            | Self::Quit => false,
        }
    }

    /// True for what may take long: it can be cancelled, and leaves nothing half done.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.is_stoppable() || matches!(self, Self::SaveLog { .. })
    }

    /// True for what ends by itself when it is cancelled, and says what it did till then.
    #[must_use]
    pub fn is_stoppable(&self) -> bool {
        matches!(self, Self::Secret { deed, .. } if deed.transfers())
    }

    /// What it does, as the start of a sentence in the making: `approving web-7.example.org`.
    #[must_use]
    pub fn doing(&self) -> String {
        match self {
            Self::Approve { run, .. } => format!("approving {}", run.host),
            Self::Check { run, .. } => format!("asking for a check of {}", run.host),
            Self::Reject { run, .. } => format!("rejecting {}", run.host),
            Self::Retry { run, .. } => format!("asking for another run of {}", run.host),
            Self::Stop { run, .. } => format!("stopping {}", run.name),
            Self::Forget { run, .. } => format!("forgetting {}", run.host),
            Self::Hold { .. } => "holding all approvals".to_owned(),
            Self::Release { .. } => "releasing approvals".to_owned(),
            Self::Change { change, .. } => change.doing(),
            Self::Secret { deed, .. } => deed.doing(),
            Self::EditAgain(_) | Self::EditShow(_) => "editing again".to_owned(),
            Self::GiveCode(_) => "giving a code".to_owned(),
            Self::Shell { run, .. } => format!("opening a shell on {}", run.host),
            Self::Fetch { what, .. } => what.doing(),
            Self::Look(_) | Self::LookSecrets | Self::LookAway => "fetching the rows".to_owned(),
            Self::BootMachine { .. } => "booting a machine".to_owned(),
            Self::OpenRun { run, .. } => format!("fetching {}", run.name),
            Self::FetchResult { .. } => "fetching the result".to_owned(),
            Self::Follow { run } => format!("following {}", run.name),
            Self::Unfollow { .. } => "leaving the run".to_owned(),
            Self::Copy { .. } | Self::CopyBytes { .. } => "copying".to_owned(),
            Self::SaveLog { run, .. } => format!("saving the log of {}", run.name),
            Self::Cancel(_) => "cancelling".to_owned(),
            Self::WriteLog(_) => "writing the log".to_owned(),
            Self::Notify(_) => "telling".to_owned(),
            Self::AskRights => "asking what you may do".to_owned(),
            Self::Switch(name) => format!("switching to {name}"),
            Self::Redraw => "redrawing".to_owned(),
            Self::Suspend => "suspending".to_owned(),
            Self::Quit => "quitting".to_owned(),
        }
    }

    /// The UID of the run that it is for.
    #[must_use]
    pub fn run(&self) -> Option<&str> {
        match self {
            Self::Approve { run, .. }
            | Self::Check { run, .. }
            | Self::Reject { run, .. }
            | Self::Retry { run, .. }
            | Self::Stop { run, .. }
            | Self::Forget { run, .. }
            | Self::Shell { run, .. }
            | Self::OpenRun { run, .. }
            | Self::SaveLog { run, .. }
            | Self::Follow { run } => Some(&run.uid),
            Self::FetchResult { run, .. } | Self::Unfollow { run } => Some(run),
            Self::Hold { .. }
            | Self::Release { .. }
            | Self::Change { .. }
            | Self::Secret { .. }
            | Self::Fetch { .. }
            | Self::Look(_)
            | Self::LookSecrets
            | Self::LookAway
            | Self::EditAgain(_)
            | Self::EditShow(_)
            | Self::GiveCode(_)
            | Self::BootMachine { .. }
            | Self::Copy { .. }
            | Self::CopyBytes { .. }
            | Self::Cancel(_)
            | Self::WriteLog(_)
            | Self::Notify(_)
            | Self::AskRights
            | Self::Switch(_)
            | Self::Redraw
            | Self::Suspend
            | Self::Quit => None,
        }
    }

    /// The same with another id: what two effects must be equal in to be the same.
    pub(super) fn with_id(mut self, new: EffectId) -> Self {
        match &mut self {
            Self::Approve { id, .. }
            | Self::Check { id, .. }
            | Self::Reject { id, .. }
            | Self::Retry { id, .. }
            | Self::Stop { id, .. }
            | Self::Forget { id, .. }
            | Self::Hold { id, .. }
            | Self::Release { id, .. }
            | Self::Change { id, .. }
            | Self::Secret { id, .. }
            | Self::Shell { id, .. }
            | Self::Fetch { id, .. }
            | Self::BootMachine { id }
            | Self::OpenRun { id, .. }
            | Self::FetchResult { id, .. }
            | Self::CopyBytes { id, .. }
            | Self::SaveLog { id, .. }
            | Self::Copy { id, .. } => *id = new,
            _ => {}
        }
        self
    }
}
