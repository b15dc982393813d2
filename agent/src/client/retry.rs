//! How long to wait: back-off as a value, and which back-off a refusal asks for. No timer in here.

use std::time::Duration;

use lucia_proto::base::code::{AgentAction, Code};

use super::CallError;
use super::proxy::ProxyError;
use super::transport::TransportError;

/// `Retry-After` is honoured up to this: a controller cannot send its nodes away for good.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// How pauses grow and how far they are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The first pause.
    pub base: Duration,
    /// The longest pause.
    pub cap: Duration,
    /// Whether each pause is drawn from 0 to its length (full jitter), or is its length.
    pub jitter: bool,
}

impl Pace {
    const fn new(base: u64, cap: u64) -> Self {
        Self { base: Duration::from_secs(base), cap: Duration::from_secs(cap), jitter: true }
    }

    /// The controller is away or busy: all nodes are back within a minute of its return, spread out.
    pub const ANSWERLESS: Self = Self::new(2, 30);
    /// Somebody has to act, or the controller's queue has to move.
    pub const WAITING: Self = Self::new(5, 60);
    /// The agent itself is wrong; asking often helps nobody.
    pub const WRONG: Self = Self::new(30, 900);
    /// The identity is refused: down to once an hour, for good (design.md I5).
    pub const REFUSED: Self = Self { base: Duration::from_secs(30), cap: Duration::from_secs(3600), jitter: true };
    /// The reference's steps for a pending or failed renewal: 30 s doubled up to 15 min.
    pub const RENEWAL: Self = Self { base: Duration::from_secs(30), cap: Duration::from_secs(900), jitter: false };

    /// The back-off an error asks for.
    #[must_use]
    pub fn after(error: &CallError) -> Self {
        match error {
            CallError::Refused { code, .. } => Self::of_action(*code),
            // A proxy that says no has to be told otherwise by somebody.
            CallError::Unreachable(TransportError::Proxy(
                _,
                ProxyError::Refused(400..=499) | ProxyError::Strange(_),
            )) => Self::WAITING,
            CallError::Unreachable(_) => Self::ANSWERLESS,
            CallError::Stranger { .. } => Self::WAITING,
            CallError::BadAnswer { .. } | CallError::Unsigned(_) | CallError::NoCertificate => Self::WRONG,
        }
    }

    const fn of_action(code: Code) -> Self {
        match code.agent_action() {
            // The one fresh challenge was refused as well: as busy as any other controller.
            AgentAction::SignAgain | AgentAction::BackOff => Self::ANSWERLESS,
            AgentAction::AwaitPerson => Self::WAITING,
            AgentAction::Hourly => Self::REFUSED,
            AgentAction::Report => Self::WRONG,
        }
    }
}

/// Counts the failures of each pace since the last success and says how long to wait after each. A count under one pace
/// says nothing under another: after ten lost connections in five minutes, the first refusal is still the first. Nor does
/// one lost connection undo the hourly pace of an identity that was refused all day.
#[derive(Debug)]
pub struct Backoff {
    /// One entry a pace, of which there are five.
    failures: Vec<(Pace, u32)>,
    random: u64,
}

impl Backoff {
    /// A back-off whose jitter comes from `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { failures: Vec::new(), random: seed }
    }

    /// A call succeeded.
    pub fn reset(&mut self) {
        self.failures.clear();
    }

    /// How long to wait after one more failure. A `Retry-After` is the least, up to [`RETRY_AFTER_MAX`], and the
    /// jitter comes on top of it, so that not all nodes come back in one second.
    pub fn next(&mut self, pace: Pace, retry_after: Option<Duration>) -> Duration {
        let before = self.failures.iter().position(|(of, _)| *of == pace);
        let (_, count) = before.map_or((pace, 0), |at| self.failures.swap_remove(at));
        self.failures.push((pace, count.saturating_add(1)));
        let longest = pace.base.saturating_mul(1 << count.min(20)).min(pace.cap);
        let pause = if pace.jitter { self.spread(longest) } else { longest };
        pause + retry_after.unwrap_or_default().min(RETRY_AFTER_MAX)
    }

    /// A time from 0 to `longest`, all alike.
    pub fn spread(&mut self, longest: Duration) -> Duration {
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        // For pauses of hours against 2^64, the bias of a remainder is nothing.
        Duration::from_millis(self.draw() % millis.saturating_add(1))
    }

    /// `middle`, up to a tenth shorter or longer.
    pub fn around(&mut self, middle: Duration) -> Duration {
        middle - middle / 10 + self.spread(middle / 5)
    }

    /// SplitMix64: enough to spread nodes out, and nothing secret hangs on it.
    const fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Reads `Retry-After` in its form of seconds; a date is nobody's wish here.
#[must_use]
pub fn retry_after(value: &str) -> Option<Duration> {
    let plain = !value.is_empty() && value.len() <= 9 && value.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| value.parse().ok().map(Duration::from_secs)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: AG-5
    #[test]
    fn pauses_stay_in_their_bounds_and_spread() {
        for pace in [Pace::ANSWERLESS, Pace::WAITING, Pace::WRONG, Pace::REFUSED] {
            let mut longest_seen = Duration::ZERO;
            for seed in 0..200 {
                let mut backoff = Backoff::new(seed);
                for failure in 0..40 {
                    let limit = pace.base.saturating_mul(1 << failure.min(20)).min(pace.cap);
                    let pause = backoff.next(pace, None);
                    assert!(pause <= limit, "{pace:?} {failure} {pause:?}");
                    longest_seen = longest_seen.max(pause);
                }
            }
            assert!(longest_seen > pace.cap * 9 / 10, "{pace:?} never comes near its cap");
        }
    }

    // spec: AG-323
    #[test]
    fn failures_of_one_kind_lengthen_no_pause_of_another() {
        let plain = |pace: Pace| Pace { jitter: false, ..pace };
        let (lost, waiting) = (plain(Pace::ANSWERLESS), plain(Pace::WAITING));
        let (wrong, refused) = (plain(Pace::WRONG), plain(Pace::REFUSED));
        for (what, paces, want) in [
            ("one kind alone", vec![lost; 6], vec![2, 4, 8, 16, 30, 30]),
            ("unreadable after lost connections", vec![lost, lost, lost, lost, lost, wrong], vec![2, 4, 8, 16, 30, 30]),
            (
                "refused after lost connections",
                vec![lost, lost, lost, lost, lost, refused, refused],
                vec![2, 4, 8, 16, 30, 30, 60],
            ),
            (
                "a refusal that ends in lost connections",
                vec![refused, refused, refused, lost, lost],
                vec![30, 60, 120, 2, 4],
            ),
            ("refused between two that wait", vec![waiting, waiting, refused, waiting], vec![5, 10, 30, 20]),
            ("a lost connection between two refusals", vec![refused, refused, lost, refused], vec![30, 60, 2, 120]),
            ("two paces of one base", vec![wrong, wrong, refused, wrong], vec![30, 60, 30, 120]),
            ("for good", vec![refused; 9], vec![30, 60, 120, 240, 480, 960, 1920, 3600, 3600]),
        ] {
            let mut backoff = Backoff::new(5);
            let pauses: Vec<u64> = paces.into_iter().map(|pace| backoff.next(pace, None).as_secs()).collect();
            assert_eq!(pauses, want, "{what}");
        }
    }

    // spec: RN-4
    #[test]
    fn renewal_takes_the_steps_of_the_reference() {
        let mut backoff = Backoff::new(1);
        let pauses: Vec<_> = (0..7).map(|_| backoff.next(Pace::RENEWAL, None).as_secs()).collect();
        assert_eq!(pauses, [30, 60, 120, 240, 480, 900, 900]);
        assert_eq!(pauses.iter().sum::<u64>(), 2730);
        backoff.reset();
        assert_eq!(backoff.next(Pace::RENEWAL, None).as_secs(), 30);
    }

    // spec: AG-5
    #[test]
    fn retry_after_is_honoured_up_to_an_hour() {
        for (value, secs) in
            [("0", Some(0)), ("120", Some(120)), ("", None), ("-1", None), ("1.5", None), ("9999999999", None)]
        {
            assert_eq!(retry_after(value).map(|d| d.as_secs()), secs, "{value:?}");
        }
        let mut backoff = Backoff::new(3);
        let pause = backoff.next(Pace::ANSWERLESS, Some(Duration::from_secs(120)));
        assert!((120..=122).contains(&pause.as_secs()), "{pause:?}");
        let pause = backoff.next(Pace::ANSWERLESS, Some(Duration::from_secs(1_000_000)));
        assert!((3600..=3604).contains(&pause.as_secs()), "{pause:?}");
    }

    #[test]
    fn around_is_a_tenth_to_both_sides() {
        let mut backoff = Backoff::new(9);
        let pauses: Vec<_> = (0..500).map(|_| backoff.around(Duration::from_secs(30)).as_millis()).collect();
        assert!(pauses.iter().all(|millis| (27_000..=33_000).contains(millis)));
        assert!(pauses.iter().min() < Some(&27_300) && pauses.iter().max() > Some(&32_700));
    }

    /// What each refusal makes the agent do, all of them.
    // spec: AG-6
    #[test]
    fn every_refusal_has_its_back_off_and_only_one_goes_down_to_an_hour() {
        for code in Code::ALL {
            let error = CallError::Refused { code: *code, message: String::new(), retry_after: None };
            let want = match code.agent_action() {
                AgentAction::SignAgain | AgentAction::BackOff => Pace::ANSWERLESS,
                AgentAction::AwaitPerson => Pace::WAITING,
                AgentAction::Hourly => Pace::REFUSED,
                AgentAction::Report => Pace::WRONG,
            };
            assert_eq!(Pace::after(&error), want, "{code:?}");
            assert_eq!(Pace::after(&error).cap.as_secs() == 3600, *code == Code::NodeIdentityInvalid, "{code:?}");
        }
    }
}
