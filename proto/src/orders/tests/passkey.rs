//! Passkeys: what a page may do, and what its tricks gain.

use super::*;
use crate::base::digest::Digest;
use crate::node::challenge::Nonce;
use crate::node::challenge::{Challenge, ChallengeId};
use crate::orders::head::signed_text;
use crate::pki::key::NodeKey;
use crate::test_support::assertion;
use owner::PageOrigin;

const KIND: OrderKind = OrderKind::SshKey;

/// A world whose page may sign SSH keys.
fn page() -> OrderWorld {
    let mut world = world();
    world.change_roster(|roster| roster.page_kinds = vec![KIND].into());
    world
}

fn by_passkey(world: &OrderWorld, draft: &Draft, key: &NodeKey, assertion: Assertion) -> SignedOrder {
    let fingerprint = key.public().fingerprint();
    world.signed(draft, vec![OrderSignature::with_passkey(world.alice.id.clone(), fingerprint, assertion)])
}

// spec: IN-18
#[test]
fn a_passkey_signs_the_kinds_that_the_roster_names_and_no_others() {
    let world = page();
    for kind in OrderKind::ALL {
        let draft = world.draft(*kind, |_| ());
        let order = world.signed(&draft, vec![world.alice.touch(&draft, &OrderWorld::origin())]);
        if *kind == KIND {
            assert!(order.check(&world.checker(*kind)).is_ok());
        } else {
            refused(&order, &world.checker(*kind), OrderCode::PageNotAllowed);
        }
    }
    let mut world = page();
    world.change_roster(|roster| roster.page_kinds = Vec::new().into());
    let draft = world.draft(KIND, |_| ());
    let order = world.signed(&draft, vec![world.alice.touch(&draft, &OrderWorld::origin())]);
    refused(&order, &world.checker(KIND), OrderCode::PageNotAllowed);
}

type Change = dyn Fn(&mut String, &mut Vec<u8>);

// spec: IN-19
#[test]
fn an_assertion_is_of_this_page_this_order_and_a_verified_person() {
    let world = page();
    let draft = world.draft(KIND, |_| ());
    let right = passkey_challenge(&draft.intent_json);
    let origin = OrderWorld::origin();
    let made = |challenge: &[u8; 32], origin: &PageOrigin, change: &Change| {
        let assertion = assertion(&world.alice.passkey, challenge, origin, change);
        by_passkey(&world, &draft, &world.alice.passkey, assertion).check(&world.checker(KIND))
    };
    let same: &Change = &|_, _| ();
    assert!(made(&right, &origin, same).is_ok());
    let accepted: [(&str, &Change); 4] = [
        ("what browsers add", &|text, _| {
            *text = text.replacen('{', "{\"other_keys_can_be_added_here\":\"do not compare\",", 1)
        }),
        ("crossOrigin left out", &|text, _| *text = text.replace(",\"crossOrigin\":false", "")),
        ("a counter of zero", &|_, data| data[36] = 0),
        ("a key that is kept nowhere else", &|_, data| data[32] = 0x05),
    ];
    for (name, change) in accepted {
        assert!(made(&right, &origin, change).is_ok(), "{name}");
    }
    let refused: [(&str, &Change); 21] = [
        ("made to register", &|text, _| *text = text.replace("webauthn.get", "webauthn.create")),
        ("made to pay", &|text, _| *text = text.replace("webauthn.get", "payment.get")),
        ("another page", &|text, _| *text = text.replace("https://controller", "https://controller.evil")),
        ("another port", &|text, _| *text = text.replace(":8443", ":9443")),
        ("no TLS", &|text, _| *text = text.replace("https:", "http:")),
        ("inside another page", &|text, _| *text = text.replace("\"crossOrigin\":false", "\"crossOrigin\":true")),
        ("below another page", &|text, _| *text = text.replacen('{', "{\"topOrigin\":\"https://evil\",", 1)),
        ("a challenge in other letters", &|text, _| *text = text.replace("\"challenge\":\"", "\"challenge\":\"A")),
        ("two challenges", &|text, _| *text = text.replacen('{', "{\"challenge\":\"AAAA\",", 1)),
        ("two types", &|text, _| *text = text.replacen('{', "{\"type\":\"webauthn.get\",", 1)),
        ("no origin", &|text, _| *text = text.replace("\"origin\"", "\"other\"")),
        ("no JSON", &|text, _| text.push('x')),
        ("no text", &|text, _| text.clear()),
        ("text without end", &|text, _| text.push_str(&" ".repeat(crate::base::limits::CLIENT_DATA_MAX))),
        ("another site", &|_, data| data[0] ^= 1),
        ("nobody there", &|_, data| data[32] = 0x04),
        ("somebody, and not who", &|_, data| data[32] = 0x01),
        ("a new credential inside", &|_, data| data[32] |= 0x40),
        ("extensions", &|_, data| data[32] |= 0x80),
        ("a byte more", &|_, data| data.push(0)),
        ("a byte less", &|_, data| data.truncate(36)),
    ];
    for (name, change) in refused {
        let refusal = made(&right, &origin, change).expect_err(name);
        assert_eq!(refusal.code(), OrderCode::SignatureInvalid, "{name}");
    }
    let another = world.draft(KIND, |intent| intent.issued_at = NOW.minus(SECOND));
    for (name, challenge) in [
        ("a sign-in's challenge", [7; 32]),
        ("the hash of the order", *Digest::of(draft.intent_json.as_bytes()).as_bytes()),
        ("the hash of what an owner key signs", *Digest::of(&signed_text(&draft.intent_json)).as_bytes()),
        ("another order's challenge", passkey_challenge(&another.intent_json)),
    ] {
        let refusal = made(&challenge, &origin, same).expect_err(name);
        assert_eq!(refusal.code(), OrderCode::SignatureInvalid, "{name}");
    }
    // Signed by the passkey, and then changed; and signed by somebody else.
    let mut changed = assertion(&world.alice.passkey, &right, &origin, |_, _| ());
    changed.authenticator_data[36] ^= 1;
    let order = by_passkey(&world, &draft, &world.alice.passkey, changed);
    super::refused(&order, &world.checker(KIND), OrderCode::SignatureInvalid);
    let forged = assertion(&world.mallory.passkey, &right, &origin, |_, _| ());
    let order = by_passkey(&world, &draft, &world.alice.passkey, forged);
    super::refused(&order, &world.checker(KIND), OrderCode::SignatureInvalid);
}

// spec: IN-20
#[test]
fn what_a_page_gets_signed_for_signing_in_is_no_order() {
    let world = page();
    let draft = world.draft(KIND, |_| ());
    let right = passkey_challenge(&draft.intent_json);
    // The page offers the order's challenge as a sign-in. The passkey for signing in is in no roster.
    let sign_in = crate::test_support::key(61);
    let order = by_passkey(&world, &draft, &sign_in, assertion(&sign_in, &right, &OrderWorld::origin(), |_, _| ()));
    refused(&order, &world.checker(KIND), OrderCode::KeyUnknown);
    // The controller offers the order as the challenge of a request, in every way that a challenge can hold it.
    for nonce in [Nonce::from_bytes(&right), Nonce::from_bytes(Digest::of(draft.intent_json.as_bytes()).as_bytes())] {
        let challenge = Challenge { challenge_id: ChallengeId::from_parts(1, 2), nonce, expires_at: NOW };
        let request = owner_proof::OwnerRequest {
            fleet: world.fleet,
            owner: world.alice.id.clone(),
            method: owner_proof::Method::Get,
            target: "/api/host/nodes".parse().unwrap(),
            body_sha256: Digest::of(draft.intent_json.as_bytes()),
        };
        let proof = owner_proof::OwnerProof::sign(&request, &challenge, &world.alice.key).unwrap();
        let fingerprint = world.alice.key.public().fingerprint();
        let signature = OrderSignature::with_key(world.alice.id.clone(), fingerprint, proof.signature);
        refused(&world.signed(&draft, vec![signature]), &world.checker(KIND), OrderCode::SignatureInvalid);
    }
}
