//! Whether a node could take an order now, as far as the controller sees (design.md O4).

use std::fmt;
use std::time::Duration;

use crate::host_api::OrdersHeld;
use crate::limits::{FRESHNESS_INTERVAL, FRESHNESS_MAX};
use crate::text::span;
use crate::time::UnixTime;

/// How it stands to orders. Its text says so in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Its heartbeats say nothing of orders.
    Silent,
    /// It holds the first roster, and the second is in force.
    OlderRoster(u64, u64),
    /// It was handed the worker's answer so long ago, and that counts for so long more.
    Answered(Duration, Duration),
    /// It asks the worker how late it is, and has no answer.
    Asks,
    /// It asks nothing, so it has an answer that this controller does not remember.
    Before,
}

impl Readiness {
    /// What `held` says, at `now`.
    #[must_use]
    pub fn of(held: Option<&OrdersHeld>, now: UnixTime) -> Self {
        let Some(held) = held else { return Self::Silent };
        if held.roster_version < held.roster_newest {
            return Self::OlderRoster(held.roster_version, held.roster_newest);
        }
        let left = |at: UnixTime| at.plus(FRESHNESS_MAX).since(now);
        match (held.answered_at.filter(|at| !left(*at).is_zero()), held.asks) {
            (Some(at), _) => Self::Answered(now.since(at), left(at)),
            (None, true) => Self::Asks,
            (None, false) => Self::Before,
        }
    }

    /// What is wrong with that, with its cure; nothing where it takes orders.
    #[must_use]
    pub fn wrong(self) -> Option<String> {
        match self {
            Self::Silent => {
                Some("its agent does not know of orders: bring it to this controller's version".to_owned())
            }
            Self::OlderRoster(held, newest) => Some(format!(
                "it holds roster version {held}, and {newest} is in force: the next heartbeat brings it"
            )),
            Self::Asks => Some(
                "it asks the worker how late it is, and takes no order before the answer: lucia-enrollment-worker status \
                 says whether the worker runs"
                    .to_owned(),
            ),
            Self::Answered(..) | Self::Before => None,
        }
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => f.write_str("its last heartbeat said nothing of orders"),
            Self::OlderRoster(..) => f.write_str("orders wait for the roster"),
            Self::Answered(ago, left) => write!(
                f,
                "it takes orders: the worker's word how late it is came to it {} ago and counts for {} more. Its agent has that \
                 renewed every {} h, and asks anew after a restart",
                span(*ago),
                span(*left),
                FRESHNESS_INTERVAL.as_secs() / 3600
            ),
            Self::Asks => f.write_str("none yet: its question waits"),
            Self::Before => f.write_str("it asks nothing now, so it has an answer from before this controller's start"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

    // spec: LC-42, PG-84
    #[test]
    fn whether_it_takes_orders_and_why_not_is_said() {
        let held = |answered: Option<u64>, asks, roster_version| OrdersHeld {
            bundle_version: 1,
            roster_version,
            roster_newest: 5,
            asks,
            answered_at: answered.map(|ago| NOW.minus(Duration::from_secs(ago))),
        };
        let day = FRESHNESS_MAX.as_secs();
        for (held, says, wrong) in [
            (None, "nothing of orders", Some("bring it to this controller's version")),
            (Some(held(Some(60), false, 4)), "wait for the roster", Some("version 4, and 5 is in force")),
            (
                Some(held(Some(3600), false, 5)),
                "it takes orders: the worker's word how late it is came to it 1 h 0 min ago and counts for 23 h 0 min more",
                None,
            ),
            (Some(held(Some(day - 1), true, 5)), "counts for 1 s more", None),
            (Some(held(Some(day), true, 5)), "its question waits", Some("lucia-enrollment-worker status")),
            (Some(held(None, true, 5)), "its question waits", Some("takes no order before")),
            (Some(held(None, false, 5)), "from before this controller's start", None),
        ] {
            let readiness = Readiness::of(held.as_ref(), NOW);
            let (text, found) = (readiness.to_string(), readiness.wrong());
            assert!(text.contains(says), "{text}");
            assert_eq!(found.is_some(), wrong.is_some(), "{found:?}");
            assert!(wrong.is_none_or(|wrong| found.unwrap().contains(wrong)), "{text}");
        }
    }
}
