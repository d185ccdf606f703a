//! One test binary for everything that needs the outside: one module per system or journey.
#![allow(missing_docs)]

mod api;
