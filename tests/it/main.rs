//! Whole stories on the libraries: one file a story, one binary for all.
#![cfg(test)]

#[allow(dead_code, reason = "shared with tests/faults, whose stories need more of it")]
mod world;

mod attack;
mod clock;
mod clones;
mod comeback;
mod enroll;
mod hostile;
mod hostile_queue;
mod inputs;
mod lapse;
mod lost;
mod orders;
mod proxy;
mod remove;
mod rename;
mod renew;
mod replace;
mod restored;
mod second;
mod stack;
mod stolen;
mod versions;
