//! Settings, themes and key maps: plain types, checked when they are read.
//!
//! Layers, the undermost first: the embedded `config.toml`, the operator's file, the playground's, `HOSTWRIGHT_…` variables, the
//! command line. [`load`] is the one part that touches files and the environment; everything else takes text.

mod ara_server;
mod convert;
mod getters;
mod hcl;
mod load;
mod looks;
mod merged;
mod parse;
mod place;
mod reader;
mod secrets;
mod settings;
mod tree;
mod unconfigured;
mod values;
mod variables;

pub use ara_server::AraServer;
pub use load::{DEFAULT, Sources, Variables, load, load_variables, load_with, variables_files};
pub use looks::{Looks, Themes};
pub use merged::Config;
pub use place::{Mistake, MistakeKind, Mistakes, Place};
pub use secrets::redact;
mod actions;
mod keys;
mod rights;
mod theme;

pub use actions::{ACTIONS, Action, ActionInfo, Risk, Scope, keys_page};
pub use keys::{Chord, Code, Found, Key, KeyNameError, Keymap, KeymapError};
pub use rights::{Need, Rights};
pub use settings::{
    Amqp, Approval, Ara, AraCredentials, AwsSettings, ConsoleSettings, DeploySettings, Environment,
    JobSettings, Kubernetes, Permit, PlatformSettings, Policy, ProvisionSettings, ReadOnly, Secret,
    ServerSettings, Settings, Signer, Symbols, TargetSettings,
};

/// What stands for a secret on screen.
const MASK: &str = "********";
pub use theme::{AUTO, BUILT_IN, Colour, ColourDepth, Paint, Role, Style, SymbolSet, Theme, ThemeError};
pub use values::parse_duration;
pub use variables::{ShownVariable, VariablesFile};
