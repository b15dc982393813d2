//! What is said of a node that was removed, and what is still to be done about its key.

use std::fmt;

use crate::words;
use lucia_proto::base::bounded::Label;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::key::VerificationCode;

/// A node that was removed, as its controller remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The node.
    pub node_id: NodeId,
    /// The name it had, where that is still known.
    pub hostname: Option<Hostname>,
    /// When it was removed.
    pub at: UnixTime,
    /// By whom, as the journal has it.
    pub by: Label,
    /// It was removed because another key was approved in its place.
    pub replaced: bool,
    /// The code of that other key, while its installation is there.
    pub heir: Option<VerificationCode>,
    /// What becomes of its key at the worker.
    pub key: KeyEnd,
    /// What its machine has of that identity.
    pub machine: Machine,
}

/// What becomes of a removed node's key, as far as a controller can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyEnd {
    /// The worker carried out this order, which bars it.
    Barred(VerificationCode),
    /// No owner ordered it: the worker suspends the key and waits for somebody on its host.
    AwaitsConfirmation,
    /// There is no owner: the worker bars it by itself, a few an hour.
    AwaitsWorker,
}

/// What the machine of a removed node has of its identity, as far as a controller can tell: each is cured by another verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// It told that it wiped it, as an owner ordered.
    Wiped,
    /// It was ordered to wipe it and did not tell that it did.
    Unheard,
    /// Nobody told it: it has the key.
    Kept,
}

impl Removed {
    /// What people call it.
    #[must_use]
    pub fn name(&self) -> String {
        self.hostname.as_ref().map_or_else(|| format!("Node {}", self.node_id), ToString::to_string)
    }

    /// What `confirm-removals` takes.
    fn typed(&self) -> &str {
        self.hostname.as_ref().map_or(self.node_id.as_str(), Hostname::as_str)
    }

    /// That it was removed.
    #[must_use]
    pub fn what(&self) -> String {
        let (name, at, by) = (self.name(), self.at, words::actor(self.by.as_str()));
        let why = match (&self.heir, self.replaced) {
            (Some(code), _) => format!(", who approved machine {code} in its place"),
            (None, true) => ", who approved another machine in its place".to_owned(),
            (None, false) => String::new(),
        };
        format!("{name} was removed on {at} by {by}{why}.")
    }

    /// What somebody types on the worker's host, where that is waited for.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        match self.key {
            KeyEnd::AwaitsConfirmation => Some(format!("lucia-enrollment-worker confirm-removals {}", self.typed())),
            KeyEnd::Barred(_) | KeyEnd::AwaitsWorker => None,
        }
    }

    /// What is awaited of the worker, and what cures that.
    #[must_use]
    pub fn awaited(&self) -> String {
        let typed = self.typed();
        match &self.key {
            KeyEnd::Barred(code) => format!("Its key is barred for good: the worker carried out order {code}."),
            KeyEnd::AwaitsConfirmation => format!(
                "No owner's order told the worker so: it gives the key nothing and bars it for good once somebody on its \
                 host types lucia-enrollment-worker confirm-removals {typed}."
            ),
            KeyEnd::AwaitsWorker => format!(
                "The worker gives its key nothing and bars it by itself. Only when more than five go within an hour it waits \
                 for lucia-enrollment-worker confirm-removals {typed} on its host; lucia-enrollment-worker status says so."
            ),
        }
    }
}

impl Removed {
    /// How its machine becomes a node again, by what is typed there and to approve it: with a new key, which nothing is
    /// erased for. At the worker the name stays the former key's until the new one replaces it.
    #[must_use]
    pub fn comes_back(&self) -> String {
        let key = match self.machine {
            Machine::Wiped => {
                "Its machine wiped that identity. To bring it back run lucia-node-agent discover on it, which makes a new key."
            }
            Machine::Unheard => {
                "Its machine did not report that it wiped that identity. To bring it back run lucia-node-agent status on it: \
                 where that says that an owner removed the identity, lucia-node-agent discover makes a new key; else first \
                 systemctl stop lucia-node-agent and lucia-node-agent rekey, then lucia-node-agent discover."
            }
            Machine::Kept => {
                "Its machine still has that key and comes back only with a new one: run systemctl stop lucia-node-agent on it, \
                 then lucia-node-agent rekey and lucia-node-agent discover."
            }
        };
        let name = self.hostname.as_ref().map_or("NAME", Hostname::as_str);
        format!(
            "{key} Nothing is erased: approve it with luciactl approve CODE --fingerprint HEX --hostname {name} --replaces {}, \
             then run lucia-node-agent wait-install, lucia-node-agent rekey --finish and systemctl start lucia-node-agent on it.",
            self.typed()
        )
    }
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.what(), self.awaited(), self.comes_back())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: PG-91, PG-112
    #[test]
    fn a_removal_says_when_by_whom_and_what_the_worker_waits_for() {
        let code = || "1a2b-3c4d-5e6f".parse().unwrap();
        let removed = Removed {
            node_id: "1a2b3c4d5e6f00000000000000000000".parse().unwrap(),
            hostname: Some("web-1".parse().unwrap()),
            at: UnixTime::from_secs(1_796_068_800),
            by: "owner:alice".parse().unwrap(),
            replaced: false,
            heir: None,
            key: KeyEnd::AwaitsConfirmation,
            machine: Machine::Kept,
        };
        let text = removed.to_string();
        let mut shown = format!("{text}\n");
        for part in [
            "web-1",
            "2026-11-30T20:00:00Z",
            "alice",
            "lucia-node-agent discover",
            "luciactl approve CODE --fingerprint HEX --hostname web-1 --replaces web-1",
            "lucia-node-agent rekey --finish",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(removed.command().as_deref(), Some("lucia-enrollment-worker confirm-removals web-1"));
        for (machine, rekeys) in [(Machine::Wiped, false), (Machine::Kept, true), (Machine::Unheard, true)] {
            let text = Removed { machine, ..removed.clone() }.to_string();
            assert!(text.contains("lucia-node-agent discover"), "{text}");
            assert_eq!(text.contains("systemctl stop lucia-node-agent"), rekeys, "{text}");
            shown.push_str(&format!("\n{text}\n"));
        }
        for (replaced, heir, key, names) in [
            (true, Some(code()), KeyEnd::Barred(code()), 2),
            (true, None, KeyEnd::Barred(code()), 1),
            (false, None, KeyEnd::Barred(code()), 1),
            (false, None, KeyEnd::AwaitsWorker, 0),
        ] {
            let text = Removed { replaced, heir, key, ..removed.clone() }.to_string();
            assert_eq!(text.matches("1a2b-3c4d-5e6f").count(), names, "{text}");
            shown.push_str(&format!("\n{text}\n"));
        }
        let unnamed = Removed { hostname: None, by: "operator:0".parse().unwrap(), ..removed };
        let text = unnamed.to_string();
        assert!(text.contains("confirm-removals 1a2b3c4d5e6f00000000000000000000"), "{text}");
        shown.push_str(&format!("\n{text}\n"));
        expect_test::expect_file!["snapshots/removed.txt"].assert_eq(&shown);
    }
}
