//! YAML for Ansible to read: JSON values on one line, in a form that every YAML reader takes for the same value, and marked
//! `!unsafe` where the text is somebody else's and must never be run as a template.

use std::fmt::Write as _;

use serde_json::Value;

/// A value as data: Ansible takes every text in it, keys included, as it is.
pub(super) fn data(value: &Value) -> String {
    let mut out = String::from("!unsafe ");
    write(value, &mut out);
    out
}

/// A value that the configuration wrote: templates in it are templates.
pub(super) fn trusted(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// A key and what is written for it. The key is written in the long form, `? key`: the short one ends at 1024 characters.
pub(super) fn entry(key: &str, value: &str) -> String {
    let mut out = String::from("? ");
    quote(key, &mut out);
    out.push_str("\n: ");
    out.push_str(value);
    out.push('\n');
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(yes) => out.push_str(if *yes { "true" } else { "false" }),
        Value::Number(number) if number.is_f64() => {
            // YAML 1.1 takes `1e16` for a text.
            let _ = write!(out, "!!float \"{number}\"");
        }
        Value::Number(number) => {
            let _ = write!(out, "{number}");
        }
        Value::String(text) => quote(text, out),
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write(item, out);
                out.push_str(", ");
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (key, item) in map {
                out.push_str("? ");
                quote(key, out);
                out.push_str(" : ");
                write(item, out);
                out.push_str(", ");
            }
            out.push('}');
        }
    }
}

/// A double-quoted scalar in plain ASCII: YAML forbids many characters that JSON lets stand.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            ' '..='~' => out.push(c),
            _ => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_reads_back(value in any_json()) {
            let text = trusted(&value);
            prop_assert!(text.bytes().all(|b| (b' '..=b'~').contains(&b)));
            let read: Value = serde_saphyr::from_str(&text).unwrap();
            prop_assert_eq!(read, value);
        }
    }

    #[test]
    fn data_is_marked_and_stays_on_one_line() {
        assert_eq!(data(&json!("{{ 7*7 }}\n")), r#"!unsafe "{{ 7*7 }}\U0000000A""#);
        assert_eq!(data(&json!({"a": [1.5]})), r#"!unsafe {? "a" : [!!float "1.5", ], }"#);
    }
}
