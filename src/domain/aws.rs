//! What AWS refuses, in words.

use jiff::SignedDuration;

use super::{Problem, ProblemKind};

/// A clock that is further off than this is why AWS refuses us (it allows for 15 minutes, some of its services for 5).
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// A failed call.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot {doing}: {text}")]
pub struct AwsError {
    /// The kind.
    pub kind: AwsErrorKind,
    doing: String,
    text: String,
}

/// What kind of failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AwsErrorKind {
    /// There are no credentials, or only half of them.
    NoCredentials,
    /// The MFA device with this serial number has to say a code.
    NeedsCode(String),
    /// They have ended.
    Expired,
    /// AWS does not take them.
    NotAuthenticated,
    /// This machine's clock is wrong.
    Clock,
    /// We may not.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// There is no such bucket.
    NoBucket,
    /// Somebody else changed it meanwhile.
    Conflict,
    /// It does not answer.
    Unreachable,
    /// A profile or a setting cannot be used.
    Invalid,
    /// Everything else.
    Failed,
}

impl AwsError {
    /// A failure: kind, what was being done ("list the bucket"), and what happened, without secrets.
    #[must_use]
    pub fn new(kind: AwsErrorKind, doing: impl Into<String>, text: impl Into<String>) -> Self {
        Self { kind, doing: doing.into(), text: text.into() }
    }

    /// The code of this MFA device is needed.
    #[must_use]
    pub fn needs_code(doing: &str, serial: &str) -> Self {
        let text = format!("the MFA device {serial} has to say its code");
        Self::new(AwsErrorKind::NeedsCode(serial.to_owned()), doing, text)
    }

    /// With a clock as far ahead as this.
    #[must_use]
    pub fn with_clock(mut self, ahead: Option<SignedDuration>) -> Self {
        if let Some(ahead) = ahead.filter(|ahead| ahead.abs() > SKEW) {
            self.kind = AwsErrorKind::Clock;
            let way = if ahead.is_negative() { "behind" } else { "ahead of" };
            self.text = format!("{}: this machine's clock is {:#} {way} AWS's", self.text, ahead.abs());
        }
        self
    }

    /// What an operator can do about it; empty when there is nothing to say.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self.kind {
            AwsErrorKind::NoCredentials => "`hostwright env check` shows where they are looked for",
            AwsErrorKind::NeedsCode(_) => "run it on a terminal and give the code",
            AwsErrorKind::Expired | AwsErrorKind::NotAuthenticated => "get new credentials (log in again)",
            AwsErrorKind::Clock => "set this machine's clock",
            AwsErrorKind::Forbidden => "ask for that permission",
            AwsErrorKind::Unreachable => "is AWS, or the endpoint, reachable from here?",
            AwsErrorKind::Conflict => "look at the difference, then decide",
            AwsErrorKind::NotFound
            | AwsErrorKind::NoBucket
            | AwsErrorKind::Invalid
            | AwsErrorKind::Failed => "",
        }
    }

    /// As the console and the commands show it.
    #[must_use]
    pub fn problem(&self, subject: impl Into<String>) -> Problem {
        let kind = match self.kind {
            AwsErrorKind::NoCredentials
            | AwsErrorKind::NeedsCode(_)
            | AwsErrorKind::Expired
            | AwsErrorKind::NotAuthenticated
            | AwsErrorKind::Clock => ProblemKind::NotAuthenticated,
            AwsErrorKind::Forbidden => ProblemKind::Forbidden,
            AwsErrorKind::NotFound => ProblemKind::NotFound,
            AwsErrorKind::Conflict => ProblemKind::Conflict,
            AwsErrorKind::Unreachable => ProblemKind::Unreachable,
            AwsErrorKind::Invalid | AwsErrorKind::NoBucket => ProblemKind::Invalid,
            AwsErrorKind::Failed => ProblemKind::Failed,
        };
        Problem::new(subject, kind, self.to_string()).advise(self.advice())
    }
}

impl AwsErrorKind {
    /// What an error code means: <https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html>,
    /// <https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>, and what KMS adds.
    #[must_use]
    pub fn of_code(code: &str) -> Self {
        match code {
            "ExpiredToken" | "ExpiredTokenException" | "RequestExpired" => AwsErrorKind::Expired,
            "InvalidClientTokenId"
            | "UnrecognizedClientException"
            | "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "InvalidSignatureException"
            | "IncompleteSignature"
            | "InvalidToken"
            | "MissingAuthenticationToken" => AwsErrorKind::NotAuthenticated,
            "RequestTimeTooSkewed" => AwsErrorKind::Clock,
            "AccessDenied" | "AccessDeniedException" | "UnauthorizedOperation" => AwsErrorKind::Forbidden,
            "NotFoundException" | "NoSuchKey" | "NoSuchBucket" | "NoSuchVersion" | "NotFound" => {
                AwsErrorKind::NotFound
            }
            "PreconditionFailed" | "ConditionalRequestConflict" => AwsErrorKind::Conflict,
            "ValidationError" | "ValidationException" | "RegionDisabledException" => AwsErrorKind::Invalid,
            "ServiceUnavailable"
            | "SlowDown"
            | "InternalError"
            | "InternalFailure"
            | "RequestTimeout"
            | "ThrottlingException"
            | "Throttling" => AwsErrorKind::Unreachable,
            _ => AwsErrorKind::Failed,
        }
    }

    /// The same by a code that stands somewhere in a text, as the SDK's own providers give it.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let codes = text.split(|c: char| !c.is_ascii_alphanumeric());
        codes.map(Self::of_code).find(|kind| *kind != AwsErrorKind::Failed).unwrap_or(Self::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_in_the_middle_of_a_text_tells_the_kind() {
        assert_eq!(
            AwsErrorKind::of_text("service error: code=ExpiredToken, message=the token"),
            AwsErrorKind::Expired
        );
        assert_eq!(AwsErrorKind::of_text("nothing of the kind"), AwsErrorKind::Failed);
    }

    #[test]
    fn a_wrong_clock_is_said() {
        let error = AwsError::new(AwsErrorKind::NotAuthenticated, "ask who we are", "Signature expired");
        let told = error.clone().with_clock(Some(SignedDuration::from_mins(-9)));
        assert_eq!(told.kind, AwsErrorKind::Clock);
        assert!(told.to_string().contains("9m behind AWS's"), "{told}");
        assert_eq!(error.with_clock(Some(SignedDuration::from_secs(9))).kind, AwsErrorKind::NotAuthenticated);
    }
}
