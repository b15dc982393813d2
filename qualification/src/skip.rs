//! Tests that cannot run on this machine leave a note, so that `make test` counts them as skipped instead of passed.

use std::path::{Path, PathBuf};

/// Where `run-tests.sh` looks for notes; it empties the directory before the tests start.
pub fn directory() -> PathBuf {
    workspace().join("target/test-skips")
}

/// Notes that `test` was skipped and why. A note that cannot be written fails the test: it must not count as passed.
pub fn note(test: &str, why: &str) -> std::io::Result<()> {
    let directory = directory();
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join(test.replace("::", "-")), format!("{test}: {why}\n"))
}

/// The top of the workspace this crate was built from.
pub fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}
