//! One test binary for everything that needs the outside: one module per system or journey.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::large_futures,
    clippy::indexing_slicing,
    clippy::string_slice
)]

mod accounts;
mod activity;
mod addresses;
mod amqp;
mod api;
mod approvals;
mod ara;
mod ara_postgres;
mod authelia;
mod aws;
mod bulk;
mod bundle;
mod clipboard;
mod cloud;
mod cluster;
mod config;
mod console;
mod credentials;
mod deploy;
mod deploy_shape;
mod envcli;
mod environments;
mod expiry;
mod firstboot;
mod frozen;
mod gate;
mod ground;
mod guards;
mod hostile;
mod image;
mod joining;
mod journey;
mod kube_auth;
mod leash;
mod logs;
mod manifests;
mod manual;
mod names;
mod operators;
mod permissions;
mod places;
mod platform;
mod platform_api;
mod policy;
mod provision;
mod proxy;
mod pty;
mod queue;
mod repair;
mod rerun;
mod rights;
mod runner;
mod s3;
mod scenarios;
mod screenshots;
mod secrets;
mod server;
mod services;
mod stage;
mod start;
mod support;
mod sync;
mod targets;
mod terminal;
mod terraform;
mod tokens;
mod trouble;
mod trouble_pod;
