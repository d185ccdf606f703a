//! `tokens list|create|delete|join-command`.

use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;

use super::output::{Output, Table};
use super::{Context, Failure};
use crate::config::parse_duration;
use crate::domain::text::short_span;
use crate::domain::{NODE_GROUP, Token, TokenState};
use crate::ops;
use crate::ops::tokens::{Minted, NewToken};

/// A token that is good for less is of no use to anybody.
const LEAST: Duration = Duration::from_secs(60);

/// What is done with bootstrap tokens.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the tokens without their secret parts, malformed ones with the reason
    List,
    /// Create a token and print it, once
    Create(Create),
    /// Delete tokens
    Delete {
        /// Their ids, the part before the dot
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Print the command that a new node joins with; it holds the token
    JoinCommand {
        /// The id of a token that is there; without it one is created
        id: Option<String>,
        /// What is created without an id
        #[command(flatten)]
        create: Create,
    },
}

/// A token to create.
#[derive(Debug, Args)]
pub struct Create {
    /// How long it is good, such as 30m, 1h or 2d
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = lifetime)]
    ttl: Duration,
    /// A group that it gives, system:bootstrappers:…; may be repeated; without it that of new nodes
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// What it is for
    #[arg(long, default_value = "")]
    description: String,
}

fn lifetime(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Some(time) if time >= LEAST => Ok(time),
        Some(_) => Err("a token needs at least a minute".to_owned()),
        None => Err("write a number and a unit, such as 30m, 1h or 2d".to_owned()),
    }
}

/// A token that was made, as JSON and YAML have it.
#[derive(Serialize)]
struct Made<'a> {
    id: &'a str,
    token: String,
    expires: Timestamp,
}

pub(super) async fn run(context: &Context<'_>, command: Command) -> Result<(), Failure> {
    match command {
        Command::List => list(context).await,
        Command::Create(args) => {
            let minted = mint(context, args).await?;
            if context.output == Output::Table {
                return Ok(super::say(&minted.token.reveal())?);
            }
            let made = Made { id: minted.token.id(), token: minted.token.reveal(), expires: minted.expires };
            Ok(context.output.print(&made, |_| Table::pairs())?)
        }
        Command::Delete { ids } => delete(context, &ids).await,
        Command::JoinCommand { id, create } => {
            let token = match id {
                Some(id) => ops::tokens::reveal(&context.kube, &id).await?,
                // Where nobody can join it is no use to mint a token.
                None => {
                    ops::cluster::join(&context.kube).await?;
                    mint(context, create).await?.token
                }
            };
            Ok(super::say(&ops::tokens::join_command(&context.kube, &token).await?)?)
        }
    }
}

async fn mint(context: &Context<'_>, args: Create) -> Result<Minted, Failure> {
    let (permit, by) = (context.permit()?, context.operator().await?);
    let description = args.description.chars().map(crate::domain::text::visible).collect();
    let mut new = NewToken::for_node(args.ttl, description, context.settings.provision.signer);
    if !args.groups.is_empty() {
        new.groups = args.groups;
    }
    let minted = Box::pin(ops::tokens::mint(&context.kube, &permit, &new, &by)).await?;
    if let Some(warning) = ops::tokens::clock_warning(&context.kube).await {
        super::fail(&warning);
    }
    Ok(minted)
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let tokens = ops::tokens::list(&context.kube).await?;
    let now = Timestamp::now();
    context.output.print(&tokens, |tokens| {
        let mut table = Table::new(&["ID", "STATE", "EXPIRES", "USAGES", "GROUPS", "DESCRIPTION"]);
        for token in tokens {
            table.row([
                token.id.clone(),
                state(token, now),
                token.expires.map(|at| at.to_string()).unwrap_or_default(),
                token.usages.join(" "),
                groups(token),
                token.description.clone(),
            ]);
        }
        table
    })?;
    if let Some(warning) = ops::tokens::clock_warning(&context.kube).await {
        super::fail(&warning);
    }
    Ok(())
}

fn state(token: &Token, now: Timestamp) -> String {
    match token.state(now) {
        TokenState::Valid(seconds) => format!("{} left", short_span(seconds)),
        TokenState::Forever => "never expires".to_owned(),
        TokenState::Expired => "expired".to_owned(),
        TokenState::Malformed => format!("malformed: {}", token.malformed.join("; ")),
    }
}

fn groups(token: &Token) -> String {
    if token.groups.as_slice() == [NODE_GROUP] { "new nodes".to_owned() } else { token.groups.join(" ") }
}

async fn delete(context: &Context<'_>, ids: &[String]) -> Result<(), Failure> {
    let (permit, by) = (context.permit()?, context.operator().await?);
    let tokens = ops::tokens::list(&context.kube).await?;
    let mut code = None;
    for id in ids {
        // Whoever types the whole token means its id, and it is not said again.
        let id = id.split_once('.').map_or(id.as_str(), |(id, _)| id);
        let deleted = match tokens.iter().find(|token| token.id == id || token.name == id) {
            Some(token) => ops::tokens::delete(&context.kube, &permit, token, &by).await,
            None => Err(ops::OpError::NotFound(format!("token {id}"))),
        };
        match deleted {
            Ok(()) => super::say(&format!("token {id} deleted"))?,
            Err(error) => {
                let failure = Failure::from(error);
                super::fail(&failure.text);
                code = code.or(Some(failure.code));
            }
        }
    }
    code.map_or(Ok(()), |code| Err(Failure::said(code)))
}
