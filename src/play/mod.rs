//! The playground: everything on this machine, nothing to lose.
//!
//! [`playground::start`] brings it up: the loopback Kubernetes API, the Job runner, the webhook server, ARA, and RabbitMQ where it
//! is installed. Everything but the API and the runner is what a real environment runs.

pub mod api;
mod cloud;
mod folder;
pub mod leash;
pub mod packages;
pub mod playground;
pub mod policy;
pub mod progress;
pub mod python;
pub mod runner;
pub mod services;
