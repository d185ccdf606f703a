//! Settings, themes and key maps: plain types, checked when they are read.

mod actions;
mod keys;
mod settings;
mod theme;

pub use actions::{ACTIONS, Action, ActionInfo, Risk, Scope, keys_page};
pub use keys::{Chord, Code, Found, Key, KeyNameError, Keymap, KeymapError};
pub use settings::{
    Amqp, Approval, Ara, AraCredentials, ConsoleSettings, Environment, JobSettings, Kubernetes, Permit,
    Policy, ProvisionSettings, ReadOnly, Secret, ServerSettings, Settings, Signer, Symbols, TargetSettings,
};
pub use theme::{BUILT_IN, Colour, ColourDepth, Paint, Role, Style, SymbolSet, Theme, ThemeError};
