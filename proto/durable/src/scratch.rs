//! A directory for one test, gone at its end.

use std::path::{Path, PathBuf};

use crate::{DirRules, FileName, PrivateDir};

/// A new directory, 0700, removed with all in it when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(nix::unistd::mkdtemp(&std::env::temp_dir().join("lucia-durable-XXXXXX")).unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn open(&self) -> PrivateDir {
        PrivateDir::open(&self.0, DirRules::private()).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover directory in /tmp is no reason to fail a test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn name(text: &str) -> FileName {
    FileName::new(text).unwrap()
}
