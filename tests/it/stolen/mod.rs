//! The controller is gone, and somebody else has its disk, its TLS key and its address (threats.md actor C): against the
//! built worker and the built agent, over TLS, in real time.
//!
//! [`acts`] is all that is done with orders, each kind by each act, with the code that refuses it. What stands in the
//! roster is two people by then: alice, who orders, and victor, who looks. carol was an owner and was removed.

mod acts;
mod node;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lucia_durable::{DirRules, PrivateDir};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::roster::{SignedRoster, VerifiedRoster};
use lucia_proto::pki::chain::Root;
use lucia_proto::test_support::{TestNode, TestOwner};
use lucia_tests::hostile_controller::{Stolen, now};
use lucia_tests::programs::{Running, Site};
use lucia_worker::config::Config;
use lucia_worker::home::{Home, Identity};
use lucia_worker::ledger::{AdmittedBy, Entry, Ledger, NodeNames};
use lucia_worker::{owners, roster};

use crate::second::{programs, skip};

/// Orders.
fn alice() -> TestOwner {
    TestOwner::new("alice", 41)
}

/// Looks.
fn victor() -> TestOwner {
    TestOwner::new("victor", 45)
}

/// Stands in no roster.
fn mallory() -> TestOwner {
    TestOwner::new("mallory", 47)
}

/// Was an owner.
fn carol() -> TestOwner {
    TestOwner::new("carol", 51)
}

/// The roster that carol stands in, and the one that she does not.
const WITH_CAROL: u64 = 3;
const WITHOUT_CAROL: u64 = 4;

/// A machine of the attacker's own, which asks for a certificate.
const STRANGER: u8 = 40;
/// A node that lapsed, and whose machine asks again.
const LAPSED: u8 = 30;
/// Nodes in the fleet.
const COPIED: u8 = 31;
const LEAVING: u8 = 32;

fn lapsed_at(now: UnixTime) -> UnixTime {
    now.minus(Duration::from_secs(41 * 24 * 3600))
}

/// What is left of a fleet whose controller was taken.
struct Story {
    bin: PathBuf,
    site: Site,
    worker: Running,
    disk: Stolen,
    /// The fleet.
    fleet: Digest,
    now: UnixTime,
}

impl Story {
    /// Nothing where the programs are not built; the skip is counted then.
    fn begin(name: &str) -> Option<Self> {
        let Some(bin) = programs() else {
            skip(name, "no built programs beside this test; `make test` builds them first");
            return None;
        };
        let site = Site::lay(&bin, name, 64, "owner").unwrap();
        let now = now();
        known(&site, now);
        for (who, role) in [(alice(), Role::Owner), (victor(), Role::Viewer), (carol(), Role::Owner)] {
            at_worker(&site, |home, identity, transaction, former| {
                let comes = (who.entry(role), who.key.public().fingerprint());
                owners::enter(home, identity, transaction, former, comes, now).unwrap();
            });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (worker, mut controller) = runtime.block_on(site.up()).unwrap();
        // Its process ends here, and what it had is somebody else's.
        controller.end();
        let disk = Stolen::take(&site.dir.path().join("controller")).unwrap();
        let fleet = Root::from_pem(&site.root_pem().unwrap()).unwrap().sha256();
        Some(Self { bin, site, worker, disk, fleet, now })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.site.dir.path().join(name)
    }

    /// carol leaves, as somebody on the worker's host has it.
    fn remove_carol(&self) {
        let config = self.site.file("worker.toml");
        self.site.run("lucia-enrollment-worker", &["owner", "remove", "carol", "--yes", "--config", &config]).unwrap();
    }

    /// The journal is the attacker's: it says that this machine was approved and installed, and may ask.
    fn approved(&self, node: &TestNode) {
        let mut queue = self.disk.queue();
        queue.approve(node);
        queue.happen();
    }

    /// A roster that the worker's own key signed, and the worker never made.
    fn roster_of(&self, version: u64, who: &[&TestOwner], by: Option<&TestOwner>) -> SignedRoster {
        let mut made = SignedRoster::sign(&self.roster_with(version, who), &mallory().key).unwrap();
        if by.is_none() {
            let pem = std::fs::read_to_string(self.at("worker/worker.key")).unwrap();
            let key = lucia_proto::pki::key::NodeKey::from_pem(&pem).unwrap();
            made = SignedRoster::sign(&self.roster_with(version, who), &key).unwrap();
        }
        made
    }

    fn roster_with(&self, version: u64, who: &[&TestOwner]) -> lucia_proto::orders::roster::Roster {
        lucia_proto::orders::roster::Roster {
            version,
            fleet: self.fleet,
            issued_at: self.now,
            owners: who.iter().map(|who| who.entry(Role::Owner)).collect(),
            page_kinds: Vec::new().into(),
            page_origin: None,
            policy: lucia_proto::orders::OrderPolicy::allow_all(),
        }
    }

    /// What the worker has: ledger, roster, memory of orders, keys, receipts; and the certificates it handed out.
    fn worker_files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        crate::stack::walk(&self.at("worker"), &mut files);
        crate::stack::walk(&self.at("controller/nodes/enrollment-responses"), &mut files);
        for name in ["roster.json", "bundle.json"] {
            let path = self.at("controller/nodes/owner-responses").join(name);
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
        files
    }
}

/// Panics with what is not what it was.
#[track_caller]
fn is_unchanged(before: &BTreeMap<PathBuf, Vec<u8>>, after: &BTreeMap<PathBuf, Vec<u8>>, what: &str) {
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let names = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let text = |files: &BTreeMap<PathBuf, Vec<u8>>, name| {
        files.get(name).map(|text| String::from_utf8_lossy(text).into_owned())
    };
    let changed: Vec<_> = names.map(|name| (name, text(before, name), text(after, name))).collect();
    assert!(changed.is_empty(), "{what}: {changed:#?}");
}

/// Three nodes that are in the fleet by the worker's own ledger.
fn known(site: &Site, now: UnixTime) {
    let dir = PrivateDir::open(&site.dir.path().join("worker"), DirRules::private()).unwrap();
    let mut ledger = Ledger::load(&dir).unwrap();
    let mut transaction = ledger.begin(&dir, Ledger::hold(&dir).unwrap()).unwrap();
    for (number, end) in [(LAPSED, lapsed_at(now)), (COPIED, now.plus(HOUR)), (LEAVING, now.plus(HOUR))] {
        let node = names(&TestNode::new(number));
        let serial = format!("7f{number}");
        transaction.add(end.min(now), Entry::Admitted { node: node.clone(), by: AdmittedBy::Operator }).unwrap();
        transaction.add(end.min(now), Entry::Issued { node, serial, not_after: end, address: None }).unwrap();
    }
    transaction.commit().unwrap();
}

const HOUR: Duration = Duration::from_secs(3600);

fn names(node: &TestNode) -> NodeNames {
    NodeNames { node_id: node.node_id.clone(), fingerprint: node.fingerprint, hostname: node.hostname.clone() }
}

/// What somebody with a shell on the worker's host does.
fn at_worker(
    site: &Site,
    act: impl FnOnce(&Home, &Identity, lucia_worker::ledger::Transaction<'_>, Option<&VerifiedRoster>),
) {
    let config = Config::load(Path::new(&site.file("worker.toml"))).unwrap();
    let home = Home::open(&config).unwrap();
    let identity = home.identity(&config).unwrap();
    let mut ledger = Ledger::load(&home.dir).unwrap();
    let transaction = ledger.begin(&home.dir, Ledger::hold(&home.dir).unwrap()).unwrap();
    let former = roster::current(&home.dir, &identity, &transaction).unwrap();
    act(&home, &identity, transaction, former.as_ref());
}
