//! Who holds it, what its first line tells, and that no crash leaves it in need of hands.

use super::*;
use crate::DirRules;
use crate::crash_point::{crash_at, fail_at};
use crate::scratch::{Scratch, name};

const MARKER: &[u8] = b"lucia controller journal v4";

fn take(dir: &PrivateDir, holder: &str) -> Result<Lease, LeaseError> {
    Lease::take(dir, &name("lease"), MARKER, holder)
}

fn look(dir: &PrivateDir) -> Marker {
    Lease::look(dir, &name("lease"), MARKER).unwrap()
}

fn on_disk(scratch: &Scratch) -> String {
    std::fs::read_to_string(scratch.path().join("lease")).unwrap()
}

// spec: DU-17 (threats.md F-12)
#[test]
fn the_second_is_refused_and_told_who_has_it() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    let first = take(&dir, "pid 7 lucia-controller on host a").unwrap();
    let held = take(&scratch.open(), "pid 8").unwrap_err();
    assert!(matches!(&held, LeaseError::Held { holder, .. } if holder == "pid 7 lucia-controller on host a"), "{held}");
    assert!(held.to_string().contains("pid 7"), "{held}");
    drop(first);
    let second = take(&dir, "pid 8").unwrap();
    assert_eq!(on_disk(&scratch), "starting\npid 8\n", "a shorter name leaves nothing of the longer one");
    assert!(matches!(take(&dir, "pid 9"), Err(LeaseError::Held { holder, .. }) if holder == "pid 8"));
    drop(second);
}

// spec: DU-280
#[test]
fn who_holds_it_is_seen_from_outside_and_a_look_takes_nothing() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    let holder = |lives: bool| Lease::holder(&scratch.open(), &name("lease"), |_| lives).unwrap();
    assert_eq!(holder(true), None, "there is no lease");
    let lease = take(&dir, "pid 7 lucia-node-agent managed-run").unwrap();
    for _ in 0..3 {
        assert_eq!(holder(true).as_deref(), Some("pid 7 lucia-node-agent managed-run"));
    }
    assert_eq!(holder(false), None, "the one it names is known to be gone");
    drop(lease);
    assert_eq!(holder(true), None);
    take(&dir, "pid 8").unwrap();
}

// spec: DU-18
#[test]
fn the_marker_tells_a_first_start_from_lost_state() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    assert_eq!(look(&dir), Marker::Absent);
    assert!(!dir.exists(&name("lease")).unwrap(), "looking makes nothing");
    let lease = take(&dir, "pid 1").unwrap();
    assert_eq!((lease.found(), look(&dir)), (Marker::Absent, Marker::Starting));
    drop(lease);
    let mut lease = take(&dir, "pid 2").unwrap();
    assert_eq!((lease.found(), lease.marker_present()), (Marker::Starting, false));
    lease.confirm(&dir).unwrap();
    assert_eq!((lease.found(), look(&dir)), (Marker::Present, Marker::Present));
    assert_eq!(on_disk(&scratch), "lucia controller journal v4\npid 2\n");
    assert!(matches!(take(&dir, "pid 3"), Err(LeaseError::Held { .. })), "still held after the file was replaced");
    lease.confirm(&dir).unwrap();
    drop(lease);
    let lease = take(&dir, "pid 4").unwrap();
    assert!(lease.marker_present());
    assert_eq!(on_disk(&scratch), "lucia controller journal v4\npid 4\n");
}

// spec: DU-19
#[test]
fn every_crash_of_a_first_start_is_taken_up_again() {
    let start = |dir: &PrivateDir| -> Result<Marker, LeaseError> {
        let mut lease = take(dir, "pid 1")?;
        let found = lease.found();
        let state = dir.exists(&name("state")).unwrap();
        assert!(
            matches!(
                (found, state),
                (Marker::Absent | Marker::Starting, false) | (Marker::Starting | Marker::Present, true)
            ),
            "needs hands: {found:?}, state {state}"
        );
        dir.replace(&name("state"), b"{}", 0o600)
            .map_err(|source| LeaseError::NotWritten { path: dir.path().to_owned(), source })?;
        lease.confirm(dir)?;
        Ok(found)
    };
    for nth in 0.. {
        let scratch = Scratch::new();
        let plan = crash_at(scratch.path(), nth);
        let result = start(&scratch.open());
        if plan.crashed().is_none() {
            result.unwrap();
            assert!(nth > 20, "making, signing, the state and confirming were walked");
            break;
        }
        drop(plan);
        assert!(result.is_err());
        start(&scratch.open()).unwrap();
        assert_eq!(look(&scratch.open()), Marker::Present);
    }
}

// spec: DU-20
#[test]
fn a_lease_file_that_is_not_ours_stops_the_start() {
    for (content, found) in [
        ("lucia controller journal v4", "lucia controller journal v4"),
        ("lucia controller journal v5\n", "lucia controller journal v5"),
        ("started\n", "started"),
        ("\0x", "?x"),
        ("\u{1b}[31mred\n", "?[31mred"),
    ] {
        let scratch = Scratch::new();
        let dir = scratch.open();
        dir.replace(&name("lease"), content.as_bytes(), 0o600).unwrap();
        let err = take(&dir, "pid 1").unwrap_err();
        assert!(matches!(&err, LeaseError::Foreign { found: is, .. } if is == found), "{content:?}: {err:?}");
        assert_eq!(on_disk(&scratch), content, "nothing is changed");
    }
    let scratch = Scratch::new();
    let dir = scratch.open();
    for (mode, len) in [(0o644, 10), (0o600, 403)] {
        dir.replace(&name("lease"), &vec![b'x'; len], mode).unwrap();
        assert!(matches!(take(&dir, "pid 1"), Err(LeaseError::Unusable { .. })));
    }
}

#[test]
fn a_lease_file_cut_short_while_it_was_made_is_a_first_start() {
    for content in ["", "\n", "start", "starting", "starting\npi", "\0\0\0\0\0\0\0\0\0\0"] {
        let scratch = Scratch::new();
        let dir = scratch.open();
        dir.replace(&name("lease"), content.as_bytes(), 0o600).unwrap();
        assert_eq!(take(&dir, "pid 1").unwrap().found(), Marker::Starting, "{content:?}");
        assert_eq!(on_disk(&scratch), "starting\npid 1\n");
    }
}

#[test]
fn markers_and_holders_are_one_plain_line() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    for bad in [&b""[..], b"starting", b"start", b"two\nlines", b"\x1b", &[b'x'; 201]] {
        assert!(matches!(Lease::take(&dir, &name("lease"), bad, "x"), Err(LeaseError::BadMarker { .. })));
        assert!(matches!(Lease::look(&dir, &name("lease"), bad), Err(LeaseError::BadMarker { .. })));
    }
    let lease = take(&dir, &format!("pid 1\n\u{1b}{}", "y".repeat(300))).unwrap();
    assert_eq!(on_disk(&scratch), format!("starting\npid 1??{}\n", "y".repeat(193)));
    drop(lease);
    let longest = [b'm'; 200];
    let mut lease = Lease::take(&dir, &name("long"), &longest, &"h".repeat(300)).unwrap();
    lease.confirm(&dir).unwrap();
    drop(lease);
    assert!(Lease::take(&dir, &name("long"), &longest, "x").unwrap().marker_present());
}

#[test]
fn a_failed_confirm_keeps_the_lease() {
    for step in ["replace/sync", "lease/lock", "lease/rename", "lease/dir-sync"] {
        let scratch = Scratch::new();
        let dir = scratch.open();
        let mut lease = take(&dir, "pid 1").unwrap();
        let plan = fail_at(scratch.path(), step, 0, Errno::EIO as i32);
        assert!(matches!(lease.confirm(&dir), Err(LeaseError::NotWritten { .. })), "{step}");
        drop(plan);
        assert!(matches!(take(&scratch.open(), "pid 2"), Err(LeaseError::Held { .. })), "{step}");
    }
}

// spec: DU-17
#[test]
fn a_lease_file_replaced_meanwhile_is_not_the_lease() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    let mut first = take(&dir, "pid 1").unwrap();
    // The second opened the file before the first confirmed, and locks it after.
    let stale = || open(&dir, &name("lease"), OFlag::O_RDWR).unwrap().unwrap();
    let (before, and_again) = (stale(), stale());
    first.confirm(&dir).unwrap();
    assert!(Lease::take_file(&dir, &name("lease"), before, MARKER, "pid 2").unwrap().is_none());
    assert!(matches!(take(&dir, "pid 2"), Err(LeaseError::Held { .. })));
    drop(first);
    dir.remove(&name("lease")).unwrap();
    assert!(Lease::take_file(&dir, &name("lease"), and_again, MARKER, "pid 2").unwrap().is_none());
}

#[test]
fn many_take_it_one_has_it() {
    let scratch = Scratch::new();
    let taken = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let dir = PrivateDir::open(scratch.path(), DirRules::private()).unwrap();
                scope.spawn(move || take(&dir, &format!("pid {n}")).ok())
            })
            .collect();
        // All are joined before the first lease is dropped.
        let leases: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
        leases.len()
    });
    assert_eq!(taken, 1);
    assert_eq!(look(&scratch.open()), Marker::Starting);
}

// spec: DU-22 (threats.md F-12)
#[test]
fn a_holder_whose_lease_was_taken_away_is_told_so() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    let mut first = take(&dir, "pid 1").unwrap();
    first.check(&dir).unwrap();
    first.confirm(&dir).unwrap();
    first.check(&dir).unwrap();
    std::fs::remove_file(scratch.path().join("lease")).unwrap();
    assert!(matches!(first.check(&dir), Err(LeaseError::TakenOver { .. })));
    let second = take(&dir, "pid 2").unwrap();
    second.check(&dir).unwrap();
    assert!(matches!(first.check(&dir), Err(LeaseError::TakenOver { .. })));
}

// spec: DU-23 (threats.md F-12)
#[test]
fn what_is_written_under_a_lease_is_not_once_it_was_taken_away() {
    let (home, beside) = (Scratch::new(), Scratch::new());
    let dir = Arc::new(home.open());
    let mut first = take(&dir, "pid 1").unwrap();
    first.confirm(&dir).unwrap();
    let lease = Arc::new(first);
    let other = beside.open().guarded(lease.guard(&dir));
    other.replace(&name("a"), b"ours", 0o600).unwrap();
    std::fs::remove_file(home.path().join("lease")).unwrap();
    let second = take(&home.open(), "pid 2").unwrap();
    let refused = [
        other.replace(&name("a"), b"late", 0o600).unwrap_err(),
        other.replace_all(&[(name("a"), b"late")], 0o600).unwrap_err(),
        other.create_new(&name("b"), b"late", 0o600).unwrap_err(),
        other.remove(&name("a")).unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, WriteError::NotHeld { .. }), "{error}");
    }
    assert_eq!(std::fs::read(beside.path().join("a")).unwrap(), b"ours");
    assert_eq!(std::fs::read_dir(beside.path()).unwrap().count(), 1);
    drop(second);
}
