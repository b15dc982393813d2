//! What holds for every kind there is, and for the next one. Its bytes and words are vectors (IN-26), its words are complete
//! (IN-24), and who may not sign it is a table over all kinds (IN-7).

use super::*;
use crate::base::limits::ORDER_BODY_MAX;

// spec: OR-442
#[test]
fn every_kind_keeps_the_contract_of_orders() {
    let world = world();
    for kind in OrderKind::ALL {
        let order = world.order(*kind);
        let by = world.checker(*kind);
        let body = world.body(*kind);
        // Its text is one, and its word finds it.
        assert_eq!((body.kind(), OrderKind::of_word(kind.as_str())), (*kind, Some(*kind)));
        assert_eq!(Body::parse(*kind, &body.to_text().unwrap()).unwrap(), body);
        assert_eq!(body.to_text().unwrap(), order.body);
        assert!(!kind.actors().is_empty() && !kind.title().is_empty() && body.about(None).is_some());
        // Nobody else signs it, and it is for nobody else.
        let draft = world.draft(*kind, |_| ());
        for stranger in [&world.mallory, &world.victor, &world.bob] {
            refused(&world.signed(&draft, vec![stranger.sign(&draft)]), &by, OrderCode::OwnerUnknown);
        }
        let besides = vec![world.alice.sign(&draft), world.victor.sign(&draft)];
        refused(&world.signed(&draft, besides), &by, OrderCode::NotAnOwner);
        refused(&order, &Checker { node: &world.other.node_id, ..by }, OrderCode::NotNamed);
        if body.hostname().is_some() && body.new_key().is_none() {
            refused(&order, &Checker { hostname: &world.other.hostname, ..by }, OrderCode::NameDiffers);
        }
        // Nobody keeps it for another day.
        let at = |now| Some(freshness::OrderTime::at_worker(now, 3, 5));
        let early = NOW.minus(ORDER_AHEAD).minus(SECOND);
        let young = OrderMemory::begin(early);
        refused(&order, &Checker { time: None, ..by }, OrderCode::NoFreshness);
        refused(&order, &Checker { time: at(early), memory: &young, ..by }, OrderCode::NotYet);
        let late = order.check(&Checker { time: at(NOW.plus(ORDER_LIFETIME_MAX).plus(SECOND)), ..by });
        assert_eq!(late.err().map(|why| why.code()), (!kind.is_state()).then_some(OrderCode::Expired), "{kind:?}");
        // It is done once.
        let mut memory = world.memory.clone();
        assert!(memory.remember(order.check(&by).unwrap()).is_ok());
        let again = if kind.is_state() { OrderCode::AlreadyHeld } else { OrderCode::AlreadyDone };
        refused(&order, &Checker { memory: &memory, ..by }, again);
        // Nothing of a body is read that is too long, another kind's, or has a member more.
        let long = format!("{}{}", order.body, " ".repeat(ORDER_BODY_MAX));
        let more = order.body.replacen('{', "{\"later\":1,", 1);
        for text in [long.as_str(), more.as_str(), "{}", ""] {
            assert!(Body::parse(*kind, text).is_err(), "{kind:?}");
        }
    }
}
