//! A file is read whole by a person: 800 lines at most.

use crate::tree;

const MOST: usize = 800;

#[test]
fn no_source_is_longer_than_800_lines() {
    let long: Vec<String> = tree::rust_files()
        .into_iter()
        .filter_map(|path| {
            let lines = tree::read(&path).lines().count();
            (lines > MOST).then(|| format!("{path}: {lines} lines, split it by the question it answers"))
        })
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn every_source_says_what_it_is() {
    let silent: Vec<String> = tree::rust_files()
        .into_iter()
        .filter(|path| !path.contains("/tests.rs") && !tree::read(path).starts_with("//!"))
        .collect();
    assert!(silent.is_empty(), "no `//!` head in {silent:?}");
}
