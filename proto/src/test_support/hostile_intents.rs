//! Orders that nobody may carry out, each with the code that refuses it: what a controller in an attacker's hands, a
//! viewer, a stranger and somebody on the way can make of good ones (threats.md C, O; design.md O2).

use super::orders::{OrderWorld, assertion};
use super::{TestCa, key};
use crate::base::digest::Digest;
use crate::orders::{Draft, OrderCode, OrderKind, OrderSignature, SignedOrder, passkey_challenge};
use crate::pki::key::NodeKey;

/// An order that must be refused, and the code that says why.
#[derive(Clone, Debug)]
pub struct HostileOrder {
    /// Who makes it and how.
    pub name: String,
    /// The kind that it says it is of.
    pub kind: OrderKind,
    /// What refuses it.
    pub code: OrderCode,
    /// The order.
    pub signed: SignedOrder,
}

/// The table, of each kind.
#[must_use]
pub fn hostile_intents(world: &OrderWorld) -> Vec<HostileOrder> {
    let mut out = Vec::new();
    for kind in OrderKind::ALL {
        let mut add = |name: &str, code, signed| {
            out.push(HostileOrder { name: format!("{}: {name}", kind.as_str()), kind: *kind, code, signed });
        };
        signatures(world, *kind, &mut add);
        texts(world, *kind, &mut add);
        targets(world, *kind, &mut add);
        passkeys(world, *kind, &mut add);
    }
    out
}

type Add<'a> = dyn FnMut(&str, OrderCode, SignedOrder) + 'a;

fn signatures(world: &OrderWorld, kind: OrderKind, add: &mut Add<'_>) {
    let draft = world.draft(kind, |_| ());
    let (alice, bob, victor, mallory) = (&world.alice, &world.bob, &world.victor, &world.mallory);
    let raw = |by: &NodeKey, head: &str| {
        let text = by.sign([head, &draft.intent_json].concat().as_bytes()).to_text();
        OrderSignature::with_key(alice.id.clone(), by.public().fingerprint(), text)
    };
    let good = alice.sign(&draft);
    let of = |signature: OrderSignature| world.signed(&draft, vec![signature]);
    add("no signature", OrderCode::Malformed, world.signed(&draft, Vec::new()));
    add("three signatures", OrderCode::Malformed, world.signed(&draft, vec![good.clone(), good.clone(), good.clone()]));
    add("a stranger in its owner's name", OrderCode::KeyUnknown, of(raw(&mallory.key, "lucia-intent-v1\n")));
    add("the controller's own key in its owner's name", OrderCode::KeyUnknown, of(raw(&key(99), "lucia-intent-v1\n")));
    add(
        "the worker's key in its owner's name",
        OrderCode::KeyUnknown,
        of(raw(&world.ca.worker_key, "lucia-intent-v1\n")),
    );
    add("another owner's key in its owner's name", OrderCode::KeyUnknown, of(raw(&bob.key, "lucia-intent-v1\n")));
    add("the passkey's key in the plain form", OrderCode::KeyUnknown, of(raw(&alice.passkey, "lucia-intent-v1\n")));
    add("another owner alone", OrderCode::OwnerUnknown, of(bob.sign(&draft)));
    add("its owner, and a stranger besides", OrderCode::OwnerUnknown, {
        world.signed(&draft, vec![good.clone(), mallory.sign(&draft)])
    });
    add("its owner, and a viewer besides", OrderCode::NotAnOwner, {
        world.signed(&draft, vec![good.clone(), victor.sign(&draft)])
    });
    for (name, head) in [
        ("no head", ""),
        ("the head of another version", "lucia-intent-v2\n"),
        ("the head of a request", "lucia-owner-v1\n"),
        ("the head of a node", "lucia-discovery-v1\n"),
    ] {
        add(&format!("signed under {name}"), OrderCode::SignatureInvalid, of(raw(&alice.key, head)));
    }
    let over_hash = alice.key.sign(Digest::of(draft.intent_json.as_bytes()).as_bytes()).to_text();
    let fingerprint = alice.key.public().fingerprint();
    let text = |text: String| of(OrderSignature::with_key(alice.id.clone(), fingerprint, text));
    add("its hash signed as if it were a challenge", OrderCode::SignatureInvalid, text(over_hash));
    add("no signature's form", OrderCode::SignatureInvalid, text(String::new()));
    add("a signature of zeros", OrderCode::SignatureInvalid, text(format!("{}==", "A".repeat(86))));
    let another =
        world.draft(kind, |intent| intent.issued_at = intent.issued_at.plus(std::time::Duration::from_secs(1)));
    add("the signature under another order", OrderCode::SignatureInvalid, of(alice.sign(&another)));
    add("one good signature and one that is none", OrderCode::SignatureInvalid, {
        let bad = OrderSignature::with_key(bob.id.clone(), bob.key.public().fingerprint(), String::new());
        world.signed(&draft, vec![good, bad])
    });
}

fn texts(world: &OrderWorld, kind: OrderKind, add: &mut Add<'_>) {
    let good = world.order(kind);
    let head = |change: &dyn Fn(&str) -> String| {
        let mut signed = good.clone();
        signed.intent_json = change(&signed.intent_json);
        assert_ne!(signed.intent_json, good.intent_json, "{}", kind.as_str());
        signed
    };
    add("a space more", OrderCode::SignatureInvalid, head(&|text| text.replacen("{\"", "{ \"", 1)));
    add(
        "another spelling of a word",
        OrderCode::SignatureInvalid,
        head(&|text| text.replacen("\"kind\"", "\"k\\u0069nd\"", 1)),
    );
    add("a member more", OrderCode::Malformed, head(&|text| text.replacen('{', "{\"all\":true,", 1)));
    add("a member twice", OrderCode::Malformed, head(&|text| text.replacen('{', "{\"kind\":\"ssh-key\",", 1)));
    add("a list", OrderCode::Malformed, head(&|text| format!("[{text}]")));
    add("nothing", OrderCode::Malformed, head(&|_| String::new()));
    add("an unknown kind", OrderCode::Malformed, head(&|text| text.replacen(kind.as_str(), "exec", 1)));
    add("too long", OrderCode::Malformed, head(&|text| format!("{text}{}", " ".repeat(24 * 1024))));
    let id = world.node.node_id.as_str();
    add("for all", OrderCode::Malformed, head(&|text| text.replacen(&format!("[\"{id}\"]"), "\"all\"", 1)));
    add("for one called all", OrderCode::Malformed, head(&|text| text.replacen(id, "all", 1)));
    add("for nobody", OrderCode::Malformed, head(&|text| text.replacen(&format!("\"{id}\""), "", 1)));
    add(
        "for one twice",
        OrderCode::Malformed,
        head(&|text| text.replacen(&format!("\"{id}\""), &format!("\"{id}\",\"{id}\""), 1)),
    );
    let body = |change: &dyn Fn(&mut String)| {
        let mut signed = good.clone();
        change(&mut signed.body);
        signed
    };
    add("a space more in its body", OrderCode::BodyMismatch, body(&|text| text.push(' ')));
    add("another body", OrderCode::BodyMismatch, body(&|text| *text = "{}".to_owned()));
    add("no body", OrderCode::BodyMismatch, body(&String::clear));
}

fn targets(world: &OrderWorld, kind: OrderKind, add: &mut Add<'_>) {
    let other = || world.other.node_id.clone();
    // A body that fits is made for the node, so a head for another one is signed as it is.
    let signed = |change: &dyn Fn(&mut String)| {
        let mut draft = world.draft(kind, |_| ());
        change(&mut draft.intent_json);
        let text = world.alice.key.sign(["lucia-intent-v1\n", &draft.intent_json].concat().as_bytes()).to_text();
        let signature = OrderSignature::with_key(world.alice.id.clone(), world.alice.key.public().fingerprint(), text);
        world.signed(&draft, vec![signature])
    };
    let id = world.node.node_id.as_str();
    add("for another node", OrderCode::NotNamed, signed(&|text| *text = text.replacen(id, other().as_str(), 1)));
    let foreign = TestCa::with_keys(world.now, 211).root().sha256().to_string();
    let fleet = world.fleet.to_string();
    add("of another fleet", OrderCode::OtherFleet, signed(&|text| *text = text.replacen(&fleet, &foreign, 1)));
    let sha256 = Digest::of(world.order(kind).body.as_bytes()).to_string();
    let zero = Digest::ZERO.to_string();
    add("with another hash, signed", OrderCode::BodyMismatch, signed(&|text| *text = text.replacen(&sha256, &zero, 1)));
}

fn passkeys(world: &OrderWorld, kind: OrderKind, add: &mut Add<'_>) {
    let draft: Draft = world.draft(kind, |_| ());
    let origin = OrderWorld::origin();
    add("by a passkey, where the page may not", OrderCode::PageNotAllowed, {
        world.signed(&draft, vec![world.alice.touch(&draft, &origin)])
    });
    // The owner key in the passkey's form: what a page could get out of a key that signs both.
    let assertion = assertion(&world.alice.key, &passkey_challenge(&draft.intent_json), &origin, |_, _| ());
    let signature =
        OrderSignature::with_passkey(world.alice.id.clone(), world.alice.key.public().fingerprint(), assertion);
    add("by the owner key in a passkey's form", OrderCode::KeyUnknown, world.signed(&draft, vec![signature]));
}
