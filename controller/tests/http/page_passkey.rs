//! Passkeys for orders, in a real browser: made there, signed with there, and only what the roster names (design.md O2).

use lucia_people::calls::PeopleCall;
use lucia_people::owner_api::{DraftState, DraftView};
use lucia_people::sign_in::{PasskeyForm, PasskeysView};
use lucia_proto::base::json;
use lucia_proto::orders::owner::{self, KeyUse, OwnerKey};
use lucia_proto::orders::{OrderCode, OrderKind, OrderSignature, SignedOrder, passkey_challenge};
use lucia_proto::test_support::assertion;

use crate::machine::Machine;
use crate::owners::{call, owned, publish};
use crate::page_orders::{beat, shown, stands};
use crate::sign_in::{add, cookie, enter, origin, within};
use crate::webdriver::{self, Browser};

// spec: PG-87
#[test]
fn a_passkey_for_orders_is_made_and_signs_on_the_page_what_the_roster_names() {
    const TEST: &str = "a_passkey_for_orders_is_made_and_signs_on_the_page_what_the_roster_names";
    if !webdriver::is_there(TEST) {
        return;
    }
    let (site, mut world) = owned();
    let node = Machine::managed(&site, 1);
    add(&site, 71, &world.alice);
    let alices = cookie(&enter(&site, 71));
    let browser = Browser::new(&site);
    browser.plug_in();
    browser.is_signed_in(&alices);

    // It is made, shown as luciactl takes it, and sent to nobody.
    browser.go("/passkeys");
    browser.is_at("/passkeys");
    browser.shows("lucia-enrollment-worker roster page-kinds");
    browser.type_in("#orders-label", "laptop, for orders");
    browser.click("#orders-form button");
    let text = || browser.run("return document.getElementById('orders-text').value").as_str().unwrap().to_owned();
    browser.until("the passkey as text", |_| !text().is_empty());
    browser.picture("passkey-for-orders");
    let form: PasskeyForm = json::from_str(&text(), 4096, 8).unwrap();
    let key = form.key().unwrap();
    assert_eq!(form.label.as_str(), "laptop, for orders");
    let typed = format!("owner approve {} --fingerprint HEX", owner::code(&key));
    browser.shows(&typed);
    let sent =
        "return performance.getEntriesByType('resource').filter(({name}) => name.endsWith('/api/host/passkeys'))";
    assert_eq!(browser.run(&format!("{sent}.length")), 0);
    let own: PasskeysView = within(&site, &alices, "GET", "/api/host/passkeys", "").read();
    assert_eq!(own.passkeys.len(), 1, "and signs nobody in");

    // The worker's host takes it, and lets keys be signed here.
    let page = origin(&site);
    world.change_roster(|roster| {
        roster.page_kinds = vec![OrderKind::SshKey].into();
        roster.page_origin = Some(page.clone());
        roster.owners[0].keys.push(OwnerKey {
            key_use: KeyUse::OrderPasskey,
            public_key_pem: key.to_pem(),
            credential_id: Some(form.credential_id.clone()),
        });
    });
    publish(&site, &world);
    let [keys, removal] = [OrderKind::SshKey, OrderKind::RemoveIdentity].map(|kind| {
        let draft = world.draft(kind, |intent| intent.nodes = vec![node.id().clone()]);
        let body = json::to_string(&draft).unwrap();
        let _: DraftView = site.order("POST", PeopleCall::AddDraft.path(), &body).read();
        draft
    });
    let code = keys.read().unwrap().code();
    let view = |code| -> DraftView { call(&site, &world.alice, "GET", &PeopleCall::Draft.path_for(code), "").read() };

    // A session that has no right assertion gets nothing: another's key, another order, a sign-in's challenge, no person.
    let post = |code, signature: &OrderSignature| {
        within(&site, &alices, "POST", &PeopleCall::Sign.path_for(code), &json::to_string(signature).unwrap())
    };
    let (right, none) = (passkey_challenge(&keys.intent_json), |_: &mut String, _: &mut Vec<u8>| ());
    let alice = |assertion| {
        OrderSignature::with_passkey(world.alice.id.clone(), world.alice.passkey.public().fingerprint(), assertion)
    };
    for (name, signature) in [
        ("another's passkey", alice(assertion(&world.mallory.passkey, &right, &page, none))),
        (
            "another order",
            alice(assertion(&world.alice.passkey, &passkey_challenge(&removal.intent_json), &page, none)),
        ),
        ("no order", alice(assertion(&world.alice.passkey, &[7; 32], &page, none))),
        ("nobody verified", alice(assertion(&world.alice.passkey, &right, &page, |_, data| data[32] = 1))),
        ("another page", alice(assertion(&world.alice.passkey, &right, &"https://evil.test".parse().unwrap(), none))),
    ] {
        let refused = post(&code, &signature);
        assert_eq!(refused.code(), "intent_refused", "{name}");
        assert!(refused.body.contains(OrderCode::SignatureInvalid.as_str()), "{name}: {refused:?}");
    }
    assert_eq!(view(&code).signatures, []);

    // Of a kind that the roster does not name nothing is signed here.
    let other = removal.read().unwrap().code();
    browser.go(&format!("/orders/{other}"));
    browser.shows("page-kinds");
    assert_eq!(browser.run("return document.querySelectorAll(\"[data-act='sign-here']\").length"), 0);
    let refused = post(&other, &world.alice.touch(&removal, &page));
    assert!(refused.body.contains(OrderCode::PageNotAllowed.as_str()), "{refused:?}");
    assert_eq!(view(&other).signatures, []);

    // And the one that it names is, beside its words and the warning.
    browser.go(&format!("/orders/{code}"));
    browser.has("section:has([data-act='sign-here']) strong");
    browser.shows("Lets whoever holds 1 SSH key log in as alice");
    browser.shows("luciactl sign ");
    browser.picture("order-to-sign-here");
    browser.run("window.here = true");
    browser.click("[data-act='sign-here']");
    let said = browser.says(false);
    stands(&browser, "[data-order-state]", DraftState::Signed);
    assert_eq!(browser.run("return window.here"), true, "the document was loaded anew");
    let kept = view(&code);
    let [signature] = kept.signatures.as_slice() else { panic!("{kept:?}") };
    assert_eq!((&signature.owner, signature.key), (&world.alice.id, key.fingerprint()));
    let order = SignedOrder { intent_json: keys.intent_json, body: keys.body, signatures: kept.signatures.clone() };
    order.check_signature(signature, OrderKind::SshKey, &world.roster).unwrap();
    // The node gets it, and from then on nobody calls it back.
    assert_eq!(beat(&site, &world, &node, Vec::new()), Some(order.id()));
    browser.has("[data-handed-out]");
    browser.picture("order-handed-out");
    assert_eq!(shown(&browser, "said"), said);
    assert_eq!(browser.errors(), Vec::<String>::new());
}
