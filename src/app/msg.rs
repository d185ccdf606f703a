//! What the world tells the console.

use jiff::Timestamp;

use super::items::Topic;
use super::screens::list::Fresh;
use super::secrets::{Back, SecretsDone, Transfer};
use super::{EffectId, Level, Mouse, Screen};
use crate::config::{Key, Keymap, Rights};
use crate::domain::approvals::Standing;
use crate::domain::cluster::ClusterInfo;
use crate::domain::kube_auth::Names;
use crate::domain::manifest::NodeView;
use crate::domain::results::{ResultDetails, RunResults};
use crate::domain::secret::{Compared, SecretListing, SecretVersion};
use crate::domain::{BackEnd, Health, Problem, Run, RunDetails};

/// One thing that happened outside [`State`](super::State).
#[derive(Debug, Clone)]
pub enum Msg {
    /// A key was pressed.
    Key(Key),
    /// The mouse did this on a cell.
    Mouse(Mouse, u16, u16),
    /// Text was pasted: never taken for keys.
    Paste(String),
    /// The terminal has this size now.
    Resize {
        /// Columns.
        width: u16,
        /// Rows.
        height: u16,
    },
    /// The terminal got the focus, or lost it.
    Focus(bool),
    /// The time that [`Seen::wake`](super::Seen::wake) asked for came.
    Wake,
    /// News of runs.
    Runs(RunsMsg),
    /// How a back end fares.
    Health(BackEnd, Health),
    /// News of the pod log that [`Effect::Follow`](super::Effect::Follow) asked for.
    Log {
        /// The run's UID.
        run: String,
        /// What came.
        event: LogEvent,
    },
    /// What ARA has of the run that [`Effect::Follow`](super::Effect::Follow) asked for.
    Results {
        /// The run's UID.
        run: String,
        /// All of it, or why it cannot be had.
        results: Result<Box<RunResults>, Problem>,
        /// No more will come: the run is over and ARA has closed its playbooks.
        complete: bool,
    },
    /// The end of an effect with an id. The shell sends exactly one for each of them, also for those that were cancelled.
    Answer {
        /// Which effect.
        id: EffectId,
        /// How it ended.
        result: Result<Answer, Problem>,
    },
    /// An effect is under way.
    Progress {
        /// Which.
        id: EffectId,
        /// How far, in a few words.
        text: String,
    },
    /// A background task panicked: shown, never fatal.
    Crashed(String),
    /// The rows of a topic, or why they are not the newest.
    Listed {
        /// Which.
        topic: Topic,
        /// What came.
        result: Result<Fresh, Problem>,
    },
    /// The secrets, or why they are not the newest.
    Secrets(Result<Box<SecretListing>, Problem>),
    /// A transfer of secrets is under way.
    Transfer {
        /// Which effect's.
        id: EffectId,
        /// How far it is.
        transfer: Transfer,
    },
    /// The text that an effect had edited was not uploaded: is it opened again?
    EditedBack {
        /// The effect.
        id: EffectId,
        /// The secret's exact key.
        key: String,
        /// Why.
        why: Back,
    },
    /// Something to be told that is no effect's answer, such as a doubtful setting.
    Note {
        /// How bad it is.
        level: Level,
        /// What it is.
        text: String,
        /// What to do.
        advice: String,
    },
    /// Where the command line wants the console to start.
    Start {
        /// The screen, if one was named.
        screen: Option<Screen>,
        /// The filter of that screen, or of the first.
        filter: Option<String>,
    },
    /// Whether approvals are held.
    Approvals(Standing),
    /// The name that decisions are signed with.
    Operator(String),
    /// What the cluster lets us do.
    Rights(Box<Rights>),
    /// The key map was changed.
    Keys(Box<Keymap>),
}

/// News of runs, in the order in which the watch brings them.
#[derive(Debug, Clone)]
pub enum RunsMsg {
    /// A list begins: what is known stays on screen, as stale, until it ends.
    Reset,
    /// Runs of a list, or runs that changed.
    Batch(Vec<Run>),
    /// The list is complete: what it did not bring is gone.
    Listed,
    /// These runs (by UID) are gone.
    Removed(Vec<String>),
}

/// One line of a log, as the pod wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When the kubelet got it, if asked for.
    pub at: Option<Timestamp>,
    /// The line without its newline; any bytes.
    pub bytes: Box<[u8]>,
}

/// News of one run's log.
#[derive(Debug, Clone)]
pub enum LogEvent {
    /// More lines, in order.
    Lines(Vec<LogLine>),
    /// There is no pod yet, or it does not run: the reason in a few words.
    Waiting(String),
    /// The lines that follow are those of another pod: this attempt, from 1.
    Attempt(u32),
    /// The pod ended; no more lines.
    Ended,
    /// The log cannot be read.
    Problem(Problem),
}

/// What an effect brought.
#[derive(Debug, Clone)]
pub enum Answer {
    /// It is done; one line for the operator ("approved web-7.example.org"), or nothing to say.
    Done(String),
    /// A text to read and copy.
    Text {
        /// Its title.
        title: String,
        /// The text, exactly.
        text: String,
    },
    /// What is known of the cluster.
    Cluster(Box<ClusterInfo>),
    /// [`SecretDeed::Nodes`](super::secrets::SecretDeed::Nodes).
    Nodes(Vec<NodeView>),
    /// Who is known, for a line to be added to the file with this key.
    Names(String, Names),
    /// What came of a deed on secrets.
    Secrets(SecretsDone),
    /// The versions of a secret.
    Versions(Vec<SecretVersion>),
    /// What differs in a secret.
    Compared(Box<Compared>),
    /// [`Effect::OpenRun`](super::Effect::OpenRun).
    Run(Box<RunDetails>),
    /// [`Effect::FetchResult`](super::Effect::FetchResult).
    Result(Box<ResultDetails>),
}
