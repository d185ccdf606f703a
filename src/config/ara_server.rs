//! The ARA that `deploy render` ships: `[environments.NAME.ara_server]`.

use std::time::Duration;

use super::reader::Reader;
use super::values;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The ARA server that is deployed beside the webhook server, with its database in a PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AraServer {
    /// The host name of the PostgreSQL server, as its certificate has it.
    pub database: String,
    /// Its port.
    pub port: u16,
    /// The database's name.
    pub name: String,
    /// The database user, who is the common name of ARA's client certificate.
    pub user: String,
    /// How long a playbook is kept; pruned by whole days.
    pub keep_for: Duration,
    /// The namespace of the ingress controller through which people and machines reach ARA.
    pub ingress: String,
}

impl AraServer {
    /// How many days a playbook is kept, a day begun counted as one.
    #[must_use]
    pub const fn keep_days(&self) -> u64 {
        self.keep_for.as_secs().div_ceil(DAY.as_secs())
    }
}

/// Reads the table.
pub(super) fn read(t: &mut Reader<'_>) -> AraServer {
    AraServer {
        database: t
            .required("database", "the host name of the PostgreSQL server", values::object_name)
            .unwrap_or_default(),
        port: t.default("port", 5432, |n| values::number(n, 1, 65_535)).unwrap_or_default(),
        name: t.default("name", "ara", values::database_name).unwrap_or_default(),
        user: t.default("user", "ara", values::database_name).unwrap_or_default(),
        keep_for: t.default("keep_for", "90d", |n| values::duration(n, DAY)).unwrap_or_default(),
        ingress: t.default("ingress", "ingress-nginx", values::namespace).unwrap_or_default(),
    }
}
