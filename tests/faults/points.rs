//! The registry of crash points, put together from three sources so that none is lost in silence.
//!
//! - Points between two durable steps have names of their own: each `crash_point!("program/where", ...)` in the sources.
//! - Durable steps have the names that `proto/durable` gives them; a point is such a step of one kind of file: [`FILES`].
//! - Each place in the sources that calls a durable write is counted in [`WRITES`], with the kinds of file it writes. A
//!   new call, or a new step in `proto/durable`, fails here until it is registered, and then until the walk reaches it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::world::Program;

/// What a durable call does, step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// `PrivateDir::replace`.
    Replace,
    /// `PrivateDir::replace_all`: the directory is synced and the whole done once.
    ReplaceAll,
    /// `PrivateDir::create_new`.
    Create,
    /// `PrivateDir::remove`.
    Remove,
    /// `PrivateDir::remove_leftovers`.
    Leftover,
    /// `AppendFile::open`, the file being made.
    Begin,
    /// `AppendFile::open` of a file that is there, `append`, `sync`.
    Append,
    /// `AppendFile::open` of a file to which nothing is added.
    Opened,
    /// `AppendFile::truncate_torn_tail`.
    Cut,
    /// `Lease::take`, the file being made.
    Take,
    /// `Lease::take` of a file that is confirmed.
    TakeAgain,
    /// `Lease::confirm`.
    Confirm,
    /// `PrivateDir::create`.
    MakeDir,
    /// The same, where it gets a wider mode than it is made with.
    OpenUp,
    /// The same, where it gets a group.
    Share,
}

const STAGED: [&str; 7] = [
    "replace/clear",
    "replace/create",
    "replace/write",
    "replace/half-written",
    "replace/mode",
    "replace/sync",
    "replace/rename",
];

impl Does {
    /// The steps about the file itself.
    fn steps(self) -> Vec<&'static str> {
        let staged = |but: usize, more: &[&'static str]| [&STAGED[..STAGED.len() - but], more].concat();
        match self {
            Self::Replace => staged(0, &["replace/dir-sync", "replace/done"]),
            Self::ReplaceAll => staged(0, &[]),
            Self::Create => staged(1, &["create/rename", "create/dir-sync", "create/done"]),
            Self::Remove => vec!["remove/unlink", "remove/dir-sync", "remove/done"],
            Self::Leftover => vec!["leftover/unlink"],
            Self::Begin => vec!["append/make"],
            Self::Append => {
                vec!["append/dir-sync", "append/write", "append/half-written", "append/sync", "append/done"]
            }
            Self::Opened => vec!["append/dir-sync"],
            Self::Cut => vec!["append/cut", "append/cut-sync"],
            Self::Take => vec!["lease/make", "lease/sign", "lease/sync", "lease/made-sync"],
            Self::TakeAgain => vec!["lease/sign"],
            Self::Confirm => staged(1, &["lease/lock", "lease/rename", "lease/dir-sync"]),
            Self::MakeDir => vec!["dir/make", "dir/sync", "dir/parent-sync"],
            Self::OpenUp => vec!["dir/mode"],
            Self::Share => vec!["dir/group", "dir/mode"],
        }
    }
}

/// Every kind of file that one of the three writes, and how.
pub(crate) const FILES: &[(Program, &str, &[Does])] = {
    use Does::*;
    use Program::{Agent, Controller, Worker};
    &[
        // The installer.
        (Agent, "machine/installer/var/lib/lucia/agent", &[MakeDir]),
        (Agent, "machine/installer/var/lib/lucia/agent/.lease", &[Take, TakeAgain, Confirm]),
        (Agent, "machine/installer/var/lib/lucia/agent/node.key", &[Create]),
        (Agent, "machine/installer/var/lib/lucia/agent/installation.json", &[Replace]),
        (Agent, "machine/installer/var/lib/lucia/agent/..lease.pending", &[Leftover]),
        (Agent, "machine/installer/var/lib/lucia/agent/.installation.json.pending", &[Leftover]),
        (Agent, "machine/installer/var/lib/lucia/agent/.node.key.pending", &[Leftover]),
        // What it puts onto the disk.
        (Agent, "machine/disk/etc/lucia", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/etc/systemd", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/etc/systemd/system", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/etc/systemd/system/multi-user.target.wants", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/usr", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/usr/bin", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/usr/lib", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/usr/lib/lucia", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/usr/lib/lucia/agent", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/usr/lib/systemd", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/usr/lib/systemd/system", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/usr/lib/tmpfiles.d", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/var", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/var/lib", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/var/lib/lucia", &[MakeDir, OpenUp]),
        (Agent, "machine/disk/usr/lib/lucia/agent/lucia-node-agent", &[Replace]),
        (Agent, "machine/disk/usr/lib/systemd/system/lucia-node-agent.service", &[Replace]),
        (Agent, "machine/disk/usr/lib/tmpfiles.d/lucia-agent.conf", &[Replace]),
        (Agent, "machine/disk/etc/hostname", &[Replace]),
        (Agent, "machine/disk/etc/machine-id", &[Replace]),
        (Agent, "machine/disk/etc/lucia/agent.toml", &[Replace]),
        (Agent, "machine/disk/etc/lucia/agent-policy.toml", &[Replace]),
        (Agent, "machine/disk/etc/lucia/root.pem", &[Replace]),
        // The node.
        (Agent, "machine/disk/var/lib/lucia/agent", &[MakeDir]),
        (Agent, "machine/disk/var/lib/lucia/agent/.lease", &[Take, TakeAgain, Confirm]),
        (Agent, "machine/disk/var/lib/lucia/agent/node.key", &[Create, Replace]),
        (Agent, "machine/disk/var/lib/lucia/agent/former-ID.key", &[Create]),
        (Agent, "machine/disk/var/lib/lucia/agent/node.csr", &[Replace, Remove]),
        (Agent, "machine/disk/var/lib/lucia/agent/answer.json", &[ReplaceAll, Remove]),
        (Agent, "machine/disk/var/lib/lucia/agent/certificate.pem", &[ReplaceAll, Replace, Remove]),
        (Agent, "machine/disk/var/lib/lucia/agent/bundle.json", &[ReplaceAll]),
        (Agent, "machine/disk/var/lib/lucia/agent/starts.json", &[Replace, Remove]),
        (Agent, "machine/disk/var/lib/lucia/agent/installed.json", &[Replace]),
        (Agent, "machine/disk/var/lib/lucia/agent/installation.json", &[Replace, Remove]),
        (Agent, "machine/disk/var/lib/lucia/agent/system.json", &[Replace]),
        (Agent, "machine/disk/var/lib/lucia/agent/directory.json", &[Replace]),
        (Agent, "machine/disk/var/lib/lucia/agent/orders.json", &[Remove]),
        (Agent, "machine/disk/var/lib/lucia/agent/status.json", &[Replace]),
        (Agent, "machine/disk/var/lib/lucia/agent/..lease.pending", &[Leftover]),
        (Agent, "machine/disk/var/lib/lucia/agent/.answer.json.pending", &[Leftover]),
        (Agent, "machine/disk/var/lib/lucia/agent/.bundle.json.pending", &[Leftover]),
        (Agent, "machine/disk/var/lib/lucia/agent/.certificate.pem.pending", &[Leftover]),
        (Agent, "machine/disk/var/lib/lucia/agent/.directory.json.pending", &[Leftover]),
        (Agent, "machine/disk/var/lib/lucia/agent/.former-ID.key.pending", &[Leftover]),
        (Agent, "machine/disk/var/lib/lucia/agent/.installation.json.pending", &[Leftover]),
        (Agent, "machine/disk/var/lib/lucia/agent/.installed.json.pending", &[Leftover]),
        (Agent, "machine/disk/var/lib/lucia/agent/.node.csr.pending", &[Leftover]),
        (Agent, "machine/disk/var/lib/lucia/agent/.node.key.pending", &[Leftover]),
        (Agent, "machine/disk/var/lib/lucia/agent/.starts.json.pending", &[Leftover]),
        (Agent, "machine/disk/var/lib/lucia/agent/.status.json.pending", &[Leftover]),
        (Agent, "machine/disk/var/lib/lucia/agent/.system.json.pending", &[Leftover]),
        (Agent, "machine/disk/run/lucia/agent", &[MakeDir]),
        (Agent, "machine/disk/run/lucia/agent/status.json", &[Replace]),
        (Agent, "machine/disk/etc/sssd/sssd.conf", &[Replace, Remove]),
        (Agent, "machine/disk/etc/ssh/sshd_config.d/10-lucia.conf", &[Replace, Remove]),
        (Agent, "machine/disk/etc/ssh/lucia-authorized-keys/ada", &[Replace, Remove]),
        (Agent, "machine/disk/etc/ssh/lucia-authorized-keys/.ada.pending", &[Leftover]),
        // The controller.
        (Controller, "controller", &[MakeDir]),
        (Controller, "controller/onboarding", &[MakeDir, Share]),
        (Controller, "controller/tls", &[MakeDir, OpenUp]),
        (Controller, "controller/nodes", &[MakeDir]),
        (Controller, "controller/nodes/enrollment-requests", &[MakeDir, Share]),
        (Controller, "controller/nodes/removals", &[MakeDir, Share]),
        (Controller, "controller/nodes/identities", &[MakeDir, OpenUp]),
        (Controller, "controller/onboarding/.onboarding.lease", &[Take, TakeAgain, Confirm]),
        (Controller, "controller/onboarding/state.json", &[Replace, ReplaceAll]),
        (Controller, "controller/onboarding/state.json.1", &[ReplaceAll]),
        (Controller, "controller/onboarding/state.json.2", &[ReplaceAll]),
        (Controller, "controller/onboarding/state.json.3", &[ReplaceAll]),
        (Controller, "controller/onboarding/state.json.before-restore", &[Replace]),
        (Controller, "controller/onboarding/..onboarding.lease.pending", &[Leftover]),
        (Controller, "controller/onboarding/.state.json.pending", &[Leftover]),
        (Controller, "controller/onboarding/.state.json.1.pending", &[Leftover]),
        (Controller, "controller/onboarding/.state.json.2.pending", &[Leftover]),
        (Controller, "controller/onboarding/.state.json.3.pending", &[Leftover]),
        (Controller, "controller/onboarding/.state.json.before-restore.pending", &[Leftover]),
        (Controller, "controller/tls/endpoint.key", &[Create]),
        (Controller, "controller/tls/endpoint.pem", &[Replace]),
        (Controller, "controller/nodes/enrollment-requests/ID.json", &[Replace, Remove]),
        (Controller, "controller/nodes/enrollment-requests/endpoint.json", &[Replace]),
        (Controller, "controller/nodes/removals/ID.json", &[Replace, Remove]),
        (Controller, "controller/nodes/identities/ID.json", &[Replace, ReplaceAll, Remove]),
        (Controller, "controller/nodes/enrollment-requests/.ID.json.pending", &[Leftover]),
        (Controller, "controller/nodes/enrollment-requests/.endpoint.json.pending", &[Leftover]),
        (Controller, "controller/nodes/removals/.ID.json.pending", &[Leftover]),
        (Controller, "controller/nodes/identities/.ID.json.pending", &[Leftover]),
        // Without owners; controller/src/parts walks applications, drafts, the roster's mark, passkeys, tokens and the audit's lines
        // and files.
        (Controller, "controller/audit", &[MakeDir]),
        (Controller, "controller/audit/audit.jsonl", &[Opened]),
        (Controller, "controller/orders", &[MakeDir]),
        (Controller, "controller/orders/barred.json", &[Replace]),
        (Controller, "controller/orders/.barred.json.pending", &[Leftover]),
        (Controller, "controller/passkeys", &[MakeDir]),
        (Controller, "controller/tokens", &[MakeDir]),
        (Controller, "controller/nodes/owner-requests", &[MakeDir]),
        (Controller, "controller/nodes/owner-requests/freshness-ID.json", &[Replace, Remove]),
        (Controller, "controller/nodes/owner-requests/.freshness-ID.json.pending", &[Leftover]),
        // The worker: `init`, then its turns.
        (Worker, "fleet", &[MakeDir]),
        (Worker, "fleet/ca", &[MakeDir]),
        (Worker, "fleet/receipts", &[MakeDir]),
        (Worker, "fleet/.worker.lease", &[Take, Confirm]),
        (Worker, "fleet/ca/root.key", &[Create]),
        (Worker, "fleet/ca/root.pem", &[Create]),
        (Worker, "fleet/ca/issuing.key", &[Create]),
        (Worker, "fleet/ca/issuing.pem", &[Create]),
        (Worker, "fleet/worker.key", &[Create]),
        (Worker, "fleet/bundle.json", &[Create]),
        (Worker, "fleet/ledger.jsonl", &[Begin, Append]),
        (Worker, "fleet/ledger.head", &[Replace]),
        (Worker, "worker/.worker.lease", &[Take, TakeAgain, Confirm]),
        (Worker, "worker/ledger.jsonl", &[Append, Cut]),
        (Worker, "worker/ledger.head", &[Replace]),
        (Worker, "worker/receipts/ID.json", &[ReplaceAll, Remove]),
        (Worker, "worker/receipts/endpoint.json", &[ReplaceAll]),
        (Worker, "controller/nodes/enrollment-responses/ID.json", &[ReplaceAll, Remove]),
        (Worker, "controller/nodes/enrollment-responses/endpoint.json", &[ReplaceAll]),
        (Worker, "controller/nodes/enrollment-responses/enrollment-worker.json", &[ReplaceAll]),
        // Without owners; worker/src/turn/tests/owners.rs walks roster, orders and the answers to them.
        (Worker, "controller/nodes/owner-responses/bundle.json", &[ReplaceAll]),
        (Worker, "controller/nodes/owner-responses/barred.json", &[ReplaceAll]),
        (Worker, "controller/nodes/owner-responses/names.json", &[ReplaceAll]),
        (Worker, "controller/nodes/owner-responses/freshness-ID.json", &[ReplaceAll, Remove]),
    ]
};

/// Lines of each source file that call a durable write. Who adds one counts it here, and adds to [`FILES`] what it writes.
pub(crate) const WRITES: &[(&str, usize)] = &[
    ("agent/src/directory/files.rs", 1),
    ("agent/src/host/state.rs", 12),
    ("agent/src/host/status.rs", 2),
    ("agent/src/identity/accept.rs", 1),
    ("agent/src/identity/installed.rs", 1),
    ("agent/src/identity/key.rs", 2),
    ("agent/src/identity/mod.rs", 3),
    ("agent/src/identity/rekey.rs", 2),
    ("agent/src/identity/starts.rs", 1),
    ("agent/src/install/mod.rs", 1),
    ("agent/src/install/target.rs", 2),
    ("agent/src/keys/files.rs", 1),
    // orders.json, roster.json and bundle.json of a node with owners: the agent's own tests walk them (AO-4, AO-16) until a
    // world here has owners.
    ("agent/src/orders/record.rs", 1),
    ("agent/src/orders/remove_identity.rs", 2),
    ("agent/src/owners/mod.rs", 2),
    // `policy allow|two-owners|forbid`: the agent's own tests walk it (AG-442).
    ("agent/src/owners/policy/edit.rs", 1),
    ("controller/src/bridge/owners.rs", 3),
    ("controller/src/bridge/queue.rs", 7),
    ("controller/src/parts/fleet/mod.rs", 1),
    ("controller/src/parts/fleet/records.rs", 1),
    ("controller/src/parts/orders/book.rs", 1),
    ("controller/src/parts/orders/carry.rs", 1),
    ("controller/src/parts/orders/drafts.rs", 1),
    ("controller/src/parts/orders/room.rs", 1),
    ("controller/src/parts/people/sign_in.rs", 1),
    ("controller/src/store/audit_log.rs", 3),
    ("controller/src/store/doctor.rs", 5),
    ("controller/src/store/drafts.rs", 1),
    ("controller/src/store/journal_file.rs", 5),
    ("controller/src/store/json_file.rs", 2),
    ("controller/src/store/layout.rs", 4),
    ("controller/src/store/records.rs", 4),
    ("controller/src/tls.rs", 3),
    ("worker/src/applications.rs", 1),
    ("worker/src/cli/acts.rs", 1),
    ("worker/src/cli/admit.rs", 1),
    ("worker/src/directory/prepare.rs", 1),
    ("worker/src/init.rs", 5),
    ("worker/src/ledger.rs", 2),
    ("worker/src/ledger/anchor.rs", 1),
    ("worker/src/ledger/records.rs", 2),
    ("worker/src/orders/kept.rs", 1),
    ("worker/src/queue.rs", 1),
    // The new key beside the former one, the bundle, the key again: worker/src/turn/tests/rotation.rs dies at each (OA-91).
    ("worker/src/retire.rs", 3),
    ("worker/src/roster.rs", 3),
    ("worker/src/turn.rs", 3),
    ("worker/src/turn/deliver.rs", 1),
    ("worker/src/turn/pass.rs", 1),
];

/// Sources of the three programs, without their tests, and what is in them up to the tests at their end.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut out = Vec::new();
    for program in ["agent", "controller", "worker"] {
        walk(root, &root.join(program).join("src"), &mut out);
    }
    out.sort();
    assert!(out.len() > 100, "{} sources only", out.len());
    out
}

fn walk(root: &Path, dir: &Path, out: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            if name != "tests" {
                walk(root, &path, out);
            }
        } else if path.extension().is_some_and(|end| end == "rs")
            && !matches!(name.as_str(), "tests" | "fake" | "fixture" | "scratch")
        {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
            out.push((path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), text));
        }
    }
}

/// The points between durable steps, as the sources name them. A name is of one place only.
pub(crate) fn named() -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut add = |name: &str, file: &str| {
        assert!(name.contains('/') && out.insert(name.to_owned()), "{name} in {file} is taken already");
    };
    for (file, text) in sources() {
        for (at, _) in text.match_indices("crash_point!(") {
            let rest = text[at + "crash_point!(".len()..].trim_start();
            let name = rest.strip_prefix('"').and_then(|rest| rest.split('"').next());
            add(name.unwrap_or_else(|| panic!("{file}: a crash point whose name is no literal")), &file);
        }
        if let Some((_, list)) = text.split_once("CRASH_POINTS: [&str; ") {
            let (list, _) = list.split_once("];").unwrap();
            list.split('"').skip(1).step_by(2).for_each(|name| add(name, &file));
        }
    }
    out
}

/// Every point there is.
pub(crate) fn registered() -> BTreeSet<String> {
    let mut out = named();
    for (program, file, does) in FILES {
        for step in does.iter().flat_map(|does| does.steps()) {
            out.insert(format!("{} {file} {step}", program.as_str()));
        }
    }
    // Where several files are replaced at once, the directory has the last steps.
    for (program, file, does) in FILES.iter().filter(|(_, _, does)| does.contains(&Does::ReplaceAll)) {
        let dir = file.rsplit_once('/').map_or(*file, |(dir, _)| dir);
        assert!(!does.is_empty());
        for step in ["replace/dir-sync", "replace/done"] {
            out.insert(format!("{} {dir} {step}", program.as_str()));
        }
    }
    out
}

/// A line that calls a durable write and does something about its failure.
fn is_write(line: &str, next: &str) -> bool {
    let calls = [
        ".replace(",
        ".replace_json(",
        ".replace_all(",
        ".create_new(",
        ".remove(",
        ".remove_leftovers(",
        ".put_aside(",
        ".confirm(",
    ]
    .into_iter()
    .chain([".append(", "AppendFile::open(", "Lease::take(", "PrivateDir::create(", ".create_subdir("]);
    let mut found = calls.filter_map(|call| line.split_once(call));
    let handled = |rest: &str| {
        let told = |text: &&str| text.contains("map_err(") || text.contains("or_failed(");
        // Nothing else has the name of the one for JSON files, which is often a function's last line.
        [rest, next].iter().any(told) || rest.contains(")?") || line.contains("Err(") || line.contains(".replace_json(")
    };
    !line.trim_start().starts_with("//") && found.any(|(_, rest)| !rest.starts_with(['"', '\'']) && handled(rest))
}

fn writes() -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for (file, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        let count = (0..lines.len()).filter(|at| is_write(lines[*at], lines.get(at + 1).unwrap_or(&""))).count();
        if count > 0 {
            out.insert(file, count);
        }
    }
    out
}

// spec: FT-2
#[test]
fn every_durable_write_of_the_sources_is_registered() {
    let known: BTreeMap<String, usize> = WRITES.iter().map(|(file, count)| ((*file).to_owned(), *count)).collect();
    let found = writes();
    let wrong: Vec<String> = found
        .keys()
        .chain(known.keys())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .filter(|file| found.get(*file) != known.get(*file))
        .map(|file| {
            let count = |map: &BTreeMap<String, usize>| map.get(file).copied().unwrap_or(0);
            format!("(\"{file}\", {}), // registered: {}", count(&found), count(&known))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "lines that call a durable write, other than tests/faults/points.rs has them; see which files they write, put \
         those into FILES, and the counts into WRITES:\n{}",
        wrong.join("\n")
    );
}

// spec: FT-2
#[test]
fn every_step_of_the_durable_crate_belongs_to_a_call() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/durable/src");
    let mut names = BTreeSet::new();
    for file in ["append.rs", "lease.rs", "private_dir.rs", "replace.rs"] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        for (at, _) in text.match_indices('"') {
            let word = text[at + 1..].split('"').next().unwrap();
            let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            if word.split_once('/').is_some_and(|(group, step)| !step.is_empty() && plain(group) && plain(step)) {
                names.insert(word.to_owned());
            }
        }
    }
    use Does::*;
    let files = [Replace, ReplaceAll, Create, Remove, Leftover, Begin, Append, Cut];
    let all = files.into_iter().chain([Take, TakeAgain, Confirm, MakeDir, OpenUp, Share]);
    assert_eq!(names, all.flat_map(Does::steps).map(str::to_owned).collect::<BTreeSet<_>>());
}
