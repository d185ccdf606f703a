//! The secrets: listed again and again while their screen is shown, and everything that is done with them.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::outside::Outside;
use crate::app::secrets::{self, SecretDeed, SecretRef, SecretsDone};
use crate::app::{Answer, EffectId, Msg};
use crate::config::Secret;
use crate::domain::aws::AwsErrorKind;
use crate::domain::secret::{SecretListing, Values, shown};
use crate::domain::{BackEnd, Health, Problem, ProblemKind};
use crate::ops::OpError;
use crate::ops::environment::named;
use crate::ops::secrets::{Depth, Grant, Granted, Moved, Outcome, Picked, Secrets, Sides, Transfer};

/// How often everything is listed at first, and at most how seldom while nothing changes.
const OFTEN: Duration = Duration::from_secs(10);
const SELDOM: Duration = Duration::from_secs(60);
/// How often a transfer says how far it is.
const PROGRESS: Duration = Duration::from_millis(100);

type Done = Result<Answer, Problem>;

impl Outside {
    /// The secrets of the environment: opened once, and again after AWS has refused us.
    pub(super) async fn secrets(&self) -> Result<Secrets, Problem> {
        let mut opened = self.secrets.lock().await;
        if let Some(secrets) = &*opened {
            return Ok(secrets.clone());
        }
        let subject = BackEnd::Bucket.word();
        let named = named(&self.config, Some(&self.settings.environment.name));
        let named = named.map_err(|error| OpError::from(error).problem(subject))?;
        let code = self.code.lock().await.take();
        let secrets = Secrets::open(&self.config, &named, code.as_ref()).await;
        let secrets = secrets.map_err(|error| told(&error, subject))?;
        *opened = Some(secrets.clone());
        Ok(secrets)
    }

    /// What to tell of an error; credentials that are not taken any more are found anew the next time.
    async fn failed(&self, error: OpError, subject: &str) -> Problem {
        let problem = told(&error, subject);
        if problem.kind == ProblemKind::NotAuthenticated {
            *self.secrets.lock().await = None;
        }
        problem
    }
}

/// As the console shows it: a code is given here.
fn told(error: &OpError, subject: &str) -> Problem {
    let problem = error.problem(subject);
    match error {
        OpError::Aws(aws) if matches!(aws.kind, AwsErrorKind::NeedsCode(_)) => problem.advise(""),
        _ => problem,
    }
}

/// The same with a code of an MFA device for the credentials.
pub(crate) async fn look_with(outside: Outside, code: Secret, tell: mpsc::Sender<Msg>) {
    *outside.code.lock().await = Some(code);
    *outside.secrets.lock().await = None;
    look(outside, tell).await;
}

/// Lists the secrets now and from time to time, until nobody listens or it is aborted.
pub(crate) async fn look(outside: Outside, tell: mpsc::Sender<Msg>) {
    let mut delay = OFTEN;
    let mut before = None;
    let first = outside.secrets.lock().await.is_none();
    // What a listing alone says is there at once; what is asked of each object follows.
    if first
        && let Ok(listing) = list(&outside, Depth::Listing).await
        && !say(&tell, Ok(listing), None).await
    {
        return;
    }
    loop {
        let result = list(&outside, Depth::Details).await;
        let same = before.as_ref() == Some(&result);
        delay = if same { (delay * 2).min(SELDOM) } else { OFTEN };
        before = Some(result.clone());
        let retry = Timestamp::now().checked_add(delay).ok();
        if !say(&tell, result, retry).await {
            return;
        }
        tokio::time::sleep(delay).await;
    }
}

async fn list(outside: &Outside, depth: Depth) -> Result<SecretListing, Problem> {
    let secrets = outside.secrets().await?;
    match secrets.look(depth).await {
        Ok(listing) => Ok(listing),
        Err(error) => Err(outside.failed(error, BackEnd::Bucket.word()).await),
    }
}

/// Tells what was listed and how the bucket fares. Returns whether anybody listens.
async fn say(
    tell: &mpsc::Sender<Msg>,
    result: Result<SecretListing, Problem>,
    retry: Option<Timestamp>,
) -> bool {
    let (health, result) = match result {
        Ok(listing) => (Health::Up, Ok(Box::new(listing))),
        Err(mut problem) => {
            problem.retry_at = retry;
            // What is wrong with the files of the environment is no trouble of the bucket.
            let outside = !matches!(problem.kind, ProblemKind::Invalid | ProblemKind::Refused);
            let down = Health::Down { since: Timestamp::now(), problem: problem.clone() };
            (if outside { down } else { Health::Unused }, Err(problem))
        }
    };
    tell.send(Msg::Health(BackEnd::Bucket, health)).await.is_ok()
        && tell.send(Msg::Secrets(result)).await.is_ok()
}

/// Does something with secrets; an edit is the loop's.
pub(super) async fn carry_out(
    outside: &Outside,
    id: EffectId,
    deed: SecretDeed,
    cancel: &CancellationToken,
    tell: mpsc::Sender<Msg>,
) -> Done {
    let subject = subject(&deed);
    let secrets = outside.secrets().await?;
    let told = Mutex::new(Instant::now());
    let progress = |transfer: Transfer| {
        let due = told.lock().is_ok_and(|mut last| {
            let due = last.elapsed() >= PROGRESS;
            if due {
                *last = Instant::now();
            }
            due
        });
        if due {
            // Where there is no room now the next one says more.
            tell.try_send(Msg::Transfer { id, transfer: shown_transfer(transfer) }).ok();
        }
    };
    let done = match deed {
        SecretDeed::Fetch { secrets: picked, over } => {
            let picked = all(picked);
            secrets.fetch(|_| true, Some(&picked), (over, over), &progress, cancel).await.map(moved)
        }
        SecretDeed::Upload { secrets: picked, over } => {
            let picked = all(picked);
            secrets.upload(|_| true, Some(&picked), over, &progress, cancel).await.map(moved)
        }
        SecretDeed::Remove(picked) => secrets.remove(&all(picked), &progress, cancel).await.map(moved),
        SecretDeed::Restore { key, version } => secrets
            .restore(&key, &version)
            .await
            .map(|()| Answer::Done(format!("{}: that version is the newest now", shown(&key)))),
        SecretDeed::History(key) => secrets.history(&key).await.map(Answer::Versions),
        SecretDeed::Compare { key, sides, values } => {
            let sides = match sides {
                secrets::Sides::Here => Sides::Here,
                secrets::Sides::Version(id) => Sides::Version(id),
            };
            let values = if values { Values::Shown } else { Values::Hidden };
            secrets.compare(&key, &sides, values).await.map(|compared| Answer::Compared(Box::new(compared)))
        }
        SecretDeed::Names(key) => secrets.names().await.map(|names| Answer::Names(key, names)),
        SecretDeed::GrantToken(key, new) => granted(secrets.grant(Some(&key), &Grant::Token(new)).await),
        SecretDeed::GrantRule(key, new) => granted(secrets.grant(Some(&key), &Grant::Rule(new)).await),
        SecretDeed::Nodes => secrets.nodes().await.map(Answer::Nodes),
        SecretDeed::Edit(_) => Err(OpError::Refused("an edit needs the terminal".to_owned())),
    };
    match done {
        Ok(answer) => Ok(answer),
        Err(error) => Err(outside.failed(error, &subject).await),
    }
}

/// A new token is shown once, to be copied.
fn granted(granted: Result<Granted, OpError>) -> Result<Answer, OpError> {
    let Granted { key, token, local } = granted?;
    if let Some(why) = local {
        tracing::warn!(why, "the local copy is not the same");
    }
    Ok(match token {
        Some(token) => {
            Answer::Text { title: format!("New token in {}", shown(&key)), text: token.reveal().to_owned() }
        }
        None => Answer::Done(format!("the rule was added to {}", shown(&key))),
    })
}

fn subject(deed: &SecretDeed) -> String {
    match deed {
        SecretDeed::Fetch { secrets, .. }
        | SecretDeed::Upload { secrets, .. }
        | SecretDeed::Remove(secrets) => match secrets.as_slice() {
            [one] => shown(&one.key),
            _ => "secrets".to_owned(),
        },
        SecretDeed::Edit(secret) => shown(&secret.key),
        SecretDeed::Restore { key, .. }
        | SecretDeed::History(key)
        | SecretDeed::Compare { key, .. }
        | SecretDeed::Names(key)
        | SecretDeed::GrantToken(key, _)
        | SecretDeed::GrantRule(key, _) => shown(key),
        SecretDeed::Nodes => "the nodes".to_owned(),
    }
}

fn all(secrets: Vec<SecretRef>) -> Vec<Picked> {
    secrets.into_iter().map(|secret| Picked { key: secret.key, etag: secret.etag }).collect()
}

fn shown_transfer(transfer: Transfer) -> secrets::Transfer {
    let Transfer { files, of_files, bytes, of_bytes } = transfer;
    secrets::Transfer { files, of_files, bytes, of_bytes }
}

/// What came of each. What was asked for and left as it is was not done.
fn moved(moved: Moved) -> Answer {
    let one = |(key, outcome): (String, Result<Outcome, Problem>)| {
        let outcome = match outcome {
            Ok(Outcome::Left(why)) => {
                let text = format!("{} was left as it is: {why}", shown(&key));
                Err(Problem::new(shown(&key), ProblemKind::Refused, text))
            }
            Ok(done) => Ok(done.words().to_owned()),
            Err(problem) => Err(problem),
        };
        (key, outcome)
    };
    let skipped = moved.skipped.into_iter().map(|(key, why)| {
        let text = format!("{} is left out: {why}", shown(&key));
        let problem = Problem::new(shown(&key), ProblemKind::Invalid, text);
        (key, Err(problem))
    });
    let outcomes = moved.outcomes.into_iter().map(one).chain(skipped).collect();
    Answer::Secrets(SecretsDone { outcomes, cancelled: moved.cancelled })
}
