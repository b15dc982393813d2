use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use lucia_durable::crash_point::{crash_at, fail_at};

use super::*;
use crate::host::scratch::Scratch;
use crate::keys::tests::line;

struct Node(Scratch);

fn ordered(accounts: &[(&str, &[u8])]) -> OrderedKeys {
    let keys = |bytes: &[u8]| bytes.iter().map(|byte| line(*byte).parse().unwrap()).collect();
    let accounts = accounts.iter().map(|(name, bytes)| (name.parse().unwrap(), keys(bytes))).collect();
    OrderedKeys { accounts, ..OrderedKeys::none() }
}

fn local() -> Local {
    Local { names: ["root", "admin"].map(str::to_owned).into(), ..Local::default() }
}

impl Node {
    fn new() -> Self {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.root().join(&EtcDir::AuthorizedKeys.path())).unwrap();
        Self(scratch)
    }

    fn with(accounts: &[(&str, &[u8])]) -> Self {
        let node = Self::new();
        let brought = node.bring(&ordered(accounts));
        assert_eq!((brought.dropped.len(), brought.held.len()), (0, accounts.len()), "{brought:?}");
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.root().join(&EtcDir::AuthorizedKeys.path()).join(name)
    }

    /// Brings the disk to this; the directory has every account.
    fn bring(&self, ordered: &OrderedKeys) -> Brought {
        self.try_bring(ordered).unwrap()
    }

    fn try_bring(&self, ordered: &OrderedKeys) -> Result<Brought, KeysError> {
        let files = Files::open(&self.0.root())?;
        let mut brought = files.bring(ordered, Some(&local()), true)?;
        for account in std::mem::take(&mut brought.new) {
            files.write(&account, &ordered.accounts[&account], &mut brought);
        }
        Ok(brought)
    }

    fn names(&self) -> Vec<String> {
        self.texts().into_keys().collect()
    }

    fn texts(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.path("")).unwrap().map(Result::unwrap);
        entries
            .map(|entry| {
                (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap_or_default())
            })
            .collect()
    }
}

fn texts(accounts: &[(&str, &[u8])]) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| bytes.iter().map(|byte| format!("{}\n", line(*byte))).collect();
    accounts.iter().map(|(name, bytes)| ((*name).to_owned(), text(bytes))).collect()
}

// spec: KF-1
// spec: KF-3
#[test]
fn the_disk_follows_what_is_ordered() {
    let node = Node::with(&[("alice", &[1, 2]), ("bob", &[3])]);
    assert_eq!(node.texts(), texts(&[("alice", &[1, 2]), ("bob", &[3])]));
    assert_eq!(fs::metadata(node.path("alice")).unwrap().permissions().mode() & 0o7777, 0o644);
    let inode = |name: &str| std::os::unix::fs::MetadataExt::ino(&fs::metadata(node.path(name)).unwrap());
    let before = inode("alice");
    // Only what changed is written.
    let brought = node.bring(&ordered(&[("alice", &[1, 2]), ("bob", &[4])]));
    assert_eq!((brought.changed, inode("alice")), (1, before));
    // A withdrawn key, a withdrawn account, all of them (threats.md D-5).
    for (now, changed) in [(&[("alice", &[2][..]), ("bob", &[4][..])][..], 1), (&[("alice", &[2][..])], 1), (&[], 1)] {
        assert_eq!(node.bring(&ordered(now)).changed, changed);
        assert_eq!(node.texts(), texts(now));
    }
    // What was changed by hand is put right.
    let node = Node::with(&[("alice", &[1])]);
    fs::write(node.path("alice"), line(9)).unwrap();
    fs::write(node.path("root"), line(9)).unwrap();
    fs::write(node.path("Mallory"), line(9)).unwrap();
    assert_eq!(node.bring(&ordered(&[("alice", &[1])])).changed, 3);
    assert_eq!(node.texts(), texts(&[("alice", &[1])]));
}

// spec: KF-4
#[test]
fn an_account_of_the_machine_itself_gets_no_keys() {
    let node = Node::with(&[("alice", &[1])]);
    let both = ordered(&[("admin", &[1]), ("alice", &[1])]);
    let brought = node.bring(&both);
    assert_eq!(brought.dropped, [Dropped::new("admin", Why::Local)]);
    assert_eq!(node.texts(), texts(&[("alice", &[1])]));
    // One that became the machine's own after it had keys loses them.
    let files = Files::open(&node.0.root()).unwrap();
    let local = Local { names: ["alice".to_owned()].into(), ..Local::default() };
    assert_eq!(files.bring(&both, Some(&local), true).unwrap().changed, 1);
    assert!(node.texts().is_empty());
    // Also without any reply.
    fs::write(node.path("alice"), "a key").unwrap();
    fs::write(node.path("bob"), "a key").unwrap();
    assert_eq!(files.without(&local).unwrap(), 1);
    assert!(!node.path("alice").exists() && node.path("bob").exists());
}

/// Anybody with a shell can fill a disk, or use up its inodes.
// spec: KF-10
#[test]
fn a_full_disk_keeps_no_withdrawn_key() {
    let node = Node::with(&[("alice", &[1, 2])]);
    let plan = fail_at(&node.path("alice"), "replace/create", 0, nix::libc::ENOSPC);
    // One more key is no reason to take those that stay.
    let brought = node.bring(&ordered(&[("alice", &[1, 2, 3])]));
    drop(plan);
    assert_eq!((node.texts(), brought.dropped.len()), (texts(&[("alice", &[1, 2])]), 1));
    let plan = fail_at(&node.path("alice"), "replace/create", 0, nix::libc::ENOSPC);
    let brought = node.bring(&ordered(&[("alice", &[2])]));
    drop(plan);
    assert_eq!((brought.changed, brought.dropped.len(), brought.held.len()), (1, 1, 0));
    assert!(node.texts().is_empty());
}

// spec: KF-4
#[test]
fn without_a_directory_nobody_has_keys_and_without_passwd_nobody_new() {
    let node = Node::with(&[("alice", &[1])]);
    let files = Files::open(&node.0.root()).unwrap();
    let brought = files.bring(&ordered(&[("alice", &[2]), ("bob", &[3])]), None, true).unwrap();
    assert_eq!(node.texts(), texts(&[("alice", &[2])]), "a key is withdrawn all the same");
    assert!(matches!(&brought.dropped[..], [Dropped { why: Why::File(what), .. }] if what.contains("/etc/passwd")));
    let brought = files.bring(&ordered(&[("alice", &[2])]), Some(&local()), false).unwrap();
    assert_eq!(brought.dropped, [Dropped::new("alice", Why::NoDirectory)]);
    assert!(node.texts().is_empty());
}

/// threats.md D-7, B-26: what lies in an account's place, while it has keys and after it has none.
// spec: KF-6
#[test]
fn links_and_other_things_in_a_files_place_are_left_and_told_of() {
    type Lay = fn(&std::path::Path, &std::path::Path);
    let things: [(&str, Lay); 7] = [
        ("symlink", |at, outside| symlink(outside, at).unwrap()),
        ("dangling symlink", |at, _| symlink("/nowhere/at/all", at).unwrap()),
        ("hard link", |at, outside| fs::hard_link(outside, at).unwrap()),
        ("FIFO", |at, _| nix::unistd::mkfifo(at, nix::sys::stat::Mode::S_IRWXU).unwrap()),
        ("directory", |at, _| fs::create_dir(at).unwrap()),
        ("socket", |at, _| drop(std::os::unix::net::UnixListener::bind(at).unwrap())),
        ("writable by all", |at, _| {
            fs::write(at, "").unwrap();
            fs::set_permissions(at, fs::Permissions::from_mode(0o666)).unwrap();
        }),
    ];
    for (what, lay) in things {
        let node = Node::with(&[("bob", &[1])]);
        let outside = node.0.root().join("outside");
        fs::write(&outside, "outside").unwrap();
        lay(&node.path("alice"), &outside);
        let brought = node.bring(&ordered(&[("alice", &[2]), ("bob", &[3])]));
        assert!(
            matches!(&brought.dropped[..], [Dropped { account, why: Why::File(_) }] if account == "alice"),
            "{what}"
        );
        assert_eq!(fs::read_to_string(&outside).unwrap(), "outside", "{what}");
        assert_eq!(fs::read_to_string(node.path("bob")).unwrap(), format!("{}\n", line(3)), "others go on: {what}");
        // Withdrawn: the name goes, and nothing that lies elsewhere.
        let brought = node.bring(&ordered(&[("bob", &[3])]));
        assert_eq!(fs::read_to_string(&outside).unwrap(), "outside", "{what}");
        let stays = what == "directory";
        assert_eq!(brought.dropped.len(), usize::from(stays), "{what}: {brought:?}");
        assert_eq!(node.path("alice").symlink_metadata().is_ok(), stays, "{what}");
    }
}

/// threats.md D-7: a file that cannot be replaced or removed, as one with `chattr +i`.
// spec: KF-6
#[test]
fn an_immutable_file_is_told_of_and_others_go_on() {
    let node = Node::with(&[("alice", &[1]), ("bob", &[1])]);
    let plan = fail_at(&node.path("alice"), "replace/rename", 0, nix::libc::EPERM);
    let brought = node.bring(&ordered(&[("alice", &[1, 2]), ("bob", &[2])]));
    drop(plan);
    assert!(
        matches!(&brought.dropped[..], [Dropped { account, why: Why::File(_) }] if account == "alice"),
        "{brought:?}"
    );
    assert_eq!(node.texts(), texts(&[("alice", &[1]), ("bob", &[2])]));
    let plan = fail_at(&node.path("alice"), "remove/unlink", 0, nix::libc::EPERM);
    let brought = node.bring(&ordered(&[]));
    drop(plan);
    assert!(
        matches!(&brought.dropped[..], [Dropped { account, why: Why::File(_) }] if account == "alice"),
        "{brought:?}"
    );
    assert_eq!(node.texts(), texts(&[("alice", &[1])]));
    assert_eq!(node.bring(&ordered(&[])).dropped, []);
}

// spec: KF-8
#[test]
fn a_crash_at_any_step_is_made_good_by_the_next_turn() {
    let before: [(&str, &[u8]); 3] = [("alice", &[1, 2]), ("bob", &[3]), ("carol", &[4])];
    let after: [(&str, &[u8]); 3] = [("alice", &[2]), ("carol", &[4]), ("dave", &[5])];
    for nth in 0.. {
        let node = Node::with(&before);
        let plan = crash_at(&node.path(""), nth);
        let ended = node.try_bring(&ordered(&after));
        let crashed = plan.crashed();
        drop(plan);
        let whole = [texts(&before), texts(&after)];
        for (name, text) in node.texts() {
            assert!(name.starts_with('.') || whole.iter().any(|texts| texts.get(&name) == Some(&text)), "{crashed:?}");
        }
        node.bring(&ordered(&after));
        assert_eq!(node.texts(), texts(&after), "{crashed:?}");
        if crashed.is_none() {
            assert!(ended.is_ok() && nth > 15, "only {nth} steps");
            break;
        }
    }
}

/// threats.md F-22, D-7: the directory is swapped for a link while files are written; nothing is written elsewhere.
// spec: KF-7
#[test]
fn a_directory_that_is_swapped_meanwhile_leads_nowhere_else() {
    let node = Node::new();
    let (dir, aside, outside) = (node.path(""), node.0.root().join("aside"), node.0.root().join("outside"));
    let dir = PathBuf::from(dir.to_str().unwrap().trim_end_matches('/'));
    fs::create_dir(&outside).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                fs::rename(&dir, &aside).unwrap();
                symlink(&outside, &dir).unwrap();
                fs::remove_file(&dir).unwrap();
                fs::rename(&aside, &dir).unwrap();
            }
        });
        let mut refused = 0;
        for round in 0..10_000_u32 {
            let byte = u8::try_from(round % 200).unwrap();
            if node.try_bring(&ordered(&[("alice", &[byte]), ("bob", &[byte, 201])])).is_err() {
                refused += 1;
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(refused > 0, "the swap was never met");
    });
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "something was written outside");
}

// spec: AO-13
// spec: AO-401
#[test]
fn an_account_that_no_order_names_has_no_file() {
    let node = Node::with(&[("alice", &[1]), ("bob", &[2]), ("carol", &[3])]);
    let brought = node.bring(&ordered(&[("alice", &[4, 5]), ("bob", &[]), ("dora", &[6])]));
    assert_eq!((brought.changed, brought.others), (4, 0));
    assert_eq!(brought.unordered, ["carol"], "bob's were withdrawn by an order");
    assert_eq!(node.texts(), texts(&[("alice", &[4, 5]), ("dora", &[6])]));
    assert_eq!(node.bring(&OrderedKeys::none()).unordered, ["alice", "dora"]);
    assert!(node.names().is_empty());
    // What stands there under a name of no account is told of as far as it may be shown.
    fs::write(node.path(&"m".repeat(40)), line(9)).unwrap();
    assert_eq!(node.bring(&OrderedKeys::none()).unordered, ["m".repeat(32)]);
}

// spec: AO-402
#[test]
fn where_orders_were_lost_only_accounts_that_are_named_change() {
    let node = Node::with(&[("alice", &[1]), ("bob", &[2]), ("carol", &[3])]);
    let partial = |accounts: &[(&str, &[u8])]| OrderedKeys { is_partial: true, ..ordered(accounts) };
    let brought = node.bring(&partial(&[("alice", &[4, 5]), ("bob", &[]), ("dora", &[6])]));
    assert_eq!((brought.changed, brought.others, brought.unordered.len()), (3, 1, 0));
    assert_eq!(node.texts(), texts(&[("alice", &[4, 5]), ("carol", &[3]), ("dora", &[6])]));
    let brought = node.bring(&OrderedKeys::unknown());
    assert_eq!((brought.changed, brought.others), (0, 3), "nothing is known, and nothing goes");
    // Neither the machine's own accounts nor a fleet without a directory get any by a signature.
    let brought = node.bring(&partial(&[("admin", &[7])]));
    assert_eq!((node.names().len(), brought.dropped.len()), (3, 1));
    let files = Files::open(&node.0.root()).unwrap();
    let brought = files.bring(&partial(&[("erin", &[8]), ("alice", &[])]), Some(&local()), false).unwrap();
    assert_eq!((brought.dropped.len(), brought.others, node.names().len()), (1, 2, 2));
}
