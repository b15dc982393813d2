//! Whether a node could take an order now, as far as the controller sees (design.md O4).

use std::fmt;
use std::time::Duration;

use crate::host_api::OrdersHeld;
use lucia_proto::base::limits::FRESHNESS_MAX;
use lucia_proto::base::text::span;
use lucia_proto::base::time::UnixTime;

/// How it stands to orders. Its text says so in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Its identity is frozen: it gets none until that is decided.
    Frozen,
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
    pub fn of(held: Option<&OrdersHeld>, frozen: bool, now: UnixTime) -> Self {
        if frozen {
            return Self::Frozen;
        }
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
                "it waits until the worker confirms its clock, and takes no order before: usual for a minute after a start, \
                 later lucia-enrollment-worker status says whether the worker runs"
                    .to_owned(),
            ),
            // That it is frozen is said first of all, with its cure.
            Self::Frozen | Self::Answered(..) | Self::Before => None,
        }
    }

    /// Whether the node's own next heartbeats bring it, with nobody's help.
    #[must_use]
    pub const fn settles_by_itself(self) -> bool {
        match self {
            Self::OlderRoster(..) | Self::Asks => true,
            Self::Frozen | Self::Silent | Self::Answered(..) | Self::Before => false,
        }
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frozen => f.write_str("takes none while its identity is frozen"),
            Self::Silent => f.write_str("its last heartbeat said nothing of orders"),
            Self::OlderRoster(..) => f.write_str("orders wait for the roster"),
            Self::Answered(ago, left) => write!(
                f,
                "takes orders; its clock was confirmed by the worker {} ago, good for {}",
                span(*ago),
                span(*left)
            ),
            Self::Asks => f.write_str("waits until the worker confirms its clock; then it takes orders"),
            Self::Before => {
                f.write_str("takes orders; its clock was confirmed by the worker before this controller's start")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

    // spec: LC-42, PG-84, PG-343
    #[test]
    fn whether_it_takes_orders_and_why_not_is_said() {
        let held = |answered: Option<u64>, asks, roster_version| OrdersHeld {
            bundle_version: 1,
            roster_version,
            roster_newest: 5,
            asks,
            answered_at: answered.map(|ago| NOW.minus(Duration::from_secs(ago))),
            waiting: Vec::new(),
        };
        let day = FRESHNESS_MAX.as_secs();
        let (hour, second) = (Duration::from_secs(3600), Duration::from_secs(1));
        let mut shown = String::new();
        for (held, want, cure) in [
            (None, Readiness::Silent, Some("")),
            (Some(held(Some(60), false, 4)), Readiness::OlderRoster(4, 5), Some("4")),
            (Some(held(Some(3600), false, 5)), Readiness::Answered(hour, FRESHNESS_MAX - hour), None),
            (Some(held(Some(day - 1), true, 5)), Readiness::Answered(FRESHNESS_MAX - second, second), None),
            (Some(held(Some(day), true, 5)), Readiness::Asks, Some("lucia-enrollment-worker status")),
            (Some(held(None, true, 5)), Readiness::Asks, Some("lucia-enrollment-worker status")),
            (Some(held(None, false, 5)), Readiness::Before, None),
        ] {
            let readiness = Readiness::of(held.as_ref(), false, NOW);
            assert_eq!(readiness, want);
            let found = readiness.wrong();
            assert_eq!(found.is_some(), cure.is_some(), "{found:?}");
            assert!(cure.is_none_or(|cure| found.as_ref().unwrap().contains(cure)), "{found:?}");
            // Whatever else there is, it is frozen first, and its words are not those of one that takes orders.
            let frozen = Readiness::of(held.as_ref(), true, NOW);
            assert_eq!((frozen, frozen.wrong()), (Readiness::Frozen, None));
            assert_ne!(frozen.to_string(), readiness.to_string());
            shown.push_str(&format!("{readiness}\n"));
            shown.extend(found.map(|found| format!("    {found}\n")));
        }
        shown.push_str(&format!("{}\n", Readiness::Frozen));
        expect_test::expect_file!["snapshots/readiness.txt"].assert_eq(&shown);
    }
}
