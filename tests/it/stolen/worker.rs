//! The built worker before a queue that a thief writes.

use std::os::unix::fs::PermissionsExt as _;

use lucia_durable::{DirRules, PrivateDir};
use lucia_proto::files::owner_queue::OwnerFile;
use lucia_proto::node::enrollment::EnrollmentRequest;
use lucia_proto::orders::freshness::FreshnessRequest;
use lucia_proto::orders::{Actor, Draft, OrderCode, OrderKind, SignedOrder};
use lucia_proto::test_support::{TestCa, TestNode};
use lucia_tests::hostile_controller::until;
use lucia_worker::ledger::{Ledger, NodeRecord};

use super::acts::{Aim, Deceit, SSH_KEY, Seen, Want, body, control, intent, is_barred, kinds, signed};
use super::{COPIED, LAPSED, LEAVING, STRANGER, Story, WITHOUT_CAROL, alice, is_unchanged, mallory};

/// Orders a worker looks at in one turn: as many are put before it at once.
const A_TURN: usize = 16;

/// Whom orders of this kind are about.
fn target(kind: OrderKind) -> TestNode {
    TestNode::new(control(kind).0)
}

impl Story {
    /// alice's own, as she means it.
    fn order(&self, node: &TestNode, kind: OrderKind, number: u8) -> SignedOrder {
        let head = intent(self.fleet, &alice(), &node.node_id, kind, self.now, number);
        signed(&Draft::new(head, &body(kind, node, self.now, SSH_KEY)).unwrap(), &alice())
    }

    /// One more turn, in which the worker ends what it had begun.
    fn settles(&self, number: u8) {
        let node = TestNode::new(STRANGER);
        let head = intent(self.fleet, &mallory(), &node.node_id, OrderKind::Admit, self.now, number);
        let forged = Draft::new(head, &body(OrderKind::Admit, &node, self.now, SSH_KEY)).unwrap();
        let forged = signed(&forged, &mallory());
        self.refuses(&[(Deceit::Stranger, Want::Refused(OrderCode::OwnerUnknown), forged)], OrderKind::Admit);
    }

    fn takes_away(&self, order: &SignedOrder) {
        let name = OwnerFile::OrderHead(order.id()).name();
        std::fs::remove_file(self.disk.path("nodes/owner-requests").join(name)).unwrap();
    }

    /// Puts these before the worker, a turn's worth at a time; each must come to what is wanted.
    fn refuses(&self, rows: &[(Deceit, Want, SignedOrder)], kind: OrderKind) {
        for batch in rows.chunks(A_TURN) {
            for (_, _, order) in batch {
                let _ = self.disk.queue().order(order);
            }
            for (act, want, order) in batch {
                let said = self.disk.outcome(order.id());
                let said = said.unwrap_or_else(|| panic!("{} {act:?}: no word: {}", kind.as_str(), self.worker.said()));
                let code = match want {
                    Want::Refused(code) => Some(*code),
                    Want::Nothing => None,
                };
                assert_eq!(said.outcome.refused, code, "{} {act:?}", kind.as_str());
                assert_eq!(said.message.as_str().is_empty(), code.is_none(), "{} {act:?}: why", kind.as_str());
            }
            batch.iter().for_each(|(_, _, order)| self.takes_away(order));
        }
    }

    /// Whether the ledger has the node so.
    fn has(&self, node: &TestNode, so: fn(&NodeRecord) -> bool) -> bool {
        let dir = PrivateDir::open(&self.at("worker"), DirRules::private()).unwrap();
        let ledger = Ledger::load(&dir).unwrap();
        ledger.records().node(&node.node_id).is_some_and(so)
    }

    fn has_certificate(&self, node: &TestNode) -> bool {
        self.disk.queue().answer(&node.node_id).is_some_and(|answer| answer.success)
    }

    /// What an order of this kind does, once alice herself gives it.
    fn acts(&self, node: &TestNode, kind: OrderKind) -> bool {
        match control(kind).1 {
            Seen::Certificate => until(|| self.has_certificate(node).then_some(())).is_some(),
            Seen::Ledger(so) => self.has(node, so),
            Seen::Elsewhere => false,
        }
    }
}

// spec: OS-11, OS-12
#[test]
fn the_built_worker_carries_out_what_an_owner_signed_and_nothing_else() {
    let Some(story) = Story::begin("stolen-worker") else { return };
    story.remove_carol();
    story.disk.roster(WITHOUT_CAROL).unwrap();
    for number in [STRANGER, LAPSED, COPIED, LEAVING] {
        story.approved(&TestNode::new(number));
    }
    for number in [STRANGER, LAPSED] {
        let queue = story.disk.queue();
        queue.ask(&queue.request(&TestNode::new(number)));
    }
    // Another machine is let in: an order that was carried out, for whoever wants to use it again.
    let done = story.order(&TestNode::new(41), OrderKind::Admit, 1);
    assert_eq!(story.disk.ordered(&done).unwrap().outcome.refused, None);
    let lapsed = TestNode::new(LAPSED).node_id;
    until(|| story.disk.queue().answer(&lapsed)).unwrap();
    story.takes_away(&done);
    story.settles(2);
    let before = story.worker_files();
    let mut refused = 0;
    for (serial, kind) in (50..).zip(kinds(Actor::Worker)) {
        let (node, fleet, now) = (target(kind), story.fleet, story.now);
        let aim = Aim { fleet, node, kind, now, done: done.clone(), serial };
        let wanted = |act: &Deceit| act.want(Actor::Worker, kind).map(|want| (*act, want, aim.order(*act)));
        let mut rows: Vec<_> = Deceit::ALL.iter().filter_map(wanted).collect();
        // By then what was said of it the first time is gone with its request.
        rows.sort_by_key(|(act, _, _)| *act == Deceit::Again);
        story.refuses(&rows, kind);
        is_unchanged(&before, &story.worker_files(), kind.as_str());
        assert!(!story.has_certificate(&aim.node) && !story.has(&aim.node, is_barred));
        refused += rows.iter().filter(|(_, want, _)| *want != Want::Nothing).count();
        if kind == OrderKind::Admit {
            // Later ones are too many for the log's minute; what is answered says it of each.
            let log = story.worker.said();
            for (act, _, order) in rows.iter().filter(|(_, want, _)| *want != Want::Nothing) {
                let id = order.id().to_string();
                assert!(log.lines().any(|line| line.contains(&id) && line.contains("code")), "{act:?}: {log}");
            }
        }
    }
    assert!(refused >= 4 * 17, "{refused} orders refused");

    // And each does what it says once alice gives it herself, once.
    for (number, kind) in (60..).zip(kinds(Actor::Worker)) {
        let node = target(kind);
        let order = story.order(&node, kind, number);
        assert_eq!(story.disk.ordered(&order).unwrap().outcome.refused, None, "{}", kind.as_str());
        assert!(story.acts(&node, kind), "{}: {}", kind.as_str(), story.worker.said());
        story.takes_away(&order);
    }
    // The same orders again change nothing.
    story.settles(3);
    let before = story.worker_files();
    let again: Vec<_> = (60..)
        .zip(kinds(Actor::Worker))
        .map(|(number, kind)| (Deceit::Again, Want::Nothing, story.order(&target(kind), kind, number)))
        .collect();
    story.refuses(&again, OrderKind::Admit);
    is_unchanged(&before, &story.worker_files(), "again");
}

// spec: OS-13
#[test]
fn what_a_thief_writes_into_journal_and_queue_makes_no_owner_and_lets_nobody_in() {
    let Some(story) = Story::begin("stolen-queue") else { return };
    let (stranger, copied) = (TestNode::new(STRANGER), TestNode::new(COPIED));
    story.approved(&stranger);
    story.approved(&copied);
    let before = story.worker_files();
    let put = |dir: &str, name: &str, bytes: &[u8]| {
        let path = story.disk.path(dir).join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        path
    };

    // A machine that stands in the place of another, by the journal's word.
    {
        let mut queue = story.disk.queue();
        queue.change(|journal| {
            for task in journal.tasks.iter_mut().filter(|task| task.device_id == stranger.node_id) {
                task.replaces = Some(copied.node_id.clone());
            }
        });
        queue.ask(&queue.request(&stranger));
        // A certificate of the other's name and id for the attacker's key.
        let theirs = EnrollmentRequest { csr_pem: stranger.csr().try_into().unwrap(), ..queue.request(&copied) };
        queue.ask(&theirs);
        // Somebody who asks to be an owner is one no sooner than somebody approves him.
        queue.apply(&mallory());
        // And a question by which a machine that nobody let in would learn how late it is.
        let nonce = lucia_proto::node::challenge::Nonce::from_bytes(&[8; 32]);
        let asked = FreshnessRequest {
            schema_version: lucia_proto::base::bounded::Version,
            node_id: stranger.node_id.clone(),
            nonce,
        };
        queue.put_owner(&OwnerFile::Freshness(stranger.node_id.clone()), &asked.to_bytes().unwrap());
    }
    // Answers of his own, where the worker's lie: a roster, a bundle, and what became of an order.
    let own = TestCa::with_keys(story.now, 221);
    let roster = put(
        "nodes/owner-responses",
        "roster.json",
        &serde_json::to_vec(&story.roster_of(9, &[&mallory()], Some(&mallory()))).unwrap(),
    );
    let bundle =
        put("nodes/owner-responses", "bundle.json", &serde_json::to_vec(&own.signed_bundle(9, story.now)).unwrap());
    let forged = {
        let head = intent(story.fleet, &mallory(), &stranger.node_id, OrderKind::Admit, story.now, 70);
        signed(&Draft::new(head, &body(OrderKind::Admit, &stranger, story.now, SSH_KEY)).unwrap(), &mallory())
    };
    let outcome = format!(
        r#"{{"schemaVersion":1,"intent":"{}","outcome":{{"nodeId":"{}","at":"{}"}},"message":""}}"#,
        forged.id(),
        stranger.node_id,
        story.now,
    );
    put("nodes/owner-responses", &OwnerFile::OrderHead(forged.id()).name(), outcome.as_bytes());
    let _ = story.disk.queue().order(&forged);

    // The worker says what it thinks of each, and its own files are what they were.
    let refused = until(|| story.disk.queue().outcome(forged.id())?.outcome.refused);
    assert_eq!(refused, Some(OrderCode::OwnerUnknown));
    let own_again = |path: &std::path::PathBuf| until(|| (std::fs::read(path).ok()? == before[path]).then_some(()));
    assert!(own_again(&roster).is_some() && own_again(&bundle).is_some(), "{}", story.worker.said());
    let denied = until(|| story.disk.queue().answer(&copied.node_id)).unwrap();
    assert!(!denied.success && denied.message.to_string().contains("csr"), "{}", denied.message);
    assert!(story.disk.queue().answer(&stranger.node_id).is_none_or(|answer| !answer.success));
    assert!(story.disk.queue().freshness(&stranger.node_id).is_none());
    let log = story.worker.said();
    assert!(log.contains(&format!("freshness-{}.json", stranger.node_id)), "{log}");
    assert!(log.lines().any(|line| line.contains(stranger.node_id.as_str()) && line.contains("n40")), "{log}");
    let mut after = story.worker_files();
    // What the two were answered is all that is new.
    for node in [&stranger, &copied] {
        after.remove(&story.at(&format!("controller/nodes/enrollment-responses/{}.json", node.node_id)));
    }
    is_unchanged(&before, &after, "the thief's own");
    let config = story.site.file("worker.toml");
    let listed = story.site.run("lucia-enrollment-worker", &["owner", "list", "--config", &config]).unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("alice") && !listed.contains("mallory"), "{listed}");
}
