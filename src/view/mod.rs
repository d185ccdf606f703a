//! Drawing: a function of the state.
