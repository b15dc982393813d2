//! Every outcome of an order, one line a case.

use std::time::Duration;

use lucia_proto::base::digest::Digest;
use lucia_proto::orders::{CloneDecision, OrderKind, OrderPolicy, RemoveIdentity, Rule};
use lucia_proto::pki::key::Fingerprint;
use lucia_proto::test_support::{OrderWorld, TestNode, hostile_intents};

use super::*;
use crate::chain;
use crate::ledger::Records;
use lucia_proto::orders::{Actor, Admit, Decision, OrderCode, ReleaseLapse, SignedOrder};

use crate::config::{NameOrId, Settings};
use crate::fixture::{draft, secs, signed};
use crate::ledger::{By, Entry, NodeNames, OrderEffect, OrderedBy};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);
const DAY: u64 = 24 * 3600;

/// A fleet with owners, and a worker whose ledger has these lines.
struct World {
    fleet: OrderWorld,
    policy: OrderPolicy,
    entries: Vec<(UnixTime, Entry)>,
}

impl World {
    /// The ledger has nobody.
    fn new() -> Self {
        let entries = vec![(NOW, Entry::Initialised { root: Digest::ZERO })];
        Self { fleet: OrderWorld::new(NOW), policy: OrderPolicy::allow_all(), entries }
    }

    /// The ledger has the fleet's node, whose certificate ended 40 days ago.
    fn lapsed() -> Self {
        let mut world = Self::new();
        let node = names(&world.fleet.node);
        world.add(Entry::Admitted { node: node.clone(), by: By::Operator });
        world.add(Entry::Issued { node, serial: "7f".to_owned(), not_after: NOW.minus(secs(40 * DAY)), address: None });
        world
    }

    fn add(&mut self, entry: Entry) {
        self.entries.push((NOW.minus(secs(50 * DAY)), entry));
    }

    fn with<T>(&self, ask: impl FnOnce(&Facts<'_>) -> T) -> T {
        let mut records = Records::default();
        self.entries.iter().for_each(|(at, entry)| records.apply_in_test(*at, entry));
        let own = Settings { controller_user: NameOrId::Id(0), group: NameOrId::Id(0), ..Settings::default() };
        let own = Settings { intent_policy: self.policy.clone(), denied_names: vec!["db-*".to_owned()], ..own };
        let config = own.resolve().unwrap();
        let facts = Facts {
            config: &config,
            records: &records,
            roster: &self.fleet.roster,
            bundle_version: self.fleet.bundle.bundle().version,
        };
        ask(&facts)
    }

    fn judge(&self, order: &SignedOrder, now: UnixTime) -> Judged {
        let intent = OrderHead::parse(&order.intent_json).unwrap_or_else(|_| self.fleet.intent(OrderKind::Admit));
        self.with(|facts| judge(order, &intent, facts, &self.fleet.memory, now))
    }

    /// What is done, or the code of the refusal; with the variant where something stands in its way.
    fn outcome(&self, order: &SignedOrder) -> String {
        match self.judge(order, NOW) {
            Judged::Take { acted: Acted { node, effect, .. }, .. } => format!("{} {effect:?}", node.hostname),
            Judged::Refuse { code: code @ OrderCode::NotPossible, text, .. } => {
                let intent = OrderHead::parse(&order.intent_json).unwrap();
                let body = Body::parse(intent.kind, &order.body).unwrap();
                let obstacle = self.with(|facts| act(&intent, &body, facts, NOW)).unwrap_err();
                assert_eq!(text, chain(&obstacle));
                format!("{}: {obstacle:?}", code.as_str())
            }
            Judged::Refuse { code, .. } | Judged::Again(code, _) => code.as_str().to_owned(),
        }
    }

    /// An order of alice's about the fleet's node.
    fn order(&self, body: &Body) -> SignedOrder {
        let node = body.new_key().map_or_else(|| self.fleet.node.node_id.clone(), Fingerprint::node_id);
        let draft = draft(&self.fleet.alice, self.fleet.fleet, NOW, &node, body, 9);
        signed(&draft, &[&self.fleet.alice])
    }
}

fn names(node: &TestNode) -> NodeNames {
    NodeNames { node_id: node.node_id.clone(), fingerprint: node.fingerprint, hostname: node.hostname.clone() }
}

fn named(node: &TestNode, name: &str, replaces: Option<&TestNode>) -> Body {
    let replaces = replaces.map(|node| node.node_id.clone());
    Body::Admit(Admit { fingerprint: node.fingerprint, hostname: name.parse().unwrap(), replaces })
}

// spec: OA-9
#[test]
fn no_hostile_order_does_anything_here() {
    let world = World::lapsed();
    let mut seen = 0;
    for case in hostile_intents(&world.fleet) {
        // What cannot be read at all has no node, and is ignored before it is judged.
        let Ok(intent) = OrderHead::parse(&case.signed.intent_json) else { continue };
        let elsewhere = !case.kind.actors().contains(&Actor::Worker);
        let retargeted = case.code == OrderCode::NotNamed;
        match world.judge(&case.signed, NOW) {
            Judged::Take { .. } => panic!("{}: {:?}", case.name, intent.kind),
            Judged::Again(code, _) => panic!("{}: {code:?}", case.name),
            Judged::Refuse { code, text, .. } if elsewhere || retargeted => {
                // Of another kind it is refused at once; for another node it is that node's, whose body does not fit.
                let known = [OrderCode::KindElsewhere, OrderCode::Malformed, OrderCode::NotPossible];
                assert!(known.contains(&code), "{}: {text}", case.name);
            }
            Judged::Refuse { code, text, .. } => assert_eq!(code, case.code, "{}: {text}", case.name),
        }
        seen += 1;
    }
    assert!(seen > 100, "{seen} cases only");
}

// spec: OA-10
#[test]
fn the_ledger_has_the_last_word_about_an_order() {
    type Start = fn() -> World;
    type Change = fn(&mut World) -> Body;
    let cases: Vec<(&str, Start, Change)> = vec![
        ("n7 Admit { replaces: None }", World::new, |w| w.fleet.body(OrderKind::Admit)),
        ("not_possible: Name(Reserved", World::new, |w| named(&w.fleet.node, "controller", None)),
        ("not_possible: Name(Reserved", World::new, |w| named(&w.fleet.node, "db-1", None)),
        ("not_possible: Name(NameNotTheirs", World::new, |w| named(&w.fleet.node, "n7", Some(&w.fleet.other))),
        // It is there: the operator was first.
        ("n7 Note", World::lapsed, |w| w.fleet.body(OrderKind::Admit)),
        ("not_possible: OtherName", World::lapsed, |w| named(&w.fleet.node, "web", None)),
        ("not_possible: Barred", World::lapsed, |w| {
            w.add(Entry::Barred { node: names(&w.fleet.node), by: By::Operator });
            w.fleet.body(OrderKind::Admit)
        }),
        ("not_possible: Suspended", World::lapsed, |w| {
            w.add(Entry::Suspended { node: names(&w.fleet.node), held: true });
            w.fleet.body(OrderKind::Admit)
        }),
        // Another key under the name: only with the node that has it, whatever became of that one.
        ("not_possible: Name(NameTaken", World::lapsed, |w| named(&w.fleet.other, "n7", None)),
        ("n7 Admit { replaces: Some(", World::lapsed, |w| named(&w.fleet.other, "n7", Some(&w.fleet.node))),
        ("n7 Admit { replaces: Some(", World::lapsed, |w| {
            w.add(Entry::Barred { node: names(&w.fleet.node), by: By::Journal });
            named(&w.fleet.other, "n7", Some(&w.fleet.node))
        }),
        ("not_possible: Name(NameTaken", World::lapsed, |w| named(&w.fleet.other, "n7", Some(&TestNode::new(9)))),
        ("n7 Release { serial: \"7f\" }", World::lapsed, |w| w.fleet.body(OrderKind::ReleaseLapse)),
        ("not_possible: Unknown", World::new, |w| w.fleet.body(OrderKind::ReleaseLapse)),
        ("not_possible: Barred", World::lapsed, |w| {
            w.add(Entry::Barred { node: names(&w.fleet.node), by: By::Operator });
            w.fleet.body(OrderKind::ReleaseLapse)
        }),
        ("not_possible: OtherEnd", World::lapsed, |w| ended(w, NOW.minus(secs(40 * DAY - 1)))),
        ("not_possible: NotLapsed", World::lapsed, |w| {
            let (node, not_after) = (names(&w.fleet.node), NOW.minus(secs(9 * DAY)));
            w.add(Entry::Issued { node, serial: "8f".to_owned(), not_after, address: None });
            match w.fleet.body(OrderKind::ReleaseLapse) {
                Body::ReleaseLapse(body) => Body::ReleaseLapse(ReleaseLapse { ended_at: not_after, ..body }),
                other => other,
            }
        }),
        ("name_differs", World::lapsed, |w| {
            let (node, new) = (names(&w.fleet.node), "web".parse().unwrap());
            w.add(Entry::Renamed { node, new, by: By::Operator });
            w.fleet.body(OrderKind::ReleaseLapse)
        }),
        ("n7 Note", World::lapsed, |w| w.fleet.body(OrderKind::CloneDecision)),
        ("not_possible: Unknown", World::new, |w| w.fleet.body(OrderKind::CloneDecision)),
        ("n7 Bar", World::lapsed, split),
        ("n7 Bar", World::lapsed, |w| w.fleet.body(OrderKind::RemoveIdentity)),
        ("n7 Note", World::lapsed, |w| {
            w.add(Entry::Barred { node: names(&w.fleet.node), by: By::Journal });
            Body::RemoveIdentity(RemoveIdentity { hostname: w.fleet.node.hostname.clone() })
        }),
        ("not_possible: Unknown", World::new, |w| w.fleet.body(OrderKind::RemoveIdentity)),
        ("kind_forbidden", World::lapsed, |w| {
            w.policy = OrderPolicy::allow_all().with(OrderKind::RemoveIdentity, Rule::Forbid);
            w.fleet.body(OrderKind::RemoveIdentity)
        }),
        ("second_owner_needed", World::lapsed, |w| {
            w.fleet.change_roster(|r| r.policy = OrderPolicy::allow_all().with(OrderKind::Admit, Rule::TwoOwners));
            w.fleet.body(OrderKind::Admit)
        }),
    ];
    for (number, (want, start, change)) in cases.into_iter().enumerate() {
        let mut world = start();
        let body = change(&mut world);
        let found = world.outcome(&world.order(&body));
        assert!(found.starts_with(want), "{number}: {found} instead of {want}");
    }
}

/// An order about the lapse of a certificate that ended then.
fn ended(world: &mut World, ended_at: UnixTime) -> Body {
    match world.fleet.body(OrderKind::ReleaseLapse) {
        Body::ReleaseLapse(body) => Body::ReleaseLapse(ReleaseLapse { ended_at, ..body }),
        other => other,
    }
}

/// The worker signed another one for it since, which nobody may have fetched.
fn signed_since(world: &mut World, not_after: UnixTime) {
    let node = names(&world.fleet.node);
    world.add(Entry::Issued { node, serial: "8f".to_owned(), not_after, address: None });
}

// spec: OA-60
#[test]
fn a_lapse_is_released_whether_or_not_the_last_certificate_was_ever_fetched() {
    let fetched = NOW.minus(secs(40 * DAY));
    for (name, since, said, want) in [
        ("never fetched", NOW.minus(secs(33 * DAY)), fetched, "n7 Release { serial: \"8f\" }"),
        ("fetched", NOW.minus(secs(33 * DAY)), NOW.minus(secs(33 * DAY)), "n7 Release { serial: \"8f\" }"),
        ("an end that none had", NOW.minus(secs(33 * DAY)), NOW.minus(secs(32 * DAY)), "not_possible: OtherEnd"),
        ("it has not ended", NOW.plus(secs(1)), fetched, "not_possible: OtherEnd"),
        ("it ended just now", NOW, fetched, "not_possible: NotLapsed"),
    ] {
        let mut world = World::lapsed();
        signed_since(&mut world, since);
        let body = ended(&mut world, said);
        let found = world.outcome(&world.order(&body));
        assert!(found.starts_with(want), "{name}: {found} instead of {want}");
    }
}

fn split(world: &mut World) -> Body {
    let hostname = world.fleet.node.hostname.clone();
    Body::CloneDecision(CloneDecision { hostname, decision: Decision::Split, start_id: None })
}

// spec: OA-11
#[test]
fn an_order_is_remembered_for_its_time_and_two_of_one_name_are_two() {
    let mut world = World::lapsed();
    let body = world.fleet.body(OrderKind::RemoveIdentity);
    let order = world.order(&body);
    let Judged::Take { order: taken, memory, .. } = world.judge(&order, NOW) else {
        panic!("{}", world.outcome(&order))
    };
    assert_eq!((taken.id(), taken.signers()), (order.id(), std::slice::from_ref(&world.fleet.alice.id)));
    world.fleet.memory = memory;
    assert_eq!(world.outcome(&order), "already_done");
    let late = world.judge(&order, NOW.plus(Duration::from_secs(3601)));
    assert!(matches!(late, Judged::Refuse { code: OrderCode::Expired, memory: None, .. }), "{late:?}");
    // A ledger that has the order knows it whatever became of the memory.
    let by = OrderedBy { intent: order.id(), signers: taken.signers().to_vec() };
    world.add(Entry::Ordered { node: names(&world.fleet.node), by, act: OrderEffect::Bar });
    let mut records = Records::default();
    world.entries.iter().for_each(|(at, entry)| records.apply_in_test(*at, entry));
    assert!(records.ordered_at(&order.id()).is_some());
}
