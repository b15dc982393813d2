//! The root documents name only what exists, and nothing of one machine.

use crate::tree;

const DOCS: &[&str] = &[
    "README.md",
    "docs/deployment.md",
    "docs/operation.md",
    "ARCHITECTURE.md",
    "SPECIFICATION.md",
    "THREATS.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
];

#[test]
fn every_root_document_is_there() {
    for name in DOCS.iter().chain(&["LICENSE-MIT", "LICENSE-APACHE"]) {
        assert!(tree::root().join(name).is_file(), "{name} is missing");
    }
}

/// Every `path` in backticks that looks like one of ours must exist.
#[test]
fn every_path_the_documents_name_exists() {
    let tops = ["proto/", "agent/", "controller/", "worker/", "tests/", "qualification/", "systemd/", "docs/", ".ci/"];
    for doc in DOCS {
        let text = tree::read(doc);
        for quoted in text.split('`').skip(1).step_by(2) {
            let path = quoted.trim_end_matches('/').split([' ', ':']).next().unwrap_or_default();
            if tops.iter().any(|top| quoted.starts_with(top)) && !path.contains(['*', '<', '{']) {
                assert!(tree::root().join(path).exists(), "{doc} names `{quoted}`, which does not exist");
            }
        }
    }
}

/// `[text](file)`: the file lies where the document that names it looks for it.
#[test]
fn every_link_of_the_documents_leads_to_a_file() {
    let mut links = 0;
    for doc in DOCS {
        let beside = tree::root().join(doc);
        for rest in tree::read(doc).split("](").skip(1) {
            let target = rest.split([')', '#']).next().unwrap_or_default();
            assert!(beside.with_file_name(target).is_file(), "{doc} links to `{target}`, which does not exist");
            links += 1;
        }
    }
    assert!(links > 5, "{links} links were seen");
}

#[test]
fn every_make_target_the_documents_name_exists() {
    let makefile = tree::read("Makefile");
    for doc in DOCS {
        for quoted in tree::read(doc).split('`').skip(1).step_by(2) {
            if let Some(target) = quoted.strip_prefix("make ").and_then(|rest| rest.split(' ').next()) {
                assert!(
                    makefile.lines().any(|line| line.starts_with(&format!("{target}:"))),
                    "{doc} names `make {target}`"
                );
            }
        }
    }
}

#[test]
fn nothing_names_a_registry_or_a_path_of_one_machine() {
    // Put together here so that this file does not find itself.
    let words = [
        ["crates", ".io"].concat(),
        ["deb.debian", ".org"].concat(),
        ["/wo", "rk/"].concat(),
        ["/ro", "ot/.cargo"].concat(),
    ];
    for path in tree::files() {
        if path.ends_with("Cargo.lock") || path.ends_with(".pcap") {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(tree::root().join(&path)) else { continue };
        for word in &words {
            assert!(!text.contains(word.as_str()), "{path} names `{word}`");
        }
    }
}
