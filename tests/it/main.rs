//! Whole stories on the libraries: one file a story, one binary for all.
#![cfg(test)]

mod world;

mod enroll;
