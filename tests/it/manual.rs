//! What helps at the shell: completions in a real one, the manual page.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::support;

fn hostwright(args: &[&str]) -> String {
    let output = Command::new(support::exe()).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a script in a bash that has nothing of the user's.
fn bash(script: &str) -> Output {
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut bash = bash.spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    bash.wait_with_output().unwrap()
}

/// What bash offers for the last of these words.
fn offered(script: &str, words: &[&str]) -> Vec<String> {
    let last = words.len() - 1;
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (line, before) = (quoted.join(" "), quoted.get(last - 1).cloned().unwrap_or_default());
    let ask = format!(
        "{script}\nCOMP_WORDS=({line})\nCOMP_CWORD={last}\n_hostwright hostwright {} {before}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        quoted[last]
    );
    let output = bash(&ask);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_hides_what_is_hidden() {
    let script = hostwright(&["completions", "bash"]);
    assert_eq!(offered(&script, &["hostwright", "hosts", "app"]), ["approve"]);
    assert_eq!(offered(&script, &["hostwright", "completions", ""]).last().unwrap(), "fish");
    let first = offered(&script, &["hostwright", ""]);
    assert!(first.contains(&"hosts".to_owned()) && first.contains(&"--read-only".to_owned()), "{first:?}");
    assert!(!script.contains("leash") && !script.contains("panic-ui"), "hidden ones are offered");
    let registered = bash(&format!("{script}\ncomplete -p hostwright"));
    assert!(registered.status.success(), "it is for nobody");
}

#[test]
fn every_shell_has_a_script_of_its_own() {
    for (shell, part) in [("zsh", "#compdef hostwright"), ("fish", "complete -c hostwright")] {
        let script = hostwright(&["completions", shell]);
        assert!(script.contains(part) && script.contains("approve") && !script.contains("leash"), "{shell}");
    }
    let wrong = Command::new(support::exe()).args(["completions", "bsh"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

/// Roff without its escapes and font changes.
fn plain(page: &str) -> String {
    ["\\fB", "\\fR", "\\fI"].iter().fold(page.replace("\\-", "-"), |page, font| page.replace(font, ""))
}

#[test]
fn the_manual_names_every_command() {
    let page = hostwright(&["man"]);
    let title = page.lines().find(|line| !line.starts_with(".ie") && !line.starts_with(".el")).unwrap();
    assert!(title.starts_with(".TH hostwright 1"), "{title}");
    let (sections, words) = (page.lines().filter(|line| line.starts_with(".SH")).count(), plain(&page));
    assert!(sections >= 8, "{page}");
    for line in page.lines().filter(|line| line.starts_with('.')) {
        let known = ["TH", "SH", "TP", "PP", "RS", "RE", "IP", "br", "ie", "el"];
        assert!(known.iter().any(|macro_| line[1..].starts_with(macro_)), "{line:?} is no macro that we use");
    }
    for noun in ["hosts", "runs", "targets", "tokens", "cluster", "queue", "config"] {
        let help = hostwright(&[noun, "--help"]);
        let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
        let names: Vec<&str> = listed
            .lines()
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
            .collect();
        assert!(names.len() > 1, "{help}");
        for name in names {
            assert!(words.contains(&format!("\n{noun} {name}")), "{noun} {name} is not in the page");
        }
    }
    assert!(!page.contains("leash") && words.contains("\nserve"), "{page}");
}

#[test]
fn pages_are_written_one_a_command() {
    let folder = support::temp();
    let into = folder.path().join("man1");
    assert_eq!(hostwright(&["man", "--folder", into.to_str().unwrap()]), "");
    let read = |name: &str| std::fs::read_to_string(into.join(name)).unwrap();
    assert_eq!(read("hostwright.1"), hostwright(&["man"]));
    assert!(plain(&read("hostwright-hosts-approve.1")).contains("--wait"));
    assert!(!into.join("hostwright-leash.1").exists());
}
