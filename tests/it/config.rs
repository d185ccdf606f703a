//! The configuration: folders of right and wrong files, the precedence of the layers, secrets, and what `config show` prints.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use hostwright::config::{
    Approval, AraCredentials, Config, DEFAULT, MistakeKind, Mistakes, Sources, Symbols, Variables, load_with,
};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config").join(name)
}

fn files(name: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn variables(list: &[(&str, &str)]) -> Variables {
    list.iter().copied().collect()
}

fn from_file(path: &Path) -> Sources {
    Sources { file: Some(path.to_path_buf()), ..Sources::default() }
}

/// A folder with files of these names and contents, for the owner only.
fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    folder
}

/// One file's configuration, or its mistakes with the file called `F` and its folder `D`.
fn one(text: &str, vars: &[(&str, &str)]) -> Result<Config, String> {
    let folder = written(&[("x.toml", text)]);
    let path = folder.path().join("x.toml");
    load_with(&from_file(&path), &variables(vars)).map_err(|mistakes| {
        let text = mistakes.to_string().replace(&path.display().to_string(), "F");
        text.replace(&folder.path().display().to_string(), "D")
    })
}

const LAN: &str = "[environments.lan]\npolicy.source = \"/p\"\n";

#[test]
fn every_invalid_file_has_the_one_mistake_that_it_names() {
    let files = files("invalid");
    assert!(files.len() > 50);
    let mut wrong = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = text.lines().next().unwrap().strip_prefix("# expect: ").unwrap();
        let expected = expected.replace("{folder}", &folder("invalid").display().to_string());
        let expected = format!("{}:{expected}", path.display());
        let loaded = load_with(&from_file(&path), &Variables::default());
        let said = loaded.map_or_else(|mistakes| mistakes.to_string(), |_| "nothing".to_owned());
        if said != expected || said.contains("hunter2") {
            wrong.push(format!("expected {expected}\nit said  {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_valid_file_is_read_and_shown_so_that_it_reads_back_the_same() {
    for path in files("valid") {
        let home = variables(&[("HOME", "/home/operator")]);
        let config = load_with(&from_file(&path), &home).unwrap_or_else(|m| panic!("{m}"));
        let shown = config.to_toml(false);
        assert!(!shown.contains("hunter2") && !shown.contains("p%40ss") && !shown.contains("quo"), "{shown}");

        // Somewhere else, and without a home: paths are resolved already.
        let again = written(&[("again.toml", &shown)]);
        let again = load_with(&from_file(&again.path().join("again.toml")), &Variables::default());
        let again = again.unwrap_or_else(|m| panic!("{m}\n{shown}"));
        assert_eq!(again.to_toml(false), shown);
        // `Debug` masks the typed secrets; a secret among Ansible's variables and in the policy's URL stays masked when read back.
        let debug = |c: &Config| {
            let all =
                format!("{:?}{:?}{:?}{:?}{:?}", c.console, c.server, c.job, c.provision, c.environments);
            all.replace("\"hunter2\"", "\"********\"").replace(":hunter2@", ":********@")
        };
        assert_eq!(debug(&again), debug(&config));
        let with_origin = config.to_toml(true);
        let plain: toml::Table = shown.parse().unwrap();
        assert_eq!(with_origin.parse::<toml::Table>().unwrap(), plain);
    }
}

#[test]
fn what_a_file_says_is_what_counts() {
    let path = folder("valid").join("everything.toml");
    let config = load_with(&from_file(&path), &variables(&[("HOME", "/home/operator")])).unwrap();
    let base = folder("valid");
    assert_eq!(config.console.symbols, Symbols::Ascii);
    assert_eq!(config.console.keys["hosts"]["approve"], ["A"]);
    assert_eq!(config.server.token_file, Some(base.join("secrets/hook")));
    assert_eq!(config.server.networks[2].to_string(), "192.0.2.7/32");
    assert_eq!(config.server.request_timeout.as_secs(), 90);
    assert_eq!(config.job.template, Some("/home/operator/job.yaml".into()));
    assert_eq!(Path::new(&config.provision.ansible_playbook), base.join("venv/bin/ansible-playbook"));
    assert_eq!(config.provision.python, "python3.13");

    let settings = config.settings(None).unwrap();
    let prod = &settings.environment;
    assert!(settings.read_only && settings.permit().is_err() && prod.guarded);
    assert_eq!(prod.approval, Approval::Hosts(vec!["*.lan.example.org".into(), "db-**".into()]));
    assert_eq!(prod.amqp.as_ref().unwrap().url.reveal(), "amqps://me:p%40ss@rabbit.example.org:5671/%2f");
    let ara = prod.ara.as_ref().unwrap();
    assert_eq!(
        (ara.url.as_str(), ara.ca.clone()),
        ("https://ara.example.org/base", Some(base.join("ca.pem")))
    );
    let server = prod.ara_server.as_ref().unwrap();
    assert_eq!((server.database.as_str(), server.port, server.keep_days()), ("pg-1.db.example.org", 5433, 2));
    assert_eq!((server.name.as_str(), server.user.as_str()), ("ara_prod", "ara_owner"));
    assert_eq!(server.ingress, "traefik");
    let AraCredentials::Basic { username, password } = &ara.credentials else { panic!("{ara:?}") };
    assert_eq!((username.as_str(), password.reveal()), ("me", "quo\"ted"));
    assert_eq!(prod.policy.variables["list"], serde_json::json!([1, "two", [3], {"four": 4}]));
    assert_eq!(prod.policy.variables["day"], "2026-12-01");
    assert_eq!(prod.policy.variables["db_password"], "hunter2");

    let environment = |name| config.settings(Some(name)).unwrap();
    assert!(
        matches!(&environment("bearer").environment.ara.unwrap().credentials, AraCredentials::Bearer(t) if t.reveal() == "hunter2")
    );
    assert!(
        matches!(&environment("header").environment.ara.unwrap().credentials, AraCredentials::Header { value, .. } if value.reveal() == "hunter2")
    );
    assert!(!environment("header").environment.guarded && environment("header").permit().is_ok());
    let play = environment("play").environment;
    assert!(play.playground && !play.guarded);
    assert_eq!(settings.environments, ["bearer", "header", "play", "prod"]);
}

#[test]
fn the_defaults_are_those_of_the_documentation() {
    let config = load_with(&Sources::default(), &Variables::default()).unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8470");
    assert_eq!(config.job.image, concat!("hostwright:", env!("CARGO_PKG_VERSION")));
    assert!(config.warnings.is_empty() && config.files.is_empty() && config.environments.is_empty());
}

/// `config.toml` with every commented setting set.
fn uncommented() -> String {
    let line = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.is_empty() && !rest.starts_with(' ') => rest.to_owned(),
        _ => line.to_owned(),
    };
    DEFAULT.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn leaves(prefix: &str, value: &toml::Value, out: &mut BTreeSet<String>) {
    const OPEN: [&str; 2] = ["console.keys", "environments.staging.policy.variables"];
    match value {
        toml::Value::Table(table) if !OPEN.contains(&prefix) => {
            for (key, value) in table {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                leaves(&path, value, out);
            }
        }
        _ => {
            out.insert(prefix.to_owned());
        }
    }
}

/// The keys in `config.toml` are the keys that the reader knows: it refuses none of them, and every key that it shows or knows
/// of is there.
#[test]
fn config_toml_documents_every_key_and_no_other() {
    let all: toml::Value = toml::Value::Table(uncommented().parse().unwrap());
    let mut documented = BTreeSet::new();
    leaves("", &all, &mut documented);
    let mut known: BTreeSet<String> = one(LAN, &[]).unwrap().known_keys().collect();
    known = known.into_iter().map(|key| key.replace("environments.lan", "environments.staging")).collect();
    // Keys have names of the operator's screens and actions.
    known.insert("console.keys".to_owned());
    assert_eq!(documented, known);
}

#[test]
fn the_example_in_config_toml_is_right_and_holds_the_defaults() {
    // Alternatives can't all be set at once.
    let alternative =
        ["url_file", "password_file", "token", "token_file", "header", "header_value", "header_value_file"];
    let mut in_environment = false;
    let keep = |line: &&str| {
        in_environment |= line.starts_with("[environments");
        let key = line.split(" =").next().unwrap();
        !(in_environment && alternative.contains(&key))
    };
    let text: String = uncommented().lines().filter(keep).map(|line| format!("{line}\n")).collect();
    let home = [("HOME", "/h")];
    let example = one(&text, &home).unwrap_or_else(|m| panic!("{m}"));
    assert_eq!(example.default_environment.as_deref(), Some("staging"));

    // What a bare environment shows as default, the example sets to just that.
    let bare = one(
        "[environments.staging]\npolicy.source = \"p\"\namqp.url = \"amqp://h\"\nara.url = \"http://h\"\n",
        &home,
    )
    .unwrap();
    let defaults: Vec<String> = bare
        .to_toml(true)
        .lines()
        .filter_map(|line| line.strip_suffix(" # default").map(str::to_owned))
        .collect();
    assert!(defaults.len() > 12, "{defaults:?}");
    let shown = example.to_toml(false);
    for default in defaults {
        assert!(
            shown.lines().any(|line| line == default),
            "config.toml has another default than {default}\n{shown}"
        );
    }
}

#[test]
fn all_mistakes_are_reported_at_once_in_order() {
    let file = "\
[server]
listen = \"here\"
lisen = 1
networks = [\"x\", \"10.0.0.0/8\", \"y\"]

[environments.a]
amqp.exchange = \"\"

[environments.b]
policy.source = \"p\"
ara = { url = \"u\", pasword = \"hunter2\" }
";
    let vars =
        [("HOSTWRIGHT_JOB__GRACE", "soon"), ("HOSTWRIGHT_ENV", "c"), ("HOSTWRIGHT_SERVER__LISTN", "hunter2")];
    assert_eq!(
        one(file, &vars).unwrap_err(),
        "\
F:2:10: server.listen = \"here\" is not an address and a port; write one such as \"127.0.0.1:8470\" or \"[::]:8470\"
F:3:1: unknown key \"lisen\" in [server]; did you mean \"listen\"?
F:4:13: server.networks = \"x\" is not a network; write one such as \"10.0.0.0/8\" or \"fd00::/8\"
F:4:32: server.networks = \"y\" is not a network; write one such as \"10.0.0.0/8\" or \"fd00::/8\"
F:6:15: environments.a.policy.source is missing: the git URL or the folder of the policy
F:7:1: environments.a.amqp has no url; give url or url_file
F:7:17: environments.a.amqp.exchange is empty
F:11:15: environments.b.ara.url = \"u\" is not a URL; write one such as \"https://ara.example.org\"
F:11:20: unknown key \"pasword\" in [environments.b.ara]; did you mean \"password\"?
HOSTWRIGHT_JOB__GRACE: job.grace = \"soon\" is not a duration; write a number and a unit, such as \"30s\", \"5m\" or \"2h\"
HOSTWRIGHT_SERVER__LISTN: unknown key \"listn\" in [server]; did you mean HOSTWRIGHT_SERVER__LISTEN?
HOSTWRIGHT_ENV: there is no environment \"c\"; the configuration has \"a\" and \"b\""
    );
}

#[test]
fn syntax_errors_come_with_the_other_mistakes_but_not_with_what_follows_from_them() {
    let file = "[server]\nlisten = here\nlisen = 1\n[job]\ngrace = 1\n[environments.a\npolicy.source = 'p'\nguarded = 'x'\n";
    let text = one(file, &[]).unwrap_err();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("F:2:10: this is not TOML"), "{text}");
    assert!(lines[1].starts_with("F:3:1: unknown key \"lisen\""), "{text}");
    assert!(lines[2].starts_with("F:5:9: job.grace"), "{text}");
    assert!(lines[3].starts_with("F:6:16: this is not TOML"), "{text}");
    assert_eq!(lines.len(), 4, "{text}");
}

#[test]
fn upper_layers_win() {
    let files = written(&[
        (
            "own.toml",
            "server = { keep_runs = 7, pending_limit = 7, listen = '127.0.0.1:7' }\nenvironment = 'lan'\n[environments.lan]\npolicy.source = 'own'\n[environments.lan.targets]\nport = 7\n",
        ),
        (
            "play/config.toml",
            "[server]\nkeep_runs = 8\npending_limit = 8\n[environments.play]\nplayground = true\npolicy.source = 'theirs'\n",
        ),
    ]);
    let sources = Sources {
        file: Some(files.path().join("own.toml")),
        extra: vec![files.path().join("play/config.toml"), files.path().join("not/there.toml")],
        ..Sources::default()
    };
    let vars =
        [("HOSTWRIGHT_SERVER__KEEP_RUNS", "9"), ("HOSTWRIGHT_ENVIRONMENTS__LAN__TARGETS__KEY", "x.json")];
    let config = load_with(&sources, &variables(&vars)).unwrap();
    assert_eq!(config.server.keep_runs, 9);
    assert_eq!(config.server.pending_limit, 8);
    assert_eq!(config.server.listen.port(), 7);
    assert_eq!(config.server.request_timeout.as_secs(), 10);
    let lan = &config.environments["lan"];
    assert_eq!(
        (lan.targets.port, lan.targets.key.as_str(), lan.targets.name.as_str()),
        (7, "x.json", "scrape-collectd")
    );
    assert_eq!(Path::new(&config.environments["play"].policy.source), files.path().join("play/theirs"));

    let shown = config.to_toml(true);
    for (line, origin) in [
        ("keep_runs = 9", "HOSTWRIGHT_SERVER__KEEP_RUNS".to_owned()),
        ("pending_limit = 8", format!("{}:3:17", files.path().join("play/config.toml").display())),
        ("listen = \"127.0.0.1:7\"", format!("{}:1:55", files.path().join("own.toml").display())),
        ("name = \"scrape-collectd\"", "default".to_owned()),
    ] {
        assert!(shown.contains(&format!("{line} # {origin}\n")), "{line} # {origin}\n{shown}");
    }
    assert!(
        shown.lines().any(|l| l.starts_with("request_timeout = \"10s\" # config.toml (built in):")),
        "{shown}"
    );
}

#[test]
fn the_operators_file_is_found() {
    let files = written(&[
        ("xdg/hostwright/config.toml", "environment = 'xdg'"),
        ("home/.config/hostwright/config.toml", "environment = 'home'"),
        ("named.toml", "environment = 'named'"),
        ("flag.toml", "environment = 'flag'"),
    ]);
    let path = |name: &str| files.path().join(name).display().to_string();
    let chosen = |file: Option<&str>, vars: &[(&str, String)]| {
        let sources = Sources { file: file.map(|f| path(f).into()), ..Sources::default() };
        let config = load_with(&sources, &vars.iter().cloned().collect()).unwrap();
        config.default_environment.unwrap_or_default()
    };
    let (home, xdg, named) =
        (("HOME", path("home")), ("XDG_CONFIG_HOME", path("xdg")), ("HOSTWRIGHT_CONFIG", path("named.toml")));
    assert_eq!(chosen(None, &[]), "");
    assert_eq!(chosen(None, std::slice::from_ref(&home)), "home");
    assert_eq!(chosen(None, &[home.clone(), xdg.clone()]), "xdg");
    assert_eq!(chosen(None, &[home.clone(), xdg.clone(), named.clone()]), "named");
    assert_eq!(chosen(Some("flag.toml"), &[home, xdg, named]), "flag");
}

#[test]
fn a_file_that_was_named_must_be_readable() {
    let files = written(&[("latin.toml", ""), ("ok.toml", "")]);
    let path = |name: &str| files.path().join(name);
    let fails = |sources: &Sources, vars: &[(&str, &str)]| {
        load_with(sources, &variables(vars)).unwrap_err().to_string()
    };
    let gone = path("gone.toml").display().to_string();
    let expected = format!("cannot read {gone}: No such file or directory (os error 2)");
    assert_eq!(fails(&from_file(&path("gone.toml")), &[]), format!("--config: {expected}"));
    assert_eq!(
        fails(&Sources::default(), &[("HOSTWRIGHT_CONFIG", &gone)]),
        format!("HOSTWRIGHT_CONFIG: {expected}")
    );
    assert!(fails(&from_file(files.path()), &[]).ends_with(": it is a folder"));
    std::fs::write(path("latin.toml"), b"# ok\n# caf\xe9\n").unwrap();
    let latin = path("latin.toml");
    assert_eq!(fails(&from_file(&latin), &[]), format!("{}:2:6: this is not UTF-8", latin.display()));
    let sources = Sources { extra: vec![latin], ..from_file(&path("ok.toml")) };
    assert!(fails(&sources, &[]).contains("not UTF-8"));
}

#[test]
fn variables_are_toml_or_text() {
    let vars = [
        ("HOSTWRIGHT_SERVER__LISTEN", "0.0.0.0:1"),
        ("HOSTWRIGHT_SERVER__NETWORKS", "['10.0.0.0/8']"),
        ("HOSTWRIGHT_CONSOLE", "{ utc = true }"),
        ("HOSTWRIGHT_JOB__TEMPLATE", "~/job.yaml"),
        ("HOSTWRIGHT_PROVISION__PYTHON", "\"python 3\""),
        ("HOSTWRIGHT_ENVIRONMENTS__EU_WEST__ARA__URL", "http://ara"),
        ("HOSTWRIGHT_ENVIRONMENTS__EU_WEST__ARA__USERNAME", "1001"),
        ("HOSTWRIGHT_ENVIRONMENTS__EU_WEST__ARA__PASSWORD", "007"),
        ("HOSTWRIGHT_ENVIRONMENTS__EU_WEST__APPROVAL", "{ hosts = ['*'] }"),
        ("HOSTWRIGHT_ENVIRONMENTS__EU_WEST__POLICY__VARIABLES__RETRIES", "5"),
        ("HOSTWRIGHT_ENVIRONMENT", "eu-west"),
        ("HOME", "/h"),
    ];
    let config = one("[environments.eu-west]\npolicy.source = 'p'\napproval = 'auto'\n", &vars).unwrap();
    assert_eq!(config.server.listen.to_string(), "0.0.0.0:1");
    assert_eq!(config.server.networks.len(), 1);
    assert!(config.console.utc && config.console.theme == "auto");
    assert_eq!(config.job.template, Some("/h/job.yaml".into()));
    assert_eq!(config.provision.python, "python 3");
    let environment = config.settings(None).unwrap().environment;
    let AraCredentials::Basic { username, password } = environment.ara.unwrap().credentials else { panic!() };
    assert_eq!((username.as_str(), password.reveal()), ("1001", "007"));
    assert_eq!(environment.approval, Approval::Hosts(vec!["*".into()]));
    assert_eq!(environment.policy.variables["retries"], 5);
    // A number that was taken for a text is shown as a text.
    assert!(config.to_toml(false).contains("username = \"1001\"\n"));
}

#[test]
fn variables_that_are_no_settings_are_left_alone_and_slips_are_named() {
    let mine = [
        "ENV",
        "CONFIG",
        "PLAY_DIR",
        "LOG",
        "LOG_FORMAT",
        "RUN",
        "RUN_NAME",
        "HOST",
        "ANNOUNCEMENT",
        "PARAMETERS",
        "DECISION",
        "TEST_A__B",
        "VOLUME_A__B",
        "PORT_8470_TCP_ADDR",
        "SERVICE_HOST",
    ];
    let files = written(&[("x.toml", LAN)]);
    let path = files.path().join("x.toml").display().to_string();
    let value = |name: &str| match name {
        "ENV" => "lan".to_owned(),
        "CONFIG" => path.clone(),
        _ => "x".to_owned(),
    };
    let vars: Variables = mine.iter().map(|name| (format!("HOSTWRIGHT_{name}"), value(name))).collect();
    let config = load_with(&Sources::default(), &vars).unwrap();
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);

    for (name, expected) in [
        (
            "HOSTWRIGHT_SEVER__LISTEN",
            "unknown table \"sever\" at the top; did you mean HOSTWRIGHT_SERVER__LISTEN?",
        ),
        (
            "HOSTWRIGHT_ENVIRONMENTS__LAN__POLICY__BRANCHE",
            "unknown key \"branche\" in [environments.lan.policy]; did you mean HOSTWRIGHT_ENVIRONMENTS__LAN__POLICY__BRANCH?",
        ),
        ("HOSTWRIGHT_SERVER", "server = \"x\" is text, not a table"),
        ("HOSTWRIGHT_SERVER__", "the name of this variable has an empty part"),
    ] {
        let text = one(LAN, &[(name, "x")]).unwrap_err();
        assert_eq!(text, format!("{name}: {expected}"));
    }

    let config = one(LAN, &[("HOSTWRIGHT_SERVER_LISTEN", "x")]).unwrap();
    assert_eq!(
        config.warnings,
        ["HOSTWRIGHT_SERVER_LISTEN is no setting; did you mean HOSTWRIGHT_SERVER__LISTEN?"]
    );
}

#[test]
fn an_environment_is_chosen() {
    let chosen =
        |text: &str, flag: Option<&str>, vars: &[(&str, &str)]| -> Result<String, (String, MistakeKind)> {
            let files = written(&[("x.toml", text)]);
            let path = files.path().join("x.toml");
            let sources = Sources { environment: flag.map(str::to_owned), ..from_file(&path) };
            let settled = load_with(&sources, &variables(vars)).and_then(|config| config.settings(None));
            settled.map(|s| s.environment.name).map_err(|mistakes: Mistakes| {
                (
                    mistakes.to_string().replace(&path.display().to_string(), "F"),
                    mistakes.iter().next().unwrap().kind,
                )
            })
        };
    let two = "[environments.one]\npolicy.source='p'\n[environments.two]\npolicy.source='p'\n";
    let with_play =
        "[environments.one]\npolicy.source='p'\n[environments.play]\npolicy.source='p'\nplayground=true\n";
    let set = format!("environment = 'two'\n{two}");
    let env = [("HOSTWRIGHT_ENV", "one")];

    assert_eq!(chosen(LAN, None, &[]).unwrap(), "lan");
    assert_eq!(chosen(&set, None, &[]).unwrap(), "two");
    assert_eq!(chosen(&set, None, &env).unwrap(), "one");
    assert_eq!(chosen(&set, Some("two"), &env).unwrap(), "two");
    assert_eq!(chosen(with_play, None, &[]).unwrap(), "one", "the playground does not get in the way");
    assert_eq!(chosen(with_play, Some("play"), &[]).unwrap(), "play");

    let (text, kind) = chosen("", None, &[]).unwrap_err();
    assert_eq!(text, "no environment: name one in the configuration, or try `hostwright play`");
    assert_eq!(kind, MistakeKind::NoEnvironment);
    let (text, kind) = chosen(two, None, &[]).unwrap_err();
    assert!(text.starts_with("several environments and none was chosen: \"one\" and \"two\";"), "{text}");
    assert_eq!(kind, MistakeKind::WhichEnvironment);
    for (result, expected) in [
        (chosen(two, Some("tow"), &[]), "-e: there is no environment \"tow\"; did you mean \"two\"?"),
        (
            chosen(two, None, &[("HOSTWRIGHT_ENV", "xyzzy")]),
            "HOSTWRIGHT_ENV: there is no environment \"xyzzy\"; the configuration has \"one\" and \"two\"",
        ),
        (
            chosen("environment = 'on'\n[environments.one]\npolicy.source='p'", None, &[]),
            "F:1:15: there is no environment \"on\"; did you mean \"one\"?",
        ),
        (chosen(LAN, Some("play"), &[]), "-e: there is no environment \"play\"; `hostwright play` makes it"),
    ] {
        assert_eq!(result.unwrap_err(), (expected.to_owned(), MistakeKind::UnknownEnvironment));
    }
}

#[test]
fn read_only_comes_from_the_flag_or_the_environment() {
    let read_only = |text: &str, flag| {
        let files = written(&[("x.toml", text)]);
        let sources = Sources { read_only: flag, ..from_file(&files.path().join("x.toml")) };
        load_with(&sources, &Variables::default()).unwrap().settings(None).unwrap().permit().is_err()
    };
    let guarded = format!("{LAN}read_only = true\n");
    assert!(!read_only(LAN, false));
    assert!(read_only(LAN, true));
    assert!(read_only(&guarded, false));
}

#[test]
fn secrets_come_from_files_and_the_upper_layer_decides() {
    let own = "[environments.lan]\npolicy.source='p'\namqp.url_file='secret/url'\n[environments.lan.ara]\nurl='http://ara'\nusername='me'\npassword_file='~/password'\n";
    let files = written(&[
        ("own.toml", own),
        ("secret/url", "amqp://me:hunter2@rabbit\n"),
        ("password", "  hunter3\n\n"),
        ("empty", "\n"),
    ]);
    let home = files.path().display().to_string();
    let sources = from_file(&files.path().join("own.toml"));
    let load = |vars: &[(&str, &str)]| {
        let vars = vars.iter().copied().chain([("HOME", home.as_str())]);
        load_with(&sources, &vars.collect())
    };
    let password = |config: &Config| match &config.environments["lan"].ara.as_ref().unwrap().credentials {
        AraCredentials::Basic { password, .. } => password.reveal().to_owned(),
        other => panic!("{other:?}"),
    };
    let config = load(&[]).unwrap();
    assert_eq!(config.environments["lan"].amqp.as_ref().unwrap().url.reveal(), "amqp://me:hunter2@rabbit");
    assert_eq!(password(&config), "hunter3");
    let shown = config.to_toml(false);
    assert!(
        shown.contains(&format!("password_file = \"{home}/password\"")) && !shown.contains("hunter"),
        "{shown}"
    );

    let config = load(&[("HOSTWRIGHT_ENVIRONMENTS__LAN__ARA__PASSWORD", "plain")]).unwrap();
    assert_eq!(password(&config), "plain");
    assert!(!config.to_toml(false).contains("password_file"));

    let wrong = |vars: &[(&str, &str)]| load(vars).unwrap_err().to_string();
    let key = "HOSTWRIGHT_ENVIRONMENTS__LAN__AMQP__URL_FILE";
    let text = wrong(&[(key, "~/password")]);
    assert!(
        text.starts_with(&format!("{key}: "))
            && text.contains("/password, whose content is not a URL")
            && !text.contains("hunter"),
        "{text}"
    );
    assert!(wrong(&[(key, "~/empty")]).contains("is an empty file"));
    assert!(wrong(&[(key, "~/gone")]).contains("cannot be read: No such file"));
}

#[test]
fn a_file_with_secrets_that_others_can_read_is_warned_of() {
    let warnings = |text: &str, mode| {
        let files = written(&[("x.toml", text)]);
        let path = files.path().join("x.toml");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        load_with(&from_file(&path), &Variables::default()).unwrap().warnings
    };
    let secret = format!(
        "{LAN}ara = {{ url = \"http://a\", token = \"hunter2\" }}\namqp.url = \"amqp://a:hunter2@h\"\n"
    );
    let said = warnings(&secret, 0o640);
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("(environments.lan.amqp.url, environments.lan.ara.token)"), "{said:?}");
    assert!(!said[0].contains("hunter2"));
    assert!(warnings(&secret, 0o600).is_empty());
    assert!(warnings(&format!("{LAN}amqp.url = \"amqp://h\"\n"), 0o644).is_empty(), "no password, no secret");
}

#[test]
fn an_empty_text_takes_a_value_away() {
    let text =
        format!("{LAN}kubernetes.namespace = \"x\"\nara = {{ url = \"http://a\", token = \"hunter2\" }}\n");
    let vars = [
        ("HOSTWRIGHT_ENVIRONMENTS__LAN__KUBERNETES__NAMESPACE", ""),
        ("HOSTWRIGHT_ENVIRONMENTS__LAN__ARA__TOKEN", ""),
    ];
    let config = one(&text, &vars).unwrap();
    let lan = &config.environments["lan"];
    assert_eq!(lan.kubernetes.namespace, None);
    assert!(matches!(lan.ara.as_ref().unwrap().credentials, AraCredentials::Anonymous));
}

/// Whatever slip is made with one character: nothing panics, and no message and no output shows a secret.
#[test]
fn no_slip_of_the_keyboard_shows_a_secret() {
    let text = "[environments.lan]\npolicy.source = \"https://me:hunter2@git\"\namqp.url = \"amqp://me:hunter2@h/v\"\nara = { url = \"http://a\", username = \"me\", password = \"hunter2\" }\n";
    let characters: Vec<char> = text.chars().collect();
    for at in 0..characters.len() {
        for slip in [None, Some('"'), Some('\n'), Some('=')] {
            let mut slipped = characters.clone();
            slipped.splice(at..=at, slip);
            let slipped: String = slipped.into_iter().collect();
            let said = match one(&slipped, &[]) {
                Ok(config) => format!("{}{:?}", config.to_toml(true), config.warnings),
                Err(mistakes) => mistakes,
            };
            assert!(!said.contains("hunter2"), "{slipped}\n{said}");
        }
    }
}
