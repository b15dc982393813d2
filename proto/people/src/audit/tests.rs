use super::*;

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

fn notes() -> Vec<AuditEntry> {
    let owner: OwnerId = "ab".repeat(16).parse().unwrap();
    let name: OwnerName = "alice".parse().unwrap();
    let node: NodeId = "0123456789abcdef0123456789abcdef".parse().unwrap();
    let actors = [
        AuditActor::Operator(0),
        AuditActor::Owner(owner.clone(), name.clone()),
        AuditActor::Applicant(owner, name),
        AuditActor::Node(node.clone()),
        AuditActor::Worker,
        AuditActor::Controller,
    ];
    let note = |(n, actor): (usize, AuditActor)| AuditEntry {
        from: (n == 1).then(|| [192, 0, 2, 7].into()),
        node: (n > 2).then(|| node.clone()),
        intent: (n > 1).then(|| OrderId::of("{}")),
        refused: (n == 1).then_some(Code::NotFound),
        intent_refused: (n == 3).then_some(OrderCode::Expired),
        ..AuditEntry::new(NOW, actor, Act::IntentSettled)
    };
    actors.into_iter().enumerate().map(note).collect()
}

fn written() -> (String, AuditChain) {
    let mut chain = AuditChain::default();
    let text = notes().into_iter().map(|note| add(&mut chain, note).unwrap()).collect();
    (text, chain)
}

// spec: AU-1
#[test]
fn any_cut_edit_or_reorder_is_seen_up_to_the_last_anchor() {
    let (text, chain) = written();
    assert_eq!(verify(text.as_bytes(), Some(&chain)).unwrap(), chain);
    assert_eq!(verify(b"", None).unwrap(), AuditChain::default());
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let joined = |order: &[usize]| order.iter().map(|at| lines[*at]).collect::<String>();
    for (name, bad) in [
        ("the first is gone", joined(&[1, 2, 3, 4, 5])),
        ("one in the middle is gone", joined(&[0, 1, 3, 4, 5])),
        ("two are swapped", joined(&[0, 2, 1, 3, 4, 5])),
        ("one stands twice", joined(&[0, 1, 1, 2, 3, 4, 5])),
        ("half of the last", text[..text.len() - 9].to_owned()),
        ("no last line end", text.trim_end().to_owned()),
        ("an empty line", text.replacen('\n', "\n\n", 1)),
        ("a space", text.replacen("{\"sequence\":3", "{ \"sequence\":3", 1)),
        ("a member more", text.replacen("{\"sequence\":3", "{\"more\":1,\"sequence\":3", 1)),
        ("another name", text.replacen("alice", "malice", 1)),
        ("another code", text.replacen("not_found", "not_managed", 1)),
        ("done instead of refused", text.replacen(",\"intentRefused\":\"expired\"", "", 1)),
    ] {
        assert!(verify(bad.as_bytes(), None).is_err(), "{name}");
    }
    // Every bit of every byte.
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        assert!(verify(&bytes, Some(&chain)).is_err(), "byte {at}");
    }
    // The end alone needs an anchor.
    let cut = joined(&[0, 1, 2, 3, 4]);
    assert!(verify(cut.as_bytes(), None).is_ok());
    assert!(matches!(verify(cut.as_bytes(), Some(&chain)), Err(AuditError::Short { found: 5, anchored: 6 })));
    let mut other = chain;
    other.head = Digest::ZERO;
    assert!(matches!(verify(text.as_bytes(), Some(&other)), Err(AuditError::Chain { number: 6 })));
}

// spec: AU-2
#[test]
fn an_actor_has_the_members_of_its_kind() {
    for bad in [
        r#"{"kind":"operator"}"#,
        r#"{"kind":"worker","uid":0}"#,
        r#"{"kind":"owner","name":"alice"}"#,
        r#"{"kind":"page"}"#,
    ] {
        assert!(json::from_str::<AuditActor>(bad, 256, 4).is_err(), "{bad}");
    }
    for note in notes() {
        let text = json::to_string(&note.actor).unwrap();
        assert_eq!(json::from_str::<AuditActor>(&text, 256, 4).unwrap(), note.actor);
    }
}

// spec: AU-42
#[test]
fn a_session_is_told_from_a_key() {
    let mut chain = AuditChain::default();
    for (via, word) in
        [(None, ""), (Some(AuditVia::Key), r#","via":"key""#), (Some(AuditVia::Session), r#","via":"session""#)]
    {
        let note = AuditEntry { via, ..notes()[1].clone() };
        let mut before = chain;
        let line = add(&mut chain, note).unwrap();
        assert!(line.contains(&format!("{word},\"action\"")), "{line}");
        assert_eq!(follow(&mut before, line.as_bytes()).unwrap().via, via);
    }
}

// spec: AU-3
#[test]
fn the_golden_lines_never_change() {
    let (text, chain) = written();
    let golden = r#"{"sequence":1,"at":"2026-11-29T20:00:00Z","actor":{"kind":"operator","uid":0},"action":"intent-settled","prev":"0000000000000000000000000000000000000000000000000000000000000000"}"#;
    assert_eq!(text.lines().next(), Some(golden));
    assert_eq!(chain.head.to_string(), "b7ffa828d8aa5bcc0dbdba8ae78b4cfcb1659d2ad037addf52d8eb69dbfe6a8e");
}
