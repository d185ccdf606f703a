//! How a cell looks, and the shortest sequence from one look to another.

use std::io::Write as _;

use ratatui::buffer::{Cell, CellWidth};
use ratatui::style::{Color, Modifier};

/// What we can ask for: the code that begins it and the code that ends it.
const MODIFIERS: [(Modifier, u8, u8); 8] = [
    (Modifier::BOLD, 1, 22),
    (Modifier::DIM, 2, 22),
    (Modifier::ITALIC, 3, 23),
    (Modifier::UNDERLINED, 4, 24),
    (Modifier::SLOW_BLINK, 5, 25),
    (Modifier::REVERSED, 7, 27),
    (Modifier::HIDDEN, 8, 28),
    (Modifier::CROSSED_OUT, 9, 29),
];
/// What is seen where there is no letter.
const SEEN_ON_BLANK: Modifier =
    Modifier::UNDERLINED.union(Modifier::SLOW_BLINK).union(Modifier::REVERSED).union(Modifier::CROSSED_OUT);

/// Colours and modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    fg: Color,
    bg: Color,
    modifier: Modifier,
}

impl Look {
    /// As the terminal writes when nothing was asked of it.
    pub(super) const PLAIN: Self = Self { fg: Color::Reset, bg: Color::Reset, modifier: Modifier::empty() };

    /// A cell's; without `colours` it has none.
    pub(super) fn of(cell: &Cell, colours: bool) -> Self {
        let known = MODIFIERS.iter().fold(Modifier::empty(), |all, (modifier, ..)| all.union(*modifier));
        let modifier = cell.modifier.intersection(known);
        match colours {
            true => Self { fg: cell.fg, bg: cell.bg, modifier },
            false => Self { modifier, ..Self::PLAIN },
        }
    }

    /// The look to write a blank of this look in, coming from `pen`: what is not seen on a blank stays as it is.
    pub(super) fn on_blank(self, pen: Self) -> Self {
        if self.modifier.intersects(SEEN_ON_BLANK) {
            return self;
        }
        let modifier = pen.modifier.difference(SEEN_ON_BLANK);
        Self { bg: self.bg, modifier, ..pen }
    }

    /// Whether a blank of this look is what a terminal leaves where it erases.
    pub(super) fn is_erased(self) -> bool {
        self.bg == Color::Reset && !self.modifier.intersects(SEEN_ON_BLANK)
    }

    /// The sequence that changes `from` into this look. Nothing when they are the same.
    ///
    /// Terminals without colours are the old ones: they know how to end everything, and not how to end one thing.
    pub(super) fn sgr(self, from: Self, colours: bool, bytes: &mut Vec<u8>) {
        if self == from {
            return;
        }
        let mut whole = b"0".to_vec();
        self.begin(Self::PLAIN, self.modifier, &mut whole);
        let shortest = if colours {
            let change = self.change(from);
            if change.len() < whole.len() { change } else { whole }
        } else {
            whole
        };
        bytes.extend_from_slice(b"\x1b[");
        bytes.extend_from_slice(&shortest);
        bytes.push(b'm');
    }

    /// The codes that end what is no more and begin what is new.
    fn change(self, from: Self) -> Vec<u8> {
        let mut codes = Vec::new();
        let gone = from.modifier.difference(self.modifier);
        let mut new = self.modifier.difference(from.modifier);
        let mut ended = 0;
        for (modifier, _, end) in MODIFIERS {
            if gone.contains(modifier) && end != ended {
                push(&mut codes, end);
                ended = end;
            }
        }
        // Bold and dim end together, and on some terminals the later one of them counts.
        let weight = Modifier::BOLD.union(Modifier::DIM);
        if gone.union(new).intersects(weight) {
            new |= self.modifier.intersection(weight);
        }
        // The console of old Linux kernels ends the underline with the colour of the text.
        if self.fg == Color::Reset && from.fg != Color::Reset {
            new |= self.modifier.intersection(Modifier::UNDERLINED);
        }
        self.begin(from, new, &mut codes);
        codes
    }

    /// The codes of the colours that are not as in `from`, and of these modifiers.
    fn begin(self, from: Self, new: Modifier, codes: &mut Vec<u8>) {
        if self.fg != from.fg {
            colour(codes, self.fg, 30);
        }
        if self.bg != from.bg {
            colour(codes, self.bg, 40);
        }
        for (modifier, begin, _) in MODIFIERS {
            if new.contains(modifier) {
                push(codes, begin);
            }
        }
    }
}

fn push(codes: &mut Vec<u8>, code: u8) {
    separate(codes);
    // Writing to memory does not fail.
    let _ = write!(codes, "{code}");
}

fn separate(codes: &mut Vec<u8>) {
    if !codes.is_empty() {
        codes.push(b';');
    }
}

/// One colour; `base` is 30 for the text and 40 for what is behind it.
fn colour(codes: &mut Vec<u8>, colour: Color, base: u8) {
    let code = match colour {
        Color::Reset => base + 9,
        Color::Rgb(r, g, b) => {
            separate(codes);
            let _ = write!(codes, "{};2;{r};{g};{b}", base + 8);
            return;
        }
        Color::Indexed(n @ 0..=7) => base + n,
        Color::Indexed(n @ 8..=15) => base + 52 + n,
        Color::Indexed(n) => {
            separate(codes);
            let _ = write!(codes, "{};5;{n}", base + 8);
            return;
        }
        Color::Black => base,
        Color::Red => base + 1,
        Color::Green => base + 2,
        Color::Yellow => base + 3,
        Color::Blue => base + 4,
        Color::Magenta => base + 5,
        Color::Cyan => base + 6,
        Color::Gray => base + 7,
        Color::DarkGray => base + 60,
        Color::LightRed => base + 61,
        Color::LightGreen => base + 62,
        Color::LightYellow => base + 63,
        Color::LightBlue => base + 64,
        Color::LightMagenta => base + 65,
        Color::LightCyan => base + 66,
        Color::White => base + 67,
    };
    push(codes, code);
}

/// What a cell shows, and on how many columns of the `room` that is left in its row.
///
/// Whatever got into a cell, no control character leaves this program inside one; and what has no width, or does not fit, is a blank.
pub(super) fn symbol(cell: &Cell, room: usize) -> (&str, usize) {
    let symbol = cell.symbol();
    if symbol.chars().any(char::is_control) {
        return ("?", 1);
    }
    match usize::from(symbol.cell_width()) {
        0 => (" ", 1),
        width if width > room => (" ", 1),
        width => (symbol, width),
    }
}
