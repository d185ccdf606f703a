//! What others wrote, all the way to the bytes that leave for the terminal.

use ratatui::layout::Size;

use super::paint::Screen;
use crate::app::sample::{environment, now, result_details, run, uid};
use crate::app::{Answer, Effect, LogEvent, LogLine, Msg, RunsMsg, Seen, State, prepare, update};
use crate::config::{Keymap, Theme};
use crate::domain::results::{ResultStatus, RunResults};
use crate::domain::{Phase, Problem, ProblemKind};

/// The lines of S07 and S08.
const CORPUS: &[&[u8]] = &[
    b"\x1b[2J",
    b"\x1b]0;x\x07",
    b"\x1b]52;c;aGk=\x07",
    b"\x1b[?1049l",
    b"\x1b[8mhidden",
    b"\x9b31m",
    "\u{9b}31m".as_bytes(),
    b"\x1bPq",
    b"\x1b[38;5",
    b"[red]x[-]",
    b"{ofUfac]>t[898dfs",
    b"a\tb",
    b"10%\r20%\rdone",
    b"\xff",
    "漢字👩‍❤️‍👨 e\u{301}\u{202e}\u{200d}".as_bytes(),
    b"nul\0vt\x0bff\x0c",
];

struct Terminal {
    state: State,
    seen: Seen,
    screen: Screen,
    sent: Vec<u8>,
}

impl Terminal {
    fn send(&mut self, msg: Msg) -> Vec<Effect> {
        let effects = update(&mut self.state, &self.seen, now(), msg);
        prepare(&mut self.state, now());
        let theme = Theme::default();
        let (seen, bytes) = self.screen.draw(|frame| crate::view::draw(frame, &self.state, &theme));
        self.seen = seen;
        self.sent.extend(bytes);
        effects
    }

    fn press(&mut self, keys: &str) -> Vec<Effect> {
        keys.split_whitespace().flat_map(|key| self.send(Msg::Key(key.parse().unwrap()))).collect()
    }
}

/// Reads what was sent as a terminal does, and fails at the first thing that none of our frames has a reason to ask for.
fn only_our_own(sent: &[u8]) {
    let text = std::str::from_utf8(sent).unwrap();
    let mut cleared = 0;
    let mut sequences = text.split('\u{1b}');
    let first = sequences.next().unwrap();
    // A carriage return moves to the first column.
    let written = |text: &str| !text.chars().any(|c| c.is_control() && c != '\r');
    assert!(written(first), "{first:?}");
    for sequence in sequences {
        let body = sequence.strip_prefix('[').unwrap_or_else(|| panic!("{sequence:?}"));
        let (numbers, rest) = body.split_at(body.find(|c: char| c.is_ascii_alphabetic()).unwrap());
        let (last, rest) = rest.split_at(1);
        assert!(written(rest), "{rest:?}");
        let plain = numbers.chars().all(|c| c.is_ascii_digit() || c == ';');
        // Concealed is never asked for; 8 is only a part of a colour.
        let concealed = numbers.split(';').take_while(|n| !["38", "48"].contains(n)).any(|n| n == "8");
        cleared += usize::from(last == "J");
        assert!(
            last == "m" && plain && !concealed
                || ["H", "B", "C", "D", "K"].contains(&last) && plain
                || last == "J" && numbers == "2"
                || ["h", "l"].contains(&last) && ["?2026", "?25"].contains(&numbers),
            "{numbers:?} {last:?}"
        );
    }
    assert_eq!(cleared, 1, "the first frame clears, no other");
}

#[test]
fn nothing_that_others_wrote_is_obeyed() {
    let mut state = State::new(environment(), Keymap::default(), now());
    let size = Size::new(120, 40);
    update(&mut state, &Seen::default(), now(), Msg::Resize { width: size.width, height: size.height });
    let mut terminal =
        Terminal { state, seen: Seen::default(), screen: Screen::new(size, true), sent: Vec::new() };
    let mut failed = run("a.org", Phase::Failed);
    failed.reason = String::from_utf8_lossy(&CORPUS.concat()).into_owned();
    failed.groups = CORPUS.iter().map(|c| String::from_utf8_lossy(c).into_owned()).collect();
    terminal.send(Msg::Runs(RunsMsg::Reset));
    terminal.send(Msg::Runs(RunsMsg::Batch(vec![failed])));
    terminal.send(Msg::Runs(RunsMsg::Listed));
    terminal.press("w esc d esc enter");
    let run = uid("a.org", 1);
    let all = String::from_utf8_lossy(&CORPUS.join(b"\n".as_slice())).into_owned();
    let mut tasks: Vec<_> = CORPUS
        .iter()
        .zip(1..)
        .map(|(text, id)| {
            let text = String::from_utf8_lossy(text);
            let mut task = crate::app::sample::result(id, &text, &text, ResultStatus::Failed);
            task.host = text.into_owned();
            task
        })
        .collect();
    tasks.swap(0, 5);
    let results = RunResults { results: tasks, ..RunResults::default() };
    terminal.send(Msg::Results { run: run.clone(), results: Ok(Box::new(results)), complete: true });
    let lines = CORPUS.iter().map(|line| LogLine { at: Some(now()), bytes: (*line).into() }).collect();
    terminal.send(Msg::Log { run: run.clone(), event: LogEvent::Lines(lines) });
    let heading = [b"TASK [".as_slice(), &CORPUS.concat(), b"] ***"].concat();
    let heading = LogLine { at: Some(now()), bytes: heading.into() };
    terminal.send(Msg::Log { run: run.clone(), event: LogEvent::Lines(vec![heading]) });

    let mut details = result_details(1);
    for part in [&mut details.message, &mut details.stdout, &mut details.stderr, &mut details.exception] {
        part.clone_from(&all);
    }
    details.content = serde_json::json!({"cmd": all, "invocation": {"module_args": {all.clone(): all}}});
    let later = now() + jiff::SignedDuration::from_secs(1);
    for effect in update(&mut terminal.state, &terminal.seen, later, Msg::Wake) {
        if let Effect::FetchResult { id, result, .. } = effect {
            details.result.id = result;
            terminal.send(Msg::Answer { id, result: Ok(Answer::Result(Box::new(details.clone()))) });
        }
    }
    terminal.press("enter j j G g z z t f f f tab W T o O o / x enter n");
    let effects = terminal.press("l g y j y");
    let copied: Vec<&[u8]> = effects
        .iter()
        .filter_map(|e| match e {
            Effect::Copy { text, .. } => Some(text.as_bytes()),
            Effect::CopyBytes { bytes, .. } => Some(bytes.as_slice()),
            _ => None,
        })
        .collect();
    assert_eq!(copied, [CORPUS[0], CORPUS[1]], "what is copied is what came");
    let problem = Problem::new("x", ProblemKind::Failed, all);
    terminal.send(Msg::Log { run, event: LogEvent::Problem(problem) });
    terminal.press("m esc ? esc w");
    assert!(terminal.sent.len() > 10_000);
    only_our_own(&terminal.sent);
}
