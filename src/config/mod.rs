//! Settings, themes and key maps: plain types, checked when they are read.
