//! The sealed id itself.

use super::*;
use lucia_proto::base::time::{ManualClock, UnixTime};

fn challenges() -> (Challenges, Scope, IpAddr) {
    let clock = Arc::new(ManualClock::at(UnixTime::from_secs(1_795_982_400)));
    let challenges = Challenges::new(&[5; 32], SourceBinding::Strict, clock);
    let scope = Scope::Node("0123456789abcdef0123456789abcdef".parse().unwrap());
    (challenges, scope, "192.0.2.1".parse().unwrap())
}

// spec: CH-3
#[test]
fn each_bit_of_an_id_is_sealed() {
    let (challenges, scope, from) = challenges();
    let id = challenges.issue(&scope, from).challenge_id;
    let (at, rest) = id.parts();
    challenges.open(&id, &scope, from).unwrap();
    for bit in 0..48 {
        let forged = ChallengeId::from_parts(at ^ (1 << bit), rest);
        assert_eq!(challenges.open(&forged, &scope, from).unwrap_err().code, Code::ChallengeRefused, "time bit {bit}");
    }
    for bit in 0..74 {
        let forged = ChallengeId::from_parts(at, rest ^ (1 << bit));
        assert_eq!(challenges.open(&forged, &scope, from).unwrap_err().code, Code::ChallengeRefused, "rest bit {bit}");
    }
    assert_eq!(challenges.remembered(), 0);
}

#[test]
fn the_nonce_is_the_one_that_was_told_and_each_is_another() {
    let (challenges, scope, from) = challenges();
    let (a, b) = (challenges.issue(&scope, from), challenges.issue(&scope, from));
    assert_eq!(challenges.open(&a.challenge_id, &scope, from).unwrap(), a.nonce);
    assert_ne!(a.nonce, b.nonce);
    assert_ne!(a.challenge_id, b.challenge_id);
}

// spec: CH-222
#[test]
fn discoveries_of_all_strangers_together_are_bounded() {
    let (challenges, _, _) = challenges();
    let mut taken = 0;
    for n in 0..2 * DISCOVERIES_PER_SECOND {
        let from = IpAddr::from(n.to_be_bytes());
        let id = challenges.issue(&Scope::Boot, from).challenge_id;
        taken += u32::from(challenges.accept(&id, Whose::Stranger(Source::of(from))).is_ok());
    }
    assert_eq!(taken, DISCOVERIES_PER_SECOND);
    let id = challenges.issue(&Scope::Boot, [192, 0, 2, 1].into()).challenge_id;
    challenges.accept(&id, Whose::Device(&"0123456789abcdef0123456789abcdef".parse().unwrap())).unwrap();
}

// spec: CH-2
#[test]
fn s_3_both_of_two_that_were_opened_cannot_be_accepted() {
    let (challenges, scope, from) = challenges();
    let id = challenges.issue(&scope, from).challenge_id;
    let whose = Whose::Stranger(Source::of(from));
    // Two callers are past the first look when the first of them is accepted.
    challenges.open(&id, &scope, from).unwrap();
    challenges.open(&id, &scope, from).unwrap();
    challenges.accept(&id, whose).unwrap();
    assert_eq!(challenges.accept(&id, whose).unwrap_err().code, Code::ChallengeRefused);
    assert_eq!(challenges.open(&id, &scope, from).unwrap_err().code, Code::ChallengeRefused);
}

// spec: CH-8
#[test]
fn what_was_opened_in_time_and_forgotten_meanwhile_is_not_accepted() {
    let clock = Arc::new(ManualClock::at(UnixTime::from_secs(1_795_982_400)));
    let challenges = Challenges::new(&[5; 32], SourceBinding::Off, Arc::clone(&clock) as Arc<dyn Clock>);
    let from: IpAddr = "192.0.2.1".parse().unwrap();
    let id = challenges.issue(&Scope::Boot, from).challenge_id;
    challenges.open(&id, &Scope::Boot, from).unwrap();
    challenges.accept(&id, Whose::Stranger(Source::of(from))).unwrap();
    clock.advance(Duration::from_millis(120_001));
    challenges.forget();
    assert_eq!(challenges.remembered(), 0);
    assert_eq!(challenges.accept(&id, Whose::Stranger(Source::of(from))).unwrap_err().code, Code::ChallengeRefused);
}
