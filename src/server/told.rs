//! What the log was told: a failure that is tried again and again is told when it changes, not at every try.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many failures are remembered; with more of them the log is told twice now and then.
const MOST: usize = 4096;

/// The last text of each subject that fails.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<HashMap<String, String>>);

impl Told {
    fn texts(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is news of the subject, and from now on none.
    pub(super) fn is_news(&self, subject: &str, text: impl Display) -> bool {
        let text = text.to_string();
        let mut texts = self.texts();
        if texts.get(subject) == Some(&text) {
            return false;
        }
        if texts.len() >= MOST {
            texts.clear();
        }
        texts.insert(subject.to_owned(), text);
        true
    }

    /// The subject is well. Whether it was not before.
    pub(super) fn is_over(&self, subject: &str) -> bool {
        self.texts().remove(subject).is_some()
    }

    /// Forgets subjects that are there no more.
    pub(super) fn keep(&self, there: impl Fn(&str) -> bool) {
        self.texts().retain(|subject, _| there(subject));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_told_once_and_again_after_it_was_well() {
        let told = Told::default();
        assert!(told.is_news("a", "no answer") && told.is_news("b", "no answer"));
        assert!(!told.is_news("a", "no answer"));
        assert!(told.is_news("a", "forbidden") && told.is_news("a", "no answer"));
        assert!(told.is_over("a") && !told.is_over("a"));
        assert!(told.is_news("a", "no answer"));
        told.keep(|subject| subject == "a");
        assert!(!told.is_news("a", "no answer") && told.is_news("b", "no answer"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let told = Told::default();
        for n in 0..3 * MOST {
            told.is_news(&n.to_string(), "x");
        }
        assert!(told.texts().len() <= MOST);
    }
}
