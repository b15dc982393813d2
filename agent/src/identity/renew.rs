//! Keep, renew or recover: decided from times alone, by the controller's clock.

use lucia_proto::base::limits::RENEW_UNDER;
use lucia_proto::base::time::UnixTime;

/// What the certificate's end asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Six days or more are left.
    Keep,
    /// Under six days are left: renew while heartbeats go on.
    Renew,
    /// It is over: renew, and nothing else.
    Lapsed,
}

/// Decides for a certificate that ends at `not_after`, at the controller's time `now`.
#[must_use]
pub fn renewal(not_after: UnixTime, now: UnixTime) -> Renewal {
    if now > not_after {
        Renewal::Lapsed
    } else if not_after.since(now) < RENEW_UNDER {
        Renewal::Renew
    } else {
        Renewal::Keep
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // spec: RN-1
    // spec: RN-2
    #[test]
    fn the_table_of_renewal() {
        let end = UnixTime::from_secs(1_800_000_000);
        let day = 86_400;
        for (left, want) in [
            (7 * day, Renewal::Keep),
            (6 * day + 1, Renewal::Keep),
            (6 * day, Renewal::Keep),
            (6 * day - 1, Renewal::Renew),
            (day, Renewal::Renew),
            (1, Renewal::Renew),
            (0, Renewal::Renew),
        ] {
            assert_eq!(renewal(end, end.minus(Duration::from_secs(left))), want, "{left} s left");
        }
        for over in [1, day, 400 * day] {
            assert_eq!(renewal(end, end.plus(Duration::from_secs(over))), Renewal::Lapsed, "{over} s over");
        }
        assert_eq!(renewal(end, UnixTime::EPOCH), Renewal::Keep);
    }
}
