//! Bring-up: from an environment's variables to uploaded secrets and pushed manifests.

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::batch;
use super::certificates::{self, Ending};
use crate::backend::s3::Bucket;
use crate::config::{Config, Permit, ReadOnly, Secret};
use crate::domain::aws::AwsErrorKind;
use crate::domain::manifest::State as ManifestState;
use crate::domain::platform::{SSH_KEY, SSH_PUBLIC, Step};
use crate::domain::secret::{FileState, SecretRow};
use crate::domain::{Problem, ProblemKind};
use crate::ops::OpError;
use crate::ops::aws::{self, Cloud, connect};
use crate::ops::environment::{self, Named, State};
use crate::ops::manifests::{self, ManifestBucket};
use crate::ops::secrets::{Depth, Moved, Outcome, Secrets, permit};

/// What of an environment need not be right before the platform is there.
const LATER: [&str; 6] =
    ["secrets bucket", "terraform bucket", "configuration", "kubernetes", "policy", "guarded"];

/// What a step did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Which.
    pub step: Step,
    /// What was made or changed, or would be.
    pub changed: Vec<String>,
    /// How much is as it should be.
    pub same: usize,
    /// What the operator should know.
    pub notes: Vec<String>,
}

impl Report {
    pub(super) fn new(step: Step) -> Self {
        Self { step, changed: Vec::new(), same: 0, notes: Vec::new() }
    }
}

/// An environment that is being brought up.
#[derive(Debug)]
pub struct Bringing<'a> {
    config: &'a Config,
    named: Named,
    cloud: Cloud,
    secrets: Secrets,
    permit: Result<Permit, ReadOnly>,
}

impl<'a> Bringing<'a> {
    /// Connects; nothing is done yet.
    ///
    /// # Errors
    /// As [`connect`].
    pub async fn open(config: &'a Config, named: Named, code: Option<&Secret>) -> Result<Self, OpError> {
        let cloud = connect(config, &named, code).await?;
        let secrets = Secrets::of(config, &named, cloud.clone());
        let permit = permit(config, &named);
        Ok(Self { config, named, cloud, secrets, permit })
    }

    /// Takes a step; `dry`: only says what it would do.
    ///
    /// # Errors
    /// When it cannot be taken to its end. What it did until then stays, and the next try goes on from there.
    pub async fn take(&self, step: Step, dry: bool, cancel: &CancellationToken) -> Result<Report, OpError> {
        if !dry {
            self.permit?;
        }
        let variables = &self.cloud.file.variables;
        match step {
            Step::Check => self.check().await,
            Step::Buckets => self.buckets(dry).await,
            Step::Fetch => self.fetch(dry, cancel).await,
            Step::KeyPair if dry => batch::missing(&self.secrets, step, &[SSH_KEY, SSH_PUBLIC]).await,
            Step::KeyPair => certificates::key_pair(&self.secrets, &self.named.name).await,
            Step::Certificates if dry => {
                let keys = certificates::keys(variables);
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                batch::missing(&self.secrets, step, &keys).await
            }
            Step::Certificates => certificates::make(&self.secrets, variables).await,
            Step::Upload => self.upload(dry, cancel).await,
            Step::Manifests => self.manifests(dry).await,
        }
    }

    /// The certificates with their ends, as they are here.
    ///
    /// # Errors
    /// When the local copy cannot be read.
    pub async fn certificates(&self) -> Result<Vec<Ending>, OpError> {
        certificates::endings(&self.secrets, &self.cloud.file.variables).await
    }

    /// Makes certificates anew in the local copy: the named ones, or all that need it. Upload them then.
    ///
    /// # Errors
    /// When one is not known, or the CA's key is not here.
    pub async fn renew(&self, named: &[String], dry: bool) -> Result<Report, OpError> {
        if !dry {
            self.permit?;
        }
        certificates::renew(&self.secrets, &self.cloud.file.variables, named, dry).await
    }

    async fn check(&self) -> Result<Report, OpError> {
        let (mut findings, _) = environment::check(self.config, &self.named)?;
        findings.extend(aws::check(self.config, &self.named, &self.cloud.file, None).await?);
        // The buckets are the next step's, and the cluster is what all this leads to.
        findings.retain(|finding| !LATER.contains(&finding.check));
        let mut report = Report::new(Step::Check);
        let mut wrong = Vec::new();
        for finding in findings {
            let line = format!("{}: {}", finding.check, finding.text);
            match finding.state {
                State::Ok => report.same += 1,
                State::Warning => report.notes.push(line),
                State::Wrong => wrong.push(line),
            }
        }
        if wrong.is_empty() { Ok(report) } else { Err(OpError::Invalid(wrong.join("; "))) }
    }

    async fn buckets(&self, dry: bool) -> Result<Report, OpError> {
        let variables = &self.cloud.file.variables;
        let mut report = Report::new(Step::Buckets);
        for name in [&variables.secrets_bucket_name, &variables.terraform_bucket_name] {
            let bucket = self.bucket(name);
            match bucket.settings().await {
                Ok(settings) => {
                    report.same += 1;
                    let key = self.cloud.aws.kms_key(&variables.kms_master_id).await?.arn;
                    let warnings = settings.warnings(&key).into_iter().flatten();
                    report.notes.extend(warnings.map(|text| format!("{name}: {text}")));
                }
                Err(error) if error.kind == AwsErrorKind::NoBucket => {
                    if !dry {
                        bucket.create(&self.permit?, self.cloud.aws.region().0).await?;
                    }
                    report.changed.push(name.clone());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(report)
    }

    fn bucket(&self, name: &str) -> Bucket {
        let key = &self.cloud.file.variables.kms_master_id;
        Bucket::new(self.cloud.aws.sdk(), self.cloud.settings.path_style, name, key)
    }

    async fn fetch(&self, dry: bool, cancel: &CancellationToken) -> Result<Report, OpError> {
        if dry {
            return self.would(Step::Fetch, |state| state.fetch_is_safe()).await;
        }
        let moved = self.secrets.fetch(is_secret, None, (false, false), &|_| {}, cancel).await?;
        told(Step::Fetch, moved)
    }

    async fn upload(&self, dry: bool, cancel: &CancellationToken) -> Result<Report, OpError> {
        if dry {
            return self.would(Step::Upload, |state| state.upload_is_safe()).await;
        }
        let moved = self.secrets.upload(is_secret, None, false, &|_| {}, cancel).await?;
        told(Step::Upload, moved)
    }

    /// What a transfer would do, from what is in the bucket and here.
    async fn would(&self, step: Step, moves: impl Fn(FileState) -> bool) -> Result<Report, OpError> {
        let mut report = Report::new(step);
        let listing = match self.secrets.look(Depth::Listing).await {
            // What the step before would have made.
            Err(OpError::Aws(error)) if error.kind == AwsErrorKind::NoBucket => return Ok(report),
            other => other?,
        };
        let (moved, rest): (Vec<SecretRow>, Vec<_>) =
            listing.rows.into_iter().filter(|row| is_secret(&row.key)).partition(|row| moves(row.state));
        report.changed = moved.into_iter().map(|row| row.key).collect();
        report.same = rest.iter().filter(|row| row.state == FileState::Same).count();
        let apart = rest.into_iter().filter(|row| row.state.is_conflict());
        report.notes = apart.map(|row| format!("{} was changed here and in the bucket", row.key)).collect();
        Ok(report)
    }

    async fn manifests(&self, dry: bool) -> Result<Report, OpError> {
        let wrong = |error: manifests::ManifestsError| OpError::Invalid(error.to_string());
        let files =
            manifests::render(&self.named.manifests(self.config), &self.cloud.file, &[]).map_err(wrong)?;
        let bucket = ManifestBucket::of(&self.cloud, self.config, &self.named);
        let compared = match bucket.compare(&files, &[]).await {
            Err(OpError::Aws(error)) if dry && error.kind == AwsErrorKind::NoBucket => Vec::new(),
            other => other?,
        };
        let mut report = Report::new(Step::Manifests);
        if dry {
            report.same = compared.iter().filter(|one| one.state == ManifestState::Same).count();
            let pushed = compared.iter().filter(|one| one.state.is_pushed());
            report.changed = pushed.map(|one| one.path.to_string()).collect();
            return Ok(report);
        }
        for pushed in bucket.push(compared, &files, &self.cloud.signature().await?).await? {
            match pushed.outcome? {
                true => report.changed.push(pushed.path.to_string()),
                false if pushed.state == ManifestState::Same => report.same += 1,
                false => report.notes.push(format!("{} is only in the bucket, and stays there", pushed.path)),
            }
        }
        Ok(report)
    }
}

/// The manifests have a step of their own, and are made from their templates.
fn is_secret(key: &str) -> bool {
    !key.starts_with("manifests/")
}

/// What came of a transfer: all of it well, or what was not.
fn told(step: Step, moved: Moved) -> Result<Report, OpError> {
    let mut report = Report::new(step);
    let mut problems: Vec<(String, Problem)> = Vec::new();
    for (key, outcome) in moved.outcomes {
        match outcome {
            Ok(Outcome::Same) => report.same += 1,
            Ok(Outcome::Left(why)) => report.notes.push(format!("{key}: {why}")),
            Ok(_) => report.changed.push(key),
            Err(problem) => problems.push((key, problem)),
        }
    }
    report.notes.extend(moved.skipped.into_iter().map(|(key, why)| format!("{key} is left out: {why}")));
    if moved.cancelled {
        return Err(OpError::Refused("cancelled".to_owned()));
    }
    let Some((_, first)) = problems.first() else { return Ok(report) };
    let text = match problems.len() {
        1 => first.text.clone(),
        many => format!("{}; and {} more", first.text, many - 1),
    };
    // Somebody has to decide, or the next try may do better.
    let decide = problems.iter().any(|(_, problem)| problem.kind == ProblemKind::Conflict);
    Err(if decide { OpError::Apart(text) } else { OpError::Missing(text) })
}
