use serde_json::json;

use super::*;

fn sources(files: &[(&str, &str)]) -> Sources {
    files.iter().map(|(path, text)| (relative(path).unwrap(), text.as_bytes().to_vec())).collect()
}

fn made(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let values = super::super::values(&super::super::values::tests::staging());
    let made = render(&sources(files), &values, |_, _| true).unwrap_or_else(|faults| panic!("{faults:?}"));
    made.into_iter()
        .map(|file| (file.path.as_str().to_owned(), String::from_utf8(file.bytes).unwrap()))
        .collect()
}

fn faults(files: &[(&str, &str)]) -> Vec<String> {
    let values =
        json!({"a": "one", "list": [1, 2], "map": {"x": "S3CRET"}, "big": 9_223_372_036_854_775_807_i64});
    let faults = render(&sources(files), &values, |_, _| true).unwrap_err();
    let said: Vec<String> = faults.iter().map(Fault::to_string).collect();
    assert!(!said.iter().any(|text| text.contains("S3CRET") || text.contains("922337")), "{said:?}");
    said
}

#[test]
fn templates_are_filled_in_and_the_rest_is_copied() {
    let files = [
        ("_labels.j2", "labels: {env: {{ environment }}}\n"),
        (
            "etcd.yaml.j2",
            "# {{ platform.kubeapi }}\n{% include \"_labels.j2\" %}\nnodes:\n{% for node in platform.nodes %}\n  - {{ node.address }}\n{% endfor %}\ntext: {{ environment|tojson }}\n",
        ),
        ("web/app.yaml", "a: {{ this is: no }} template\n"),
        ("web/.app.yaml.swp", "{{"),
    ];
    let expected = "# kube.eu.example.org\nlabels: {env: staging}\nnodes:\n  - 10.80.10.100\n  - 10.80.11.100\ntext: \"staging\"\n";
    assert_eq!(
        made(&files[..2]),
        [("etcd.yaml".to_owned(), expected.to_owned())],
        "what is for others to include is no file"
    );
    let wrong = faults(&[files[2], files[3]]);
    assert_eq!(wrong.len(), 1, "it is to be YAML though it is no template: {wrong:?}");
    assert_eq!(made(&[("a.txt", "{{ x }}")])[0].1, "{{ x }}");
}

#[test]
fn the_same_comes_of_the_same() {
    let files = [("a.json.j2", "{{ secure_nodes|tojson }}"), ("b.yaml.j2", "{{ platform|tojson }}")];
    let first = made(&files);
    assert!((0..20).all(|_| made(&files) == first));
}

#[test]
fn every_value_that_is_not_there_is_named_with_its_place() {
    let text = "x: {{ a }}\ny: {{ lost }} {{ map.none }}\n{% for i in gone.list %}\n- {{ i.deep }}\n{% endfor %}\n{% set z = nope %}{{ z.more }}{{ q|upper }}{{ lost }}\n{% if maybe is defined %}{{ maybe }}{% endif %}{{ other|default('fine') }}\n";
    let said = faults(&[("a.txt.j2", text)]);
    let missing: Vec<&str> =
        said.iter().filter_map(|text| text.split_once(" has no value").map(|(head, _)| head)).collect();
    assert_eq!(
        missing,
        [
            "a.txt.j2:2:7: `lost`",
            "a.txt.j2:2:18: `map.none`",
            "a.txt.j2:3:13: `gone`",
            "a.txt.j2:6:22: `nope`",
            "a.txt.j2:6:34: `q`",
            "a.txt.j2:6:47: `lost`",
        ],
        "{said:#?}"
    );
    assert_eq!(said.len(), 6, "{said:#?}");
}

#[test]
fn all_files_are_looked_at_and_each_fault_is_told_once() {
    let said = faults(&[
        ("_part.j2", "\n{{ lost }}\n"),
        ("a.txt.j2", "{% include '_part.j2' %}"),
        ("b.txt.j2", "{% include '_part.j2' %}"),
        ("c.txt.j2", "\n\n{% if %}"),
        ("d.txt.j2", "{{ a|nofilter }}"),
        ("e.txt.j2", "x\n{% include '../e' %}"),
        ("f.txt.j2", "{{ big * big * big }}"),
        ("g.txt.j2", "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}"),
        ("h.txt.j2", "{{ map.x + 1 }}"),
        ("i.yaml", "a: 1\nb: : 2\n"),
        ("j", "x"),
        ("j.j2", "x"),
        ("k.j2", "x"),
        ("k/l", "x"),
    ]);
    let starts = [
        "_part.j2:2: `lost` has no value",
        "c.txt.j2:3",
        "d.txt.j2:1:",
        "e.txt.j2:2",
        "f.txt.j2:1:",
        "g.txt.j2:1:",
        "h.txt.j2:1:",
        "i.yaml:2: ",
        "j.j2: becomes j, and so does j",
        "k.j2: becomes k, a file where k/l needs a folder",
    ];
    assert_eq!(said.len(), starts.len(), "{said:#?}");
    for (said, start) in said.iter().zip(starts) {
        assert!(said.starts_with(start), "{said} - {start}");
    }
}

#[test]
fn what_comes_out_wrong_is_told_where_it_came_from() {
    let said = faults(&[
        ("_part.j2", "x: 1\ny: 2\n"),
        ("a.yaml.j2", "{% for i in list %}\nx{{ i }}: 1\n{% endfor %}\nok: 1\nbad: : {{ a }}\n"),
        ("b.yaml.j2", "ok: 1\n{% include '_part.j2' %}\ny: 3\n"),
        ("c.json.j2", "{\"a\": {{ a }}}\n"),
        ("d.yaml.j2", "---\na: 1\n---\n\n{# a word #}\nb: [\n"),
    ]);
    let starts = [
        "a.yaml.j2:5: line 4 of a.yaml, which it becomes, is no YAML",
        "b.yaml.j2:3: line 4 of b.yaml, which it becomes, has a key a second time",
        "c.json.j2:1: line 1 of c.json, which it becomes, is no JSON at column 7",
        "d.yaml.j2:",
    ];
    assert_eq!(said.len(), starts.len(), "{said:#?}");
    for (said, start) in said.iter().zip(starts) {
        assert!(said.starts_with(start), "{said} - {start}");
    }
}

#[test]
fn only_what_is_wanted_is_looked_at() {
    let sources = sources(&[("a.yaml.j2", "a: {{ lost }}"), ("b.yaml.j2", "b: 1\n")]);
    let made = render(&sources, &json!({}), |path, _| path.as_str() == "b.yaml").unwrap();
    assert_eq!(made.len(), 1);
    assert_eq!((made[0].from.as_str(), made[0].sha256), ("b.yaml.j2", Checksum::of(b"b: 1\n")));
}
