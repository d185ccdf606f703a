//! Filters as operators type them: words that match fuzzily, `!word` for its opposite, `field:value` for the columns.

mod fuzzy;

use jiff::Timestamp;

use self::fuzzy::Fuzzy;
pub use self::fuzzy::Scratch;
use super::time;
use crate::domain::{Phase, Run};

/// The fields that a filter can name.
const FIELDS: [&str; 11] =
    ["phase", "group", "label", "age", "host", "address", "kind", "by", "state", "area", "key"];

/// A field whose value is a text or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// `group:`: any of its groups.
    Group,
    /// `label:`: any of its labels, as `name=value`.
    Label,
    /// `host:`.
    Host,
    /// `address:`: its beginning.
    Address,
    /// `kind:`: its beginning.
    Kind,
    /// `by:`: who did or decided.
    By,
    /// `state:`: what changed where.
    State,
    /// `area:`: the part of the bucket; its beginning.
    Area,
    /// `key:`: the key that it is encrypted with.
    Key,
}

/// What a filter asks of a row.
pub trait Record {
    /// What words match fuzzily.
    fn name(&self) -> &str;
    /// Whether the word is in a text of the row; `word` is lower-case.
    fn says(&self, word: &str) -> bool {
        contains(self.name(), word)
    }
    /// Whether a field of the row has the value; `value` is lower-case.
    fn has(&self, field: Field, value: &str) -> bool;
    /// Its phase, where it has one.
    fn phase(&self) -> Option<Phase> {
        None
    }
    /// When it began: what its age is counted from.
    fn began(&self) -> Option<Timestamp>;
}

impl Record for Run {
    fn name(&self) -> &str {
        self.host.as_str()
    }

    fn says(&self, word: &str) -> bool {
        contains(self.host.as_str(), word) || self.groups.iter().any(|g| contains(g, word))
    }

    fn has(&self, field: Field, value: &str) -> bool {
        match field {
            Field::Group => self.groups.iter().any(|g| contains(g, value)),
            Field::Label | Field::State | Field::Area | Field::Key => false,
            Field::Host => self.host.as_str().contains(value),
            Field::Address => self.address.is_some_and(|a| a.to_string().starts_with(value)),
            Field::Kind => self.kind.as_str().starts_with(value),
            Field::By => self.decision.as_ref().is_some_and(|d| contains(&d.by, value)),
        }
    }

    fn phase(&self) -> Option<Phase> {
        Some(self.phase)
    }

    fn began(&self) -> Option<Timestamp> {
        Some(self.created)
    }
}

/// A filter, parsed.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    text: String,
    terms: Vec<Term>,
    problem: Option<String>,
}

#[derive(Debug, Clone)]
struct Term {
    inverted: bool,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    Fuzzy(Fuzzy),
    Word(String),
    Phase(Vec<Phase>),
    Field(Field, String),
    Younger(i64),
    Older(i64),
}

impl Filter {
    /// Reads what was typed. What cannot be understood is in [`Filter::problem`] and filters nothing.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut filter = Self { text: text.trim().to_owned(), ..Self::default() };
        for word in text.split_whitespace() {
            let (inverted, word) = word.strip_prefix('!').map_or((false, word), |rest| (true, rest));
            if word.is_empty() {
                continue;
            }
            match test(word, inverted) {
                Ok(Some(test)) => filter.terms.push(Term { inverted, test }),
                Ok(None) => {}
                Err(problem) => filter.problem = Some(problem),
            }
        }
        filter
    }

    /// What was typed, without the spaces around it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True when it lets everything pass.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// What could not be understood.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// True when time alone changes what passes.
    #[must_use]
    pub fn ages(&self) -> bool {
        self.terms.iter().any(|t| matches!(t.test, Test::Younger(_) | Test::Older(_)))
    }

    /// Whether a row passes.
    pub fn matches(&self, row: &impl Record, now: Timestamp, scratch: &mut Scratch) -> bool {
        self.terms.iter().all(|term| term.test.holds(row, now, scratch) != term.inverted)
    }

    /// Whether a plain text passes; fields do not count.
    pub fn matches_text(&self, text: &str, scratch: &mut Scratch) -> bool {
        self.terms.iter().all(|term| match &term.test {
            Test::Fuzzy(letters) => letters.are_in(text, scratch) != term.inverted,
            Test::Word(word) => contains(text, word) != term.inverted,
            _ => true,
        })
    }

    /// Which characters of a host's name made it pass, in order: to be shown.
    #[must_use]
    pub fn matched(&self, name: &str, scratch: &mut Scratch) -> Vec<u32> {
        let mut found = Vec::new();
        for term in self.terms.iter().filter(|t| !t.inverted) {
            if let Test::Fuzzy(letters) = &term.test {
                letters.places(name, scratch, &mut found);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

fn test(word: &str, inverted: bool) -> Result<Option<Test>, String> {
    let Some((field, value)) = word.split_once(':') else {
        return Ok(Some(if inverted {
            // The opposite of a fuzzy match would hide nearly everything; people mean the word.
            Test::Word(word.to_lowercase())
        } else {
            Test::Fuzzy(Fuzzy::new(word))
        }));
    };
    let lower = value.to_lowercase();
    if value.is_empty() {
        // Still being typed.
        return if FIELDS.contains(&field) { Ok(None) } else { Err(unknown_field(field)) };
    }
    match field {
        "phase" => {
            let phases: Vec<Phase> = Phase::ALL
                .into_iter()
                .filter(|p| lower.split(',').any(|part| !part.is_empty() && p.as_str().starts_with(part)))
                .collect();
            if phases.is_empty() {
                Err(format!("there is no phase {value}"))
            } else {
                Ok(Some(Test::Phase(phases)))
            }
        }
        "group" => Ok(Some(Test::Field(Field::Group, lower))),
        "label" => Ok(Some(Test::Field(Field::Label, lower))),
        "host" => Ok(Some(Test::Field(Field::Host, lower))),
        "address" => Ok(Some(Test::Field(Field::Address, lower))),
        "kind" => Ok(Some(Test::Field(Field::Kind, lower))),
        "by" => Ok(Some(Test::Field(Field::By, lower))),
        "state" => Ok(Some(Test::Field(Field::State, lower))),
        "area" => Ok(Some(Test::Field(Field::Area, lower))),
        "key" => Ok(Some(Test::Field(Field::Key, lower))),
        "age" => age(value).map(Some),
        _ => Err(unknown_field(field)),
    }
}

fn age(value: &str) -> Result<Test, String> {
    let (older, text) = match value.strip_prefix('>') {
        Some(rest) => (true, rest),
        None => (false, value.strip_prefix('<').unwrap_or(value)),
    };
    if text.is_empty() {
        return Ok(Test::Older(0));
    }
    match time::parse_seconds(text) {
        Some(seconds) if older => Ok(Test::Older(seconds)),
        Some(seconds) => Ok(Test::Younger(seconds)),
        None => Err(format!("{text} is no age: write 30s, 5m, 2h or 3d")),
    }
}

fn unknown_field(field: &str) -> String {
    format!("there is no field {field}: {}", FIELDS.join(", "))
}

/// Whether a text has the word in any case; the word is lower-case.
pub(crate) fn contains(text: &str, lower: &str) -> bool {
    if !text.is_ascii() {
        return text.to_lowercase().contains(lower);
    }
    // Thousands of rows a key: nothing is copied for them.
    lower.is_empty()
        || text.as_bytes().windows(lower.len()).any(|part| part.eq_ignore_ascii_case(lower.as_bytes()))
}

impl Test {
    fn holds(&self, row: &impl Record, now: Timestamp, scratch: &mut Scratch) -> bool {
        let age = || row.began().map(|at| time::seconds_between(at, now));
        match self {
            Self::Fuzzy(letters) => letters.are_in(row.name(), scratch),
            Self::Word(word) => row.says(word),
            Self::Phase(phases) => row.phase().is_some_and(|phase| phases.contains(&phase)),
            Self::Field(field, value) => row.has(*field, value),
            Self::Younger(seconds) => age().is_some_and(|age| age < *seconds),
            Self::Older(seconds) => age().is_some_and(|age| age >= *seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::sample;

    fn passes(filter: &str, run: &Run) -> bool {
        let filter = Filter::parse(filter);
        assert_eq!(filter.problem(), None);
        filter.matches(run, sample::now(), &mut Scratch::default())
    }

    #[test]
    fn words_match_fuzzily_and_their_opposite_exactly() {
        let run = sample::run("web-9.lan.example.org", Phase::Failed);
        assert!(passes("w9", &run) && passes("WEB org", &run) && passes("", &run));
        assert!(!passes("xyz", &run));
        assert!(passes("!w9", &run) && !passes("!web", &run) && passes("!db !nas", &run));
    }

    #[test]
    fn fields_ask_for_columns() {
        let mut run = sample::run("web-9.lan.example.org", Phase::Failed);
        run.groups = vec!["k8s_worker".into()];
        run.created = sample::now() - jiff::SignedDuration::from_mins(30);
        for yes in [
            "phase:failed",
            "phase:fail",
            "!phase:ready",
            "phase:ready,failed",
            "group:worker",
            "age:<1h",
            "age:>10m",
            "age:1h",
        ] {
            assert!(passes(yes, &run), "{yes}");
        }
        for no in ["phase:ready", "group:web", "age:>1h", "age:<10m", "!phase:failed", "kind:check", "by:ann"]
        {
            assert!(!passes(no, &run), "{no}");
        }
    }

    #[test]
    fn what_cannot_be_understood_is_said() {
        for (text, part) in
            [("colour:red", "no field colour"), ("phase:odd", "no phase odd"), ("age:soon", "no age")]
        {
            assert!(Filter::parse(text).problem().unwrap().contains(part), "{text}");
        }
        assert!(Filter::parse("phase:").is_empty() && Filter::parse("phase:").problem().is_none());
        assert!(Filter::parse("age:<").problem().is_none());
    }

    #[test]
    fn the_characters_that_matched_are_known() {
        assert_eq!(Filter::parse("w9").matched("web-9.lan", &mut Scratch::default()), [0, 4]);
    }
}
