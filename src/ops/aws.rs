//! AWS in an environment: the credentials of its profile, in its account and region.

mod check;

use crate::backend::aws::{Aws, Request};
use crate::backend::s3::Bucket;
use crate::config::{AwsSettings, Config, Secret, VariablesFile};
use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::environment::DEFAULT_REGION;

use super::OpError;
use super::environment::{Named, variables};

pub use check::{check, no_code};

/// An environment's AWS.
#[derive(Debug, Clone)]
pub struct Cloud {
    /// The connection.
    pub aws: Aws,
    /// The environment's variables.
    pub file: VariablesFile,
    /// How it is reached.
    pub settings: AwsSettings,
}

impl Cloud {
    /// The bucket of the secrets and manifests.
    #[must_use]
    pub fn secrets_bucket(&self) -> Bucket {
        let variables = &self.file.variables;
        let (name, key) = (&variables.secrets_bucket_name, &variables.kms_master_id);
        Bucket::new(self.aws.sdk(), self.settings.path_style, name, key)
    }

    /// Who we are to AWS, as what a write is signed with.
    ///
    /// # Errors
    /// When AWS does not say who we are.
    pub async fn signature(&self) -> Result<String, OpError> {
        Ok(signature(&self.aws).await?)
    }
}

/// Who we are to AWS, as what a write is signed with: `user/olga`.
///
/// # Errors
/// When AWS does not say it.
pub(super) async fn signature(aws: &Aws) -> Result<String, AwsError> {
    let arn = aws.identity().await?.arn;
    Ok(arn.splitn(6, ':').nth(5).unwrap_or(&arn).to_owned())
}

/// The environment's credentials and variables. Those of another account than the environment's are refused.
///
/// # Errors
/// When the variables have mistakes, there are no credentials, they need a code of an MFA device ([`AwsErrorKind::NeedsCode`]: ask
/// for it and call again with it), or they are another account's.
pub async fn connect(config: &Config, named: &Named, code: Option<&Secret>) -> Result<Cloud, OpError> {
    let file = variables(config, named)?;
    let settings = named.aws(config);
    let aws = Aws::connect(&request(config, named, &file), code).await?;
    if let Some(account) = &file.variables.aws_account {
        let identity = aws.identity().await?;
        if identity.account != *account {
            let text = format!(
                "these credentials are account {}'s, and {} belongs to account {account}",
                identity.account, named.name
            );
            return Err(AwsError::new(AwsErrorKind::Forbidden, "use these AWS credentials", text).into());
        }
    }
    Ok(Cloud { aws, file, settings })
}

/// How an environment's AWS is asked for.
fn request(config: &Config, named: &Named, file: &VariablesFile) -> Request {
    let settings = named.aws(config);
    Request {
        profile: named.profile(config, Some(file)),
        credentials_file: settings.credentials_file,
        region: file.variables.aws_region.clone(),
        default_region: DEFAULT_REGION.to_owned(),
        endpoint: settings.endpoint,
    }
}
