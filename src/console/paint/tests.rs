//! What is sent, read by a terminal.

use proptest::prelude::*;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::{Screen, Size};
use ratatui::Frame;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn show(screen: &mut Screen, line: &Line<'_>) -> Vec<u8> {
    screen.draw(|frame| frame.render_widget(line, frame.area())).1
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let mut screen = Screen::new(Size::new(10, 2), true);
    assert!(!show(&mut screen, &Line::from("hello")).is_empty());
    assert_eq!(text(&show(&mut screen, &Line::from("hello"))), "");
    let change = show(&mut screen, &Line::from("hallo"));
    assert_eq!(text(&change), "\x1b[?2026h\x1b[1;2Ha\x1b[?2026l");
    screen.renew(Size::new(10, 2));
    assert!(text(&show(&mut screen, &Line::from("hallo"))).contains("hallo"));
}

#[test]
fn a_size_that_is_known_only_before_the_first_frame_is_the_frames() {
    let mut screen = Screen::new(Size::new(10, 2), true);
    screen.renew(Size::new(10, 2));
    screen.renew(Size::new(5, 1));
    assert_eq!(screen.size(), Size::new(5, 1));
    let first = text(&show(&mut screen, &Line::from("hello you")));
    assert!(first.contains("\x1b[2J") && first.contains("hello") && !first.contains("you"), "{first:?}");
}

#[test]
fn the_screen_is_what_was_drawn() {
    let mut screen = Screen::new(Size::new(12, 3), true);
    let mut parser = vt100::Parser::new(3.try_into().unwrap(), 12.try_into().unwrap(), 0);
    let lines = ["abc", "漢字 ok", "naïve", "", "x\u{301}y", "🦀 crab"];
    for line in lines {
        parser.process(&show(&mut screen, &Line::from(line)));
        let shown = parser.screen().rows(0, 12).next().unwrap();
        assert_eq!(shown.trim_end(), line.trim_end());
    }
}

#[test]
fn without_colours_reverse_and_bold_remain() {
    let mut screen = Screen::new(Size::new(10, 1), false);
    let line = Line::from(Span::styled("x", Style::new().red().on_blue().bold().reversed()));
    assert!(text(&show(&mut screen, &line)).contains("\x1b[0;1;7mx\x1b[0m"));
    let mut screen = Screen::new(Size::new(10, 1), true);
    assert!(text(&show(&mut screen, &line)).contains("\x1b[31;44;1;7mx\x1b[0m"));
}

#[test]
fn no_control_character_leaves_in_a_cell() {
    let mut screen = Screen::new(Size::new(10, 1), true);
    let bytes = screen
        .draw(|frame| {
            frame.buffer_mut()[(0, 0)].set_symbol("\x1b[2J");
            frame.buffer_mut()[(6, 0)].set_symbol("\u{9b}31m");
        })
        .1;
    let sent = text(&bytes);
    assert_eq!(sent.matches('?').count() - sent.matches("[?").count(), 2, "{}", bytes.escape_ascii());
    assert!(!sent.contains('\u{9b}') && sent.matches("[2J").count() == 1);
}

#[test]
fn the_cursor_is_sent_when_it_moves() {
    let mut screen = Screen::new(Size::new(10, 1), true);
    let mut at = |x: u16, line: &str| {
        let draw = |frame: &mut Frame<'_>| {
            frame.render_widget(line, frame.area());
            frame.set_cursor_position((x, 0));
        };
        text(&screen.draw(draw).1)
    };
    assert!(at(1, "a").contains("\x1b[?25h\x1b[1;2H"));
    assert_eq!(at(1, "a"), "");
    assert!(at(2, "a").contains("\x1b[1;3H"));
    assert!(at(2, "b").ends_with("\x1b[1;3H\x1b[?2026l"));
}

#[test]
fn only_what_differs_is_sent() {
    let mut screen = Screen::new(Size::new(60, 3), true);
    let mut change = |lines: [Line<'_>; 3]| {
        let draw = |frame: &mut Frame<'_>| {
            for (y, line) in (0..).zip(&lines) {
                frame.buffer_mut().set_line(20, y, line, 40);
            }
        };
        let sent = text(&screen.draw(draw).1);
        if sent.is_empty() {
            return sent;
        }
        sent.strip_prefix("\x1b[?2026h").unwrap().strip_suffix("\x1b[?2026l").unwrap().to_owned()
    };
    let bold = |text: &'static str| Span::styled(text, Style::new().bold().red());
    change([Line::from("a long text at first"), bold("word").into(), Line::from("under it")]);
    // Erased, not overwritten; over two letters that stay, not round them; of bold and red only bold is taken back.
    let sent = change([
        Line::from("a"),
        Line::from(vec![bold("wXXd "), Span::styled("red", Style::new().red())]),
        Line::from("uXdXr it"),
    ]);
    assert_eq!(sent, "\x1b[1;23H\x1b[K\x1b[B\x1b[D\x1b[31;1mXXd \x1b[22mred\x1b[3;22H\x1b[0mXdX");
    // Nothing is seen of a colour where there is no letter.
    let red = Span::styled("red    ", Style::new().red());
    let sent = change([Line::from("a"), Line::from(vec![bold("wXXd "), red]), Line::from("uXdXr it")]);
    assert_eq!(sent, "");
}

#[test]
fn nothing_of_a_wide_character_is_left() {
    let mut screen = Screen::new(Size::new(8, 1), true);
    let mut parser = vt100::Parser::new(1.try_into().unwrap(), 8.try_into().unwrap(), 0);
    for line in ["漢字漢字", " 字漢 x", "a漢字漢", "⌨\u{fe0f} ab", "xyz", "🦀🦀🦀🦀", "   🦀"]
    {
        parser.process(&show(&mut screen, &Line::from(line)));
        let mut whole = Screen::new(Size::new(8, 1), true);
        let mut fresh = vt100::Parser::new(1.try_into().unwrap(), 8.try_into().unwrap(), 0);
        fresh.process(&show(&mut whole, &Line::from(line)));
        assert_eq!(seen(parser.screen()), seen(fresh.screen()), "{line}");
    }
}

/// A piece of a frame: where, what, how.
type Piece = (u16, u16, String, Style);

fn colour() -> impl Strategy<Value = Color> {
    prop_oneof![
        Just(Color::Reset),
        Just(Color::Red),
        Just(Color::Indexed(12)),
        Just(Color::Indexed(200)),
        Just(Color::Rgb(1, 20, 255)),
    ]
}

fn piece() -> impl Strategy<Value = Piece> {
    let letters = prop_oneof![
        8 => Just("a"), 8 => Just("b"), 8 => Just(" "), 3 => Just("     "), 2 => Just("漢"), 1 => Just("🦀"), 1 => Just("─"),
        1 => Just("e\u{301}"), 1 => Just("⌨\u{fe0f}"),
    ];
    let text = prop::collection::vec(letters, 0..12).prop_map(|letters| letters.concat());
    let style = (colour(), colour(), 0_u16..0x400).prop_map(|(fg, bg, modifier)| {
        // Most have none.
        let modifier =
            if modifier % 3 == 0 { Modifier::from_bits_truncate(modifier) } else { Modifier::empty() };
        Style::new().fg(fg).bg(bg).add_modifier(modifier)
    });
    (0_u16..24, 0_u16..5, text, style)
}

fn paint(screen: &mut Screen, pieces: &[Piece]) -> Vec<u8> {
    let draw = |frame: &mut Frame<'_>| {
        let area = frame.area();
        for (x, y, text, style) in pieces.iter().filter(|(x, y, ..)| *x < area.width && *y < area.height) {
            frame.buffer_mut().set_string(*x, *y, text, *style);
        }
    };
    screen.draw(draw).1
}

/// Every cell as it is seen: on blanks without a modifier that shows there, only what is behind them.
fn seen(screen: &vt100::Screen) -> Vec<String> {
    let (rows, columns) = screen.size();
    let cells = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
    let one = |(row, column)| {
        let cell = screen.cell(row, column).unwrap();
        let blank = cell.contents().trim().is_empty();
        let (bg, inverse, underline) = (cell.bgcolor(), cell.inverse(), cell.underline());
        match blank && !inverse && !underline {
            true => format!("{bg:?}"),
            false => {
                let letter = (cell.bold(), cell.dim(), cell.italic(), cell.fgcolor());
                format!("{:?} {bg:?} {inverse} {underline} {letter:?}", cell.contents())
            }
        }
    };
    cells.map(one).collect()
}

/// The letters of the terminal, row by row.
fn letters(screen: &vt100::Screen) -> Vec<String> {
    screen.rows(0, screen.size().1.get()).map(|row| row.trim_end().to_owned()).collect()
}

/// The same of what was drawn.
fn drawn(screen: &Screen) -> Vec<String> {
    let buffer = &screen.shown;
    let row = |cells: &[ratatui::buffer::Cell]| {
        let mut text = String::new();
        let mut at = 0;
        while let Some(cell) = cells.get(at) {
            let (symbol, width) = super::look::symbol(cell, cells.len() - at);
            text.push_str(symbol);
            at += width;
        }
        text.trim_end().to_owned()
    };
    buffer.content.chunks(usize::from(buffer.area.width)).map(row).collect()
}

/// Fails where something is erased while a colour is behind the text, or what shows on blanks: terminals differ in what they leave then.
fn erases_plainly(sent: &str) {
    let mut pen = std::collections::BTreeSet::new();
    for sequence in sent.split("\x1b[").skip(1) {
        let (codes, rest) = sequence.split_at(sequence.find(|c: char| c.is_ascii_alphabetic()).unwrap());
        match rest.chars().next() {
            Some('m') => {
                let mut codes = codes.split(';').map(|code| code.parse::<u8>().unwrap_or(0));
                while let Some(code) = codes.next() {
                    match code {
                        0 => pen.clear(),
                        4 | 5 | 7 | 9 => drop(pen.insert(code)),
                        24 | 25 | 27 | 29 => drop(pen.remove(&(code - 20))),
                        40..=47 | 100..=107 => drop(pen.insert(48)),
                        49 => drop(pen.remove(&48)),
                        38 | 48 => {
                            if code == 48 {
                                pen.insert(48);
                            }
                            let numbers = if codes.next() == Some(2) { 3 } else { 1 };
                            codes.by_ref().take(numbers).for_each(drop);
                        }
                        _ => {}
                    }
                }
            }
            Some('K') => assert!(pen.is_empty(), "{pen:?} {sent:?}"),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Painted piece by piece, the terminal shows the same as painted whole.
    #[test]
    fn a_frame_after_others_is_seen_as_one_that_is_painted_whole(
        (width, height) in (1_u16..25, 1_u16..6),
        frames in prop::collection::vec(prop::collection::vec(piece(), 0..8), 1..6),
        colours in any::<bool>(),
    ) {
        let size = Size::new(width, height);
        let terminal = || vt100::Parser::new(height.try_into().unwrap(), width.try_into().unwrap(), 0);
        let (mut screen, mut shown) = (Screen::new(size, colours), terminal());
        for pieces in &frames {
            let bytes = paint(&mut screen, pieces);
            erases_plainly(&text(&bytes));
            shown.process(&bytes);
            let (mut whole, mut fresh) = (Screen::new(size, colours), terminal());
            let bytes = paint(&mut whole, pieces);
            erases_plainly(&text(&bytes));
            fresh.process(&bytes);
            prop_assert_eq!(seen(shown.screen()), seen(fresh.screen()));
            prop_assert_eq!(drawn(&whole), letters(fresh.screen()));
        }
    }
}
