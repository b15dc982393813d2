//! What the tests on nodes share.

use std::fs;
use std::path::PathBuf;

use lucia_qualification::demo::page_possible;
use lucia_qualification::node::{Node, NodeSpec, node_root, possible};
use lucia_qualification::possible::site_possible;
use lucia_qualification::skip;

/// A directory under target/ that goes when the test ends.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(test: &str) -> Self {
        let path = skip::workspace().join(format!("target/node-tests/{}-{test}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    #[allow(dead_code, reason = "not every test file boots one itself")]
    pub(crate) fn spec(&self, name: &str) -> NodeSpec {
        NodeSpec {
            helper: env!("CARGO_BIN_EXE_lucia-qualification").into(),
            name: name.into(),
            lower: node_root(),
            upper: self.0.join(name),
            extra_bind: Vec::new(),
            network: None,
            target: None,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Leaves a note and tells the test to return where nodes cannot run.
#[allow(dead_code, reason = "not every test file boots one by itself")]
pub(crate) fn skipped(test: &str) -> bool {
    let Err(missing) = possible() else { return false };
    skip::note(test, &missing.to_string()).unwrap();
    true
}

/// As [`skipped`], for what takes a directory server and an SSH client as well.
#[allow(dead_code, reason = "not every test file starts a site")]
pub(crate) fn site_skipped(test: &str) -> bool {
    let Err(missing) = site_possible() else { return false };
    skip::note(test, &missing.to_string()).unwrap();
    true
}

/// As [`site_skipped`], for what takes a browser as well.
#[allow(dead_code, reason = "not every test file drives the page")]
pub(crate) fn page_skipped(test: &str) -> bool {
    let Err(missing) = site_possible().and_then(|()| page_possible()) else { return false };
    skip::note(test, &missing.to_string()).unwrap();
    true
}

/// A program of the workspace, which `cargo build --workspace --bins` puts beside the helper.
#[allow(dead_code, reason = "not every test file drives one")]
pub(crate) fn built(program: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_lucia-qualification")).with_file_name(program);
    assert!(path.is_file(), "not built: {}", path.display());
    path
}

/// What a program inside the node printed.
#[allow(dead_code, reason = "not every test file boots one itself")]
pub(crate) fn said(node: &Node, arguments: &[&str]) -> String {
    let output = node.exec(arguments).unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
