//! The workspace's lints hold everywhere, and each exception says why.

use crate::tree;

#[test]
fn every_member_inherits_the_lints() {
    let manifests: Vec<String> = tree::files()
        .into_iter()
        .filter(|path| path.ends_with("Cargo.toml") && path != "Cargo.toml" && !path.contains("fuzz"))
        .collect();
    assert!(manifests.len() >= 8, "{manifests:?}");
    for path in manifests {
        let text = tree::read(&path);
        assert!(text.contains("[lints]\nworkspace = true"), "{path} does not inherit the workspace's lints");
    }
}

#[test]
fn nothing_is_left_open_in_the_code() {
    // The words are put together here so that this file does not find itself.
    let words = [
        ["TO", "DO"].concat(),
        ["FIX", "ME"].concat(),
        ["unimple", "mented!("].concat(),
        ["to", "do!("].concat(),
        ["#[ig", "nore"].concat(),
    ];
    for path in tree::rust_files() {
        let text = tree::read(&path);
        for word in &words {
            assert!(!text.contains(word.as_str()), "{path} holds `{word}`");
        }
    }
}

#[test]
fn proto_repeats_the_bans_of_the_root() {
    let root = tree::read("clippy.toml");
    for file in ["proto/clippy.toml", "proto/people/clippy.toml"] {
        let own = tree::read(file);
        for line in root.lines().filter(|line| line.contains("path = ")) {
            let path = line.split('"').nth(1).expect("a quoted path");
            assert!(own.contains(path), "{file} does not ban {path}");
        }
    }
}
