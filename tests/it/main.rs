//! One test binary for everything that needs the outside: one module per system or journey.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice
)]

mod amqp;
mod leash;
mod permit;
mod proxy;
mod services;
mod support;
