//! Lines survive, torn ones are seen, and a disk that failed once is not believed again.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};

use super::*;
use crate::crash_point::{crash_at, fail_at};
use crate::scratch::{Scratch, name};

const EIO: i32 = Errno::EIO as i32;
const ENOSPC: i32 = Errno::ENOSPC as i32;

fn open(dir: &PrivateDir) -> AppendFile {
    AppendFile::open(dir, &name("ledger"), 0o600).unwrap()
}

fn on_disk(scratch: &Scratch) -> String {
    std::fs::read_to_string(scratch.path().join("ledger")).unwrap()
}

#[test]
fn lines_are_added_and_read_back() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    let mut file = open(&dir);
    assert!(file.is_empty());
    file.append(b"one\n").unwrap();
    file.append(b"two\nthree\n").unwrap();
    file.sync().unwrap();
    assert_eq!((file.len(), file.torn_tail(), file.is_empty()), (14, 0, false));
    drop(file);
    let file = open(&dir);
    for (offset, max, want) in [
        (0, 100, "one\ntwo\nthree\n"),
        (0, 14, "one\ntwo\nthree\n"),
        (0, 13, "one\ntwo\n"),
        (0, 4, "one\n"),
        (4, 9, "two\n"),
        (8, 6, "three\n"),
        (14, 100, ""),
        (99, 100, ""),
    ] {
        assert_eq!(file.read_from(offset, max).unwrap(), want.as_bytes(), "{offset} {max}");
    }
    assert!(matches!(file.read_from(0, 3), Err(AppendError::LineTooLong { offset: 0, max: 3, .. })));
    assert_eq!(std::fs::metadata(scratch.path().join("ledger")).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn only_whole_lines_are_taken() {
    let scratch = Scratch::new();
    let mut file = open(&scratch.open());
    for bad in ["", "x", "x\ny"] {
        assert!(matches!(file.append(bad.as_bytes()), Err(AppendError::NotALine { .. })), "{bad:?}");
    }
    assert_eq!(on_disk(&scratch), "");
}

// spec: DU-14
#[test]
fn a_torn_last_line_is_seen_and_cut_only_when_told() {
    let long = "x".repeat(3 * BLOCK);
    for (text, whole, torn) in [
        ("".to_owned(), 0, 0),
        ("a\n".to_owned(), 2, 0),
        ("a\nb".to_owned(), 2, 1),
        ("b".to_owned(), 0, 1),
        (format!("a\n{long}"), 2, 3 * BLOCK as u64),
        (format!("{long}\n"), 3 * BLOCK as u64 + 1, 0),
        (long.clone(), 0, 3 * BLOCK as u64),
        (format!("{}\n{}", &long[..BLOCK - 1], &long[..BLOCK]), BLOCK as u64, BLOCK as u64),
    ] {
        let scratch = Scratch::new();
        let dir = scratch.open();
        dir.replace(&name("ledger"), text.as_bytes(), 0o600).unwrap();
        let mut file = open(&dir);
        assert_eq!((file.len(), file.torn_tail()), (whole, torn));
        if torn > 0 {
            assert!(matches!(file.append(b"next\n"), Err(AppendError::Torn { whole: at, .. }) if at == whole));
            assert_eq!(on_disk(&scratch), text, "nothing is changed unasked");
        }
        assert_eq!(file.truncate_torn_tail().unwrap(), torn);
        file.append(b"next\n").unwrap();
        file.sync().unwrap();
        assert_eq!(on_disk(&scratch), format!("{}next\n", &text[..usize::try_from(whole).unwrap()]));
    }
}

// spec: DU-15
#[test]
fn what_was_synced_is_there_at_every_crash() {
    let entry = b"a line of some length\n";
    let write = |dir: &PrivateDir| -> Result<(), AppendError> {
        let mut file = AppendFile::open(dir, &name("ledger"), 0o600)?;
        file.truncate_torn_tail()?;
        file.append(entry)?;
        file.sync()
    };
    for nth in 0.. {
        let scratch = Scratch::new();
        let dir = scratch.open();
        let plan = crash_at(scratch.path(), nth);
        let result = write(&dir);
        let Some(crashed) = plan.crashed() else {
            result.unwrap();
            assert_eq!(nth, 6, "make, sync of the directory, write, half a write, sync and done were walked");
            break;
        };
        drop(plan);
        assert!(result.is_err());
        write(&scratch.open()).unwrap();
        let lines = on_disk(&scratch);
        assert!(lines.as_bytes().chunks(entry.len()).all(|line| line == entry), "after {crashed}: {lines:?}");
    }
}

// spec: DU-16 (threats.md F-5, F-6)
#[test]
fn a_failed_write_leaves_no_part_and_a_failed_sync_ends_it() {
    for (step, errno) in [("append/write", ENOSPC), ("append/half-written", ENOSPC), ("append/half-written", EIO)] {
        let scratch = Scratch::new();
        let mut file = open(&scratch.open());
        file.append(b"one\n").unwrap();
        let plan = fail_at(scratch.path(), step, 0, errno);
        match file.append(b"a second line\n") {
            Err(AppendError::Full { .. }) if errno == ENOSPC => {}
            Err(AppendError::Failed { .. }) if errno == EIO => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(on_disk(&scratch), "one\n", "{step}");
        drop(plan);
        file.append(b"two\n").unwrap();
        file.sync().unwrap();
        assert_eq!((on_disk(&scratch).as_str(), file.len()), ("one\ntwo\n", 8));
    }
    let scratch = Scratch::new();
    let mut file = open(&scratch.open());
    file.append(b"one\n").unwrap();
    let plan = fail_at(scratch.path(), "append/sync", 0, EIO);
    assert!(matches!(file.sync(), Err(AppendError::Failed { doing: "sync", .. })));
    assert!(matches!(file.sync(), Err(AppendError::Stopped { .. })), "never tried again and called good");
    assert!(matches!(file.append(b"two\n"), Err(AppendError::Stopped { .. })));
    assert!(matches!(file.truncate_torn_tail(), Err(AppendError::Stopped { .. })));
    assert_eq!(plan.steps(), ["append/sync"]);
    assert_eq!(on_disk(&scratch), "one\n");
}

#[test]
fn what_is_not_our_plain_file_is_refused() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    let at = |entry: &str| scratch.path().join(entry);
    dir.replace(&name("wide"), b"", 0o644).unwrap();
    std::fs::write(at("secret"), "").unwrap();
    symlink("secret", at("link")).unwrap();
    std::fs::hard_link(at("secret"), at("second")).unwrap();
    nix::unistd::mkfifo(&at("fifo"), Mode::S_IRUSR).unwrap();
    for entry in ["wide", "link", "second", "fifo"] {
        let opened = AppendFile::open(&dir, &name(entry), 0o600);
        assert!(matches!(opened, Err(AppendError::Unusable { .. })), "{entry}: {opened:?}");
    }
}

#[test]
fn one_holder_of_the_lock() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    let (first, second) = (open(&dir), open(&dir));
    let lock = first.lock_exclusive().unwrap();
    assert!(matches!(second.lock_exclusive(), Err(AppendError::Locked { .. })));
    drop(lock);
    let lock = second.lock_exclusive().unwrap();
    assert!(matches!(first.lock_exclusive(), Err(AppendError::Locked { .. })));
    drop((lock, second));
    first.lock_exclusive().unwrap();
}

#[test]
fn bytes_go_to_the_end_whoever_else_wrote() {
    let scratch = Scratch::new();
    let mut file = open(&scratch.open());
    file.append(b"one\n").unwrap();
    std::fs::OpenOptions::new()
        .append(true)
        .open(scratch.path().join("ledger"))
        .unwrap()
        .write_all(b"alien\n")
        .unwrap();
    file.append(b"two\n").unwrap();
    assert_eq!(on_disk(&scratch), "one\nalien\ntwo\n");
}
