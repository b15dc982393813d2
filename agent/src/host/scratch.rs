//! A directory for one test that stands for `/`, gone at its end.

use std::path::PathBuf;

use super::root::Root;

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(nix::unistd::mkdtemp(&std::env::temp_dir().join("lucia-agent-XXXXXX")).unwrap())
    }

    pub(crate) fn root(&self) -> Root {
        Root::at(&self.0)
    }

    /// Writes a file at an absolute path of this root, making its directories.
    pub(crate) fn put(&self, absolute: &str, text: &str) {
        let path = self.root().join(absolute);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover directory in /tmp is no reason to fail a test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
