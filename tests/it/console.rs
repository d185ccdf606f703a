//! The console in a real terminal: what it leaves behind, whatever ends it; what it draws, whatever the terminal does.

use std::path::Path;
use std::time::{Duration, Instant};

use hostwright::backend::kube::{JobTemplate, Kube};
use hostwright::config::{self, Paint, Role, Settings, Sources, Theme};
use hostwright::domain::{Phase, RawAnnouncement, Run};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::proxy::Proxy;
use crate::pty::{CommandBuilder, Pty};
use crate::support::apiserver::ApiServer;
use crate::support::envtest::TOKEN;

/// The console in an environment whose every back end is unreachable.
pub(crate) struct Far {
    folder: TempDir,
}

impl Far {
    fn new() -> Self {
        Self::at("https://127.0.0.1:1")
    }

    /// With an API server at this address.
    pub(crate) fn at(server: &str) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::write(
            folder.path().join("kubeconfig"),
            format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: far\n\
                 contexts: [{{name: far, context: {{cluster: far, user: far}}}}]\n\
                 clusters: [{{name: far, cluster: {{server: '{server}'}}}}]\n\
                 users: [{{name: far, user: {{token: {TOKEN}}}}}]\n"
            ),
        )
        .unwrap();
        let config = folder.path().join("hostwright");
        std::fs::create_dir(&config).unwrap();
        std::fs::write(
            config.join("config.toml"),
            format!(
                "[environments.far]\npolicy.source = \"/nonexistent\"\nkubernetes.kubeconfig = {:?}\nkubernetes.namespace = \"hostwright\"\n",
                folder.path().join("kubeconfig")
            ),
        )
        .unwrap();
        Self { folder }
    }

    fn settings(&self) -> Settings {
        let file = Some(self.path().join("hostwright/config.toml"));
        let sources = Sources { file, environment: Some("far".into()), ..Sources::default() };
        config::load(&sources).unwrap().settings(None).unwrap()
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// More lines at the end of the configuration.
    pub(crate) fn append(&self, lines: &str) {
        let path = self.path().join("hostwright/config.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, text + lines).unwrap();
    }

    pub(crate) fn equip(&self, command: &mut CommandBuilder) {
        command.env("XDG_CONFIG_HOME", self.path());
        command.env("XDG_STATE_HOME", self.path());
        command.env("XDG_DATA_HOME", self.path());
        command.env("KUBECONFIG", self.path().join("kubeconfig"));
        command.env("HOSTWRIGHT_ENV", "far");
        command.cwd(self.path());
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> CommandBuilder {
        let mut command = Pty::hostwright(arguments);
        self.equip(&mut command);
        command
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Pty {
        let mut pty = Pty::start(self.command(arguments), (80, 24));
        wait_for_console(&mut pty);
        pty
    }

    /// A shell with job control, with the same environment.
    pub(crate) fn shell(&self) -> Pty {
        let mut command = Pty::command("bash");
        command.args(["--norc", "--noprofile", "-i"]);
        self.equip(&mut command);
        command.env("PS1", "ready> ");
        command.env("HISTFILE", "/dev/null");
        // The shell's own line editor sets this mode too, and would hide whether the console left it set.
        std::fs::write(self.path().join("inputrc"), "set enable-bracketed-paste off\n").unwrap();
        command.env("INPUTRC", self.path().join("inputrc"));
        let mut pty = Pty::start(command, (80, 24));
        pty.wait_for("ready>");
        pty
    }
}

/// Waits until the console shows itself.
pub(crate) fn wait_for_console(pty: &mut Pty) {
    pty.wait_until("the console", |screen| screen.alternate_screen() && screen.contents().contains("far"));
}

/// What was written after the alternate screen was left for the last time.
fn last_words(pty: &Pty) -> String {
    let text = String::from_utf8_lossy(&pty.bytes()).into_owned();
    let at = text.rfind("\x1b[?1049l").expect("the alternate screen was never left");
    text[at..].to_owned()
}

fn assert_left(pty: &Pty, before: &str) {
    assert_eq!(pty.settings(), before, "the terminal's settings are not as they were");
    assert_eq!(pty.modes_left(), Vec::<String>::new());
    let text = String::from_utf8_lossy(&pty.bytes()).into_owned();
    assert_eq!(
        text.matches("\x1b[?1049l").count(),
        text.matches("\x1b[?1049h").count(),
        "left as often as entered"
    );
}

#[test]
fn signals_end_it_and_the_terminal_is_as_before() {
    let far = Far::new();
    let table = [
        (Signal::TERM, 143, "SIGTERM"),
        (Signal::INT, 130, "SIGINT"),
        (Signal::QUIT, 131, "SIGQUIT"),
        (Signal::HUP, 129, "closed"),
    ];
    for (signal, code, word) in table {
        let mut command = Pty::command("bash");
        command.args(["-c", "stty -a >before; \"$0\"; code=$?; stty -a >after; exit $code"]);
        command.arg(env!("CARGO_BIN_EXE_hostwright"));
        far.equip(&mut command);
        let mut pty = Pty::start(command, (80, 24));
        let before = pty.settings();
        wait_for_console(&mut pty);
        assert_ne!(pty.settings(), before, "the keyboard is raw");
        let child = child_of(&pty);
        rustix::process::kill_process(child, signal).unwrap();
        assert_eq!(pty.wait_exit(), code, "{signal:?}");
        assert_left(&pty, &before);
        let words = last_words(&pty);
        assert!(words.contains(word), "{signal:?}: {words:?}");
        let read = |name: &str| std::fs::read_to_string(far.path().join(name)).unwrap();
        assert_eq!(read("before"), read("after"), "stty -a");
    }
}

#[test]
fn quitting_ends_it_well() {
    let far = Far::new();
    let mut pty = Pty::start(far.command(&[]), (80, 24));
    let before = pty.settings();
    wait_for_console(&mut pty);
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
    assert_left(&pty, &before);
    assert!(!last_words(&pty).contains("hostwright:"), "{:?}", last_words(&pty));
}

/// A letter that arrived would quit, or open the help.
#[test]
fn late_answers_and_cut_sequences_are_no_letters() {
    let far = Far::new();
    let mut pty = far.start(&[]);
    let mut wide = 80;
    for answer in [
        &b"\x1b]11;rgb:qqqq/????/qqqq\x1b\\"[..],
        b"\x1bP>|q?q\x1b\\",
        b"\x1b[?62;22q",
        b"\x1b_Gqq??;q\x1b\\",
        b"\x1b]52;c;cT8/cQ==\x07",
    ] {
        for cut in 2..answer.len() {
            let mark = pty.mark();
            pty.write(&answer[..cut]);
            // A frame between the two: they arrive in two reads.
            wide = 161 - wide;
            pty.resize((wide, 24)).wait_bytes(mark, b"\x1b[?2026l");
            pty.write(&answer[cut..]);
            assert!(pty.alive(), "{} cut at {cut}", answer.escape_ascii());
        }
    }
    pty.keys("?").wait_for("HOSTS");
    pty.keys("C-c").wait_gone("HOSTS");
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

/// The one child of the program in the terminal.
pub(crate) fn child_of(pty: &Pty) -> rustix::process::Pid {
    let pid = pty.pid().as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    rustix::process::Pid::from_raw(children.trim().parse().unwrap()).unwrap()
}

#[test]
fn a_panic_in_the_loop_ends_it_with_the_message() {
    let far = Far::new();
    let mut pty = Pty::start(far.command(&["--panic-ui"]), (80, 24));
    let before = pty.settings();
    assert_eq!(pty.wait_exit(), 1);
    assert_eq!(pty.modes_left(), Vec::<String>::new());
    assert_eq!(pty.settings(), before);
    let words = last_words(&pty);
    assert_eq!(words.matches("a test asked for this panic").count(), 1, "{words:?}");
    assert!(words.contains("src/console/shell.rs:"), "{words:?}");
}

#[test]
fn a_panic_in_the_background_is_shown_and_restores_nothing() {
    let far = Far::new();
    let mut pty = far.start(&["--panic-task"]);
    pty.wait_for("a test asked for this panic");
    let bytes = String::from_utf8_lossy(&pty.bytes()).into_owned();
    assert!(!bytes.contains("\x1b[?1049l") && pty.alive());
    pty.signal(Signal::TERM);
    assert_eq!(pty.wait_exit(), 143);
    assert_eq!(pty.modes_left(), Vec::<String>::new());
}

#[test]
fn a_stop_from_outside_gives_the_shell_its_terminal_and_fg_brings_everything_back() {
    let far = Far::new();
    stop_and_go_on(&far, |pty| {
        let child = child_of(pty);
        rustix::process::kill_process(child, Signal::TSTP).unwrap();
    });
}

#[test]
fn control_z_gives_the_shell_its_terminal_and_fg_brings_everything_back() {
    let far = Far::new();
    stop_and_go_on(&far, |pty| {
        pty.keys("C-z");
    });
}

fn stop_and_go_on(far: &Far, stop: impl FnOnce(&mut Pty)) {
    let mut pty = far.shell();
    pty.write(b"stty -a >before; echo done\r").wait_for("\ndone");
    pty.write(format!("{}\r", env!("CARGO_BIN_EXE_hostwright")).as_bytes());
    wait_for_console(&mut pty);
    stop(&mut pty);
    pty.wait_until("the shell", |screen| !screen.alternate_screen() && screen.contents().contains("Stopped"));
    assert_eq!(pty.modes_left(), Vec::<String>::new());
    pty.write(b"stty -a >between; echo again\r").wait_for("\nagain");
    let read = |name: &str| std::fs::read_to_string(far.path().join(name)).unwrap();
    assert_eq!(read("before"), read("between"));
    pty.resize((100, 30));
    let mark = pty.mark();
    pty.write(b"fg\r");
    wait_for_console(&mut pty);
    pty.wait_bytes(mark, b"\x1b[2J");
    pty.wait_until("the keyboard", |_| true).keys("C-l");
    rustix::process::kill_process(child_of(&pty), Signal::TERM).unwrap();
    pty.wait_until("the shell", |screen| !screen.alternate_screen());
    pty.write(b"stty cols 80 rows 24; stty -a >after; echo over\r").wait_for("\nover");
    assert_eq!(read("before"), read("after"));
    assert_eq!(pty.modes_left(), Vec::<String>::new());
}

#[test]
fn a_stop_where_nobody_could_start_it_again_stops_nothing() {
    let far = Far::new();
    // The leader of its own session: there is no shell above it.
    let mut pty = far.start(&[]);
    let mark = pty.mark();
    pty.signal(Signal::TSTP);
    pty.wait_bytes(mark, b"\x1b[?1049l").wait_bytes(mark, b"\x1b[?1049h").wait_bytes(mark, b"far");
    pty.signal(Signal::TERM);
    assert_eq!(pty.wait_exit(), 143);
    assert_eq!(pty.modes_left(), Vec::<String>::new());
}

#[test]
fn what_is_no_terminal_is_told_so_in_one_line_without_an_escape() {
    let far = Far::new();
    let dumb = |prepare: &dyn Fn(&mut CommandBuilder), arguments: &[&str]| {
        let mut command = Pty::command("bash");
        command.args(arguments);
        far.equip(&mut command);
        command.env("HOSTWRIGHT", env!("CARGO_BIN_EXE_hostwright"));
        prepare(&mut command);
        let mut pty = Pty::start(command, (300, 24));
        assert_eq!(pty.wait_exit(), 2, "{arguments:?}");
        pty.wait_for("hosts list");
        let text = String::from_utf8_lossy(&pty.bytes()).into_owned();
        assert!(!text.contains('\x1b'), "{text:?}");
        assert_eq!(text.trim_end().lines().count(), 1, "{text:?}");
    };
    let plain = ["-c", "\"$HOSTWRIGHT\""];
    dumb(&|command| command.env("TERM", "dumb"), &plain);
    dumb(&|command| command.env("TERM", ""), &plain);
    dumb(&|command| command.env_remove("TERM"), &["-c", "unset TERM; \"$HOSTWRIGHT\""]);
    dumb(&|_| {}, &["-c", "\"$HOSTWRIGHT\" </dev/null"]);
    dumb(&|_| {}, &["-c", "\"$HOSTWRIGHT\" >/dev/full"]);
    dumb(&|_| {}, &["-c", "\"$HOSTWRIGHT\" | cat; exit ${PIPESTATUS[0]}"]);
}

/// The parameters of every SGR sequence.
pub(crate) fn colours(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let sequences = text.split("\x1b[").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';')?;
        rest[end..].starts_with('m').then(|| rest[..end].to_owned())
    });
    sequences.collect()
}

#[test]
fn no_color_sends_none_and_sixteen_colours_are_sent_as_such() {
    let far = Far::new();
    let run = |name: &str, value: &str| {
        let mut command = far.command(&[]);
        command.env(name, value);
        let mut pty = Pty::start(command, (80, 24));
        wait_for_console(&mut pty);
        pty.signal(Signal::TERM).wait_exit();
        colours(&pty.bytes())
    };
    let none = ["0", "1", "2", "3", "4", "7"];
    for sequence in run("NO_COLOR", "1").into_iter().chain(run("TERM", "vt100")) {
        assert!(sequence.split(';').all(|code| none.contains(&code)), "{sequence}");
    }
    for sequence in run("TERM", "linux") {
        assert!(!sequence.contains(";38;") && !sequence.contains(";48;"), "{sequence}");
    }
    for sequence in run("TERM", "xterm-256color") {
        assert!(!sequence.contains("8;2;"), "{sequence}");
    }
}

#[test]
fn two_hundred_resizes_end_with_the_last_size() {
    let far = Far::new();
    let mut pty = far.start(&[]);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        u16::try_from(1 + random % limit).unwrap()
    };
    for _ in 0..200 {
        pty.resize((next(200), next(60)));
    }
    let mark = pty.mark();
    pty.resize((97, 31));
    pty.wait_bytes(mark, b"\x1b[2J").wait_for("far");
    assert!(pty.alive());
    pty.signal(Signal::TERM);
    assert_eq!(pty.wait_exit(), 143);
    assert_eq!(pty.modes_left(), Vec::<String>::new());
}

/// The console in a terminal that takes nothing more.
fn stuck(far: &Far) -> (Pty, String) {
    let mut pty = Pty::start_unread(far.command(&[]), (200, 60));
    let before = pty.settings();
    // Raw mode says that it runs.
    let deadline = Instant::now() + Duration::from_secs(30);
    while pty.settings() == before {
        assert!(pty.alive() && Instant::now() < deadline, "it does not start");
        std::thread::yield_now();
    }
    pty.fill();
    (pty, before)
}

#[test]
fn a_terminal_that_nobody_reads_does_not_keep_it_from_ending() {
    let far = Far::new();
    let (mut pty, before) = stuck(&far);
    pty.resize((150, 60));
    let begun = Instant::now();
    pty.signal(Signal::TERM);
    assert_eq!(pty.wait_exit(), 143);
    assert!(begun.elapsed() < Duration::from_secs(2), "it took {:?} to end", begun.elapsed());
    assert_eq!(pty.settings(), before);
    // Somebody looks after all: the last words are there.
    pty.read();
    pty.wait_bytes(0, b"\x1b[?1049l");
}

#[test]
fn a_line_that_does_not_drain_gets_the_newest_state_and_not_all_that_there_were() {
    let far = Far::new();
    let (mut pty, _) = stuck(&far);
    for i in 0..100 {
        pty.resize((100 + i, 50));
        // Long enough for a frame each, were there room for it.
        std::thread::sleep(Duration::from_millis(5));
    }
    pty.resize((91, 41)).read();
    pty.wait_for("far");
    pty.resize((92, 42));
    let mark = pty.mark();
    pty.resize((93, 43)).wait_bytes(mark, b"\x1b[2J");
    let frames = pty.bytes().windows(4).filter(|bytes| bytes == b"\x1b[2J").count();
    assert!(frames <= 8, "{frames} whole frames were written");
    pty.signal(Signal::TERM);
    assert_eq!(pty.wait_exit(), 143);
}

#[test]
fn a_closed_line_ends_it() {
    let far = Far::new();
    let mut pty = far.start(&[]);
    pty.hang_up(|pty| {
        pty.resize((90, 30));
    });
    assert_eq!(pty.wait_exit(), 129);
}

#[test]
fn nothing_is_written_and_nothing_computed_while_nothing_changes() {
    let far = Far::new();
    // Nothing is configured: there is nothing to try again.
    let mut command = far.command(&[]);
    command.env_remove("HOSTWRIGHT_ENV");
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    let mut pty = Pty::start(command, (80, 24));
    pty.wait_bytes(0, b"\x1b[?2026l");
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pty.pid().as_raw_nonzero())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    // The absence of something can only be seen over a time: this is that time, not a wait for something.
    let quiet = Duration::from_millis(1500);
    std::thread::sleep(quiet / 3);
    let (bytes, spent) = (pty.mark(), ticks());
    std::thread::sleep(quiet);
    assert_eq!(pty.mark(), bytes, "something was written");
    assert!(ticks() - spent <= 3, "it spent {} ticks doing nothing", ticks() - spent);
    pty.signal(Signal::TERM).wait_exit();
}

/// A cluster that can be cut off, and the console's environment in it.
pub(crate) struct Near {
    pub(crate) far: Far,
    settings: Settings,
    kube: Kube,
    pub(crate) proxy: Proxy,
    _server: (ApiServer, TempDir),
}

impl Near {
    pub(crate) async fn new() -> Self {
        let dir = crate::support::temp();
        let server = ApiServer::start(dir.path()).await;
        let port = server.address().port();
        let proxy = Proxy::start(port).await;
        let far = Far::at(&format!("http://127.0.0.1:{}", proxy.port()));
        // We go straight to the server: what the proxy does is the console's trouble.
        let settings = far.settings();
        let direct = Far::at(&format!("http://127.0.0.1:{port}"));
        let kube = Kube::connect(&direct.settings().environment.kubernetes).await.unwrap();
        Self { far, settings, kube, proxy, _server: (server, dir) }
    }

    pub(crate) async fn pending(&self, host: &str) -> Run {
        let template =
            JobTemplate::parse(include_str!("../../assets/play/job.yaml"), &self.settings.job).unwrap();
        let announcement = RawAnnouncement {
            hostname: host.into(),
            sshkeys: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQtTWVTzd2t27+t0DEHBPW7iOD23TUiYLio"
                .into(),
            address: Some("10.0.0.1".into()),
            ..RawAnnouncement::default()
        };
        let announcement = announcement.check().unwrap();
        let new = crate::ground::first_run(&announcement);
        self.kube.create_run(&self.settings.permit().unwrap(), &template, &new).await.unwrap().run
    }

    pub(crate) async fn reject(&self, run: &Run) {
        let seen = hostwright::ops::decide::Seen::from(run);
        hostwright::ops::decide::reject(&self.kube, &self.settings.permit().unwrap(), &seen, "ben")
            .await
            .unwrap();
    }

    pub(crate) async fn again(&self, run: &Run) -> Run {
        self.kube.run(&run.name).await.unwrap().run
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_host_is_approved_with_two_keys_and_another_rejected() {
    let near = Near::new().await;
    let first = near.pending("web-1.example.org").await;
    let second = near.pending("web-2.example.org").await;
    let mut pty = Pty::start(near.far.command(&[]), (120, 40));
    pty.wait_for("web-1.example.org").wait_for("web-2.example.org");
    pty.keys("a").wait_for("Approve web-1");
    pty.keys("y").wait_for("approved web-1");
    assert_eq!(near.again(&first).await.phase, Phase::Queued);
    pty.keys("g g")
        .keys("/")
        .write(b"web-2")
        .keys("<enter>")
        .wait_gone("web-1.example.org")
        .keys("x")
        .wait_for("Reject web-2");
    pty.keys("y").wait_for("rejected web-2");
    let second = near.again(&second).await;
    assert_eq!((second.phase, second.decision.unwrap().by.is_empty()), (Phase::Rejected, false));
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_goes_leaves_its_rows_and_comes_back_by_itself() {
    let near = Near::new().await;
    near.pending("web-1.example.org").await;
    let mut pty = Pty::start(near.far.command(&[]), (120, 40));
    pty.wait_for("web-1.example.org");
    // Connections end: what comes afterwards is seen.
    near.proxy.cut();
    near.pending("web-2.example.org").await;
    pty.wait_for("web-2.example.org").wait_for("web-1.example.org");
    // The line is there and carries nothing. That is found out although nothing happens in the cluster, and so is its return;
    // the rows stay meanwhile.
    near.proxy.stall();
    pty.wait_for("next try").wait_for("web-1.example.org");
    near.pending("web-3.example.org").await;
    near.proxy.cut();
    near.proxy.go_on();
    pty.wait_for("web-3.example.org").wait_gone("next try").wait_for("web-1.example.org");
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_has_the_terminal_for_itself_and_gives_it_back() {
    let near = Near::new().await;
    near.pending("web-1.example.org").await;
    // A `read` that Ctrl-C breaks off is begun again.
    let script = "trap 'echo interrupted' INT; echo 'on {host}'; until read a; do :; done; read b; echo heard $a $b; read c";
    near.far.append(&format!("shell = [\"sh\", \"-c\", {script:?}]\n"));
    let mut pty = Pty::start(near.far.command(&[]), (120, 40));
    pty.wait_for("web-1.example.org");
    pty.keys("!").wait_for("on web-1.example.org").wait_gone("1 Hosts");
    // Its first line is its own, Ctrl-C is its own, and the console takes news in meanwhile.
    pty.write(b"\x03").wait_for("interrupted");
    near.pending("web-2.example.org").await;
    pty.write(b"quit\r").write(b"words\r").wait_for("heard quit words");
    pty.write(b"\r").wait_for("1 Hosts").wait_for("web-2.example.org");
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_that_is_stopped_stops_the_console_with_it_and_goes_on_with_it() {
    let near = Near::new().await;
    near.pending("web-1.example.org").await;
    // First it stops alone, as ssh does at `~^Z`; then the terminal stops the whole job.
    let script = "echo 'on {host}'; kill -STOP $$; echo back; read a; echo heard $a; read b";
    near.far.append(&format!("shell = [\"sh\", \"-c\", {script:?}]\n"));
    let stopped = |times: usize| {
        move |screen: &vt100::Screen| {
            let text = screen.contents();
            text.matches("Stopped").count() == times && text.trim_end().ends_with("ready>")
        }
    };
    let mut pty = near.far.shell();
    pty.write(format!("{}\r", env!("CARGO_BIN_EXE_hostwright")).as_bytes()).wait_for("web-1.example.org");
    pty.keys("!").wait_until("the shell above", stopped(1));
    pty.write(b"fg\r").wait_for("back");
    pty.write(b"\x1a").wait_until("the shell above", stopped(2));
    pty.write(b"fg\r").wait_until("the program", |screen| screen.contents().matches("fg").count() == 2);
    pty.write(b"words\r").wait_for("heard words").write(b"\r").wait_for("1 Hosts");
    pty.keys("q").wait_until("the shell above", |screen| !screen.alternate_screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_theme_and_keys_count_while_the_console_runs_and_a_broken_file_leaves_the_last_good_ones() {
    let near = Near::new().await;
    near.pending("web-1.example.org").await;
    let mut pty = Pty::start(near.far.command(&[]), (120, 40));
    pty.wait_for("web-1.example.org");
    near.far.append("[console.keys.hosts]\napprove = [\"A\"]\n");
    pty.wait_for("theme and keys are the new ones").wait_for("A approve");
    near.far.append("reject = [\"hyper-x\"]\n");
    pty.wait_for("the old one stays");
    pty.keys("A").wait_for("Approve web-1").keys("n").wait_gone("Approve web-1");
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_light_background_is_asked_for_and_answered_late() {
    let near = Near::new().await;
    near.pending("web-1.example.org").await;
    let mut command = near.far.command(&[]);
    command.env("COLORTERM", "truecolor");
    let mut pty = Pty::start(command, (120, 40));
    pty.wait_for("web-1.example.org").wait_bytes(0, b"\x1b]11;?");
    let text = |name: &str| {
        let (r, g, b) = match Theme::built_in(name).unwrap().style(Role::Text).fg {
            Some(Paint::Rgb(r, g, b)) => (r, g, b),
            other => panic!("{other:?}"),
        };
        format!("38;2;{r};{g};{b}").into_bytes()
    };
    pty.wait_bytes(0, &text("dark"));
    let from = pty.mark();
    pty.write(b"\x1b]11;rgb:fdfd/f6f6/e3e3\x1b\\").wait_bytes(from, &text("light"));
    pty.wait_for("web-1.example.org").keys("q");
    assert_eq!(pty.wait_exit(), 0);
}
