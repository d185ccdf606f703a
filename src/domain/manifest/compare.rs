//! What was rendered, beside what is in the bucket.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::render::ManifestFile;
use crate::domain::secret::{
    Checksum, Difference, Facts, Format, LocalFact, RelativePath, Values, diff, shown,
};

/// What a rendering made.
pub type Rendered = Vec<ManifestFile>;

/// An object of the bucket that is, or could be, a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stored {
    /// Its path below the prefix of the manifests.
    pub path: RelativePath,
    /// Its ETag, quotes and all: it says nothing of the content.
    pub etag: String,
    /// Its version, where that is known.
    pub version_id: Option<String>,
    /// Size in bytes.
    pub size: u64,
    /// What is in it, where that is known: a listing does not say it.
    pub sha256: Option<Checksum>,
}

/// What is to be said of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The object is what was rendered.
    Same,
    /// It is something else.
    Changed,
    /// It is of the same size: only its content says whether it differs.
    Unsure,
    /// There is no such object.
    OnlyHere,
    /// Nothing was rendered for it.
    OnlyThere,
}

impl State {
    /// The words for it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Changed => "changed",
            Self::Unsure => "to be compared",
            Self::OnlyHere => "only here",
            Self::OnlyThere => "only there",
        }
    }

    /// Whether a push writes it. What is only there stays: nobody said that it is to go.
    #[must_use]
    pub fn is_pushed(self) -> bool {
        matches!(self, Self::Changed | Self::OnlyHere)
    }
}

/// One path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// The path.
    pub path: RelativePath,
    /// How the two stand.
    pub state: State,
    /// What was rendered.
    pub here: Option<LocalFact>,
    /// What is in the bucket: a push is bound to its ETag.
    pub there: Option<Stored>,
}

/// Compares what was rendered with a complete listing, path by path. Of two objects of one path the later counts.
#[must_use]
pub fn compare(rendered: &[ManifestFile], stored: impl IntoIterator<Item = Stored>) -> Vec<Compared> {
    let mut all: BTreeMap<RelativePath, Compared> = BTreeMap::new();
    for file in rendered {
        let here = LocalFact { size: file.bytes.len() as u64, sha256: file.sha256 };
        let path = file.path.clone();
        let compared = Compared { path: path.clone(), state: State::OnlyHere, here: Some(here), there: None };
        all.insert(path, compared);
    }
    for object in stored {
        let path = object.path.clone();
        let one = all.entry(path.clone()).or_insert(Compared {
            path,
            state: State::OnlyThere,
            here: None,
            there: None,
        });
        one.state = match (one.here, object.sha256) {
            (None, _) => State::OnlyThere,
            (Some(here), Some(there)) if here.sha256 == there => State::Same,
            (Some(here), None) if here.size == object.size => State::Unsure,
            _ => State::Changed,
        };
        one.there = Some(object);
    }
    all.into_values().collect()
}

/// A unified diff from the bucket's content to the rendered one, safe for a terminal; empty when nothing differs. `None`: there is none.
#[must_use]
pub fn unified(path: &RelativePath, there: Option<&[u8]>, here: Option<&[u8]>) -> String {
    let name = |side: &str, is_there: bool| {
        if is_there { format!("{side}/{}", shown(path.as_str())) } else { "/dev/null".to_owned() }
    };
    let mut out =
        format!("--- {}\n+++ {}\n", name("bucket", there.is_some()), name("rendered", here.is_some()));
    // Writing to a string does not fail.
    match diff(there, here, Format::Other, Values::Shown) {
        Difference::Nothing => return String::new(),
        Difference::Text { lines } => {
            lines
                .iter()
                .for_each(|line| writeln!(out, "{}{}", line.mark.sign(), line.text).unwrap_or_default());
        }
        Difference::Facts { old, new } => {
            let facts = |facts: Option<Facts>| {
                facts.map_or("nothing".to_owned(), |f| format!("{} bytes, SHA-256 {}", f.size, f.sha256))
            };
            writeln!(out, "no text, or too large: {} became {}", facts(old), facts(new)).unwrap_or_default();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::secret::relative;

    fn file(path: &str, text: &str) -> ManifestFile {
        let path = relative(path).unwrap();
        let bytes = text.as_bytes().to_vec();
        ManifestFile { from: path.clone(), path, sha256: Checksum::of(&bytes), bytes }
    }

    fn object(path: &str, text: &str, known: bool) -> Stored {
        Stored {
            path: relative(path).unwrap(),
            etag: "\"1\"".into(),
            version_id: None,
            size: text.len() as u64,
            sha256: known.then(|| Checksum::of(text.as_bytes())),
        }
    }

    #[test]
    fn each_path_has_a_state() {
        let rendered = [file("a", "x"), file("b", "x"), file("c", "x"), file("d", "x"), file("e", "x")];
        let stored = [
            object("a", "x", true),
            object("b", "y", true),
            object("c", "y", false),
            object("d", "longer", false),
            object("f", "x", true),
        ];
        let states: Vec<State> = compare(&rendered, stored).iter().map(|one| one.state).collect();
        use State::{Changed, OnlyHere, OnlyThere, Same, Unsure};
        assert_eq!(states, [Same, Changed, Unsure, Changed, OnlyHere, OnlyThere]);
        assert_eq!(states.iter().filter(|state| state.is_pushed()).count(), 3);
    }

    #[test]
    fn a_difference_is_a_unified_diff() {
        let path = relative("a/b.yaml").unwrap();
        let text = unified(&path, Some(b"a: 1\nb: 2\n"), Some(b"a: 1\nb: 3\n"));
        assert_eq!(
            text,
            "--- bucket/a/b.yaml\n+++ rendered/a/b.yaml\n@@ -1,2 +1,2 @@\n a: 1\n-b: 2\n+b: 3\n"
        );
        assert!(unified(&path, None, Some(b"x\n")).starts_with("--- /dev/null\n+++ rendered/a/b.yaml\n"));
        assert_eq!(unified(&path, Some(b"x"), Some(b"x")), "");
        assert!(unified(&path, Some(b"\0"), None).contains("1 bytes, SHA-256"));
    }
}
