//! The text that is signed, and the lines that are made from it.

use super::*;
use crate::base::digest::Digest;
use crate::base::json::JsonErrorKind;
use crate::base::limits::{ORDER_LIFETIME_MAX, ORDER_MAX, ORDER_NODES_MAX};
use crate::base::time::UnixTime;
use crate::node::challenge::Nonce;
use crate::test_support::fault;
use proptest::prelude::*;

/// The field that an intent is refused for.
fn parse(text: &str) -> Result<OrderHead, String> {
    OrderHead::parse(text).map_err(|error| fault(&error).split(": ").next().unwrap().to_owned())
}

// spec: IN-5
#[test]
fn an_intent_is_bounded_and_of_one_form() {
    let world = world();
    let once = world.draft(OrderKind::Admit, |_| ()).intent_json;
    let state = world.draft(OrderKind::SshKey, |_| ()).intent_json;
    assert!(parse(&once).is_ok() && parse(&state).is_ok());
    let id = world.node.node_id.as_str();
    let nodes = |ids: &[&str]| once.replacen(&format!("[\"{id}\"]"), &format!("[\"{}\"]", ids.join("\",\"")), 1);
    let (low, high) = ("0".repeat(32), "f".repeat(32));
    assert!(parse(&nodes(&[&low, id, &high])).is_ok());
    let end = NOW.plus(ORDER_LIFETIME_MAX);
    let until = |time: UnixTime| once.replacen(&end.to_string(), &time.to_string(), 1);
    assert!(parse(&until(NOW.plus(SECOND))).is_ok());
    let many = |count: usize| {
        let ids: Vec<_> = (0..count).map(|at| format!("\"{at:032x}\"")).collect();
        once.replacen(&format!("\"{id}\""), &ids.join(","), 1)
    };
    assert!(parse(&many(ORDER_NODES_MAX)).is_ok());
    let nonce = Nonce::from_bytes(&[6; 32]);
    for (name, text, want) in [
        ("nobody", nodes(&[]).replacen("[\"\"]", "[]", 1), "nodes"),
        ("too many", many(ORDER_NODES_MAX + 1), "nodes"),
        ("one twice", nodes(&[id, id]), "nodes"),
        ("falling", nodes(&[&high, &low]), "nodes"),
        ("an id in upper case", nodes(&[&"F".repeat(32)]), "nodes[0]"),
        ("all", nodes(&["all"]), "nodes[0]"),
        ("a pattern", nodes(&["*"]), "nodes[0]"),
        ("a second over a day", until(end.plus(SECOND)), "notAfter"),
        ("over at once", until(NOW), "notAfter"),
        ("over before", until(NOW.minus(SECOND)), "notAfter"),
        ("no end", once.replacen(&format!(",\"notAfter\":\"{end}\""), "", 1), "kind"),
        ("no nonce", once.replacen(&format!(",\"nonce\":\"{nonce}\""), "", 1), "kind"),
        ("a revision besides", once.replacen('{', "{\"revision\":1,", 1), "kind"),
        ("the terms of a state", state.replacen("ssh-key", "admit", 1), "kind"),
        ("the terms of what is done once", once.replacen("\"admit\"", "\"ssh-key\"", 1), "kind"),
        ("no subject", state.replacen(",\"subject\":\"alice\"", "", 1), "kind"),
        ("revision 0", state.replacen("\"revision\":4", "\"revision\":0", 1), "revision"),
        ("a revision that is no number", state.replacen("\"revision\":4", "\"revision\":\"4\"", 1), "revision"),
        ("a revision below 0", state.replacen("\"revision\":4", "\"revision\":-1", 1), "revision"),
        ("a subject with a slash", state.replacen("\"alice\"", "\"a/b\"", 1), "subject"),
        ("a short nonce", once.replacen(nonce.as_str(), "AAAA", 1), "nonce"),
    ] {
        assert_eq!(parse(&text).expect_err(name), want, "{name}");
    }
    let long = OrderHead::parse(&format!("{once}{}", " ".repeat(ORDER_MAX))).unwrap_err();
    assert_eq!(long.kind(), &JsonErrorKind::TooLarge { max_bytes: ORDER_MAX });
}

fn fails(intent: OrderHead, body: &Body) -> &'static str {
    match Draft::new(intent, body) {
        Err(DraftError::DoesNotFit(error)) => error.field,
        other => panic!("{other:?}"),
    }
}

// spec: IN-21
#[test]
fn head_and_body_speak_of_the_same() {
    let world = world();
    let body = |kind| world.body(kind);
    let two = |kind| {
        let mut intent = world.intent(kind);
        intent.nodes = vec![world.node.node_id.clone(), world.other.node_id.clone()];
        intent.nodes.sort();
        intent
    };
    for kind in OrderKind::ALL {
        assert!(Draft::new(world.intent(*kind), &body(*kind)).is_ok(), "{kind:?}");
        // What is about one node names one; SSH keys are for as many as there are.
        let both = Draft::new(two(*kind), &body(*kind));
        assert_eq!(both.is_ok(), *kind == OrderKind::SshKey, "{kind:?}");
    }
    let Body::Admit(mut admit) = body(OrderKind::Admit) else { panic!() };
    admit.fingerprint = world.other.fingerprint;
    assert_eq!(fails(world.intent(OrderKind::Admit), &Body::Admit(admit.clone())), "fingerprint");
    admit.fingerprint = world.node.fingerprint;
    admit.replaces = Some(world.node.node_id.clone());
    assert_eq!(fails(world.intent(OrderKind::Admit), &Body::Admit(admit)), "replaces");
    let Body::SshKey(mut keys) = body(OrderKind::SshKey) else { panic!() };
    keys.keys.push(keys.keys.first().unwrap().clone());
    assert_eq!(fails(world.intent(OrderKind::SshKey), &Body::SshKey(keys.clone())), "keys");
    keys.keys.truncate(1);
    keys.account = "bob".parse().unwrap();
    assert_eq!(fails(world.intent(OrderKind::SshKey), &Body::SshKey(keys)), "account");
    let Body::CloneDecision(decision) = body(OrderKind::CloneDecision) else { panic!() };
    for (decided, start_id) in [(Decision::Split, decision.start_id.clone()), (Decision::Keep, None)] {
        let body = CloneDecision { decision: decided, start_id, ..decision.clone() };
        assert_eq!(fails(world.intent(OrderKind::CloneDecision), &Body::CloneDecision(body)), "startId");
    }
    let Body::ReleaseLapse(mut lapse) = body(OrderKind::ReleaseLapse) else { panic!() };
    lapse.fingerprint = world.other.fingerprint;
    assert_eq!(fails(world.intent(OrderKind::ReleaseLapse), &Body::ReleaseLapse(lapse)), "fingerprint");
    // A body of another kind is not even of that shape.
    assert!(matches!(Draft::new(world.intent(OrderKind::Admit), &body(OrderKind::SshKey)), Err(DraftError::Body(_))));
}

// spec: IN-22
#[test]
fn a_key_in_an_order_is_a_key_and_nothing_more() {
    let world = world();
    let good = world.order(OrderKind::SshKey).body;
    let Body::SshKey(keys) = Body::parse(OrderKind::SshKey, &good).unwrap() else { panic!() };
    let key = keys.keys.first().unwrap().key.key().to_string();
    for (name, line) in [
        ("a comment", format!("{key} alice@laptop")),
        ("an option", format!("command=\\\"id\\\" {key}")),
        ("two keys", format!("{key}\\n{key}")),
        ("a line end", format!("{key}\\n")),
        ("a space before", format!(" {key}")),
        ("two spaces", key.replacen(' ', "  ", 1)),
        ("no key", String::new()),
    ] {
        assert!(Body::parse(OrderKind::SshKey, &good.replacen(&key, &line, 1)).is_err(), "{name}");
    }
    for (name, text) in [
        ("root", good.replacen("\"account\":\"alice\"", "\"account\":\"root\"", 1)),
        ("a member more", good.replacen('{', "{\"options\":\"\",", 1)),
        ("a hidden label", good.replacen("laptop", "lap\u{202e}top", 1)),
    ] {
        assert!(Body::parse(OrderKind::SshKey, &text).is_err(), "{name}");
    }
}

// spec: IN-320
#[test]
fn a_label_that_hides_something_is_read_in_an_older_order_and_never_signed_again() {
    let world = world();
    let draft = world.draft(OrderKind::SshKey, |_| ());
    let mut intent = OrderHead::parse(&draft.intent_json).unwrap();
    assert!(draft.read_new().is_ok());
    for hidden in ["lap\u{3164}top", "lap\u{a0}top", "laptop\u{fe0f}", "lap\u{2800}top", "laptop\u{301}\u{301}\u{301}"]
    {
        let body = draft.body.replacen("laptop", hidden, 1);
        assert_ne!(body, draft.body);
        intent.body_sha256 = Digest::of(body.as_bytes());
        let old = Draft { intent_json: json::to_string(&intent).unwrap(), body };
        let read = old.read().unwrap();
        assert!(matches!(old.read_new(), Err(DraftError::Hidden)), "{hidden:?}");
        assert!(matches!(Draft::new(intent.clone(), read.body()), Err(DraftError::Hidden)), "{hidden:?}");
        assert!(read.words().iter().all(|line| crate::base::text::is_printable(line)), "{hidden:?}");
    }
}

// spec: IN-23
#[test]
fn only_a_draft_that_was_read_whole_is_shown_or_signed() {
    let world = world();
    let draft = world.draft(OrderKind::SshKey, |_| ());
    let read = draft.read().unwrap();
    assert_eq!(read.code(), OrderId::of(&draft.intent_json).code());
    assert_ne!(
        read.code(),
        world.draft(OrderKind::SshKey, |intent| intent.issued_at = NOW.plus(SECOND)).read().unwrap().code()
    );
    let with = |change: &dyn Fn(&mut Draft)| {
        let mut draft = draft.clone();
        change(&mut draft);
        draft.read().map(|_| ())
    };
    assert!(matches!(with(&|draft| draft.body.push(' ')), Err(DraftError::BodyMismatch)));
    assert!(matches!(with(&|draft| draft.body = "{}".to_owned()), Err(DraftError::BodyMismatch)));
    assert!(matches!(with(&|draft| draft.intent_json.push('x')), Err(DraftError::OrderHead(_))));
    // A body of which the head has the hash, and which is none of this kind.
    let swapped = |draft: &mut Draft| {
        let was = Digest::of(draft.body.as_bytes()).to_string();
        draft.body = "{}".to_owned();
        draft.intent_json = draft.intent_json.replace(&was, &Digest::of(b"{}").to_string());
    };
    assert!(matches!(with(&swapped), Err(DraftError::Body(_))));
    let text = json::to_string(&draft).unwrap();
    assert_eq!(json::from_str::<Draft>(&text, 1 << 16, 4).unwrap(), draft);
}

// spec: IN-24
#[test]
fn what_is_signed_is_written_out_in_full() {
    let world = world();
    for kind in OrderKind::ALL {
        let draft = world.draft(*kind, |_| ());
        let read = draft.read().unwrap();
        let lines = read.words();
        assert!(lines.iter().all(|line| crate::base::text::is_printable(line)), "{kind:?}: {lines:?}");
        let text = lines.join("\n");
        let signed: serde_json::Value = serde_json::from_str(&draft.intent_json).unwrap();
        let body: serde_json::Value = serde_json::from_str(&draft.body).unwrap();
        let mut leaves = Vec::new();
        collect(&signed, &mut leaves);
        collect(&body, &mut leaves);
        assert!(leaves.len() > 7, "{leaves:?}");
        for leaf in leaves {
            // The hash of the body stands for the body, which is all there; keep is said in other words.
            let said = text.contains(&leaf) || leaf == read.intent().body_sha256.to_string() || leaf == "keep";
            assert!(said, "{kind:?}: {leaf}\n{text}");
        }
    }
    let mut admit = world.body(OrderKind::Admit);
    if let Body::Admit(body) = &mut admit {
        body.replaces = Some(world.other.node_id.clone());
    }
    let lines = Draft::new(world.intent(OrderKind::Admit), &admit).unwrap().read().unwrap().words().join("\n");
    assert!(lines.contains(&format!("from node {}, whose key is barred", world.other.node_id)), "{lines}");
}

fn collect(value: &serde_json::Value, out: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(members) => members.values().for_each(|value| collect(value, out)),
        serde_json::Value::Array(values) => values.iter().for_each(|value| collect(value, out)),
        serde_json::Value::String(text) => out.push(text.clone()),
        other => out.push(other.to_string()),
    }
}

/// The text that these lines were made from; nothing where a line says two things.
fn undo(lines: &[String]) -> Option<String> {
    let mut out = Vec::new();
    for line in lines {
        let (mark, rest) = line.split_at(2);
        let mut text = String::new();
        let mut parts = rest.split(if mark == "! " { '\\' } else { '\n' });
        text.push_str(parts.next()?);
        for part in parts {
            let (hex, after) = part.strip_prefix("u{")?.split_once('}')?;
            text.push(char::from_u32(u32::from_str_radix(hex, 16).ok()?)?);
            text.push_str(after);
        }
        out.push(text);
    }
    Some(out.join("\n"))
}

// spec: IN-25
#[test]
fn no_character_of_a_script_hides_moves_or_is_left_out() {
    for (text, want) in [
        ("id", vec!["| id"]),
        ("", vec!["| "]),
        ("a\nb\n", vec!["| a", "| b", "| "]),
        ("a\tb", vec!["! a\\u{9}b"]),
        ("a\\u{9}b", vec!["| a\\u{9}b"]),
        ("\u{1b}[2K", vec!["! \\u{1b}[2K"]),
        ("ls #\u{202e}", vec!["! ls #\\u{202e}"]),
        ("a\rb", vec!["! a\\u{d}b"]),
        ("a\u{2028}b", vec!["! a\\u{2028}b"]),
        ("zero\u{200b}width", vec!["! zero\\u{200b}width"]),
        ("  two  ", vec!["|   two  "]),
    ] {
        assert_eq!(visible(text), want, "{text:?}");
    }
    let long = "x".repeat(100_000);
    assert_eq!(undo(&visible(&long)), Some(long));
}

proptest! {
    // spec: IN-25
    #[test]
    fn two_scripts_never_look_alike(text in "[a\\\\u{9}\t\n\u{1b}|! ]{0,24}") {
        let lines = visible(&text);
        prop_assert!(lines.iter().all(|line| crate::base::text::is_printable(line)));
        // What each text can be made from again is the lines of no other.
        prop_assert_eq!(undo(&lines), Some(text));
    }
}

// spec: PG-100
#[test]
fn a_few_words_say_what_an_order_is_about() {
    let world = world();
    let says = |body: &Body, before: Option<SshKeys>| {
        body.about(before.map(Body::SshKey).as_ref()).unwrap().as_str().to_owned()
    };
    let keys = |labels: &[&str]| {
        let Body::SshKey(SshKeys { account, keys }) = world.body(OrderKind::SshKey) else { panic!("another body") };
        let labelled = |label: &&str| LabelledKey { label: label.parse().unwrap(), ..keys.first().unwrap().clone() };
        SshKeys { account, keys: labels.iter().map(labelled).collect() }
    };
    let said = |now: &[&str], before: Option<&[&str]>| says(&Body::SshKey(keys(now)), before.map(keys));
    assert_eq!(said(&["laptop"], Some(&[])), "alice: +laptop");
    assert_eq!(said(&[], Some(&["laptop"])), "alice: -laptop");
    assert_eq!(said(&["desk", "phone"], Some(&["laptop", "desk"])), "alice: +phone, -laptop");
    assert!(!said(&["desk"], Some(&["desk"])).contains("desk"));
    assert_eq!(said(&["desk", "b"], None), "alice: desk, b");
    assert!(said(&[], None).starts_with("alice: "));
    // Of many the first are named, the others counted.
    let many = said(&["a", "b", "c", "d", "e"], Some(&[]));
    assert!(many.starts_with("alice: +a, +b, +c") && !many.contains("+d") && many.contains('2'), "{many}");
    // A label cannot look like two, and is cut.
    assert_eq!(said(&["a, -b\" x"], Some(&[])), "alice: +\"a, -b' x\"");
    assert_eq!(said(&["0123456789abcdef0123456789"], Some(&[])), "alice: +0123456789abcdef012…");
    // The longest fits.
    let labels: Vec<String> = (0..10).map(|n| format!("{n}{}", ", ".repeat(31))).collect();
    let mut most = keys(&labels.iter().map(String::as_str).collect::<Vec<_>>());
    most.account = "a".repeat(32).parse().unwrap();
    let most = says(&Body::SshKey(most), Some(keys(&[])));
    assert!(most.contains('7'), "{most}");
    let name = world.node.hostname.to_string();
    for kind in [OrderKind::Admit, OrderKind::ReleaseLapse, OrderKind::RemoveIdentity] {
        assert_eq!(says(&world.body(kind), None), name);
    }
    assert!(says(&world.body(OrderKind::CloneDecision), None).starts_with(&format!("{name}: ")));
}
