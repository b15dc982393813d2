//! The untrusted open: everything that may lie where a file should, and files that lie about themselves.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::scratch::{Scratch, name};
use crate::{DirRules, Owner};

const MAX: u64 = 64 * 1024;

fn outcome(dir: &PrivateDir, file: &str, max: u64, rules: FileRules) -> String {
    match dir.read(&name(file), max, rules) {
        Ok(Loaded::Missing) => "missing".to_owned(),
        Ok(Loaded::Found(bytes)) => format!("{} bytes", bytes.len()),
        Err(ReadError::Refused { breach: RuleBreach::Kind { got, .. }, .. }) => got.to_owned(),
        Err(ReadError::Refused { breach, .. }) => format!("{breach:?}"),
        Err(ReadError::TooLarge { max, .. }) => format!("over {max}"),
        Err(other) => format!("{other:?}"),
    }
}

fn file_with(mode: u32, len: u64) -> impl FnOnce(&Path) {
    move |path| {
        let file = File::create(path).unwrap();
        file.set_len(len).unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
    }
}

#[track_caller]
fn check(prepare: impl FnOnce(&Path), rules: FileRules, want: &str) {
    let scratch = Scratch::new();
    prepare(&scratch.path().join("f"));
    let got = outcome(&scratch.open(), "f", MAX, rules);
    assert!(got.starts_with(want), "{got} instead of {want}");
}

// spec: DU-5 (threats.md Q-1, Q-2)
#[test]
fn only_a_plain_file_that_keeps_the_rules_is_read() {
    let private = FileRules::private();
    let us = nix::unistd::geteuid().as_raw();
    let secret = |path: &Path| path.with_file_name("secret");
    check(|_| {}, private, "missing");
    check(file_with(0o600, 0), private, "0 bytes");
    check(file_with(0o400, 5), private, "5 bytes");
    check(file_with(0o600, MAX), private, "65536 bytes");
    check(file_with(0o600, MAX + 1), private, "over 65536");
    check(file_with(0o600, 10 << 30), private, "over 65536");
    check(file_with(0o640, 5), private, "Mode");
    check(file_with(0o4600, 5), private, "Mode");
    check(file_with(0o640, 5), FileRules { mode: 0o640, ..private }, "5 bytes");
    check(file_with(0o660, 5), FileRules { mode: 0o640, ..private }, "Mode");
    check(file_with(0o600, 5), FileRules { owner: Owner::Uid(us), ..private }, "5 bytes");
    check(file_with(0o600, 5), FileRules { owner: Owner::Uid(us + 1), ..private }, "Owner");
    check(|path| std::fs::create_dir(path).unwrap(), private, "directory");
    check(|path| nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap(), private, "FIFO");
    check(|path| drop(UnixListener::bind(path).unwrap()), private, "socket");
    check(|path| symlink("/dev/zero", path).unwrap(), private, "symbolic link");
    check(|path| symlink("/nowhere/at/all", path).unwrap(), private, "symbolic link");
    check(|path| symlink("f", path).unwrap(), private, "symbolic link");
    let to_secret = |path: &Path| {
        file_with(0o600, 5)(&secret(path));
        symlink(secret(path), path).unwrap();
    };
    check(to_secret, private, "symbolic link");
    let linked = |path: &Path| {
        file_with(0o600, 5)(&secret(path));
        std::fs::hard_link(secret(path), path).unwrap();
    };
    check(linked, private, "Links { links: 2 }");
}

#[test]
fn devices_are_refused_before_they_are_opened() {
    let rules = DirRules { mode: 0o7777, owner: Owner::Uid(0), group: None };
    let dir = PrivateDir::open(Path::new("/dev"), rules).unwrap();
    for device in ["null", "zero", "full", "tty"] {
        let got = outcome(&dir, device, MAX, FileRules { mode: 0o7777, owner: Owner::Uid(0) });
        assert_eq!(got, "character device", "{device}");
    }
}

// spec: DU-6 (threats.md Q-2)
#[test]
fn a_file_with_more_bytes_than_its_size_said_is_an_error_not_a_cut() {
    // The kernel's own files say size 0 and then have bytes, exactly as one that grows while it is read.
    let facts = std::fs::metadata("/proc/self/status").unwrap();
    assert_eq!(facts.size(), 0);
    let process = format!("/proc/{}", std::process::id());
    let owner = Owner::Uid(facts.uid());
    let dir = PrivateDir::open(Path::new(&process), DirRules { mode: 0o555, owner, group: None }).unwrap();
    let rules = FileRules { mode: 0o444, owner };
    assert_eq!(outcome(&dir, "status", 10, rules), "over 10");
    let Loaded::Found(all) = dir.read(&name("status"), MAX, rules).unwrap() else { panic!("it is there") };
    assert!(all.starts_with(b"Name:"));
    assert!(all.len() > 10);
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

// spec: DU-7 (threats.md F-22)
#[test]
fn a_name_that_changes_under_us_never_leads_elsewhere() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    let at = |entry: &str| scratch.path().join(entry);
    std::fs::write(at("secret"), "secret").unwrap();
    dir.replace(&name("plain"), b"plain", 0o600).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::fs::copy(at("plain"), at("swap")).unwrap();
                std::fs::rename(at("swap"), at("f")).unwrap();
                symlink("secret", at("swap")).unwrap();
                std::fs::rename(at("swap"), at("f")).unwrap();
                nix::unistd::mkfifo(&at("swap"), Mode::S_IRUSR).unwrap();
                std::fs::rename(at("swap"), at("f")).unwrap();
            }
        });
        // Also when an assertion below fails, or the scope would wait for the other thread for ever.
        let _stop = Stop(&done);
        for _ in 0..20_000 {
            match dir.read(&name("f"), MAX, FileRules { mode: 0o777, owner: Owner::Us }) {
                Ok(Loaded::Missing) | Err(ReadError::Refused { .. }) => {}
                Ok(Loaded::Found(bytes)) => assert_eq!(bytes, b"plain"),
                Err(other) => panic!("{other:?}"),
            }
        }
    });
}

// spec: DU-21
#[test]
fn a_file_that_is_replaced_all_the_time_is_never_refused() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    dir.replace(&name("f"), b"plain", 0o600).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // By hand and without syncing, which hits the gap between open and check far more often.
                std::fs::write(scratch.path().join("next"), "plain").unwrap();
                let mode = std::fs::Permissions::from_mode(0o600);
                std::fs::set_permissions(scratch.path().join("next"), mode).unwrap();
                std::fs::rename(scratch.path().join("next"), scratch.path().join("f")).unwrap();
            }
        });
        let _stop = Stop(&done);
        for _ in 0..20_000 {
            assert_eq!(dir.read(&name("f"), MAX, FileRules::private()).unwrap(), Loaded::Found(b"plain".to_vec()));
        }
    });
}

#[test]
fn every_refusal_names_the_file_and_a_cure() {
    let scratch = Scratch::new();
    file_with(0o644, 5)(&scratch.path().join("f"));
    let err = scratch.open().read(&name("f"), MAX, FileRules::private()).unwrap_err();
    let cause = std::error::Error::source(&err).unwrap().to_string();
    assert!(err.to_string().contains("/f"), "{err}");
    assert!(cause.contains("0644") && cause.contains("chmod 0600"), "{cause}");
    assert_eq!(Loaded::Missing.found(), None);
}

// spec: VE-407
#[test]
fn a_newer_format_is_told_by_the_first_member_and_refused_before_the_rest_is_read() {
    let schema = Format::schema(2);
    for (text, newer) in [
        (r#"{"schemaVersion":3,"x":[}"#, Some(3)),
        (" {\n \"schemaVersion\" : 30 }", Some(30)),
        (r#"{"schemaVersion":2}"#, None),
        (r#"{"schemaVersion":1}"#, None),
        // Without a number it is the first; what is damaged is for whoever reads it.
        (r#"{"a":1,"schemaVersion":3}"#, None),
        (r#"{"schemaVersion":"3"}"#, None),
        (r#"{"schemaVersion":99999999999999999999999}"#, None),
        (r#"{"version":9}"#, None),
        ("", None),
        ("{", None),
    ] {
        assert_eq!(schema.newer(text.as_bytes()), newer, "{text}");
    }
    assert_eq!(Format::version(4).newer(br#"{"version":5}"#), Some(5));

    let scratch = Scratch::new();
    let dir = scratch.open();
    std::fs::write(dir.path().join("f"), r#"{"schemaVersion":3}"#).unwrap();
    std::fs::set_permissions(dir.path().join("f"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let refused = dir.read_as(&name("f"), MAX, FileRules::private(), schema);
    assert!(matches!(refused, Err(ReadError::Newer { found: 3, known: 2, .. })));
}
