//! What the SDK's errors mean.

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sts::error::{ProvideErrorMetadata, SdkError};

use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::text::chain;

/// What a call came to.
pub(super) fn from_sdk<E, R>(doing: &str, error: &SdkError<E, R>) -> AwsError
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug + 'static,
{
    match error {
        SdkError::ServiceError(service) => {
            let said = service.err();
            let code = said.code().unwrap_or("no code");
            let text = said.message().map_or_else(|| code.to_owned(), |text| format!("{text} ({code})"));
            AwsError::new(AwsErrorKind::of_code(code), doing, crate::domain::text::plain(&text))
        }
        SdkError::DispatchFailure(_) | SdkError::TimeoutError(_) => match credentials(error) {
            // Before anything is sent the credentials are got: that is a failure to dispatch too.
            Some(cause) => from_credentials(doing, cause),
            None => AwsError::new(AwsErrorKind::Unreachable, doing, chain(error)),
        },
        other => AwsError::new(AwsErrorKind::Failed, doing, chain(other)),
    }
}

/// Why credentials could not be got. What a service answered on the way says more than that it failed.
pub(super) fn from_credentials(doing: &str, error: &CredentialsError) -> AwsError {
    let text = chain(error);
    let kind = match error {
        CredentialsError::CredentialsNotLoaded(_) => AwsErrorKind::NoCredentials,
        CredentialsError::InvalidConfiguration(_) => AwsErrorKind::Invalid,
        CredentialsError::ProviderTimedOut(_) => AwsErrorKind::Unreachable,
        _ => AwsErrorKind::of_text(&text),
    };
    AwsError::new(kind, doing, text)
}

fn credentials<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e CredentialsError> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<CredentialsError>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}
