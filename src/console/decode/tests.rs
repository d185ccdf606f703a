use std::time::Duration;

use proptest::prelude::*;

use super::{Decoder, Input};
use crate::app::Mouse;
use crate::config::{Code, Key};

const DEL: u8 = 0x7f;

fn k(code: Code) -> Vec<Input> {
    vec![Input::Key(Key { code, ctrl: false, alt: false, shift: false })]
}

fn km(code: Code, mods: &str) -> Vec<Input> {
    let has = |c| mods.contains(c);
    vec![Input::Key(Key { code, ctrl: has('c'), alt: has('a'), shift: has('s') })]
}

fn c(letter: char) -> Vec<Input> {
    k(Code::Char(letter))
}

/// Every kind of sequence that a terminal sends, and what it is.
fn corpus() -> Vec<(&'static [u8], Vec<Input>)> {
    use Code::*;
    vec![
        (b"a", c('a')),
        (b"A", c('A')),
        (b"\r", k(Enter)),
        (b"\t", k(Tab)),
        (b"\x7f", k(Backspace)),
        (b"\x03", km(Char('c'), "c")),
        (b"\x1a", km(Char('z'), "c")),
        (b"\x00", km(Char(' '), "c")),
        (b"\x1c", km(Char('\\'), "c")),
        (b"\x08", km(Char('h'), "c")),
        ("ß".as_bytes(), c('ß')),
        ("漢".as_bytes(), c('漢')),
        ("🦀".as_bytes(), c('🦀')),
        ("\x1bö".as_bytes(), km(Char('ö'), "a")),
        (b"\x1bx", km(Char('x'), "a")),
        (b"\x1b\r", km(Enter, "a")),
        (b"\x1b\x7f", km(Backspace, "a")),
        // Arrows and friends, as CSI and as SS3, with modifiers, of xterm, rxvt and the Linux console.
        (b"\x1b[A", k(Up)),
        (b"\x1bOB", k(Down)),
        (b"\x1b[1;5C", km(Right, "c")),
        (b"\x1b[1;4D", km(Left, "as")),
        (b"\x1b[1;129A", k(Up)),
        (b"\x1b[a", km(Up, "s")),
        (b"\x1bOb", km(Down, "c")),
        (b"\x1bO5D", km(Left, "c")),
        (b"\x1b[H", k(Home)),
        (b"\x1b[7~", k(Home)),
        (b"\x1b[F", k(End)),
        (b"\x1b[5~", k(PageUp)),
        (b"\x1b[6;3~", km(PageDown, "a")),
        (b"\x1b[2~", k(Insert)),
        (b"\x1b[3~", k(Delete)),
        (b"\x1b[3$", km(Delete, "s")),
        (b"\x1b[3^", km(Delete, "c")),
        (b"\x1b[3@", km(Delete, "cs")),
        (b"\x1bOP", k(F(1))),
        (b"\x1b[[A", k(F(1))),
        (b"\x1b[11~", k(F(1))),
        (b"\x1b[15~", k(F(5))),
        (b"\x1b[17~", k(F(6))),
        (b"\x1b[24~", k(F(12))),
        (b"\x1b[1;2P", km(F(1), "s")),
        (b"\x1b[Z", km(Tab, "s")),
        (b"\x1b[1;4Z", km(Tab, "as")),
        (b"\x1bOM", k(Enter)),
        (b"\x1bOq", c('1')),
        // kitty's keyboard protocol, and xterm's modifyOtherKeys.
        (b"\x1b[27u", k(Esc)),
        (b"\x1b[13;2u", km(Enter, "s")),
        (b"\x1b[97;5u", km(Char('a'), "c")),
        (b"\x1b[97;2u", c('A')),
        (b"\x1b[49:33;2;33u", c('!')),
        (b"\x1b[97;1:3u", vec![]),
        (b"\x1b[97;1:2u", c('a')),
        (b"\x1b[57399u", c('0')),
        (b"\x1b[57441;2u", vec![]),
        (b"\x1b[97;9u", vec![]),
        (b"\x1b[27;5;9~", km(Tab, "c")),
        (b"\x1b[27;6;65~", km(Char('a'), "c")),
        (b"\x1b[27;2;65~", c('A')),
        // Focus, pastes.
        (b"\x1b[I", vec![Input::Focus(true)]),
        (b"\x1b[O", vec![Input::Focus(false)]),
        (b"\x1b[200~a\r\n\x1b[Ay\x03\x1b[201~", vec![Input::Paste("a\n\x1b[Ay\x03".into())]),
        ("\x1b[200~ä漢\x1b[201~".as_bytes(), vec![Input::Paste("ä漢".into())]),
        (b"\x1b[200~\x1b[201~", vec![]),
        (b"\x1b[201~", vec![]),
        // Answers and reports: no keys.
        (b"\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\", vec![Input::Background(0x1e, 0x1e, 0x2e)]),
        (b"\x1b]11;rgb:ffff/ffff/ffff\x07", vec![Input::Background(255, 255, 255)]),
        (b"\x1b]52;c;YXBwcm92ZQ==\x07", vec![]),
        ("\x1b]l✜ title aryx\x1b\\".as_bytes(), vec![]),
        (b"\x1b[?62;22c", vec![]),
        (b"\x1b[>41;354;0c", vec![]),
        (b"\x1b[?2026;2$y", vec![]),
        (b"\x1b[4;1$y", vec![]),
        (b"\x1b[?1u", vec![]),
        (b"\x1b[24;80R", vec![]),
        (b"\x1b[8;24;80t", vec![]),
        (b"\x1b[0n", vec![]),
        (b"\x1bP>|xterm(388)\x1b\\", vec![]),
        (b"\x1bP1+r524742=38\x1b\\", vec![]),
        (b"\x1bP1$r0m\x1b\\", vec![]),
        (b"\x1b_Gi=31;OK\x1b\\", vec![]),
        (b"\x1b[<0;10;20M", vec![Input::Mouse(Mouse::Click, 9, 19)]),
        (b"\x1b[<0;10;20m", vec![]),
        (b"\x1b[M aq", vec![]),
        (b"\x9b5~", k(PageUp)),
        (b"\x9d11;rgb:0/0/0\x9c", vec![Input::Background(0, 0, 0)]),
    ]
}

fn run(chunks: &[&[u8]], gap: Duration) -> Vec<Input> {
    let mut decoder = Decoder::new(DEL);
    let mut out = Vec::new();
    for (i, chunk) in chunks.iter().enumerate() {
        if i > 0 {
            wait(&mut decoder, gap, &mut out);
        }
        decoder.feed(chunk, &mut out);
    }
    out
}

/// Lets time pass.
fn wait(decoder: &mut Decoder, mut gap: Duration, out: &mut Vec<Input>) {
    while let Some(patience) = decoder.patience() {
        if patience > gap {
            break;
        }
        gap -= patience;
        decoder.expire(out);
    }
}

const NONE: Duration = Duration::ZERO;
const SLOW: Duration = Duration::from_millis(400);
/// A packet was lost and came again.
const STALLED: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(60);

#[test]
fn every_sequence_is_what_it_is() {
    for (bytes, expected) in corpus() {
        assert_eq!(run(&[bytes], NONE), expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn every_split_decodes_the_same() {
    for (bytes, expected) in corpus() {
        for i in 0..=bytes.len() {
            for j in i..=bytes.len() {
                let chunks = [&bytes[..i], &bytes[i..j], &bytes[j..]];
                assert_eq!(run(&chunks, NONE), expected, "{} at {i} and {j}", bytes.escape_ascii());
            }
        }
    }
}

/// The line stalls longer than a lone ESC may take, wherever: nothing of the rest arrives as a letter.
#[test]
fn a_split_with_a_pause_makes_no_letters() {
    for (bytes, expected) in corpus() {
        for at in 1..bytes.len() {
            let got = run(&[&bytes[..at], &bytes[at..]], STALLED);
            if at > 2 || !matches!(bytes[0], 0x1b | 0x9b) {
                assert_eq!(got, expected, "{} stalled at {at}", bytes.escape_ascii());
            } else if matches!(bytes[1], b'[' | b']' | b'P' | b'_') && bytes.len() > 3 {
                let letters = got
                    .iter()
                    .filter(|input| matches!(input, Input::Key(Key { code: Code::Char(_), alt: false, .. })));
                let typed = expected
                    .iter()
                    .filter(|input| matches!(input, Input::Key(Key { code: Code::Char(_), .. })));
                assert_eq!(letters.count(), typed.count(), "{} stalled at {at}", bytes.escape_ascii());
            }
            let got = run(&[&bytes[..at], &bytes[at..]], SLOW);
            let mut want = expected.clone();
            if at == 1 && bytes[0] == 0x1b {
                want.insert(0, k(Code::Esc).remove(0));
                // Alt with a key cannot be told from ESC and the key then, nor can what no program sends.
                let sequence = matches!(bytes[1], b'[' | b'O' | b']' | b'P' | b'_');
                if !sequence
                    || matches!(&bytes[1..], b"OM" | b"Oq" | b"Ob" | b"O5D" | b"[a")
                    || bytes[2] == b'l'
                {
                    continue;
                }
            }
            assert_eq!(got, want, "{} at {at}", bytes.escape_ascii());
        }
    }
}

#[test]
fn escape_alone_is_a_key_after_a_moment() {
    let mut decoder = Decoder::new(DEL);
    let mut out = Vec::new();
    decoder.feed(b"\x1b", &mut out);
    assert!(out.is_empty());
    assert_eq!(decoder.patience(), Some(Duration::from_millis(50)));
    decoder.expire(&mut out);
    assert_eq!(out, k(Code::Esc));
    // Then what is typed is typed: brackets and capitals too.
    for typed in ["[", "O", "]", "P", "_", "x"] {
        let got = run(&[b"\x1b", typed.as_bytes(), b"k"], SLOW);
        let letters: Vec<Input> = [k(Code::Esc), c(typed.chars().next().unwrap()), c('k')].concat();
        assert_eq!(got, letters, "{typed}");
    }
    assert_eq!(run(&[b"\x1b", b"[k"], SLOW), [k(Code::Esc), c('['), c('k')].concat());
    assert_eq!(run(&[b"\x1b", b"]k"], SLOW), [k(Code::Esc), c(']'), c('k')].concat());
    assert_eq!(run(&[b"\x1b\x1b"], NONE), k(Code::Esc));
    assert_eq!(run(&[b"\x1b\x1b", b""], SLOW), [k(Code::Esc), k(Code::Esc)].concat());
}

#[test]
fn a_letter_with_alt_that_could_begin_a_sequence_is_a_key_in_the_end() {
    for letter in ['[', 'O', ']', 'P'] {
        let bytes = [0x1b, letter as u8];
        assert_eq!(run(&[&bytes, b""], LONG), km(Code::Char(letter), "a"));
    }
}

#[test]
fn control_c_gets_through_half_an_answer() {
    for begun in [&b"\x1b[1;"[..], b"\x1b]11;rgb:", b"\x1bP1+r", b"\x1b[", b"\x1bO", b"\xe6\xbc"] {
        let mut decoder = Decoder::new(DEL);
        let mut out = Vec::new();
        decoder.feed(begun, &mut out);
        decoder.feed(b"\x03", &mut out);
        assert_eq!(out, km(Code::Char('c'), "c"), "{}", begun.escape_ascii());
    }
}

#[test]
fn a_paste_without_an_end_is_delivered_and_locks_nobody_out() {
    let mut decoder = Decoder::new(DEL);
    let mut out = Vec::new();
    decoder.feed(b"\x1b[200~first ", &mut out);
    wait(&mut decoder, LONG, &mut out);
    assert_eq!(out, [Input::Paste("first ".into())]);
    decoder.feed(b"yyaa", &mut out);
    assert_eq!(out.len(), 1, "more at a time than anybody types is the paste's rest");
    decoder.feed(b"q", &mut out);
    assert_eq!(out[1..], [vec![Input::Paste("yyaa".into())], c('q')].concat());
}

#[test]
fn a_huge_paste_is_cut() {
    let mut decoder = Decoder::new(DEL);
    let mut out = Vec::new();
    decoder.feed(b"\x1b[200~", &mut out);
    for _ in 0..3 {
        decoder.feed(&vec![b'x'; 1024 * 1024], &mut out);
    }
    decoder.feed(b"\x1b[201~k", &mut out);
    assert_eq!(out.len(), 2);
    assert!(matches!(&out[0], Input::Paste(text) if text.len() == 1024 * 1024));
    assert_eq!(out[1..], c('k'));
}

#[test]
fn backspace_is_what_the_terminal_says() {
    let mut out = Vec::new();
    Decoder::new(0x08).feed(b"\x08\x7f", &mut out);
    assert_eq!(out, [k(Code::Backspace), k(Code::Backspace)].concat());
}

proptest! {
    #[test]
    fn a_stream_decodes_the_same_however_it_is_cut(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let corpus = corpus();
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for pick in picks {
            let (sequence, inputs) = &corpus[pick.index(corpus.len())];
            bytes.extend_from_slice(sequence);
            expected.extend(inputs.iter().cloned());
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(run(&chunks, NONE), expected);
    }

    #[test]
    fn whatever_comes_the_keyboard_works_afterwards(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut decoder = Decoder::new(DEL);
        let mut out = Vec::new();
        decoder.feed(&bytes, &mut out);
        wait(&mut decoder, LONG, &mut out);
        out.clear();
        decoder.feed(b"q", &mut out);
        prop_assert!(out.ends_with(&c('q')), "{:?}", out);
    }
}

#[test]
fn the_answer_about_the_background_is_understood_wherever_it_is_cut() {
    for (answer, colour) in [
        ("\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\", (0x1e, 0x1e, 0x2e)),
        ("\x1b]11;rgb:ff/ff/f0\x07", (0xff, 0xff, 0xf0)),
        ("\x1b]11;rgba:0/f/8/f\x07", (0, 0xff, 0x88)),
    ] {
        let (red, green, blue) = colour;
        for cut in 0..answer.len() {
            let (mut decoder, mut out) = (Decoder::new(0x7f), Vec::new());
            let (first, rest) = answer.as_bytes().split_at(cut);
            decoder.feed(first, &mut out);
            decoder.feed(rest, &mut out);
            assert_eq!(out, [Input::Background(red, green, blue)], "{answer:?} cut at {cut}");
        }
    }
    for other in
        ["\x1b]11;rgb:zz/00/00\x07", "\x1b]11;rgb:11111/0/0\x07", "\x1b]10;rgb:0/0/0\x07", "\x1b]11;\x1b\\"]
    {
        let (mut decoder, mut out) = (Decoder::new(0x7f), Vec::new());
        decoder.feed(other.as_bytes(), &mut out);
        assert_eq!(out, [], "{other:?}");
    }
}

#[test]
fn the_mouse_is_told_by_cell_and_nothing_else_of_it() {
    let table: [(&[u8], Option<Input>); 8] = [
        (b"\x1b[<0;1;1M", Some(Input::Mouse(Mouse::Click, 0, 0))),
        (b"\x1b[<0;120;40M", Some(Input::Mouse(Mouse::Click, 119, 39))),
        (b"\x1b[<4;3;2M", Some(Input::Mouse(Mouse::Click, 2, 1))),
        (b"\x1b[<64;3;2M", Some(Input::Mouse(Mouse::Up, 2, 1))),
        (b"\x1b[<65;3;2M", Some(Input::Mouse(Mouse::Down, 2, 1))),
        (b"\x1b[<0;3;2m", None),
        (b"\x1b[<2;3;2M", None),
        (b"\x1b[<0;0;2M", None),
    ];
    for (bytes, expected) in table {
        let (mut decoder, mut out) = (Decoder::new(DEL), Vec::new());
        decoder.feed(bytes, &mut out);
        assert_eq!(out, expected.into_iter().collect::<Vec<_>>(), "{}", bytes.escape_ascii());
    }
}
