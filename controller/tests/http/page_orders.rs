//! Orders on the page, in a real browser: drafted there, signed on an owner's own machine, carried out by a node, and each
//! step seen without a reload (design.md O2). Keys by keyboard alone.

use lucia_people::calls::PeopleCall;
use lucia_people::host_api::{NodeView, OnboardingView};
use lucia_people::owner_api::{DraftState, DraftView, DraftsView};
use lucia_people::why::Why;
use lucia_proto::base::json;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::heartbeat::{Heartbeat, HeartbeatReply};
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::orders::application::Application;
use lucia_proto::orders::exchange::{NodeOutcome, OrdersReport};
use lucia_proto::orders::{Body, Decision, OrderId, OrderKind};
use lucia_proto::pki::key::VerificationCode;
use lucia_proto::test_support::OrderWorld;
use serde_json::{Value, json as value};

use crate::machine::Machine;
use crate::owners::{call, freeze, owned};
use crate::sign_in::{add, cookie, enter, within};
use crate::site::{Site, request};
use crate::webdriver::{self, Browser};

/// The line of a public key file, with a comment that is not signed.
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f alice@laptop";
const PRINT: &str = "SHA256:";

/// A browser in which alice has signed in.
fn signed_in(site: &Site, world: &OrderWorld) -> Browser {
    let browser = Browser::new(site);
    browser.plug_in();
    browser.go("/passkeys");
    browser.is_at("/passkeys");
    browser.type_in("#label", "laptop");
    browser.click("#passkey-form button");
    browser.until("the code of the passkey", |browser| !shown(browser, "passkey-code").is_empty());
    let code: VerificationCode = shown(&browser, "passkey-code").parse().unwrap();
    assert_eq!(call(site, &world.alice, "POST", &PeopleCall::ApprovePasskey.path_for(&code), "").status, 200);
    browser.go("/sign-in");
    browser.click("[data-act='sign-in']");
    browser.is_at("/");
    browser.is_live();
    browser
}

/// The text of the element of this id.
pub(crate) fn shown(browser: &Browser, id: &str) -> String {
    let text = browser.run(&format!("return document.getElementById('{id}')?.textContent ?? ''"));
    text.as_str().unwrap().to_owned()
}

/// Where the box of the last drafted order says that it stands.
const BOX: &str = "#draft-state";

/// Waits until what `css` matches says that the order stands there.
#[track_caller]
pub(crate) fn stands(browser: &Browser, css: &str, state: DraftState) {
    let text = format!("return document.querySelector({})?.textContent.toLowerCase() ?? ''", value!(css));
    browser.until(state.words(), |browser| browser.run(&text).as_str().unwrap().starts_with(state.words()));
}

/// Waits until the page says that this is wrong with the key of the form, in the controller's words for it.
#[track_caller]
fn says_of_the_key(browser: &Browser, why: &str) {
    let words = format!("document.getElementById('key-text').dataset.{why}");
    let said = format!("{words} && document.getElementById('said').textContent === {words}");
    browser.until(why, |browser| browser.is(&said));
}

/// The order that the page has just drafted, as the controller has it.
fn drafted(site: &Site, world: &OrderWorld, browser: &Browser) -> (VerificationCode, DraftView) {
    browser.until("a code to sign", |browser| {
        browser.run("return !document.getElementById('draft').hidden") == true
            && !shown(browser, "draft-code").is_empty()
    });
    let code: VerificationCode = shown(browser, "draft-code").parse().unwrap();
    let view = call(site, &world.alice, "GET", &PeopleCall::Draft.path_for(&code), "").read();
    (code, view)
}

/// Alice signs it as `luciactl sign CODE` does, on her own machine.
fn sign(site: &Site, world: &OrderWorld, code: &VerificationCode, view: &DraftView) -> OrderId {
    let body = json::to_string(&world.alice.sign(&view.draft)).unwrap();
    let answer = call(site, &world.alice, "POST", &PeopleCall::Sign.path_for(code), &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    OrderId::of(&view.draft.intent_json)
}

/// A heartbeat that tells of orders; the order that comes with its answer.
pub(crate) fn beat(site: &Site, world: &OrderWorld, node: &Machine, outcomes: Vec<NodeOutcome>) -> Option<OrderId> {
    let report = OrdersReport {
        bundle_version: world.bundle.bundle().version,
        roster_version: world.roster.version(),
        freshness: None,
        outcomes,
    };
    let mut text = json::to_string(&node.beat()).unwrap();
    text.pop();
    let text = format!(r#"{text},"orders":{}}}"#, json::to_string(&report).unwrap());
    let beat: Heartbeat = json::from_str(&text, 1 << 16, 8).unwrap();
    let reply: HeartbeatReply = node.node_call(site, Endpoint::Heartbeat, node.sign(site, &beat)).read();
    reply.orders.and_then(|orders| orders.intent).map(|intent| intent.id())
}

/// The node takes the order and says that it is done.
fn carry_out(site: &Site, world: &OrderWorld, node: &Machine, intent: OrderId) {
    assert_eq!(beat(site, world, node, Vec::new()), Some(intent));
    assert_eq!(beat(site, world, node, vec![NodeOutcome { intent, refused: None }]), None);
}

/// Presses keys as a person does, wherever the focus is.
fn press(browser: &Browser, keys: &str) {
    let strokes: Vec<Value> = keys
        .chars()
        .flat_map(|key| ["keyDown", "keyUp"].map(|kind| value!({"type": kind, "value": key.to_string()})))
        .collect();
    let actions = value!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]});
    browser.call("POST", "/actions", &actions);
}

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

/// Goes on with the Tab key until the focus is at `css`, past no more stops than there are.
fn tab_to(browser: &Browser, css: &str) {
    for _ in 0..60 {
        press(browser, TAB);
        let at = format!("return document.activeElement?.matches({}) ?? false", value!(css));
        if browser.run(&at) == true {
            let seen =
                "const box = document.activeElement.getBoundingClientRect(); return box.width > 0 && box.height > 0";
            assert_eq!(browser.run(seen), true, "the focus at {css} can be seen");
            return;
        }
    }
    panic!("the Tab key does not lead to {css}");
}

/// Nothing is loaded anew from here on without this being lost.
fn mark(browser: &Browser) {
    browser.run("window.here = true");
}

#[track_caller]
fn is_marked(browser: &Browser) {
    assert_eq!(browser.run("return window.here"), true, "the document was loaded anew");
}

// spec: PG-36, PG-348
#[test]
fn a_key_is_given_by_keyboard_alone_and_taken_and_the_page_goes_on_as_it_is_signed() {
    if !webdriver::is_there("a_key_is_given_by_keyboard_alone_and_taken_and_the_page_goes_on_as_it_is_signed") {
        return;
    }
    let (site, world) = owned();
    let (node, other) = (Machine::managed(&site, 1), Machine::managed(&site, 2));
    let browser = signed_in(&site, &world);
    browser.go("/keys");
    browser.has("[data-live=keys] .empty");
    browser.is_live();
    mark(&browser);
    // Past the list of documents, into the form, through it and out of it, without a mouse.
    press(&browser, TAB);
    assert_eq!(browser.run("return document.activeElement.className"), "skip");
    press(&browser, ENTER);
    tab_to(&browser, "#keys-form [name='what']");
    tab_to(&browser, "#account");
    press(&browser, "alice");
    tab_to(&browser, "#key-label");
    press(&browser, "laptop");
    tab_to(&browser, "#key-text");
    press(&browser, KEY);
    tab_to(&browser, &format!("#choose input[value='{}']", node.id()));
    press(&browser, " ");
    assert_eq!(shown(&browser, "chosen"), "1 chosen");
    browser.picture("keys-form");
    tab_to(&browser, "#keys-form button[type='submit']");
    press(&browser, ENTER);
    let (code, view) = drafted(&site, &world, &browser);
    browser
        .until("the focus where it goes on", |browser| browser.run("return document.activeElement.id") == "draft-head");
    let read = view.draft.read().unwrap();
    assert_eq!(read.intent().nodes, [node.id().clone()], "the chosen one by its id, and no other");
    let Body::SshKey(keys) = read.body() else { panic!("another order") };
    assert_eq!(keys.keys[0].key.key().to_string(), KEY.rsplit_once(' ').unwrap().0);
    stands(&browser, BOX, DraftState::Drafted);
    browser.picture("keys-drafted");
    // Signed elsewhere, carried out by the node: the page says both by itself.
    // Whatever is drawn, the box of the draft and the list never say two things of the order.
    browser.run(&format!(
        "window.split = []; const look = () => {{ const tag = document.querySelector('[data-standing=\"{code}\"]'); \
         const box = document.getElementById('draft-state').textContent.toLowerCase(); \
         if (tag && !box.startsWith(tag.textContent)) window.split.push([tag.textContent, box]); requestAnimationFrame(look); }}; look()"
    ));
    let intent = sign(&site, &world, &code, &view);
    stands(&browser, BOX, DraftState::Signed);
    assert_eq!(beat(&site, &world, &other, Vec::new()), None, "it is not for the other node");
    carry_out(&site, &world, &node, intent);
    stands(&browser, BOX, DraftState::Done);
    assert_eq!(browser.run("return window.split"), value!([]));
    let print = keys.keys[0].key.key().fingerprint();
    assert!(print.starts_with(PRINT));
    browser.shows(&print);
    is_marked(&browser);
    browser.picture("keys-given");
    // Its own document has the words of the signed bytes.
    browser.click("#draft-link");
    browser.is_at(&format!("/orders/{code}"));
    browser.shows("Lets whoever holds 1 SSH key log in as alice");
    browser.picture("order");
    // And taken: by its button, for the nodes that have it.
    browser.go("/keys");
    browser.click("[data-act='take-key']");
    browser.until("the key to take", |browser| {
        browser.run("return document.getElementById('key-held').value") == print.as_str()
    });
    assert_eq!(shown(&browser, "chosen"), "1 chosen");
    mark(&browser);
    browser.click("#keys-form button[type='submit']");
    let (code, view) = drafted(&site, &world, &browser);
    let Body::SshKey(keys) = view.draft.read().unwrap().body().clone() else { panic!("another order") };
    assert_eq!(keys.keys, []);
    let intent = sign(&site, &world, &code, &view);
    carry_out(&site, &world, &node, intent);
    stands(&browser, BOX, DraftState::Done);
    browser.until("no key to take", |browser| browser.is("!document.querySelector(\"[data-act='take-key']\")"));
    is_marked(&browser);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

// spec: PG-36
#[test]
fn a_clone_is_seen_and_decided_about_and_a_session_elsewhere_is_ended() {
    if !webdriver::is_there("a_clone_is_seen_and_decided_about_and_a_session_elsewhere_is_ended") {
        return;
    }
    let (site, world) = owned();
    let (node, other) = (Machine::managed(&site, 1), Machine::managed(&site, 2));
    // One of them takes orders, so nothing about it wants a look.
    assert_eq!(beat(&site, &world, &other, Vec::new()), None);
    let browser = signed_in(&site, &world);
    let link = format!("a[href='/servers/{}']", node.id());
    browser.run(&format!("document.querySelector(\"{link}\").focus()"));
    mark(&browser);
    freeze(&site, &node);
    let view: NodeView = call(&site, &world.alice, "GET", &PeopleCall::Node.path_for(node.id()), "").read();
    assert!(view.node.frozen);
    let looks = Why::of(&view, &[]).looks().join("; ");
    let cell = format!("return document.querySelector(\"tr[data-node='{}']\").lastElementChild.textContent", node.id());
    browser.until(&looks, |browser| browser.run(&cell).as_str().is_some_and(|text| text.trim() == looks));
    // A machine that comes meanwhile moves nobody's focus.
    let waiting = Machine::new(9);
    assert_eq!(waiting.discover(&site).status, 200);
    browser.shows(waiting.node.fingerprint.verification_code().as_str());
    assert_eq!(browser.run(&format!("return document.activeElement.matches(\"{link}\")")), true);
    // Of many nodes a reader picks those that want a look, and a list that changes keeps to that.
    browser.click("#only-looks");
    let seen = "return [...document.querySelectorAll('tr[data-node]')].filter((row) => !row.hidden).length";
    browser.until("the one that wants a look", |browser| browser.run(seen) == 1);
    let another = Machine::new(10);
    assert_eq!(another.discover(&site).status, 200);
    browser.shows(another.node.fingerprint.verification_code().as_str());
    assert_eq!(browser.run(seen), 1);
    browser.click("#only-looks");
    browser.until("all of them", |browser| browser.run(seen) == 2);
    is_marked(&browser);
    browser.picture("clone-in-list");
    browser.click(&link);
    browser.has(".why li strong");
    browser.is_live();
    browser.picture("clone");
    browser.click("[data-kind='clone-decision']");
    let (code, view) = drafted(&site, &world, &browser);
    let read = view.draft.read().unwrap();
    let Body::CloneDecision(decision) = read.body() else { panic!("another order") };
    assert_eq!((decision.decision, decision.start_id.is_some()), (Decision::Keep, true));
    sign(&site, &world, &code, &view);
    stands(&browser, BOX, DraftState::Signed);
    browser.picture("clone-decided");
    // A name that is known is told, and taking that node's place is left to the owner key; then the page goes on, and the
    // order that admits the machine names the node whose place it takes.
    browser.go(&format!("/devices/{}", waiting.id()));
    browser.type_in("#hostname", other.node.hostname.as_str());
    browser.type_in("#erase", "ERASE");
    browser.until("the known name", |browser| browser.is("!document.getElementById('replaces').hidden"));
    browser.click("[name='disk']");
    browser.click("[name='same']");
    browser.shows(&format!("--hostname {0} --disk disk0 --replaces {0}", other.node.hostname));
    browser.picture("replaces");
    mark(&browser);
    browser.click("#approve-form button[type='submit']");
    let phase = || {
        let onboarding: OnboardingView = site.order("GET", "/api/host/onboarding", "").read();
        onboarding.devices.iter().find(|device| device.device_id == *waiting.id()).unwrap().phase
    };
    assert_eq!(phase(), DevicePhase::Discovered, "the form is not sent");
    let form = format!(
        r#"{{"hostname":"{}","diskId":"disk0","confirmation":"ERASE","replaces":"{}"}}"#,
        other.node.hostname,
        other.id()
    );
    let path = PeopleCall::Approve.path_for(waiting.id());
    assert_eq!(call(&site, &world.alice, "POST", &path, &form).status, 200);
    browser.click("[data-kind='admit']");
    is_marked(&browser);
    let (_, view) = drafted(&site, &world, &browser);
    let read = view.draft.read().unwrap();
    let Body::Admit(admit) = read.body() else { panic!("another order") };
    assert_eq!((read.intent().kind, admit.replaces.as_ref()), (OrderKind::Admit, Some(other.id())));
    assert_eq!(phase(), DevicePhase::Approved);
    // One is rejected and restored, on the list itself.
    let third = Machine::new(11);
    assert_eq!(third.discover(&site).status, 200);
    assert_eq!(site.order("POST", &PeopleCall::Reject.path_for(third.id()), "").status, 200);
    browser.go("/");
    browser.click("[data-act='restore']");
    browser.says(false);
    // Signed in elsewhere too: seen, ended, and over there.
    add(&site, 71, &world.alice);
    let elsewhere = cookie(&enter(&site, 71));
    assert_eq!(within(&site, &elsewhere, "GET", "/api/host/nodes", "").status, 200);
    browser.go("/owners");
    browser.has("[data-act='end-session']:not([data-current])");
    mark(&browser);
    browser.click("[data-act='end-session']:not([data-current])");
    browser.says(false);
    is_marked(&browser);
    assert_eq!(within(&site, &elsewhere, "GET", "/api/host/nodes", "").code(), "actor_required");
    browser.picture("owners-session-ended");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

// spec: PG-105
#[test]
fn what_goes_wrong_is_said_beside_what_was_pressed_and_nothing_bad_is_handed_in() {
    if !webdriver::is_there("what_goes_wrong_is_said_beside_what_was_pressed_and_nothing_bad_is_handed_in") {
        return;
    }
    let (site, world) = owned();
    let node = Machine::managed(&site, 1);
    let browser = signed_in(&site, &world);
    let is_beside = |browser: &Browser, css: &str| {
        let seen = format!(
            "const said = document.getElementById('said'), box = said.getBoundingClientRect(); \
             return said.role === 'alert' && document.activeElement === said && box.top >= 0 && box.bottom <= innerHeight \
             && document.querySelector({css}).compareDocumentPosition(said) === Node.DOCUMENT_POSITION_FOLLOWING",
            css = value!(css)
        );
        browser.until("what is wrong, beside what was pressed", |browser| browser.run(&seen) == true);
    };
    browser.go("/keys");
    browser.type_in("#account", "alise");
    browser.type_in("#key-label", "laptop");
    browser.until("a word on the account", |browser| browser.is("!document.getElementById('account-new').hidden"));
    browser.run(&format!("document.querySelector(\"#choose input[value='{}']\").click()", node.id()));
    let submit = "#keys-form button[type='submit']";
    for (key, why) in
        [("ssh-dss AAAA", "kind"), ("ssh-rsa !", "base64"), ("ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIAAB", "blob")]
    {
        browser.run(&format!("document.getElementById('key-text').value = {}", value!(key)));
        browser.click(submit);
        says_of_the_key(&browser, why);
        is_beside(&browser, submit);
    }
    browser.picture("key-refused");
    let drafts: DraftsView = call(&site, &world.alice, "GET", PeopleCall::Drafts.path(), "").read();
    assert_eq!(drafts.drafts, []);
    // In what is put in anew it stays: a look that comes meanwhile leaves it where it is.
    browser.go("/owners");
    browser.is_live();
    let end = "[data-act='end-session']";
    browser.run(&format!(
        "const button = document.querySelector({end}); delete button.dataset.current; \
         button.dataset.code = '0000-0000-0000'; button.click()",
        end = value!(end)
    ));
    is_beside(&browser, end);
    let looked = format!("return document.querySelector({}).dataset.code !== '0000-0000-0000'", value!(end));
    browser.until("another look", |browser| browser.run(&looked) == true);
    is_beside(&browser, end);
    // The console names the refused call and nothing else.
    assert!(browser.errors().iter().all(|error| error.contains("0000-0000-0000")));
}

// spec: PG-200
#[test]
fn a_pasted_private_key_stays_in_no_field() {
    if !webdriver::is_there("a_pasted_private_key_stays_in_no_field") {
        return;
    }
    let (site, world) = owned();
    let node = Machine::managed(&site, 1);
    let browser = signed_in(&site, &world);
    browser.go("/keys");
    browser.type_in("#account", "alise");
    browser.type_in("#key-label", "laptop");
    browser.run(&format!("document.querySelector(\"#choose input[value='{}']\").click()", node.id()));
    let held = "return document.getElementById('key-text').value";
    for key in ["-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk=", "PuTTY-User-Key-File-3: ssh-ed25519"] {
        // As a paste leaves it, and as a browser that fills forms in by itself does.
        for event in ["field.dispatchEvent(new Event('input', { bubbles: true }))", "field.form.requestSubmit()"] {
            browser.run(&format!(
                "const field = document.getElementById('key-text'); field.value = {}; {event}",
                value!(key)
            ));
            browser.until("the field is empty", |browser| browser.run(held) == "");
            says_of_the_key(&browser, "private");
        }
    }
    let drafts: DraftsView = call(&site, &world.alice, "GET", PeopleCall::Drafts.path(), "").read();
    assert_eq!(drafts.drafts, []);
}

// spec: PG-201
#[test]
fn on_a_phone_no_name_of_a_column_reaches_into_the_next_row() {
    if !webdriver::is_there("on_a_phone_no_name_of_a_column_reaches_into_the_next_row") {
        return;
    }
    let (site, world) = owned();
    let node = Machine::managed(&site, 1);
    let draft = world.draft(OrderKind::SshKey, |intent| intent.nodes = vec![node.id().clone()]);
    let body = json::to_string(&draft).unwrap();
    let _: DraftView = site.order("POST", PeopleCall::AddDraft.path(), &body).read();
    let browser = signed_in(&site, &world);
    browser.wide(360);
    browser.go("/orders");
    let tall = "return [...document.querySelectorAll('.rows td[data-name]')].filter((cell) => cell.offsetHeight > 0) \
                .map((cell) => [cell.dataset.name, cell.clientHeight - parseFloat(getComputedStyle(cell, '::before').height)])";
    browser.until("the list", |browser| browser.run(tall).as_array().is_some_and(|cells| cells.len() > 3));
    let cells = browser.run(tall);
    for cell in cells.as_array().unwrap() {
        assert!(cell[1].as_f64().is_some_and(|room| room >= -0.5), "{cell}");
    }
    browser.picture("orders-phone");
}

// spec: PG-34
#[test]
fn who_asks_to_become_an_owner_is_shown_with_what_the_operator_types() {
    let (site, world) = owned();
    add(&site, 71, &world.alice);
    let alices = cookie(&enter(&site, 71));
    let asked = Application::sign("carol".parse().unwrap(), site.ca.root().sha256(), site.at, &world.mallory.key);
    let apply = PeopleCall::Apply;
    let body = json::to_string(&asked).unwrap();
    assert_eq!(site.send(&request(apply.method(), apply.path(), &[], &body)).status, 200);
    let key = world.mallory.key.public();
    let typed = format!("owner approve {} --fingerprint HEX", lucia_proto::orders::owner::code(key));
    let shown = within(&site, &alices, "GET", "/owners", "").body;
    assert!(shown.contains(&typed) && shown.contains("carol"), "{shown}");
    let first = key.fingerprint().rows()[0].split(' ').take(4).collect::<Vec<_>>().join(" ");
    assert!(shown.contains(&first) && !shown.contains(&key.fingerprint().to_string()), "{shown}");
}

// spec: PG-35
#[test]
fn orders_and_audit_are_shown_by_parts_and_nothing_else_is_asked_of_them() {
    let (site, world) = owned();
    add(&site, 71, &world.alice);
    let alices = cookie(&enter(&site, 71));
    let status = |path: &str| within(&site, &alices, "GET", path, "").status;
    for path in ["/audit?before=1", "/audit?before=99999999", "/audit", "/orders"] {
        assert_eq!(status(path), 200, "{path}");
    }
    for path in
        ["/audit?before=", "/audit?before=x", "/audit?after=1", "/audit?", "/orders?after=1a2b", "/orders?before=1"]
    {
        assert_eq!(status(path), 404, "{path}");
    }
    // A code that there is not, and a query where none is taken.
    for path in ["/orders?after=1a2b-3c4d-5e6f", "/orders/1a2b-3c4d-5e6f", "/orders/1a2b", "/keys?node=1", "/?x"] {
        assert_eq!(status(path), 404, "{path}");
    }
    assert_eq!(site.send(&request("GET", "/audit?before=1", &[], "")).status, 303);
}

// spec: PG-90, PG-91
#[test]
fn an_order_for_a_node_that_is_removed_meanwhile_is_followed_to_its_end() {
    if !webdriver::is_there("an_order_for_a_node_that_is_removed_meanwhile_is_followed_to_its_end") {
        return;
    }
    let (site, world) = owned();
    let (node, other) = (Machine::managed(&site, 1), Machine::managed(&site, 2));
    let browser = signed_in(&site, &world);
    browser.go(&format!("/servers/{}", node.id()));
    browser.click("[data-act='draft'][data-kind='remove-identity']");
    stands(&browser, BOX, DraftState::Drafted);
    // Keys for that one and another, of which one is removed before the order comes to it.
    browser.go("/keys");
    browser.type_in("#account", "alice");
    browser.type_in("#key-label", "laptop");
    browser.type_in("#key-text", KEY);
    browser.click(&format!("#choose input[value='{}']", node.id()));
    browser.click("#keys-form button[type='submit']");
    stands(&browser, BOX, DraftState::Drafted);
    mark(&browser);
    assert_eq!(site.order("DELETE", &PeopleCall::Remove.path_for(node.id()), "").status, 200);
    let name = &node.node.hostname;
    stands(&browser, BOX, DraftState::NobodyLeft);
    assert!(shown(&browser, "draft-state").contains(name.as_str()));
    browser.picture("nobody-left");
    is_marked(&browser);
    browser.click("#draft-link");
    browser.has(&format!("#main table a[href='/servers/{}']", node.id()));
    browser.picture("order-nobody-left");
    browser.click(&format!("main a[href='/servers/{}']", node.id()));
    browser.has("[data-live=removed]");
    browser.shows(&format!("lucia-enrollment-worker confirm-removals {name}"));
    browser.picture("removed");
    browser.go(&format!("/servers/{}", other.id()));
    browser.shows("Why");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

// spec: PG-111
#[test]
fn the_open_document_of_what_is_no_more_becomes_by_itself_what_that_is_now() {
    if !webdriver::is_there("the_open_document_of_what_is_no_more_becomes_by_itself_what_that_is_now") {
        return;
    }
    let (site, world) = owned();
    let node = Machine::managed(&site, 1);
    let (comes, goes) = (Machine::new(7), Machine::new(9));
    let browser = signed_in(&site, &world);
    let has =
        |part: &str| browser.run(&format!("return document.querySelector('[data-live={part}]') !== null")) == true;
    let open = |path: &str, part: &str| {
        browser.go(path);
        browser.is_live();
        assert!(has(part), "{path} has {part}");
    };
    // A node that is removed; a draft about it that stands open goes with it.
    open(&format!("/servers/{}", node.id()), "server");
    browser.click("[data-act='draft'][data-kind='remove-identity']");
    stands(&browser, BOX, DraftState::Drafted);
    assert_eq!(site.order("DELETE", &PeopleCall::Remove.path_for(node.id()), "").status, 200);
    browser.has("[data-live=removed]");
    browser.shows(node.node.hostname.as_str());
    assert!(has("removed") && !has("server") && !has("actions"), "nothing of the node is left");
    browser.picture("removed-open");
    // A machine that becomes a node is one there, and has its name over it.
    assert_eq!(comes.discover(&site).status, 200);
    open(&format!("/devices/{}", comes.id()), "device");
    let comes = Machine::managed(&site, 7);
    browser.until("the document of the node", |_| has("server"));
    assert_eq!(browser.run("return document.querySelector('h1').textContent"), comes.node.hostname.as_str());
    // One that is dismissed is said to be gone.
    assert_eq!(goes.discover(&site).status, 200);
    assert_eq!(site.order("POST", &PeopleCall::Reject.path_for(goes.id()), "").status, 200);
    open(&format!("/devices/{}", goes.id()), "device");
    assert_eq!(site.order("POST", &PeopleCall::Dismiss.path_for(goes.id()), "").status, 200);
    browser.until("the end of its document", |_| !has("device"));
}
