use proptest::prelude::*;

use super::*;

impl Listed for (String, u64) {
    fn key(&self) -> &str {
        &self.0
    }
    fn size(&self) -> u64 {
        self.1
    }
}

fn planned(keys: &[&str]) -> (Vec<String>, Vec<(String, SkipReason)>) {
    let plan = plan(keys.iter().map(|key| ((*key).to_owned(), 1)).collect());
    let files = plan.files.into_iter().map(|(path, object)| {
        assert_eq!(path.as_str(), object.0);
        object.0
    });
    (files.collect(), plan.skipped.into_iter().map(|skip| (skip.key, skip.reason)).collect())
}

/// Scenario S21: every key, and what becomes of it.
#[test]
fn hostile_keys_are_the_same_bytes_or_no_file() {
    let long = "x".repeat(256);
    let most = ["y".repeat(255), "z".repeat(255), "w".repeat(255), "v".repeat(256 - 1)].join("/");
    let most = format!("{most}v");
    assert_eq!(most.len(), KEY_LIMIT);
    let kept = [
        "dir/f",
        "x/y",
        "a/b",
        "A",
        "a b",
        "sp ace",
        " lead",
        "trail ",
        "p+lus",
        "q?",
        "h#",
        "%41",
        "%2e%2e/evil",
        "{b}",
        "a b+\u{fc}{1}%41.txt",
        "\u{fc}",
        "u\u{308}",
        "new\nline",
        "-rf",
        "~",
        "...",
        "..a",
        "a..",
        "a\\..\\b",
        "C:\\x",
        "\u{202e}txt",
        ".hidden",
        "$(id)",
    ];
    for key in kept {
        assert_eq!(relative(key).map(|path| path.0).as_deref(), Ok(key));
    }
    let refused = [
        ("../evil", SkipReason::Dots),
        ("/abs", SkipReason::LeadingSlash),
        ("//abs", SkipReason::LeadingSlash),
        ("/", SkipReason::Empty),
        ("//", SkipReason::LeadingSlash),
        ("", SkipReason::Empty),
        ("a/../../b", SkipReason::Dots),
        ("a/./b", SkipReason::Dots),
        (".", SkipReason::Dots),
        ("..", SkipReason::Dots),
        ("../", SkipReason::Dots),
        ("a//b", SkipReason::EmptyPart),
        ("a//", SkipReason::EmptyPart),
        ("dir/", SkipReason::Marker),
        ("nul\0", SkipReason::Nul),
        (&long, SkipReason::LongPart { bytes: 256 }),
        (&most, SkipReason::LongPart { bytes: 256 }),
        (".hostwright", SkipReason::Own),
        (".hostwright/index.json", SkipReason::Own),
        ("a/.hostwright-1.tmp", SkipReason::Own),
        (&format!("{}/", "a/".repeat(511)), SkipReason::EmptyPart),
        (&format!("a/{}", "b".repeat(1_023)), SkipReason::LongKey { bytes: 1_025 }),
    ];
    for (key, reason) in refused {
        assert_eq!(relative(key), Err(reason), "{key:?}");
    }
    let parts = format!("{}{}", "a/".repeat(511), "bb");
    assert_eq!((parts.len(), relative(&parts).map(|path| path.parts().count())), (1_024, Ok(512)));
}

#[test]
fn a_key_that_is_a_file_and_a_folder_loses_to_the_longer_one() {
    let folder = |longer: &str| SkipReason::IsFolder { longer: longer.to_owned() };
    let own = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    for order in [["x", "x-1", "x/y", "x/y/z"], ["x/y/z", "x/y", "x-1", "x"]] {
        let (files, skipped) = planned(&order);
        assert_eq!(files, own(&["x-1", "x/y/z"]));
        assert_eq!(skipped, [("x".into(), folder("x/y")), ("x/y".into(), folder("x/y/z"))]);
    }
    // The longer one is no file itself: nothing is in the way.
    let (files, skipped) = planned(&["x", "x//y", "x/../y"]);
    assert_eq!(files, own(&["x"]));
    assert_eq!(skipped.len(), 2);
    // Neither a case nor a normal form makes two keys one.
    let (files, skipped) = planned(&["A", "a", "\u{fc}", "u\u{308}"]);
    assert_eq!((files.len(), skipped.len()), (4, 0));
}

#[test]
fn markers_are_quiet_unless_they_hold_something() {
    let listing = [("d/", 0), ("e/", 3), ("d", 1), ("f//", 0), ("d", 1)];
    let plan = plan(listing.map(|(key, size)| (key.to_owned(), size)).to_vec());
    assert_eq!(plan.files.len(), 1);
    let named: Vec<String> = plan.named().map(Skip::to_string).collect();
    assert_eq!(
        named,
        [
            "d: the bucket listed it twice: list again",
            "e/: it ends with a slash and holds 3 bytes: a folder cannot hold them; give it another key",
            "f//: it has two slashes, one after the other: on disk that is the same file as with one; give it another key",
        ]
    );
    assert_eq!(plan.skipped.iter().find(|skip| skip.reason.is_quiet()).unwrap().key, "d/");
}

#[test]
fn a_skip_as_json_names_the_exact_key() {
    let skip = Skip { key: "a\n%s".into(), reason: SkipReason::FullMarker { size: 3 } };
    let json = serde_json::to_value(&skip).unwrap();
    assert_eq!(json, serde_json::json!({"key": "a\n%s", "reason": "full-marker", "size": 3}));
}

proptest! {
    #[test]
    fn no_file_leaves_the_folder_and_none_is_in_anothers_way(keys in proptest::collection::vec("[ab./]{0,6}", 0..20)) {
        let count = keys.len();
        let plan = plan(keys.into_iter().map(|key| (key, 0)).collect());
        prop_assert_eq!(plan.files.len() + plan.skipped.len(), count);
        for (path, object) in &plan.files {
            prop_assert_eq!(path.as_str(), &object.0);
            prop_assert!(path.parts().all(|part| !matches!(part, "" | "." | "..")));
            for (other, _) in &plan.files {
                let below = format!("{}/", path.as_str());
                prop_assert!(!other.as_str().starts_with(&below));
            }
        }
        let distinct: std::collections::BTreeSet<_> = plan.files.iter().map(|(path, _)| path).collect();
        prop_assert_eq!(distinct.len(), plan.files.len());
    }
}
