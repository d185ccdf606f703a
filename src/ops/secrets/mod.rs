//! The secrets bucket: what is done with it.

pub mod edit;
