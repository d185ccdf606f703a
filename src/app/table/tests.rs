//! Rows stay where they are; cursor, marks and filter with them.

use super::*;
use crate::app::filter::Scratch;
use crate::app::sample::{self, now};
use crate::app::store::Store;
use crate::domain::{Phase, Run};

struct Hosts<'a>(&'a Store);

impl Source for Hosts<'_> {
    type Row = Run;
    fn count(&self) -> usize {
        self.0.host_count()
    }
    fn rows(&self) -> impl Iterator<Item = (&Arc<str>, &Run)> {
        self.0.heads()
    }
    fn row(&self, key: &str) -> Option<&Run> {
        self.0.head(key)
    }
    fn sort_key<'r>(&self, run: &'r Run, _: usize) -> SortKey<'r> {
        SortKey::Text(run.host.as_str().into())
    }
    fn group(&self, run: &Run, _: usize) -> u8 {
        run.phase as u8
    }
}

fn arrange(table: &mut Table, store: &mut Store) {
    let touched = store.take_touched().hosts;
    let settled = store.ever_listed();
    let mut scratch = Scratch::default();
    table.arrange(&Hosts(store), touched.iter(), settled, now(), &mut scratch);
}

fn names(table: &Table) -> Vec<&str> {
    table.rows().iter().map(|r| r.key.split('.').next().unwrap()).collect()
}

fn filled() -> (Table, Store) {
    let mut store = Store::default();
    store.reset();
    store.batch(vec![
        sample::run("b.org", Phase::Pending),
        sample::run("d.org", Phase::Ready),
        sample::run("a.org", Phase::Ready),
    ]);
    store.listed(now());
    let mut table = Table::new(0);
    arrange(&mut table, &mut store);
    (table, store)
}

#[test]
fn new_rows_join_the_end_of_their_group_and_nothing_else_moves() {
    let (mut table, mut store) = filled();
    assert_eq!(names(&table), ["b", "a", "d"]);
    table.go(Move::Last);
    store.batch(vec![sample::run("c.org", Phase::Ready), sample::run("a2.org", Phase::Pending)]);
    arrange(&mut table, &mut store);
    assert_eq!(names(&table), ["b", "a2", "a", "d", "c"]);
    assert_eq!((table.cursor(), table.position()), (Some("d.org"), 3));
    store.batch(vec![sample::run("b.org", Phase::Running)]);
    arrange(&mut table, &mut store);
    assert_eq!(names(&table), ["b", "a2", "a", "d", "c"], "a row keeps its place when its phase changes");
    table.rearrange();
    arrange(&mut table, &mut store);
    assert_eq!(names(&table), ["a2", "b", "a", "c", "d"]);
}

#[test]
fn a_filter_hides_counts_and_can_be_taken_back() {
    let (mut table, mut store) = filled();
    table.go(Move::Last);
    table.start_filter();
    table.set_filter("phase:pending");
    arrange(&mut table, &mut store);
    assert_eq!((names(&table), table.hidden()), (vec!["b"], 2));
    assert_eq!(table.cursor(), Some("b.org"));
    table.end_filter(false);
    arrange(&mut table, &mut store);
    assert_eq!((names(&table).len(), table.hidden()), (3, 0));
}

#[test]
fn the_cursor_takes_the_row_that_took_its_objects_place() {
    let (mut table, mut store) = filled();
    table.go(Move::By(1));
    store.remove(vec![sample::uid("a.org", 1)]);
    arrange(&mut table, &mut store);
    assert_eq!((table.cursor(), table.position()), (Some("d.org"), 1));
}

#[test]
fn marks_can_be_inverted_and_go_with_their_rows() {
    let (mut table, mut store) = filled();
    table.toggle_mark();
    assert!(table.is_marked("b.org") && table.cursor() == Some("a.org"));
    table.invert_marks();
    assert_eq!(table.marks().len(), 2);
    store.remove(vec![sample::uid("a.org", 1)]);
    arrange(&mut table, &mut store);
    assert_eq!(table.marks().len(), 1);
}

#[test]
fn the_window_moves_by_half_a_page_past_the_edge() {
    assert_eq!(window(0, 9, 10, 100), 0);
    assert_eq!(window(0, 10, 10, 100), 6);
    assert_eq!(window(6, 5, 10, 100), 0);
    assert_eq!(window(50, 49, 10, 100), 44);
    assert_eq!(window(95, 99, 10, 100), 90);
    assert_eq!(window(0, 0, 10, 3), 0);
    assert_eq!(window(5, 7, 0, 10), 7);
}
