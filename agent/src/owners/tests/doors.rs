//! Bundle, roster and the time for orders.

use super::*;

/// threats.md C: older, equal but different, another fleet's, forged and broken ones, each beside a part that is good.
// spec: AO-5
#[test]
fn a_bundle_or_roster_that_is_refused_changes_nothing_and_costs_no_other_part() {
    let mut door = Door::settled();
    door.hear();
    let stranger = OrderWorld::new(NOW);
    let foreign = TestCa::with_keys(NOW, 211);
    let sign = |door: &Door, change: &dyn Fn(&mut lucia_proto::orders::roster::Roster), by: &NodeKey| {
        let mut roster = door.world.roster.roster().clone();
        change(&mut roster);
        SignedRoster::sign(&roster, by).unwrap()
    };
    let worker = stranger.ca.worker_key;
    let rosters = [
        ("older", sign(&door, &|roster| roster.version = 4, &worker)),
        ("version 0", sign(&door, &|roster| roster.version = 0, &worker)),
        ("equal but different", sign(&door, &|roster| roster.owners.truncate(1), &worker)),
        ("another fleet's", sign(&door, &|roster| (roster.version, roster.fleet) = (9, Digest::ZERO), &worker)),
        ("the controller's own", sign(&door, &|roster| roster.version = 9, &key(99))),
        ("an owner's own", sign(&door, &|roster| roster.version = 9, &door.world.alice.key)),
        ("another fleet's worker", sign(&door, &|roster| roster.version = 9, &foreign.worker_key)),
        ("cut", {
            let parts = door.world.roster.signed().parts();
            SignedRoster::from_parts(parts.payload()[1..].to_vec(), parts.signature().to_vec())
        }),
    ];
    let bundles = [
        ("older", door.world.ca.signed_bundle(2, NOW)),
        ("equal but different", door.world.ca.signed_bundle(BUNDLE, NOW.plus(HOUR))),
        ("another root's", foreign.signed_bundle(9, NOW)),
        ("of a worker", {
            let bundle = Bundle { version: 9, ..door.world.bundle.bundle().clone() };
            SignedBundle::sign(&bundle, &worker).unwrap()
        }),
    ];
    let before = door.files();
    for (name, roster) in rosters {
        let order = door.keys_order(4, 0);
        let bad = Box::new(SignedOrder { body: "{}".to_owned(), ..order });
        let reply = OrdersReply { roster: Some(roster), intent: Some(bad), ..OrdersReply::default() };
        assert_eq!(door.refused(&reply), ["roster"], "{name}");
        assert_eq!(door.owners.status().orders.len(), 1, "{name}: the order beside it was looked at");
        assert_eq!((door.files() == before, door.said().roster_version), (true, 5), "{name}");
    }
    for (name, bundle) in bundles {
        let roster = Some(door.world.roster.signed().clone());
        let reply = OrdersReply { bundle: Some(bundle), roster, ..OrdersReply::default() };
        assert_eq!(door.refused(&reply), ["bundle"], "{name}");
        assert_eq!((door.files() == before, door.said().bundle_version), (true, BUNDLE), "{name}");
    }
    for (text, call) in [
        (r#"{"bundle":1}"#, "bundle"),
        (r#"{"roster":{"payload":"AAAA"}}"#, "roster"),
        (r#"{"roster":["AAAA","AAAA"]}"#, "roster"),
        (r#"{"freshness":{"payload":"?","signature":""}}"#, "freshness"),
        (r#"{"intent":{"intentJson":"{}"}}"#, "orders"),
        (r#"{"intents":[]}"#, "orders"),
        ("[]", "orders"),
    ] {
        let notes = door.try_value(&serde_json::from_str(text).unwrap()).unwrap();
        let refused: Vec<_> = notes.iter().filter(|note| note.refused.is_some()).map(|note| note.call).collect();
        assert_eq!((refused, door.files() == before), (vec![call], true), "{text}");
    }
}

// spec: AO-6
#[test]
fn a_newer_bundle_and_roster_are_kept_in_this_order_and_a_mark_outlives_its_worker() {
    let mut door = Door::settled();
    // The next bundle has another worker, who signed the roster that there is anew.
    let next = key(88);
    let mut bundle = Bundle { version: 4, ..door.world.bundle.bundle().clone() };
    bundle.workers = vec![next.public().to_pem()];
    let bundle = SignedBundle::sign(&bundle, &door.world.ca.root_key).unwrap();
    door.offered(OrdersReply { bundle: Some(bundle.clone()), ..OrdersReply::default() });
    let status = door.owners.status();
    assert_eq!((status.roster_version, status.believed, status.owners.len()), (5, false, 0));
    assert_eq!(door.said().roster_version, 0, "what is not believed is asked for again");
    assert_eq!(door.order(&door.keys_order(4, 1)), Some(Some(OrderCode::NoFreshness)));
    let freshness = Some(door.answer(&next, |answer| answer.bundle_version = 4));
    door.offered(OrdersReply { freshness, ..OrdersReply::default() });
    assert_eq!(door.order(&door.keys_order(4, 1)), Some(Some(OrderCode::RosterBehind)));
    // Whoever has the former worker's key gives out no roster any more, and beside the next one's an older one is older.
    let former = door.world.roster.signed().clone();
    assert_eq!(door.refused(&OrdersReply { roster: Some(former), ..OrdersReply::default() }), ["roster"]);
    let mut older = door.world.roster.roster().clone();
    older.version = 4;
    let older = SignedRoster::sign(&older, &next).unwrap();
    let anew = SignedRoster::sign(door.world.roster.roster(), &next).unwrap();
    door.offered(OrdersReply { roster: Some(anew), ..OrdersReply::default() });
    assert_eq!(door.refused(&OrdersReply { roster: Some(older.clone()), ..OrdersReply::default() }), ["roster"]);
    assert_eq!(door.owners.status().owners.len(), 2, "viewers are none");
    assert_eq!((door.said().roster_version, door.order(&door.keys_order(4, 1))), (5, Some(None)));
    door.world.bundle = bundle.clone().verify(&door.world.ca.root()).unwrap();
    door.restart();
    assert_eq!((door.said().roster_version, door.owners.status().believed), (5, true), "the new signature is kept");

    // All of it in one reply, to a node that has neither.
    let mut door = Door::new();
    let anew = SignedRoster::sign(door.world.roster.roster(), &next).unwrap();
    door.offered(OrdersReply { bundle: Some(bundle.clone()), roster: Some(anew), ..OrdersReply::default() });
    assert_eq!((door.said().bundle_version, door.said().roster_version), (4, 5));
    // The next start opens what is on the disk.
    door.world.bundle = bundle.verify(&door.world.ca.root()).unwrap();
    door.restart();
    assert_eq!((door.said().roster_version, door.owners.status().believed), (5, true));
    assert_eq!(door.refused(&OrdersReply { roster: Some(older), ..OrdersReply::default() }), ["roster"]);
}

/// threats.md W: the thief of a worker's key signs a version that no honest roster ever reaches.
// spec: AO-90
#[test]
fn a_version_that_a_retired_worker_signed_binds_no_more_also_after_a_restart() {
    for restarts in [false, true] {
        let mut door = Door::settled();
        let (honest, thief) = (door.world.roster.roster().clone(), OrderWorld::new(NOW).ca.worker_key);
        let far = lucia_proto::orders::roster::Roster { version: 1 << 53, ..honest.clone() };
        let far = SignedRoster::sign(&far, &thief).unwrap();
        door.offered(OrdersReply { roster: Some(far.clone()), ..OrdersReply::default() });
        assert_eq!(door.said().roster_version, 1 << 53);
        let reply = |bundle, roster| OrdersReply { bundle, roster: Some(roster), ..OrdersReply::default() };
        let sixth = lucia_proto::orders::roster::Roster { version: 6, ..honest };
        let by_thief = SignedRoster::sign(&sixth, &thief).unwrap();
        assert_eq!(door.refused(&reply(None, by_thief.clone())), ["roster"], "as long as the bundle names that key");
        // The root's next bundle names another worker alone.
        let next = key(88);
        let mut bundle = Bundle { version: 4, ..door.world.bundle.bundle().clone() };
        bundle.workers = vec![next.public().to_pem()];
        let bundle = SignedBundle::sign(&bundle, &door.world.ca.root_key).unwrap();
        door.offered(OrdersReply { bundle: Some(bundle.clone()), ..OrdersReply::default() });
        assert_eq!(door.said().roster_version, 0, "the honest one is asked for");
        door.world.bundle = bundle.verify(&door.world.ca.root()).unwrap();
        if restarts {
            door.restart();
        }
        assert_eq!(door.refused(&reply(None, by_thief)), ["roster"]);
        assert_eq!(door.refused(&reply(None, far)), ["roster"]);
        door.offered(reply(None, SignedRoster::sign(&sixth, &next).unwrap()));
        assert_eq!((door.said().roster_version, door.owners.status().believed), (6, true));
        let fifth = SignedRoster::sign(&lucia_proto::orders::roster::Roster { version: 5, ..sixth }, &next).unwrap();
        assert_eq!(door.refused(&reply(None, fifth)), ["roster"], "and from there on it only rises");
        let freshness = Some(door.answer(&next, |answer| (answer.bundle_version, answer.roster_version) = (4, 6)));
        door.offered(OrdersReply { freshness, ..OrdersReply::default() });
        assert_eq!(door.order(&door.keys_order(4, 1)), Some(None));
    }
}

/// The answer that was given once is given again, with the roster of then.
// spec: AO-7
#[test]
fn a_roster_of_the_enrolment_answer_is_held_and_an_older_one_passed_over() {
    let mut door = Door::new();
    let first = door.world.roster.clone();
    door.world.change_roster(|roster| roster.owners.truncate(1));
    let second = door.world.roster.clone();
    door.owners.answered(&door.state, None, Some(second.clone())).unwrap();
    assert_eq!(door.said().roster_version, 6);
    let before = door.files();
    for roster in [first, second] {
        door.owners.answered(&door.state, Some(&door.world.bundle), Some(roster)).unwrap();
        assert_eq!((door.said().roster_version, door.files() == before), (6, true));
    }
    // An answer that was under way while a reply brought a newer bundle takes that one's place nowhere.
    let newer = door.world.ca.signed_bundle(4, NOW);
    door.offered(OrdersReply { bundle: Some(newer.clone()), ..OrdersReply::default() });
    door.owners.answered(&door.state, Some(&door.world.bundle), None).unwrap();
    assert_eq!(door.said().bundle_version, 4);
    assert_eq!(door.files()["bundle.json"], serde_json::to_vec(&newer).unwrap());
}

/// threats.md W: a worker whose key was stolen may have said anything; with the bundle that retires it that is over.
// spec: AO-81
#[test]
fn what_a_retired_worker_said_of_the_time_counts_no_more() {
    let mut door = Door::settled();
    let same = door.world.ca.signed_bundle(4, NOW);
    door.offered(OrdersReply { bundle: Some(same), ..OrdersReply::default() });
    assert_eq!(door.said().freshness, None, "its own worker's word stands");
    let next = key(88);
    let mut bundle = Bundle { version: 5, ..door.world.bundle.bundle().clone() };
    bundle.workers = vec![next.public().to_pem()];
    let bundle = SignedBundle::sign(&bundle, &door.world.ca.root_key).unwrap();
    let anew = SignedRoster::sign(door.world.roster.roster(), &next).unwrap();
    door.offered(OrdersReply { bundle: Some(bundle), roster: Some(anew), ..OrdersReply::default() });
    assert!(door.said().freshness.is_some(), "it is asked at once");
    assert_eq!(door.order(&door.keys_order(4, 1)), Some(Some(OrderCode::NoFreshness)));
    let formers = door.answer(&OrderWorld::new(NOW).ca.worker_key, |answer| answer.bundle_version = 5);
    assert_eq!(door.refused(&OrdersReply { freshness: Some(formers), ..OrdersReply::default() }), ["freshness"]);
    let freshness = Some(door.answer(&next, |answer| answer.bundle_version = 5));
    door.offered(OrdersReply { freshness, ..OrdersReply::default() });
    assert_eq!(door.order(&door.keys_order(4, 1)), Some(None));
}

/// A worker that was retired says nothing more of who may order, by an answer that was under way either.
// spec: AO-80
#[test]
fn the_roster_of_an_enrolment_answer_is_held_against_the_newest_bundle() {
    let mut door = Door::settled();
    let next = key(88);
    let mut bundle = Bundle { version: 4, ..door.world.bundle.bundle().clone() };
    bundle.workers = vec![next.public().to_pem()];
    let bundle = SignedBundle::sign(&bundle, &door.world.ca.root_key).unwrap();
    let anew = SignedRoster::sign(door.world.roster.roster(), &next).unwrap();
    door.offered(OrdersReply { bundle: Some(bundle), roster: Some(anew), ..OrdersReply::default() });
    let before = door.files();
    door.world.change_roster(|roster| roster.owners.truncate(1));
    let formers = door.world.roster.clone();
    door.owners.answered(&door.state, Some(&door.world.bundle), Some(formers)).unwrap();
    assert_eq!((door.said().roster_version, door.owners.status().owners.len()), (5, 2));
    assert_eq!(door.files(), before);
}

// spec: AO-8
// spec: AO-41
#[test]
fn only_the_worker_says_how_late_it_is_and_for_a_day() {
    let mut door = Door::settled();
    let order = door.keys_order(4, 1);
    door.restart();
    assert_eq!(door.order(&order), Some(Some(OrderCode::NoFreshness)), "each start asks anew");
    let (worker, alice) = (OrderWorld::new(NOW).ca.worker_key, OrderWorld::new(NOW).alice.key);
    let other = door.world.other.node_id.clone();
    let forged = [
        ("the controller's own", door.answer(&key(99), |_| ())),
        ("an owner's", door.answer(&alice, |_| ())),
        ("another node's", door.answer(&worker, |answer| answer.node_id = other)),
        ("another fleet's", door.answer(&worker, |answer| answer.fleet = Digest::ZERO)),
        ("to another question", door.answer(&worker, |answer| answer.nonce = Nonce::from_bytes(&[0; 32]))),
    ];
    for (name, freshness) in forged {
        let reply = OrdersReply { freshness: Some(freshness), ..OrdersReply::default() };
        assert_eq!(door.refused(&reply), ["freshness"], "{name}");
        assert_eq!(door.order(&order), Some(Some(OrderCode::NoFreshness)), "{name}");
    }
    assert_eq!(door.owners.status().taken_until, None);
    door.refresh();
    assert_eq!(door.owners.status().taken_until, Some(NOW.plus(HOUR * 24)), "as the worker's clock has it");
    assert!(!door.owners.asks(door.up), "it is asked every six hours");
    door.up += HOUR * 6;
    assert!(door.owners.asks(door.up));
    // An answer once given is used up: the same bytes again make nothing younger.
    door.up += HOUR * 18 - Duration::from_secs(1);
    assert_eq!(door.order(&door.keys_order(4, 1)), Some(None));
    door.up += Duration::from_secs(1);
    assert_eq!(door.order(&door.keys_order(5, 1)), Some(Some(OrderCode::NoFreshness)));
    door.refresh();
    assert_eq!(door.order(&door.keys_order(5, 1)), Some(None));
}

/// design.md O4; the issue's third condition.
// spec: AO-9
#[test]
fn a_removed_owners_order_is_refused_once_the_roster_came_and_within_a_day_where_it_is_withheld() {
    // An honest controller brings the roster without alice with the next reply.
    let mut door = Door::settled();
    let order = door.keys_order(4, 1);
    let alice = door.world.alice.id.clone();
    door.world.change_roster(|roster| roster.owners.retain(|owner| owner.id != alice));
    let roster = Some(door.world.roster.signed().clone());
    let intent = Some(Box::new(order.clone()));
    door.offered(OrdersReply { roster, intent, ..OrdersReply::default() });
    assert_eq!(door.outcome(&order), Some(Some(OrderCode::OwnerUnknown)));

    // One that withholds it can pass on no answer of the worker's that does not tell of it, so it withholds that as well.
    for passes_on in [true, false] {
        let mut door = Door::settled();
        let order = door.keys_order(4, 1);
        door.world.change_roster(|roster| roster.owners.retain(|owner| owner.id != alice));
        if passes_on {
            door.up += HOUR * 6;
            door.refresh();
            assert_eq!(door.order(&order), Some(Some(OrderCode::RosterBehind)));
        } else {
            door.up += HOUR * 24;
            assert_eq!(door.order(&order), Some(Some(OrderCode::NoFreshness)));
        }
        assert!(door.accounts().is_empty());
    }
}

// spec: AO-401
// spec: AO-402
#[test]
fn what_is_known_of_ordered_keys_follows_the_record_alone() {
    let mut door = Door::new();
    assert_eq!(*door.owners.keys(), OrderedKeys::none(), "nobody ordered any");
    door.refresh();
    door.restart();
    assert_eq!(*door.owners.keys(), OrderedKeys::none(), "nor since the worker spoke of a roster");
    for (lost, is_lost) in [("roster.json", false), ("orders.json", true), ("bundle.json", false)] {
        for how in ["gone", "broken"] {
            let mut door = Door::settled();
            door.order(&door.keys_order(4, 1));
            let at = door.scratch.root().state().join(lost);
            if how == "gone" {
                drop(std::fs::remove_file(at))
            } else {
                door.state_write(lost, b"{")
            }
            door.restart();
            assert_eq!(door.owners.keys().is_partial, is_lost, "{lost} {how}");
            assert_eq!(door.accounts().len(), usize::from(!is_lost), "{lost} {how}");
        }
    }
    // Without a roster nothing says whether there was a record that was lost, and nobody who could have ordered anything.
    let mut door = Door::new();
    door.restart();
    assert_eq!(*door.owners.keys(), OrderedKeys::none());
    // An owner who leaves takes no keys along.
    let mut door = Door::settled();
    door.order(&door.keys_order(4, 2));
    door.world.change_roster(|roster| roster.owners.clear());
    door.offered(OrdersReply { roster: Some(door.world.roster.signed().clone()), ..OrdersReply::default() });
    assert_eq!(door.accounts(), [("alice".to_owned(), 2)]);
    door.restart();
    assert_eq!(door.accounts(), [("alice".to_owned(), 2)]);
}

impl Door {
    fn state_write(&self, name: &str, bytes: &[u8]) {
        let file = StateFile::ALL.iter().copied().find(|file| file.as_str() == name).unwrap();
        self.state.replace(file, bytes).unwrap();
    }
}
