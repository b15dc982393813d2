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
    let told = |line: &DraftLine| line.told_words(|_| "n1".to_owned()).unwrap();
    assert!(text.contains("<strong>alice: +laptop</strong>") && text.contains(&format!(">{}</td>", told(&line))));
    line.outcomes.iter_mut().for_each(|outcome| outcome.refused = None);
    assert!(list(&line).contains(">n1</td>") && told(&line) == "n1");
    // What others wrote is cut and never markup.
    line.about = lucia_proto::base::bounded::Label::fitted(HOSTILE);
    assert!(list(&line).contains("<strong>&#60;script&#62;") && !list(&line).contains("<script>alert"));
    // Once it is signed, it says who comes next and how long that takes.
    let sentence = orders::sentence(&draft_line(DraftState::Signed));
    let signed = order(DraftState::Signed, &roster());
    assert!(signed.contains(&format!("data-words=\"{}\"", escaped(&sentence))) && sentence.contains("30 s"));
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
        let (_, words) = text.split_once(&format!(" data-{at}=\"")).unwrap();
        assert!(words.split('"').next().unwrap().contains(&escaped(&bad.to_string())), "{at}");
        assert!(script().contains(&format!("new Error(dataset.{at})")), "{at}");
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
    let cell = |text: &str| text.split_once("data-name=\"For\">").unwrap().1.split('<').next().unwrap().to_owned();
    let all = cell(&document(3, 0));
    for (nodes, gone) in [(1, 0), (3, 0), (3, 1), (1, 1), (2, 2)] {
        let text = document(nodes, gone);
        assert_eq!(text.contains("data-act=\"take-key\""), gone < nodes, "{gone} of {nodes}");
        assert_eq!(cell(&text).contains("removed"), gone > 0, "{gone} of {nodes}");
        assert_eq!(cell(&text) == all, (nodes, gone) == (3, 0), "{gone} of {nodes}");
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
    assert!(document(true).contains("id=\"audit-filter\"") && script().contains("#entries tbody tr"));
}
