//! `secrets grant-token` and `grant-rule`.

use serde_json::json;

use crate::cli::output::Table;
use crate::cli::{Failure, Output, fail};
use crate::domain::secret::shown;
use crate::ops::secrets::{Grant, Secrets};

pub(super) async fn run(
    secrets: &Secrets,
    key: Option<&str>,
    grant: &Grant,
    output: Output,
) -> Result<(), Failure> {
    let granted = secrets.grant(key, grant).await?;
    if let Some(why) = &granted.local {
        fail(&format!("warning: {why}"));
    }
    // Asked for, and the only time that it is told.
    let token = granted.token.as_ref().map(|token| token.reveal());
    output.print(&json!({"key": granted.key, "token": token}), |_| {
        let mut table = Table::pairs();
        match token {
            Some(token) => table.row([token.to_owned()]),
            None => table.row([format!("added to {}", shown(&granted.key))]),
        }
        table
    })?;
    Ok(())
}
