//! What is kept, counted and removed.

use super::*;
use crate::app::sample::{self, now};

fn store() -> Store {
    let mut store = Store::default();
    store.reset();
    store.batch(vec![sample::run("a.org", Phase::Pending), sample::run("b.org", Phase::Ready)]);
    store.listed(now());
    store
}

#[test]
fn a_relist_removes_what_it_does_not_bring() {
    let mut store = store();
    let old = store.run(&sample::uid("a.org", 1)).cloned();
    store.reset();
    assert_eq!(store.run_count(), 2, "rows stay while a list is under way");
    store.batch(vec![sample::run("b.org", Phase::Ready), sample::run("c.org", Phase::Ready)]);
    store.listed(now());
    assert!(old.is_some() && store.run(&sample::uid("a.org", 1)).is_none() && store.head("a.org").is_none());
    assert_eq!((store.host_count(), store.in_phase(Phase::Ready), store.in_phase(Phase::Pending)), (2, 2, 0));
}

#[test]
fn the_newest_provisioning_run_stands_for_its_host() {
    let mut store = store();
    let mut second = sample::run("a.org", Phase::Failed);
    second.uid = sample::uid("a.org", 2);
    second.number = 2;
    second.created = now();
    let mut check = sample::run("a.org", Phase::Ready);
    (check.uid, check.kind, check.created) = ("check".to_owned(), Kind::Check, now());
    store.batch(vec![check, second]);
    assert_eq!(store.head("a.org").map(|r| r.number), Some(2));
    assert_eq!(store.runs_of("a.org").count(), 3);
    assert_eq!((store.in_phase(Phase::Failed), store.in_phase(Phase::Pending)), (1, 0));
    store.remove(vec![sample::uid("a.org", 2)]);
    assert_eq!((store.in_phase(Phase::Failed), store.in_phase(Phase::Pending)), (0, 1));
}
