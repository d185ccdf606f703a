//! What two people made of one secret.

use serde::Serialize;
use similar::DiffOp;

use super::diff::{Difference, both_texts, changes, diff};
use super::format::Format;
use super::mask::{Values, lines};

/// What two people made of one secret, for who has to decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum ThreeWay {
    /// Both made the same of it: nothing is to be decided.
    Alike,
    /// What it was is known.
    Changed {
        /// From what it was to mine.
        mine: Difference,
        /// From what it was to theirs.
        theirs: Difference,
        /// Whether both touch the same lines, or lines beside each other. None: not to be told (no text, or too large).
        same_lines: Option<bool>,
    },
    /// What it was is not known.
    Apart {
        /// From theirs to mine.
        between: Difference,
    },
}

/// Compares mine and theirs with what both began with. `None` for mine or theirs: removed there; for the base: not known.
#[must_use]
pub fn three_way(
    base: Option<&[u8]>,
    mine: Option<&[u8]>,
    theirs: Option<&[u8]>,
    format: Format,
    values: Values,
) -> ThreeWay {
    if mine == theirs {
        return ThreeWay::Alike;
    }
    let Some(base) = base else {
        return ThreeWay::Apart { between: diff(theirs, mine, format, values) };
    };
    ThreeWay::Changed {
        mine: diff(Some(base), mine, format, values),
        theirs: diff(Some(base), theirs, format, values),
        same_lines: same_lines(base, mine, theirs),
    }
}

fn same_lines(base: &[u8], mine: Option<&[u8]>, theirs: Option<&[u8]>) -> Option<bool> {
    let unchanged = |side: Option<&[u8]>| side == Some(base);
    if unchanged(mine) || unchanged(theirs) {
        return Some(false);
    }
    // Removed: that touches every line.
    let (Some(mine), Some(theirs)) = (mine, theirs) else { return Some(true) };
    let (old, mine) = both_texts(Some(base), Some(mine))?;
    let (_, theirs) = both_texts(Some(base), Some(theirs))?;
    let old = lines(old);
    let (mine, theirs) = (changes(&old, &lines(mine)), changes(&old, &lines(theirs)));
    Some(touch(&mine, &theirs))
}

/// Whether two lists of changes, both in order, meet anywhere in the old text.
fn touch(mine: &[DiffOp], theirs: &[DiffOp]) -> bool {
    let (mut mine, mut theirs) = (mine.iter().map(DiffOp::old_range), theirs.iter().map(DiffOp::old_range));
    let (mut one, mut other) = (mine.next(), theirs.next());
    while let (Some(left), Some(right)) = (&one, &other) {
        if left.end < right.start {
            one = mine.next();
        } else if right.end < left.start {
            other = theirs.next();
        } else {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &[u8] = b"a\nb\nc\nd\ne\nf\n";

    fn meet(mine: &[u8], theirs: &[u8]) -> Option<bool> {
        match three_way(Some(BASE), Some(mine), Some(theirs), Format::Other, Values::Hidden) {
            ThreeWay::Changed { same_lines, .. } => same_lines,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn changes_of_the_same_lines_or_beside_each_other_meet() {
        let cases: [(&[u8], &[u8], bool); 7] = [
            (b"A\nb\nc\nd\ne\nf\n", b"X\nb\nc\nd\ne\nf\n", true),
            (b"A\nb\nc\nd\ne\nf\n", b"a\nB\nc\nd\ne\nf\n", true),
            (b"A\nb\nc\nd\ne\nf\n", b"a\nb\nC\nd\ne\nf\n", false),
            (b"a\nb\nc\nd\ne\nf\nmine\n", b"a\nb\nc\nd\ne\nf\ntheirs\n", true),
            (b"first\na\nb\nc\nd\ne\nf\n", b"a\nb\nc\nd\ne\nf\nlast\n", false),
            (b"A\nb\nc\nd\ne\nF\n", b"a\nb\nC\nd\ne\nf\nx\n", true),
            (BASE, b"X\n", false),
        ];
        for (mine, theirs, expected) in cases {
            let says = format!("{:?} {:?}", String::from_utf8_lossy(mine), String::from_utf8_lossy(theirs));
            assert_eq!(meet(mine, theirs), Some(expected), "{says}");
            assert_eq!(meet(theirs, mine), Some(expected), "{says}");
        }
        assert_eq!(meet(b"\0", b"x"), None);
    }

    #[test]
    fn what_was_removed_what_is_alike_and_what_nobody_remembers() {
        let view = |base, mine, theirs| three_way(base, mine, theirs, Format::Other, Values::Shown);
        assert_eq!(view(Some(BASE), Some(b"x"), Some(b"x")), ThreeWay::Alike);
        assert_eq!(view(None, Some(b"x"), Some(b"x")), ThreeWay::Alike);
        let removed = view(Some(BASE), None, Some(b"x\n"));
        assert!(matches!(removed, ThreeWay::Changed { same_lines: Some(true), .. }), "{removed:?}");
        let ThreeWay::Apart { between: Difference::Text { lines } } = view(None, Some(b"m\n"), Some(b"t\n"))
        else {
            panic!("not apart");
        };
        let lines: Vec<_> = lines.iter().skip(1).map(|l| format!("{}{}", l.mark.sign(), l.text)).collect();
        assert_eq!(lines, ["-t", "+m"]);
    }
}
