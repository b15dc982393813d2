//! Documents as they leave: nothing from a node is markup, nothing is inline, all of it is small.

use lucia_people::audit::{AuditActor, AuditEntry, AuditVia};
use lucia_people::host_api::{DeviceView, EventLine, NodeLine, NodeView, OnboardingView, WorkerView};
use lucia_people::owner_api::{DraftLine, DraftState};
use lucia_people::sign_in::{PasskeyView, SessionView};
use lucia_people::why::{Finding, Why};
use lucia_proto::base::acts::Act;
use lucia_proto::base::json;
use lucia_proto::files::audit_chain::AuditChain;
use lucia_proto::node::state::SnapshotState;
use lucia_proto::orders::roster::Roster;
use lucia_proto::orders::{Body, LabelledKey, OrderCode, OrderKind};
use lucia_proto::test_support::OrderWorld;

use super::*;

mod about;
mod modules;
mod passkey;
mod read;
mod snapshot;
mod truth;

use crate::parts::{Applicant, CertificateFacts, ServerRow};

/// Markup in every way it could be meant; none of it may be left as it is.
const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x onerror=y>&amp;{{7*7}}";
const NOW: u64 = 1_795_982_400;

fn frame(at: &'static str) -> Frame {
    let who = Who { name: "alice".parse().unwrap(), role: Role::Owner };
    let world = OrderWorld::new(time(NOW));
    let drafting = Drafting { fleet: world.fleet, owner: world.alice.id, page_kinds: Vec::new() };
    Frame::new("A title", at, Some(who), UnixTime::from_secs(NOW)).drafting(Some(drafting))
}

/// All modules of the script, one after the other.
fn script() -> String {
    Asset::ALL.iter().filter(|asset| **asset != Asset::Style).map(|asset| asset.text()).collect()
}

fn time(secs: u64) -> UnixTime {
    UnixTime::from_secs(secs)
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> T {
    json::from_str(text, 1 << 16, 24).unwrap()
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
        worker: WorkerView {
            ready: false,
            checked_at: None,
            message: lucia_people::host_api::Message::fitted(HOSTILE),
        },
        devices,
    }
}

/// Approved, so that the order which admits it can be drafted.
fn approved() -> DeviceView {
    let mut device = device();
    device.phase = lucia_proto::node::phase::DevicePhase::Approved;
    device.task = Some(read(&format!(
        r#"{{"taskId":"00000000-0000-4000-8000-000000000000","phase":"Approved","hostname":"web-1","diskId":"d1",
        "replaces":"{}","authorityExpiresAt":"{}"}}"#,
        "ab".repeat(16),
        time(NOW + 60)
    )));
    device
}

fn line() -> NodeLine {
    NodeLine {
        node_id: "0123456789abcdef0123456789abcdef".parse().unwrap(),
        hostname: "n1".parse().unwrap(),
        new_hostname: None,
        former_hostname: None,
        rename_step: None,
        refused: None,
        verification_code: "0123-4567-89ab".parse().unwrap(),
        state: SnapshotState::Online,
        address: None,
        last_seen_at: Some(time(NOW - 10)),
        certificate_expires_at: Some(time(NOW + 5 * 24 * 3600)),
        frozen: false,
        directory: None,
    }
}

fn row() -> ServerRow {
    let sample =
        read(&format!(r#"{{"at":"{}","memoryTotalBytes":4,"memoryAvailableBytes":2,"loadAverage":0.25}}"#, time(NOW)));
    let orders = r#"{"bundleVersion":1,"rosterVersion":5,"rosterNewest":5,"asks":false}"#;
    ServerRow {
        line: line(),
        sample: Some(sample),
        loads: [Some(0.25); 12],
        directory: None,
        orders: Some(read(orders)),
        refused: Vec::new(),
    }
}

/// A node with all that there can be of one, frozen and lapsed; every text of it is the node's own.
fn node() -> NodeView {
    let mut line = line();
    (line.frozen, line.certificate_expires_at) = (true, Some(time(NOW - 3600)));
    line.new_hostname = Some("n2".parse().unwrap());
    let line = json::to_string(&line).unwrap();
    let text = serde_json::to_string(HOSTILE).unwrap();
    let holder = |digit: &str| {
        let id = digit.repeat(32);
        format!(r#"{{"startId":"{id}","address":"192.0.2.7","firstSeenAt":"{0}","lastSeenAt":"{0}"}}"#, time(NOW - 60))
    };
    read(&format!(
        r#"{{"serverTime":"{at}","node":{line},"fingerprint":"{print}","taskId":"00000000-0000-4000-8000-000000000000",
        "osVersion":{text},"directory":{{"state":"Failed","message":{text}}},"samples":[{{"at":"{at}","memoryTotalBytes":4,
        "memoryAvailableBytes":2,"cpuPercent":4.5}}],"gpus":[{{"vendor":"nvidia","model":{text},"memoryBytes":1000,
        "computeCapability":"8.9","uuid":"GPU-00000000-0000-0000-0000-000000000000"}}],"uptimeSeconds":60,
        "frozen":{{"at":"{at}","holders":[{one},{two}]}},"lastRefused":{two},
        "renames":[{{"at":"{at}","actor":{text},"names":{{"from":"n0","to":"n1"}}}}]}}"#,
        at = time(NOW),
        print = "0123456789abcdef".repeat(4),
        one = holder("a"),
        two = holder("b"),
    ))
}

fn event() -> EventLine {
    let text = serde_json::to_string(HOSTILE).unwrap();
    read(&format!(r#"{{"sequence":1,"at":"{}","kind":{text},"actor":{text}}}"#, time(NOW)))
}

/// An order about keys that somebody refused; whoever drafted it calls himself by markup.
fn draft_line(state: DraftState) -> DraftLine {
    let world = OrderWorld::new(time(NOW));
    let draft = world.draft(OrderKind::SshKey, |_| ());
    let read_draft = draft.read().unwrap();
    let text = serde_json::to_string(HOSTILE).unwrap();
    let mut line: DraftLine = read(&format!(
        r#"{{"code":"{}","intent":"{}","kind":"ssh-key","owner":"{owner}","signers":["{owner}"],"state":"drafted",
        "at":"{at}","draftedBy":{text},"outcomes":[{{"nodeId":"{node}","at":"{at}","refused":"kind_forbidden"}}]}}"#,
        read_draft.code(),
        lucia_proto::orders::OrderId::of(&draft.intent_json),
        owner = world.alice.id,
        node = line().node_id,
        at = time(NOW),
    ));
    line.state = state;
    line
}

/// The document of an order whose key has a label of markup, in a fleet with this roster.
fn order(state: DraftState, roster: &Roster) -> String {
    let world = OrderWorld::new(time(NOW));
    let Body::SshKey(mut keys) = world.body(OrderKind::SshKey) else { panic!("another body") };
    keys.keys = keys.keys.into_iter().map(|key| LabelledKey { label: label(), ..key }).collect();
    let draft = lucia_proto::orders::Draft::new(world.intent(OrderKind::SshKey), &Body::SshKey(keys)).unwrap();
    let facts =
        OrderFacts { line: &draft_line(state), read: &draft.read().unwrap(), roster: Some(roster), names: &names() };
    render(&Order::new(frame("/orders/{code}"), &facts)).unwrap()
}

/// What the one node is called.
fn names() -> std::collections::BTreeMap<lucia_proto::base::ids::NodeId, lucia_proto::base::names::Hostname> {
    [(line().node_id, line().hostname)].into()
}

fn label() -> lucia_proto::base::bounded::KeyLabel {
    HOSTILE.chars().take(64).collect::<String>().parse().unwrap()
}

fn roster() -> Roster {
    OrderWorld::new(time(NOW)).roster.roster().clone()
}

fn ordered() -> OrderedKeys {
    let line = draft_line(DraftState::Done);
    let Body::SshKey(mut keys) = OrderWorld::new(time(NOW)).body(OrderKind::SshKey) else { panic!("another body") };
    let account = keys.account.clone();
    keys.keys = keys.keys.into_iter().map(|key| LabelledKey { label: label(), ..key }).collect();
    let given = GivenKeys { keys, nodes: 1, gone: 0, revision: 4, code: line.code.clone(), state: line.state };
    OrderedKeys { account, given: Some(given), waiting: Some(line.code), next: 5 }
}

fn applicant() -> Applicant {
    Applicant {
        name: "carol".parse().unwrap(),
        is_passkey: false,
        code: "0123-4567-89ab".parse().unwrap(),
        fingerprint: "0123456789abcdef".repeat(4).parse().unwrap(),
        until: time(NOW + 600),
    }
}

fn session() -> SessionView {
    read(&format!(
        r#"{{"code":"0123-4567-89ab","owner":"alice","role":"owner","passkey":"0123-4567-89ab","address":"192.0.2.7",
        "since":"{0}","usedAt":"{0}","expiresAt":"{1}","current":true}}"#,
        time(NOW),
        time(NOW + 600)
    ))
}

fn passkey() -> PasskeyView {
    let text = serde_json::to_string(&label()).unwrap();
    read(&format!(r#"{{"code":"0123-4567-89ab","label":{text},"addedAt":"{}"}}"#, time(NOW)))
}

fn entry() -> AuditEntry {
    let node = Some(OrderWorld::new(time(NOW)).node.node_id);
    let note = AuditEntry { node, ..AuditEntry::new(time(NOW), AuditActor::Operator(0), Act::WindowOpened) };
    let line = lucia_people::audit::add(&mut AuditChain::default(), note).unwrap();
    lucia_people::audit::follow(&mut AuditChain::default(), line.as_bytes()).unwrap()
}

/// A refusal to an operator who has a session of the page, and two more of its minute.
fn refused_in_a_session() -> AuditPart {
    let (via, refused) = (Some(AuditVia::Session), Some(lucia_proto::base::code::Code::ActorRequired));
    AuditPart { entries: vec![AuditEntry { via, refused, more: Some(2), ..entry() }], last: 1 }
}

/// Text as it is in a document.
fn escaped(text: &str) -> String {
    text.replace('&', "&#38;").replace('<', "&#60;").replace('>', "&#62;").replace('"', "&#34;").replace('\'', "&#39;")
}

/// Every document, as full as it gets.
fn documents() -> Vec<(&'static str, String)> {
    let text = |document: Result<String, PageError>| document.unwrap();
    let (view, event) = (node(), event());
    let why = Why::of(&view, &[draft_line(DraftState::Refused)]);
    let certificate =
        CertificateFacts { from: time(NOW - 60), until: time(NOW + 60), serial: "01".to_owned(), sha256: Digest::ZERO };
    let facts = ServerFacts { view: &view, why: &why, events: &[event], certificate: Some(&certificate), agent: None };
    let lines = [draft_line(DraftState::Drafted)];
    let part = AuditPart { entries: vec![entry()], last: 1 };
    vec![
        ("servers", text(render(&Servers::new(frame("/"), &onboarding(vec![device()]), &[row()])))),
        ("server", text(render(&Server::new(frame("/servers/{id}"), &facts)))),
        ("device", text(render(&Device::new(frame("/devices/{id}"), &device(), None)))),
        ("approved", text(render(&Device::new(frame("/devices/{id}"), &approved(), None)))),
        ("orders", text(render(&Orders::new(frame("/orders"), (&lines, &names()), true, true)))),
        ("order", order(DraftState::Drafted, &roster())),
        ("keys", text(render(&Keys::new(frame("/keys"), &[ordered()], &[line()])))),
        (
            "owners",
            text(render(&Owners::new(
                frame("/owners"),
                Some(&roster()),
                &[applicant()],
                (&[session()], &[read::token()]),
            ))),
        ),
        ("audit", text(render(&Audit::new(frame("/audit"), &part, &names())))),
        ("window", text(render(&Window::new(frame("/window"), &onboarding(vec![]))))),
        ("sign-in", text(render(&SignIn::new(Frame::new("Sign in", "", None, time(NOW)), "c.test")))),
        ("passkeys", text(render(&Passkeys::new(frame("/passkeys"), "c.test", (&[passkey()], &[session()]), None)))),
        ("removed", read::gone()),
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
    // Each place that shows text of a machine, or of whoever drafted or labelled something, shows it as it is.
    for name in ["servers", "server", "device", "orders", "order", "keys", "passkeys", "removed", "trouble"] {
        let (_, text) = documents().into_iter().find(|(other, _)| *other == name).unwrap();
        assert!(text.contains("&#60;script&#62;alert(1)"), "{name}");
    }
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
        assert!(!script().contains(forbidden), "{forbidden}");
    }
    assert!(!Asset::Style.text().contains("url(") && !Asset::Style.text().contains("@import"));
}

// spec: PG-13
#[test]
fn the_page_of_300_nodes_stays_under_150_kib() {
    let files: usize = Asset::ALL.iter().map(|asset| asset.text().len()).sum();
    let list = render(&Servers::new(frame("/"), &onboarding(vec![device()]), &vec![row(); 300])).unwrap();
    assert!(files + list.len() < 150 * 1024, "{files} + {}", list.len());
    for (name, text) in documents() {
        assert!(files + text.len() < 60 * 1024, "{name}: {files} + {}", text.len());
    }
}

// spec: PG-12
#[test]
fn every_list_says_what_to_do_when_it_is_empty() {
    let closed = OnboardingView { window_expires_at: None, ..onboarding(vec![]) };
    let mut view = node();
    view.samples.clear();
    let why = Why::of(&view, &[]);
    let bare = ServerFacts { view: &view, why: &why, events: &[], certificate: None, agent: None };
    let empty = [
        render(&Servers::new(frame("/"), &closed, &[])),
        render(&Keys::new(frame("/keys"), &[], &[])),
        render(&Orders::new(frame("/orders"), (&[], &names()), true, false)),
        render(&Owners::new(frame("/owners"), None, &[], (&[], &[]))),
        render(&Audit::new(frame("/audit"), &AuditPart { entries: vec![], last: 0 }, &names())),
        render(&Window::new(frame("/window"), &closed)),
        render(&Passkeys::new(frame("/passkeys"), "c.test", (&[], &[]), None)),
        render(&Server::new(frame("/servers/{id}"), &bare)),
    ];
    for text in empty {
        assert!(text.unwrap().contains("class=\"empty\""));
    }
    // What wants a look is said, and nothing else is.
    let calm = cells(&row(), time(NOW));
    assert_eq!((calm.state.as_str(), calm.tone, calm.look.as_str()), ("Online", Tone::Ok, ""));
    assert_eq!((calm.certificate.as_str(), calm.memory.as_str(), calm.load.as_str()), ("5 days", "50 %", "0.2"));
    let mut worse = ServerRow { sample: None, ..row() };
    let line = &mut worse.line;
    (line.frozen, line.state, line.certificate_expires_at) = (true, SnapshotState::Stale, Some(time(NOW - 1)));
    line.new_hostname = Some("n2".parse().unwrap());
    let worse = cells(&worse, time(NOW));
    let looks: Vec<&str> = worse.look.split("; ").collect();
    assert!(looks.len() == 4 && looks[1].contains("10 s") && looks[3].contains("n2"), "{looks:?}");
}

/// The body of each order that a document drafts.
fn drafted(text: &str) -> Vec<(OrderKind, Body)> {
    let attribute = |rest: &str, name: &str| -> String {
        let (_, value) = rest.split_once(&format!("{name}=\"")).unwrap();
        value.split('"').next().unwrap().replace("&#34;", "\"")
    };
    let buttons = text.split("data-act=\"draft\"").skip(1);
    buttons
        .map(|rest| {
            let kind = OrderKind::of_word(&attribute(rest, "data-kind")).unwrap();
            (kind, Body::parse(kind, &attribute(rest, "data-body")).unwrap())
        })
        .collect()
}

// spec: PG-32
#[test]
fn a_server_says_why_and_drafts_only_what_can_be_ordered_of_it() {
    let documents = documents();
    let text = |name: &str| &documents.iter().find(|(other, _)| *other == name).unwrap().1;
    let server = text("server");
    let why = Why::of(&node(), &[draft_line(DraftState::Refused)]);
    assert!(why.frozen && matches!(why.findings[..], [Finding::Lapsed(..), _, Finding::OtherName(..)]), "{why:?}");
    for cure in why.findings.iter().map(ToString::to_string).chain([OrderCode::KindForbidden.cure().to_owned()]) {
        assert!(server.contains(&escaped(&cure)), "{cure}");
    }
    for mark in ["data-act=\"rename\"", "data-to=\"n2\"", "(kind_forbidden)", "n0", "data-refused"] {
        assert!(server.contains(mark), "{mark}");
    }
    let kinds: Vec<OrderKind> = drafted(server).into_iter().map(|(kind, _)| kind).collect();
    use OrderKind::{Admit, CloneDecision, ReleaseLapse, RemoveIdentity};
    assert_eq!(kinds, [CloneDecision, CloneDecision, CloneDecision, ReleaseLapse, RemoveIdentity]);
    let mut view = node();
    (view.node.frozen, view.frozen) = (false, None);
    view.node.certificate_expires_at = Some(time(NOW + 6 * 24 * 3600));
    let why = Why::of(&view, &[]);
    let facts = ServerFacts { view: &view, why: &why, events: &[], certificate: None, agent: None };
    let well = render(&Server::new(frame("/servers/{id}"), &facts)).unwrap();
    assert_eq!(drafted(&well).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>(), [RemoveIdentity]);
    // Nobody but an owner drafts, and without a roster nobody.
    let viewer = Who { name: "victor".parse().unwrap(), role: Role::Viewer };
    for who in [Some(viewer), frame("").who] {
        let plain = Frame::new("n1", "/servers/{id}", who, time(NOW));
        let facts =
            ServerFacts { view: &node(), why: &Why::of(&node(), &[]), events: &[], certificate: None, agent: None };
        assert_eq!(drafted(&render(&Server::new(plain, &facts)).unwrap()), []);
    }
    // A machine that waits is approved first; then the order that admits it says whose place it takes.
    assert_eq!(drafted(text("device")), []);
    let admitted = drafted(text("approved"));
    let [(Admit, Body::Admit(admit))] = admitted.as_slice() else { panic!("{admitted:?}") };
    // Once it is drafted it is not drafted again.
    let waiting = draft_line(DraftState::Drafted);
    let again = render(&Device::new(frame("/devices/{id}"), &approved(), Some(&waiting))).unwrap();
    assert!(drafted(&again).is_empty() && again.contains(&format!("/orders/{}", waiting.code)));
    assert_eq!((admit.hostname.as_str(), admit.replaces.as_ref().map(|old| old.as_str().len())), ("web-1", Some(32)));
}

// spec: PG-33
#[test]
fn an_orders_document_says_where_it_is_signed_and_what_signing_here_would_mean() {
    let mut world = OrderWorld::new(time(NOW));
    let closed = order(DraftState::Drafted, world.roster.roster());
    let origin = OrderWorld::origin();
    assert!(closed.contains("luciactl sign ") && closed.contains("page-kinds") && !closed.contains(origin.as_str()));
    world.change_roster(|roster| roster.page_kinds = vec![OrderKind::SshKey].into());
    let open = order(DraftState::Drafted, world.roster.roster());
    assert!(open.contains("luciactl sign ") && open.contains(origin.as_str()) && !open.contains("page-kinds"));
    world.change_roster(|roster| roster.page_kinds = vec![OrderKind::Admit].into());
    assert_eq!(order(DraftState::Drafted, world.roster.roster()), closed, "another kind allows nothing here");
    // It says what its bytes say, and once it is signed no more how.
    for words in ["Lets whoever holds 1 SSH key log in as alice", "Revision 4 of alice", "kind_forbidden", "alice"] {
        assert!(closed.contains(words), "{words}");
    }
    for (state, over) in [(DraftState::Signed, "false"), (DraftState::Done, "true"), (DraftState::Refused, "true")] {
        let text = order(state, world.roster.roster());
        assert!(!text.contains("luciactl sign ") && text.contains(&format!("data-over=\"{over}\"")), "{state:?}");
    }
}

// spec: PG-34
#[test]
fn owners_see_who_asks_and_what_is_typed_on_the_workers_host() {
    let text = render(&Owners::new(frame("/owners"), None, &[applicant()], (&[session()], &[]))).unwrap();
    assert!(text.contains("lucia-enrollment-worker owner approve 0123-4567-89ab --fingerprint HEX"));
    assert!(text.contains("data-act=\"end-session\"") && text.contains("carol"));
}

// spec: PG-35
#[test]
fn the_audit_is_shown_by_parts() {
    let entries = |from: u64| {
        let entry = |sequence| AuditEntry { sequence, ..entry() };
        (from..from + 3).map(entry).collect::<Vec<_>>()
    };
    let part = |from, last| {
        let part = AuditPart { entries: entries(from), last };
        render(&Audit::new(frame("/audit"), &part, &names())).unwrap()
    };
    let (newest, middle, oldest) = (part(8, 10), part(5, 10), part(1, 10));
    assert!(newest.contains("href=\"/audit?before=8\"") && newest.contains("data-live=\"audit\""));
    assert!(middle.contains("href=\"/audit?before=5\"") && !middle.contains("data-live"), "what is past does not move");
    assert!(!oldest.contains("before=") && oldest.contains("href=\"/audit\""));
    // Who did it says by what, and a refusal that stands for many how many.
    let actor = entry().actor;
    assert!(newest.contains(&format!("data-name=\"Who\">{actor}</td>")), "{newest}");
    let told = render(&Audit::new(frame("/audit"), &refused_in_a_session(), &names())).unwrap();
    assert!(told.contains(&format!("data-name=\"Who\">{actor}, ")), "{told}");
    let result = told.split_once("title=\"actor_required\">").unwrap().1.split('<').next().unwrap();
    assert!(result.contains("2 calls"), "{result}");
    let order: Vec<usize> = [10, 9, 8].iter().map(|n| newest.find(&format!("data-key=\"{n}\"")).unwrap()).collect();
    assert!(order.is_sorted(), "newest first");
}
