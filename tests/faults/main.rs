//! Every fault that can be made here is made (threats.md "Faults to inject"): deaths, full and dying disks, wrong clocks,
//! long sleeps, damaged files, races. `points` is the registry of crash points, `walk` dies at each of them; `table` says
//! which test makes which fault, and is held against the tree.
#![cfg(test)]

#[path = "../it/world/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the world of tests/it, of which these stories need less")]
mod world;

mod damage;
mod disks;
mod flood;
mod lapse;
mod line;
mod points;
mod pressure;
mod races;
mod real;
mod table;
mod takeover;
mod time;
mod walk;

/// A key that a node takes.
pub(crate) const SSH_KEY: &str =
    concat!("ssh-ed25519 ", "AAAAC3NzaC1lZDI1NTE5AAAAIFNmpFiR81Ty15cVVljNq7KMn9Z1ot0e+1vH/NWJy47T");

/// That key for each of these accounts, as owners ordered it.
pub(crate) fn ordered(accounts: &[&str]) -> lucia_agent::keys::OrderedKeys {
    let keys = |account: &&str| (account.parse().unwrap(), vec![SSH_KEY.parse().unwrap()]);
    lucia_agent::keys::OrderedKeys { accounts: accounts.iter().map(keys).collect(), is_partial: false }
}

/// Notes that a story was skipped, where `make test` counts such notes.
pub(crate) fn skip(name: &str, why: &str) {
    let notes = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/test-skips");
    std::fs::create_dir_all(&notes).unwrap();
    std::fs::write(notes.join(name), format!("{name}: {why}\n")).unwrap();
    println!("skipped {name}: {why}");
}
