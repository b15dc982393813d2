//! Every step of a write is made the last one, by death and by a failing disk; the file is whole after each.

use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::crash_point::{crash_at, fail_at, record};
use crate::scratch::{Scratch, name};
use crate::{DirRules, FileRules, Loaded};

const EIO: i32 = Errno::EIO as i32;
const ENOSPC: i32 = Errno::ENOSPC as i32;

fn bytes(dir: &PrivateDir, file: &str) -> Option<Vec<u8>> {
    dir.read(&name(file), 1 << 20, FileRules { mode: 0o666, ..FileRules::private() }).unwrap().found()
}

/// Entries beside the visible ones.
fn leftovers(dir: &PrivateDir) -> usize {
    dir.list(100).unwrap().ignored
}

/// Runs `write` on a directory with `f` = "old" once per step, stopped at that step; then unstopped.
fn walk(write: impl Fn(&PrivateDir) -> Result<(), WriteError>, whole: impl Fn(&PrivateDir)) -> Vec<&'static str> {
    let mut all = Vec::new();
    for nth in 0.. {
        let scratch = Scratch::new();
        let dir = scratch.open();
        dir.replace(&name("f"), b"old", 0o600).unwrap();
        let plan = crash_at(scratch.path(), nth);
        let result = write(&dir);
        let Some(crashed) = plan.crashed() else {
            result.unwrap();
            return all;
        };
        all.push(crashed.step);
        drop(plan);
        assert!(matches!(result, Err(WriteError::Crashed { .. })), "{crashed}: {result:?}");
        // A new process begins: it opens the directory anew.
        let dir = scratch.open();
        whole(&dir);
        match write(&dir) {
            Ok(()) | Err(WriteError::AlreadyThere { .. }) => {}
            Err(other) => panic!("after {crashed}: {other:?}"),
        }
        dir.remove_leftovers(100).unwrap();
        assert_eq!(leftovers(&dir), 0, "after {crashed}");
    }
    all
}

// spec: DU-8
#[test]
fn replace_leaves_old_or_new_at_every_crash() {
    let new = vec![b'n'; 10_000];
    let steps = walk(
        |dir| dir.replace(&name("f"), &new, 0o600),
        |dir| {
            let got = bytes(dir, "f").unwrap();
            assert!(got == b"old" || got == new, "{} bytes", got.len());
        },
    );
    let want = ["clear", "create", "write", "half-written", "mode", "sync", "rename", "dir-sync", "done"];
    assert_eq!(steps, want.map(|step| format!("replace/{step}")));
}

// spec: DU-9
#[test]
fn replace_all_leaves_each_file_whole_at_every_crash() {
    let batch = [(name("f"), "new f"), (name("g"), "new g"), (name("h"), "new h")];
    walk(
        |dir| dir.replace_all(&batch, 0o600),
        |dir| {
            let got = ["f", "g", "h"].map(|file| bytes(dir, file));
            assert!(got[0] == Some(b"old".to_vec()) || got[0] == Some(b"new f".to_vec()));
            assert!(got[1].is_none() || got[1] == Some(b"new g".to_vec()));
            assert!(got[2].is_none() || got[2] == Some(b"new h".to_vec()));
        },
    );
}

// spec: DU-10
#[test]
fn create_new_is_whole_or_absent_and_never_overwrites() {
    let steps = walk(
        |dir| dir.create_new(&name("key"), b"secret", 0o600),
        // One name only, or the read refuses it: so no step may go by a hard link.
        |dir| assert!(matches!(bytes(dir, "key").as_deref(), None | Some(b"secret"))),
    );
    assert!(steps.contains(&"create/rename"));
    let scratch = Scratch::new();
    let dir = scratch.open();
    std::fs::create_dir(scratch.path().join("dir")).unwrap();
    symlink("/nowhere", scratch.path().join("dangling")).unwrap();
    dir.create_new(&name("key"), b"first", 0o400).unwrap();
    for there in ["key", "dir", "dangling"] {
        let again = dir.create_new(&name(there), b"second", 0o600);
        assert!(matches!(again, Err(WriteError::AlreadyThere { .. })), "{there}: {again:?}");
    }
    assert_eq!(bytes(&dir, "key").unwrap(), b"first");
    assert_eq!(leftovers(&dir), 0);
}

#[test]
fn create_new_has_one_winner() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    let wins = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (dir, wins) = (&dir, &wins);
            scope.spawn(move || {
                if dir.create_new(&name("key"), &[n], 0o600).is_ok() {
                    wins.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(wins.into_inner(), 1);
}

// The look before it is a courtesy: what decides is the kernel, whoever slips in between.
#[test]
fn the_kernel_decides_who_was_first() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    dir.stage(&name("key"), b"second", 0o600).unwrap();
    std::fs::write(scratch.path().join("key"), "first").unwrap();
    assert_eq!(dir.rename_if_free(&name("key")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(scratch.path().join("key")).unwrap(), b"first");
}

// spec: DU-11 (threats.md F-5, F-6)
#[test]
fn a_failing_disk_leaves_the_old_file_and_is_not_asked_twice() {
    for errno in [EIO, ENOSPC] {
        for step in ["clear", "create", "write", "half-written", "mode", "sync", "rename"] {
            let step: &'static str = format!("replace/{step}").leak();
            let scratch = Scratch::new();
            let dir = scratch.open();
            dir.replace(&name("f"), b"old", 0o600).unwrap();
            let plan = fail_at(scratch.path(), step, 0, errno);
            match dir.replace(&name("f"), b"brand new", 0o600) {
                Err(WriteError::Full { .. }) if errno == ENOSPC => {}
                Err(WriteError::Failed { .. }) if errno == EIO => {}
                other => panic!("{step}: {other:?}"),
            }
            assert_eq!(plan.steps().last(), Some(&step), "nothing is done after a failure");
            assert_eq!(plan.steps().iter().filter(|hit| **hit == step).count(), 1);
            assert_eq!(bytes(&dir, "f").unwrap(), b"old", "{step}");
            assert_eq!(leftovers(&dir), 0, "{step}: its space is given back");
            dir.replace(&name("f"), b"brand new", 0o600).unwrap();
            assert_eq!(bytes(&dir, "f").unwrap(), b"brand new");
        }
    }
}

// spec: DU-12 (threats.md F-6)
#[test]
fn a_directory_that_does_not_sync_is_never_called_written() {
    type Write = fn(&PrivateDir) -> Result<(), WriteError>;
    let writes: [(&'static str, Write); 4] = [
        ("replace/dir-sync", |dir| dir.replace(&name("f"), b"new", 0o600)),
        ("replace/dir-sync", |dir| dir.replace_all(&[(name("f"), "new")], 0o600)),
        ("create/dir-sync", |dir| dir.create_new(&name("k"), b"new", 0o600)),
        ("remove/dir-sync", |dir| dir.remove(&name("f")).map(drop)),
    ];
    for (step, write) in writes {
        let scratch = Scratch::new();
        let dir = scratch.open();
        dir.replace(&name("f"), b"old", 0o600).unwrap();
        let plan = fail_at(scratch.path(), step, 0, EIO);
        let result = write(&dir);
        assert!(matches!(result, Err(WriteError::Unsure { .. })), "{step}: {result:?}");
        assert_eq!(plan.steps().last(), Some(&step));
    }
}

#[test]
fn one_sync_of_the_directory_for_a_whole_batch() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    let batch: Vec<_> = (0..170).map(|n| (name(&format!("{n:03}.json")), vec![b'x'; 100])).collect();
    let plan = record(scratch.path());
    dir.replace_all(&batch, 0o640).unwrap();
    let count = |step| plan.steps().iter().filter(|hit| **hit == step).count();
    assert_eq!([count("replace/sync"), count("replace/rename"), count("replace/dir-sync")], [170, 170, 1]);
    let first_rename = plan.steps().iter().position(|hit| *hit == "replace/rename").unwrap();
    let last_sync = plan.steps().iter().rposition(|hit| *hit == "replace/sync").unwrap();
    assert!(last_sync < first_rename, "all are safe before the first shows");
    assert_eq!(dir.list(1000).unwrap().names.len(), 170);
    assert_eq!(leftovers(&dir), 0);
}

#[test]
fn a_batch_with_an_error_changes_nothing() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    dir.replace(&name("f"), b"old", 0o600).unwrap();
    let batch = [(name("f"), "new"), (name("g"), "new"), (name("h"), "new")];
    let _plan = fail_at(scratch.path(), "replace/sync", 2, EIO);
    assert!(matches!(dir.replace_all(&batch, 0o600), Err(WriteError::Failed { doing: "sync", .. })));
    assert_eq!(dir.list(10).unwrap().names, [name("f")]);
    assert_eq!(bytes(&dir, "f").unwrap(), b"old");
    assert_eq!(leftovers(&dir), 0);
    let twice = [(name("f"), "a"), (name("g"), "b"), (name("f"), "c")];
    assert!(matches!(dir.replace_all(&twice, 0o600), Err(WriteError::Twice { path }) if path.ends_with("f")));
    assert_eq!(bytes(&dir, "f").unwrap(), b"old");
    dir.replace_all::<&[u8]>(&[], 0o600).unwrap();
}

// spec: DU-13
#[test]
fn links_and_leftovers_in_the_way_are_replaced_not_followed() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    let at = |entry: &str| scratch.path().join(entry);
    std::fs::write(at("secret"), "secret").unwrap();
    symlink("secret", at("f")).unwrap();
    symlink("secret", at(".f.pending")).unwrap();
    dir.replace(&name("f"), b"new", 0o600).unwrap();
    assert_eq!(bytes(&dir, "f").unwrap(), b"new");
    std::fs::hard_link(at("secret"), at(".f.pending")).unwrap();
    dir.replace(&name("f"), b"newer", 0o600).unwrap();
    assert_eq!(bytes(&dir, "f").unwrap(), b"newer");
    assert_eq!(std::fs::read(at("secret")).unwrap(), b"secret");
    std::fs::create_dir(at("sub")).unwrap();
    assert!(matches!(dir.replace(&name("sub"), b"x", 0o600), Err(WriteError::Failed { doing: "rename", .. })));
    assert!(!at(".sub.pending").exists());
    std::fs::create_dir(at(".f.pending")).unwrap();
    assert!(matches!(dir.replace(&name("f"), b"x", 0o600), Err(WriteError::Failed { doing: "clear", .. })));
    assert_eq!(bytes(&dir, "f").unwrap(), b"newer");
}

#[test]
fn the_mode_is_exact_whatever_the_umask() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    for mode in [0o600, 0o640, 0o666, 0o400] {
        dir.replace(&name("f"), b"x", mode).unwrap();
        assert_eq!(std::fs::metadata(scratch.path().join("f")).unwrap().mode() & 0o7777, mode);
    }
}

#[test]
fn leftovers_are_removed_and_nothing_else() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    for entry in ["f", ".hidden", ".a.pending", "..lease.pending", ".pending"] {
        std::fs::write(scratch.path().join(entry), "").unwrap();
    }
    assert_eq!(dir.remove_leftovers(100).unwrap(), 2);
    assert_eq!((dir.list(100).unwrap().names, leftovers(&dir)), (vec![name("f")], 2));
}

#[test]
fn writers_of_one_name_do_not_mix() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    std::thread::scope(|scope| {
        for letter in b'a'..=b'd' {
            let dir = &dir;
            scope.spawn(move || (0..25).for_each(|_| dir.replace(&name("f"), &[letter; 9000], 0o600).unwrap()));
        }
        for _ in 0..500 {
            let got = bytes(&dir, "f").unwrap_or_else(|| vec![b'a'; 9000]);
            assert!(got.len() == 9000 && got.iter().all(|b| *b == got[0]));
        }
    });
}

// spec: DU-11 (threats.md F-5), on a disk that is really full
#[test]
fn a_full_disk_leaves_the_old_file() {
    let scratch = Scratch::new();
    let small = scratch.path().join("small");
    std::fs::create_dir(&small).unwrap();
    // A mount name space of one thread: no other test sees the mount, and it goes with the thread.
    let thread = std::thread::spawn(move || {
        use nix::mount::{MsFlags, mount};
        let mounted = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).and_then(|()| {
            mount::<str, str, str, str>(None, "/", None, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None)?;
            mount(Some("tmpfs"), &small, Some("tmpfs"), MsFlags::empty(), Some("size=64k,mode=0700"))
        });
        if let Err(errno) = mounted {
            println!("skipped: this machine gives no mount name space ({errno})");
            return;
        }
        let dir = PrivateDir::open(&small, DirRules::private()).unwrap();
        dir.replace(&name("f"), &[b'o'; 20_000], 0o600).unwrap();
        let full = dir.replace(&name("f"), &[b'n'; 60_000], 0o600);
        assert!(matches!(full, Err(WriteError::Full { .. })), "{full:?}");
        let full = dir.replace_all(&[(name("f"), vec![b'n'; 20_000]), (name("g"), vec![b'n'; 30_000])], 0o600);
        assert!(matches!(full, Err(WriteError::Full { .. })), "{full:?}");
        assert_eq!(dir.read(&name("f"), 1 << 20, FileRules::private()).unwrap(), Loaded::Found(vec![b'o'; 20_000]));
        assert_eq!(dir.list(10).unwrap().names, [name("f")]);
        dir.replace(&name("f"), &[b'n'; 30_000], 0o600).unwrap();
    });
    thread.join().unwrap();
}
