//! The HTTP server that new machines call, and the loop that delivers approved runs.
