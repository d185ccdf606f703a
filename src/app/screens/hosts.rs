//! The table of hosts: a host is shown by its newest run that provisions it.

use std::sync::Arc;

use crate::app::store::Store;
use crate::app::table::{SortKey, Source, Table};
use crate::domain::Run;

/// The columns that the table can be sorted by, in the order of the key.
pub const COLUMNS: [&str; 6] = ["phase", "host", "groups", "address", "age", "seen"];

/// The screen.
#[derive(Debug)]
pub struct HostsScreen {
    /// The rows, by host name.
    pub table: Table,
    /// The details stand beside the table where there is room.
    pub details: bool,
}

impl Default for HostsScreen {
    fn default() -> Self {
        Self { table: Table::new(0), details: true }
    }
}

/// The hosts as rows.
pub struct Hosts<'a>(pub &'a Store);

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

    fn sort_key<'r>(&self, run: &'r Run, column: usize) -> SortKey<'r> {
        match COLUMNS.get(column) {
            Some(&"host") => SortKey::Text(run.host.as_str().into()),
            Some(&"groups") => SortKey::Text(match run.groups.as_slice() {
                [group] => group.into(),
                groups => groups.join(" ").into(),
            }),
            Some(&"address") => address_key(run),
            Some(&"seen") => SortKey::Number(-run.seen.as_second()),
            // The youngest first, within each phase too.
            _ => SortKey::Number(-run.created.as_second()),
        }
    }

    fn group(&self, run: &Run, column: usize) -> u8 {
        if column == 0 { run.phase as u8 } else { 0 }
    }
}

/// Addresses sort by their numbers, not by their letters; those of IPv6, which have no room in a number, behind those of IPv4.
fn address_key(run: &Run) -> SortKey<'static> {
    match run.address {
        Some(std::net::IpAddr::V4(v4)) => SortKey::Number(v4.to_bits().into()),
        Some(std::net::IpAddr::V6(v6)) => SortKey::Text(format!("{:032x}", v6.to_bits()).into()),
        None => SortKey::Text("~".into()),
    }
}
