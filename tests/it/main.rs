//! Whole stories on the libraries: one file a story, one binary for all.
