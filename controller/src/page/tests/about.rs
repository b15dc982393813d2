//! What an order is about, who carried it out, and what a form says of a key before it is handed in.

use lucia_proto::orders::ssh_key::BadSshKey;

use super::*;

// spec: PG-101
#[test]
fn a_list_of_orders_says_what_each_is_about_and_who_carried_it_out() {
    let mut line = draft_line(DraftState::Done);
    line.about = Some("alice: +laptop".parse().unwrap());
    let list = |line: &DraftLine| {
        let lines = std::slice::from_ref(line);
        render(&Orders::new(frame("/orders"), (lines, &names()), true, false)).unwrap()
    };
    let text = list(&line);
    assert!(text.contains("<strong>alice: +laptop</strong>") && text.contains("refused by n1"), "{text}");
    line.outcomes.iter_mut().for_each(|outcome| outcome.refused = None);
    assert!(list(&line).contains("<td data-name=\"Carried out by\">n1</td>"));
    // What others wrote is cut and never markup.
    line.about = lucia_proto::host_api::Label::fitted(HOSTILE);
    assert!(list(&line).contains("<strong>&#60;script&#62;") && !list(&line).contains("<script>alert"));
    // Once it is signed, it says who comes next and how long that takes.
    let signed = order(DraftState::Signed, &roster());
    assert!(signed.contains("not carried out by all yet. A node takes it with its next heartbeat, within 30 s"));
}

// spec: PG-102
#[test]
fn the_form_has_the_controllers_words_for_a_key_that_is_none() {
    let (_, text) = documents().into_iter().find(|(name, _)| *name == "keys").unwrap();
    for (at, bad) in [
        ("private", BadSshKey::Private),
        ("line", BadSshKey::Line),
        ("kind", BadSshKey::Kind),
        ("base64", BadSshKey::Base64),
        ("blob", BadSshKey::Blob),
    ] {
        assert!(text.contains(&format!("data-{at}=\"The key is not taken: {bad}.\"")), "{at}");
        assert!(SCRIPT.contains(&format!("new Error(dataset.{at})")), "{at}");
    }
    assert!(text.contains("data-kinds=\"ssh-ed25519 ecdsa-sha2-nistp256 ssh-rsa sk-ssh-ed25519@openssh.com"));
}

// spec: PG-103
#[test]
fn keys_whose_nodes_are_gone_say_so_and_are_not_taken() {
    let document = |nodes: usize, gone: usize| {
        let mut ordered = ordered();
        let given = ordered.given.as_mut().unwrap();
        (given.nodes, given.gone) = (nodes, gone);
        render(&Keys::new(frame("/keys"), &[ordered], &[line()])).unwrap()
    };
    assert!(document(1, 0).contains(">1 node</td>") && document(1, 0).contains("data-act=\"take-key\""));
    assert!(document(3, 1).contains(">2 nodes; 1 was removed</td>"));
    for (nodes, words) in [(1, "its node was removed"), (2, "its 2 nodes were removed")] {
        let text = document(nodes, nodes);
        assert!(text.contains(words) && !text.contains("data-act=\"take-key\""), "{words}");
    }
}

// spec: PG-104
#[test]
fn the_audit_has_the_time_of_day_and_links_to_orders_that_are_kept() {
    let line = draft_line(DraftState::Done);
    let part = AuditPart { entries: vec![AuditEntry { intent: Some(line.intent), ..entry() }], last: 1 };
    let document = |kept: bool| {
        let audit = Audit::new(frame("/audit"), &part, &names());
        render(&audit.linking(|id| kept && *id == line.intent)).unwrap()
    };
    let link = format!("href=\"/orders/{}\"", line.code);
    assert!(document(true).contains(&link) && !document(false).contains(&link));
    assert!(document(false).contains(&line.code.to_string()) && document(true).contains("2026-11-29 20:00:00"));
    // Of a long part a reader picks entries, and what comes meanwhile keeps to that.
    assert!(document(true).contains("id=\"audit-filter\"") && SCRIPT.contains("#entries tbody tr"));
}
