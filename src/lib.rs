//! Hostwright brings new machines into a Kubernetes platform: a terminal UI for operators, and the small servers and agents
//! that the same work needs elsewhere, in one binary.
//!
//! # The house
//!
//! The arrows go one way: a module may use only those named behind it. `tests/layers.rs` reads this table and every `crate::`
//! path under `src/`, and fails on an arrow that the table lacks.
//!
//! ```text
//! cli        -> ops backend config domain lifecycle
//! console    -> app view ops backend config domain lifecycle
//! view       -> app config domain
//! app        -> config domain
//! server     -> ops backend config domain lifecycle
//! agent      -> ops backend config domain lifecycle
//! play       -> server ops backend config domain lifecycle
//! ops        -> backend config domain
//! backend    -> config domain
//! config     -> domain
//! domain     ->
//! lifecycle  ->
//! telemetry  -> config
//! ```
//!
//! | module | what it is |
//! | --- | --- |
//! | `main.rs` | reads the command line, installs error and log handling, starts the one runtime, calls a command |
//! | [`cli`] | the commands: one file per noun: parse, call ops, print as table, JSON or YAML |
//! | [`console`] | the shell of the terminal UI: terminal, event loop, effects, watches |
//! | [`view`] | drawing: `draw(frame, &State, &Theme)`; one file per screen, shared widgets |
//! | [`app`] | the mind of the console: `State`, `update(&mut State, Msg) -> Vec<Effect>`; pure |
//! | [`server`] | the HTTP server that new machines call, and the loop that delivers runs |
//! | [`agent`] | what runs inside a Job or on a node: `provision`, `sync` |
//! | [`play`] | the playground: loopback Kubernetes API, Job runner, supervised real services |
//! | [`ops`] | the deeds: announce, deliver, approve, reject, retry, add a target …; one async function each |
//! | [`backend`] | the outside, one module per system; none imports another |
//! | [`config`] | `config.toml`, `environments/*.tfvars`, themes, key maps: read, merged, checked, with the place of each error |
//! | [`domain`] | nouns and pure rules (phases, host names, digests), wire messages |
//! | [`lifecycle`] | signals, cancellation, drain |
//! | [`telemetry`] | logs: to a file in the console, structured on stderr elsewhere |

#![forbid(unsafe_code)]

pub mod agent;
pub mod app;
pub mod backend;
pub mod cli;
pub mod config;
pub mod console;
pub mod domain;
pub mod lifecycle;
pub mod ops;
pub mod play;
pub mod server;
pub mod telemetry;
pub mod view;
