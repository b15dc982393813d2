//! The bounded run of every fuzz target: each seed, and a fixed number of mutations of it. Longer: `make fuzz`.

#![cfg(test)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use lucia_tests::fuzz::{TARGETS, Target, mutate};

/// Mutations of all seeds of a target together.
const MUTATIONS: usize = 2000;

fn bounded(name: &str) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = Target::named(name).unwrap();
    let seeds = target.seeds(tests);
    assert!(seeds.len() >= 6, "{} seeds of {name}", seeds.len());
    let words = mutate::words(&std::fs::read_to_string(tests.join("fuzz/dictionary")).unwrap());
    assert!(words.len() > 50, "{} words", words.len());
    let all: Vec<&[u8]> = seeds.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    for (seed, bytes) in &seeds {
        survive(target, bytes, seed);
        for number in 0..MUTATIONS / seeds.len() {
            let number = u64::try_from(number).unwrap();
            let mutation = mutate::mutate(bytes, number, &all, &words);
            survive(target, &mutation, &format!("{seed}, mutation {number}"));
        }
    }
}

/// Says which bytes it was: they become a seed.
fn survive(target: &Target, bytes: &[u8], what: &str) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).is_err() {
        let found = std::env::temp_dir().join(format!("lucia-fuzz-{}", target.name));
        std::fs::write(&found, bytes).unwrap();
        panic!("{}: {what}; the bytes are in {}", target.name, found.display());
    }
}

// spec: FZ-1
#[test]
fn json() {
    bounded("json");
}

// spec: FZ-2
#[test]
fn report() {
    bounded("report");
}

// spec: FZ-3
#[test]
fn csr() {
    bounded("csr");
}

// spec: FZ-4
#[test]
fn chain() {
    bounded("chain");
}

// spec: FZ-5
#[test]
fn queue() {
    bounded("queue");
}

// spec: FZ-6
#[test]
fn ledger() {
    bounded("ledger");
}

// spec: FZ-7
#[test]
fn bundle() {
    bounded("bundle");
}

// spec: FZ-8
#[test]
fn release() {
    bounded("release");
}

// spec: FZ-9
#[test]
fn intent() {
    bounded("intent");
}

// spec: FZ-10
#[test]
fn roster() {
    bounded("roster");
}

// spec: FZ-11
#[test]
fn freshness() {
    bounded("freshness");
}

// spec: FZ-12
#[test]
fn proof() {
    bounded("proof");
}

// spec: FZ-13
#[test]
fn sign_in() {
    bounded("sign-in");
}

// spec: FZ-14
#[test]
fn owner_queue() {
    bounded("owner-queue");
}

// spec: FZ-15
#[test]
fn audit() {
    bounded("audit");
}

/// None is forgotten here.
#[test]
fn every_target_has_its_run() {
    let here = include_str!("bounded.rs");
    for target in TARGETS {
        assert!(here.contains(&format!("bounded(\"{}\")", target.name)), "{}", target.name);
    }
}
