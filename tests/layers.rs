//! Holds the house: the arrows between modules are those of the table in `src/lib.rs`, and the pure modules stay pure.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

fn all_sources() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    sources(&src, &mut paths);
    paths.sort();
    paths
        .into_iter()
        .map(|p| {
            let text = std::fs::read_to_string(&p).unwrap();
            (p.strip_prefix(&src).unwrap().to_string_lossy().into_owned(), text)
        })
        .collect()
}

/// The table of arrows in `src/lib.rs`: module -> what it may use.
fn map() -> BTreeMap<String, BTreeSet<String>> {
    let lib = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let rows: BTreeMap<_, _> = lib
        .lines()
        .filter_map(|l| l.strip_prefix("//! "))
        .filter_map(|l| l.split_once("->"))
        .filter(|(module, _)| module.trim().chars().all(|c| c.is_ascii_lowercase()))
        .map(|(module, uses)| {
            (module.trim().to_owned(), uses.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>())
        })
        .collect();
    assert!(rows.len() >= 12, "src/lib.rs lost its table of arrows");
    rows
}

/// Code without comments and without what strings and characters hold: neither is a path, and a `//` in a string is no comment.
fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let word = out.chars().next_back().is_some_and(in_word);
        let (kept, length) = if rest.starts_with("//") {
            ("", rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (" ", block_comment(rest))
        } else if let Some(length) = raw_string(rest).filter(|_| !word) {
            ("\"\"", length)
        } else if c == '"' {
            ("\"\"", string(rest))
        } else if let Some(length) = character(rest) {
            ("' '", length)
        } else {
            (&rest[..c.len_utf8()], c.len_utf8())
        };
        out.push_str(kept);
        rest = &rest[length..];
    }
    out
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the block comment that starts here; they nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of the raw string that starts here, if one does: `r"…"`, `br#"…"#` and so on.
fn raw_string(text: &str) -> Option<usize> {
    let start = text.strip_prefix(['b', 'c']).unwrap_or(text).strip_prefix('r')?;
    let inside = start.trim_start_matches('#');
    let hashes = &start[..start.len() - inside.len()];
    let inside = inside.strip_prefix('"')?;
    let end = format!("\"{hashes}");
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(text.len() - inside.len() + length)
}

/// The length of the string that starts here.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of the character that starts here, if one does: `'a` without a second quote is a lifetime.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    let first = inside.chars().next()?;
    let held = if first == '\\' { 1 + inside[1..].chars().next()?.len_utf8() } else { first.len_utf8() };
    let end = inside[held..].find('\'')?;
    // Only an escape such as `\u{1f600}` is longer than what was taken.
    (end == 0 || first == '\\').then_some(1 + held + end + 1)
}

/// The words, the `::` and every other mark of some code, each by itself.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(c) = rest.chars().next() {
        let length = match c {
            _ if in_word(c) => rest.find(|c| !in_word(c)).unwrap_or(rest.len()),
            _ if rest.starts_with("::") => 2,
            _ => c.len_utf8(),
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// Every path behind `crate::`, as far as it is plain words, also inside `use crate::{a::{b, c}, d}`.
fn paths(code: &str) -> BTreeSet<String> {
    let tokens = tokens(code);
    let mut found = BTreeSet::new();
    for at in 0..tokens.len() {
        if tokens[at] == "crate" && tokens.get(at + 1) == Some(&"::") {
            follow(&tokens, at + 2, "", &mut found);
        }
    }
    found
}

/// Reads the tree of paths that starts at `at`, behind `prefix`; returns where it ends.
fn follow(tokens: &[&str], mut at: usize, prefix: &str, found: &mut BTreeSet<String>) -> usize {
    let mut path = prefix.to_owned();
    loop {
        match tokens.get(at).copied() {
            Some("{") => {
                at += 1;
                while tokens.get(at).is_some_and(|t| *t != "}") {
                    let end = follow(tokens, at, &path, found);
                    // A rename, a comma: whatever is not part of a path here.
                    at = end.max(at + 1);
                    while tokens.get(at).is_some_and(|t| ![",", "}"].contains(t)) {
                        at += 1;
                    }
                    at += usize::from(tokens.get(at) == Some(&","));
                }
                return at + 1;
            }
            Some(word) if word.starts_with(in_word) => {
                if word != "self" {
                    path = if path.is_empty() { word.to_owned() } else { format!("{path}::{word}") };
                }
                at += 1;
                if tokens.get(at) == Some(&"::") {
                    at += 1;
                    continue;
                }
            }
            _ => {}
        }
        found.insert(path);
        return at;
    }
}

/// Every module named behind `crate::`.
fn arrows(code: &str) -> BTreeSet<String> {
    let first = |path: String| path.split("::").next().unwrap_or_default().to_owned();
    paths(code).into_iter().map(first).filter(|module| !module.is_empty()).collect()
}

/// How many modules deep a file's code is: `server/hook.rs` is `server::hook`, 2.
fn depth(path: &str) -> usize {
    let parts = path.split('/').count();
    if path.ends_with("/mod.rs") { parts - 1 } else { parts }
}

/// The chains of `super::` in code that is `depth` modules deep which go up to where fewer than `floor` modules are left: so an
/// arrow could go where no `crate::` shows it.
fn climbs(code: &str, depth: usize, floor: usize) -> Vec<String> {
    let tokens = tokens(code);
    let is = |at: usize, token: &str| tokens.get(at) == Some(&token);
    // Each open brace: whether a module's own, and how far up the path in front of it went.
    let mut open: Vec<(bool, usize)> = Vec::new();
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at] {
            "{" => {
                let module = at >= 2 && tokens[at - 2] == "mod";
                open.push((module, open.last().map_or(0, |o| if module { 0 } else { o.1 })));
            }
            "}" => drop(open.pop()),
            "super" => {
                let start = at;
                while is(at + 1, "::") && is(at + 2, "super") {
                    at += 2;
                }
                let inner = open.iter().filter(|o| o.0).count();
                let before = open.last().map_or(0, |o| o.1);
                let up = before + (at - start) / 2 + 1;
                let goes_on = is(at + 1, "::");
                if goes_on && depth + inner < floor + up {
                    let end = (at + 3).min(tokens.len());
                    found.push(tokens[start..end].concat());
                }
                if goes_on && is(at + 2, "{") {
                    open.push((false, up));
                    at += 2;
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

#[test]
fn arrows_follow_the_map() {
    let map = map();
    let mut wrong = Vec::new();
    for (path, text) in all_sources() {
        let module = path.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
        if module == "main" || module == "lib" {
            continue;
        }
        let Some(allowed) = map.get(&module) else {
            wrong.push(format!("src/{path}: module {module} is not in the map of src/lib.rs"));
            continue;
        };
        let code = code(&text);
        for climb in climbs(&code, depth(&path), 1) {
            wrong.push(format!("src/{path}: {climb} leaves {module}: write crate::"));
        }
        for to in arrows(&code) {
            if to != module && map.contains_key(&to) && !allowed.contains(&to) {
                wrong.push(format!("src/{path}: {module} -> {to}"));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that the map in src/lib.rs lacks:\n{}", wrong.join("\n"));
}

#[test]
fn back_ends_do_not_import_each_other() {
    let mut wrong = Vec::new();
    for (path, text) in all_sources() {
        let Some(rest) = path.strip_prefix("backend/") else { continue };
        let me = rest.split('/').next().unwrap().trim_end_matches(".rs");
        if me == "mod" {
            continue;
        }
        let code = code(&text);
        for climb in climbs(&code, depth(&path), 2) {
            wrong.push(format!("src/{path}: {climb} leaves backend::{me}"));
        }
        for to in paths(&code) {
            let to = to.strip_prefix("backend::").and_then(|to| to.split("::").next()).unwrap_or(me);
            if to != me && to.starts_with(|c: char| c.is_lowercase()) {
                wrong.push(format!("src/{path}: backend::{me} -> backend::{to}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_modules_stay_pure() {
    const DENIED: [&str; 10] = [
        "tokio::",
        "ratatui",
        "crossterm",
        "std::fs",
        "std::process",
        "std::net::Tcp",
        "std::env",
        "::now()",
        "SystemTime",
        "Instant",
    ];
    let mut wrong = Vec::new();
    for (path, text) in all_sources() {
        let module = path.split('/').next().unwrap();
        let loader = path == "config/load.rs";
        if !["app", "domain", "config"].contains(&module) || loader {
            continue;
        }
        let code = code(&text);
        let body = code.split("#[cfg(test)]").next().unwrap();
        for denied in DENIED {
            if body.contains(denied) {
                wrong.push(format!("src/{path} uses {denied}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_arrows_sees_what_it_must() {
    let seen = arrows("use crate::{app::State, config, ops::{a, b}};\nlet x = crate::view::draw();");
    let expected = ["app", "config", "ops", "view"].map(str::to_owned);
    assert_eq!(seen, BTreeSet::from(expected));
    let seen =
        paths("use crate::{self, backend::{kube::Kube as K, amqp}, ops::*, view::{self, pen}}; crate :: app");
    let expected = ["", "app", "backend::amqp", "backend::kube::Kube", "ops", "view", "view::pen"];
    assert_eq!(seen, BTreeSet::from(expected.map(str::to_owned)));
}

#[test]
fn the_reader_of_code_skips_what_is_no_code() {
    let after = |start: &str| arrows(&code(&format!("{start} crate::ops::x()")));
    let ops = BTreeSet::from(["ops".to_owned()]);
    for start in [
        r#"get("http://127.0.0.1");"#,
        r#"say("a \" // quote");"#,
        r#"say("\\");"#,
        "say(\"two\n// lines\");",
        r##"say(r#"raw " // "#);"##,
        r#"say(br"\");"#,
        r#"say(b"//");"#,
        "match c { '\"' => 1, '\\'' => 2, '\\\\' => 3, '/' => 4, '\\u{22}' => 5, b'\"' => 6 };",
        "fn f<'a>(x: &'a str, y: &'static str) {}",
        "let r#type = for_r;",
        "/* a /* nested // */ one */",
        "// a line\n",
        "//! it's a line\n",
    ] {
        assert_eq!(after(start), ops, "{start}");
    }
    for hidden in [
        "// crate::ops\n",
        "/* crate::ops */",
        "/* /* */ crate::ops */",
        r#"" crate::ops ""#,
        r##"r#"" crate::ops ""#"##,
        r#"b"\" crate::ops ""#,
    ] {
        assert_eq!(arrows(&code(hidden)), BTreeSet::new(), "{hidden}");
    }
}

#[test]
fn the_reader_of_climbs_sees_who_leaves_its_module() {
    assert_eq!(
        ["cli.rs", "cli/mod.rs", "cli/hosts.rs", "a/b/mod.rs", "a/b/c.rs"].map(depth),
        [1, 1, 2, 2, 3]
    );
    let leaves = |code: &str, depth: usize| !climbs(code, depth, 1).is_empty();
    for (code, depth) in [
        ("use super::ops;", 1),
        ("super::super::ops::x()", 2),
        ("use super::{a, super::ops};", 2),
        ("use super::super::{ops, a};", 2),
        ("use super::{self, a::{b}, super::ops};", 2),
        ("use self::super::ops;", 1),
        ("mod tests { use super::super::ops; }", 1),
        ("mod tests { use super::*; } use super::ops;", 1),
        ("mod a { mod b {} use super::super::ops; }", 1),
        ("super :: super\n:: ops", 2),
    ] {
        assert!(leaves(code, depth), "{code}");
    }
    for (code, depth) in [
        ("use super::a;", 2),
        ("use super::super::a;", 3),
        ("mod tests { use super::*; }", 1),
        ("mod tests { mod more { use super::super::*; } }", 1),
        ("mod tests { fn f() { if x { super::a() } } }", 1),
        ("use super::{a, b}; fn f() { super::c() }", 2),
        ("pub(super) fn f() {}", 1),
        ("pub(in super) fn f() {}", 1),
    ] {
        assert!(!leaves(code, depth), "{code}");
    }
    // A back end may not look at its neighbours.
    assert_eq!(climbs("use super::amqp;", depth("backend/git.rs"), 2), ["super::amqp"]);
    assert_eq!(climbs("use super::error;", depth("backend/kube/job.rs"), 2), Vec::<String>::new());
}
