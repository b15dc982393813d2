//! A shared directory that its controller has given up to an enemy: what may lie in the worker's queue (threats.md group
//! Q), and what its journal may say (design.md W1).
//!
//! [`FILES`] lie under a node's name in `enrollment-requests`, [`REQUESTS`] are well-formed and lie, [`ROWS`] are a journal
//! that says something else than the request, [`JOURNALS`] are what
//! somebody makes of the journal who can write it.

#[path = "../../worker/src/fixture.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "shared with the worker's own tests, which use all of it")]
mod fixture;

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lucia_proto::base::acts::Act;
use lucia_proto::base::ids::{NodeId, TaskId};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{Event, Journal};
use lucia_proto::files::owner_queue::{FreshnessFile, OrderAnswerFile, OwnerFile};
use lucia_proto::node::enrollment::{EnrollmentAnswerFile, EnrollmentRequest};
use lucia_proto::node::phase::{DevicePhase, TaskPhase};
use lucia_proto::orders::{OrderId, SignedOrder};
use lucia_proto::test_support::{TestNode, TestOwner};
use nix::sys::stat::Mode;

/// The directory, and the journal that lies in it.
pub struct Queue(fixture::Controller);

impl Queue {
    /// Makes the directory with a journal in which nothing happened.
    #[must_use]
    pub fn new(dir: &Path, now: UnixTime) -> Self {
        Self(fixture::Controller::new(dir, now))
    }

    /// The directory of a controller that was one, with its journal.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn stolen(dir: &Path, now: UnixTime) -> Result<Self, crate::sim::Failure> {
        let journal = Journal::from_bytes(&fs::read(dir.join("onboarding/state.json"))?)?;
        Ok(Self(fixture::Controller { dir: dir.to_owned(), journal, now: now.into() }))
    }

    /// Puts a file into the owners' requests, as a controller does.
    pub fn put_owner(&self, of: &OwnerFile, bytes: &[u8]) {
        self.0.put_owner(of, bytes);
    }

    /// Somebody asks to become an owner.
    pub fn apply(&self, who: &TestOwner) {
        self.0.apply(who);
    }

    /// Puts an order there; gives its id.
    #[must_use]
    pub fn order(&self, signed: &SignedOrder) -> OrderId {
        self.0.order(signed)
    }

    /// What the worker said about an order, if it did.
    #[must_use]
    pub fn outcome(&self, id: OrderId) -> Option<OrderAnswerFile> {
        self.0.outcome(id)
    }

    /// What the worker last answered a node that asked how late it is.
    #[must_use]
    pub fn freshness(&self, id: &NodeId) -> Option<FreshnessFile> {
        self.0.freshness(id)
    }

    /// The worker's settings for it.
    #[must_use]
    pub fn settings(&self, state_dir: &Path, more: &str) -> String {
        self.0.settings(state_dir, more)
    }

    /// A node that awaits enrolment, in the journal.
    pub fn approve(&mut self, node: &TestNode) {
        self.0.approve(node);
    }

    /// What the node's request says, if nobody lies.
    #[must_use]
    pub fn request(&self, node: &TestNode) -> EnrollmentRequest {
        fixture::request(node, self.0.now.get().plus(Duration::from_secs(600)))
    }

    /// Writes a node's request beside and renames it, as a controller does.
    pub fn ask(&self, request: &EnrollmentRequest) {
        self.0.put_request(request);
    }

    /// Something happens in the journal.
    pub fn happen(&mut self) {
        self.0.happen();
    }

    /// Changes the journal, tells of it in one more event, and writes it.
    pub fn change(&mut self, change: impl FnOnce(&mut Journal)) {
        change(&mut self.0.journal);
        self.0.happen();
    }

    /// The journal that it goes on from.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.0.journal
    }

    /// Writes the true journal again.
    pub fn write_journal(&self) {
        // A link or a directory in its place is in the way of a rename no more than a file, but a directory is.
        let _ = fs::remove_dir(self.journal_path());
        self.0.write_journal();
    }

    /// Where the journal lies.
    #[must_use]
    pub fn journal_path(&self) -> PathBuf {
        self.0.dir.join("onboarding/state.json")
    }

    /// Where the request of a node lies.
    #[must_use]
    pub fn request_path(&self, id: &NodeId) -> PathBuf {
        self.0.dir.join(format!("nodes/enrollment-requests/{id}.json"))
    }

    /// What a node was answered, if it was.
    #[must_use]
    pub fn answer(&self, id: &NodeId) -> Option<EnrollmentAnswerFile> {
        self.0.answer(id)
    }

    /// Takes away what lies under a node's name, and its answer.
    pub fn clear(&self, id: &NodeId) {
        for path in [self.request_path(id), self.0.answer_path(id)] {
            // One of these does it, or there was nothing.
            let _ = fs::remove_file(&path);
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Something put at a path, with the worker's own directory to steal from.
type Put = fn(&Path, &Path, &[u8]) -> io::Result<()>;

/// What may lie under a node's name instead of a request; none is read, none is answered, and none holds the worker up.
/// Each takes the path, the worker's directory, and the bytes of a good request.
pub const FILES: &[(&str, Put)] = &[
    ("Q-1 FIFO", |at, _, _| Ok(nix::unistd::mkfifo(at, Mode::from_bits_truncate(0o640))?)),
    ("Q-1 socket", |at, _, _| std::os::unix::net::UnixListener::bind(at).map(drop)),
    ("Q-1 directory", |at, _, _| fs::create_dir(at)),
    ("Q-1 link to a device", |at, _, _| symlink("/dev/zero", at)),
    ("Q-1 link to the CA's key", |at, worker, _| symlink(worker.join("ca/issuing.key"), at)),
    ("Q-1 link to the ledger", |at, worker, _| symlink(worker.join("ledger.jsonl"), at)),
    ("Q-1 hard link to the CA's key", |at, worker, _| fs::hard_link(worker.join("ca/issuing.key"), at)),
    ("Q-1 link to nowhere", |at, _, _| symlink("nowhere", at)),
    ("Q-1 link to itself", |at, _, _| symlink(at, at)),
    ("Q-1 link to a good request", |at, _, good| {
        let beside = at.with_extension("beside");
        plain(&beside, good, 0o640)?;
        symlink(&beside, at)
    }),
    ("Q-2 10 GB of nothing", |at, _, _| {
        fs::File::create(at)?.set_len(10 << 30)?;
        fs::set_permissions(at, fs::Permissions::from_mode(0o640))
    }),
    ("Q-2 a byte too many", |at, _, good| plain(at, &[good, &vec![b' '; 33 * 1024]].concat(), 0o640)),
    ("Q-5 no bytes", |at, _, _| plain(at, b"", 0o640)),
    ("Q-5 half of it", |at, _, good| plain(at, good.get(..good.len() / 2).unwrap_or_default(), 0o640)),
    ("Q-5 twice", |at, _, good| plain(at, &good.repeat(2), 0o640)),
    ("writable by others", |at, _, good| plain(at, good, 0o666)),
    ("J-1 a member twice", |at, _, good| edited(at, good, "{", r#"{"schemaVersion":1,"#)),
    ("J-2 a list", |at, _, good| plain(at, &[b"[", good, b"]"].concat(), 0o640)),
    ("J-3 a member more", |at, _, good| edited(at, good, "{", r#"{"sign":"anything","#)),
    ("J-4 version 1.0", |at, _, good| edited(at, good, r#""schemaVersion":1"#, r#""schemaVersion":1.0"#)),
    ("J-4 version 2", |at, _, good| edited(at, good, r#""schemaVersion":1"#, r#""schemaVersion":2"#)),
    ("J-5 deep", |at, _, _| plain(at, &[b"{\"x\":".as_slice(), &[b'['; 16 * 1024]].concat(), 0o640)),
    ("J-6 BOM", |at, _, good| plain(at, &[b"\xef\xbb\xbf", good].concat(), 0o640)),
    ("J-6 not UTF-8", |at, _, good| edited_bytes(at, good, b"hostname\":\"", b"hostname\":\"\xff")),
    ("J-7 a comment", |at, _, good| edited(at, good, "{", "{/**/")),
    ("a name of two", |at, _, good| edited(at, good, r#""hostname":""#, r#""hostname":"a.b"#)),
    ("a name with a line end", |at, _, good| edited(at, good, r#""hostname":""#, r#""hostname":"\n"#)),
    ("an id of upper case", |at, _, good| edited(at, good, r#""nodeId":""#, r#""nodeId":"A"#)),
    ("an id with a path", |at, _, good| edited(at, good, r#""nodeId":""#, r#""nodeId":"../"#)),
    ("no CSR", |at, _, good| edited(at, good, "BEGIN CERTIFICATE REQUEST", "BEGIN CERTIFICATE")),
];

fn plain(at: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    fs::write(at, bytes)?;
    fs::set_permissions(at, fs::Permissions::from_mode(mode))
}

fn edited(at: &Path, good: &[u8], from: &str, to: &str) -> io::Result<()> {
    edited_bytes(at, good, from.as_bytes(), to.as_bytes())
}

fn edited_bytes(at: &Path, good: &[u8], from: &[u8], to: &[u8]) -> io::Result<()> {
    let start = good.windows(from.len()).position(|window| window == from).ok_or(io::ErrorKind::NotFound)?;
    let (head, rest) = good.split_at(start);
    plain(at, &[head, to, rest.get(from.len()..).unwrap_or_default()].concat(), 0o640)
}

/// A lie in a well-formed request, of a node and with another one to borrow from.
type Lie = fn(&mut EnrollmentRequest, &TestNode);

/// What a request may say that the journal does not, with the fields of which the answer must name one (Q-6).
pub const REQUESTS: &[(&str, &str, Lie)] = &[
    ("expired", "expiresAt", |request, _| request.expires_at = request.expires_at.minus(Duration::from_secs(601))),
    ("good for a day", "expiresAt", |request, _| {
        request.expires_at = request.expires_at.plus(Duration::from_secs(24 * 3600));
    }),
    ("another task", "taskId", |request, _| request.task_id = TaskId::from_random([0x5a; 16])),
    ("another node's task", "taskId", |request, other| request.task_id = other.task_id.clone()),
    ("another node's name", "subjectAltName", |request, other| request.hostname = other.hostname.clone()),
    ("another key", "nodeId|publicKeyFingerprint", |request, other| request.public_key_fingerprint = other.fingerprint),
    ("another node's CSR", "csr", |request, other| {
        if let Ok(csr) = other.csr().try_into() {
            request.csr_pem = csr;
        }
    }),
];

/// A change of the journal's rows of a node: everything is well-formed, and a request does not agree with it.
type Change = fn(&mut Journal, &NodeId);

/// What a journal may say of a node that asks, with the field that the answer must name.
pub const ROWS: &[(&str, &str, Change)] = &[
    ("only approved", "phase", |journal, id| {
        devices(journal, id, |device| device.phase = DevicePhase::Approved);
        tasks(journal, id, |task| (task.phase, task.grant) = (TaskPhase::Approved, None));
    }),
    ("still installing", "phase", |journal, id| {
        devices(journal, id, |device| device.phase = DevicePhase::Installing);
        tasks(journal, id, |task| task.phase = TaskPhase::Installing);
    }),
    ("failed", "phase", |journal, id| {
        devices(journal, id, |device| device.phase = DevicePhase::Failed);
        tasks(journal, id, |task| task.phase = TaskPhase::Failed);
    }),
    ("other hardware", "inventoryRevision", |journal, id| {
        devices(journal, id, |device| device.inventory_revision += 1);
    }),
    ("nobody", "nodeId", |journal, id| {
        journal.devices.retain(|device| device.device_id != *id);
        journal.tasks.retain(|task| task.device_id != *id);
    }),
];

fn devices(journal: &mut Journal, id: &NodeId, change: impl Fn(&mut lucia_proto::files::journal::DeviceRow)) {
    journal.devices.iter_mut().filter(|device| device.device_id == *id).for_each(change);
}

fn tasks(journal: &mut Journal, id: &NodeId, change: impl Fn(&mut lucia_proto::files::journal::TaskRow)) {
    journal.tasks.iter_mut().filter(|task| task.device_id == *id).for_each(change);
}

/// Replaces the journal at a path: its true bytes, and those of an earlier one.
type Forge = fn(&Path, &Journal, &[u8]) -> io::Result<()>;

/// Journals that nobody signs anything on, with what the worker says of them.
pub const JOURNALS: &[(&str, &str, Forge)] = &[
    ("rolled back", "generation", |at, _, earlier| renamed(at, earlier)),
    ("rolled back by one", "generation", |at, now, _| {
        let mut journal = now.clone();
        journal.generation -= 1;
        renamed(at, &bytes(&journal))
    }),
    ("other events", "generation", |at, now, _| {
        let mut journal = Journal { devices: now.devices.clone(), tasks: now.tasks.clone(), ..Journal::empty() };
        for _ in 0..now.last_event_id + 3 {
            let actor = now.events.first().map(|event| event.actor.clone()).ok_or(io::ErrorKind::NotFound)?;
            let at = UnixTime::from_secs(1_700_000_000);
            let _ = journal.record(Event::new(at, Act::WindowExpired, actor));
        }
        journal.generation = now.generation + 10;
        renamed(at, &bytes(&journal))
    }),
    ("an event changed", "journal", |at, now, _| {
        renamed(at, &replaced(&bytes(now), "AdmissionExpired", "AdmissionOpened"))
    }),
    ("another chain head", "journal", |at, now, _| {
        let mut journal = now.clone();
        journal.chain_head = lucia_proto::base::digest::Digest::of(b"mine");
        renamed(at, &bytes(&journal))
    }),
    ("a device twice", "journal", |at, now, _| {
        let mut journal = now.clone();
        journal.devices.extend(now.devices.clone());
        renamed(at, &bytes(&journal))
    }),
    ("version 5", "journal", |at, now, _| renamed(at, &replaced(&bytes(now), r#""version":4"#, r#""version":5"#))),
    ("a generation beyond 2^53", "journal", |at, now, _| {
        let was = format!(r#""generation":{}"#, now.generation);
        renamed(at, &replaced(&bytes(now), &was, r#""generation":9007199254740993"#))
    }),
    ("cut", "journal", |at, now, _| renamed(at, bytes(now).get(..200).unwrap_or_default())),
    ("empty", "journal", |at, _, _| renamed(at, b"")),
    ("gone", "journal", |at, _, _| fs::remove_file(at)),
    ("a link to itself as it was", "journal", |at, now, _| {
        let beside = at.with_extension("beside");
        plain(&beside, &bytes(now), 0o640)?;
        fs::remove_file(at)?;
        symlink(&beside, at)
    }),
    ("a directory", "journal", |at, _, _| {
        fs::remove_file(at)?;
        fs::create_dir(at)
    }),
    ("a FIFO", "journal", |at, _, _| {
        fs::remove_file(at)?;
        Ok(nix::unistd::mkfifo(at, Mode::from_bits_truncate(0o640))?)
    }),
    ("writable by everybody", "journal", |at, _, _| fs::set_permissions(at, fs::Permissions::from_mode(0o666))),
];

fn bytes(journal: &Journal) -> Vec<u8> {
    journal.to_bytes().unwrap_or_default()
}

fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    String::from_utf8_lossy(bytes).replacen(from, to, 1).into_bytes()
}

fn renamed(at: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = at.with_extension("beside");
    plain(&beside, bytes, 0o640)?;
    fs::rename(beside, at)
}
