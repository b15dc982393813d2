//! Fuzz targets: one function each over any bytes, run by `tests/fuzz/bounded.rs` over every seed and a fixed number of
//! mutations of it, and for as long as one likes by `make fuzz` (tests/fuzz/README.md).
//!
//! No target is content with "it did not panic": what is accepted is read by a second reader or put together again and
//! compared. Where a signature or a hash stands between a fuzzer and the code behind it, the target repairs it, as
//! somebody would who holds the key.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a target says what it found by panicking"
)]

mod audit;
mod bundle;
mod chain;
mod csr;
mod der;
mod freshness;
mod intent;
mod json;
mod ledger;
pub mod mutate;
mod owner_queue;
mod proof;
mod queue;
mod release;
mod report;
mod roster;
mod sign_in;

use std::fmt::Debug;
use std::path::Path;
use std::sync::LazyLock;

use lucia_proto::base::json as strict;
use lucia_proto::base::limits::JSON_DEPTH_MAX;
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::chain::Root;
use lucia_proto::test_support::{TestCa, TestNode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A door through which bytes of somebody else enter.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: of `make fuzz TARGET=`, and of its directory of seeds.
    pub name: &'static str,
    /// Panics if these bytes are treated wrongly.
    pub run: fn(&[u8]),
    /// Vectors that are seeds as well, by how their names begin.
    vectors: &'static [&'static str],
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "json", run: json::run, vectors: &["heartbeat", "journal", "discover"] },
    Target {
        name: "report",
        run: report::run,
        vectors: &[
            "accepted",
            "body-proof",
            "challenge",
            "device",
            "discover",
            "enroll-",
            "error",
            "grant",
            "header",
            "heartbeat",
            "installation",
            "next",
            "node-call",
            "pending",
            "progress",
            "renew",
        ],
    },
    Target { name: "csr", run: csr::run, vectors: &[] },
    Target { name: "chain", run: chain::run, vectors: &[] },
    Target {
        name: "queue",
        run: queue::run,
        vectors: &["endpoint-", "enrollment-", "identity-", "journal", "removal", "worker-status"],
    },
    Target { name: "ledger", run: ledger::run, vectors: &[] },
    Target { name: "bundle", run: bundle::run, vectors: &["bundle", "signed-", "answer"] },
    Target { name: "release", run: release::run, vectors: &[] },
    Target {
        name: "intent",
        run: intent::run,
        vectors: &["owners-v1/admit", "owners-v1/clone", "owners-v1/release", "owners-v1/remove", "owners-v1/ssh-key"],
    },
    Target { name: "roster", run: roster::run, vectors: &["owners-v1/roster"] },
    Target { name: "freshness", run: freshness::run, vectors: &["owners-v1/freshness"] },
    Target { name: "proof", run: proof::run, vectors: &["owners-v1/owner-proof"] },
    Target { name: "sign-in", run: sign_in::run, vectors: &["owners-v1/ssh-key-two"] },
    Target { name: "owner-queue", run: owner_queue::run, vectors: &["owners-v1"] },
    Target { name: "audit", run: audit::run, vectors: &[] },
];

impl Target {
    /// The target of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Its seeds by name, from the folder `tests`.
    #[must_use]
    pub fn seeds(&self, tests: &Path) -> Vec<(String, Vec<u8>)> {
        let own = files(&tests.join("fuzz/seeds").join(self.name));
        let owners = files(&tests.join("vectors/owners-v1"));
        let owners = owners.into_iter().map(|(name, bytes)| (format!("owners-v1/{name}"), bytes));
        let vectors = files(&tests.join("vectors"))
            .into_iter()
            .chain(owners)
            .filter(|(name, _)| self.vectors.iter().any(|start| name.starts_with(start)));
        own.into_iter().chain(vectors).collect()
    }
}

/// The files of a folder, by name.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// When everything here happens.
const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);
/// The authority whose keys a target signs with.
static CA: LazyLock<TestCa> = LazyLock::new(|| TestCa::new(NOW));
/// Its root.
static ROOT: LazyLock<Root> = LazyLock::new(|| CA.root());
/// The node whose turn it is.
static NODE: LazyLock<TestNode> = LazyLock::new(|| TestNode::new(7));

/// Reads a value that, if it is accepted, must survive being written, and be what serde_json reads.
fn twice<T>(input: &[u8], max: usize) -> Option<T>
where
    T: DeserializeOwned + Serialize + PartialEq + Debug,
{
    let value: T = strict::from_slice(input, max, JSON_DEPTH_MAX).ok()?;
    let text = strict::to_string(&value).unwrap();
    let again: T =
        strict::from_str(&text, usize::MAX, JSON_DEPTH_MAX).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(again, value, "written and read again: {text}");
    let theirs: T = serde_json::from_slice(input).unwrap_or_else(|error| panic!("serde_json: {error}"));
    let (ours, theirs) = (serde_json::to_value(&value).unwrap(), serde_json::to_value(&theirs).unwrap());
    assert!(alike(&ours, &theirs), "serde_json reads {theirs}, and we read {ours}");
    Some(value)
}

/// The same value; doubles up to the last digit, in which serde_json is off where the standard library is right.
fn alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && alike(a.1, b.1))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= a.abs() * 1e-15 + f64::MIN_POSITIVE
        }
        (a, b) => a == b,
    }
}
