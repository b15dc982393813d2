//! The machines of `tests/fixtures` as roots, and copies of them with one file spoilt.

use std::path::{Path, PathBuf};

use crate::host::root::Root;
use crate::host::scratch::Scratch;

/// Every machine there is.
pub(crate) const MACHINES: [&str; 4] = ["container", "dell-server", "firecracker-guest", "hostile"];

fn dir(machine: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(machine)
}

/// The machine as it is; it must not be written to.
pub(crate) fn root(machine: &str) -> Root {
    Root::at(&dir(machine))
}

/// A copy of the machine, and its plain files as paths below `/`.
pub(crate) fn copy(machine: &str) -> (Scratch, Vec<String>) {
    let scratch = Scratch::new();
    let mut files = Vec::new();
    copy_dir(&dir(machine), scratch.root().path(), "", &mut files);
    files.sort();
    assert!(!files.is_empty(), "{machine} has no files");
    (scratch, files)
}

fn copy_dir(from: &Path, to: &Path, below: &str, files: &mut Vec<String>) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let (source, target, path) = (entry.path(), to.join(&name), format!("{below}/{name}"));
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(source).unwrap(), target).unwrap();
        } else if kind.is_dir() {
            copy_dir(&source, &target, &path, files);
        } else {
            std::fs::copy(source, target).unwrap();
            files.push(path);
        }
    }
}

/// Calls `check` with a copy of each machine whose files are, one after another, empty, gone or full of something else.
pub(crate) fn spoil(check: impl Fn(&str, &str, &Root)) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for machine in MACHINES {
        let (scratch, files) = copy(machine);
        let root = scratch.root();
        for file in &files {
            let path = root.join(file);
            let whole = std::fs::read(&path).unwrap();
            for round in 0..7 {
                let length = usize::try_from(random() % 9000).unwrap();
                let text: Vec<u8> = match round {
                    0 => Vec::new(),
                    1 => whole[..whole.len() / 2].to_vec(),
                    2 => vec![b'9'; length],
                    3 => "\u{202e}-\n:,.\u{1b}".repeat(length / 8).into_bytes(),
                    // Keeps the form but for a few bytes.
                    4..6 => {
                        let mut bytes = whole.clone();
                        for _ in 0..=random() % 3 {
                            let at = usize::try_from(random()).unwrap() % bytes.len().max(1);
                            if let Some(byte) = bytes.get_mut(at) {
                                *byte = random().to_le_bytes()[0];
                            }
                        }
                        bytes
                    }
                    _ => (0..length).map(|_| random().to_le_bytes()[0]).collect(),
                };
                std::fs::write(&path, text).unwrap();
                check(machine, file, &root);
            }
            std::fs::remove_file(&path).unwrap();
            check(machine, file, &root);
            std::fs::create_dir(&path).unwrap();
            check(machine, file, &root);
            std::fs::remove_dir(&path).unwrap();
            std::fs::write(&path, whole).unwrap();
        }
    }
}
