//! The one table of what an operator can do in the console: help, footer, palette, key map and `docs/keys.md` are made from it.
//!
//! `app` has the handlers and the conditions; nothing here knows how an action is done.

use std::fmt;

/// Where an action's keys count. A screen's keys are looked up before the global ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Everywhere.
    Global,
    /// The table of hosts.
    Hosts,
    /// The table of runs.
    Runs,
    /// Inside one run: its tasks, a result, its log.
    Run,
    /// The scrape targets.
    Targets,
    /// The secrets bucket and its local copy.
    Secrets,
    /// The versions of one secret.
    Versions,
    /// What differs between contents of one secret.
    Differences,
    /// The bootstrap tokens.
    Tokens,
    /// The queues and dead letters.
    Queue,
    /// What was done by whom.
    Activity,
}

impl Scope {
    /// All of them, in the order of help.
    pub const ALL: [Self; 11] = [
        Self::Global,
        Self::Hosts,
        Self::Runs,
        Self::Run,
        Self::Targets,
        Self::Secrets,
        Self::Versions,
        Self::Differences,
        Self::Tokens,
        Self::Queue,
        Self::Activity,
    ];

    /// The name in `config.toml`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Hosts => "hosts",
            Self::Runs => "runs",
            Self::Run => "run",
            Self::Targets => "targets",
            Self::Secrets => "secrets",
            Self::Versions => "versions",
            Self::Differences => "differences",
            Self::Tokens => "tokens",
            Self::Queue => "queue",
            Self::Activity => "activity",
        }
    }

    /// The scope of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }

    /// The heading in help and in the documentation.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Global => "Everywhere",
            Self::Hosts => "Hosts",
            Self::Runs => "Runs",
            Self::Run => "Inside a run",
            Self::Targets => "Targets",
            Self::Secrets => "Secrets",
            Self::Versions => "Versions of a secret",
            Self::Differences => "What differs in a secret",
            Self::Tokens => "Tokens",
            Self::Queue => "Queue",
            Self::Activity => "Activity",
        }
    }
}

/// What an action asks before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Risk {
    /// Nothing.
    None,
    /// A form, which is sent off or not.
    Form,
    /// A confirmation.
    Ask,
    /// A confirmation; in a guarded environment its name must be typed.
    Typed,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct ActionInfo {
    /// Which action.
    pub action: Action,
    /// Its name in `config.toml` and in the palette.
    pub name: &'static str,
    /// One or two words for the footer.
    pub label: &'static str,
    /// What it does, in one line.
    pub description: &'static str,
    /// Where it can be done.
    pub scopes: &'static [Scope],
    /// Its keys unless they are replaced.
    pub keys: &'static [&'static str],
    /// What it asks first.
    pub risk: Risk,
    /// It changes something outside the console.
    pub changes: bool,
}

macro_rules! actions {
    ($($variant:ident $name:literal $label:literal $description:literal
       [$($scope:ident)*] [$($key:literal)*] $risk:ident $changes:literal;)*) => {
        /// Everything that an operator can do in the console by a key of the key map.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Action {
            $(#[doc = $description] $variant,)*
        }

        /// The table, in the order of help.
        pub const ACTIONS: &[ActionInfo] = &[
            $(ActionInfo {
                action: Action::$variant,
                name: $name,
                label: $label,
                description: $description,
                scopes: &[$(Scope::$scope,)*],
                keys: &[$($key,)*],
                risk: Risk::$risk,
                changes: $changes,
            },)*
        ];

        impl Action {
            /// Its row in the table.
            #[must_use]
            pub fn info(self) -> &'static ActionInfo {
                match self {
                    $(Self::$variant => {
                        const ROW: ActionInfo = ActionInfo {
                            action: Action::$variant,
                            name: $name,
                            label: $label,
                            description: $description,
                            scopes: &[$(Scope::$scope,)*],
                            keys: &[$($key,)*],
                            risk: Risk::$risk,
                            changes: $changes,
                        };
                        &ROW
                    })*
                }
            }
        }
    };
}

actions! {
    Down "down" "down" "Move down one row or line" [Global] ["j" "down"] None false;
    Up "up" "up" "Move up one row or line" [Global] ["k" "up"] None false;
    HalfDown "half-page-down" "half down" "Move down half a page" [Global] ["ctrl-d"] None false;
    HalfUp "half-page-up" "half up" "Move up half a page" [Global] ["ctrl-u"] None false;
    PageDown "page-down" "page down" "Move down a page" [Global] ["pagedown" "ctrl-f"] None false;
    PageUp "page-up" "page up" "Move up a page" [Global] ["pageup" "ctrl-b"] None false;
    Top "top" "top" "Go to the first row or line" [Global] ["g" "home"] None false;
    Bottom "bottom" "bottom" "Go to the last row or line; a log follows its end again" [Global] ["G" "end"] None false;
    Left "left" "left" "Scroll left; close the group of tasks, or the folder" [Global] ["h" "left"] None false;
    Right "right" "right" "Scroll right; open the group of tasks, or the folder" [Global] ["right"] None false;
    Open "open" "open" "Open what is under the cursor: a run's tasks, results and log, a result's errors" [Global] ["enter"] None false;
    Back "back" "back" "Close what is open, clear the marks, go back" [Global] ["esc"] None false;
    NextPane "next-pane" "next pane" "Move the focus to the next pane" [Global] ["tab"] None false;
    PreviousPane "previous-pane" "previous pane" "Move the focus to the previous pane" [Global] ["shift-tab"] None false;
    GoHosts "hosts" "hosts" "Show the hosts" [Global] ["1"] None false;
    GoRuns "runs" "runs" "Show the runs" [Global] ["2"] None false;
    GoTargets "targets" "targets" "Show the scrape targets" [Global] ["3"] None false;
    GoSecrets "secrets" "secrets" "Show the secrets: the bucket and its local copy" [Global] ["4"] None false;
    GoTokens "tokens" "tokens" "Show the bootstrap tokens, and what machines join with" [Global] ["5"] None false;
    GoQueue "queue" "queue" "Show the runs' queues and the dead letters" [Global] ["6"] None false;
    GoActivity "activity" "activity" "Show who did what when" [Global] ["8"] None false;
    PreviousScreen "previous-screen" "previous screen" "Go to the screen before this one" [Global] ["`"] None false;
    Filter "filter" "filter" "Filter the rows, or search in a text" [Global] ["/"] None false;
    Copy "copy" "copy" "Copy what is under the cursor, exactly as it is" [Global] ["y"] None false;
    CopyCommand "copy-command" "as command" "Copy what is under the cursor, or is asked, as a command" [Global] ["C"] None false;
    Utc "utc" "utc" "Show times in UTC, or in the local time zone again" [Global] ["U"] None false;
    Why "why" "why?" "Tell why: why a run failed or waits, or the whole of the last error" [Global] ["w"] None false;
    Messages "messages" "messages" "Show what happened in this console, newest first" [Global] ["m"] None false;
    Help "help" "help" "Show the keys that count here" [Global] ["?" "f1"] None false;
    Palette "palette" "all actions" "Find any action by its name" [Global] [":"] None false;
    Interrupt "interrupt" "cancel" "Close or cancel what is open, then ask to quit" [Global] ["ctrl-c"] None false;
    Redraw "redraw" "redraw" "Draw the whole screen again" [Global] ["ctrl-l"] None false;
    Suspend "suspend" "suspend" "Put the console aside and return to the shell (fg brings it back)" [Global] ["ctrl-z"] None false;
    Quit "quit" "quit" "Quit; asks while something is in flight" [Global] ["q"] None false;

    Approve "approve" "approve" "Approve the pending host, or all marked ones" [Hosts Runs Run] ["a"] Ask true;
    Check "check" "check first" "Run the policy in check mode first: say what would change, change nothing" [Hosts Runs Run] ["c"] None true;
    Reject "reject" "reject" "Reject the pending host, or all marked ones" [Hosts Runs Run] ["x"] Ask true;
    Retry "retry" "retry" "Run the host again, or all marked ones" [Hosts Runs Run] ["r"] Ask true;
    Stop "stop" "stop" "Stop the run: its pod is ended" [Hosts Runs Run] ["X"] Typed true;
    Forget "forget" "forget" "Forget the host, or all marked ones, and their runs" [Hosts] ["D"] Typed true;
    HoldApprovals "hold-approvals" "hold" "Hold all approvals: nobody approves until they are released, the rule neither" [Hosts Runs Run] ["H"] Form true;
    ReleaseApprovals "release-approvals" "release" "Release all approvals" [Hosts Runs Run] ["R"] Ask true;
    Shell "shell" "shell" "Open a shell on the host; the console waits" [Hosts Runs Run] ["!"] None true;
    Yaml "yaml" "as YAML" "Show the run's Job as the cluster has it" [Hosts Runs Run] ["Y"] None false;
    Boot "boot" "boot a machine" "Boot another machine (playground)" [Hosts] ["b"] None true;
    Details "details" "details" "Show or hide the details of the row" [Hosts] ["d"] None false;
    Overview "overview" "its page" "Show the page of the host and its run: the timeline, its other runs, what it announced" [Hosts Runs Run] ["i"] None false;
    EarlierRun "earlier-run" "earlier run" "Open the host's run before this one" [Run] ["["] None false;
    LaterRun "later-run" "later run" "Open the host's run after this one" [Run] ["]"] None false;
    Sort "sort" "sort" "Sort by the next column" [Hosts Runs Targets Secrets Tokens Queue Activity] ["s"] None false;
    Reverse "reverse" "reverse" "Turn the order round" [Hosts Runs Targets Secrets Tokens Queue Activity] ["S"] None false;
    Wide "wide" "wide" "Show all columns at their full width and move over them to the sides, or those that fit" [Hosts Runs Targets Secrets Tokens Queue Activity] ["ctrl-w"] None false;
    Mark "mark" "mark" "Mark the row and go to the next" [Hosts Runs Targets Secrets Tokens Queue] ["space"] None false;
    Invert "invert" "invert marks" "Mark what is not marked, and the other way round" [Hosts Runs Targets Secrets Tokens Queue] ["*"] None false;

    Refresh "refresh" "refresh" "Fetch the rows now" [Targets Secrets Versions Differences Tokens Queue Activity] ["ctrl-r"] None false;
    AddTarget "add-target" "add" "Add a target" [Targets] ["a"] Form true;
    LabelTargets "label-targets" "labels" "Change the labels of the target, or of all marked ones" [Targets] ["e"] Form true;
    MintToken "mint-token" "mint" "Mint a token for a machine that joins" [Tokens] ["a"] Form true;
    RevokeTokens "revoke-tokens" "revoke" "Revoke the token, or all marked ones" [Tokens] ["x"] Typed true;
    JoinCommand "join-command" "join command" "Show the command that a machine joins with; it holds the token's secret" [Tokens] ["J"] None false;
    Cluster "cluster" "cluster" "Show the cluster's certificates and what machines are told" [Tokens] ["c"] None false;
    Requeue "requeue" "put back" "Put the dead letter, or all marked ones, back on its run's queue" [Queue] ["r"] Ask true;
    DropLetters "drop-letters" "throw away" "Throw the dead letter away, or all marked ones" [Queue] ["x"] Typed true;
    FetchSecrets "fetch-secrets" "fetch" "Fetch the secret, the folder's, or all marked ones into the local copy; asks before a changed file is lost" [Secrets Differences] ["f"] None false;
    UploadSecrets "upload-secrets" "upload" "Upload the secret's file, the folder's, or all marked ones; never over what somebody else changed unless that is asked for" [Secrets Differences] ["u"] Ask true;
    EditSecret "edit-secret" "edit" "Open the secret's plain text in your editor and upload what comes back; the console waits" [Secrets Differences] ["e"] None true;
    CompareSecret "compare-secret" "diff" "Show what differs: here and in the bucket, or between the bucket and the version; values are hidden" [Secrets Versions] ["d"] None false;
    SecretVersions "secret-versions" "history" "Show the versions that the bucket keeps of the secret" [Secrets] ["H"] None false;
    RestoreVersion "restore-version" "restore" "Make the version the newest" [Versions] ["r"] Ask true;
    RemoveSecrets "remove-secrets" "remove" "Remove the secret, the folder's, or all marked ones from the bucket" [Secrets] ["x"] Typed true;
    ShowValues "show-values" "values" "Show the values that differ, or hide them again" [Differences] ["v"] None false;
    AboutSecret "about-secret" "about" "Show all that is known of the secret or the folder, and of the bucket" [Secrets] ["i"] None false;
    Grant "grant" "grant" "Add a line to the file of tokens or rules under the cursor: a token for a user, a rule; known names are completed" [Secrets] ["a"] Form true;
    Nodes "nodes" "nodes" "Show which node has which version of each manifest, and when it last synced" [Secrets] ["N"] None false;
    GiveCode "give-code" "MFA code" "Give the code of your MFA device for the credentials" [Secrets] ["M"] None false;
    RemoveTargets "remove-targets" "remove" "Remove the target, or all marked ones" [Targets] ["x"] Ask true;

    Failed "failed" "failed first" "Tasks in order, the failed ones first, only those, or only the changed ones" [Run] ["f"] None false;
    Slowest "slowest" "slowest" "The tasks that took longest first, or the tree again" [Run] ["t"] None false;
    Log "log" "log" "Go to the log, to where the task's lines begin" [Run] ["l"] None false;
    Diff "diff" "diff" "Go to the diff of the result" [Run] ["d"] None false;
    Zoom "zoom" "zoom" "Give the pane the whole screen, or give it back" [Run] ["z"] None false;
    Follow "follow" "follow" "Follow the end of the log, or stop following" [Run] ["F"] None false;
    NextMatch "next-match" "next match" "Go to the next match of the search" [Run Differences] ["n"] None false;
    PreviousMatch "previous-match" "previous match" "Go to the previous match of the search" [Run Differences] ["N"] None false;
    Wrap "wrap" "wrap" "Break the log's long lines, or cut them" [Run] ["W"] None false;
    Times "times" "times" "Before each line of the log: nothing, the time, the time since the start" [Run] ["T"] None false;
    OnlyTask "only-task" "only this task" "Show the log's lines of this task only, or all again" [Run] ["o"] None false;
    OnlyHost "only-host" "only this host" "Show the log's lines of this host only, or all again" [Run] ["O"] None false;
    SaveLog "save-log" "save log" "Fetch the whole log again and save it in a file" [Run] ["ctrl-s"] None false;
}

impl Action {
    /// The action of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        ACTIONS.iter().find(|row| row.name == name).map(|row| row.action)
    }

    /// True when it can be done in this scope.
    #[must_use]
    pub fn in_scope(self, scope: Scope) -> bool {
        let scopes = self.info().scopes;
        scopes.contains(&Scope::Global) || scopes.contains(&scope)
    }
}

/// `docs/keys.md`: the table as a page, by screen.
#[must_use]
pub fn keys_page() -> String {
    let mut page = String::from(
        "# Keys\n\nMade from the table of actions (`src/config/actions.rs`); a test holds them together. Keys are replaced in \
         `config.toml`,\nper screen or everywhere: `[console.keys.hosts]`, `approve = [\"A\"]`.\n",
    );
    for scope in Scope::ALL {
        page.push_str(&format!("\n## {} (`{}`)\n\n", scope.title(), scope.as_str()));
        page.push_str(
            "| keys | action | what it does | asks | changes something |\n| --- | --- | --- | --- | --- |\n",
        );
        for row in ACTIONS.iter().filter(|row| row.scopes.contains(&scope)) {
            let keys: Vec<String> = row.keys.iter().map(|key| format!("`{key}`")).collect();
            let asks = match row.risk {
                Risk::None => "",
                Risk::Form => "what to do",
                Risk::Ask => "yes",
                Risk::Typed => "the environment's name, where it is guarded",
            };
            let changes = if row.changes { "yes" } else { "" };
            let (keys, name, words) = (keys.join(" "), row.name, row.description);
            page.push_str(&format!("| {keys} | `{name}` | {words} | {asks} | {changes} |\n"));
        }
    }
    page.push_str(
        "\n## In a question\n\n`y` yes, `n` or `esc` no, `c` check first, `tab` and arrows move between the answers, `enter` presses \
         the one with the\nfocus. Where a name must be typed, letters are letters.\n",
    );
    page
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.info().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_lead_back() {
        let names: BTreeSet<_> = ACTIONS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ACTIONS.len());
        for row in ACTIONS {
            assert_eq!(Action::parse(row.name), Some(row.action));
            assert_eq!(row.action.info().name, row.name);
            assert!(!row.scopes.is_empty() && !row.keys.is_empty(), "{}", row.name);
        }
    }

    /// After a change of the table: `HOSTWRIGHT_WRITE_DOCS=1 cargo test keys_page`.
    #[test]
    fn the_keys_page_in_docs_is_this_table() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/keys.md");
        if std::env::var_os("HOSTWRIGHT_WRITE_DOCS").is_some() {
            std::fs::write(&path, keys_page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), keys_page(), "docs/keys.md is old");
    }

    #[test]
    fn what_asks_changes_something() {
        for row in ACTIONS.iter().filter(|row| row.risk != Risk::None) {
            assert!(row.changes, "{} asks but changes nothing", row.name);
        }
    }
}
