//! What no story can bring about.

use super::*;
use crate::config::Limits;
use crate::parts::tests::bench::{Machine, inventory};

fn discovery(machine: &Machine) -> Discovery<'_> {
    Discovery {
        key: machine.node.key.public(),
        inventory: inventory(1 << 30),
        running: false,
        address: machine.from,
        limits: Limits { devices: 8, tasks: 8 },
    }
}

// spec: JO-19
#[test]
fn a_second_device_of_the_same_verification_code_is_refused() {
    let (machine, other) = (Machine::new(1), Machine::new(2));
    let now = UnixTime::from_secs(1000);
    let mut journal = Journal::empty();
    discover(&mut journal, discovery(&machine), now).unwrap();
    // 2^24 keys would have to be made to find two of one code, so the row is bent.
    let fingerprint = other.node.fingerprint;
    journal.devices[0].verification_code = fingerprint.verification_code();
    let refusal = discover(&mut journal, discovery(&other), now).unwrap_err();
    assert_eq!(refusal.code, Code::VerificationCodeCollision);
    assert_eq!(journal.devices.len(), 1);
}

#[test]
fn who_does_something_is_always_named() {
    let mut journal = Journal::empty();
    let now = UnixTime::from_secs(1000);
    let until = now.plus(std::time::Duration::from_secs(60));
    assert!(open_window(&mut journal, until, "  ", now).is_err());
    open_window(&mut journal, until, "operator:0", now).unwrap();
    assert_eq!(journal.events[0].actor.as_str(), "operator:0");
}

#[test]
fn closing_what_is_closed_is_no_event() {
    let mut journal = Journal::empty();
    close_window(&mut journal, Act::WindowClosed, "operator:0", UnixTime::from_secs(1)).unwrap();
    assert_eq!(journal, Journal::empty());
}
