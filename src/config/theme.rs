//! Themes: which colour and emphasis each role has. Colours are data: no other module names one.
//!
//! `console` chooses theme, colour depth and symbols and calls [`Theme::resolve`]; `view` asks for [`Theme::style`].

mod read;
mod symbols;

pub use symbols::SymbolSet;

/// The name that lets the terminal's background choose between `dark` and `light`.
pub const AUTO: &str = "auto";

/// The themes that are part of the program: name and source.
pub const BUILT_IN: [(&str, &str); 5] = [
    ("dark", include_str!("../../themes/dark.toml")),
    ("dusk", include_str!("../../themes/dusk.toml")),
    ("light", include_str!("../../themes/light.toml")),
    ("contrast", include_str!("../../themes/contrast.toml")),
    ("ansi", include_str!("../../themes/ansi.toml")),
];

/// How well a role must stand out from the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Legibility {
    /// Text to read: at least 4.5:1, as WCAG 2 asks.
    Text,
    /// Text that steps back: no less.
    Muted,
    /// No text.
    Decoration,
}

macro_rules! roles {
    ($($variant:ident $name:literal $legibility:ident;)*) => {
        /// What a piece of the screen is, and so how it looks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Role {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl Role {
            /// All roles.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in a theme file.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// How well it must stand out.
            #[must_use]
            pub fn legibility(self) -> Legibility {
                match self { $(Self::$variant => Legibility::$legibility,)* }
            }
        }
    };
}

roles! {
    Text "text" Text;
    Strong "strong" Text;
    Muted "muted" Muted;
    Disabled "disabled" Muted;
    Rule "rule" Decoration;
    Brand "brand" Text;
    Heading "heading" Muted;
    Key "key" Text;
    Tab "tab" Text;
    Selection "selection" Text;
    SelectionDim "selection.unfocused" Text;
    Marker "marker" Text;
    Mark "mark" Text;
    Match "match" Text;
    Input "input" Text;
    Env "env" Text;
    EnvGuarded "env.guarded" Text;
    EnvPlayground "env.playground" Text;
    Up "up" Text;
    Down "down" Text;
    Unknown "unknown" Muted;
    Pending "pending" Text;
    Queued "queued" Text;
    Running "running" Text;
    Stopping "stopping" Text;
    Stopped "stopped" Muted;
    Failed "failed" Text;
    Rejected "rejected" Muted;
    Ready "ready" Text;
    Ok "ok" Text;
    Changed "changed" Text;
    Unreachable "unreachable" Text;
    Skipped "skipped" Muted;
    Rescued "rescued" Text;
    Ignored "ignored" Muted;
    Info "notice.info" Text;
    Warning "notice.warning" Text;
    Error "notice.error" Text;
    Added "diff.added" Text;
    Removed "diff.removed" Text;
    Hunk "diff.hunk" Text;
    Border "border" Decoration;
    Button "button" Text;
    ButtonFocus "button.focus" Text;
}

/// A colour of a theme file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour {
    /// Red, green, blue.
    pub rgb: (u8, u8, u8),
    /// The nearest of the terminal's 16 colours, by the theme's author; none: the terminal's own text colour.
    pub ansi: Option<u8>,
}

/// A colour as the terminal can show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Paint {
    /// Truecolor.
    Rgb(u8, u8, u8),
    /// One of 256.
    Indexed(u8),
    /// One of 16.
    Ansi(u8),
}

/// How many colours the terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ColourDepth {
    /// 24 bits.
    #[default]
    True,
    /// 256.
    Indexed,
    /// 16.
    Ansi,
    /// None: bold, underline and reverse remain (`NO_COLOR`).
    None,
}

/// Colours and emphasis of one role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// The text's colour; none: the terminal's own.
    pub fg: Option<Paint>,
    /// The colour behind it; none: the terminal's own.
    pub bg: Option<Paint>,
    /// Bold.
    pub bold: bool,
    /// Italic.
    pub italic: bool,
    /// Underlined.
    pub underline: bool,
    /// Text and background changed over.
    pub reverse: bool,
}

/// One role as a theme file has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Entry {
    fg: Option<Colour>,
    bg: Option<Colour>,
    bold: bool,
    italic: bool,
    underline: bool,
    reverse: bool,
}

/// A mistake in a theme file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {text}")]
pub struct ThemeError {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong.
    pub text: String,
}

/// A theme, resolved for a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theme {
    name: String,
    dark: bool,
    background: (u8, u8, u8),
    /// The most colours that it uses.
    most: ColourDepth,
    entries: Vec<Entry>,
    styles: Vec<Style>,
    depth: ColourDepth,
    symbols: SymbolSet,
}

impl Default for Theme {
    fn default() -> Self {
        Self::built_in("dark").unwrap_or_else(|| Self::bare("bare"))
    }
}

impl Theme {
    /// A theme without any colour.
    fn bare(name: &str) -> Self {
        let entries = vec![Entry::default(); Role::ALL.len()];
        let styles = vec![Style::default(); Role::ALL.len()];
        let (depth, symbols) = (ColourDepth::True, SymbolSet::Unicode);
        let (name, most, background) = (name.to_owned(), ColourDepth::True, (0, 0, 0));
        Self { name, dark: true, background, most, entries, styles, depth, symbols }
    }

    /// The theme of that name that is part of the program, in truecolor and Unicode.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        let (name, source) = BUILT_IN.into_iter().find(|(known, _)| *known == name)?;
        Self::parse(name, source).ok()
    }

    /// Reads a theme file.
    ///
    /// # Errors
    /// All mistakes: what is no TOML, unknown and missing roles, unreadable colours.
    pub fn parse(name: &str, source: &str) -> Result<Self, Vec<ThemeError>> {
        read::theme(name, source).map(|theme| theme.resolve(ColourDepth::True, SymbolSet::Unicode))
    }

    /// The theme for a terminal with so many colours and these symbols.
    #[must_use]
    pub fn resolve(mut self, depth: ColourDepth, symbols: SymbolSet) -> Self {
        let used = if depth == ColourDepth::None { depth } else { depth.max(self.most) };
        let paint = |colour: Option<Colour>| colour.and_then(|c| c.paint(used));
        self.styles = self
            .entries
            .iter()
            .map(|e| Style {
                fg: paint(e.fg),
                bg: paint(e.bg),
                bold: e.bold,
                italic: e.italic,
                underline: e.underline,
                // Without colours what was told by a background is told by reverse.
                reverse: e.reverse || (depth == ColourDepth::None && e.bg.is_some()),
            })
            .collect();
        self.depth = depth;
        self.symbols = symbols;
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True when it is made for a dark background.
    #[must_use]
    pub fn dark(&self) -> bool {
        self.dark
    }

    /// The background that it is made for; the terminal's own is drawn on.
    #[must_use]
    pub fn background(&self) -> (u8, u8, u8) {
        self.background
    }

    /// How a role looks.
    #[must_use]
    pub fn style(&self, role: Role) -> Style {
        self.styles.get(role as usize).copied().unwrap_or_default()
    }

    /// The symbols.
    #[must_use]
    pub fn symbols(&self) -> SymbolSet {
        self.symbols
    }

    /// A colour that somebody else's text asks for, if the terminal can show it.
    #[must_use]
    pub fn foreign(&self, paint: Paint) -> Option<Paint> {
        match (self.depth, paint) {
            (ColourDepth::None, _) => None,
            (ColourDepth::True, paint) | (_, paint @ Paint::Ansi(_)) => Some(paint),
            (ColourDepth::Indexed, Paint::Rgb(r, g, b)) => Some(Paint::Indexed(to_indexed((r, g, b)))),
            (ColourDepth::Indexed, paint) => Some(paint),
            (ColourDepth::Ansi, Paint::Indexed(n)) if n < 16 => Some(Paint::Ansi(n)),
            (ColourDepth::Ansi, Paint::Indexed(n)) => Some(Paint::Ansi(to_ansi(of_indexed(n)))),
            (ColourDepth::Ansi, Paint::Rgb(r, g, b)) => Some(Paint::Ansi(to_ansi((r, g, b)))),
        }
    }

    /// The contrast of a role's text against what is behind it, 1 to 21.
    #[must_use]
    pub fn contrast(&self, role: Role) -> f64 {
        let Some(entry) = self.entries.get(role as usize) else { return 1.0 };
        let behind = entry.bg.map_or(self.background, |c| c.rgb);
        entry.fg.map_or(21.0, |c| contrast(c.rgb, behind))
    }
}

impl Colour {
    fn paint(self, depth: ColourDepth) -> Option<Paint> {
        let (r, g, b) = self.rgb;
        match depth {
            ColourDepth::True => Some(Paint::Rgb(r, g, b)),
            ColourDepth::Indexed => Some(Paint::Indexed(to_indexed(self.rgb))),
            ColourDepth::Ansi => self.ansi.map(Paint::Ansi),
            ColourDepth::None => None,
        }
    }
}

/// The nearest of the sixteen, as they are by default almost everywhere. Black is left out: it is what is behind the text.
fn to_ansi((r, g, b): (u8, u8, u8)) -> u8 {
    let bright = r.max(g).max(b);
    let on = |v: u8, bit: u8| if bright > 60 && v > bright / 2 { bit } else { 0 };
    match (on(r, 1) | on(g, 2) | on(b, 4), bright) {
        (0, _) => 8,
        (7, ..=160) => 8,
        (7, ..=220) => 7,
        (hue, ..=220) => hue,
        (hue, _) => hue + 8,
    }
}

/// A colour of the 6x6x6 cube or a grey.
fn of_indexed(n: u8) -> (u8, u8, u8) {
    if n >= 232 {
        let grey = 8 + (n - 232) * 10;
        return (grey, grey, grey);
    }
    let (n, level) = (n.saturating_sub(16), |v: u8| if v == 0 { 0 } else { 55 + v * 40 });
    (level(n / 36), level(n / 6 % 6), level(n % 6))
}

/// The nearest of the 6x6x6 cube and the 24 greys.
fn to_indexed((r, g, b): (u8, u8, u8)) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let step = |v: u8| (0u8..).zip(STEPS).min_by_key(|(_, s)| s.abs_diff(v)).unwrap_or((0, 0));
    let distance = |(x, y, z): (u8, u8, u8)| {
        let square = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
        square(x, r) + square(y, g) + square(z, b)
    };
    let ((ri, rs), (gi, gs), (bi, bs)) = (step(r), step(g), step(b));
    let average = (u16::from(r) + u16::from(g) + u16::from(b)) / 3;
    let grey = u8::try_from((average.saturating_sub(3) / 10).min(23)).unwrap_or(23);
    let level = 8 + 10 * grey;
    if distance((level, level, level)) < distance((rs, gs, bs)) {
        232 + grey
    } else {
        16 + 36 * ri + 6 * gi + bi
    }
}

/// Relative luminance and contrast as WCAG 2 defines them.
fn contrast(a: (u8, u8, u8), b: (u8, u8, u8)) -> f64 {
    let linear = |v: u8| {
        let v = f64::from(v) / 255.0;
        if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
    };
    let light = |(r, g, b): (u8, u8, u8)| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    let (a, b) = (light(a), light(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_theme_is_whole_and_legible() {
        for (name, source) in BUILT_IN {
            let theme = Theme::parse(name, source).unwrap_or_else(|e| panic!("{name}: {e:#?}"));
            for role in Role::ALL {
                let least = match (role.legibility(), name) {
                    (Legibility::Text, "contrast") => 7.0,
                    (Legibility::Text | Legibility::Muted, _) => 4.5,
                    (Legibility::Decoration, _) => 1.0,
                };
                let is = theme.contrast(*role);
                assert!(is >= least, "{name}: {} has a contrast of {is:.2}, needs {least}", role.as_str());
            }
        }
    }

    #[test]
    fn colours_of_others_have_the_nearest_of_sixteen() {
        let theme = Theme::default().resolve(ColourDepth::Ansi, SymbolSet::Unicode);
        for (paint, nearest) in [
            (Paint::Rgb(255, 0, 0), 9),
            (Paint::Rgb(128, 0, 0), 1),
            (Paint::Rgb(0, 200, 200), 6),
            (Paint::Rgb(255, 255, 255), 15),
            (Paint::Rgb(200, 200, 200), 7),
            (Paint::Rgb(0, 0, 0), 8),
            (Paint::Indexed(200), 13),
            (Paint::Indexed(22), 2),
            (Paint::Indexed(244), 8),
            (Paint::Indexed(255), 15),
            (Paint::Indexed(3), 3),
            (Paint::Ansi(5), 5),
        ] {
            assert_eq!(theme.foreign(paint), Some(Paint::Ansi(nearest)), "{paint:?}");
        }
    }

    #[test]
    fn mistakes_are_all_said_with_their_place() {
        let source = "dark = 1\nbackgruond = \"#000000\"\n[roles]\ntxet = {}\ntext = { fg = \"red\" }\nmuted = { fg = \"#808080\" }\n";
        let errors = Theme::parse("x", source).unwrap_err();
        let has = |line, part: &str| errors.iter().any(|e| e.line == line && e.text.contains(part));
        assert!(has(1, "true or false") && has(2, "backgruond"), "{errors:?}");
        assert!(has(4, "did you mean text?") && has(5, "#rrggbb") && has(6, "ansi is missing"), "{errors:?}");
        assert!(has(1, "role strong is missing") && has(1, "background is missing"), "{errors:?}");
    }

    #[test]
    fn colours_go_with_the_terminal() {
        let theme = Theme::default();
        let at = |depth| theme.clone().resolve(depth, SymbolSet::Ascii).style(Role::Failed).fg;
        assert!(matches!(at(ColourDepth::True), Some(Paint::Rgb(..))));
        assert!(matches!(at(ColourDepth::Indexed), Some(Paint::Indexed(16..))));
        assert!(matches!(at(ColourDepth::Ansi), Some(Paint::Ansi(..16))));
        assert_eq!(at(ColourDepth::None), None);
    }

    #[test]
    fn without_colours_the_selection_is_still_seen() {
        assert!(matches!(Theme::built_in("ansi").unwrap().style(Role::Failed).fg, Some(Paint::Ansi(..16))));
        for (name, _) in BUILT_IN {
            let theme = Theme::built_in(name).unwrap().resolve(ColourDepth::None, SymbolSet::Ascii);
            for role in [Role::Selection, Role::ButtonFocus, Role::Match] {
                let style = theme.style(role);
                assert!(style.reverse || style.bold || style.underline, "{name} {}", role.as_str());
            }
        }
    }

    #[test]
    fn the_nearest_of_256() {
        assert_eq!(to_indexed((255, 0, 0)), 196);
        assert_eq!(to_indexed((0, 0, 0)), 16);
        assert_eq!(to_indexed((128, 128, 128)), 244);
    }
}
