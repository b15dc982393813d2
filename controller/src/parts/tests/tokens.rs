//! Automation tokens on one clock: who makes one, what it opens and until when, and what a crash leaves.

use std::net::IpAddr;

use lucia_durable::crash_point::{crash_at, record};
use lucia_people::audit::AuditVia;
use lucia_people::token::{Days, TokenForm, TokenMade, TokenScope, TokenScopes, TokenSecret};
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::{TOKEN_CALLS_PER_SECOND, TOKEN_CALLS_PER_SOURCE, TOKENS_PER_OWNER_MAX};
use lucia_proto::orders::owner::Role;
use lucia_proto::test_support::{OrderWorld, TestOwner};

use super::bench::{World, code};
use super::owners::{fleet, publish};
use crate::parts::{By, Refusal};

const DAY: u64 = 24 * 3600;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([198, 51, 100, last])
}

fn by(owner: &TestOwner) -> By {
    By::Owner { id: owner.id.clone(), name: owner.name.parse().unwrap(), from: ip(1), via: AuditVia::Key }
}

fn form(name: &str, days: u32) -> TokenForm {
    let scopes = TokenScopes::try_from(vec![TokenScope::Nodes]).unwrap();
    TokenForm { name: name.parse().unwrap(), scopes, days: Days::new(days).unwrap() }
}

fn make(world: &World, name: &str, owner: &TestOwner) -> Result<TokenMade, Refusal> {
    world.parts.people.make_token(form(name, 30), &by(owner))
}

fn present(world: &World, made: &TokenMade) -> Option<Code> {
    code(world.parts.people.token(Some(made.secret.reveal()), ip(9)))
}

fn site() -> (World, OrderWorld) {
    let world = World::new();
    let fleet = fleet(&world);
    publish(&world, &fleet);
    (world, fleet)
}

// spec: AP-24
#[test]
fn a_token_opens_what_its_owner_said_until_its_day_and_no_other_text_does() {
    let (world, fleet) = site();
    let made = make(&world, "prometheus", &fleet.alice).unwrap();
    assert_eq!(made.token.expires_at, world.now().plus(Days::new(30).unwrap().duration()));
    assert_eq!((made.token.owner.as_ref().unwrap().as_str(), made.token.used_at), ("alice", None));
    let looking = world.parts.people.token(Some(made.secret.reveal()), ip(9)).unwrap();
    assert_eq!((looking.name, looking.scopes), (made.token.name.clone(), made.token.scopes.clone()));
    assert_eq!(world.parts.people.tokens(&by(&fleet.alice)).tokens[0].used_at, Some(world.now()));
    // What is kept is the hash alone.
    let kept = std::fs::read_to_string(world.file("tokens/tokens.json")).unwrap();
    assert!(kept.contains(&made.secret.kept().to_string()) && !kept.contains(&made.secret.reveal()[3..]));
    // One and the same refusal, whatever is wrong.
    let mut said = std::collections::BTreeSet::new();
    let mut refused = |presented: Option<&str>| {
        let refusal = world.parts.people.token(presented, ip(8)).unwrap_err();
        assert_eq!(refusal.code, Code::ActorRequired);
        said.insert(refusal.message);
    };
    let unknown = TokenSecret::from_random(&[9; 32]);
    let other = made.secret.reveal().replace("t1.", "t1.A");
    for presented in [None, Some(""), Some("t1."), Some(unknown.reveal()), Some(&other[..46])] {
        refused(presented);
    }
    let gone = make(&world, "gone", &fleet.alice).unwrap();
    world.parts.people.remove_token(&gone.token.code, &by(&fleet.alice)).unwrap();
    refused(Some(gone.secret.reveal()));
    world.advance(30 * DAY - 1);
    assert_eq!(present(&world, &made), None);
    world.advance(1);
    refused(Some(made.secret.reveal()));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(world.parts.people.tokens(&by(&fleet.alice)).tokens.is_empty());
    world.parts.tick();
    assert!(!std::fs::read_to_string(world.file("tokens/tokens.json")).unwrap().contains("prometheus"));
}

// spec: AP-25
#[test]
fn a_token_goes_with_its_owners_place_and_does_not_come_back() {
    for left in [true, false] {
        let (world, mut fleet) = site();
        let (hers, his) = (make(&world, "one", &fleet.alice).unwrap(), make(&world, "one", &fleet.bob).unwrap());
        let alice = fleet.alice.id.clone();
        let before = fleet.roster.roster().owners.clone();
        fleet.change_roster(|roster| {
            if left {
                roster.owners.retain(|owner| owner.id != alice);
            } else {
                roster.owners.iter_mut().filter(|owner| owner.id == alice).for_each(|owner| owner.role = Role::Viewer);
            }
        });
        publish(&world, &fleet);
        assert_eq!((present(&world, &hers), present(&world, &his)), (Some(Code::ActorRequired), None), "{left}");
        world.parts.tick();
        fleet.change_roster(|roster| roster.owners = before);
        publish(&world, &fleet);
        assert_eq!((present(&world, &hers), present(&world, &his)), (Some(Code::ActorRequired), None), "{left}");
    }
}

// spec: AP-26
#[test]
fn an_owner_makes_few_under_names_of_their_own_and_removes_their_own() {
    let (world, fleet) = site();
    assert_eq!(code(world.parts.people.make_token(form("one", 1), &By::Operator(0))), Some(Code::ActorRequired));
    let made = make(&world, "one", &fleet.alice).unwrap();
    assert_eq!(code(make(&world, "one", &fleet.alice)), Some(Code::InvalidOnboardingRequest));
    for n in 1..TOKENS_PER_OWNER_MAX {
        make(&world, &format!("t{n}"), &fleet.alice).unwrap();
    }
    assert_eq!(code(make(&world, "more", &fleet.alice)), Some(Code::InvalidOnboardingRequest));
    make(&world, "one", &fleet.bob).unwrap();
    assert_eq!(world.parts.people.tokens(&by(&fleet.bob)).tokens.len(), 1);
    assert_eq!(world.parts.people.tokens(&By::Operator(0)).tokens.len(), TOKENS_PER_OWNER_MAX + 1);
    let remove = |who: &By| code(world.parts.people.remove_token(&made.token.code, who));
    assert_eq!(remove(&by(&fleet.bob)), Some(Code::TokenNotFound));
    assert_eq!(present(&world, &made), None);
    assert_eq!((remove(&By::Operator(0)), remove(&By::Operator(0))), (None, Some(Code::TokenNotFound)));
    assert_eq!(present(&world, &made), Some(Code::ActorRequired));
    // What is over makes room.
    make(&world, "one", &fleet.alice).unwrap();
    world.advance(31 * DAY);
    make(&world, "one", &fleet.alice).unwrap();
    assert_eq!(world.parts.people.tokens(&By::Operator(0)).tokens.len(), 1);
    // Who made and removed which, by its name.
    let entries = world.parts.audit.entries(0, 500).unwrap().entries;
    let of = |action, name: &str| {
        let is = |token: Option<&str>| token == Some(name);
        entries
            .iter()
            .filter(|entry| entry.action == action && is(entry.token.as_ref().map(|name| name.as_str())))
            .count()
    };
    assert_eq!((of(Act::TokenMade, "t1"), of(Act::TokenRemoved, "one")), (1, 1));
}

// spec: AP-27
#[test]
fn calls_with_tokens_are_counted_by_source_and_by_token() {
    let (world, fleet) = site();
    let made = make(&world, "one", &fleet.alice).unwrap();
    let unknown = TokenSecret::from_random(&[9; 32]);
    let guess = |from| code(world.parts.people.token(Some(unknown.reveal()), from));
    for _ in 0..TOKEN_CALLS_PER_SOURCE {
        assert_eq!(guess(ip(1)), Some(Code::ActorRequired));
    }
    assert_eq!((guess(ip(1)), guess(ip(2))), (Some(Code::TooManyRequests), Some(Code::ActorRequired)));
    // Whose address guessed too often waits, with a good token too.
    let good = |from| code(world.parts.people.token(Some(made.secret.reveal()), from));
    assert_eq!(good(ip(1)), Some(Code::TooManyRequests));
    for n in 0..TOKEN_CALLS_PER_SECOND {
        assert_eq!(good(ip(u8::try_from(10 + n).unwrap())), None, "{n}");
    }
    assert_eq!(good(ip(99)), Some(Code::TooManyRequests));
    world.advance(1);
    assert_eq!((good(ip(1)), good(ip(99))), (None, None));
}

// spec: AP-28
#[test]
fn a_token_survives_every_crash_whole_or_not_at_all() {
    let steps = {
        let (world, fleet) = site();
        let armed = record(&world.file("tokens"));
        make(&world, "two", &fleet.alice).unwrap();
        armed.steps().len()
    };
    assert!(steps > 5, "{steps} steps only");
    for nth in 0..steps {
        let (world, fleet) = site();
        let first = make(&world, "one", &fleet.alice).unwrap();
        let second = {
            let armed = crash_at(&world.file("tokens"), nth);
            let second = make(&world, "two", &fleet.alice);
            assert!(armed.crashed().is_some(), "{nth}");
            second
        };
        assert_eq!(code(second), Some(Code::PersistenceFailed), "{nth}");
        let world = world.restart();
        assert_eq!(present(&world, &first), None, "{nth}");
        assert!(matches!(world.parts.people.tokens(&by(&fleet.alice)).tokens.len(), 1 | 2), "{nth}");
    }
    // What is no list stops the start with its cure.
    let (world, _) = site();
    std::fs::write(world.file("tokens/tokens.json"), "{").unwrap();
    let World { scratch, clock, config, parts, .. } = world;
    drop(parts);
    let text = crate::refusal::chain(&super::bench::start(&config, &clock, 9).err().unwrap());
    assert!(text.contains("tokens.json"), "{text}");
    drop(scratch);
}
