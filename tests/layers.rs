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

/// Code without comments, string contents kept: `crate::` inside a string is no arrow we care to allow either.
fn code(text: &str) -> String {
    text.lines().map(|l| l.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// Every module named behind `crate::`, also inside `use crate::{a::…, b}`.
fn arrows(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0usize;
            let mut word = String::new();
            let mut head = true;
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        found.insert(std::mem::take(&mut word));
                        head = true;
                    }
                    ':' if depth == 0 => head = false,
                    c if head && depth == 0 && (c.is_alphanumeric() || c == '_') => word.push(c),
                    _ => {}
                }
            }
            found.insert(word);
        } else {
            found.insert(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    found.remove("");
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
        for to in arrows(&code(&text)) {
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
        for (at, _) in code(&text).match_indices("crate::backend::") {
            let to: String = code(&text)[at + "crate::backend::".len()..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            if to != me && me != "mod" && to.starts_with(|c: char| c.is_lowercase()) {
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
}
