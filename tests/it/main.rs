//! Whole stories on the libraries: one file a story, one binary for all.
#![cfg(test)]

mod world;

mod attack;
mod clock;
mod clones;
mod enroll;
mod inputs;
mod lapse;
mod lost;
mod proxy;
mod remove;
mod renew;
mod second;
