//! Inside a run: its log in every form, several hosts, what cannot be trusted.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::scene::{Scene, failed_run, lines, recorded, site};
use super::{SIZES, picture};
use crate::app::sample::{ago, result, uid};
use crate::app::{LogEvent, LogLine, Msg, RunsMsg};
use crate::config::{ColourDepth, SymbolSet, Theme};
use crate::domain::Phase;
use crate::domain::results::{Playbook, PlaybookStatus, ResultStatus, RunResults};

const NAS: &str = "nas-1.lan.example.org";

/// A failed run whose log has the zoom.
fn log_of(width: u16, height: u16, lines: LogEvent) -> Scene {
    let mut scene = site(width, height);
    scene.press("j j j j enter");
    scene.send(Msg::Log { run: uid(NAS, 1), event: lines });
    scene.press("l l");
    scene
}

fn timed() -> LogEvent {
    let line =
        |seconds: i64, text: &str| LogLine { at: Some(ago(9_000 - seconds)), bytes: text.as_bytes().into() };
    LogEvent::Lines(vec![
        line(0, "hostwright: run provision-nas-1 of nas-1.lan.example.org"),
        line(2, "hostwright: policy https://git.example.org/policy, playbook site.yml"),
        line(7, "PLAY [Provision] ***************************************************************"),
        line(8, "TASK [zfs : install packages] **************************************************"),
        line(
            40,
            "\u{1b}[0;33mchanged: [nas-1.lan.example.org] => {\"changed\": true, \"packages\": [\"zfsutils-linux\", \"zfs-zed\", \"libzfs4\"]}\u{1b}[0m",
        ),
        line(41, "TASK [zfs : import pool] *******************************************************"),
        line(
            3_700,
            "\u{1b}[0;31mfatal: [nas-1.lan.example.org]: FAILED! => {\"changed\": false, \"cmd\": \"zpool import -N tank\", \"msg\": \"cannot import\"}\u{1b}[0m",
        ),
    ])
}

#[test]
fn the_log_with_times_wrapped_and_searched_at_three_sizes() {
    for (width, height) in SIZES {
        let mut scene = log_of(width, height, timed());
        scene.press("T T W F / i m p o r t enter");
        picture(&format!("log_{width}x{height}"), &mut scene);
    }
}

#[test]
fn only_a_tasks_lines_are_shown_and_it_is_said() {
    let mut scene = log_of(80, 24, timed());
    scene.press("k k o T");
    picture("log_only_80x24", &mut scene);
}

#[test]
fn a_paused_log_says_how_much_came() {
    let mut scene = log_of(80, 24, timed());
    scene.press("F k");
    let before = scene.text();
    scene.send(Msg::Log { run: uid(NAS, 1), event: lines(&["one more", "and another"]) });
    let after = scene.text();
    assert!(before.contains("paused") && after.contains("paused, 2 new"), "{after}");
    let body = |text: &str| text.lines().skip(5).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(body(&before)[1..8], body(&after)[1..8], "it does not move");
}

fn several() -> RunResults {
    use ResultStatus as S;
    let mut list = Vec::new();
    for (host, states) in [
        ("db-1.lan.example.org", [S::Ok, S::Changed, S::Ok]),
        ("db-2.lan.example.org", [S::Ok, S::Failed, S::Skipped]),
        ("a-host-with-a-very-long-name.lan.example.org", [S::Unreachable, S::Rescued, S::Ignored]),
    ] {
        for (n, (task, status)) in
            ["Gathering Facts", "install postgres", "restart postgres"].into_iter().zip(states).enumerate()
        {
            let role = if n == 0 { "" } else { "postgres" };
            let mut result = result(list.len() as u64 + 1, role, task, status);
            result.host = host.into();
            list.push(result);
        }
    }
    RunResults { counts: RunResults::count(&list), results: list, ..RunResults::default() }
}

#[test]
fn a_run_of_several_hosts_names_them_at_three_sizes() {
    for (width, height) in SIZES {
        let mut scene = site(width, height);
        scene.press("j j j j enter");
        let run = uid(NAS, 1);
        scene.send(Msg::Results { run, results: Ok(Box::new(several())), complete: true });
        picture(&format!("run_hosts_{width}x{height}"), &mut scene);
    }
}

#[test]
fn what_is_left_out_of_the_tasks_is_said() {
    let mut scene = failed_run(80, 24);
    assert!(scene.press("f").text().contains("only failed, 43 hidden"));
    assert!(scene.press("f").text().contains("only changed"));
    let text = scene.press("t").text();
    assert!(text.contains("slowest first, only changed"), "{text}");
    let text = scene.press("f t / m o d u l e enter").text();
    assert!(text.contains("/module 1 of 1"), "{text}");
}

#[test]
fn a_run_that_cannot_be_trusted_says_so() {
    let mut scene = site(160, 50);
    scene.press("j j j enter");
    let run = uid("web-8.lan.example.org", 1);
    let mut results = recorded();
    results.playbooks = vec![Playbook {
        id: 1,
        status: PlaybookStatus::Running,
        started: Some(ago(3_600)),
        ended: None,
        labels: Vec::new(),
        path: "site.yml".into(),
    }];
    for task in &mut results.results {
        task.started = Some(ago(500));
    }
    scene.send(Msg::Results { run: run.clone(), results: Ok(Box::new(results)), complete: false });
    let heading = LogLine { at: Some(ago(440)), bytes: b"TASK [x] ***".as_slice().into() };
    scene.send(Msg::Log { run, event: LogEvent::Lines(vec![heading]) });
    let text = scene.text();
    assert!(text.contains("▲ no sign of life for 7m") && text.contains("▲ ARA lags by 59s"), "{text}");
    let wake = scene.seen.wake.unwrap();
    assert!(
        wake > crate::app::sample::now()
            && wake <= crate::app::sample::now() + jiff::SignedDuration::from_mins(1)
    );
    // It ends, and ARA never hears of it.
    let mut over = super::scene::runs()[3].clone();
    over.phase = Phase::Failed;
    scene.send(Msg::Runs(RunsMsg::Batch(vec![over])));
    let text = scene.text();
    assert!(text.contains("ARA has it as running") && !text.contains("no sign of life"), "{text}");
}

/// The lines of S07 and S08, and what is to be seen of them.
const CORPUS: &[(&[u8], &str)] = &[
    (b"\x1b[2J", "␛[2J"),
    (b"\x1b]0;x\x07", "␛]0;x␇"),
    (b"\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
    (b"\x1b[?1049l", "␛[?1049l"),
    (b"\x1b[8mhidden", "hidden"),
    (b"\x9b31mred", "\u{fffd}31mred"),
    ("\u{9b}31mred".as_bytes(), "\u{fffd}31mred"),
    (b"\x1bPq", "␛Pq"),
    (b"\x1b[38;5", "␛[38;5"),
    (b"[red]x[-]", "[red]x[-]"),
    (b"{ofUfac]>t[898dfs", "{ofUfac]>t[898dfs"),
    (b"a\tb", "a       b"),
    ("漢\tb".as_bytes(), "漢      b"),
    (b"10%\r20%\rdone", "done"),
    (b"10%\r20%\r", "20%"),
    (b"\xffworld", "\u{fffd}world"),
    (
        "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字".as_bytes(),
        "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字",
    ),
    ("x👩‍❤️‍👨y".as_bytes(), "x👩‍❤️‍👨y"),
    ("e\u{301}\u{301}n".as_bytes(), "e\u{301}\u{301}n"),
    ("\u{301}lone".as_bytes(), "\u{fffd}lone"),
    ("a\u{202e}b\u{200b}c".as_bytes(), "a\u{fffd}b\u{fffd}c"),
    ("x\u{200d}y".as_bytes(), "x\u{200d}y"),
    ("שלום עולם".as_bytes(), "שלום עולם"),
    (b"nul\0vt\x0bff\x0cdel\x7f", "nul␀vt␋ff␌del␡"),
    (b"\x1b[1;31;48;5;200mcolours\x1b[0m end", "colours end"),
];

/// What of a text is to be seen in so many columns.
fn golden(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let (mut out, mut used) = (String::new(), 0);
    for cell in text.graphemes(true) {
        used += cell.width();
        if used > columns.saturating_sub(1) {
            break;
        }
        out.push_str(cell);
    }
    let gap = columns.saturating_sub(1 + out.width());
    format!("{out}{}…", " ".repeat(gap))
}

#[test]
fn hostile_and_odd_lines_keep_their_columns_at_every_width() {
    let bytes = CORPUS.iter().map(|(bytes, _)| LogLine { at: None, bytes: (*bytes).into() }).collect();
    let mut scene = log_of(80, 50, LogEvent::Lines(bytes));
    scene.press("g");
    for wrap in [false, true] {
        for width in 1..=200u16 {
            scene.resize(width, 50);
            let text = scene.text();
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "width {width}");
            let shown: Vec<&str> = text.lines().collect();
            if wrap || width < 12 {
                continue;
            }
            let first = shown.iter().position(|l| l.contains("LOG")).unwrap() + 1;
            for ((bytes, whole), line) in CORPUS.iter().zip(&shown[first..]) {
                let line = line.strip_prefix(['▌', ' ']).unwrap_or(line);
                let expected = golden(whole, usize::from(width) - 1);
                assert_eq!(line, expected.trim_end(), "{} at {width}", bytes.escape_ascii());
            }
        }
        scene.press("W");
    }
}

#[test]
fn scrolled_to_the_side_wide_characters_stay_in_their_columns() {
    let mut scene = log_of(
        40,
        12,
        lines(&[
            "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字",
            "a漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字",
        ]),
    );
    scene.press("right");
    let text = scene.text();
    let rows: Vec<&str> = text.lines().filter(|l| l.contains('字')).collect();
    assert!(
        rows[0].starts_with(" 漢字") && rows[1].starts_with("▌ 漢字"),
        "half of one is a blank: {rows:?}"
    );
    scene.press("/ 字 enter");
    let again = scene.text();
    let again: Vec<&str> = again.lines().filter(|l| l.contains('字') && !l.contains("LOG")).collect();
    assert_eq!(
        again[0].trim_start_matches('▌').trim_start(),
        rows[0].trim_start(),
        "highlighted it stands the same"
    );
}

#[test]
fn colours_of_others_are_shown_as_far_as_the_terminal_has_them() {
    let texts =
        ["\u{1b}[31mred\u{1b}[0m", "\u{1b}[38;5;200mpink", "\u{1b}[38:2::1:2:3mtrue", "\u{1b}[4:3;1mline"];
    let at = |depth| {
        let mut scene = log_of(80, 24, lines(&texts));
        scene.theme = Theme::default().resolve(depth, SymbolSet::Unicode);
        let styled = scene.styled();
        let style_of = |word: &str| {
            let starts = |l: &str| l.trim_start_matches(['|', '▌', ' ']).starts_with(word);
            let at = styled.lines().position(starts).unwrap();
            styled.lines().nth(at + 1).unwrap().to_owned()
        };
        texts.iter().zip(["red", "pink", "true", "line"]).map(|(_, word)| style_of(word)).collect::<Vec<_>>()
    };
    let full = at(ColourDepth::True);
    assert!(
        full[0].contains("Red") && full[1].contains("Indexed(200)") && full[2].contains("#010203"),
        "{full:?}"
    );
    assert!(full[3].contains("bold underline"), "{full:?}");
    assert!(at(ColourDepth::Indexed)[2].contains("Indexed(16)"), "{:?}", at(ColourDepth::Indexed));
    assert!(at(ColourDepth::Ansi)[0].contains("Red"));
    let none = at(ColourDepth::None);
    assert!(
        none.iter().all(|s| !s.contains("Red") && !s.contains("Indexed") && !s.contains('#')),
        "{none:?}"
    );
}

#[test]
fn a_very_long_line_costs_what_is_shown_of_it() {
    let long = vec![b'x'; 1_000_000];
    let many: Vec<LogLine> = (0..7).map(|_| LogLine { at: None, bytes: long.clone().into() }).collect();
    let mut scene = log_of(160, 50, LogEvent::Lines(many));
    for keys in ["", "W", "/ x x enter", "W", "right right"] {
        scene.press(keys);
        let start = std::time::Instant::now();
        scene.draw();
        // A hundred times what it takes: this fails where each frame reads whole lines.
        assert!(start.elapsed() < std::time::Duration::from_secs(1), "{keys}: {:?}", start.elapsed());
    }
}
