use proptest::prelude::*;

use super::*;
use crate::domain::secret::Encryption;

fn row(key: &str, state: FileState, size: u64) -> SecretRow {
    SecretRow {
        key: key.to_owned(),
        state,
        size,
        modified: None,
        etag: None,
        encryption: Encryption::Ours,
        versions: None,
        expires: None,
        problem: None,
    }
}

fn rows() -> Vec<SecretRow> {
    use FileState::{Both, ChangedHere, OnlyThere, Same};
    vec![
        row("zoo/x", Same, 1),
        row("secure/auth/tokens.csv", ChangedHere, 5),
        row("secure/auth/abac.jsonl", Both, 2),
        row("secure/ca.crt", Same, 9),
        row("common/a", OnlyThere, 3),
        row("top", Same, 1),
    ]
}

fn shown(tree: &[TreeRow], rows: &[SecretRow]) -> Vec<String> {
    let of = |row: &TreeRow| match &row.kind {
        NodeKind::Folder { name, open, .. } => {
            format!("{}{name}/{}", row.depth, if *open { "" } else { " closed" })
        }
        NodeKind::File(at) => {
            let key = &rows[*at].key;
            format!("{}{}", row.depth, key.rsplit('/').next().unwrap())
        }
    };
    tree.iter().map(of).collect()
}

fn look(order: Order, descending: bool) -> Vec<String> {
    let (rows, look) = (rows(), Look { order, descending, all_open: false });
    shown(&tree(&rows, |_| true, look, &mut HashMap::new(), &HashMap::new()), &rows)
}

#[test]
fn folders_come_first_and_the_parts_of_the_bucket_in_their_order() {
    let by_name = [
        "0common/",
        "1a",
        "0secure/",
        "1auth/",
        "2abac.jsonl",
        "2tokens.csv",
        "1ca.crt",
        "0zoo/",
        "1x",
        "0top",
    ];
    assert_eq!(look(Order::Name, false), by_name);
    assert_eq!(look(Order::State, false)[..3], ["0secure/", "1auth/", "2abac.jsonl"]);
    assert_eq!(look(Order::Size, false)[..4], ["0secure/", "1auth/", "2tokens.csv", "2abac.jsonl"]);
    assert_eq!(look(Order::Name, true)[..2], ["0zoo/", "1x"]);
    assert_eq!(Order::ALL.len(), Order::COLUMNS.len());
}

#[test]
fn what_is_in_a_folder_is_rolled_up() {
    let mut rows = rows();
    rows[2].expires = Some(Timestamp::UNIX_EPOCH);
    rows[3].encryption = Encryption::NotKms(None);
    let tree = tree(&rows, |_| true, Look::default(), &mut HashMap::new(), &HashMap::new());
    let NodeKind::Folder { rollup, .. } = &tree[2].kind else { panic!("{tree:?}") };
    assert_eq!((rollup.files, rollup.size, rollup.wrong), (3, 16, 1));
    assert_eq!(rollup.expires, Some(Timestamp::UNIX_EPOCH));
    assert_eq!(rollup.worst(), FileState::Both);
    let states: Vec<_> = rollup.by_urgency().collect();
    assert_eq!(states, [(FileState::Both, 1), (FileState::ChangedHere, 1), (FileState::Same, 1)]);
}

#[test]
fn folds_stay_as_they_were_and_a_search_opens_them_for_a_while() {
    let rows = rows();
    let mut folds = HashMap::from([(folder_id("secure/"), false)]);
    let closed = tree(&rows, |_| true, Look::default(), &mut folds, &HashMap::new());
    assert_eq!(shown(&closed, &rows)[..4], ["0common/", "1a", "0secure/ closed", "0zoo/"]);
    let found = |at: usize| rows[at].key.contains("tokens");
    let look = Look { all_open: true, ..Look::default() };
    let searched = tree(&rows, found, look, &mut folds, &HashMap::new());
    assert_eq!(shown(&searched, &rows), ["0secure/", "1auth/", "2tokens.csv"]);
    assert!(!folds[&folder_id("secure/")]);
    let many: Vec<SecretRow> =
        (0..=ALL_OPEN).map(|n| row(&format!("common/{n}"), FileState::Same, 1)).collect();
    let many = tree(&many, |_| true, Look::default(), &mut HashMap::new(), &HashMap::new());
    assert_eq!(many.len(), 1, "many files are folded away at first");
}

#[test]
fn what_is_new_joins_the_end_of_its_folder() {
    let mut rows = rows();
    let look = Look { order: Order::State, ..Look::default() };
    let first = tree(&rows, |_| true, look, &mut HashMap::new(), &HashMap::new());
    let places: HashMap<String, usize> =
        first.iter().enumerate().map(|(at, row)| (row.id.clone(), at)).collect();
    rows.push(row("secure/auth/aaa", FileState::Both, 1));
    rows[2].state = FileState::Same;
    let then = tree(&rows, |_| true, look, &mut HashMap::new(), &places);
    assert_eq!(shown(&then, &rows)[..5], ["0secure/", "1auth/", "2abac.jsonl", "2tokens.csv", "2aaa"]);
}

#[test]
fn ids_say_what_they_stand_for_and_what_that_is_in() {
    assert_eq!(parent(&file_id("a/b/c")).as_deref(), Some("d:a/b/"));
    assert_eq!(parent(&folder_id("a/b/")).as_deref(), Some("d:a/"));
    assert_eq!((parent(&folder_id("a/")), parent(&file_id("a"))), (None, None));
    assert_eq!((key_of("f:a/"), folder_of("f:a/"), folder_of("d:a/")), (Some("a/"), None, Some("a/")));
}

proptest! {
    #[test]
    fn every_key_is_a_row_once_and_below_its_folder(
        keys in proptest::collection::btree_set("[ab/]{0,6}", 0..12), order in 0usize..5, descending: bool,
    ) {
        let rows: Vec<SecretRow> = keys.iter().map(|key| row(key, FileState::Same, key.len() as u64)).collect();
        let look = Look { order: Order::ALL[order], descending, all_open: true };
        let tree = tree(&rows, |_| true, look, &mut HashMap::new(), &HashMap::new());
        let ids: std::collections::HashSet<&str> = tree.iter().map(|row| row.id.as_str()).collect();
        prop_assert_eq!(ids.len(), tree.len(), "two rows of one id");
        let files = tree.iter().filter(|row| matches!(row.kind, NodeKind::File(_))).count();
        prop_assert_eq!(files, rows.len());
        for (at, row) in tree.iter().enumerate().filter(|(_, row)| row.depth > 0) {
            let above = tree[..at].iter().rev().find(|other| other.depth < row.depth).unwrap();
            prop_assert_eq!(above.depth + 1, row.depth);
            prop_assert_eq!(parent(&row.id), Some(above.id.clone()));
            prop_assert!(folder_of(&above.id).is_some_and(|path| row.id.get(2..).is_some_and(|id| id.starts_with(path))));
        }
    }
}
