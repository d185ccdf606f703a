use super::*;

/// The examples of the Kubernetes documentation.
const EXAMPLES: &str = r#"
# Alice may do anything to all resources.
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "alice", "namespace": "*", "resource": "*", "apiGroup": "*"}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "kubelet", "namespace": "*", "resource": "pods", "readonly": true}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "kubelet", "namespace": "*", "resource": "events"}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "bob", "namespace": "projectCaribou", "resource": "pods", "readonly": true}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"group": "system:authenticated", "readonly": true, "nonResourcePath": "*"}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"group": "system:unauthenticated", "readonly": true, "nonResourcePath": "*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"system:serviceaccount:kube-system:default","namespace":"*","resource":"*","apiGroup":"*"}}
"#;

/// More of v1beta1.
const MORE: &str = r#"
  # indented, behind an empty line
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"*","readonly":true,"nonResourcePath":"/api"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"*","nonResourcePath":"/custom/*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"dora","group":"ops","resource":"*","namespace":"a","apiGroup":"apps"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"erik","group":"*","resource":"nodes"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"resource":"*","namespace":"*","apiGroup":"*"}}
"#;

/// The old format.
const OLD: &str = r#"{"readonly": true, "resource": "events"}
{"user":"scheduler", "readonly": true, "resource": "pods"}
{"user":"scheduler", "resource": "bindings"}
{"user":"alice", "namespace": "projectCaribou"}
{"user":"bob", "readonly": true, "namespace": "projectCaribou"}
{"apiVersion":"abac.authorization.kubernetes.io/v0","kind":"Policy","group":"root"}
"#;

fn read(text: &str) -> Policies {
    Policies::parse(text.as_bytes()).unwrap().value
}

/// `user[/group] verb target`: the target is a path, or `[namespace:]resource[.group]`.
fn line_that_allows(policies: &Policies, case: &str) -> Option<usize> {
    let words: Vec<&str> = case.split(' ').collect();
    let (user, groups) = words[0].split_once('/').unwrap_or((words[0], ""));
    let groups: Vec<String> = groups.split(',').filter(|g| !g.is_empty()).map(str::to_owned).collect();
    let target = if words[2].starts_with('/') {
        Target::Path(words[2])
    } else {
        let (namespace, resource) = words[2].split_once(':').unwrap_or(("", words[2]));
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        Target::Resource { namespace, group, resource }
    };
    policies.allows(&Question { user, groups: &groups, verb: words[1], target }).map(|policy| policy.line)
}

fn check(policies: &Policies, cases: &[(&str, usize)]) {
    for (case, line) in cases {
        assert_eq!(line_that_allows(policies, case).unwrap_or(0), *line, "{case}");
    }
}

#[test]
fn the_examples_of_the_documentation() {
    let all = "/system:authenticated";
    let case = |text: &str| text.replacen(' ', &format!("{all} "), 1);
    let cases = [
        ("alice get ns:pods", 3),
        ("alice delete ns:deployments.apps", 3),
        ("alice create nodes", 3),
        ("alice get /version", 7),
        ("alice post /version", 0),
        ("kubelet list ns:pods", 4),
        ("kubelet get pods", 4),
        ("kubelet watch pods", 4),
        ("kubelet update ns:pods", 0),
        ("kubelet deletecollection ns:pods", 0),
        ("kubelet get ns:pods.metrics", 0),
        ("kubelet create ns:events", 5),
        ("kubelet create ns:events.events.k8s.io", 0),
        ("bob get projectCaribou:pods", 6),
        ("bob update projectCaribou:pods", 0),
        ("bob get projectBison:pods", 0),
        ("bob list pods", 0),
        ("bob get projectCaribou:secrets", 0),
        ("bob get /healthz", 7),
        ("system:serviceaccount:kube-system:default delete ns:secrets", 9),
        ("system:serviceaccount:kube-public:default get ns:secrets", 0),
    ];
    let policies = read(EXAMPLES);
    for (text, line) in cases {
        assert_eq!(line_that_allows(&policies, &case(text)).unwrap_or(0), line, "{text}");
    }
    check(
        &policies,
        &[
            ("system:anonymous/system:unauthenticated get /healthz", 8),
            ("system:anonymous/system:unauthenticated put /healthz", 0),
            ("system:anonymous get /healthz", 0),
            // Whoever is called so, with or without a group.
            ("alice get ns:pods", 3),
            ("Alice get ns:pods", 0),
        ],
    );
}

#[test]
fn wildcards_groups_and_paths() {
    check(
        &read(MORE),
        &[
            ("any/system:authenticated get /api", 3),
            ("any/system:authenticated get /api/v1", 0),
            ("any/system:authenticated post /api", 0),
            ("any get /api", 0),
            ("any/system:authenticated post /custom/x/y", 4),
            ("any/system:authenticated post /custom/", 4),
            ("any/system:authenticated post /custom", 0),
            // Both, where both are named.
            ("dora/ops delete a:deployments.apps", 5),
            ("dora delete a:deployments.apps", 0),
            ("fred/ops delete a:deployments.apps", 0),
            ("dora/ops delete a:pods", 0),
            ("dora/ops delete b:deployments.apps", 0),
            // A star as group is everybody who is authenticated, whatever the user says.
            ("fred/system:authenticated delete nodes", 6),
            ("erik delete nodes", 0),
            // Neither user nor group: nobody.
            ("fred/system:authenticated delete x:secrets", 0),
            ("/ get x:secrets", 0),
        ],
    );
}

#[test]
fn the_old_format_allows_all_that_it_does_not_say() {
    check(
        &read(OLD),
        &[
            ("scheduler/system:authenticated list ns1:pods", 2),
            ("scheduler/system:authenticated list pods.any", 2),
            ("scheduler/system:authenticated create ns1:pods", 0),
            ("scheduler/system:authenticated create ns1:bindings", 3),
            ("alice/system:authenticated update projectCaribou:widgets.bar", 4),
            ("alice/system:authenticated update ns1:widgets", 0),
            ("bob/system:authenticated get projectCaribou:pods", 5),
            ("bob/system:authenticated update projectCaribou:pods", 0),
            ("chuck/system:authenticated get ns1:events", 1),
            ("chuck get ns1:events", 0),
            ("chuck/system:authenticated update ns1:events", 0),
            // Nothing but a group: everything, paths included.
            ("chuck/root delete nodes", 6),
            ("chuck/root post /anything", 6),
            ("alice/system:authenticated get /version", 0),
        ],
    );
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_line() {
    let v1 = r#""apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy""#;
    let cases = [
        (String::new(), 1, "empty"),
        ("{}\n[1]".to_owned(), 2, "no JSON object"),
        ("# x\n\n{\"user\": \"a\"".to_owned(), 3, "no JSON at column"),
        (r#"{"user": 1}"#.to_owned(), 1, "user is no string"),
        (r#"{"user": "a", "readonly": "yes"}"#.to_owned(), 1, "readonly is neither"),
        (format!("{{{v1},\"spec\":[]}}"), 1, "spec is no object"),
        (format!("{{{v1},\"spec\":{{\"resource\":{{}}}}}}"), 1, "resource is no string"),
        (r#"{"kind":"Policy","spec":{"user":"a"}}"#.to_owned(), 1, "old line that allows everything"),
        (r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","spec":{}}"#.to_owned(), 1, "old line"),
        (r#"{"apiVersion":"v1","kind":"Policy","spec":{}}"#.to_owned(), 1, "apiVersion is not"),
        (r#"{"apiVersion":"v1","kind":"Pod"}"#.to_owned(), 1, "kind is not Policy"),
        ("{}\n\0\0".to_owned(), 2, "NUL"),
    ];
    for (text, line, says) in cases {
        let error = Policies::parse(text.as_bytes()).unwrap_err();
        assert!(error.line == line && error.text.contains(says), "{text:?}: {error}");
    }
}

#[test]
fn what_is_doubtful_is_said() {
    let v1 = r#""apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy""#;
    let text = format!(
        "{{{v1},\"spec\":{{\"user\":\"a\",\"namspace\":\"b\"}}}}\n{{}}\n{{{v1}}}\n{{\"user\":\"a\",\"zzz\":1}}\n# end"
    );
    let warnings = Policies::parse(text.as_bytes()).unwrap().warnings;
    let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    let expected = [
        "line 1: namspace is unknown and ignored: is namespace meant?",
        "line 2: allows everything to everybody who has a token or a certificate",
        "line 3: names neither user nor group: it is nobody's",
        "line 4: zzz is unknown and ignored",
    ];
    assert_eq!(said, expected);
    assert!(read("# nothing is allowed").is_empty());
}
