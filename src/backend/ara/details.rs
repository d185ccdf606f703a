//! The content of one result: what a module returned, in the shapes that Ansible's modules use.

use serde_json::Value;

use super::follow::settle;
use super::wire::{RawDetails, Status};
use crate::domain::results::{FileDiff, ResultDetails, ResultStatus, TaskResult};

/// What Ansible puts in the place of a traceback that it keeps to itself.
const NO_TRACEBACK: &str = "(traceback unavailable)";

/// Joins and decodes. `failures` are the ids of the host's failures, oldest first.
pub(super) fn decode(raw: RawDetails, failures: &[u64]) -> ResultDetails {
    let over = raw.playbook.over();
    let status = match raw.how.status() {
        Status::Failed if over => {
            let counted = usize::try_from(raw.host.failed).unwrap_or(usize::MAX);
            let rescued = failures.len().saturating_sub(counted);
            settle(Status::Failed, failures.iter().take(rescued).any(|id| *id == raw.id))
        }
        Status::Unreachable => settle(Status::Unreachable, over && raw.host.unreachable == 0),
        other => settle(other, false),
    };
    let (role, task) = raw.task.role_and_name();
    let result = TaskResult {
        id: raw.id,
        playbook: raw.playbook.id,
        play: raw.play.name.unwrap_or_default(),
        role,
        task,
        place: raw.task.place(),
        action: raw.task.action.unwrap_or_default(),
        host: raw.host.name,
        status,
        changed: raw.how.changed,
        started: raw.how.started,
        duration_ms: raw.how.duration_ms(),
    };
    with_content(result, raw.content)
}

fn with_content(result: TaskResult, content: Value) -> ResultDetails {
    let bad = matches!(result.status, ResultStatus::Failed | ResultStatus::Rescued | ResultStatus::Ignored);
    let exception = text_of(&content, "exception");
    ResultDetails {
        message: message(&content, bad),
        stdout: output(&content, "stdout"),
        stderr: output(&content, "stderr"),
        rc: rc(&content),
        exception: if exception == NO_TRACEBACK { String::new() } else { exception },
        diffs: parts(&content).flat_map(diffs).collect(),
        censored: content.get("censored").is_some(),
        content,
        result,
    }
}

/// The results of a loop's items; none for other tasks.
fn items(content: &Value) -> impl Iterator<Item = &Value> {
    content.get("results").and_then(Value::as_array).into_iter().flatten().filter(|item| item.is_object())
}

/// The result itself and those of its items.
fn parts(content: &Value) -> impl Iterator<Item = &Value> {
    std::iter::once(content).chain(items(content))
}

fn message(content: &Value, bad: bool) -> String {
    let mut message = text_of(content, "msg");
    if message.is_empty() {
        message = text_of(content, "censored");
    }
    // "One or more items failed" says neither which nor why.
    let failed = |item: &&Value| item.get("failed").and_then(Value::as_bool).unwrap_or(false);
    for item in items(content).filter(failed).filter(|_| bad) {
        let variable = item.get("ansible_loop_var").and_then(Value::as_str).unwrap_or("item");
        let label = text_of(item, variable);
        message.push_str(&format!("\n{variable}={label}: {}", text_of(item, "msg")));
    }
    message.trim_start_matches('\n').to_owned()
}

/// What a command wrote: of the task, of a module that broke, or of the items of a loop, one after the other.
fn output(content: &Value, which: &str) -> String {
    let own = stream(content, which);
    if !own.is_empty() {
        return own;
    }
    let broken = text_of(content, &format!("module_{which}"));
    if !broken.is_empty() {
        return broken;
    }
    let parts: Vec<String> =
        items(content).map(|item| stream(item, which)).filter(|t| !t.is_empty()).collect();
    parts.join("\n")
}

fn stream(content: &Value, which: &str) -> String {
    let whole = text_of(content, which);
    if !whole.is_empty() {
        return whole;
    }
    let lines = content.get(format!("{which}_lines")).and_then(Value::as_array);
    let lines: Vec<String> = lines.into_iter().flatten().map(text).collect();
    lines.join("\n")
}

/// The exit code, of a loop the first that is not 0.
fn rc(content: &Value) -> Option<i64> {
    let own = |part: &Value| match part.get("rc")? {
        Value::String(text) => text.parse().ok(),
        number => number.as_i64(),
    };
    let of_items = || {
        let codes: Vec<i64> = items(content).filter_map(own).collect();
        codes.iter().find(|code| **code != 0).or(codes.first()).copied()
    };
    own(content).or_else(of_items)
}

/// One diff or a list of them.
fn diffs(content: &Value) -> Vec<FileDiff> {
    let found: Vec<&Value> = match content.get("diff") {
        Some(Value::Array(several)) => several.iter().collect(),
        Some(one @ Value::Object(_)) => vec![one],
        _ => vec![],
    };
    let shown = |diff: &FileDiff| !diff.prepared.is_empty() || diff.before != diff.after;
    found.into_iter().map(diff).filter(shown).collect()
}

fn diff(diff: &Value) -> FileDiff {
    // Modules say before and after as text, or as an object of attributes.
    let side = |key: &str| match diff.get(key) {
        Some(attributes @ (Value::Object(_) | Value::Array(_))) => {
            serde_json::to_string_pretty(attributes).map(|text| text + "\n").unwrap_or_default()
        }
        Some(other) => text(other),
        None => String::new(),
    };
    let mut prepared = side("prepared");
    for (key, why) in [
        ("src_binary", "the source is binary"),
        ("dst_binary", "the destination is binary"),
        ("src_larger", "the source is too large"),
        ("dst_larger", "the destination is too large"),
    ] {
        // True, or the limit in bytes.
        if diff.get(key).is_some_and(|v| !matches!(v, Value::Null | Value::Bool(false))) {
            prepared.push_str(&format!("diff skipped: {why}\n"));
        }
    }
    FileDiff {
        before_header: side("before_header"),
        after_header: side("after_header"),
        before: side("before"),
        after: side("after"),
        prepared,
    }
}

fn text_of(content: &Value, key: &str) -> String {
    content.get(key).map(text).unwrap_or_default()
}

/// A text as it is, nothing as nothing, a list of texts line by line, anything else as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(lines) if lines.iter().all(Value::is_string) => {
            lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
        }
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn details(content: Value, status: ResultStatus) -> ResultDetails {
        let result = TaskResult {
            id: 1,
            playbook: 1,
            play: "p".into(),
            role: None,
            task: "t".into(),
            action: "command".into(),
            host: "h".into(),
            status,
            changed: true,
            started: None,
            duration_ms: 0,
            place: String::new(),
        };
        with_content(result, content)
    }

    #[test]
    fn a_loop_says_which_item_failed_and_why() {
        let content = json!({"msg": "One or more items failed", "results": [
            {"ansible_loop_var": "item", "item": 0, "rc": 0, "failed": false, "stdout": "zero", "msg": ""},
            {"ansible_loop_var": "item", "item": {"a": 1}, "rc": 2, "failed": true, "stdout": "one", "msg": "bad"},
        ]});
        let details = details(content, ResultStatus::Failed);
        assert_eq!(details.message, "One or more items failed\nitem={\n  \"a\": 1\n}: bad");
        assert_eq!((details.stdout.as_str(), details.rc), ("zero\none", Some(2)));
    }

    #[test]
    fn output_comes_as_text_as_lines_or_from_a_broken_module() {
        let of = |content| details(content, ResultStatus::Ok);
        assert_eq!(of(json!({"stdout": "a\nb", "stdout_lines": ["a", "b"]})).stdout, "a\nb");
        assert_eq!(of(json!({"stdout_lines": ["a", "b"]})).stdout, "a\nb");
        assert_eq!(of(json!({"module_stderr": "Traceback", "rc": "1"})).stderr, "Traceback");
        assert_eq!(of(json!({"rc": "1"})).rc, Some(1));
        assert_eq!(of(json!({"msg": ["a", "b"]})).message, "a\nb");
        assert_eq!(of(json!({"msg": {"a": 1}})).message, "{\n  \"a\": 1\n}");
        assert_eq!(of(json!({"exception": NO_TRACEBACK})).exception, "");
        let nothing = of(Value::Null);
        assert_eq!((nothing.message.as_str(), nothing.rc, nothing.diffs.len()), ("", None, 0));
    }

    #[test]
    fn diffs_in_every_form() {
        let of = |content| details(content, ResultStatus::Changed).diffs;
        let one =
            of(json!({"diff": {"before": "a\n", "after": "b\n", "before_header": "f", "after_header": "g"}}));
        assert_eq!((one[0].before.as_str(), one[0].after_header.as_str()), ("a\n", "g"));
        let list =
            of(json!({"diff": [{"after": "x"}, {"prepared": "+y"}, {"before": "same", "after": "same"}]}));
        assert_eq!(list.len(), 2);
        assert_eq!(list[1].prepared, "+y");
        let attributes = of(json!({"diff": {"before": {"mode": "0600"}, "after": {"mode": "0644"}}}));
        assert_eq!(attributes[0].after, "{\n  \"mode\": \"0644\"\n}\n");
        let binary = of(json!({"diff": {"dst_binary": 1, "before": "", "after": ""}}));
        assert_eq!(binary[0].prepared, "diff skipped: the destination is binary\n");
        let items = of(json!({"results": [{"diff": {"after": "1"}}, {"diff": {"after": "2"}}]}));
        assert_eq!(items.len(), 2);
    }

    #[test]
    fn what_is_not_recorded_is_said() {
        let content = json!({"censored": "the output has been hidden", "changed": true});
        let details = details(content, ResultStatus::Changed);
        assert!(details.censored);
        assert_eq!(details.message, "the output has been hidden");
    }
}
