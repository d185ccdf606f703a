//! Logs: to a file in the console, structured on stderr elsewhere.
