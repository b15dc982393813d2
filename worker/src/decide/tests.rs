//! Every outcome, one line a case.

use std::time::Duration;

use lucia_proto::base::bounded::PemText;
use lucia_proto::base::limits::LEAF_LIFETIME;
use lucia_proto::node::phase::{DevicePhase, TaskPhase};
use lucia_proto::test_support::{TestCa, TestNode, hostile_csrs};

use super::*;
use crate::config::{Limits, NameOrId, Reserved, Settings};
use crate::fixture::{request, rows, secs};
use crate::ledger::{By, Entry};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

struct World {
    file_of: NodeId,
    request: EnrollmentRequest,
    journal: Journal,
    entries: Vec<Entry>,
    receipt: Option<Receipt>,
    issuer_ends: Option<UnixTime>,
    admission: Admission,
    reserved: Vec<String>,
    limits: Limits,
    /// When the entries were written, and the question is asked.
    times: (UnixTime, UnixTime),
}

impl World {
    /// Node 1 asks; the journal agrees; the ledger has nobody.
    fn new() -> Self {
        let node = TestNode::new(1);
        let mut journal = Journal::empty();
        let (device, task) = rows(&node, NOW);
        journal.devices.push(device);
        journal.tasks.push(task);
        Self {
            file_of: node.node_id.clone(),
            request: request(&node, NOW.plus(secs(600))),
            journal,
            entries: vec![Entry::Initialised { root: lucia_proto::base::digest::Digest::ZERO }],
            receipt: None,
            issuer_ends: None,
            admission: Admission::Operator,
            reserved: Vec::new(),
            limits: Limits { new_nodes: 30, certificates: 1000 },
            times: (NOW, NOW),
        }
    }

    /// The ledger has node 1.
    fn admitted() -> Self {
        let mut world = Self::new();
        world.entries.push(Entry::Admitted { node: names(&world.request), by: By::Operator });
        world
    }

    /// Node 1 has a leaf that was issued this long ago.
    fn with_leaf(age: Duration) -> Self {
        let mut world = Self::admitted();
        let (ca, node, issued_at) = (TestCa::new(NOW.minus(age)), TestNode::new(1), NOW.minus(age));
        let answer = ca.answer(&node, issued_at);
        world.receipt = Some(Receipt {
            node_id: node.node_id.clone(),
            csr_sha256: node.csr_sha256(),
            certificate_pem: answer.certificate_pem.clone(),
            not_after: issued_at.plus(LEAF_LIFETIME),
            answer: ca.sign_answer(&answer),
            reader: None,
        });
        world
    }

    /// The ledger has node 1 as n9, with a leaf; it is managed, and the journal gives it the name n1.
    fn renamed() -> Self {
        let mut world = Self::with_leaf(secs(3600));
        let node = NodeNames { hostname: "n9".parse().unwrap(), ..names(&world.request) };
        world.entries.truncate(1);
        world.entries.push(Entry::Admitted { node: node.clone(), by: By::Operator });
        let not_after = NOW.minus(secs(3600)).plus(LEAF_LIFETIME);
        world.entries.push(Entry::Issued { node, serial: "7f".to_owned(), not_after, address: None });
        let (mut n9, issued_at) = (TestNode::new(1), NOW.minus(secs(3600)));
        n9.hostname = "n9".parse().unwrap();
        let (ca, receipt) = (TestCa::new(issued_at), world.receipt.as_mut().unwrap());
        let answer = ca.answer(&n9, issued_at);
        (receipt.csr_sha256, receipt.certificate_pem) = (n9.csr_sha256(), answer.certificate_pem.clone());
        receipt.answer = ca.sign_answer(&answer);
        let (device, task) = (&mut world.journal.devices[0], &mut world.journal.tasks[0]);
        (device.phase, task.phase) = (DevicePhase::Managed, TaskPhase::Managed);
        device.former_hostname = Some("n9".parse().unwrap());
        world
    }

    fn decide(&self) -> Decision {
        let mut records = Records::default();
        self.entries.iter().for_each(|entry| records.apply_in_test(self.times.0, entry));
        let own = Settings { controller_user: NameOrId::Id(0), group: NameOrId::Id(0), ..Settings::default() };
        let reserved = Reserved::new(&self.reserved, None, &["db-*".to_owned()], false).unwrap();
        let (admission, limits) = (Some(self.admission), self.limits);
        let config = Config { admission, limits, reserved, ..own.resolve().unwrap() };
        let facts = Facts {
            file_of: &self.file_of,
            journal: &self.journal,
            records: &records,
            receipt: self.receipt.as_ref(),
            config: &config,
            issuer_ends: self.issuer_ends,
        };
        decide(&self.request, &facts, self.times.1)
    }

    fn outcome(&self) -> String {
        match self.decide() {
            Decision::Issue { admit, live, rename, .. } => {
                format!(
                    "issue{}{}{}",
                    rename.map(|renaming| format!(" rename from {}", renaming.node.hostname)).unwrap_or_default(),
                    if admit.is_some() { " admit" } else { "" },
                    if live.is_some() { " live" } else { "" }
                )
            }
            Decision::AwaitAdmission => "await".to_owned(),
            Decision::AwaitOwner => "await owner".to_owned(),
            Decision::AwaitReplacement { owner } => format!("await replacement of {owner}"),
            Decision::AwaitRename { from } => format!("await rename from {from}"),
            Decision::AwaitRoom(limit) => format!("await room: {}", limit.key),
            Decision::Refuse(Refusal::Journal(why)) => format!("{} Journal", why.field),
            // The field that the message begins with, and the variant.
            Decision::Refuse(refusal) => {
                let text = crate::chain(&refusal);
                format!("{} {refusal:?}", text.split(':').next().unwrap_or_default())
            }
        }
    }
}

fn other_names(number: u8) -> NodeNames {
    let node = TestNode::new(number);
    NodeNames { node_id: node.node_id, fingerprint: node.fingerprint, hostname: node.hostname }
}

type Change = fn(&mut World);

#[track_caller]
fn table(start: fn() -> World, cases: &[(&str, Change)]) {
    for (number, (want, change)) in cases.iter().enumerate() {
        let mut world = start();
        change(&mut world);
        let got = world.outcome();
        assert!(got.starts_with(want), "case {number}: wanted {want:?}, got {got:?}");
    }
}

// spec: WK-20
#[test]
fn a_new_node_needs_what_the_settings_say() {
    table(
        World::new,
        &[
            ("await", |_| {}),
            ("await owner", |w| w.admission = Admission::Owner),
            ("issue admit", |w| w.admission = Admission::Journal),
            ("issue", |w| w.entries = World::admitted().entries),
            ("issue", |w| {
                w.entries = World::admitted().entries;
                w.admission = Admission::Journal;
            }),
        ],
    );
}

// spec: QU-10
#[test]
fn q6_a_request_that_the_journal_does_not_agree_with_is_refused_by_field() {
    table(
        World::admitted,
        &[
            ("issue", |_| {}),
            ("expiresAt Expired", |w| w.request.expires_at = NOW),
            ("expiresAt Expired", |w| w.request.expires_at = NOW.minus(secs(1))),
            ("issue", |w| w.request.expires_at = NOW.plus(secs(1))),
            ("issue", |w| w.request.expires_at = NOW.plus(secs(900))),
            ("expiresAt TooFarAhead", |w| w.request.expires_at = NOW.plus(secs(901))),
            ("nodeId Ids", |w| w.file_of = TestNode::new(2).node_id),
            ("nodeId Ids", |w| w.request.node_id = TestNode::new(2).node_id),
            ("nodeId Ids", |w| w.request.public_key_fingerprint = TestNode::new(2).fingerprint),
            ("taskId Journal", |w| w.request.task_id = TestNode::new(2).task_id),
            ("nodeId Journal", |w| w.journal.devices.clear()),
            ("taskId Journal", |w| w.journal.tasks.clear()),
            ("hostname Journal", |w| w.journal.tasks[0].hostname = TestNode::new(2).hostname),
            ("hostname Journal", |w| w.journal.devices[0].hostname = None),
            ("publicKeyFingerprint Journal", |w| {
                w.journal.tasks[0].fingerprint = TestNode::new(2).fingerprint;
            }),
            ("phase Journal", |w| w.journal.devices[0].phase = DevicePhase::Installing),
            ("phase Journal", |w| w.journal.tasks[0].phase = TaskPhase::Failed),
            ("inventoryRevision Journal", |w| w.journal.devices[0].inventory_revision = 2),
            ("grant Journal", |w| w.journal.tasks[0].grant = None),
            ("progressExpiresAt Journal", |w| {
                w.journal.tasks[0].grant.as_mut().unwrap().progress_expires_at = NOW.minus(secs(1));
            }),
        ],
    );
}

// spec: WK-21
#[test]
fn the_ledger_has_the_last_word() {
    table(
        World::admitted,
        &[
            ("hostname OtherName", |w| {
                *w = World::renamed();
                // The journal is past n9 and asks under the name before its own, which the ledger never had.
                (w.journal.devices[0].former_hostname, w.journal.devices[0].hostname) =
                    (Some("n1".parse().unwrap()), Some("n5".parse().unwrap()));
                w.journal.tasks[0].hostname = "n5".parse().unwrap();
            }),
            ("hostname NameTaken", |w| {
                let node = NodeNames { hostname: w.request.hostname.clone(), ..other_names(2) };
                w.entries.truncate(1);
                w.entries.push(Entry::Admitted { node, by: By::Operator });
            }),
            ("nodeId Removed", |w| w.entries.push(Entry::Removed { node: names(&w.request) })),
            ("nodeId Removed", |w| {
                w.entries.push(Entry::Removed { node: names(&w.request) });
                w.admission = Admission::Journal;
            }),
        ],
    );
}

// spec: QU-11
#[test]
fn c7_reserved_and_taken_names_are_refused_even_when_the_journal_agrees() {
    for name in ["controller", "ca", "ldap", "step-ca", "worker", "directory", "lucia", "nas"] {
        for admission in [Admission::Operator, Admission::Journal] {
            let mut node = TestNode::new(1);
            node.hostname = name.parse().unwrap();
            let mut world = World::new();
            let (device, task) = rows(&node, NOW);
            (world.journal.devices, world.journal.tasks) = (vec![device], vec![task]);
            world.request = request(&node, NOW.plus(secs(600)));
            (world.admission, world.reserved) = (admission, vec!["NAS".to_owned()]);
            assert!(world.outcome().starts_with("hostname Reserved"), "{name}: {}", world.outcome());
        }
    }
    // `localhost` is no hostname at all; a removed node's name stays its own.
    assert!("localhost".parse::<Hostname>().is_err());
    table(
        World::new,
        &[("hostname NameTaken", |w| {
            let node = NodeNames { hostname: w.request.hostname.clone(), ..other_names(2) };
            w.entries.push(Entry::Admitted { node: node.clone(), by: By::Operator });
            w.entries.push(Entry::Removed { node });
            w.admission = Admission::Journal;
        })],
    );
}

// spec: WK-22
#[test]
fn a_leaf_is_used_again_until_under_six_days_remain() {
    for (age, want) in [
        (secs(0), "issue live"),
        (secs(24 * 3600), "issue live"),
        (secs(24 * 3600 + 1), "issue"),
        (secs(8 * 24 * 3600), "issue"),
    ] {
        assert_eq!(World::with_leaf(age).outcome(), want, "{age:?}");
    }
    // Another CSR of the same key, as a broken random source in the signature would make.
    let mut world = World::with_leaf(secs(0));
    world.receipt.as_mut().unwrap().csr_sha256 = lucia_proto::base::digest::Digest::ZERO;
    assert_eq!(world.outcome(), "csrPem OtherCsr");
    let mut world = World::with_leaf(secs(24 * 3600 + 1));
    world.receipt.as_mut().unwrap().csr_sha256 = lucia_proto::base::digest::Digest::ZERO;
    assert_eq!(world.outcome(), "issue");
    // A receipt that is not this node's leaf is never handed out.
    let mut world = World::with_leaf(secs(0));
    let other = TestCa::new(NOW).issue(&TestNode::new(2), NOW);
    world.receipt.as_mut().unwrap().certificate_pem = other;
    assert_eq!(world.outcome(), "issue");
}

// spec: CE-200
#[test]
fn the_last_leaf_of_an_issuing_ca_is_used_to_its_end() {
    let age = secs(5 * 24 * 3600);
    let ends = NOW.minus(age).plus(LEAF_LIFETIME);
    let second = secs(1);
    for (issuer_ends, want) in [
        (None, "issue"),
        (Some(ends), "issue live"),
        (Some(ends.plus(second)), "issue"),
        (Some(ends.minus(second)), "issue"),
    ] {
        assert_eq!(World { issuer_ends, ..World::with_leaf(age) }.outcome(), want, "{issuer_ends:?}");
    }
    let over = secs(7 * 24 * 3600 + 1);
    let issuer_ends = Some(NOW.minus(over).plus(LEAF_LIFETIME));
    assert_eq!(World { issuer_ends, ..World::with_leaf(over) }.outcome(), "issue", "an expired leaf is not handed out");
}

// spec: EN-40
#[test]
fn every_hostile_csr_is_refused_naming_the_field() {
    let node = TestNode::new(1);
    let hostile = hostile_csrs(&node);
    assert!(hostile.len() > 80, "{}", hostile.len());
    for case in hostile {
        // What does not even fit the request's type never gets here; the file as a whole is refused then.
        let Ok(csr_pem) = PemText::try_from(case.pem) else { continue };
        let mut world = World::admitted();
        world.request.csr_pem = csr_pem;
        match world.decide() {
            Decision::Refuse(Refusal::Csr(error)) => assert_eq!(error.field(), case.field, "{}", case.name),
            other => panic!("{}: {other:?}", case.name),
        }
    }
}

// spec: NN-4
#[test]
fn a_known_key_under_another_name_waits_for_a_person_or_the_journal_is_enough() {
    let suspended = |w: &mut World| {
        let node = NodeNames { hostname: "n9".parse().unwrap(), ..names(&w.request) };
        w.entries.push(Entry::Suspended { node, held: false });
    };
    let mut world = World::renamed();
    suspended(&mut world);
    assert!(world.outcome().starts_with("nodeId Suspended"), "{}", world.outcome());
    table(
        World::renamed,
        &[
            ("await rename from n9", |_| {}),
            ("await rename from n9", |w| w.admission = Admission::Owner),
            ("issue rename from n9", |w| w.admission = Admission::Journal),
            ("await room: new-nodes-per-hour", |w| {
                (w.admission, w.limits.new_nodes) = (Admission::Journal, 1);
                w.entries.push(Entry::Admitted { node: other_names(5), by: By::Journal });
            }),
            ("nodeId Removed", |w| {
                let node = NodeNames { hostname: "n9".parse().unwrap(), ..names(&w.request) };
                w.entries.push(Entry::Removed { node });
            }),
            ("nodeId Lapsed", |w| {
                (w.admission, w.times.1) = (Admission::Journal, NOW.plus(secs(60 * 24 * 3600)));
                w.request.expires_at = w.times.1.plus(secs(600));
            }),
            ("hostname Reserved", |w| w.reserved = vec!["n1".to_owned()]),
            ("hostname NameTaken", |w| {
                (w.admission, w.journal.devices[0].former_hostname) = (Admission::Journal, None);
                let node = NodeNames { hostname: w.request.hostname.clone(), ..other_names(2) };
                w.entries.push(Entry::Admitted { node, by: By::Operator });
            }),
            // Another node was called n1 until it was renamed, and its leaf under that name has not ended.
            ("hostname NameHeld", |w| {
                w.admission = Admission::Journal;
                let node = NodeNames { hostname: w.request.hostname.clone(), ..other_names(2) };
                w.entries.push(Entry::Admitted { node: node.clone(), by: By::Operator });
                let (serial, not_after) = ("8f".to_owned(), NOW.plus(secs(1)));
                w.entries.push(Entry::Issued { node: node.clone(), serial, not_after, address: None });
                w.entries.push(Entry::Renamed { node, new: "n2".parse().unwrap(), by: By::Operator });
            }),
            ("issue rename from n9", |w| {
                w.admission = Admission::Journal;
                let node = NodeNames { hostname: w.request.hostname.clone(), ..other_names(2) };
                w.entries.push(Entry::Admitted { node: node.clone(), by: By::Operator });
                let (serial, not_after) = ("8f".to_owned(), NOW.minus(secs(1)));
                w.entries.push(Entry::Issued { node: node.clone(), serial, not_after, address: None });
                w.entries.push(Entry::Renamed { node, new: "n2".parse().unwrap(), by: By::Operator });
            }),
            // A person has said yes: the live leaf under the name before is no reason to wait for its sixth day.
            ("issue", |w| {
                let node = NodeNames { hostname: "n9".parse().unwrap(), ..names(&w.request) };
                w.entries.push(Entry::Renamed { node, new: "n1".parse().unwrap(), by: By::Operator });
            }),
        ],
    );
}

// spec: NN-5
#[test]
fn until_it_is_renamed_here_a_node_keeps_its_certificate_under_the_name_it_has() {
    let mut world = World::renamed();
    let mut n9 = TestNode::new(1);
    n9.hostname = "n9".parse().unwrap();
    world.request = request(&n9, NOW.plus(secs(600)));
    assert_eq!(world.outcome(), "issue live");
    // Once it is, the former name is refused: the node asks under the new one.
    world.entries.push(Entry::Renamed { node: names(&world.request), new: "n1".parse().unwrap(), by: By::Operator });
    let refused = world.decide();
    let is_it = matches!(&refused, Decision::Refuse(Refusal::OtherName { name }) if name.as_str() == "n1");
    assert!(is_it, "{refused:?}");
}
