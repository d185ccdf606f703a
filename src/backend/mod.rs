//! The outside: one module per system, none imports another.
//!
//! Each is a cheap handle made from settings, with typed methods and an error of its own. Methods that change something take a
//! [`crate::config::Permit`].

pub mod amqp;
pub mod ansible;
pub mod ara;
pub mod aws;
pub mod command;
pub mod editor;
pub mod folder;
pub mod git;
pub mod hook;
pub mod kube;
pub mod s3;
