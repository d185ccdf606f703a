//! The tree of a run's tasks: attempt, play, role, task, with the worst state rolled up.

use std::collections::HashMap;

use crate::domain::results::{ResultStatus, RunResults, TaskResult};

/// Up to so many tasks all groups are open at first.
const ALL_OPEN: usize = 40;

/// What tasks without a role stand under.
const NO_ROLE: &str = "tasks of the play";

/// In which order tasks are shown, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As they ran.
    #[default]
    Ran,
    /// The failed ones first.
    FailedFirst,
    /// Only the failed ones.
    OnlyFailed,
    /// Only those that changed something.
    OnlyChanged,
}

impl Order {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Ran => Self::FailedFirst,
            Self::FailedFirst => Self::OnlyFailed,
            Self::OnlyFailed => Self::OnlyChanged,
            Self::OnlyChanged => Self::Ran,
        }
    }

    /// The words beside the heading.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Ran => "as they ran",
            Self::FailedFirst => "failed first",
            Self::OnlyFailed => "only failed",
            Self::OnlyChanged => "only changed",
        }
    }

    /// True when it leaves tasks out.
    #[must_use]
    pub fn filters(self) -> bool {
        matches!(self, Self::OnlyFailed | Self::OnlyChanged)
    }

    pub(crate) fn shows(self, task: &TaskResult) -> bool {
        match self {
            Self::Ran | Self::FailedFirst => true,
            Self::OnlyFailed => is_failure(task.status),
            Self::OnlyChanged => task.changed || task.status == ResultStatus::Changed,
        }
    }
}

/// How the tasks are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    /// Their order, and which of them.
    pub order: Order,
    /// One list, those that took longest first, instead of the tree.
    pub slowest: bool,
}

/// The tree as rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Its rows.
    pub rows: Vec<TaskRow>,
    /// How many tasks the order leaves out.
    pub hidden: usize,
    /// How many columns the hosts' names take; 0 where there is but one host.
    pub host_width: usize,
}

/// One row of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// Its key: what the cursor stands on.
    pub key: String,
    /// How deep it is.
    pub depth: u16,
    /// What it is.
    pub kind: RowKind,
    /// Its worst state.
    pub status: ResultStatus,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// What a row of the tree is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowKind {
    /// An attempt, a play or a role.
    Group {
        /// Its name.
        label: String,
        /// How many tasks it holds.
        tasks: usize,
        /// Its tasks are shown.
        open: bool,
    },
    /// A task.
    Task {
        /// ARA's id of the result.
        id: u64,
        /// Its name.
        name: String,
        /// The host, where the run has several.
        host: Option<String>,
    },
}

/// What a group holds while the tree is built.
struct Group<'a> {
    key: String,
    depth: u16,
    label: String,
    tasks: Vec<&'a TaskResult>,
    groups: Vec<Group<'a>>,
}

impl<'a> Group<'a> {
    fn all(&self) -> Vec<&TaskResult> {
        self.tasks.iter().copied().chain(self.groups.iter().flat_map(Group::all)).collect()
    }

    /// All of its tasks in the order of their rows: groups stand before tasks of its own.
    fn as_shown(&self, out: &mut Vec<&'a TaskResult>) {
        for group in &self.groups {
            group.as_shown(out);
        }
        out.extend(&self.tasks);
    }

    fn worst(&self) -> ResultStatus {
        self.all().iter().map(|t| t.status).min().unwrap_or(ResultStatus::Skipped)
    }
}

/// True for what did not end well.
#[must_use]
pub fn is_failure(status: ResultStatus) -> bool {
    matches!(status, ResultStatus::Failed | ResultStatus::Unreachable)
}

/// The rows of the tree. `folds` is what the operator opened and closed, and what was open when it was first seen, so that nothing
/// closes by itself.
#[must_use]
pub fn tree(results: &RunResults, look: Look, live: bool, folds: &mut HashMap<String, bool>) -> Tree {
    let all = &results.results;
    let tasks: Vec<&TaskResult> = all.iter().filter(|t| look.order.shows(t)).collect();
    let several = all.iter().any(|t| all.first().is_some_and(|first| first.host != t.host));
    let widest = all.iter().map(|t| t.host.chars().count()).max().unwrap_or(0);
    let mut tree = Tree {
        rows: Vec::new(),
        hidden: all.len() - tasks.len(),
        host_width: if several { widest } else { 0 },
    };
    if look.slowest {
        tree.rows = slowest(tasks, several);
        return tree;
    }
    let few = all.len() <= ALL_OPEN;
    for group in sorted(grouped(results, &tasks), look.order) {
        let newest = results.playbooks.last().is_none_or(|p| group.tasks_of_playbook(p.id));
        let way = Way { order: look.order, wide: live || few, newest, several };
        emit(&group, way, folds, &mut tree.rows);
    }
    tree
}

/// All tasks, each with its role, those that took longest first.
fn slowest(mut tasks: Vec<&TaskResult>, several: bool) -> Vec<TaskRow> {
    tasks.sort_by_key(|t| std::cmp::Reverse(t.duration_ms));
    let row = |task: &TaskResult| {
        let mut row = task_row(task, 0, several);
        if let RowKind::Task { name, .. } = &mut row.kind {
            *name = title(task);
        }
        row
    };
    tasks.into_iter().map(row).collect()
}

/// The key of a result's row.
#[must_use]
pub fn key(id: u64) -> String {
    format!("t{id}")
}

/// The keys of the groups around a task.
#[must_use]
pub fn path(task: &TaskResult) -> [String; 3] {
    let (attempt, play) = (format!("p{}", task.playbook), format!("p{}/{}", task.playbook, task.play));
    let role = format!("{play}/{}", task.role.as_deref().unwrap_or(NO_ROLE));
    [attempt, play, role]
}

/// All tasks that are shown or folded away, in the order of the tree.
#[must_use]
pub fn in_order(results: &RunResults, look: Look) -> Vec<&TaskResult> {
    let mut tasks: Vec<&TaskResult> = results.results.iter().filter(|t| look.order.shows(t)).collect();
    if look.slowest {
        tasks.sort_by_key(|t| std::cmp::Reverse(t.duration_ms));
        return tasks;
    }
    let mut out = Vec::new();
    for group in sorted(grouped(results, &tasks), look.order) {
        group.as_shown(&mut out);
    }
    out
}

/// A task's name with its role, as Ansible prints it.
#[must_use]
pub fn title(task: &TaskResult) -> String {
    task.role.as_ref().map_or_else(|| task.task.clone(), |role| format!("{role} : {}", task.task))
}

fn task_row(task: &TaskResult, depth: u16, several: bool) -> TaskRow {
    let host = several.then(|| task.host.clone());
    TaskRow {
        key: key(task.id),
        depth,
        kind: RowKind::Task { id: task.id, name: task.task.clone(), host },
        status: task.status,
        duration_ms: task.duration_ms,
    }
}

impl Group<'_> {
    fn tasks_of_playbook(&self, id: u64) -> bool {
        self.all().first().is_none_or(|t| t.playbook == id)
    }
}

fn grouped<'a>(results: &RunResults, tasks: &[&'a TaskResult]) -> Vec<Group<'a>> {
    let mut playbooks: Vec<u64> = results.playbooks.iter().map(|p| p.id).collect();
    for task in tasks {
        if !playbooks.contains(&task.playbook) {
            playbooks.push(task.playbook);
        }
    }
    let attempts = playbooks.len() > 1;
    let mut out = Vec::new();
    for (number, playbook) in (1..).zip(&playbooks) {
        let own: Vec<&TaskResult> = tasks.iter().copied().filter(|t| t.playbook == *playbook).collect();
        if own.is_empty() {
            continue;
        }
        let plays = plays(&own, *playbook, u16::from(attempts));
        if attempts {
            let (key, label) = (format!("p{playbook}"), format!("attempt {number}"));
            out.push(Group { key, depth: 0, label, tasks: Vec::new(), groups: plays });
        } else {
            out.extend(plays);
        }
    }
    out
}

fn plays<'a>(tasks: &[&'a TaskResult], playbook: u64, depth: u16) -> Vec<Group<'a>> {
    let mut names: Vec<&str> = Vec::new();
    for task in tasks {
        if !names.contains(&task.play.as_str()) {
            names.push(&task.play);
        }
    }
    let several = names.len() > 1;
    let mut out = Vec::new();
    for name in names {
        let own: Vec<&TaskResult> = tasks.iter().copied().filter(|t| t.play == name).collect();
        let key = format!("p{playbook}/{name}");
        let roles = roles(&own, &key, depth + u16::from(several));
        if several {
            out.push(Group { key, depth, label: name.to_owned(), tasks: Vec::new(), groups: roles });
        } else {
            out.extend(roles);
        }
    }
    out
}

fn roles<'a>(tasks: &[&'a TaskResult], play: &str, depth: u16) -> Vec<Group<'a>> {
    let mut out: Vec<Group<'a>> = Vec::new();
    for task in tasks {
        let label = task.role.as_deref().unwrap_or(NO_ROLE);
        match out.iter_mut().find(|g| g.label == label) {
            Some(group) => group.tasks.push(task),
            None => out.push(Group {
                key: format!("{play}/{label}"),
                depth,
                label: label.to_owned(),
                tasks: vec![task],
                groups: Vec::new(),
            }),
        }
    }
    out
}

/// Failed groups and tasks come first when that is asked for; everything else stays as it ran.
fn sorted(mut groups: Vec<Group<'_>>, order: Order) -> Vec<Group<'_>> {
    let rank =
        |status: ResultStatus| Some(status).filter(|s| is_failure(*s)).unwrap_or(ResultStatus::Skipped);
    if order == Order::FailedFirst {
        groups.sort_by_key(|g| rank(g.worst()));
        for group in &mut groups {
            group.tasks.sort_by_key(|t| rank(t.status));
            group.groups = sorted(std::mem::take(&mut group.groups), order);
        }
    }
    groups
}

/// How groups become rows.
#[derive(Clone, Copy)]
struct Way {
    order: Order,
    /// Groups are open at first.
    wide: bool,
    /// It is the newest attempt.
    newest: bool,
    several: bool,
}

fn emit(group: &Group<'_>, way: Way, folds: &mut HashMap<String, bool>, out: &mut Vec<TaskRow>) {
    let (all, worst) = (group.all(), group.worst());
    let at_first = way.newest && (way.wide || is_failure(worst));
    let open = way.order.filters() || *folds.entry(group.key.clone()).or_insert(at_first);
    out.push(TaskRow {
        key: group.key.clone(),
        depth: group.depth,
        kind: RowKind::Group { label: group.label.clone(), tasks: all.len(), open },
        status: worst,
        duration_ms: all.iter().map(|t| t.duration_ms).sum(),
    });
    if !open {
        return;
    }
    for inner in &group.groups {
        emit(inner, way, folds, out);
    }
    out.extend(group.tasks.iter().map(|task| task_row(task, group.depth + 1, way.several)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::sample;
    use ResultStatus as S;

    fn results() -> RunResults {
        let list = vec![
            sample::result(1, "base", "a", S::Ok),
            sample::result(2, "base", "b", S::Changed),
            sample::result(3, "zfs", "c", S::Ok),
            sample::result(4, "zfs", "d", S::Failed),
            sample::result(5, "", "e", S::Ignored),
        ];
        RunResults { results: list, ..RunResults::default() }
    }

    fn rows(
        results: &RunResults,
        order: Order,
        live: bool,
        folds: &mut HashMap<String, bool>,
    ) -> Vec<TaskRow> {
        tree(results, Look { order, slowest: false }, live, folds).rows
    }

    fn keys(order: Order) -> String {
        let rows = rows(&results(), order, false, &mut HashMap::new());
        let name = |r: &TaskRow| match &r.kind {
            RowKind::Group { label, .. } => format!("[{label}]"),
            RowKind::Task { name, .. } => name.clone(),
        };
        rows.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tasks_stand_under_their_roles() {
        assert_eq!(keys(Order::Ran), "[base] a b [zfs] c d [tasks of the play] e");
        assert_eq!(keys(Order::FailedFirst), "[zfs] d c [base] a b [tasks of the play] e");
        assert_eq!(keys(Order::OnlyFailed), "[zfs] d");
        assert_eq!(keys(Order::OnlyChanged), "[base] b");
        let mut order = Order::Ran;
        for _ in 0..4 {
            order = order.next();
        }
        assert_eq!(order, Order::Ran, "the key goes round");
    }

    #[test]
    fn what_is_left_out_is_counted_and_the_slowest_come_first() {
        let mut results = results();
        for (task, ms) in results.results.iter_mut().zip([3, 9, 1, 7, 5]) {
            task.duration_ms = ms;
        }
        results.results[4].host = "other.org".into();
        let look = |order, slowest| tree(&results, Look { order, slowest }, false, &mut HashMap::new());
        let all = look(Order::Ran, true);
        let names = all.rows.iter().map(|r| match &r.kind {
            RowKind::Task { name, host, .. } => (name.as_str(), host.as_deref().unwrap_or("").len()),
            RowKind::Group { .. } => panic!("a list has no groups"),
        });
        let long = "nas-1.lan.example.org".len();
        assert_eq!(
            names.collect::<Vec<_>>(),
            [("base : b", long), ("zfs : d", long), ("e", 9), ("base : a", long), ("zfs : c", long)]
        );
        assert_eq!((all.hidden, all.host_width), (0, long));
        assert_eq!((look(Order::OnlyFailed, true).hidden, look(Order::OnlyChanged, false).hidden), (4, 4));
        results.results.pop();
        let one = tree(&results, Look::default(), false, &mut HashMap::new());
        assert!(
            one.host_width == 0
                && one.rows.iter().all(|r| !matches!(&r.kind, RowKind::Task { host: Some(_), .. }))
        );
    }

    /// S19.
    #[test]
    fn unreachable_rescued_and_ignored_are_rolled_up_apart() {
        use crate::config::SymbolSet;
        let worst = |list: &[S]| {
            let results = list.iter().zip(1..).map(|(s, id)| sample::result(id, "r", "t", *s)).collect();
            let results = RunResults { results, ..RunResults::default() };
            rows(&results, Order::Ran, false, &mut HashMap::new())[0].status
        };
        assert_eq!(worst(&[S::Ok, S::Unreachable, S::Rescued]), S::Unreachable);
        assert_eq!(worst(&[S::Unreachable, S::Failed]), S::Failed);
        assert_eq!(worst(&[S::Ignored, S::Rescued, S::Changed]), S::Rescued);
        assert_eq!((worst(&[S::Changed, S::Ignored]), worst(&[S::Skipped, S::Ok])), (S::Ignored, S::Ok));
        let all = [S::Failed, S::Unreachable, S::Rescued, S::Ignored, S::Changed, S::Ok, S::Skipped];
        for set in [SymbolSet::Unicode, SymbolSet::Ascii] {
            let symbols: std::collections::BTreeSet<_> = all.iter().map(|s| set.status(*s)).collect();
            assert_eq!(symbols.len(), all.len(), "each has a symbol of its own");
        }
    }

    #[test]
    fn the_worst_state_is_rolled_up() {
        let rows = rows(&results(), Order::Ran, false, &mut HashMap::new());
        let of = |label: &str| {
            rows.iter().find(|r| matches!(&r.kind, RowKind::Group { label: l, .. } if l == label))
        };
        assert_eq!(of("zfs").map(|r| (r.status, r.duration_ms)), Some((S::Failed, 1600)));
        assert_eq!(of("base").map(|r| r.status), Some(S::Changed));
    }

    #[test]
    fn groups_stay_open_or_closed_as_they_were() {
        let mut folds = HashMap::from([("p1/Provision/base".to_owned(), false)]);
        let rows = rows(&results(), Order::Ran, true, &mut folds);
        assert_eq!(rows.iter().filter(|r| matches!(r.kind, RowKind::Task { .. })).count(), 3);
        assert_eq!(folds.len(), 3);
    }

    #[test]
    fn earlier_attempts_are_closed() {
        let mut both = results();
        let mut second = results();
        for task in &mut second.results {
            task.playbook = 2;
            task.id += 10;
        }
        both.results.extend(second.results);
        let playbook = |id| crate::domain::results::Playbook {
            id,
            status: crate::domain::results::PlaybookStatus::Failed,
            started: None,
            ended: None,
            labels: Vec::new(),
            path: String::new(),
        };
        both.playbooks = vec![playbook(1), playbook(2)];
        let rows = rows(&both, Order::Ran, false, &mut HashMap::new());
        assert!(matches!(&rows[0].kind, RowKind::Group { label, open: false, .. } if label == "attempt 1"));
        assert!(matches!(&rows[1].kind, RowKind::Group { label, open: true, .. } if label == "attempt 2"));
        assert!(matches!(&rows[2], TaskRow { depth: 1, .. }));
    }
}
