//! Passkeys from the browser to a session, on one clock: who is let in, for how long, and what a crash leaves.

use std::net::IpAddr;

use lucia_durable::crash_point::{crash_at, fail_at, record};
use lucia_people::audit::AuditVia;
use lucia_people::sign_in::{self, PasskeyForm, PasskeyView, SignIn};
use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::KeyLabel;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::{
    OWNER_CALLS_PER_SOURCE, PASSKEY_REQUEST_LIFETIME, PASSKEY_REQUESTS_MAX, PASSKEY_REQUESTS_OPEN_PER_SOURCE,
    PASSKEYS_PER_OWNER_MAX, PROOFS_PER_SECOND, SIGN_INS_PER_SOURCE,
};
use lucia_proto::node::challenge::Scope;
use lucia_proto::orders::application::Application;
use lucia_proto::orders::owner::{CredentialId, KeyUse, OwnerId, OwnerKey, PageOrigin, Role};
use lucia_proto::orders::passkey_challenge;
use lucia_proto::orders::roster::Roster;
use lucia_proto::pki::key::VerificationCode;
use lucia_proto::test_support::{OrderWorld, TestOwner, assertion, key};

use super::bench::{World, code};
use super::owners::{fleet, publish};
use crate::parts::{AskedPasskey, By, NewSession, OpenError, Refusal};

fn ip(last: u8) -> IpAddr {
    IpAddr::from([198, 51, 100, last])
}

/// The passkey of this number, as a browser hands it in.
fn form(number: u8) -> PasskeyForm {
    PasskeyForm {
        label: KeyLabel::fitted("laptop").unwrap(),
        credential_id: CredentialId::from_bytes(vec![number; 16]).unwrap(),
        public_key: key(number).public().der().to_vec(),
    }
}

fn by(owner: &TestOwner) -> By {
    By::Owner { id: owner.id.clone(), name: owner.name.parse().unwrap(), from: ip(1), via: AuditVia::Session }
}

fn confirm(world: &World, code: &VerificationCode, owner: &TestOwner) -> Result<PasskeyView, Refusal> {
    world.parts.people.approve_passkey(code, &by(owner), &owner.key.public().fingerprint())
}

/// Handed in and confirmed.
fn add(world: &World, number: u8, owner: &TestOwner) -> Result<PasskeyView, Refusal> {
    let asked = world.parts.people.ask_passkey(form(number), ip(number))?;
    confirm(world, &asked.code, owner)
}

/// A sign-in with the passkey `claimed`, signed by `number` at `page`, over what `change` makes of the right challenge.
fn attempt(
    world: &World,
    (claimed, number): (u8, u8),
    page: &PageOrigin,
    from: IpAddr,
    change: impl FnOnce([u8; 32]) -> [u8; 32],
) -> Result<NewSession, Refusal> {
    let challenge = world.parts.challenges.issue(&Scope::Owner, from).challenge();
    let signed = change(sign_in::challenge(&challenge.challenge_id, &challenge.nonce));
    let sign_in = SignIn {
        challenge_id: challenge.challenge_id,
        credential_id: form(claimed).credential_id,
        assertion: assertion(&key(number), &signed, page, |_, _| ()),
    };
    world.parts.people.sign_in(&sign_in, &OrderWorld::origin(), from)
}

fn enter(world: &World, number: u8) -> Result<NewSession, Refusal> {
    attempt(world, (number, number), &OrderWorld::origin(), ip(200), |challenge| challenge)
}

fn token(begun: Result<NewSession, Refusal>) -> String {
    begun.unwrap().token
}

/// threats.md C: what a page makes somebody sign at each sign-in would be an order, were it the same key.
// spec: PG-80
#[test]
fn a_passkey_signs_orders_or_signs_in_and_never_both() {
    let world = World::new();
    let mut fleet = fleet(&world);
    publish(&world, &fleet);
    let by_alice = |fleet: &OrderWorld, number: u8| {
        let (alice, passkey) = (&fleet.alice, key(number));
        let place = (alice.id.clone(), alice.name.parse().unwrap());
        let asked = (passkey.public(), form(number).credential_id);
        Application::confirm(place, (fleet.fleet, world.now()), asked, &alice.key)
    };
    add(&world, 71, &fleet.alice).unwrap();
    let apply = |asked| code(world.parts.people.apply(asked, ip(9)));
    assert_eq!(apply(by_alice(&fleet, 71)), Some(Code::InvalidOnboardingRequest), "it signs in");
    assert_eq!(apply(by_alice(&fleet, 72)), None);
    assert_eq!(code(add(&world, 72, &fleet.alice)), Some(Code::InvalidOnboardingRequest), "it is asked for");
    enter(&world, 71).unwrap();
    // Whoever approved it on the worker's host all the same.
    fleet.change_roster(|roster| {
        let key = OwnerKey {
            key_use: KeyUse::OrderPasskey,
            public_key_pem: key(71).public().to_pem(),
            credential_id: Some(form(71).credential_id),
        };
        roster.owners.first_mut().unwrap().keys.push(key);
    });
    publish(&world, &fleet);
    assert_eq!(code(enter(&world, 71)), Some(Code::ActorRequired));
    add(&world, 73, &fleet.alice).unwrap();
    enter(&world, 73).unwrap();
}

/// Whoever had an owner key once and was found out keeps nothing that it let in.
// spec: PG-82
#[test]
fn a_passkey_goes_with_the_key_that_confirmed_it_and_so_do_its_sessions() {
    let world = World::new();
    let mut fleet = fleet(&world);
    // Alice has a second key, and the first one is stolen.
    let second = OwnerKey { key_use: KeyUse::OwnerKey, public_key_pem: key(90).public().to_pem(), credential_id: None };
    fleet.change_roster(|roster| roster.owners.first_mut().unwrap().keys.push(second));
    publish(&world, &fleet);
    add(&world, 71, &fleet.alice).unwrap();
    let asked = world.parts.people.ask_passkey(form(72), ip(72)).unwrap();
    world.parts.people.approve_passkey(&asked.code, &by(&fleet.alice), &key(90).public().fingerprint()).unwrap();
    // By which key each was confirmed outlives a restart.
    let world = world.restart();
    publish(&world, &fleet);
    let (thief, own) = (token(enter(&world, 71)), token(enter(&world, 72)));
    let first = fleet.alice.key.public().to_pem();
    fleet.change_roster(|roster| {
        roster.owners.first_mut().unwrap().keys.retain(|key| key.public_key_pem != first);
    });
    publish(&world, &fleet);
    assert_eq!(code(world.parts.people.session(&thief, true)), Some(Code::ActorRequired));
    assert!(world.parts.people.session(&own, true).is_ok());
    assert_eq!(code(enter(&world, 71)), Some(Code::ActorRequired));
    enter(&world, 72).unwrap();
}

// spec: CO-23
#[test]
fn a_change_in_a_session_counts_as_a_call_with_a_proof_does() {
    let world = World::new();
    let fleet = fleet(&world);
    publish(&world, &fleet);
    add(&world, 71, &fleet.alice).unwrap();
    let change = |who: &TestOwner, from| code(world.parts.people.count_change(&who.id, from));
    let most = u8::try_from(PROOFS_PER_SECOND).unwrap();
    for n in 0..most {
        assert_eq!(change(&fleet.alice, ip(n)), None, "{n}");
    }
    // Wherever she is, and with a signature as well; nobody else waits for her.
    assert_eq!(change(&fleet.alice, ip(100)), Some(Code::TooManyRequests));
    assert_eq!(code(enter(&world, 71)), Some(Code::TooManyRequests));
    assert_eq!(change(&fleet.bob, ip(100)), None);
    world.advance(1);
    assert_eq!(change(&fleet.alice, ip(100)), None);
    enter(&world, 71).unwrap();
    // Nor does one address.
    world.advance(1);
    let changes = [&fleet.alice, &fleet.bob, &fleet.victor, &fleet.mallory].into_iter().cycle();
    let taken =
        |who: &TestOwner| world.parts.people.count_change(&OwnerId::of(&who.key.public().fingerprint()), ip(1)).is_ok();
    assert_eq!(changes.take(4 * usize::from(most)).filter(|who| taken(who)).count(), 4 * usize::from(most));
    let strangers = (0..u32::from(most) * 9).map(|n| format!("{n:032x}").parse::<OwnerId>().unwrap());
    let taken = strangers.filter(|who| world.parts.people.count_change(who, ip(1)).is_ok()).count();
    assert_eq!(taken, usize::try_from(OWNER_CALLS_PER_SOURCE).unwrap() - 4 * usize::from(most));
}

// spec: AU-42
#[test]
fn who_signs_in_and_out_and_by_which_passkey_is_in_the_audit() {
    let world = World::new();
    let fleet = fleet(&world);
    publish(&world, &fleet);
    let asked = add(&world, 71, &fleet.alice).unwrap();
    let begun = enter(&world, 71).unwrap();
    world.advance(1);
    // Who cannot be noted is not let in; whoever goes is let go.
    {
        let _plan = fail_at(&world.file("audit"), "append/write", 0, nix::libc::ENOSPC);
        assert_eq!(code(enter(&world, 71)), Some(Code::PersistenceFailed));
        assert_eq!(world.parts.people.sessions(&by(&fleet.alice), None).sessions.len(), 1);
    }
    {
        let _plan = fail_at(&world.file("audit"), "append/write", 0, nix::libc::ENOSPC);
        assert_eq!(code(world.parts.people.end_sessions(&by(&fleet.alice), None)), Some(Code::PersistenceFailed));
    }
    assert!(!world.parts.people.session_goes_on(&begun.token));
    world.parts.people.remove_passkey(&asked.code, &by(&fleet.alice)).unwrap();
    let entries = world.parts.audit.entries(0, 100).unwrap().entries;
    let seen: Vec<_> = entries.iter().skip(1).map(|entry| (entry.action, entry.via, entry.from)).collect();
    let session = Some(AuditVia::Session);
    let want = [
        (Act::PasskeyConfirmed, session, Some(ip(1))),
        (Act::SignedIn, None, Some(ip(200))),
        (Act::SignedIn, None, Some(ip(200))),
        (Act::SessionEnded, session, Some(ip(1))),
        (Act::PasskeyRemoved, session, Some(ip(1))),
    ];
    assert_eq!(seen, want, "{entries:?}");
}

// spec: PG-3, LC-93
#[test]
fn a_passkey_signs_in_whoever_confirmed_it_and_nobody_before() {
    let world = World::new();
    let fleet = fleet(&world);
    publish(&world, &fleet);
    let asked = world.parts.people.ask_passkey(form(71), ip(1)).unwrap();
    assert_eq!(asked.code, form(71).code());
    assert_eq!(asked.expires_at, world.now().plus(PASSKEY_REQUEST_LIFETIME));
    assert_eq!(code(enter(&world, 71)), Some(Code::ActorRequired), "nobody confirmed it");
    assert_eq!(world.parts.people.ask_passkey(form(71), ip(1)).unwrap(), asked, "the same again is asking once");
    assert_eq!(code(confirm(&world, &form(72).code(), &fleet.alice)), Some(Code::PasskeyNotFound));
    assert_eq!(
        code(world.parts.people.approve_passkey(
            &asked.code,
            &By::Operator(0),
            &fleet.alice.key.public().fingerprint()
        )),
        Some(Code::ActorRequired)
    );
    let view = confirm(&world, &asked.code, &fleet.victor).unwrap();
    assert_eq!(view.owner.as_ref().unwrap().as_str(), "victor");
    let begun = enter(&world, 71).unwrap();
    assert_eq!((begun.answer.name.as_str(), begun.answer.role), ("victor", Role::Viewer));
    assert_eq!(world.parts.people.session(&begun.token, true).unwrap().id, fleet.victor.id);
    // It is confirmed once, and of one person, who alone hears so.
    let again = confirm(&world, &asked.code, &fleet.victor).unwrap_err();
    assert_eq!(again.code, Code::InvalidOnboardingRequest);
    assert!(again.message.contains("luciactl passkey list"), "{again:?}");
    assert_eq!(code(confirm(&world, &asked.code, &fleet.alice)), Some(Code::PasskeyNotFound));
    assert_eq!(code(add(&world, 71, &fleet.alice)), Some(Code::InvalidOnboardingRequest));
    assert_eq!(world.parts.people.passkeys(&by(&fleet.alice)).passkeys, []);
    assert_eq!(world.parts.people.passkeys(&by(&fleet.victor)).passkeys, [view]);
    // What an owner dismisses is what waits under the code. Nobody removes another's; the operator removes any.
    world.parts.people.remove_passkey(&asked.code, &by(&fleet.alice)).unwrap();
    assert_eq!(world.parts.people.passkeys(&by(&fleet.victor)).passkeys.len(), 1);
    assert_eq!(code(world.parts.people.remove_passkey(&asked.code, &by(&fleet.alice))), Some(Code::PasskeyNotFound));
    world.parts.people.remove_passkey(&asked.code, &By::Operator(0)).unwrap();
    assert_eq!(code(enter(&world, 71)), Some(Code::ActorRequired));
    assert_eq!(
        code(world.parts.people.session(&begun.token, true)),
        Some(Code::ActorRequired),
        "its session ended with it"
    );
    // A key of another kind.
    let mut other = form(72);
    other.public_key.truncate(90);
    assert_eq!(code(world.parts.people.ask_passkey(other, ip(9))), Some(Code::BadKey));
}

// spec: PG-3
#[test]
fn few_passkeys_wait_and_for_an_hour() {
    let world = World::new();
    let fleet = fleet(&world);
    publish(&world, &fleet);
    let ask = |number: u8, from| world.parts.people.ask_passkey(form(number), ip(from));
    for n in 0..PASSKEY_REQUESTS_MAX {
        let n = u8::try_from(n).unwrap();
        ask(100 + n, 10 + n / 4).unwrap();
    }
    assert_eq!(PASSKEY_REQUESTS_OPEN_PER_SOURCE, 4);
    // In a full list the source with most of them gives way, and no single one.
    let waits = |number: u8| world.parts.people.asked_passkey(&form(number).code()) == AskedPasskey::Waits;
    for n in 0..12 {
        ask(140 + n, 60 + n).unwrap();
    }
    assert_eq!((100..116).filter(|number| waits(*number)).count(), 4);
    assert_eq!(code(ask(160, 99)), Some(Code::RegistryFull));
    assert!((140..152).all(waits));
    world.advance(PASSKEY_REQUEST_LIFETIME.as_secs());
    assert_eq!(code(confirm(&world, &form(100).code(), &fleet.alice)), Some(Code::PasskeyNotFound));
    for n in 0..4 {
        ask(140 + n, 10).unwrap();
    }
    assert_eq!(code(ask(150, 10)), Some(Code::RegistryFull), "one source has its share");
    assert_eq!(code(ask(150, 10)), Some(Code::TooManyRequests));
    for n in 0..PASSKEYS_PER_OWNER_MAX {
        add(&world, 160 + u8::try_from(n).unwrap(), &fleet.alice).unwrap();
    }
    assert_eq!(code(add(&world, 180, &fleet.alice)), Some(Code::InvalidOnboardingRequest));
}

// spec: PG-220
#[test]
fn an_owner_dismisses_a_passkey_that_waits_and_a_viewer_does_not() {
    let world = World::new();
    let fleet = fleet(&world);
    publish(&world, &fleet);
    for number in [71, 72] {
        world.parts.people.ask_passkey(form(number), ip(9)).unwrap();
    }
    let waits = |number: u8| world.parts.people.asked_passkey(&form(number).code()) == AskedPasskey::Waits;
    let dismiss = |number: u8, by: &By| code(world.parts.people.remove_passkey(&form(number).code(), by));
    let alice = by(&fleet.alice);
    let viewer = fleet.roster.roster().owners.iter().find(|owner| owner.role == Role::Viewer).unwrap();
    let (id, name) = (viewer.id.clone(), viewer.name.clone());
    assert_eq!(dismiss(71, &By::Owner { id, name, from: ip(1), via: AuditVia::Session }), Some(Code::PasskeyNotFound));
    assert!(waits(71));
    assert_eq!(dismiss(71, &alice), None);
    assert!(!waits(71) && waits(72));
    assert_eq!(dismiss(72, &By::Operator(0)), None);
    assert_eq!(dismiss(72, &alice), Some(Code::PasskeyNotFound));
    assert_eq!(code(confirm(&world, &form(71).code(), &fleet.alice)), Some(Code::PasskeyNotFound));
}

// spec: PG-4
#[test]
fn whoever_is_not_let_in_learns_nothing() {
    let world = World::new();
    let mut fleet = fleet(&world);
    publish(&world, &fleet);
    add(&world, 71, &fleet.alice).unwrap();
    add(&world, 72, &fleet.bob).unwrap();
    fleet.change_roster(|roster| roster.owners.retain(|owner| owner.name.as_str() != "bob"));
    publish(&world, &fleet);
    let (page, evil) = (OrderWorld::origin(), "https://evil.test".parse().unwrap());
    let same = |challenge| challenge;
    let mut said = std::collections::BTreeSet::new();
    for (name, refused) in [
        ("unknown", attempt(&world, (99, 99), &page, ip(1), same)),
        ("another's signature", attempt(&world, (71, 99), &page, ip(1), same)),
        ("another page", attempt(&world, (71, 71), &evil, ip(1), same)),
        ("an order instead", attempt(&world, (71, 71), &page, ip(1), |_| passkey_challenge("{}"))),
        ("who left", attempt(&world, (72, 72), &page, ip(1), same)),
        ("an owner's own key", attempt(&world, (41, 41), &page, ip(1), same)),
    ] {
        let refusal = refused.expect_err(name);
        said.insert((refusal.code, refusal.message));
    }
    assert_eq!(said.len(), 1, "{said:?}");
    // A challenge is used once, and by whom it was given to.
    let challenge = world.parts.challenges.issue(&Scope::Owner, ip(2)).challenge();
    let signed = sign_in::challenge(&challenge.challenge_id, &challenge.nonce);
    let sign_in = SignIn {
        challenge_id: challenge.challenge_id,
        credential_id: form(71).credential_id,
        assertion: assertion(&key(71), &signed, &page, |_, _| ()),
    };
    let send = |from| code(world.parts.people.sign_in(&sign_in, &page, from));
    assert_eq!(send(ip(3)), Some(Code::ChallengeRefused), "from another address");
    assert_eq!(send(ip(2)), None);
    assert_eq!(send(ip(2)), Some(Code::ChallengeRefused), "again");
    // Tries are counted.
    let refused = |_| code(attempt(&world, (99, 99), &page, ip(4), same));
    assert!((0..SIGN_INS_PER_SOURCE).map(refused).all(|code| code == Some(Code::ActorRequired)));
    assert_eq!(refused(0), Some(Code::TooManyRequests));
    assert!(attempt(&world, (71, 71), &page, ip(5), same).is_ok(), "from elsewhere one goes on");
}

// spec: PG-85
#[test]
fn a_passkey_for_orders_signs_nobody_in() {
    let world = World::new();
    let mut fleet = fleet(&world);
    publish(&world, &fleet);
    add(&world, 71, &fleet.alice).unwrap();
    enter(&world, 71).unwrap();
    let other = |number: u8, id: u8| PasskeyForm { credential_id: form(id).credential_id, ..form(number) };
    let alice = |roster: &mut Roster, number: u8| {
        roster.owners[0].keys.push(OwnerKey {
            key_use: KeyUse::OrderPasskey,
            public_key_pem: key(number).public().to_pem(),
            credential_id: Some(form(number).credential_id),
        });
    };
    fleet.change_roster(|roster| alice(roster, 72));
    publish(&world, &fleet);
    // By its key or its id, whoever confirms it; and an owner key is no passkey.
    for (from, (name, form, who)) in (1..).zip([
        ("hers", form(72), &fleet.alice),
        ("hers, by bob", form(72), &fleet.bob),
        ("its id under another key", other(73, 72), &fleet.alice),
        ("its key under another id", other(72, 73), &fleet.alice),
        ("an owner key", form(41), &fleet.alice),
    ]) {
        let had = world.parts.people.passkeys(&by(who)).passkeys;
        let asked = world.parts.people.ask_passkey(form, ip(from)).unwrap();
        let refusal =
            world.parts.people.approve_passkey(&asked.code, &by(who), &who.key.public().fingerprint()).expect_err(name);
        assert_eq!(refusal.code, Code::InvalidOnboardingRequest, "{name}");
        assert_eq!(world.parts.people.passkeys(&by(who)).passkeys, had, "{name}");
    }
    assert_eq!(code(enter(&world, 72)), Some(Code::ActorRequired));
    // One that signed her in until the roster had it for orders does so no more, and one of hers that it has not goes on.
    add(&world, 74, &fleet.alice).unwrap();
    fleet.change_roster(|roster| alice(roster, 71));
    publish(&world, &fleet);
    let refusal = enter(&world, 71).unwrap_err();
    assert_eq!(refusal.code, Code::ActorRequired);
    assert_eq!(refusal.message, enter(&world, 99).unwrap_err().message, "and learns nothing");
    assert!(enter(&world, 74).is_ok());
}

// spec: PG-5, PG-6
#[test]
fn a_session_is_its_owners_and_ends_with_their_standing() {
    let world = World::new();
    let mut fleet = fleet(&world);
    publish(&world, &fleet);
    add(&world, 71, &fleet.alice).unwrap();
    add(&world, 72, &fleet.bob).unwrap();
    let (alices, bobs) = (token(enter(&world, 71)), token(enter(&world, 72)));
    let own = world.parts.people.sessions(&by(&fleet.alice), Some(&alices)).sessions;
    assert_eq!((own.len(), own[0].owner.as_str(), own[0].current), (1, "alice", true));
    assert_eq!(world.parts.people.sessions(&By::Operator(0), None).sessions.len(), 2);
    let end = |who: &TestOwner, code| world.parts.people.end_sessions(&by(who), Some(code));
    assert_eq!(code(end(&fleet.bob, &own[0].code)), Some(Code::SessionNotFound), "another's");
    end(&fleet.alice, &own[0].code).unwrap();
    assert_eq!(code(world.parts.people.session(&alices, true)), Some(Code::ActorRequired));
    assert!(world.parts.people.session(&bobs, true).is_ok());
    // As a viewer bob signs in anew.
    fleet.change_roster(|roster| roster.owners[1].role = Role::Viewer);
    publish(&world, &fleet);
    assert_eq!(code(world.parts.people.session(&bobs, true)), Some(Code::ActorRequired));
    let bobs = token(enter(&world, 72));
    assert_eq!(world.parts.people.session(&bobs, true).unwrap().role, Role::Viewer);
    fleet.change_roster(|roster| roster.owners.truncate(1));
    publish(&world, &fleet);
    assert!(!world.parts.people.session_goes_on(&bobs));
    assert_eq!(world.parts.people.sessions(&By::Operator(0), None).sessions, []);
    // A restart ends every session and no passkey.
    let alices = token(enter(&world, 71));
    let world = world.restart();
    assert_eq!(code(world.parts.people.session(&alices, true)), Some(Code::ActorRequired));
    let alices = token(enter(&world, 71));
    world.advance(30 * 60);
    assert_eq!(code(world.parts.people.session(&alices, true)), Some(Code::ActorRequired), "half an hour unused");
    let (one, two) = (token(enter(&world, 71)), token(enter(&world, 71)));
    world.parts.people.end_sessions(&by(&fleet.alice), None).unwrap();
    assert!(!world.parts.people.session_goes_on(&one) && !world.parts.people.session_goes_on(&two));
}

// spec: PG-10
#[test]
fn a_passkey_survives_every_crash_whole_or_not_at_all() {
    let steps = {
        let world = World::new();
        let fleet = fleet(&world);
        publish(&world, &fleet);
        let armed = record(&world.file("passkeys"));
        add(&world, 71, &fleet.alice).unwrap();
        armed.steps().len()
    };
    assert!(steps > 5, "{steps} steps only");
    for nth in 0..steps {
        let world = World::new();
        let fleet = fleet(&world);
        publish(&world, &fleet);
        add(&world, 70, &fleet.alice).unwrap();
        let added = {
            let armed = crash_at(&world.file("passkeys"), nth);
            let added = add(&world, 71, &fleet.alice);
            assert!(armed.crashed().is_some(), "{nth}");
            added
        };
        assert_eq!(code(added), Some(Code::PersistenceFailed), "{nth}");
        let world = world.restart();
        assert!(enter(&world, 70).is_ok(), "{nth}");
        let there = world.parts.people.passkeys(&by(&fleet.alice)).passkeys.len();
        assert_eq!(enter(&world, 71).is_ok(), there == 2, "{nth}");
    }
    // What is no list stops the start with its cure.
    let world = World::new();
    std::fs::write(world.file("passkeys/passkeys.json"), "{").unwrap();
    let World { scratch, clock, config, parts, .. } = world;
    drop(parts);
    let Err(OpenError::Passkeys(refused)) = super::bench::start(&config, &clock, 9) else { panic!("another end") };
    assert!(crate::refusal::chain(&refused).contains("passkeys.json"), "{refused:?}");
    drop(scratch);
}
