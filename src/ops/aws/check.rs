//! What is right and what is wrong with an environment's AWS, one line each.

use jiff::{SignedDuration, Timestamp};

use super::{Cloud, OpError, request};
use crate::backend::aws::Aws;
use crate::backend::s3::Bucket;
use crate::config::{Config, Secret, VariablesFile};
use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::record::stamp;
use crate::ops::environment::{Finding, Named, State};

/// A clock that is further off is worth a word; from five minutes on AWS refuses us.
const DRIFT: SignedDuration = SignedDuration::from_secs(60);
const SKEW: SignedDuration = SignedDuration::from_mins(5);
/// Credentials that end sooner than this are worth a word.
const SOON: SignedDuration = SignedDuration::from_mins(15);

/// Looks at credentials, identity, region, clock, key and buckets.
///
/// # Errors
/// [`AwsErrorKind::NeedsCode`] only: ask for the code and call again with it. Everything else is a line of the report.
pub async fn check(
    config: &Config,
    named: &Named,
    file: &VariablesFile,
    code: Option<&Secret>,
) -> Result<Vec<Finding>, OpError> {
    let aws = match Aws::connect(&request(config, named, file), code).await {
        Ok(aws) => aws,
        Err(error) if matches!(error.kind, AwsErrorKind::NeedsCode(_)) => return Err(error.into()),
        Err(error) => return Ok(vec![wrong("credentials", &error)]),
    };
    let (name, origin) = aws.region();
    let region = Finding::new("region", State::Ok, format!("{name}, from {origin}"));
    let mut findings = vec![credentials(&aws).await, region];
    let known = who(&aws, file, &mut findings).await;
    if known {
        let cloud = Cloud { aws, file: file.clone(), settings: named.aws(config) };
        findings.push(kms(&cloud).await);
        Box::pin(secrets_bucket(&cloud, &mut findings)).await;
        findings.push(terraform_bucket(&cloud).await);
    }
    Ok(findings)
}

/// The report's line when there is no code to go on with.
#[must_use]
pub fn no_code(error: &AwsError) -> Finding {
    wrong("credentials", error)
}

fn wrong(check: &'static str, error: &AwsError) -> Finding {
    let advice = error.advice();
    let text = if advice.is_empty() { error.to_string() } else { format!("{error}: {advice}") };
    Finding::new(check, State::Wrong, text)
}

async fn credentials(aws: &Aws) -> Finding {
    const CHECK: &str = "credentials";
    let origin = aws.credentials_origin();
    match aws.expiry().await {
        Ok(None) => Finding::new(CHECK, State::Ok, format!("{origin}, without an end")),
        Ok(Some(at)) => {
            let left = at.duration_since(Timestamp::now());
            let text = format!("{origin}, until {}", stamp(at));
            Finding::new(CHECK, if left < SOON { State::Warning } else { State::Ok }, text)
        }
        Err(error) => wrong(CHECK, &error),
    }
}

/// Identity, account and clock. Whether AWS takes us for the right one.
async fn who(aws: &Aws, file: &VariablesFile, findings: &mut Vec<Finding>) -> bool {
    let identity = match aws.identity().await {
        Ok(identity) => identity,
        Err(error) => {
            findings.push(wrong("identity", &error));
            return false;
        }
    };
    findings.push(Finding::new("identity", State::Ok, identity.arn));
    let account = file.variables.aws_account.as_ref();
    let right = account.is_none_or(|account| *account == identity.account);
    findings.push(match account {
        Some(account) if !right => Finding::new(
            "account",
            State::Wrong,
            format!(
                "{}, and the environment belongs to {account}: use its own credentials",
                identity.account
            ),
        ),
        Some(_) => Finding::new("account", State::Ok, identity.account),
        None => {
            let text = format!("{} (the variables name none: aws_account holds it fast)", identity.account);
            Finding::new("account", State::Ok, text)
        }
    });
    findings.extend(identity.ahead.map(clock));
    right
}

fn clock(ahead: SignedDuration) -> Finding {
    let way = if ahead.is_negative() { "behind" } else { "ahead of" };
    let off = SignedDuration::from_secs(ahead.abs().as_secs());
    let text = format!("{off:#} {way} AWS's");
    match off {
        off if off >= SKEW => {
            Finding::new("clock", State::Wrong, format!("{text}: set this machine's clock"))
        }
        off if off >= DRIFT => Finding::new("clock", State::Warning, text),
        _ => Finding::new("clock", State::Ok, "as AWS's"),
    }
}

async fn kms(cloud: &Cloud) -> Finding {
    const CHECK: &str = "kms";
    match cloud.aws.kms_key(&cloud.file.variables.kms_master_id).await {
        Ok(key) if key.enabled => Finding::new(CHECK, State::Ok, key.arn),
        Ok(key) => {
            Finding::new(CHECK, State::Wrong, format!("{} cannot be used: it is {}", key.arn, key.state))
        }
        // To use a key does not take the right to look at it.
        Err(error) if error.kind == AwsErrorKind::Forbidden => {
            Finding::new(CHECK, State::Warning, error.to_string())
        }
        Err(error) => wrong(CHECK, &error),
    }
}

async fn secrets_bucket(cloud: &Cloud, findings: &mut Vec<Finding>) {
    const CHECK: &str = "secrets bucket";
    let variables = &cloud.file.variables;
    let bucket = bucket(cloud, &variables.secrets_bucket_name);
    match bucket.settings().await {
        Ok(settings) => {
            let key = cloud.aws.kms_key(&variables.kms_master_id).await;
            let key = key.map_or_else(|_| variables.kms_master_id.clone(), |key| key.arn);
            let before = findings.len();
            let warnings = settings.warnings(&key).into_iter().flatten();
            findings.extend(
                warnings
                    .map(|text| Finding::new(CHECK, State::Warning, format!("{}: {text}", bucket.name()))),
            );
            if findings.len() == before {
                findings.push(Finding::new(CHECK, State::Ok, bucket.name()));
            }
        }
        Err(error) => findings.push(wrong(CHECK, &error)),
    }
}

async fn terraform_bucket(cloud: &Cloud) -> Finding {
    const CHECK: &str = "terraform bucket";
    let bucket = bucket(cloud, &cloud.file.variables.terraform_bucket_name);
    match bucket.list("").next().await {
        Ok(_) => Finding::new(CHECK, State::Ok, bucket.name()),
        // Terraform's own command makes it.
        Err(error) => Finding::new(CHECK, State::Warning, error.to_string()),
    }
}

fn bucket(cloud: &Cloud, name: &str) -> Bucket {
    Bucket::new(cloud.aws.sdk(), cloud.settings.path_style, name, &cloud.file.variables.kms_master_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_said() {
        assert_eq!(clock(SignedDuration::from_secs(2)).state, State::Ok);
        assert_eq!(clock(SignedDuration::from_secs(-70)).state, State::Warning);
        let wrong = clock(SignedDuration::from_mins(-7));
        assert_eq!(
            (wrong.state, wrong.text.as_str()),
            (State::Wrong, "7m behind AWS's: set this machine's clock")
        );
    }
}
