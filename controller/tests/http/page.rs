//! The page over the wire and in a real browser.

use lucia_people::calls::PeopleCall;
use lucia_people::host_api::OnboardingView;
use lucia_people::sign_in::PasskeysView;
use lucia_proto::base::json;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::heartbeat::Heartbeat;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::orders::owner::{KeyUse, OwnerKey};
use lucia_proto::orders::owner_proof::{OWNER_PROOF_HEADER, OwnerProof};
use lucia_proto::pki::key::NodeKey;

use crate::machine::Machine;
use crate::owners::{asked, call, challenge, owned, publish};
use crate::page_orders::shown;
use crate::sign_in::{add, cookie, enter, within};
use crate::site::{Site, request};
use crate::slow::wait_until;
use crate::webdriver::{self, Browser};

/// Every document that no id is needed for.
pub(crate) const DOCUMENTS: &[&str] = &["/", "/window", "/orders", "/keys", "/owners", "/audit", "/passkeys"];

// spec: PG-17
#[test]
fn without_a_session_every_document_leads_to_signing_in_and_every_header_is_there() {
    let (site, world) = owned();
    add(&site, 71, &world.alice);
    let alices = cookie(&enter(&site, 71));
    let id = "0123456789abcdef0123456789abcdef";
    let (server, device) = (format!("/servers/{id}"), format!("/devices/{id}"));
    for path in DOCUMENTS.iter().copied().chain([server.as_str(), device.as_str(), "/sign-in"]) {
        let open = matches!(path, "/passkeys" | "/sign-in");
        let known = !path.contains(id);
        for (answer, status) in [
            (site.send(&request("GET", path, &[], "")), if open { 200 } else { 303 }),
            (within(&site, &alices, "GET", path, ""), if known { 200 } else { 404 }),
        ] {
            assert_eq!(answer.status, status, "{path}");
            assert_eq!(answer.header("location"), (status == 303).then_some("/sign-in"), "{path}");
            let policy = answer.header("content-security-policy").unwrap();
            for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
                assert!(policy.contains(rule) && !policy.contains("unsafe"), "{path}: {policy}");
            }
            for (name, value) in [
                ("x-frame-options", "DENY"),
                ("x-content-type-options", "nosniff"),
                ("referrer-policy", "no-referrer"),
                ("cross-origin-opener-policy", "same-origin"),
                ("cache-control", "no-store"),
                ("content-type", "text/html; charset=utf-8"),
            ] {
                assert_eq!(answer.header(name), Some(value), "{path} {name}");
            }
            assert!(answer.header("permissions-policy").is_some());
        }
        assert_eq!(site.send(&request("POST", path, &[], "")).code(), "method_not_allowed");
        assert_eq!(site.order("GET", path, "").code(), "not_found", "not for the operator's socket");
    }
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/page")).unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        let kind = if file.ends_with(".css") { "text/css" } else { "text/javascript" };
        let answer = site.send(&request("GET", &format!("/assets/{file}"), &[], ""));
        assert_eq!(answer.status, 200, "{file}");
        assert!(answer.header("content-type").unwrap().starts_with(kind));
    }
    for path in ["/assets/../config", "/assets/lucia.js?x", "/index.html", "//", "/servers/x"] {
        assert_eq!(site.send(&request("GET", path, &[], "")).code(), "not_found", "{path}");
    }
}

/// Reads a stream until it has said all of `words`.
fn hear(stream: &mut impl std::io::Read, words: &[&str]) -> String {
    let mut heard = String::new();
    while !words.iter().all(|word| heard.contains(word)) {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap_or_else(|error| panic!("{error}, having heard {heard}"));
        assert!(read > 0, "the stream ended, having said {heard}");
        heard.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    heard
}

// spec: PG-15
#[test]
fn whoever_watches_hears_of_changes_until_their_session_ends() {
    use std::io::Write as _;
    let (site, world) = owned();
    add(&site, 71, &world.alice);
    let node = Machine::managed(&site, 1);
    let alices = cookie(&enter(&site, 71));
    assert_eq!(site.send(&request("GET", "/api/host/stream", &[], "")).code(), "actor_required");
    let mut stream = site.tls();
    stream.write_all(&request("GET", "/api/host/stream", &[("Cookie", &alices)], "")).unwrap();
    let heard = hear(&mut stream, &["event: nodes", node.id().as_str(), "\"load\":\"0.5\""]);
    assert!(heard.contains("text/event-stream") && heard.to_ascii_lowercase().contains("connection: close"), "{heard}");
    beat(&site, &node, 7.25);
    hear(&mut stream, &["event: nodes", "\"load\":\"7.2\""]);
    assert_eq!(site.order("POST", "/api/host/onboarding/window", r#"{"minutes":5}"#).status, 200);
    hear(&mut stream, &["event: list"]);
    assert_eq!(within(&site, &alices, "DELETE", "/api/host/sessions", "").status, 200);
    ends(&mut stream);
}

/// Reads it to its end. It tells that it is there every 4 seconds, so waiting for the end alone would have none.
#[track_caller]
fn ends(stream: &mut impl std::io::Read) {
    let (mut heard, mut bytes) = (String::new(), [0; 4096]);
    while let Ok(length @ 1..) = stream.read(&mut bytes) {
        heard.push_str(&String::from_utf8_lossy(&bytes[..length]));
        assert!(heard.matches("event: tick").count() < 8, "it goes on");
    }
}

// spec: PG-81
#[test]
fn whoever_watches_by_proof_is_let_go_when_they_leave_the_roster() {
    use std::io::Write as _;
    let (site, mut world) = owned();
    let asked = asked(site.ca.root().sha256(), &world.alice.id, "GET", "/api/host/stream", "");
    let proof = OwnerProof::sign(&asked, &challenge(&site), &world.alice.key).unwrap().to_header();
    let mut stream = site.tls();
    stream.write_all(&request("GET", "/api/host/stream", &[(OWNER_PROOF_HEADER, &proof)], "")).unwrap();
    hear(&mut stream, &["event: list"]);
    world.change_roster(|roster| roster.owners.retain(|owner| owner.name.as_str() != "alice"));
    publish(&site, &world);
    ends(&mut stream);
}

/// A key that was stolen is taken out of the roster; its owner stays, by another one.
// spec: CO-92
#[test]
fn whoever_watches_by_a_key_that_was_taken_away_is_let_go_and_its_owner_watches_on_by_another() {
    use std::io::Write as _;
    let (site, mut world) = owned();
    let (alice, further) = (world.alice.id.clone(), lucia_proto::test_support::key(51));
    world.change_roster(|roster| {
        let owner = roster.owners.iter_mut().find(|owner| owner.id == alice).unwrap();
        let further = further.public().to_pem();
        owner.keys.push(OwnerKey { key_use: KeyUse::OwnerKey, public_key_pem: further, credential_id: None });
    });
    publish(&site, &world);
    let watch = |key: &NodeKey| {
        let asked = asked(site.ca.root().sha256(), &alice, "GET", "/api/host/stream", "");
        let proof = OwnerProof::sign(&asked, &challenge(&site), key).unwrap().to_header();
        let mut stream = site.tls();
        stream.write_all(&request("GET", "/api/host/stream", &[(OWNER_PROOF_HEADER, &proof)], "")).unwrap();
        hear(&mut stream, &["event: list"]);
        stream
    };
    let (mut stolen, mut own) = (watch(&world.alice.key), watch(&further));
    let gone = world.alice.key.public().to_pem();
    world.change_roster(|roster| {
        let owner = roster.owners.iter_mut().find(|owner| owner.id == alice).unwrap();
        owner.keys.retain(|key| key.public_key_pem != gone);
    });
    publish(&site, &world);
    ends(&mut stolen);
    assert_eq!(site.order("POST", "/api/host/onboarding/window", r#"{"minutes":5}"#).status, 200);
    hear(&mut own, &["event: list"]);
}

/// A heartbeat with this load.
fn beat(site: &Site, node: &Machine, load: f64) {
    let text =
        json::to_string(&node.beat()).unwrap().replace("\"loadAverage\":0.5", &format!("\"loadAverage\":{load}"));
    let report: Heartbeat = json::from_str(&text, 4096, 8).unwrap();
    let answer = node.node_call(site, Endpoint::Heartbeat, node.sign(site, &report));
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[track_caller]
fn quiet(browser: &Browser) {
    assert_eq!(browser.errors(), Vec::<String>::new(), "the console at {}", browser.path());
}

// spec: PG-18
#[test]
fn a_person_adds_a_passkey_signs_in_approves_a_machine_and_signs_out() {
    if !webdriver::is_there("a_person_adds_a_passkey_signs_in_approves_a_machine_and_signs_out") {
        return;
    }
    let (site, world) = owned();
    let node = Machine::managed(&site, 1);
    let waiting = Machine::new(9);
    assert_eq!(waiting.discover(&site).status, 200);
    let browser = Browser::new(&site);
    browser.plug_in();
    // Nobody is let in, and is told how to be.
    browser.go("/");
    browser.is_at("/sign-in");
    browser.picture("sign-in");
    browser.click("main a[href='/passkeys']");
    browser.is_at("/passkeys");
    // A passkey, and its code on the owner's own machine.
    browser.type_in("#label", "laptop");
    browser.click("#passkey-form button");
    let code = || browser.run("return document.getElementById('passkey-code').textContent");
    browser.until("the code of the passkey", |_| code() != "");
    browser.picture("passkey-made");
    quiet(&browser);
    let confirmed = code().as_str().unwrap().to_owned();
    browser.go("/sign-in");
    browser.click("[data-act='sign-in']");
    browser.says(true);
    assert!(!browser.errors().is_empty(), "the refusal is in the console, as the browser writes each");
    let passkeys: PasskeysView = call(&site, &world.alice, "GET", "/api/host/passkeys", "").read();
    assert_eq!(passkeys.passkeys, []);
    let approve = PeopleCall::ApprovePasskey.path_for(&confirmed);
    assert_eq!(call(&site, &world.alice, "POST", &approve, "").status, 200);
    browser.click("[data-act='sign-in']");
    browser.is_at("/");
    browser.shows(node.node.hostname.as_str());
    browser.shows(&waiting.node.fingerprint.verification_code().to_string());
    browser.picture("servers");
    quiet(&browser);
    // Live: the number changes without a reload.
    browser.run("window.here = true");
    browser.is_live();
    beat(&site, &node, 7.25);
    browser.shows("7.2");
    assert_eq!(browser.run("return window.here"), true, "nothing was reloaded");
    // Every document, wide and narrow, light and dark.
    let server = format!("/servers/{}", node.id());
    let device = format!("/devices/{}", waiting.id());
    for path in DOCUMENTS.iter().copied().chain([server.as_str(), device.as_str()]) {
        for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark"), (320, "light")] {
            browser.wide(width);
            browser.colours(scheme);
            browser.go(path);
            browser.is_at(path);
            let over = browser.run("return document.documentElement.scrollWidth - window.innerWidth");
            assert!(over.as_i64().unwrap() <= 0, "{path} is {over} too wide at {width}");
            let name = path.split('/').nth(1).filter(|name| !name.is_empty()).unwrap_or("list");
            browser.picture(&format!("{name}-{width}-{scheme}"));
        }
        quiet(&browser);
        // By keyboard: the first stop is the link past the list of documents.
        assert_eq!(browser.run("return document.querySelector('a').className"), "skip");
        let unnamed = "return [...document.querySelectorAll('button, a, input, textarea, select, svg:not([aria-hidden])')].filter((e) => !(e.innerText || \
                       e.textContent || e.ariaLabel || (e.labels && e.labels.length))).map((e) => e.outerHTML)";
        assert_eq!(browser.run(unnamed), serde_json::json!([]), "{path}: everything has a name");
    }
    browser.wide(1280);
    browser.colours("light");
    // Approve: nothing goes on before all is filled in.
    browser.go(&device);
    browser.is_at(&device);
    browser.click("#approve-form button[type='submit']");
    assert_eq!(phase(&site, &waiting), DevicePhase::Discovered);
    browser.type_in("#hostname", "web9");
    browser.click("[name='disk']");
    browser.click("[name='same']");
    browser.type_in("#erase", "erase");
    let said = "const erase = document.getElementById('erase'); const said = erase.validationMessage; erase.value = ''; return said";
    assert!(browser.run(said).as_str().is_some_and(|said| said.contains("ERASE")));
    browser.type_in("#erase", "ERASE");
    browser.click("#approve-form button[type='submit']");
    browser.until("the approval", |_| phase(&site, &waiting) == DevicePhase::Approved);
    assert!(browser.says(false).contains("web9"));
    let over = "return !document.getElementById('compare') && document.querySelector('#approve-form').closest('section').hidden";
    browser.until("the steps that are over", |browser| browser.run(over) == true);
    browser.picture("approved");
    // Out, and nobody any more.
    browser.click("[data-act='sign-out']");
    browser.is_at("/sign-in");
    browser.go("/");
    browser.is_at("/sign-in");
    let _ = browser.errors();
    assert_eq!(site.order("DELETE", &PeopleCall::RemovePasskey.path_for(&confirmed), "").status, 200);
    browser.click("[data-act='sign-in']");
    browser.says(true);
    wait_until("no session is left", || site.order("GET", "/api/host/sessions", "").body.contains("\"sessions\":[]"));
}

/// The browser's clock runs so fast that the ticks come too late, as those of a controller that is silent do.
// spec: PG-345
#[test]
fn a_page_without_ticks_says_that_it_is_not_live_and_its_spans_count_on() {
    if !webdriver::is_there("a_page_without_ticks_says_that_it_is_not_live_and_its_spans_count_on") {
        return;
    }
    let (site, world) = owned();
    let node = Machine::managed(&site, 1);
    beat(&site, &node, 0.25);
    add(&site, 71, &world.alice);
    let browser = Browser::new(&site);
    browser.go("/sign-in");
    browser.is_signed_in(&cookie(&enter(&site, 71)));
    browser.go(&format!("/servers/{}", node.id()));
    browser.is_live();
    let old = |browser: &Browser| browser.run("return document.getElementById('main').classList.contains('old')");
    assert_eq!(old(&browser), false);
    browser.run("window.real = performance.now.bind(performance); performance.now = () => window.real() * 1000");
    browser.until("that it is not live", |browser| old(browser) == true);
    browser.until("an alert", |browser| browser.run("return !document.getElementById('away').hidden") == true);
    let heard = "return document.querySelector(\"section[aria-labelledby='identity'] dl time\").textContent";
    // A span of minutes, within seconds and with no answer of the controller.
    browser.until("a span that counts on", |browser| browser.run(heard).as_str().unwrap().contains(" min "));
    browser.run("performance.now = window.real");
    browser.is_live();
    assert_eq!(old(&browser), false);
    assert_eq!(browser.run("return document.getElementById('away').hidden"), true);
    quiet(&browser);
}

fn phase(site: &Site, machine: &Machine) -> DevicePhase {
    let view: OnboardingView = site.order("GET", "/api/host/onboarding", "").read();
    view.devices.iter().find(|device| device.device_id == *machine.id()).expect("the machine").phase
}

// spec: PG-94
#[test]
fn at_an_address_that_is_not_there_a_person_gets_a_document_and_a_program_json() {
    let (site, world) = owned();
    add(&site, 71, &world.alice);
    let alices = cookie(&enter(&site, 71));
    let html = ("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8");
    let get = |path: &str, headers: &[(&str, &str)]| site.send(&request("GET", path, headers, ""));
    for path in ["/nowhere", "/servers/web-1", "/?x", "/assets/other.css", "/apis", "/orders/1a2b"] {
        let answer = get(path, &[html]);
        assert_eq!((answer.status, answer.header("content-type")), (404, Some("text/html; charset=utf-8")), "{path}");
        assert!(answer.body.contains("href=\"/\""), "{path}");
        assert!(answer.header("content-security-policy").is_some() && !answer.body.contains("alice"), "{path}");
    }
    let known = get("/nowhere", &[html, ("cookie", &alices)]);
    assert!(known.body.contains("alice") && known.body.contains("aria-label=\"Documents\""), "{}", known.body);
    for (path, headers) in [
        ("/nowhere", &[] as &[(&str, &str)]),
        ("/nowhere", &[("accept", "*/*")]),
        ("/nowhere", &[("accept", "application/json")]),
        ("/api", &[html]),
        ("/api/host/nowhere", &[html]),
        ("/v1/nodes", &[html]),
    ] {
        let answer = get(path, headers);
        assert_eq!((answer.status, answer.header("content-type")), (404, Some("application/json")), "{path}");
    }
    let posted = site.send(&request("POST", "/nowhere", &[html], "{}"));
    assert_eq!((posted.status, posted.header("content-type")), (404, Some("application/json")));
}

// spec: PG-95
#[test]
fn a_passkey_says_by_itself_that_it_was_confirmed() {
    if !webdriver::is_there("a_passkey_says_by_itself_that_it_was_confirmed") {
        return;
    }
    let (site, world) = owned();
    let browser = Browser::new(&site);
    browser.plug_in();
    browser.go("/passkeys");
    browser.is_at("/passkeys");
    browser.type_in("#label", "laptop");
    browser.click("#passkey-form button");
    browser.until("what became of it", |browser| !shown(browser, "passkey-state").is_empty());
    let before = ["passkey-state", "passkey-next"].map(|id| shown(&browser, id));
    let code = browser.run("return document.getElementById('passkey-code').textContent");
    let code = code.as_str().unwrap().to_owned();
    let state = |path: &str| site.send(&request("GET", path, &[], ""));
    assert!(state(&format!("/passkeys?asked={code}")).body.contains("data-state=\"waits\""));
    let approve = PeopleCall::ApprovePasskey.path_for(&code);
    assert_eq!(call(&site, &world.alice, "POST", &approve, "").status, 200);
    browser.until("that it was confirmed", |browser| {
        ["passkey-state", "passkey-next"].iter().zip(&before).all(|(id, before)| shown(browser, id) != *before)
    });
    browser.picture("passkey-confirmed");
    quiet(&browser);
    browser.click("#passkey-next");
    browser.is_at("/sign-in");
    // Of another one nothing is said but that it is not there, and no code comes from an address.
    let other = state("/passkeys?asked=1a2b-3c4d-5e6f").body;
    assert!(other.contains("data-state=\"gone\"") && !other.contains("1a2b-3c4d-5e6f"), "{other}");
    for query in ["asked=", "asked=x", "other=1a2b-3c4d-5e6f"] {
        assert_eq!(state(&format!("/passkeys?{query}")).status, 404, "{query}");
    }
}
