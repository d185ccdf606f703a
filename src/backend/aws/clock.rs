//! How far this machine's clock is from AWS's: a call that is minutes off is refused.

use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_sts::config::ConfigBag;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextRef;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use jiff::{SignedDuration, Timestamp};

/// Remembers what the last answer's `Date` said.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    ahead: Arc<Mutex<Option<SignedDuration>>>,
}

impl Clock {
    /// How far we were ahead; none: no answer said.
    pub(super) fn ahead(&self) -> Option<SignedDuration> {
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, date: &str, now: Timestamp) {
        if let Ok(theirs) = jiff::fmt::rfc2822::parse(date) {
            let ahead = now.duration_since(theirs.timestamp());
            *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) = Some(ahead);
        }
    }
}

#[aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint]
impl Intercept for Clock {
    fn name(&self) -> &'static str {
        "Clock"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(date) = context.response().headers().get("date") {
            self.note(date, Timestamp::now());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_ours_less_theirs() {
        let clock = Clock::default();
        let now: Timestamp = "2026-03-01T12:05:00Z".parse().unwrap();
        clock.note("Sun, 01 Mar 2026 12:00:00 GMT", now);
        assert_eq!(clock.ahead(), Some(SignedDuration::from_mins(5)));
        clock.note("no date", now);
        assert_eq!(clock.ahead(), Some(SignedDuration::from_mins(5)), "what cannot be read says nothing");
    }
}
