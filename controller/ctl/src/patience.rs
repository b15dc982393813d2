//! Waiting where the controller says that it takes no more calls this second, and telling a person meanwhile.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};

use crate::tell::note;

/// How long one call waits in all for its turn.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// So many are read without a word about it.
const QUIET: usize = 20;

/// How long to wait before the same call is made again; nothing when it is not to be, or was waited for long enough.
pub(crate) fn pause(status: StatusCode, headers: &HeaderMap, waited: Duration) -> Option<Duration> {
    if status != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let seconds: u64 = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    let pause = Duration::from_secs(seconds.max(1));
    (waited.saturating_add(pause) <= WAIT_MAX).then_some(pause)
}

/// Says once that there is a wait.
pub(crate) fn say_once() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        note("The controller takes no more calls at this moment; waiting for its turn.");
    }
}

/// How far something is that takes many calls: one line on the terminal of the errors, which goes when it is done.
pub(crate) struct Progress {
    what: &'static str,
    of: usize,
    done: usize,
    /// Steps between two looks at it.
    every: usize,
    shown: bool,
}

impl Progress {
    /// Nothing is shown where nobody watches, or where it is short.
    pub(crate) fn new(what: &'static str, of: usize) -> Self {
        Self { what, of, done: 0, every: (of / 200).max(1), shown: of > QUIET && io::stderr().is_terminal() }
    }

    /// One more is done.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        if self.shown && self.done.is_multiple_of(self.every) {
            let _ = write!(io::stderr(), "\r{}: {} of {}", self.what, self.done, self.of);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            // Over what stood there.
            let blank = " ".repeat(self.what.len() + 48);
            let _ = write!(io::stderr(), "\r{blank}\r");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: LC-40
    #[test]
    fn a_call_waits_as_long_as_it_is_told_and_a_minute_in_all() {
        let headers = |value: &str| HeaderMap::from_iter([(header::RETRY_AFTER, value.parse().unwrap())]);
        let many = StatusCode::TOO_MANY_REQUESTS;
        let seconds = Duration::from_secs;
        for (status, value, waited, want) in [
            (many, "1", 0, Some(1)),
            (many, "0", 0, Some(1)),
            (many, "7", 53, Some(7)),
            (many, "7", 54, None),
            (many, "61", 0, None),
            (many, "18446744073709551615", 1, None),
            (many, "soon", 0, None),
            (StatusCode::SERVICE_UNAVAILABLE, "1", 0, None),
            (StatusCode::OK, "1", 0, None),
        ] {
            assert_eq!(pause(status, &headers(value), seconds(waited)), want.map(seconds), "{status} {value} {waited}");
        }
        assert_eq!(pause(many, &HeaderMap::new(), Duration::ZERO), None);
    }
}
