//! What a person reads: rows to compare, what is next, names and words in the place of codes.

use std::time::Duration;

use lucia_people::why::{Next, Removed};
use lucia_people::words;

use super::*;

pub(super) fn token() -> lucia_people::token::TokenView {
    read(&format!(
        r#"{{"code":"0123-4567-89ab","name":"prometheus","owner":"alice","scopes":["status","nodes"],"addedAt":"{0}",
        "expiresAt":"{1}"}}"#,
        time(NOW),
        time(NOW + 600)
    ))
}

// spec: PG-93
#[test]
fn what_is_compared_is_shown_in_two_rows_and_handed_over_by_no_command() {
    let print = "0123456789abcdef".repeat(4);
    let half = "<span>0123 4567 89ab cdef</span>";
    let documents = documents();
    for name in ["servers", "server", "device", "approved", "owners"] {
        let (_, text) = documents.iter().find(|(other, _)| *other == name).unwrap();
        assert!(text.contains(&format!("<code>{half} {half}</code><code>{half} {half}</code>")), "{name}");
    }
    for (name, text) in &documents {
        assert!(!text.contains(&format!("--fingerprint {print}")), "{name}");
    }
    assert!(!script().contains("--fingerprint $"), "nor by what the script says");
}

// spec: PG-97
#[test]
fn a_machines_document_shows_what_is_next_and_nothing_that_is_over() {
    let document = |device: &DeviceView| render(&Device::new(frame("/devices/{id}"), device, None)).unwrap();
    let waits = document(&device());
    let steps = ["id=\"compare\"", "id=\"approve\""];
    assert!(steps.iter().all(|step| waits.contains(step)), "{waits}");
    let mut approved = approved();
    let next = |device: &DeviceView, is: fn(&Next) -> bool| {
        let (next, text) = (Next::of(device, time(NOW)), document(device));
        assert!(is(&next) && text.contains(&escaped(&next.sentence())), "{next:?}: {text}");
        assert!(!steps.iter().any(|step| text.contains(step)), "{text}");
    };
    next(&approved, |next| *next == Next::Asks(Some(Duration::from_secs(60))));
    approved.task.as_mut().unwrap().progress_expires_at = Some(time(NOW + 900));
    next(&approved, |next| *next == Next::Installs(Some(Duration::from_secs(900))));
    // Whose certificate is asked for is admitted first, and then waits for nobody.
    approved.phase = lucia_proto::node::phase::DevicePhase::AwaitingEnrollment;
    let sign = format!("luciactl sign {}", draft_line(DraftState::Drafted).code);
    let mut said = std::collections::BTreeSet::from([Next::of(&approved, time(NOW)).sentence()]);
    for state in [DraftState::Drafted, DraftState::Signed, DraftState::Done] {
        let text = render(&Device::new(frame("/devices/{id}"), &approved, Some(&draft_line(state)))).unwrap();
        let lead = text.split_once("<p class=\"lead\">").unwrap().1.split("</p>").next().unwrap();
        assert_eq!(lead.contains(&sign), state == DraftState::Drafted, "{lead}");
        assert!(said.insert(lead.split_once("</span> ").unwrap().1.to_owned()), "{lead}");
    }
}

// spec: PG-12
#[test]
fn a_line_at_the_top_of_a_chart_is_inside_of_the_drawing() {
    let sample =
        read(&format!(r#"{{"at":"{}","memoryTotalBytes":4,"memoryAvailableBytes":0,"cpuPercent":100.0}}"#, time(NOW)));
    let view = NodeView { samples: vec![sample], ..node() };
    let why = Why::of(&view, &[]);
    let facts = ServerFacts { view: &view, why: &why, events: &[], certificate: None, agent: None };
    let text = render(&Server::new(frame("/servers/{id}"), &facts)).unwrap();
    // Two units wide is the line, and half of it lies on each side of its points.
    assert!(text.contains("points=\"300.0,0.0 ") && text.contains("viewBox=\"-2 -2 304 64\""), "{text}");
}

// spec: PG-92
#[test]
fn the_audit_is_told_in_names_and_words_with_the_codes_beside() {
    let node = line().node_id;
    let (action, actor) = (Act::IntentSettled, AuditActor::Node(node.clone()));
    let intent_refused = Some(OrderCode::KindForbidden);
    let settled = AuditEntry { action, actor, node: Some(node.clone()), intent_refused, ..entry() };
    let part = AuditPart { entries: vec![settled], last: 1 };
    let text = render(&Audit::new(frame("/audit"), &part, &names())).unwrap();
    let (what, why) = (action.words(), words::order_refused(OrderCode::KindForbidden));
    for words in [
        "data-name=\"Who\">n1<",
        &format!("title=\"intent-settled\">{what}<"),
        &format!("title=\"{node}\">n1</a>"),
        &format!("title=\"kind_forbidden\">refused: {why}<"),
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Nowhere does a label of the journal stand for somebody.
    let mut line = draft_line(DraftState::Drafted);
    line.drafted_by = "owner:alice".parse().unwrap();
    let orders = render(&Orders::new(frame("/orders"), (&[line], &names()), true, false)).unwrap();
    assert!(orders.contains("by alice<") && !orders.contains("owner:alice"), "{orders}");
}

// spec: PG-96
#[test]
fn the_list_counts_what_a_servers_document_lists() {
    let view = node();
    let drafts = [draft_line(DraftState::Refused)];
    let why = Why::of(&view, &drafts);
    let refused = lucia_people::why::refused_orders(&drafts).remove(&view.node.node_id).unwrap_or_default();
    let sample = view.samples.last().copied();
    let (line, directory, orders) = (view.node.clone(), view.directory.clone(), view.orders.clone());
    let row = ServerRow { line, sample, loads: [None; 12], directory, orders, refused };
    assert_eq!(cells(&row, time(NOW)).look, why.looks().join("; "));
    assert!(!why.refused.is_empty() && why.looks().len() == why.findings.len() + 2, "{:?}", why.looks());
    let list = render(&Servers::new(frame("/"), &onboarding(vec![]), &[row])).unwrap();
    assert!(list.contains("<span data-looks>1</span>"), "{list}");
}

// spec: PG-99
#[test]
fn ones_tokens_are_listed_with_how_they_are_made_and_ended() {
    let with = |tokens: &[lucia_people::token::TokenView]| {
        render(&Owners::new(frame("/owners"), None, &[], (&[], tokens))).unwrap()
    };
    let (none, one) = (with(&[]), with(&[token()]));
    assert!(none.contains("luciactl token add NAME") && !none.contains("luciactl token remove"));
    for words in ["prometheus", "nodes, status", "alice", "10 min"] {
        assert!(one.contains(&format!(">{words}</t")), "{words}");
    }
    assert!(one.contains("luciactl token add NAME") && one.contains("luciactl token remove NAME"));
}

/// An order about one node, which was removed.
pub(super) fn nobody_left() -> DraftLine {
    let node_id = OrderWorld::new(time(NOW)).node.node_id.clone();
    let hostname = Some("web-1".parse().unwrap());
    let gone = lucia_people::owner_api::GoneNode { node_id, hostname, removed_at: Some(time(NOW - 60)) };
    DraftLine { outcomes: Vec::new(), gone: vec![gone], ..draft_line(DraftState::NobodyLeft) }
}

/// Its document.
pub(super) fn order_nobody_left() -> String {
    let draft = OrderWorld::new(time(NOW)).draft(OrderKind::SshKey, |_| ());
    let facts = OrderFacts { line: &nobody_left(), read: &draft.read().unwrap(), roster: None, names: &names() };
    render(&Order::new(frame("/orders/{code}"), &facts)).unwrap()
}

// spec: PG-90
#[test]
fn an_order_nobody_is_left_for_says_who_was_removed() {
    let (line, text) = (nobody_left(), order_nobody_left());
    let words = orders::sentence(&line);
    assert!(words.contains("web-1") && words.contains(&time(NOW - 60).to_string()), "{words}");
    assert!(text.contains(&format!("data-words=\"{words}\"")) && text.contains(&format!("<p>{words}</p>")), "{text}");
    assert!(!text.contains("class=\"empty\"") && text.contains("data-over=\"true\""), "{text}");
    assert!(text.contains("data-act=\"drop-draft\""), "and it may be thrown away");
    let list = render(&Orders::new(frame("/orders"), (&[line], &names()), true, false)).unwrap();
    assert!(list.contains(DraftState::NobodyLeft.words()) && list.contains("<p class=\"next\">web-1 "), "{list}");
}

/// A node that was removed.
fn removed() -> Removed {
    Removed {
        node_id: line().node_id,
        hostname: Some("web-1".parse().unwrap()),
        at: time(NOW - 60),
        by: "owner:alice".parse().unwrap(),
        replaced: false,
        heir: None,
        key: lucia_people::why::KeyEnd::AwaitsConfirmation,
        machine: lucia_people::why::Machine::Kept,
    }
}

/// Its document.
pub(super) fn gone() -> String {
    render(&Gone::new(frame("/servers/{id}"), &removed(), &[event()])).unwrap()
}

// spec: PG-91
#[test]
fn a_removed_nodes_document_says_what_cures_what_is_awaited() {
    let text = gone();
    for words in [
        escaped(&removed().what()),
        escaped(&removed().awaited()),
        "lucia-enrollment-worker confirm-removals web-1".to_owned(),
        "lucia-node-agent rekey".to_owned(),
    ] {
        assert!(text.contains(&words), "{words}: {text}");
    }
}

// spec: PG-114
#[test]
fn a_machines_document_has_its_name_its_disks_and_what_is_to_be_signed_before_its_facts() {
    let waiting = draft_line(DraftState::Drafted);
    let text = render(&Device::new(frame("/devices/{id}"), &approved(), Some(&waiting))).unwrap();
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
    assert!(at(&format!("<code>luciactl sign {}</code>", waiting.code)) < at("id=\"machine\""), "{text}");
    assert!(text.contains("<dd><code>d1</code></dd>") && text.contains("<dd>web-1 <code"), "{text}");
    let chosen = render(&Device::new(frame("/devices/{id}"), &device(), None)).unwrap();
    assert!(chosen.contains("<code>d1</code></label>") && chosen.contains("id=\"erase\""), "{chosen}");
    // What runs joins as it is: there is no disk to choose and no word to type.
    let runs = DeviceView { running: true, ..device() };
    let joins = render(&Device::new(frame("/devices/{id}"), &runs, None)).unwrap();
    assert!(!joins.contains("name=\"disk\"") && !joins.contains("id=\"erase\""), "{joins}");
    assert!(joins.contains("lucia-node-agent rekey --finish"), "{joins}");
    // What was carried out is no more amber here than elsewhere.
    let done = render(&Device::new(frame("/devices/{id}"), &approved(), Some(&draft_line(DraftState::Done)))).unwrap();
    assert!(done.contains("class=\"tag ok\"") && !done.contains("command again"), "{done}");
}
