//! What was said about a file or thing, so that it is said once and not each turn, and so that nobody who fills the
//! queue fills the log.

use std::collections::BTreeMap;
use std::time::Duration;

use lucia_proto::base::time::UnixTime;

/// What was said, and how much may still be said now.
#[derive(Debug, Default)]
pub struct Remarks {
    /// By what it is about: the text, and the how-manyeth remark it was.
    said: BTreeMap<String, (String, u64)>,
    /// Remarks so far.
    count: u64,
    /// When the current minute began; none before the first turn.
    since: Option<UnixTime>,
    /// Said in it.
    said_now: usize,
    /// Kept back in it.
    left_out: usize,
}

impl Remarks {
    /// Most things remembered: protects the worker's memory from a controller that makes up names.
    const MAX: usize = 1024;
    /// Most remarks a minute: protects the log from one that makes up reasons.
    const A_MINUTE: usize = 32;
    const MINUTE: Duration = Duration::from_secs(60);

    /// Lets time pass; gives the number of remarks that the minute just over had no room for.
    pub fn pass(&mut self, now: UnixTime) -> Option<usize> {
        // A clock that was set back begins a new minute as well.
        let over = self.since.is_none_or(|since| now < since || now.since(since) >= Self::MINUTE);
        if !over {
            return None;
        }
        self.since = Some(now);
        self.said_now = 0;
        Some(std::mem::take(&mut self.left_out)).filter(|count| *count > 0)
    }

    /// Whether to say this: it is new, and there is room for it. What is kept back is not remembered, so it is said in
    /// a later minute if it is still so.
    pub fn is_new(&mut self, about: &str, text: &str) -> bool {
        if self.said.get(about).is_some_and(|(said, _)| said == text) {
            return false;
        }
        if self.said_now >= Self::A_MINUTE {
            self.left_out += 1;
            return false;
        }
        if self.said.len() >= Self::MAX && !self.said.contains_key(about) {
            let oldest = self.said.iter().min_by_key(|(_, (_, at))| *at).map(|(about, _)| about.clone());
            oldest.and_then(|about| self.said.remove(&about));
        }
        self.said_now += 1;
        self.count += 1;
        self.said.insert(about.to_owned(), (text.to_owned(), self.count));
        true
    }

    /// Forgets what is no longer so; says whether anything was said about it.
    pub fn settle(&mut self, about: &str) -> bool {
        self.said.remove(about).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(secs: u64) -> UnixTime {
        UnixTime::from_secs(1000 + secs)
    }

    // spec: QU-7
    #[test]
    fn a_thing_is_said_once_until_it_changes() {
        let mut remarks = Remarks::default();
        remarks.pass(at(0));
        assert!(remarks.is_new("a", "x"));
        assert!(!remarks.is_new("a", "x"));
        assert!(remarks.is_new("a", "y"));
        assert!(remarks.settle("a"));
        assert!(!remarks.settle("a"));
    }

    /// Says as much as it may in an hour of turns every five seconds; gives the lines, summaries apart.
    fn an_hour(mut about: impl FnMut(u64) -> Vec<(String, String)>) -> (usize, usize) {
        let (mut remarks, mut lines, mut summaries) = (Remarks::default(), 0, 0);
        for turn in 0..720 {
            summaries += usize::from(remarks.pass(at(turn * 5)).is_some());
            lines += about(turn).iter().filter(|(about, text)| remarks.is_new(about, text)).count();
            assert!(remarks.said.len() <= Remarks::MAX);
        }
        (lines, summaries)
    }

    // spec: QU-21
    #[test]
    fn a_full_queue_does_not_fill_the_log() {
        let texts = |names: &[u64], text: &str| names.iter().map(|n| (n.to_string(), text.to_owned())).collect();
        // More files than are remembered, the same each turn.
        let all: Vec<u64> = (0..3000).collect();
        let (lines, summaries) = an_hour(|_| texts(&all, "x"));
        assert!(lines <= 60 * Remarks::A_MINUTE && summaries < 60, "{lines} {summaries}");
        // Other files each turn.
        let (lines, summaries) = an_hour(|turn| texts(&(turn * 128..turn * 128 + 128).collect::<Vec<_>>(), "x"));
        assert!(lines <= 60 * Remarks::A_MINUTE && summaries < 60, "{lines} {summaries}");
        // One file with another reason each turn, many times.
        let (lines, _) = an_hour(|turn| (0..128).map(|n| ("one".to_owned(), format!("{turn}.{n}"))).collect());
        assert!(lines <= 60 * Remarks::A_MINUTE, "{lines}");
        // As many as are remembered are each said once.
        let few: Vec<u64> = (0..1000).collect();
        assert_eq!(an_hour(|_| texts(&few, "x")), (1000, 31));
    }

    #[test]
    fn what_was_left_out_is_told_once_and_said_later() {
        let mut remarks = Remarks::default();
        assert_eq!(remarks.pass(at(0)), None);
        let said = (0..40).filter(|n: &u32| remarks.is_new(&n.to_string(), "x")).count();
        assert_eq!(said, Remarks::A_MINUTE);
        assert_eq!(remarks.pass(at(59)), None);
        assert_eq!(remarks.pass(at(60)), Some(8));
        assert_eq!(remarks.pass(at(60)), None);
        assert_eq!((0..40).filter(|n: &u32| remarks.is_new(&n.to_string(), "x")).count(), 8);
        assert_eq!(remarks.pass(at(30)), None, "the clock was set back");
        assert!(remarks.is_new("39", "y"));
    }
}
