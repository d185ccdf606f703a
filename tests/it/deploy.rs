//! What is shipped for a cluster, and what `deploy render` makes of it for an environment.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support;

fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets")
}

/// All files under a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The containers of a value, wherever they stand in it.
fn containers(value: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    if let Some(map) = value.as_object() {
        for key in ["containers", "initContainers"] {
            found.extend(map.get(key).and_then(Value::as_array).into_iter().flatten());
        }
        found.extend(map.values().flat_map(containers));
    }
    found.extend(value.as_array().into_iter().flatten().flat_map(containers));
    found
}

/// A container whose image is there already is not pulled, and its image does not change under its name.
fn not_pulled(of: &str, container: &Value) {
    let image = container["image"].as_str().unwrap_or_else(|| panic!("{of}: no image"));
    assert_eq!(container["imagePullPolicy"], "IfNotPresent", "{of}: {image}");
    let tag = image.rsplit('/').next().unwrap().split_once(':').map(|(_, tag)| tag);
    // That of the Job templates is the setting's, which is checked when it is rendered.
    let of_setting = of.ends_with("job.yaml");
    let fixed = image.contains("@sha256:") || tag.is_some_and(|tag| tag != "latest");
    assert!(fixed || of_setting, "{of}: {image} has no fixed tag");
}

/// An environment that has its own ARA.
const ARA: &str = "ara.url = \"https://ara.example.org\"\nara_server.database = \"pg.example.org\"\n";

/// A home with an environment for a cluster.
pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new(more: &str) -> Self {
        let home = support::temp();
        let config = format!(
            "[job]\nimage = \"registry.example.org:5000/hostwright:1.2.3\"\n[environments.prod]\n\
             policy.source = \"https://git.example.org/policy.git\"\nkubernetes.namespace = \"provisioning\"\n{more}"
        );
        std::fs::write(home.path().join("config.toml"), config).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(home.path().join("config.toml"), private).unwrap();
        Self(home)
    }

    fn hostwright(&self, args: &[&str], config: &Path) -> (i32, String, String) {
        let output = Command::new(support::exe())
            .args(args)
            .env_clear()
            .env("HOME", self.0.path())
            .env("HOSTWRIGHT_CONFIG", config)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn render(&self) -> (i32, String, String) {
        self.hostwright(&["-e", "prod", "deploy", "render"], &self.0.path().join("config.toml"))
    }

    pub(crate) fn objects(&self) -> Vec<Value> {
        let (code, out, err) = self.render();
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert_eq!(self.render().1, out, "the same comes of the same");
        documents(&out)
    }
}

pub(crate) fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    objects.iter().find(is).unwrap_or_else(|| panic!("no {kind} {name}"))
}

#[test]
fn no_image_that_is_there_is_pulled_in_all_that_is_shipped() {
    let mut seen = 0;
    for file in files(&assets()) {
        let name = file.display().to_string();
        if [".yaml", ".yml"].iter().any(|end| name.ends_with(end)) && !name.contains("/policy/") {
            for document in documents(&std::fs::read_to_string(&file).unwrap()) {
                for container in containers(&document) {
                    not_pulled(&name, container);
                    seen += 1;
                }
            }
        }
    }
    let rendered = Home::new(ARA).objects();
    for container in rendered.iter().flat_map(containers) {
        not_pulled("deploy render", container);
        assert_eq!(container["image"], "registry.example.org:5000/hostwright:1.2.3");
        seen += 1;
    }
    assert!(seen >= 9, "only {seen} containers were found");
}

/// The objects of a folder's kustomization, which names every file and folder that is there.
fn kustomized(folder: &Path) -> Vec<Value> {
    let kustomization = std::fs::read_to_string(folder.join("kustomization.yaml")).unwrap();
    let listed: BTreeSet<String> = documents(&kustomization)[0]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    let there = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let objects = there.filter(|path| {
        path.join("kustomization.yaml").exists() || path.extension().is_some_and(|e| e == "yaml")
    });
    let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let there: BTreeSet<String> = objects.map(name).filter(|name| name != "kustomization.yaml").collect();
    assert_eq!(listed, there);
    let objects = |path: PathBuf| match path.is_dir() {
        true => kustomized(&path),
        false => documents(&std::fs::read_to_string(path).unwrap()),
    };
    listed.iter().flat_map(|name| objects(folder.join(name))).collect()
}

#[test]
fn the_kustomization_has_every_file() {
    // What is rendered is what is shipped, object by object.
    let who = |objects: &[Value]| -> BTreeSet<String> {
        objects
            .iter()
            .map(|o| format!("{} {}", o["kind"], o["metadata"]["name"]))
            // Those whose names are the environment's.
            .map(|name| if name.starts_with("\"Namespace\"") { "Namespace".to_owned() } else { name })
            .map(|name| name.replace("hostwright-nodes-provisioning", "hostwright-nodes"))
            .collect()
    };
    let shipped = kustomized(&assets().join("deploy"));
    let rendered = Home::new(ARA).objects();
    assert_eq!((who(&rendered), rendered.len()), (who(&shipped), shipped.len()));
    // ARA is somebody else's unless the environment says otherwise.
    let without = kustomized(&assets().join("deploy/ara"));
    let rendered = Home::new("ara.url = \"https://ara.example.org\"\n").objects();
    assert_eq!(rendered.len(), shipped.len() - without.len());
    assert!(who(&rendered).is_disjoint(&who(&without)));
}

/// The pods of all that is deployed, with the object that makes each.
fn pods(objects: &[Value]) -> Vec<(String, &Value)> {
    let templates = ["/spec/template/spec", "/spec/jobTemplate/spec/template/spec"];
    let pod = |object: &'_ Value| templates.iter().find_map(|at| object.pointer(at).is_some().then_some(*at));
    objects
        .iter()
        .filter_map(|object| Some((object["metadata"]["name"].to_string(), object.pointer(pod(object)?)?)))
        .collect()
}

#[test]
fn every_pod_heeds_the_restricted_standard_and_writes_nowhere_but_in_its_volumes() {
    let objects = Home::new(ARA).objects();
    let pods = pods(&objects);
    assert_eq!(pods.len(), 3);
    for (name, pod) in pods {
        let context = &pod["securityContext"];
        assert_eq!(context["runAsNonRoot"], true, "{name}");
        assert!(context["runAsUser"].as_u64().is_some_and(|user| user > 0), "{name}");
        assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault", "{name}");
        for container in containers(pod) {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(context["readOnlyRootFilesystem"], true, "{name}");
            assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}), "{name}");
            assert!(container["resources"]["limits"]["memory"].is_string(), "{name}");
        }
        for volume in pod["volumes"].as_array().unwrap() {
            let kinds = ["configMap", "secret", "emptyDir"];
            assert!(kinds.iter().any(|kind| volume.get(kind).is_some()), "{name}: {volume}");
            if let Some(secret) = volume.get("secret") {
                // 0440, and the group is the pod's.
                assert_eq!(secret["defaultMode"], 0o440, "{name}");
                assert_eq!(context["fsGroup"], context["runAsUser"], "{name}");
            }
        }
        for outside in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(pod.get(outside).is_none(), "{name}");
        }
    }
}

#[test]
fn ara_has_the_database_the_names_and_the_time_of_the_environment() {
    let more = "ara.url = \"https://results.example.org/ara\"\n\
                ara_server = { database = \"pg-1.db.example.org\", port = 5433, name = \"results\", user = \"writer\", \
                keep_for = \"36h\", ingress = \"traefik\" }\n";
    let objects = Home::new(more).objects();
    let settings = find(&objects, "ConfigMap", "hostwright-ara")["data"]["settings.yaml"].as_str().unwrap();
    let settings = &documents(settings)[0]["default"];
    for (key, value) in [
        ("DATABASE_HOST", json!("pg-1.db.example.org")),
        ("DATABASE_PORT", json!(5433)),
        ("DATABASE_NAME", json!("results")),
        ("DATABASE_USER", json!("writer")),
        (
            "ALLOWED_HOSTS",
            json!([
                "results.example.org",
                "hostwright-ara",
                "hostwright-ara.provisioning",
                "hostwright-ara.provisioning.svc",
                "localhost"
            ]),
        ),
    ] {
        assert_eq!(settings[key], value, "{key}");
    }
    assert_eq!(settings["DATABASE_OPTIONS"]["sslmode"], "verify-full");
    assert!(settings.get("DATABASE_PASSWORD").is_none() && settings.get("SECRET_KEY").is_none());
    let policy = find(&objects, "NetworkPolicy", "hostwright-ara");
    let ingress = &policy["spec"]["ingress"][0]["from"][0]["namespaceSelector"]["matchLabels"];
    assert_eq!(ingress["kubernetes.io/metadata.name"], "traefik");
    assert_eq!(policy["spec"]["egress"][1]["ports"][0]["port"], 5433);
    let prune = find(&objects, "CronJob", "hostwright-ara-prune");
    let prune = &prune["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0];
    let command = json!(["ara", "playbook", "prune", "--days", "2", "--limit", "5000", "--confirm"]);
    assert_eq!(prune["command"], command);

    let (code, out, err) = Home::new("ara_server.database = \"pg.example.org\"\n").render();
    assert!(code == 2 && out.is_empty() && err.contains("ara.url"), "{code} {err}");
}

#[test]
fn ara_s_parts_find_each_other() {
    let objects = Home::new(ARA).objects();
    let server = find(&objects, "Deployment", "hostwright-ara");
    let pod = &server["spec"]["template"];
    let labels = &pod["metadata"]["labels"];
    assert_eq!(&server["spec"]["selector"]["matchLabels"], labels);
    let service = find(&objects, "Service", "hostwright-ara");
    assert_eq!(&service["spec"]["selector"], labels);
    let policy = find(&objects, "NetworkPolicy", "hostwright-ara");
    assert_eq!(&policy["spec"]["podSelector"]["matchLabels"], labels);
    let prune = &find(&objects, "CronJob", "hostwright-ara-prune")["spec"]["jobTemplate"]["spec"]["template"];
    let of_prune = &prune["metadata"]["labels"];
    assert_eq!(&policy["spec"]["ingress"][0]["from"][2]["podSelector"]["matchLabels"], of_prune);
    let policy_of_prune = find(&objects, "NetworkPolicy", "hostwright-ara-prune");
    assert_eq!(&policy_of_prune["spec"]["podSelector"]["matchLabels"], of_prune);
    assert_eq!(&policy_of_prune["spec"]["egress"][1]["to"][0]["podSelector"]["matchLabels"], labels);
    // Its pods are no runs: the label that those have would let them be taken for some.
    for labels in [labels, of_prune] {
        assert!(labels.get("app.kubernetes.io/managed-by").is_none());
    }
    for pod in [&pod["spec"], &prune["spec"]] {
        let account = find(&objects, "ServiceAccount", pod["serviceAccountName"].as_str().unwrap());
        assert_eq!(account["automountServiceAccountToken"], false);
        assert_eq!(pod["automountServiceAccountToken"], false);
    }
    // Nobody binds a Role to it.
    let bound = |object: &Value| object["subjects"].to_string().contains("hostwright-ara");
    assert!(!objects.iter().any(bound));
    let mounted = |container: &Value| container["volumeMounts"].clone();
    let containers = containers(&pod["spec"]);
    assert_eq!(containers.len(), 2);
    assert_eq!(mounted(containers[0]), mounted(containers[1]));
    assert_eq!(containers[0]["env"], containers[1]["env"]);
}

#[test]
fn every_object_is_where_the_environment_says_and_fits_the_others() {
    let more = "targets.namespace = \"monitoring\"\ntargets.name = \"scrape\"\n\
                amqp.url = \"amqps://u:hunter2@rabbit.example.org/v\"\nara.url = \"https://ara.example.org\"\n\
                ara.token = \"hunter3\"\n[server]\nnetworks = [\"10.1.0.0/16\", \"fd00:1::/64\"]\ntoken_file = \"/x\"\n";
    let home = Home::new(more);
    let objects = home.objects();
    let text = home.render().1;
    assert!(!text.contains("hunter"), "no secret is printed");
    assert!(!text.contains("serviceaccount:hostwright:") && text.contains("serviceaccount:provisioning:"));
    for object in &objects {
        let namespace = object["metadata"]["namespace"].as_str();
        let everywhere = [
            "Namespace",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ClusterRole",
            "ClusterRoleBinding",
        ];
        if everywhere.iter().any(|kind| object["kind"] == *kind) {
            assert_eq!(namespace, None, "{object}");
        } else {
            let known = ["provisioning", "monitoring", "kube-system", "kube-public"];
            assert!(namespace.is_some_and(|namespace| known.contains(&namespace)), "{object}");
        }
        for subject in
            object["subjects"].as_array().into_iter().flatten().filter(|s| s["kind"] == "ServiceAccount")
        {
            assert_eq!(subject["namespace"], "provisioning");
            find(&objects, "ServiceAccount", subject["name"].as_str().unwrap());
        }
        for (binding, role) in [("RoleBinding", "Role"), ("ClusterRoleBinding", "ClusterRole")] {
            if object["kind"] == binding {
                assert_eq!(object["roleRef"]["kind"], role);
                find(&objects, role, object["roleRef"]["name"].as_str().unwrap());
            }
        }
    }
    let targets = find(&objects, "ConfigMap", "scrape");
    assert_eq!((&targets["metadata"]["namespace"], targets.get("data")), (&json!("monitoring"), None));
    let role = find(&objects, "Role", "hostwright-targets");
    assert_eq!(role["rules"][0]["resourceNames"], json!(["scrape"]));

    // All that is allowed in the whole cluster, and to whom.
    let wide: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "ClusterRole").collect();
    assert_eq!((wide.len(), &wide[0]["rules"][0]["resources"]), (1, &json!(["nodes"])));
    assert_eq!((&wide[0]["rules"][0]["verbs"], wide[0]["rules"][1].is_null()), (&json!(["get"]), true));
    let bound = find(&objects, "ClusterRoleBinding", "hostwright-nodes-provisioning");
    assert_eq!(bound["subjects"].as_array().unwrap().len(), 1);
    assert_eq!(bound["subjects"][0]["name"], "hostwright-provision");

    let server = find(&objects, "Deployment", "hostwright-server");
    let pod = &server["spec"]["template"];
    let labels = &pod["metadata"]["labels"];
    for (kind, at) in [
        ("Service", "/spec/selector"),
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
        ("NetworkPolicy", "/spec/podSelector/matchLabels"),
    ] {
        assert_eq!(find(&objects, kind, "hostwright-server").pointer(at), Some(labels), "{kind}");
    }
    assert_eq!(&server["spec"]["selector"]["matchLabels"], labels);
    find(&objects, "ServiceAccount", pod["spec"]["serviceAccountName"].as_str().unwrap());
    let policy = find(&objects, "NetworkPolicy", "hostwright-server");
    let from = json!([{"ipBlock": {"cidr": "10.1.0.0/16"}}, {"ipBlock": {"cidr": "fd00:1::/64"}}]);
    assert_eq!(policy["spec"]["ingress"][0]["from"], from);
    let port = &policy["spec"]["ingress"][0]["ports"][0]["port"];
    assert_eq!(&find(&objects, "Service", "hostwright-server")["spec"]["ports"][0]["port"], port);

    // The program itself takes the configuration that it gets, with the secrets that its Secret has, and listens where the others
    // expect it.
    let listens = format!("listen = \"[::]:{port}\"");
    for (reader, files) in [
        ("hostwright-server", ["amqp-url", "hook-token"]),
        ("hostwright-provision", ["amqp-url", "ara-token"]),
    ] {
        let config = find(&objects, "ConfigMap", reader)["data"]["config.toml"].as_str().unwrap();
        assert_eq!(config.contains(&listens), reader == "hostwright-server", "{config}");
        let secrets = home.0.path().join(reader);
        std::fs::create_dir(&secrets).unwrap();
        for name in files {
            std::fs::write(secrets.join(name), "amqp://a:b@c/d").unwrap();
            assert!(config.contains(&format!("/etc/hostwright-secrets/{name}")), "{config}");
        }
        assert_eq!(config.matches("/etc/hostwright-secrets/").count(), files.len(), "{config}");
        let here = config.replace("/etc/hostwright-secrets", secrets.to_str().unwrap());
        std::fs::write(home.0.path().join("pod.toml"), here).unwrap();
        let (code, out, err) = home.hostwright(&["config", "check"], &home.0.path().join("pod.toml"));
        assert_eq!(code, 0, "{out}{err}\n{config}");
    }
}

/// The account, ConfigMaps and Secrets that a pod has.
fn has<'a>(pod: &'a Value) -> (&'a str, BTreeSet<&'a str>) {
    let volumes = pod["volumes"].as_array().unwrap().iter();
    let of = |volume: &'a Value| volume.pointer("/configMap/name").or(volume.pointer("/secret/secretName"));
    assert!(!pod.to_string().contains("envFrom"), "a whole Secret in the environment: {pod}");
    // That of the runs is the setting's.
    let account = pod["serviceAccountName"].as_str().unwrap_or("hostwright-provision");
    (account, volumes.filter_map(|volume| of(volume)?.as_str()).collect())
}

#[test]
fn server_and_runs_read_nothing_of_each_other() {
    let objects = Home::new("").objects();
    let server = &find(&objects, "Deployment", "hostwright-server")["spec"]["template"]["spec"];
    assert_eq!(has(server), ("hostwright-server", BTreeSet::from(["hostwright-server"])));
    let job = documents(&std::fs::read_to_string(assets().join("job.yaml")).unwrap());
    assert_eq!(
        has(&job[0]["spec"]["template"]["spec"]),
        ("hostwright-provision", BTreeSet::from(["hostwright-provision"]))
    );
}

#[test]
fn the_deployment_is_as_its_table_says() {
    let more = "hook = \"https://hook.example.org\"\n[deploy]\nreplicas = 3\njobs = 20000\negress = [\"10.2.0.0/16\", \"fd00:2::/64\"]\n\
                ingress_class = \"nginx\"\n[server]\nnetworks = [\"10.1.0.0/16\"]\nproxies = [\"10.244.0.0/16\"]\n";
    let home = Home::new(more);
    let objects = home.objects();
    let server = find(&objects, "Deployment", "hostwright-server");
    assert_eq!(server["spec"]["replicas"], 3);
    let quota = find(&objects, "ResourceQuota", "hostwright-jobs");
    assert_eq!(quota["spec"]["hard"]["count/jobs.batch"], "20000");
    let reached = json!([{"ipBlock": {"cidr": "10.2.0.0/16"}}, {"ipBlock": {"cidr": "fd00:2::/64"}}]);
    for name in ["hostwright-server", "hostwright-runs"] {
        assert_eq!(find(&objects, "NetworkPolicy", name)["spec"]["egress"][1]["to"], reached, "{name}");
    }
    // The Ingress leads to the hook alone, and its controller may call.
    let ingress = find(&objects, "Ingress", "hostwright-hook");
    let rule = &ingress["spec"]["rules"][0];
    assert_eq!(
        (&rule["host"], &ingress["spec"]["tls"][0]["hosts"][0]),
        (&json!("hook.example.org"), &json!("hook.example.org"))
    );
    let paths = rule["http"]["paths"].as_array().unwrap();
    assert_eq!(
        (paths.len(), &paths[0]["path"], &paths[0]["pathType"]),
        (1, &json!("/host/online"), &json!("Exact"))
    );
    let service = &paths[0]["backend"]["service"];
    let port = &find(&objects, "Service", service["name"].as_str().unwrap())["spec"]["ports"][0]["name"];
    assert_eq!(&service["port"]["name"], port);
    let from = json!([{"ipBlock": {"cidr": "10.1.0.0/16"}}, {"ipBlock": {"cidr": "10.244.0.0/16"}}]);
    assert_eq!(find(&objects, "NetworkPolicy", "hostwright-server")["spec"]["ingress"][0]["from"], from);

    // Another configuration is another pod, so that the servers change over; what only the runs read is not.
    let pod =
        |objects: &[Value]| find(objects, "Deployment", "hostwright-server")["spec"]["template"].clone();
    let other = |from: &str, to: &str| pod(&Home::new(&more.replace(from, to)).objects());
    assert_ne!(other("10.1.0.0/16", "10.3.0.0/16"), pod(&objects));
    assert_eq!(pod(&Home::new(&format!("{more}[provision]\nsigner = \"off\"\n")).objects()), pod(&objects));
}

#[test]
fn values_never_become_structure_and_what_cannot_be_is_refused() {
    let hostile = "policy.variables.x = \"a\\n---\\nkind: Secret\\n{{ x }} \\\"'\"\n";
    let objects = Home::new(hostile).objects();
    assert_eq!(objects.len(), Home::new("").objects().len());
    assert!(!objects.iter().any(|object| object["kind"] == "Secret"));
    for (more, says) in [
        ("[job]\nimage = \"hostwright\"\n", "fixed tag"),
        ("[job]\nimage = \"registry:5000/hostwright:latest\"\n", "fixed tag"),
        ("[job]\nimage = \"a:1\"\nservice_account = \"mine\"\n", "job.service_account"),
    ] {
        let home = Home::new("");
        let config = std::fs::read_to_string(home.0.path().join("config.toml")).unwrap();
        let rest = config.split_once("[environments").unwrap().1;
        std::fs::write(home.0.path().join("config.toml"), format!("{more}[environments{rest}")).unwrap();
        let (code, out, err) = home.render();
        assert!(code == 2 && out.is_empty() && err.contains(says), "{code} {err}");
    }
    let ingress = "[deploy]\ningress_class = \"nginx\"\n";
    let proxies = "[server]\nproxies = [\"10.244.0.0/16\"]\n";
    for (more, says) in [
        ("playground = true\n".to_owned(), "playground"),
        ("[deploy]\njobs = 500\n".to_owned(), "server.pending_limit"),
        (format!("{ingress}{proxies}"), "hook"),
        (format!("hook = \"http://hook.example.org\"\n{ingress}{proxies}"), "https://"),
        (format!("hook = \"https://[fd00::1]\"\n{ingress}{proxies}"), "a name"),
        (format!("hook = \"https://hook.example.org\"\n{ingress}"), "server.proxies"),
    ] {
        let (code, out, err) = Home::new(&more).render();
        assert!(code == 2 && out.is_empty() && err.contains(says), "{code} {err}");
    }
    for (source, says) in
        [("/srv/policy", "git URL"), ("https://u:hunter2@git.example.org/p.git", "password")]
    {
        let home = Home::new("");
        let config = std::fs::read_to_string(home.0.path().join("config.toml")).unwrap();
        let config = config.replace("https://git.example.org/policy.git", source);
        std::fs::write(home.0.path().join("config.toml"), config).unwrap();
        let (code, _, err) = home.render();
        assert!(code == 2 && err.contains(says) && !err.contains("hunter2"), "{code} {err}");
    }
}
