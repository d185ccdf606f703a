//! The theme as this terminal shows it.

use super::caps::Capabilities;
use crate::config::{Config, Settings, SymbolSet, Symbols, Theme};

/// Asks the terminal for its background (OSC 11). The answer comes with the keys, late or never.
pub(crate) const ASK_BACKGROUND: &[u8] = b"\x1b]11;?\x1b\\";

/// The theme that the configuration names, fitted to the terminal.
pub(crate) fn theme(config: &Config, settings: &Settings, capabilities: &Capabilities) -> Theme {
    let symbols = match settings.console.symbols {
        Symbols::Ascii => SymbolSet::Ascii,
        Symbols::Auto if !capabilities.unicode => SymbolSet::Ascii,
        Symbols::Auto | Symbols::Unicode => SymbolSet::Unicode,
    };
    config.looks.themes.pick(capabilities.light).clone().resolve(capabilities.depth, symbols)
}

/// Whether a background is light: by the weights of ITU-R BT.601.
pub(crate) fn is_light(red: u8, green: u8, blue: u8) -> bool {
    u32::from(red) * 299 + u32::from(green) * 587 + u32::from(blue) * 114 > 127_500
}
