//! Signing in over the wire: the cookie, what a session may, and what it never may.

use lucia_people::audit::{AuditVia, AuditView};
use lucia_people::calls::PeopleCall;
use lucia_people::sign_in::{self, PasskeyAsked, PasskeyForm, PasskeysView, SessionsView, SignIn, SignedIn};
use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::KeyLabel;
use lucia_proto::base::json;
use lucia_proto::orders::owner::{CredentialId, PageOrigin};
use lucia_proto::test_support::{TestOwner, assertion, key};

use crate::owners::{call, challenge, owned, publish};
use crate::site::{Answer, NAME, Site, request};
use crate::slow::wait_until;

/// The page of this site.
pub(crate) fn origin(site: &Site) -> PageOrigin {
    format!("https://{NAME}:{}", site.address.port()).parse().unwrap()
}

fn form(number: u8) -> PasskeyForm {
    PasskeyForm {
        label: KeyLabel::fitted("<b>laptop</b>").unwrap(),
        credential_id: CredentialId::from_bytes(vec![number; 16]).unwrap(),
        public_key: key(number).public().der().to_vec(),
    }
}

fn post(site: &Site, row: PeopleCall, origin: &str, body: &str) -> Answer {
    site.send(&request(row.method(), row.path(), &[("Origin", origin)], body))
}

/// Hands in the passkey of this number and has `who` confirm it.
pub(crate) fn add(site: &Site, number: u8, who: &TestOwner) -> PasskeyAsked {
    let body = json::to_string(&form(number)).unwrap();
    let asked: PasskeyAsked = post(site, PeopleCall::AskPasskey, origin(site).as_str(), &body).read();
    let answer = call(site, who, "POST", &PeopleCall::ApprovePasskey.path_for(&asked.code), "");
    assert_eq!(answer.status, 200, "{answer:?}");
    asked
}

pub(crate) fn enter(site: &Site, number: u8) -> Answer {
    let challenge = challenge(site);
    let signed = sign_in::challenge(&challenge.challenge_id, &challenge.nonce);
    let sign_in = SignIn {
        challenge_id: challenge.challenge_id,
        credential_id: form(number).credential_id,
        assertion: assertion(&key(number), &signed, &origin(site), |_, _| ()),
    };
    post(site, PeopleCall::SignIn, origin(site).as_str(), &json::to_string(&sign_in).unwrap())
}

/// What the browser keeps of an answer.
pub(crate) fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").expect("a cookie").split(';').next().unwrap().to_owned()
}

/// A call in a session, as the page makes it.
pub(crate) fn within(site: &Site, cookie: &str, method: &str, path: &str, body: &str) -> Answer {
    site.send(&request(method, path, &[("Cookie", cookie), ("Origin", origin(site).as_str())], body))
}

// spec: PG-7, PG-8, AU-42
#[test]
fn a_session_may_what_its_owner_may_but_nothing_that_takes_the_key() {
    let (site, mut world) = owned();
    add(&site, 71, &world.alice);
    let viewer = add(&site, 72, &world.victor);
    let answer = enter(&site, 71);
    let begun: SignedIn = answer.read();
    assert_eq!(begun.name.as_str(), "alice");
    let set = answer.header("set-cookie").unwrap();
    assert!(set.starts_with("__Host-lucia-session=") && set.ends_with("; Path=/; Secure; HttpOnly; SameSite=Strict"));
    let (alices, victors) = (cookie(&answer), cookie(&enter(&site, 72)));
    // Looking and changing, by the same table as a proof.
    assert_eq!(within(&site, &alices, "GET", "/api/host/nodes", "").status, 200);
    assert_eq!(within(&site, &victors, "GET", "/api/host/nodes", "").status, 200);
    let window = ("POST", "/api/host/onboarding/window", r#"{"minutes":5}"#);
    assert_eq!(within(&site, &victors, window.0, window.1, window.2).code(), "role_required");
    let before = site.journal();
    for headers in [
        vec![("Cookie", alices.as_str())],
        vec![("Cookie", alices.as_str()), ("Origin", "https://evil.test")],
        vec![("Cookie", alices.as_str()), ("Origin", "null")],
        vec![("Cookie", "__Host-lucia-session=AAAA"), ("Origin", origin(&site).as_str())],
    ] {
        let answer = site.send(&request(window.0, window.1, &headers, window.2));
        assert_eq!(answer.code(), "actor_required", "{headers:?}");
    }
    assert_eq!(site.journal(), before);
    assert_eq!(within(&site, &alices, window.0, window.1, window.2).status, 200);
    let audit: AuditView = call(&site, &world.victor, "GET", "/api/host/audit?after=0", "").read();
    let last = audit.entries.last().unwrap();
    assert_eq!((last.action, last.via), (Act::WindowOpened, Some(AuditVia::Session)));
    assert!(String::from_utf8(site.journal()).unwrap().contains("owner:alice"));
    // A session confirms no passkey, its own neither.
    let body = json::to_string(&form(73)).unwrap();
    let asked: PasskeyAsked = post(&site, PeopleCall::AskPasskey, origin(&site).as_str(), &body).read();
    let approve = PeopleCall::ApprovePasskey.path_for(&asked.code);
    assert_eq!(within(&site, &alices, "POST", &approve, "").code(), "actor_required");
    assert_eq!(enter(&site, 73).code(), "actor_required");
    // It lets go of no node and decides about no clone; the key does.
    for (row, command) in [
        (PeopleCall::Remove, "luciactl remove NODE"),
        (PeopleCall::KeepClone, "luciactl clone keep NODE --start ID"),
        (PeopleCall::SplitClone, "luciactl clone split NODE"),
    ] {
        let path = row.path_for(&"01".repeat(16));
        let body = if row == PeopleCall::KeepClone {
            format!(r#"{{"startId":"{}"}}"#, "02".repeat(16))
        } else {
            String::new()
        };
        let refused = within(&site, &alices, row.method(), &path, &body);
        assert_eq!(refused.code(), "owners_sign", "{row:?}");
        assert!(refused.body.contains(command), "{refused:?}");
        assert_eq!(within(&site, &victors, row.method(), &path, &body).code(), "role_required", "{row:?}");
        assert_eq!(call(&site, &world.alice, row.method(), &path, &body).code(), "unknown_node", "{row:?}");
    }
    // Nor does it let a machine take a node's place, which removes that node.
    let approve = PeopleCall::Approve.path_for(&"01".repeat(16));
    let form = format!(r#"{{"hostname":"n1","diskId":"d1","confirmation":"ERASE","replaces":"{}"}}"#, "02".repeat(16));
    let refused = within(&site, &alices, "POST", &approve, &form);
    assert_eq!(refused.code(), "owners_sign");
    assert!(refused.body.contains("--replaces NODE"), "{refused:?}");
    assert_eq!(call(&site, &world.alice, "POST", &approve, &form).code(), "device_not_found");
    let form = form.replace(r#","replaces""#, r#","replaced""#);
    assert_eq!(within(&site, &alices, "POST", &approve, &form).code(), "invalid_body", "nothing unknown is let by");
    // From another page nobody is asked in.
    assert_eq!(post(&site, PeopleCall::AskPasskey, "https://evil.test", &body).code(), "actor_required");
    // One's own sessions and passkeys, and their end.
    let sessions: SessionsView = within(&site, &alices, "GET", "/api/host/sessions", "").read();
    assert_eq!(sessions.sessions.len(), 1);
    let passkeys: PasskeysView = within(&site, &victors, "GET", "/api/host/passkeys", "").read();
    assert_eq!(passkeys.passkeys.len(), 1);
    assert_eq!(passkeys.passkeys[0].code, viewer.code);
    let removed = within(&site, &victors, "DELETE", &PeopleCall::RemovePasskey.path_for(&viewer.code), "");
    assert_eq!(removed.read::<PasskeysView>().passkeys, []);
    assert_eq!(within(&site, &victors, "GET", "/api/host/nodes", "").code(), "actor_required");
    let ended = within(&site, &alices, "DELETE", "/api/host/sessions", "");
    assert_eq!(ended.read::<SessionsView>().sessions, []);
    assert!(ended.header("set-cookie").unwrap().ends_with("Max-Age=0"));
    assert_eq!(within(&site, &alices, "GET", "/api/host/nodes", "").code(), "actor_required");
    // Who leaves the roster is out with the next call.
    let alices = cookie(&enter(&site, 71));
    world.change_roster(|roster| roster.owners.retain(|owner| owner.name.as_str() != "alice"));
    publish(&site, &world);
    assert_eq!(within(&site, &alices, "GET", "/api/host/nodes", "").code(), "actor_required");
    assert_eq!(enter(&site, 71).code(), "actor_required");
}

// spec: CO-23
#[test]
fn changes_in_a_session_are_counted_and_looks_are_not() {
    let (site, world) = owned();
    add(&site, 71, &world.alice);
    let alices = cookie(&enter(&site, 71));
    let end = PeopleCall::EndSession.path_for(&"1a2b-3c4d-5e6f");
    wait_until("a change too many", || {
        (0..40).any(|_| within(&site, &alices, "DELETE", &end, "").code() == "too_many_requests")
    });
    for _ in 0..40 {
        assert_eq!(within(&site, &alices, "GET", "/api/host/sessions", "").status, 200);
    }
}
