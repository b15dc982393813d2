//! Documents as they leave: nothing from a node is markup, nothing is inline, all of it is small.

use lucia_proto::audit::{AuditAction, AuditActor, AuditChain, AuditEntry, AuditNote};
use lucia_proto::host_api::{DeviceView, NodeLine, NodeView, OnboardingView, SnapshotState, SshKeyView, WorkerView};
use lucia_proto::intent::{Body, IntentKind};
use lucia_proto::json;
use lucia_proto::owner_api::DraftState;
use lucia_proto::roster::Roster;
use lucia_proto::test_support::OrderWorld;

use super::*;

/// Markup in every way it could be meant; none of it may be left as it is.
const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x onerror=y>&amp;{{7*7}}";
const NOW: u64 = 1_795_982_400;

fn frame(at: &'static str) -> Frame {
    let who = Who { name: "alice".parse().unwrap(), role: Role::Owner };
    Frame::new("A title", at, Some(who), UnixTime::from_secs(NOW))
}

fn time(secs: u64) -> UnixTime {
    UnixTime::from_secs(secs)
}

fn device() -> DeviceView {
    let text = serde_json::to_string(HOSTILE).unwrap();
    let fingerprint = "0123456789abcdef".repeat(4);
    json::from_str(
        &format!(
            r#"{{"deviceId":"{id}","fingerprint":"{fingerprint}","verificationCode":"0123-4567-89ab","phase":"Discovered",
            "address":"192.0.2.7","discoveredAt":"{at}","expiresAt":"{end}","inventoryRevision":1,"message":{text},
            "inventory":{{"architecture":"x86_64","bootMode":"Uefi","manufacturer":{text},"model":{text},"serialNumber":{text},
            "logicalCpuCount":4,"memoryBytes":8200000000,"interfaces":[{{"name":"<b>","macAddress":"52:54:00:12:34:56",
            "addresses":[]}}],"disks":[{{"id":"d1","path":"/dev/vda","sizeBytes":1000000000000,"isRemovable":false,
            "isReadOnly":false,"model":{text}}}]}}}}"#,
            id = &fingerprint[..32],
            at = time(NOW - 60),
            end = time(NOW + 600),
        ),
        1 << 16,
        24,
    )
    .unwrap()
}

fn onboarding(devices: Vec<DeviceView>) -> OnboardingView {
    OnboardingView {
        server_time: time(NOW),
        window_expires_at: Some(time(NOW + 300)),
        worker: WorkerView { ready: false, checked_at: None, message: lucia_proto::host_api::Message::fitted(HOSTILE) },
        devices,
    }
}

fn line() -> NodeLine {
    NodeLine {
        node_id: "0123456789abcdef0123456789abcdef".parse().unwrap(),
        hostname: "n1".parse().unwrap(),
        new_hostname: None,
        former_hostname: None,
        verification_code: "0123-4567-89ab".parse().unwrap(),
        state: SnapshotState::Online,
        address: None,
        last_seen_at: Some(time(NOW - 10)),
        certificate_expires_at: Some(time(NOW + 5 * 24 * 3600)),
        frozen: false,
        directory: None,
    }
}

fn node() -> NodeView {
    let line = json::to_string(&line()).unwrap();
    let text = serde_json::to_string(HOSTILE).unwrap();
    json::from_str(
        &format!(
            r#"{{"serverTime":"{at}","node":{line},"fingerprint":"{print}","taskId":"00000000-0000-4000-8000-000000000000",
            "osVersion":{text},"directory":{{"state":"Failed","message":{text}}},"samples":[]}}"#,
            at = time(NOW),
            print = "0123456789abcdef".repeat(4),
        ),
        1 << 16,
        24,
    )
    .unwrap()
}

fn key() -> SshKeyView {
    let text = serde_json::to_string("<b>\"label\"</b>").unwrap();
    json::from_str(
        &format!(
            r#"{{"account":"alice","label":{text},"fingerprint":"SHA256:x","key":"k","addedAt":"{}","addedBy":{text}}}"#,
            time(NOW)
        ),
        4096,
        8,
    )
    .unwrap()
}

fn roster() -> Roster {
    OrderWorld::new(time(NOW)).roster.roster().clone()
}

fn ordered() -> OrderedKeys {
    let world = OrderWorld::new(time(NOW));
    let draft = world.draft(IntentKind::SshKey, |_| ());
    let read = draft.read().unwrap();
    let Body::SshKey(keys) = read.body().clone() else { panic!("another body") };
    OrderedKeys { keys, nodes: 1, code: read.code(), state: DraftState::Done }
}

fn entry() -> AuditEntry {
    let note = AuditNote {
        at: time(NOW),
        actor: AuditActor::Operator(0),
        from: None,
        action: AuditAction::WindowOpened,
        node: Some(OrderWorld::new(time(NOW)).node.node_id),
        intent: None,
        refused: None,
        intent_refused: None,
        more: None,
    };
    let line = AuditChain::default().add(note).unwrap();
    AuditChain::default().follow(line.as_bytes()).unwrap()
}

/// Every document, as full as it gets.
fn documents() -> Vec<(&'static str, String)> {
    let drafting = || {
        let world = OrderWorld::new(time(NOW));
        Some(Drafting { fleet: world.fleet, owner: world.alice.id })
    };
    let text = |document: Result<String, PageError>| document.unwrap();
    vec![
        ("servers", text(render(&Servers::new(frame("/"), &onboarding(vec![device()]), &[(line(), None)])))),
        ("server", text(render(&Server::new(frame("/servers/{id}"), &node(), &[], drafting())))),
        ("approve", text(render(&Approve::new(frame("/devices/{id}"), &device(), drafting())))),
        ("keys", text(render(&Keys::new(frame("/keys"), &[ordered()], &[key()])))),
        ("owners", text(render(&Owners::new(frame("/owners"), Some(&roster()))))),
        ("audit", text(render(&Audit::new(frame("/audit"), &[entry()])))),
        ("window", text(render(&Window::new(frame("/window"), &onboarding(vec![]))))),
        ("sign-in", text(render(&SignIn::new(Frame::new("Sign in", "", None, time(NOW)), "c.test")))),
        ("passkeys", text(render(&Passkeys::new(frame("/passkeys"), "c.test", &[], &[])))),
        ("trouble", text(render(&Trouble::new(frame(""), HOSTILE)))),
    ]
}

// spec: PG-11
#[test]
fn text_from_a_node_is_never_markup() {
    for (name, text) in documents() {
        for markup in ["<script>alert", "<img", "onerror=y>", "<b>"] {
            assert!(!text.contains(markup), "{name} holds {markup}");
        }
    }
    let servers = &documents()[0].1;
    assert!(servers.contains("&#60;script&#62;alert(1)"), "it is shown as it is");
}

// spec: PG-13
#[test]
fn no_document_has_a_script_or_style_of_its_own_and_all_have_landmarks() {
    for (name, text) in documents() {
        let lower = text.to_ascii_lowercase();
        for inline in ["style=", "<style", "onclick", "javascript:", "http://", "https://", "<iframe"] {
            assert!(!lower.contains(inline), "{name} holds {inline}");
        }
        assert_eq!(lower.matches("<script").count(), 1, "{name}");
        for mark in [
            "<!doctype html>",
            "lang=\"en\"",
            "<main",
            "<h1>",
            "href=\"#main\"",
            "aria-live",
            "name=\"viewport\"",
            "<title>",
        ] {
            assert!(lower.contains(mark), "{name} lacks {mark}");
        }
        // Whatever is filled in has a label, and each id stands once.
        let ids: Vec<&str> = lower.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let set: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(set.len(), ids.len(), "{name}: {ids:?}");
        for label in lower.split("for=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(set.contains(label), "{name}: a label for {label}");
        }
    }
    for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write", "http://", "https://"]
    {
        assert!(!SCRIPT.contains(forbidden), "{forbidden}");
    }
    assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
}

// spec: PG-13
#[test]
fn the_page_of_300_nodes_stays_under_150_kib() {
    let nodes = vec![(line(), None); 300];
    let list = render(&Servers::new(frame("/"), &onboarding(vec![device()]), &nodes)).unwrap();
    let other = documents().iter().map(|(_, text)| text.len()).max().unwrap();
    let files = STYLE.len() + SCRIPT.len();
    // A list grows with the fleet; everything else together is small, whoever many there are.
    assert!(files + other < 60 * 1024, "{files} + {other}");
    assert!(files + render(&Servers::new(frame("/"), &onboarding(vec![]), &[])).unwrap().len() < 150 * 1024);
    assert!(list.len() / 300 < 900, "{} bytes a node", list.len() / 300);
}

// spec: PG-12
#[test]
fn every_list_says_what_to_do_when_it_is_empty() {
    let closed = OnboardingView { window_expires_at: None, ..onboarding(vec![]) };
    let empty = [
        render(&Servers::new(frame("/"), &closed, &[])),
        render(&Keys::new(frame("/keys"), &[], &[])),
        render(&Owners::new(frame("/owners"), None)),
        render(&Audit::new(frame("/audit"), &[])),
        render(&Window::new(frame("/window"), &closed)),
        render(&Passkeys::new(frame("/passkeys"), "c.test", &[], &[])),
        render(&Server::new(frame("/servers/{id}"), &node(), &[], None)),
    ];
    for text in empty {
        assert!(text.unwrap().contains("class=\"empty\""));
    }
    // What wants a look is said, and nothing else is.
    let calm = cells(&line(), None, time(NOW));
    assert_eq!((calm.state.as_str(), calm.look.as_str(), calm.certificate.as_str()), ("Online", "", "5 days"));
    let mut worse = line();
    (worse.frozen, worse.state, worse.certificate_expires_at) = (true, SnapshotState::Stale, Some(time(NOW - 1)));
    let worse = cells(&worse, None, time(NOW));
    assert_eq!(worse.look, "its identity was seen twice: decide; last heard 10 s ago; its certificate lapsed");
}
