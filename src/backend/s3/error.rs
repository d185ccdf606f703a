//! What the SDK's errors mean for a bucket.

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::text::{chain, plain};

/// An answer that says it is well and is not what it should be.
pub(super) const UNREADABLE: &str = "the answer cannot be read";

/// What a call came to.
pub(super) fn from_sdk<E>(doing: &str, error: &SdkError<E, HttpResponse>) -> AwsError
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
{
    let status = error.raw_response().map(|response| response.status().as_u16());
    match error {
        SdkError::ServiceError(service) => {
            let said = service.err();
            let silent = match status {
                Some(200..300) => UNREADABLE.to_owned(),
                status => status.map_or_else(String::new, |status| format!("status {status}")),
            };
            let (kind, what) = match (said.code(), status) {
                (Some("NoSuchBucket"), _) => return no_bucket(doing),
                (Some("PermanentRedirect" | "AuthorizationHeaderMalformed"), _) | (_, Some(301)) => {
                    let region = error.raw_response().and_then(|r| r.headers().get("x-amz-bucket-region"));
                    let region = region.map_or_else(String::new, |region| format!(": {}", plain(region)));
                    let text = format!("the bucket is in another region{region}");
                    return AwsError::new(AwsErrorKind::Invalid, doing, text);
                }
                (Some(code), _) if AwsErrorKind::of_code(code) != AwsErrorKind::Failed => {
                    (AwsErrorKind::of_code(code), code)
                }
                // The answer to a HEAD has no body, and so no code.
                (code, Some(status)) => (of_status(status), code.unwrap_or(&silent)),
                (code, None) => (AwsErrorKind::Failed, code.unwrap_or("no reason is given")),
            };
            let text = said.message().map_or_else(|| what.to_owned(), |text| format!("{text} ({what})"));
            AwsError::new(kind, doing, plain(&text))
        }
        SdkError::DispatchFailure(_) | SdkError::TimeoutError(_) => {
            let text = chain(error);
            let kind = match AwsErrorKind::of_text(&text) {
                AwsErrorKind::Failed => AwsErrorKind::Unreachable,
                kind => kind,
            };
            AwsError::new(kind, doing, text)
        }
        other => AwsError::new(status.map_or(AwsErrorKind::Failed, of_status), doing, chain(other)),
    }
}

/// A setting is wrong: it is not that an object is missing, which many callers take for an answer.
fn no_bucket(doing: &str) -> AwsError {
    let text = "there is no such bucket: is its name right in the environment's variables? (`platform bring-up` makes it)";
    AwsError::new(AwsErrorKind::NoBucket, doing, text)
}

fn of_status(status: u16) -> AwsErrorKind {
    match status {
        401 => AwsErrorKind::NotAuthenticated,
        403 => AwsErrorKind::Forbidden,
        404 => AwsErrorKind::NotFound,
        409 | 412 => AwsErrorKind::Conflict,
        429 | 500.. => AwsErrorKind::Unreachable,
        _ => AwsErrorKind::Failed,
    }
}
