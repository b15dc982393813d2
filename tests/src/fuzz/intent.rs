//! Orders, drafts and what a heartbeat's reply brings of them: signed by an owner, whatever they say.

use std::sync::LazyLock;

use lucia_proto::base::digest::Digest;
use lucia_proto::base::json;
use lucia_proto::base::limits::{ANSWER_MAX, ORDER_AHEAD, REPORT_MAX, SIGNED_INTENT_MAX};
use lucia_proto::orders::exchange::{OrdersReply, OrdersReport};
use lucia_proto::orders::ssh_key::SshKey;
use lucia_proto::orders::{Body, Draft, OrderHead, OrderKind, OrderSignature, SignedOrder};
use lucia_proto::test_support::OrderWorld;
use serde_json::Value;

use super::{NOW, twice};

/// The fleet of the vectors: SSH keys may be signed on the page there.
pub(super) static WORLD: LazyLock<OrderWorld> = LazyLock::new(|| {
    let mut world = OrderWorld::new(NOW);
    world.change_roster(|roster| roster.page_kinds = vec![OrderKind::SshKey].into());
    world
});

/// The bytes are an order, a reply with one, a head, or a body.
pub(super) fn run(input: &[u8]) {
    if let Some(order) = twice::<SignedOrder>(input, SIGNED_INTENT_MAX) {
        judge(&order);
        judge(&signed(&order.intent_json, &order.body));
        draft(&Draft { intent_json: order.intent_json, body: order.body });
    }
    if let Some(reply) = twice::<OrdersReply>(input, ANSWER_MAX) {
        reply.intent.as_deref().into_iter().for_each(judge);
    }
    twice::<OrdersReport>(input, REPORT_MAX);
    let Ok(text) = std::str::from_utf8(input) else { return };
    text.parse::<SshKey>().iter().for_each(key);
    if let Ok(Body::SshKey(keys)) = Body::parse(OrderKind::SshKey, text) {
        keys.keys.iter().for_each(|labelled| key(labelled.key.key()));
    }
    if let Ok(intent) = OrderHead::parse(text) {
        assert_eq!(twice::<OrderHead>(input, usize::MAX).as_ref(), Some(&intent));
        judge(&signed(text, &WORLD.body(intent.kind).to_text().unwrap()));
    }
    for kind in OrderKind::ALL {
        if Body::parse(*kind, text).is_err() {
            continue;
        }
        let mut intent = WORLD.intent(*kind);
        intent.body_sha256 = Digest::of(input);
        judge(&signed(&json::to_string(&intent).unwrap(), text));
    }
}

/// As an owner signs whatever she is shown.
fn signed(intent_json: &str, body: &str) -> SignedOrder {
    let alice = &WORLD.alice;
    let text = alice.key.sign(["lucia-intent-v1\n", intent_json].concat().as_bytes()).to_text();
    let signature = OrderSignature::with_key(alice.id.clone(), alice.key.public().fingerprint(), text);
    SignedOrder { intent_json: intent_json.to_owned(), body: body.to_owned(), signatures: vec![signature] }
}

/// What a node writes into a file of SSH keys: one line of two words, whatever came with it.
fn key(key: &SshKey) {
    let text = key.to_string();
    assert!(text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{text:?}");
    assert_eq!(text.split(' ').count(), 2, "{text}");
    assert!(text.starts_with(key.kind().as_str()), "{text}");
    assert_eq!(text.parse::<SshKey>().as_ref(), Ok(key));
}

/// What is shown before it is signed is whole, and no terminal does anything about it.
fn draft(draft: &Draft) {
    let Ok(read) = draft.read() else { return };
    let words = read.words();
    assert!(!words.is_empty());
    assert!(words.iter().all(|line| !line.chars().any(char::is_control)), "{words:?}");
    assert_eq!(read.code(), lucia_proto::orders::OrderId::of(&draft.intent_json).code());
}

/// An order that is taken is one to this node, of this fleet, now, by an owner; and nothing else, and not again.
fn judge(order: &SignedOrder) {
    let Ok(intent) = OrderHead::parse(&order.intent_json) else { return };
    let checker = WORLD.checker(intent.kind);
    let Ok(verified) = order.check(&checker) else { return };
    let head: Value = serde_json::from_str(&order.intent_json).unwrap();
    assert_eq!(head["fleet"].as_str(), Some(WORLD.fleet.to_string().as_str()));
    let names = head["nodes"].as_array().unwrap();
    assert!(names.iter().any(|name| name.as_str() == Some(WORLD.node.node_id.as_str())), "{head}");
    assert_eq!(head["bodySha256"].as_str(), Some(Digest::of(order.body.as_bytes()).to_string().as_str()));
    assert!(intent.issued_at <= NOW.plus(ORDER_AHEAD));
    assert_eq!(head["notAfter"].is_string(), !intent.kind.is_state());
    let body: Value = serde_json::from_str(&order.body).unwrap();
    let hostname = WORLD.node.hostname.to_string();
    assert!(body["hostname"].is_null() || body["hostname"].as_str() == Some(&hostname), "{body}");
    assert!(verified.signers().iter().any(|owner| head["owner"].as_str() == Some(owner.as_str())));
    for owner in verified.signers() {
        assert!([&WORLD.alice.id, &WORLD.bob.id].contains(&owner), "{owner} orders nothing");
    }
    for changed in [format!("{} ", order.intent_json), order.intent_json.replacen('{', "{ ", 1)] {
        let changed = SignedOrder { intent_json: changed, ..order.clone() };
        assert!(changed.check(&checker).is_err(), "one byte more, and still signed");
    }
    let mut memory = WORLD.memory.clone();
    let carried_out = memory.remember(verified).unwrap();
    assert_eq!(carried_out.id(), order.id());
    let again = lucia_proto::orders::Checker { memory: &memory, ..checker };
    assert!(order.check(&again).is_err(), "carried out twice");
}
