use proptest::prelude::*;

use super::*;

/// Each word that begins with `S3` stands for something that must not be seen.
fn shown(text: &str, format: Format) -> String {
    let lines = masked(text, format);
    assert_eq!(lines.len(), text.split_inclusive('\n').count(), "{text}");
    let shown = lines.join("\n");
    assert!(!shown.contains("S3"), "{text}\n---\n{shown}");
    shown
}

#[test]
fn names_of_yaml_are_seen_and_values_are_not() {
    let text = "# S3 note\napiVersion: S3v1\ndata:\n  tls.crt: S3abc\n  list:\n    - S3a\n    - name: S3b\n      other: S3c\n---\nb: \"S3\"\n";
    let expected = "********\napiVersion: ********\ndata:\n  tls.crt: ********\n  list:\n********\n    - name: ********\n      other: ********\n---\nb: ********";
    assert_eq!(shown(text, Format::Yaml), expected);
}

#[test]
fn what_looks_like_a_name_inside_a_value_of_yaml_is_hidden() {
    let hidden = [
        "a: |\n  S3user: S3x\n\n  S3more: y\nb: S3\n",
        "a: >-\n  S3user: S3x\n",
        "- a: |\n    S3user: S3x\n  b: S3\n",
        "- |\n  S3user: S3x\n",
        "--- |\nS3user: S3x\n",
        "a: \"x\n  S3user: S3x\"\nb: S3\n",
        "a:\n  \"x\n  S3user: S3x\"\n",
        "a: 'x\n\n  S3user: S3x'\n",
        "a: { S3b: S3c,\n  S3d: S3e }\n",
        "a: [\n  S3b: S3c ]\n",
        "a: !x |\n  S3user: S3x\n",
        "a: &x |\n  S3user: S3x\n",
        "\"S3 a\": |\n  S3user: S3x\n",
        "? |\n  S3user: S3x\n: S3\n",
        "|\n S3user: S3x\n",
        "!!str |\nS3user: S3x\n",
        "a:\n   |\n  S3user: S3x\n",
        "a: &x\n   |\n  S3user: S3x\n",
        "-\n  |\n S3user: S3x\n",
        "S3 a: S3\n",
    ];
    for text in hidden {
        assert!(yaml(text).is_ok(), "{text}");
        shown(text, Format::Yaml);
    }
    // What is no YAML is hidden whole.
    assert_eq!(shown("a: S3\nb: [S3\n", Format::Yaml), "********\n********");
    // After a block it goes on.
    assert_eq!(shown("a: |\n  S3\nb: S3\n", Format::Yaml), "a: ********\n********\nb: ********");
}

#[test]
fn names_of_json_and_of_pairs_are_seen() {
    let json =
        "{\n  \"a\": \"S3\",\n  \"b\": {\n    \"c\": [\n      \"S3\",\n      {}\n    ]\n  }, \"S3\": 1\n}\n";
    let expected = "{\n  \"a\": ********\n  \"b\": {\n    \"c\": [\n********\n      {}\n    ]\n********\n}";
    assert_eq!(shown(json, Format::Json), expected);
    assert_eq!(shown("{\n  \"a\": \"S3\",\n}", Format::Json), "********\n********\n********");
    shown("{\"a\": \"x\\\"S3\\\": \"}", Format::Json);
    let pairs = "# S3\n[main]\nexport A=S3\nb = \"S3\"\nc = {\n  d = 'S3',\n}\nS3tail==\nS3tail=\n";
    let expected = "********\n[main]\nexport A = ********\nb = ********\nc = {\n  d = ********\n********\n********\n********";
    assert_eq!(shown(pairs, Format::Pairs), expected);
    for text in [
        "a = \"x\nS3b = S3\"\n",
        "a = <<EOF\nS3b = S3\nEOF\n",
        "a = x\\\nS3b = S3\n",
        "a = 'it\\'s\nS3b = S3'\n",
    ] {
        shown(text, Format::Pairs);
    }
}

#[test]
fn everything_else_is_hidden_whole() {
    for format in [Format::Tokens, Format::Policy, Format::JsonLines, Format::Other] {
        assert_eq!(shown("S3,S3\n\n{\"S3\": 1}", format), "********\n\n********");
    }
    let pem = "-----BEGIN RSA PRIVATE KEY-----\nS3\n-----BEGIN s3 x-----\n-----END RSA PRIVATE KEY-----\n";
    let expected = "-----BEGIN RSA PRIVATE KEY-----\n********\n********\n-----END RSA PRIVATE KEY-----";
    assert_eq!(shown(pem, Format::Pem), expected);
}

proptest! {
    /// Whatever a value is, how it is written as YAML or JSON shows none of it.
    #[test]
    fn no_value_is_seen(value in "(S3[a-z:{}\\[\\]|>\"'# -]{0,8}\n?){1,4}", depth in 0usize..3) {
        let mut tree = serde_json::json!({"k": [&value, {"n": &value}], "z": &value});
        for _ in 0..depth {
            tree = serde_json::json!({"up": tree, "list": [1]});
        }
        shown(&serde_json::to_string_pretty(&tree).unwrap(), Format::Json);
        shown(&serde_saphyr::to_string(&tree).unwrap(), Format::Yaml);
    }
}
