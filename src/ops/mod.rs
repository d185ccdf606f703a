//! The deeds: one async function over back ends each; console, commands and servers call the same one.
