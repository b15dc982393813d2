use super::*;
use crate::orders::owner::OwnerKey;
use crate::orders::{LaterKind, OrderKind, Rule};
use crate::pki::signed::signed_text;
use crate::test_support::{OrderWorld, TestCa, TestOwner, key};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

fn sign(world: &OrderWorld, change: impl FnOnce(&mut Roster)) -> SignedRoster {
    let mut roster = world.roster.roster().clone();
    change(&mut roster);
    SignedRoster::sign(&roster, &world.ca.worker_key).unwrap()
}

fn verify(world: &OrderWorld, signed: &SignedRoster) -> Result<VerifiedRoster, RosterError> {
    signed.verify(&world.bundle, &world.fleet)
}

// spec: RO-1
#[test]
fn a_roster_a_worker_signed_is_read_whole() {
    let world = OrderWorld::new(NOW);
    let signed = sign(&world, |roster| {
        roster.page_kinds = vec![OrderKind::SshKey].into();
        roster.policy = OrderPolicy::allow_all().with(OrderKind::Admit, Rule::TwoOwners);
    });
    let text = json::to_string(&signed).unwrap();
    let read: SignedRoster = json::from_str(&text, 65_536, 4).unwrap();
    assert_eq!(read, signed);
    let roster = verify(&world, &read).unwrap();
    assert_eq!(roster.version(), 5);
    assert_eq!(roster.policy().rule(OrderKind::Admit), Rule::TwoOwners);
    let names: Vec<_> = roster.roster().owners.iter().map(|owner| (owner.name.as_str(), owner.role)).collect();
    assert_eq!(names, [("alice", Role::Owner), ("bob", Role::Owner), ("victor", Role::Viewer)]);
    assert_eq!(roster.owner(&world.bob.id).unwrap().name.as_str(), "bob");
    assert_eq!(roster.owner(&world.mallory.id), None);
    assert_eq!(roster.signed(), &signed);
    assert!(roster.has_owner());
    assert_eq!(roster.page_origin(OrderKind::SshKey), Some(&OrderWorld::origin()));
    assert_eq!(roster.page_origin(OrderKind::Admit), None);
    let viewers = sign(&world, |roster| roster.owners.retain(|owner| owner.role == Role::Viewer));
    assert!(!verify(&world, &viewers).unwrap().has_owner());
    assert!(verify(&world, &sign(&world, |roster| roster.owners.clear())).is_ok());
}

// spec: RO-2
#[test]
fn one_wrong_entry_refuses_the_whole() {
    let world = OrderWorld::new(NOW);
    let check = |name: &str, change: &dyn Fn(&mut Roster), is_right: fn(&RosterError) -> bool| {
        let error = verify(&world, &sign(&world, change)).expect_err(name);
        assert!(is_right(&error), "{name}: {error}");
    };
    let twice = |error: &RosterError| matches!(error, RosterError::Twice { .. });
    let credential = |error: &RosterError| matches!(error, RosterError::Credential { .. });
    let first = |roster: &mut Roster, change: &dyn Fn(&mut Owner)| change(roster.owners.first_mut().unwrap());
    let owner_key = |number: u8| OwnerKey {
        key_use: KeyUse::OwnerKey,
        public_key_pem: key(number).public().to_pem(),
        credential_id: None,
    };
    let many = |count: u8| {
        let names: Vec<String> = (0..count).map(|at| format!("o{at}")).collect();
        names
            .iter()
            .zip(60..)
            .map(|(name, number)| {
                let owner = TestOwner::new("o", number);
                let mut entry = owner.entry(Role::Owner);
                entry.name = name.parse().unwrap();
                entry.keys.truncate(1);
                entry
            })
            .collect::<Vec<_>>()
    };
    assert!(verify(&world, &sign(&world, |roster| roster.owners = many(32))).is_ok());
    check("33 owners", &|roster| roster.owners = many(33), |error| {
        matches!(error, RosterError::Count { count: 33, .. })
    });
    check("version", &|roster| roster.version = 0, |error| matches!(error, RosterError::Version));
    check("fleet", &|roster| roster.fleet = Digest::of(b"x"), |error| matches!(error, RosterError::OtherFleet(_)));
    check("no key", &|roster| first(roster, &|owner| owner.keys.clear()), |error| {
        matches!(error, RosterError::Count { count: 0, .. })
    });
    let keys = |from: u8| (from..from + 9).map(owner_key).collect::<Vec<_>>();
    check("nine keys", &|roster| first(roster, &|owner| owner.keys = keys(60)), |error| {
        matches!(error, RosterError::Count { count: 9, .. })
    });
    assert!(
        verify(&world, &sign(&world, |roster| first(roster, &|owner| owner.keys = keys(60)[..8].to_vec()))).is_ok()
    );
    check(
        "no PEM",
        &|roster| first(roster, &|owner| owner.keys[1].public_key_pem.clear()),
        |error| matches!(error, RosterError::Key { owner, index: 1, .. } if owner.as_str() == "alice"),
    );
    check("a passkey without its id", &|roster| first(roster, &|owner| owner.keys[1].credential_id = None), credential);
    let id = CredentialId::from_bytes(vec![1]);
    check(
        "an id for no passkey",
        &|roster| first(roster, &|owner| owner.keys[0].credential_id = id.clone()),
        credential,
    );
    check("one name twice", &|roster| roster.owners[1].name = roster.owners[0].name.clone(), twice);
    check("one id twice", &|roster| roster.owners[1].id = roster.owners[0].id.clone(), twice);
    check("one key of two owners", &|roster| roster.owners[1].keys[0] = roster.owners[0].keys[0].clone(), twice);
    check(
        "one key for two uses",
        &|roster| {
            let pem = roster.owners[0].keys[0].public_key_pem.clone();
            roster.owners[0].keys[1].public_key_pem = pem;
        },
        twice,
    );
    check(
        "one credential twice",
        &|roster| {
            let id = roster.owners[0].keys[1].credential_id.clone();
            roster.owners[1].keys[1].credential_id = id;
        },
        twice,
    );
    check("a kind twice", &|roster| roster.page_kinds = vec![OrderKind::SshKey; 2].into(), twice);
    check(
        "kinds and no page",
        &|roster| {
            roster.page_kinds = vec![OrderKind::SshKey].into();
            roster.page_origin = None;
        },
        |error| matches!(error, RosterError::NoPage),
    );
}

// spec: RO-3
#[test]
fn only_a_workers_signature_over_the_exact_bytes_counts() {
    let world = OrderWorld::new(NOW);
    let signed = sign(&world, |_| ());
    let (payload, signature) = (signed.parts().payload().to_vec(), signed.parts().signature().to_vec());
    let text = signed_text(TAG, &payload);
    for (name, payload, signature) in [
        ("a line end more", [&payload[..], b"\n"].concat(), signature.clone()),
        ("by the root", payload.clone(), world.ca.root_key.sign_der(&text)),
        ("by the issuing CA", payload.clone(), world.ca.issuing_key.sign_der(&text)),
        ("by an owner", payload.clone(), world.alice.key.sign_der(&text)),
        ("by a worker that the bundle does not name", payload.clone(), key(99).sign_der(&text)),
        ("without the first line", payload.clone(), world.ca.worker_key.sign_der(&payload)),
        ("under the first line of an answer", payload.clone(), {
            world.ca.worker_key.sign_der(&[b"lucia-answer-v1\n", &payload[..]].concat())
        }),
        ("no signature", payload.clone(), Vec::new()),
        ("no payload", Vec::new(), signature),
    ] {
        let refused = verify(&world, &SignedRoster::from_parts(payload, signature));
        assert!(matches!(refused, Err(RosterError::Signature)), "{name}");
    }
    let retired = TestCa::with_keys(NOW, 211);
    let other = retired.signed_bundle(4, NOW).verify(&retired.root()).unwrap();
    assert!(matches!(signed.verify(&other, &world.fleet), Err(RosterError::Signature)));
    // What a worker signed and is no roster.
    let text = String::from_utf8(payload).unwrap();
    for (name, text) in [
        ("nothing", String::new()),
        ("an array", "[]".to_owned()),
        ("a member more", text.replacen('{', "{\"x\":1,", 1)),
        ("a role that is none", text.replacen("\"viewer\"", "\"admin\"", 1)),
        ("a use that is none", text.replacen("\"owner-key\"", "\"any\"", 1)),
        ("a word that is no kind", text.replacen("\"policy\"", "\"pageKinds\":[\"Exec\"],\"policy\"", 1)),
        ("a rule that is none", text.replacen("\"allow\"", "\"maybe\"", 1)),
        ("no policy", text.replacen(",\"policy\":{\"default\":\"allow\"}", "", 1)),
        ("too long", format!("{text}{}", " ".repeat(ROSTER_PAYLOAD_MAX))),
    ] {
        let signature = world.ca.worker_key.sign_der(&signed_text(TAG, text.as_bytes()));
        let refused = verify(&world, &SignedRoster::from_parts(text.into_bytes(), signature));
        assert!(matches!(refused, Err(RosterError::Json(_))), "{name}");
    }
}

// spec: RO-4
#[test]
fn versions_only_rise_and_one_version_is_one_roster() {
    let world = OrderWorld::new(NOW);
    let verified = |change: &dyn Fn(&mut Roster)| verify(&world, &sign(&world, change)).unwrap();
    let held = verified(&|_| ());
    let lower = verified(&|roster| roster.version = 4);
    let higher = verified(&|roster| roster.version = 6);
    let other = verified(&|roster| drop(roster.owners.pop()));
    let mark = held.taken();
    let mark: TakenRoster = json::from_str(&json::to_string(&mark).unwrap(), 1024, 2).unwrap();
    let take = |held: Option<&TakenRoster>, new: &VerifiedRoster| accept(held, new.clone(), &world.bundle);
    assert_eq!(take(None, &lower).unwrap(), lower);
    assert_eq!(take(Some(&mark), &held).unwrap(), held);
    assert_eq!(take(Some(&mark), &higher).unwrap(), higher);
    assert!(matches!(take(Some(&mark), &lower), Err(RosterError::Older { current: 5, offered: 4 })));
    assert!(matches!(take(Some(&mark), &other), Err(RosterError::Conflict { version: 5 })));
    // The next worker key signs what there is anew: the same roster.
    let mut bundle = world.ca.bundle(4, NOW);
    bundle.workers = vec![key(98).public().to_pem()];
    let bundle = crate::pki::bundle::SignedBundle::sign(&bundle, &world.ca.root_key).unwrap();
    let bundle = bundle.verify(&world.ca.root()).unwrap();
    assert!(held.signed().verify(&bundle, &world.fleet).is_err());
    let again = SignedRoster::sign(held.roster(), &key(98)).unwrap().verify(&bundle, &world.fleet).unwrap();
    assert_ne!(again.signed(), held.signed());
    assert_eq!(accept(Some(&mark), again.clone(), &bundle).unwrap(), again);
}

/// threats.md W: the thief of a worker's key signs the highest version there is, or climbs; the next bundle ends both.
// spec: RO-90
#[test]
fn a_mark_binds_for_as_long_as_the_bundle_names_the_worker_who_signed_it() {
    let world = OrderWorld::new(NOW);
    let (first, next) = (&world.ca.worker_key, key(98));
    let bundle = |version: u64, workers: &[&NodeKey]| {
        let mut bundle = world.ca.bundle(version, NOW);
        bundle.workers = workers.iter().map(|key| key.public().to_pem()).collect();
        crate::pki::bundle::SignedBundle::sign(&bundle, &world.ca.root_key).unwrap().verify(&world.ca.root()).unwrap()
    };
    let (third, both, fifth) = (bundle(3, &[first]), bundle(4, &[first, &next]), bundle(5, &[&next]));
    let roster = |version: u64, by: &NodeKey, bundle: &VerifiedBundle| {
        let roster = Roster { version, ..world.roster.roster().clone() };
        SignedRoster::sign(&roster, by).unwrap().verify(bundle, &world.fleet).unwrap()
    };
    let most = 1 << 53;
    let stolen = roster(most, first, &third).taken();
    let older: fn(&RosterError) -> bool = |error| matches!(error, RosterError::Older { .. });
    let of_before: fn(&RosterError) -> bool = |error| matches!(error, RosterError::OlderBundle { .. });
    for (name, held, bundle, offered, by, want) in [
        ("the same bundle", &stolen, &third, 6, first, Some(older)),
        ("a newer one that still names the key", &stolen, &both, 6, &next, Some(older)),
        ("a newer one that retires it", &stolen, &fifth, 6, &next, None),
        ("and the lowest", &stolen, &fifth, 1, &next, None),
        ("the next worker's own", &roster(7, &next, &fifth).taken(), &fifth, 6, &next, Some(older)),
        // Both of before, as somebody between can bring them where no bundle is kept.
        ("an older bundle", &roster(7, &next, &fifth).taken(), &third, 8, first, Some(of_before)),
        ("an older bundle that names it", &roster(7, &next, &fifth).taken(), &both, 8, &next, Some(of_before)),
    ] {
        let taken = accept(Some(held), roster(offered, by, bundle), bundle);
        match want {
            None => assert_eq!(taken.unwrap().version(), offered, "{name}"),
            Some(is_right) => assert!(is_right(&taken.unwrap_err()), "{name}"),
        }
    }
    // One of before this was kept counts whatever the bundle says.
    let RosterMark { version, sha256 } = stolen.mark();
    let old: TakenRoster = json::from_str(&json::to_string(&RosterMark { version, sha256 }).unwrap(), 1024, 1).unwrap();
    let refused = accept(Some(&old), roster(6, &next, &fifth), &fifth);
    assert!(matches!(refused, Err(RosterError::Older { current, offered: 6 }) if current == most));
}

// spec: RO-5
#[test]
fn a_key_is_found_for_its_owner_and_its_use_alone() {
    let world = OrderWorld::new(NOW);
    let (alice, bob) = (&world.alice, &world.bob);
    let (key, passkey) = (alice.key.public().fingerprint(), alice.passkey.public().fingerprint());
    let roster = &world.roster;
    assert_eq!(roster.key(&alice.id, &key, KeyUse::OwnerKey), Some(alice.key.public()));
    assert_eq!(roster.key(&alice.id, &passkey, KeyUse::OrderPasskey), Some(alice.passkey.public()));
    assert_eq!(roster.key(&alice.id, &key, KeyUse::OrderPasskey), None);
    assert_eq!(roster.key(&alice.id, &passkey, KeyUse::OwnerKey), None);
    assert_eq!(roster.key(&bob.id, &key, KeyUse::OwnerKey), None);
    assert_eq!(roster.caller(&key).map(|(owner, key)| (&owner.id, key)), Some((&alice.id, alice.key.public())));
    assert_eq!(roster.caller(&passkey), None);
    assert_eq!(roster.caller(&world.mallory.key.public().fingerprint()), None);
}

/// The roster of `good` with another text in its payload, signed by the worker.
fn resigned(world: &OrderWorld, change: impl FnOnce(String) -> String) -> SignedRoster {
    let text = String::from_utf8(world.roster.signed().parts().payload().to_vec()).unwrap();
    let text = change(text).into_bytes();
    let signature = world.ca.worker_key.sign_der(&[TAG, &*text].concat());
    SignedRoster::from_parts(text, signature)
}

// spec: RO-400
#[test]
fn a_kind_of_a_later_version_is_kept_and_allows_nothing() {
    let mut world = OrderWorld::new(NOW);
    world.change_roster(|roster| {
        roster.page_kinds = vec![OrderKind::SshKey].into();
        roster.policy = OrderPolicy::forbid_all().with(OrderKind::SshKey, Rule::Allow);
    });
    let signed = resigned(&world, |text| {
        text.replace(r#""pageKinds":["ssh-key"]"#, r#""pageKinds":["exec","ssh-key"]"#)
            .replace(r#""ssh-key":"allow""#, r#""exec":"allow","ssh-key":"allow","wipe-2":"two-owners""#)
    });
    let roster = signed.verify(&world.bundle, &world.fleet).unwrap();
    let content = roster.roster();
    assert_eq!((&content.page_kinds[..], content.page_kinds.later()[0].as_str()), (&[OrderKind::SshKey][..], "exec"));
    assert_eq!(content.policy.later().map(LaterKind::as_str).collect::<Vec<_>>(), ["exec", "wipe-2"]);
    for kind in OrderKind::ALL {
        let want = if *kind == OrderKind::SshKey { Rule::Allow } else { Rule::Forbid };
        assert_eq!((content.policy.rule(*kind), roster.page_origin(*kind).is_some()), (want, want == Rule::Allow));
    }
    // The next roster, made here, has them still.
    let next = Roster { version: content.version + 1, ..content.clone() };
    let next = SignedRoster::sign(&next, &world.ca.worker_key).unwrap().verify(&world.bundle, &world.fleet).unwrap();
    assert_eq!((&next.roster().policy, &next.roster().page_kinds), (&content.policy, &content.page_kinds));
    // A roster that names no kinds has no such member, and needs no page.
    let plain = sign(&world, |roster| (roster.page_kinds, roster.page_origin) = (PageKinds::default(), None));
    assert!(!String::from_utf8_lossy(plain.parts().payload()).contains("pageKinds"));
    assert!(verify(&world, &plain).is_ok());
    // No order of such a kind is one here.
    assert_eq!(OrderKind::of_word("exec"), None);
}

// spec: RO-401
#[test]
fn a_word_that_is_no_kind_in_any_version_refuses_the_roster() {
    let mut world = OrderWorld::new(NOW);
    world.change_roster(|roster| {
        roster.page_kinds = vec![OrderKind::SshKey].into();
        roster.policy = OrderPolicy::forbid_all().with(OrderKind::SshKey, Rule::Allow);
    });
    let long = "a".repeat(65);
    let words = ["", "Exec", "1exec", "-exec", "ex ec", "ex_ec", "ex\\u0000ec", "ех", "default", long.as_str()];
    for word in words {
        let page = resigned(&world, |text| text.replace(r#"["ssh-key"]"#, &format!(r#"["ssh-key","{word}"]"#)));
        if word == "default" {
            // In a list it is a word like any other.
            assert!(page.verify(&world.bundle, &world.fleet).is_ok());
            continue;
        }
        assert!(matches!(page.verify(&world.bundle, &world.fleet), Err(RosterError::Json(_))), "{word}");
        let rule = resigned(&world, |text| text.replace(r#""ssh-key":"allow""#, &format!(r#""{word}":"allow""#)));
        assert!(matches!(rule.verify(&world.bundle, &world.fleet), Err(RosterError::Json(_))), "{word}");
    }
    for (name, from, to) in [
        ("a later kind twice on the page", r#"["ssh-key"]"#, r#"["exec","exec"]"#),
        ("a known kind twice on the page", r#"["ssh-key"]"#, r#"["ssh-key","exec","ssh-key"]"#),
        ("a later kind twice in the policy", r#""ssh-key":"allow""#, r#""exec":"allow","exec":"forbid""#),
        ("a rule that is none", r#""ssh-key":"allow""#, r#""exec":"maybe""#),
    ] {
        let signed = resigned(&world, |text| text.replace(from, to));
        assert!(signed.verify(&world.bundle, &world.fleet).is_err(), "{name}");
    }
    let nowhere = resigned(&world, |text| {
        let text = text.replace(r#"["ssh-key"]"#, r#"["exec"]"#);
        let at = text.find(r#""pageOrigin""#).unwrap();
        let end = at + text[at..].find(',').unwrap() + 1;
        format!("{}{}", &text[..at], &text[end..])
    });
    assert!(matches!(nowhere.verify(&world.bundle, &world.fleet), Err(RosterError::NoPage)));
}
