//! libFuzzer over one of the targets of tests/src/fuzz: the one that FUZZ_TARGET names.
#![no_main]

#[path = "../../src/fuzz/mod.rs"]
#[allow(dead_code, reason = "seeds and mutations are libFuzzer's here")]
mod fuzz;

use std::sync::LazyLock;

static TARGET: LazyLock<&fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    fuzz::Target::named(&name).unwrap_or_else(|| {
        let names: Vec<_> = fuzz::TARGETS.iter().map(|target| target.name).collect();
        panic!("FUZZ_TARGET is {name:?}, not one of {}", names.join(", "))
    })
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| (TARGET.run)(input));
