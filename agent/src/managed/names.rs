//! The name that the machine gives itself, where the fleet has another one for it.
//!
//! The agent goes on under the name of its certificate. It takes another one only where both agree: the controller says
//! that it is approved, and `/etc/hostname` says that it is this machine's.

use lucia_proto::base::names::Hostname;

use super::shared::Shared;
use crate::host::status::{OtherName, OwnersStanding};

/// What the machine calls itself, where that is a valid name and another than this one.
pub(super) fn other(own: &Hostname, machine: Option<&str>) -> Option<Hostname> {
    machine.and_then(|name| name.parse().ok()).filter(|name| name != own)
}

/// Tells people that the machine has another name, or no longer.
pub(super) fn note(shared: &Shared, own: &Hostname) {
    let approved = shared.approved.borrow().clone();
    set(shared, own, approved.as_ref());
}

/// The controller's word on the name: the approved one while it is another than the certificate's, else nothing.
pub(super) fn told(shared: &Shared, own: &Hostname, approved: Option<Hostname>) {
    let machine = machine(shared);
    let ours = approved.clone().filter(|name| machine.as_deref() == Some(name.as_str()));
    shared.approved.send_if_modified(|known| {
        let is_new = *known != ours;
        *known = ours;
        is_new
    });
    set(shared, own, approved.as_ref());
}

/// What the machine calls itself.
pub(super) fn machine(shared: &Shared) -> Option<String> {
    shared.readings.borrow().as_ref().and_then(|readings| readings.machine_name.clone())
}

fn set(shared: &Shared, own: &Hostname, approved: Option<&Hostname>) {
    let machine = machine(shared);
    let fleet = approved.unwrap_or(own);
    let differs = machine.filter(|name| name != fleet.as_str() || approved.is_some());
    let other = differs.map(|name| {
        let standing = match name.parse::<Hostname>() {
            Err(_) => OwnersStanding::Invalid,
            Ok(name) if Some(&name) == approved => OwnersStanding::Approved,
            Ok(_) => OwnersStanding::Reported,
        };
        // Whatever it holds, it is shown to people: a name has 63 characters.
        OtherName {
            machine: name.chars().take(64).collect(),
            fleet: own.clone(),
            approved: approved.cloned(),
            standing,
        }
    });
    shared.update(|status| {
        status.hostname = Some(own.clone());
        if let Some(other) = other.as_ref().filter(|other| status.other_name.as_ref() != Some(*other)) {
            tracing::warn!("{}", other.sentence());
        }
        status.other_name = other;
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::client::fake::TestClock;
    use crate::host::root::Root;
    use crate::host::scratch::Scratch;
    use crate::host::state::State;
    use crate::host::status::{Status, StatusFile};
    use crate::managed::usage::{Readings, Sampler};
    use lucia_daemon::notify::Notify;

    // spec: NN-14
    #[test]
    fn a_name_is_taken_only_where_both_say_it() {
        let scratch = Scratch::new();
        let state = State::hold(&scratch.root(), "test").unwrap();
        let clock = TestClock::at(lucia_proto::base::time::UnixTime::from_secs(1_800_000_000));
        let shared = Shared::new(state, StatusFile::new(&scratch.root()), Status::default(), clock, Notify::silent());
        let shared = Arc::new(shared);
        let readings = Sampler::new(&Root::system()).sample().unwrap();
        let own: Hostname = "n7".parse().unwrap();
        let name = |text: &str| Some(text.parse::<Hostname>().unwrap());
        for (machine, approved, taken, standing, sent) in [
            ("n7", None, None, None, None),
            ("web", None, None, Some(OwnersStanding::Reported), name("web")),
            ("web", name("web"), name("web"), Some(OwnersStanding::Approved), name("web")),
            ("web", name("mail"), None, Some(OwnersStanding::Reported), name("web")),
            // Approved for what it was called before, or taken back after the certificate was kept.
            ("n7", name("web"), None, Some(OwnersStanding::Reported), None),
            ("Web.Example", None, None, Some(OwnersStanding::Invalid), None),
            ("", name("web"), None, Some(OwnersStanding::Invalid), None),
        ] {
            let machine_name = Some(machine.to_owned());
            shared.readings.send_replace(Some(Readings { machine_name, ..readings.clone() }));
            note(&shared, &own);
            told(&shared, &own, approved.clone());
            let status = shared.status();
            assert_eq!(*shared.approved.borrow(), taken, "{machine}, {approved:?}");
            assert_eq!(status.other_name.as_ref().map(|other| other.standing), standing, "{machine}, {approved:?}");
            assert_eq!(status.hostname.as_ref(), Some(&own));
            assert_eq!(other(&own, Some(machine)), sent, "{machine}");
        }
        // Whatever the file holds, people are shown a line of it.
        let machine_name = Some("x".repeat(4000));
        shared.readings.send_replace(Some(Readings { machine_name, ..readings }));
        note(&shared, &own);
        assert_eq!(shared.status().other_name.unwrap().machine.len(), 64);
    }
}
