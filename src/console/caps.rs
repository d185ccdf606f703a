//! What the terminal can do, read from the environment: how many colours, which symbols, whether it is one at all.
//!
//! Nothing is asked of the terminal itself: answers come late or never. Pure: the environment is a function.

use crate::config::ColourDepth;

/// What the environment says of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// How many colours.
    pub(crate) depth: ColourDepth,
    /// Whether the locale and the terminal show more than ASCII.
    pub(crate) unicode: bool,
    /// What stands between us and the terminal, and keeps some sequences to itself.
    pub(crate) inside: Multiplexer,
    /// The terminal's background is light, as far as its environment says (`COLORFGBG`).
    pub(crate) light: Option<bool>,
    /// A question to the terminal is either answered or ignored.
    pub(crate) asks: bool,
}

/// A program that shows several terminals in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Multiplexer {
    /// None is known of.
    None,
    /// tmux: it drops clipboard sequences by default, and takes text itself.
    Tmux,
    /// GNU screen: it drops what it does not know, and passes on what is wrapped.
    Screen,
}

impl Multiplexer {
    /// GNU screen drops longer wrapped strings.
    const LONGEST: usize = 240;

    /// A sequence that ends with BEL, so that it reaches the terminal itself. tmux passes it on where `allow-passthrough` is on, and
    /// nowhere else.
    pub(crate) fn wrap(self, sequence: &str) -> Vec<u8> {
        match self {
            Self::None => sequence.as_bytes().to_vec(),
            Self::Tmux => format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b")).into_bytes(),
            Self::Screen => {
                let pieces = sequence.as_bytes().chunks(Self::LONGEST);
                pieces.flat_map(|piece| [b"\x1bP".as_slice(), piece, b"\x1b\\"].concat()).collect()
            }
        }
    }
}

/// Terminals that know all colours but don't say so in `COLORTERM`, or whose variable gets lost on the way through SSH.
const TRUE: [&str; 8] =
    ["xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm", "contour", "rio", "mintty"];
/// Terminals without colours.
const MONO: [&str; 8] = ["vt100", "vt102", "vt220", "vt320", "vt420", "xterm-mono", "screen-mono", "wy60"];

impl Capabilities {
    /// Reads them. The error says why this is no terminal for a console.
    pub(crate) fn read(env: impl Fn(&str) -> Option<String>) -> Result<Self, &'static str> {
        let env = |name: &str| env(name).filter(|value| !value.is_empty());
        let term = env("TERM").ok_or("TERM is not set")?;
        if term == "dumb" || term == "unknown" {
            return Err("TERM says that it can't move its cursor");
        }
        let locale = env("LC_ALL").or_else(|| env("LC_CTYPE")).or_else(|| env("LANG")).unwrap_or_default();
        let locale = locale.to_ascii_lowercase().replace('-', "");
        Ok(Self {
            depth: if env("NO_COLOR").is_some() { ColourDepth::None } else { depth(&term, env("COLORTERM")) },
            // The Linux console's fonts lack most symbols.
            unicode: locale.contains("utf8") && term != "linux",
            inside: match (env("TMUX"), env("STY")) {
                (Some(_), _) => Multiplexer::Tmux,
                (None, Some(_)) => Multiplexer::Screen,
                (None, None) => Multiplexer::None,
            },
            light: env("COLORFGBG").as_deref().and_then(light),
            asks: term != "linux" && !says(&term, &MONO),
        })
    }
}

/// Whether a terminal is one of these, or one of their variants (`foot-extra`).
fn says(term: &str, names: &[&str]) -> bool {
    let variant = |rest: &str| rest.is_empty() || rest.starts_with('-');
    names.iter().any(|name| term.strip_prefix(name).is_some_and(variant))
}

/// rxvt's convention: the numbers of text and background among the 16 colours, of which the light ones are white and bright.
fn light(colours: &str) -> Option<bool> {
    let background: u8 = colours.rsplit(';').next()?.parse().ok()?;
    Some(matches!(background, 7 | 9..=15))
}

fn depth(term: &str, colorterm: Option<String>) -> ColourDepth {
    let colorterm = colorterm.unwrap_or_default();
    if says(term, &MONO) || term.ends_with("-m") || term.ends_with("-mono") {
        ColourDepth::None
    } else if ["truecolor", "24bit"].contains(&colorterm.as_str())
        || term.ends_with("-direct")
        || says(term, &TRUE)
    {
        ColourDepth::True
    } else if term.contains("256color") {
        ColourDepth::Indexed
    } else {
        ColourDepth::Ansi
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vars: &[(&str, &str)]) -> Result<Capabilities, &'static str> {
        Capabilities::read(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn colours_by_the_terminal() {
        let table = [
            ("vt100", "", ColourDepth::None),
            ("linux", "", ColourDepth::Ansi),
            ("xterm", "", ColourDepth::Ansi),
            ("xterm-256color", "", ColourDepth::Indexed),
            ("tmux-256color", "", ColourDepth::Indexed),
            ("tmux", "", ColourDepth::Ansi),
            ("xterm-256color", "truecolor", ColourDepth::True),
            ("xterm-256color", "24bit", ColourDepth::True),
            ("xterm-direct", "", ColourDepth::True),
            ("xterm-kitty", "", ColourDepth::True),
            ("footwear", "", ColourDepth::Ansi),
            ("vt100", "truecolor", ColourDepth::None),
        ];
        for (term, colorterm, depth) in table {
            let vars = [("TERM", term), ("COLORTERM", colorterm)];
            assert_eq!(read(&vars).unwrap().depth, depth, "{term} {colorterm}");
            let vars = [("TERM", term), ("COLORTERM", colorterm), ("NO_COLOR", "1")];
            assert_eq!(read(&vars).unwrap().depth, ColourDepth::None);
            let vars = [("TERM", term), ("COLORTERM", colorterm), ("NO_COLOR", "")];
            assert_eq!(read(&vars).unwrap().depth, depth, "an empty NO_COLOR says nothing");
        }
    }

    #[test]
    fn the_background_by_the_environment() {
        for (value, light) in
            [("15;0", Some(false)), ("0;15", Some(true)), ("0;default;7", Some(true)), ("x", None)]
        {
            assert_eq!(read(&[("TERM", "rxvt"), ("COLORFGBG", value)]).unwrap().light, light, "{value}");
        }
        assert!(read(&[("TERM", "xterm")]).unwrap().asks);
        assert!(!read(&[("TERM", "linux")]).unwrap().asks && !read(&[("TERM", "vt100-w")]).unwrap().asks);
    }

    #[test]
    fn no_terminal_is_said_so() {
        assert!(read(&[]).unwrap_err().contains("TERM"));
        assert!(read(&[("TERM", "")]).is_err());
        assert!(read(&[("TERM", "dumb")]).is_err());
    }

    #[test]
    fn symbols_by_the_locale() {
        let unicode = |vars: &[(&str, &str)]| read(&[&[("TERM", "xterm")], vars].concat()).unwrap().unicode;
        assert!(unicode(&[("LANG", "en_US.UTF-8")]));
        assert!(unicode(&[("LANG", "C.utf8")]));
        assert!(!unicode(&[("LANG", "C")]));
        assert!(!unicode(&[]));
        assert!(!unicode(&[("LC_ALL", "POSIX"), ("LANG", "en_US.UTF-8")]));
        assert!(unicode(&[("LC_ALL", ""), ("LC_CTYPE", "de_DE.UTF-8"), ("LANG", "C")]));
        assert!(!read(&[("TERM", "linux"), ("LANG", "en_US.UTF-8")]).unwrap().unicode);
    }
}
