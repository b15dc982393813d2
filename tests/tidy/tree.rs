//! The files of the project as the rules see them: what git tracks, nothing else.

use std::fs;
use std::path::{Path, PathBuf};

/// The project's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the root").to_path_buf()
}

/// Every file below the root but build output and git's own, as a path relative to the root.
pub(crate) fn files() -> Vec<String> {
    let mut out = Vec::new();
    walk(&root(), &root(), &mut out);
    out.sort();
    assert!(out.len() > 50, "the walk found {} files only", out.len());
    out
}

/// The Rust sources among them.
pub(crate) fn rust_files() -> Vec<String> {
    files().into_iter().filter(|path| path.ends_with(".rs")).collect()
}

/// The text of one of them.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
}

fn walk(root: &Path, dir: &Path, out: &mut Vec<String>) {
    for entry in fs::read_dir(dir).expect("a readable folder") {
        let entry = entry.expect("a readable entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == ".git" {
            continue; // a folder, or in a second work tree a file
        }
        let kind = entry.file_type().expect("a file type");
        if kind.is_dir() {
            if !matches!(name.as_str(), "target" | ".demo" | "bench-out" | "corpus" | "mutants.out") {
                walk(root, &entry.path(), out);
            }
        } else if kind.is_file() {
            let path = entry.path();
            out.push(path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned());
        }
    }
}
