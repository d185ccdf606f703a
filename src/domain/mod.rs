//! Nouns and pure rules. Nothing here does I/O, reads a clock or knows a back end.
