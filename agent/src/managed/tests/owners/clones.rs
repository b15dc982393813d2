//! Two holders of one identity, as an owner decides about them.

use lucia_proto::base::ids::StartId;

use super::*;

fn clone_order(owners: &OrderWorld, decision: Decision, start_id: Option<&str>) -> SignedOrder {
    let start_id = start_id.map(|text| text.parse().unwrap());
    let body = CloneDecision { hostname: owners.node.hostname.clone(), decision, start_id };
    let draft = Draft::new(owners.intent(OrderKind::CloneDecision), &Body::CloneDecision(body)).unwrap();
    owners.signed(&draft, vec![owners.alice.sign(&draft)])
}

/// design.md I8, decided by an owner.
// spec: AO-17
// spec: AO-20
// spec: AO-40
#[tokio::test(start_paused = true)]
async fn a_holder_that_is_not_kept_stops_for_good_and_the_kept_one_goes_on() {
    type Decide = fn(&OrderWorld, &Value) -> SignedOrder;
    type Told = Option<Option<OrderCode>>;
    // After the order comes no word of a holder that was not kept. One that a split stops says so once, and five times
    // to nobody.
    let cases: [(&str, Option<usize>, Told, Decide); 5] = [
        ("ours", None, Some(None), |owners, beat| clone_order(owners, Decision::Keep, beat["startId"].as_str())),
        ("a former one of ours", None, Some(Some(OrderCode::NotPossible)), |owners, beat| {
            clone_order(owners, Decision::Keep, beat["formerStarts"][0].as_str())
        }),
        ("another", Some(3), None, |owners, _| {
            clone_order(owners, Decision::Keep, Some(StartId::from_random([8; 16]).as_str()))
        }),
        ("none", Some(4), Some(None), |owners, _| clone_order(owners, Decision::Split, None)),
        ("none, and nobody hears it", Some(4), Some(None), |owners, _| clone_order(owners, Decision::Split, None)),
    ];
    for (name, last, told, make) in cases {
        let world = World::with_directory(FakeRunner::new(well));
        let fleet = Fleet::new().shared();
        fleet.borrow_mut().frozen = true;
        // The start before this one.
        world.owned(&fleet, 150).await;
        fleet.borrow_mut().said.clear();
        let (inner, ordered) = (Rc::clone(&fleet), Cell::new(false));
        let ran = world
            .run(
                400,
                with_challenges(move |seen: &SeenCall| {
                    let mut fleet = inner.borrow_mut();
                    if fleet.said.len() == 2 && !ordered.replace(true) {
                        let order = make(&fleet.owners, &serde_json::from_str(&seen.report).unwrap());
                        fleet.orders.push(order);
                    }
                    let reply = fleet.reply(seen);
                    let is_last = name.ends_with("hears it") && seen.report.contains("\"outcomes\":[{");
                    if is_last { Reply::Down } else { reply }
                }),
            )
            .await;
        let stopped = matches!(&ran.ended, Some(Ended::Stopped(why)) if why.contains("rekey"));
        assert_eq!((stopped, ran.ended.is_some()), (last.is_some(), last.is_some()), "{name}");
        let said: Vec<_> = fleet.borrow().said.iter().flat_map(|said| said.outcomes.clone()).collect();
        assert_eq!(said.first().map(|outcome| outcome.refused), told, "{name}");
        if let Some(last) = last {
            // With nobody who hears it, up to five tries.
            let most = if name.ends_with("hears it") { last + 4 } else { last };
            assert!((last..=most).contains(&beats(&ran).len()), "{name}: {}", beats(&ran).len());
            assert_eq!(ran.status.doing, Doing::Stopped, "{name}");
            assert!(state_has(&world, StateFile::Key) && state_has(&world, StateFile::Certificate), "{name}");
        } else {
            assert!(beats(&ran).len() > 8, "{name}");
        }
    }
}

/// A frozen identity keeps the start that its owner decides about.
// spec: AO-17
#[tokio::test(start_paused = true)]
async fn a_frozen_start_does_not_end_by_itself() {
    for frozen in [true, false] {
        let world = World::with_certificate(i64::try_from(7 * DAY - 60).unwrap());
        let answer = world.answer_at();
        let ran = world
            .run(
                DAY + 2 * HOUR,
                with_challenges(move |seen| match seen.call {
                    Endpoint::Renew => answer(seen.now),
                    _ if frozen => Reply::Ok(r#"{"accepted":true,"frozen":true}"#.into()),
                    _ => accepted(),
                }),
            )
            .await;
        let starts: std::collections::BTreeSet<_> =
            beats(&ran).into_iter().map(|beat| beat["startId"].as_str().unwrap().to_owned()).collect();
        assert_eq!(starts.len(), if frozen { 1 } else { 2 });
    }
}
