//! Which process of the daemon wrote the status, and how the last one ended: by the boot and the time since it, so that no
//! step of the clock and no reboot makes an old word look new.

use std::time::Duration;

use lucia_proto::base::ids::BootId;
use serde::{Deserialize, Serialize};

/// An end within this of the start is one of a row of failures.
const SHORT: Duration = Duration::from_secs(60);

/// One run of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Run {
    /// In this boot.
    pub boot_id: BootId,
    /// Seconds from the boot to its beginning.
    pub began: u64,
    /// Seconds from the boot to the last heartbeat that was accepted, of this run or an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<u64>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct End {
    /// The run, by its boot and beginning.
    pub boot_id: BootId,
    /// See [`Run::began`].
    pub began: u64,
    /// Seconds from the boot to the end; absent where nobody was left to note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// The exit code; absent for a daemon that was killed or crashed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// What it said last.
    pub what: String,
    /// How many runs in a row ended soon after they began.
    pub times: u32,
}

impl End {
    /// The end of the run that began at `began`, now: after `before` in the status that it left.
    #[must_use]
    pub fn of(run: &Run, before: Option<&Self>, since_boot: Duration, exit: u8, what: String) -> Self {
        let at = since_boot.as_secs();
        let short = at.saturating_sub(run.began) < SHORT.as_secs();
        let times =
            before.filter(|end| short && end.boot_id == run.boot_id && end.is_failure()).map_or(0, |end| end.times);
        Self { boot_id: run.boot_id.clone(), began: run.began, at: Some(at), exit: Some(exit), what, times: times + 1 }
    }

    /// Whether nobody wanted it.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.exit != Some(0)
    }

    /// How the last run in this boot ended, for the next one: as it said, or without a word.
    #[must_use]
    pub fn before(run: Option<&Run>, ended: Option<&Self>, boot: &BootId) -> Option<Self> {
        let noted = ended.filter(|end| end.boot_id == *boot);
        let run = run.filter(|run| run.boot_id == *boot);
        match (noted, run) {
            (Some(end), Some(run)) if end.began < run.began => Some(Self::unsaid(run, end.times)),
            (None, Some(run)) => Some(Self::unsaid(run, 0)),
            (noted, _) => noted.cloned(),
        }
    }

    fn unsaid(run: &Run, times: u32) -> Self {
        let what = "it was killed or crashed".to_owned();
        Self { boot_id: run.boot_id.clone(), began: run.began, at: None, exit: None, what, times: times + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(digit: char) -> BootId {
        format!("{}-0000-4000-8000-000000000000", digit.to_string().repeat(8)).parse().unwrap()
    }

    fn run(began: u64) -> Run {
        Run { boot_id: boot('a'), began, heartbeat: None }
    }

    fn end(began: u64, before: Option<&End>, at: u64, exit: u8) -> End {
        End::of(&run(began), before, Duration::from_secs(at), exit, "why".into())
    }

    // spec: AG-281
    #[test]
    fn ends_soon_after_the_start_are_counted_until_one_lasts_or_was_wanted() {
        let first = end(100, None, 101, 78);
        let second = end(106, Some(&first), 107, 78);
        assert_eq!((first.times, second.times), (1, 2));
        assert_eq!(end(112, Some(&second), 112 + 59, 1).times, 3);
        assert_eq!(end(112, Some(&second), 112 + 60, 1).times, 1, "it ran for a minute");
        let stopped = end(112, Some(&second), 113, 0);
        assert!(!stopped.is_failure() && end(120, Some(&stopped), 121, 1).times == 1);
        let other = End { boot_id: boot('b'), ..second };
        assert_eq!(end(112, Some(&other), 113, 1).times, 1, "that was before a reboot");
    }

    // spec: AG-281
    #[test]
    fn a_run_that_left_no_word_was_killed() {
        let before =
            |began: Option<u64>, ended: Option<&End>, digit| End::before(began.map(run).as_ref(), ended, &boot(digit));
        let said = end(100, None, 101, 0);
        assert_eq!(before(None, None, 'a'), None);
        assert_eq!(before(Some(100), Some(&said), 'a'), Some(said.clone()));
        let killed = before(Some(100), None, 'a').unwrap();
        assert_eq!((killed.exit, killed.times, killed.began), (None, 1, 100));
        // What the run before it said is not its own word.
        let after = before(Some(200), Some(&end(100, None, 101, 1)), 'a').unwrap();
        assert_eq!((after.exit, after.times, after.began), (None, 2, 200));
        // It ended before it wrote a status.
        let early = end(300, None, 301, 78);
        assert_eq!(before(Some(200), Some(&early), 'a'), Some(early));
        assert_eq!(before(Some(100), Some(&said), 'b'), None, "another boot tells nothing");
    }
}
