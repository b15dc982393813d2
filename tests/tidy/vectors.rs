//! Golden bytes never change: the hash of every committed vector is written down once.

use std::collections::BTreeMap;
use std::fs;

use lucia_proto::base::digest::Digest;

use crate::tree;

/// `tests/vectors/SHA256SUMS`: `<hex>  <name>` a line, only ever added to.
#[test]
fn no_vector_ever_changes() {
    let sums = tree::read("tests/vectors/SHA256SUMS");
    let listed: BTreeMap<String, String> = sums
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(hash, name)| (name.to_owned(), hash.to_owned()))
        .collect();
    let mut found = BTreeMap::new();
    for path in tree::files() {
        if let Some(name) = path.strip_prefix("tests/vectors/")
            && name != "SHA256SUMS"
            && name != "README.md"
        {
            let bytes = fs::read(tree::root().join(&path)).expect("a readable vector");
            found.insert(name.to_owned(), Digest::of(&bytes).to_string());
        }
    }
    assert!(found.len() > 10, "{} vectors only", found.len());
    assert_eq!(found, listed, "a vector changed, is new or is gone: old ones never change, new ones join SHA256SUMS");
}
