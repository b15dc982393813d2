//! Orders: which are carried out, once, and what becomes of them in a crash.

use super::*;

/// Who may not order makes this node write nothing.
// spec: AO-2
#[test]
fn no_hostile_order_is_carried_out_or_written() {
    let mut door = Door::settled();
    door.hear();
    let mut before = door.files();
    let table = hostile_intents(&door.world);
    assert!(table.len() > 100, "{}", table.len());
    for hostile in table {
        // What a node does not carry out is refused before anything else is looked at, but for its form.
        let ours = hostile.kind.actors().contains(&Actor::Node);
        let want = match hostile.code {
            OrderCode::Malformed => hostile.code,
            code if ours => code,
            _ => OrderCode::KindElsewhere,
        };
        let signed = &hostile.signed;
        assert_eq!(door.order(signed), Some(Some(want)), "{}", hostile.name);
        // A good one under another name than the node's is an owner's: that it was refused is remembered.
        let is_owners = want == OrderCode::NameDiffers;
        assert_eq!((door.files() != before, door.owners.ending()), (is_owners, None), "{}", hostile.name);
        before = door.files();
        assert!(door.accounts().is_empty(), "{}", hostile.name);
        let status = door.owners.status();
        let seen = status.orders.last().unwrap();
        assert_eq!((&seen.code, seen.refused), (&signed.id().code(), Some(want)), "{}", hostile.name);
        assert!(status.orders.len() <= ORDERS_SHOWN && door.said().outcomes.len() <= OUTCOMES_MAX);
        door.hear();
    }
    assert_eq!(door.order(&door.keys_order(4, 1)), Some(None), "a good one is");
}

// spec: AO-2
#[test]
fn what_this_machines_policy_forbids_is_not_done() {
    for (policy, code) in [
        ("ssh-key = \"forbid\"\n", Some(OrderCode::KindForbidden)),
        ("ssh-key = \"two-owners\"\n", Some(OrderCode::SecondOwnerNeeded)),
        ("ssh-key: allow\n", Some(OrderCode::KindForbidden)),
        ("ssh-key = \"allow\"\n", None),
    ] {
        let mut door = Door::settled();
        door.scratch.put("etc/lucia/agent-policy.toml", policy);
        assert_eq!(door.order(&door.keys_order(4, 1)), Some(code), "{policy}");
        let draft = door.world.draft(OrderKind::SshKey, |intent| {
            intent.terms = Terms::State { subject: "alice".parse().unwrap(), revision: 9 };
        });
        let two = door.world.signed(&draft, vec![door.world.alice.sign(&draft), door.world.bob.sign(&draft)]);
        let code = code.filter(|code| *code != OrderCode::SecondOwnerNeeded);
        assert_eq!(door.order(&two), Some(code), "{policy}: by two");
    }
}

/// threats.md C: a controller keeps an order that was refused, and brings it again within its day.
// spec: AO-91
#[test]
fn an_order_that_was_refused_for_what_stood_in_its_way_is_not_done_once_the_way_is_free() {
    type Make = fn() -> (Door, SignedOrder);
    let forbidden: Make = || {
        let door = Door::settled();
        door.scratch.put("etc/lucia/agent-policy.toml", "remove-identity = \"forbid\"\n");
        let order = door.world.order(OrderKind::RemoveIdentity);
        (door, order)
    };
    let former: Make = || {
        let mut door = Door::settled();
        door.starts = vec![StartId::from_random([9; 16]), StartId::from_random([7; 16])];
        let order = door.clone_order(Decision::Keep, door.starts.get(1).cloned());
        (door, order)
    };
    type Free = fn(&mut Door);
    let cases: [(Make, OrderCode, Free); 2] = [
        (forbidden, OrderCode::KindForbidden, |door| {
            door.scratch.put("etc/lucia/agent-policy.toml", "remove-identity = \"allow\"\n");
        }),
        // What was a former start of ours is the other machine's by now, and would stop this one.
        (former, OrderCode::NotPossible, |door| drop(door.starts.pop())),
    ];
    for (make, code, free) in cases {
        // A crash at any step leaves the order unheard of or refused for good, and told in neither case.
        for nth in 0.. {
            let (mut door, order) = make();
            let offer = OrdersReply { intent: Some(Box::new(order.clone())), ..OrdersReply::default() };
            let plan = crash_at(&door.scratch.root().state(), nth);
            let offered = door.try_offer(&offer);
            let crashed = plan.crashed().is_some();
            drop(plan);
            assert_eq!((offered.is_err(), door.outcome(&order).is_none()), (crashed, crashed), "{code:?} {nth}");
            door.restart();
            door.refresh();
            assert_eq!(door.order(&order), Some(Some(code)), "{code:?} {nth}");
            free(&mut door);
            for restarts in [false, true] {
                if restarts {
                    door.restart();
                    door.refresh();
                }
                let before = door.files();
                assert_eq!(door.order(&order), Some(Some(code)), "{code:?} {nth}: the same again");
                assert_eq!((door.files() == before, door.owners.ending()), (true, None), "{code:?} {nth}");
                assert!(!door.owners.is_leaving(), "{code:?} {nth}");
            }
            if !crashed {
                assert!(nth > 2, "{code:?}: only {nth} steps were tried");
                break;
            }
        }
    }
    // A second owner's signature makes the same order a good one.
    let mut door = Door::settled();
    door.scratch.put("etc/lucia/agent-policy.toml", "remove-identity = \"two-owners\"\n");
    let draft = door.world.draft(OrderKind::RemoveIdentity, |_| ());
    let one = door.world.signed(&draft, vec![door.world.alice.sign(&draft)]);
    assert_eq!(door.order(&one), Some(Some(OrderCode::SecondOwnerNeeded)));
    let two = door.world.signed(&draft, vec![door.world.alice.sign(&draft), door.world.bob.sign(&draft)]);
    assert_eq!((door.order(&two), door.owners.is_leaving()), (Some(None), true));
    // A state waits: its revision holds as soon as it may.
    let mut door = Door::settled();
    door.scratch.put("etc/lucia/agent-policy.toml", "ssh-key = \"forbid\"\n");
    let keys = door.keys_order(4, 1);
    assert_eq!(door.order(&keys), Some(Some(OrderCode::KindForbidden)));
    door.scratch.put("etc/lucia/agent-policy.toml", "ssh-key = \"allow\"\n");
    assert_eq!(door.order(&keys), Some(None));
}

/// threats.md O: an owner's orders fill the file to its last bytes, and then one is refused.
// spec: AO-96
#[test]
fn a_refusal_that_has_no_room_in_the_record_spoils_nothing_of_it() {
    let room = |door: &mut Door, room: usize| {
        let mut record: serde_json::Value =
            serde_json::from_slice(&door.state.read(StateFile::Orders).unwrap().unwrap()).unwrap();
        let pad = |length: usize| serde_json::json!({"intentJson": "", "body": "x".repeat(length), "signatures": []});
        let states = record.get_mut("states").unwrap().as_array_mut().unwrap();
        states.push(pad(0));
        let least = serde_json::to_string(&record).unwrap().len();
        let states = record.get_mut("states").unwrap().as_array_mut().unwrap();
        *states.last_mut().unwrap() = pad(lucia_proto::base::limits::NODE_ORDERS_MAX - least - room);
        let text = serde_json::to_string(&record).unwrap();
        door.state.replace(StateFile::Orders, text.as_bytes()).unwrap();
        door.restart();
        door.refresh();
    };
    for (former, code) in [(false, OrderCode::KindForbidden), (true, OrderCode::NotPossible)] {
        for (left, want) in [(20, OrderCode::MemoryFull), (2000, code)] {
            let mut door = Door::settled();
            assert_eq!(door.order(&door.keys_order(4, 1)), Some(None));
            door.hear();
            room(&mut door, left);
            let order = if former {
                door.starts = vec![StartId::from_random([9; 16]), StartId::from_random([7; 16])];
                door.clone_order(Decision::Keep, door.starts.get(1).cloned())
            } else {
                door.scratch.put("etc/lucia/agent-policy.toml", "remove-identity = \"forbid\"\n");
                door.world.order(OrderKind::RemoveIdentity)
            };
            assert_eq!(door.order(&order), Some(Some(want)), "{code:?} {left}");
            door.restart();
            assert_eq!(door.accounts(), [("alice".to_owned(), 1)], "{code:?} {left}: what holds is not lost");
        }
    }
}

/// design.md O2: the second form, for the kinds that somebody on the worker's host named.
// spec: AO-42
#[test]
fn a_passkey_signs_the_kinds_that_the_roster_names_and_no_other() {
    for named in [true, false] {
        let mut world = OrderWorld::new(NOW);
        world.change_roster(|roster| {
            roster.page_kinds = named.then_some(OrderKind::SshKey).into_iter().collect::<Vec<_>>().into()
        });
        let mut door = Door::of(world);
        door.settle();
        let touched = |door: &Door, kind| {
            let draft = door.world.draft(kind, |_| ());
            door.world.signed(&draft, vec![door.world.alice.touch(&draft, &OrderWorld::origin())])
        };
        let (keys, removal) = (touched(&door, OrderKind::SshKey), touched(&door, OrderKind::RemoveIdentity));
        let refused = Some(OrderCode::PageNotAllowed);
        assert_eq!(door.order(&keys), Some(refused.filter(|_| !named)), "{named}");
        assert_eq!(door.order(&removal), Some(refused), "{named}");
        assert_eq!((door.accounts().len(), door.owners.ending()), (usize::from(named), None), "{named}");
    }
}

// spec: AO-3
#[test]
fn each_kind_that_is_a_nodes_is_carried_out_once() {
    let mut door = Door::settled();
    let [first, second, none] = [door.keys_order(4, 1), door.keys_order(5, 2), door.keys_order(6, 0)];
    assert_eq!(door.order(&first), Some(None));
    assert_eq!(door.accounts(), [("alice".to_owned(), 1)]);
    assert_eq!(door.order(&second), Some(None));
    door.hear();
    assert_eq!(door.order(&first), Some(Some(OrderCode::OlderRevision)));
    let before = door.files();
    assert_eq!(door.order(&second), Some(None), "it holds, and whoever lost that word is told again");
    assert_eq!((door.accounts(), door.files() == before), (vec![("alice".to_owned(), 2)], true));
    assert_eq!(door.order(&none), Some(None));
    assert_eq!(door.accounts(), [("alice".to_owned(), 0)], "its file goes");

    let kept = door.clone_order(Decision::Keep, Some(start()));
    assert_eq!(door.order(&kept), Some(None));
    assert_eq!(door.owners.ending(), None, "this holder stays");
    let before = door.files();
    assert_eq!(door.order(&kept), Some(None), "it was done, and is not done again");
    assert!(door.files() == before);

    for (decision, start_id) in [(Decision::Keep, Some(StartId::from_random([8; 16]))), (Decision::Split, None)] {
        let mut door = Door::settled();
        assert_eq!(door.order(&door.clone_order(decision, start_id)), Some(None));
        // After a split the controller is told before this holder stops; for who was not kept nobody listens.
        let is_split = decision == Decision::Split;
        assert_eq!((door.owners.is_leaving(), door.owners.ending().is_none()), (is_split, is_split));
        assert_eq!(door.order(&door.keys_order(4, 1)), None, "nothing more is taken");
        if is_split {
            door.hear();
        }
        assert!(matches!(door.owners.ending(), Some(Ending::Stopped(why)) if why.contains("rekey")));
        door.restart();
        assert!(matches!(door.owners.ending(), Some(Ending::Stopped(_))), "for good");
        assert_eq!(door.order(&door.keys_order(4, 1)), None, "nothing more is taken");
    }

    let mut door = Door::settled();
    let removal = door.world.order(OrderKind::RemoveIdentity);
    assert_eq!(door.order(&removal), Some(None));
    assert!(door.owners.is_leaving() && door.owners.ending().is_none(), "the last word is not said yet");
    door.restart();
    assert_eq!((door.outcome(&removal), door.owners.ending()), (Some(None), None));
    assert_eq!(door.order(&door.keys_order(4, 1)), None, "nothing more is taken");
    door.hear();
    assert_eq!(door.owners.ending(), Some(Ending::Remove));
    let mut door = Door::settled();
    assert_eq!(door.order(&removal), Some(None));
    (0..FAREWELLS).for_each(|_| door.owners.count_farewell());
    assert_eq!(door.owners.ending(), Some(Ending::Remove), "nobody hears it");

    for kind in [OrderKind::Admit, OrderKind::ReleaseLapse] {
        assert_eq!(Door::settled().order(&door.world.order(kind)), Some(Some(OrderCode::KindElsewhere)));
    }
}

/// The machine that was meant may have rebooted since, and what was before may be the other machine's past as well.
// spec: AO-20
#[test]
fn a_decision_for_a_former_start_of_this_machine_ends_nothing_and_is_made_anew() {
    let start = |byte| StartId::from_random([byte; 16]);
    let mut door = Door::settled();
    door.starts = vec![start(9), start(7), start(5)];
    door.hear();
    for former in [7, 5, 7] {
        let order = door.clone_order(Decision::Keep, Some(start(former)));
        for _ in 0..2 {
            assert_eq!(door.order(&order), Some(Some(OrderCode::NotPossible)), "{former}");
            assert_eq!(door.owners.ending(), None, "{former}");
        }
    }
    let kept = door.clone_order_anew(Decision::Keep, Some(start(9)), 77);
    assert_eq!(door.order(&kept), Some(None), "the present one");
    door.starts.insert(0, start(10));
    assert_eq!(door.order(&kept), Some(None), "it was carried out while it was the present one");
    assert_eq!(door.owners.ending(), None);
    // One that was never said here is the other machine's.
    let mut door = Door { starts: door.starts, ..Door::settled() };
    assert_eq!(door.order(&door.clone_order(Decision::Keep, Some(start(8)))), Some(None));
    assert!(matches!(door.owners.ending(), Some(Ending::Stopped(_))));
}

/// The disk ends at any step: the order was taken or it was not, and sent again it is done then, or told of.
// spec: AO-4
#[test]
fn a_crash_at_any_step_loses_no_order_and_does_none_twice() {
    type Make = fn(&Door) -> SignedOrder;
    let makes: [(&str, Make); 3] = [
        ("keys", |door| door.keys_order(5, 2)),
        ("clone", |door| door.clone_order(Decision::Split, None)),
        ("removal", |door| door.world.order(OrderKind::RemoveIdentity)),
    ];
    for (name, make) in makes {
        for nth in 0.. {
            let mut door = Door::settled();
            assert_eq!(door.order(&door.keys_order(4, 1)), Some(None));
            door.hear();
            let order = make(&door);
            let plan = crash_at(&door.scratch.root().state(), nth);
            let died = door.try_offer(&OrdersReply { intent: Some(Box::new(order.clone())), ..OrdersReply::default() });
            let crashed = plan.crashed().is_some();
            assert_eq!(died.is_err_and(|error| error.is_doubtful()), crashed, "{name} {nth}");
            drop(plan);
            door.restart();
            let taken = door.outcome(&order) == Some(None);
            assert!(taken || crashed, "{name} {nth}");
            // Either record is whole: the former keys, or what the order made of them.
            let held = if taken && name == "keys" { 2 } else { 1 };
            assert_eq!(door.accounts(), [("alice".to_owned(), held)], "{name} {nth}");
            let acts = |door: &Door| (door.accounts(), door.owners.ending().is_some(), door.owners.is_leaving());
            let before = acts(&door);
            door.refresh();
            let files = door.files();
            door.offered(OrdersReply { intent: Some(Box::new(order.clone())), ..OrdersReply::default() });
            assert_eq!(door.outcome(&order), Some(None), "{name} {nth}");
            if taken {
                assert_eq!((acts(&door), door.files() == files), (before, true), "{name} {nth}: twice");
            }
            if !crashed {
                assert!(nth > 5, "{name}: only {nth} steps were tried");
                break;
            }
        }
    }
}

/// The same for what is held of roster and bundle.
// spec: AO-4
#[test]
fn a_crash_at_any_step_leaves_a_roster_that_is_one_of_the_two() {
    for nth in 0.. {
        let mut door = Door::new();
        let plan = crash_at(&door.scratch.root().state(), nth);
        let bundle = Some(door.world.ca.signed_bundle(4, NOW));
        let roster = Some(door.world.roster.signed().clone());
        let _ = door.try_offer(&OrdersReply { bundle, roster, ..OrdersReply::default() });
        let crashed = plan.crashed().is_some();
        drop(plan);
        door.restart();
        assert!(matches!(door.said().roster_version, 0 | 5), "step {nth}");
        assert!(door.owners.record.is_some(), "step {nth}: no record was lost, there was none");
        door.settle();
        assert_eq!((door.said().roster_version, door.owners.keys().is_partial), (5, false), "step {nth}");
        assert_eq!(door.order(&door.keys_order(4, 1)), Some(None), "step {nth}");
        if !crashed {
            assert!(nth > 10, "only {nth} steps were tried");
            break;
        }
    }
}

// spec: AO-4
#[test]
fn an_order_that_finds_no_room_is_told_of_and_taken_when_it_comes_again() {
    let mut door = Door::settled();
    let order = door.keys_order(4, 1);
    let plan = fail_at(&door.scratch.root().state(), "replace/write", 0, nix::errno::Errno::ENOSPC as i32);
    let reply = OrdersReply { intent: Some(Box::new(order.clone())), ..OrdersReply::default() };
    assert_eq!(door.refused(&reply), ["orders"]);
    drop(plan);
    assert_eq!((door.outcome(&order), door.accounts().len()), (None, 0), "nothing is said of what was not done");
    assert_eq!(door.order(&order), Some(None));
}

// spec: AO-11
#[test]
fn an_outcome_is_told_until_a_reply_came_also_after_a_restart() {
    let mut door = Door::settled();
    let orders: Vec<_> = (4..14).map(|revision| door.keys_order(revision, 1)).collect();
    let bad = SignedOrder { body: "{}".to_owned(), ..door.keys_order(20, 1) };
    assert_eq!(door.order(&orders[0]), Some(None));
    assert_eq!(door.order(&bad), Some(Some(OrderCode::BodyMismatch)));
    for _ in 0..3 {
        assert_eq!((door.outcome(&orders[0]), door.outcome(&bad).is_some()), (Some(None), true));
    }
    door.restart();
    assert_eq!(door.outcome(&orders[0]), Some(None));
    door.hear();
    assert_eq!(door.outcome(&orders[0]), None);
    let before = door.files();
    door.hear();
    door.restart();
    assert_eq!((door.outcome(&orders[0]), door.files() == before), (None, true));
    // As many as there is room for, the last ones.
    door.refresh();
    orders.iter().skip(1).for_each(|order| assert_eq!(door.order(order), Some(None)));
    assert_eq!(door.said().outcomes.len(), OUTCOMES_MAX);
    assert_eq!(door.owners.status().orders.len(), 10);
}

/// threats.md B-25 and a disk that lost a file: what was ordered before may be older than what held.
// spec: AO-12
// spec: AO-402
#[test]
fn a_record_that_was_lost_begins_anew_and_takes_nothing_from_before() {
    for how in ["gone", "broken"] {
        let mut door = Door::settled();
        let [first, second] = [door.keys_order(4, 3), door.keys_order(5, 1)];
        door.order(&first);
        door.order(&second);
        match how {
            "gone" => door.state.remove(StateFile::Orders).unwrap(),
            _ => door.state.replace(StateFile::Orders, b"{\"keys\":[]}").unwrap(),
        }
        door.restart();
        assert_eq!(door.order(&first), Some(Some(OrderCode::NoFreshness)), "{how}");
        door.up += HOUR;
        door.refresh();
        for old in [&first, &second, &door.clone_order(Decision::Split, None)] {
            assert_eq!(door.order(old), Some(Some(OrderCode::BeforeMemory)), "{how}");
        }
        assert!(door.accounts().is_empty() && door.owners.keys().is_partial, "{how}: nothing that is there goes");
        let anew = door.keys_order_at(6, 1, NOW.plus(HOUR));
        assert_eq!(door.order(&anew), Some(None), "{how}");
        door.restart();
        assert_eq!(door.accounts(), [("alice".to_owned(), 1)], "{how}");
        assert!(door.owners.keys().is_partial, "{how}: whom else they had given keys is not known again");
    }
    // A node that was never ordered anything takes a state that was signed long before it came.
    let mut door = Door::settled();
    let old = door.keys_order_at(1, 1, NOW.minus(HOUR * 9000));
    assert_eq!(door.order(&old), Some(None));
}

// spec: AO-12
// spec: AO-402
#[test]
fn an_order_on_the_disk_that_is_not_the_remembered_one_gives_no_keys() {
    let mut door = Door::settled();
    door.order(&door.keys_order(4, 1));
    let text = String::from_utf8(door.files()["orders.json"].clone()).unwrap();
    let line = crate::keys::tests::line(0);
    let other = crate::keys::tests::line(1);
    assert!(text.contains(&line));
    assert!(!door.owners.keys().is_partial);
    door.state.replace(StateFile::Orders, text.replace(&line, &other).as_bytes()).unwrap();
    door.restart();
    assert!(door.accounts().is_empty() && door.owners.keys().is_partial);
}
