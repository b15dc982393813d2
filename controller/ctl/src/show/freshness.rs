//! Whether a node could take an order now, as far as the controller sees (design.md O4).

use lucia_proto::host_api::OrdersHeld;
use lucia_proto::limits::FRESHNESS_MAX;
use lucia_proto::time::UnixTime;

use super::span;

/// How it stands, in words; and what is wrong with that, with its cure.
pub(super) fn freshness(held: Option<&OrdersHeld>, now: UnixTime) -> (String, Option<String>) {
    let Some(held) = held else {
        let wrong = "its agent does not know of orders: bring it to this controller's version";
        return ("its last heartbeat said nothing of orders".to_owned(), Some(wrong.to_owned()));
    };
    if held.roster_version < held.roster_newest {
        let wrong = format!(
            "it holds roster version {}, and {} is in force: the next heartbeat brings it",
            held.roster_version, held.roster_newest
        );
        return ("orders wait for the roster".to_owned(), Some(wrong));
    }
    let left = |at: UnixTime| at.plus(FRESHNESS_MAX).since(now);
    match (held.answered_at.filter(|at| !left(*at).is_zero()), held.asks) {
        (Some(at), _) => {
            let text = format!(
                "the worker's answer how late it is was handed to it {} ago: it takes orders for {} more, or until its agent \
                 restarts and asks anew",
                span(now.since(at)),
                span(left(at))
            );
            (text, None)
        }
        (None, true) => {
            let wrong = "it asks the worker how late it is, and takes no order before the answer: lucia-enrollment-worker \
                         status says whether the worker runs";
            ("none yet: its question waits".to_owned(), Some(wrong.to_owned()))
        }
        (None, false) => {
            ("it asks nothing now, so it has an answer from before this controller's start".to_owned(), None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

    // spec: LC-42
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
            (Some(held(Some(3600), false, 5)), "1 h 0 min ago: it takes orders for 23 h 0 min more", None),
            (Some(held(Some(day - 1), true, 5)), "for 1 s more", None),
            (Some(held(Some(day), true, 5)), "its question waits", Some("lucia-enrollment-worker status")),
            (Some(held(None, true, 5)), "its question waits", Some("takes no order before")),
            (Some(held(None, false, 5)), "from before this controller's start", None),
        ] {
            let (text, found) = freshness(held.as_ref(), NOW);
            assert!(text.contains(says), "{text}");
            assert_eq!(found.is_some(), wrong.is_some(), "{found:?}");
            assert!(wrong.is_none_or(|wrong| found.unwrap().contains(wrong)), "{text}");
        }
    }
}
