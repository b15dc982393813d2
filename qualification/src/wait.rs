//! Waiting for a condition, with an end. The only place of this crate that lets time pass.

use std::time::Duration;

const STEP: Duration = Duration::from_millis(10);

/// Asks `ready` every 10 ms until it gives a value or about `limit` has passed; then `None`.
pub fn wait_for<T>(limit: Duration, ready: impl FnMut() -> Option<T>) -> Option<T> {
    wait_every(STEP, limit, ready)
}

/// As [`wait_for`], with a pause of `step`, for questions that cost something. What they take is not counted.
pub fn wait_every<T>(step: Duration, limit: Duration, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let tries = limit.as_millis() / step.as_millis().max(1);
    for _ in 0..tries {
        if let Some(value) = ready() {
            return Some(value);
        }
        pause(step);
    }
    ready()
}

#[expect(clippy::disallowed_methods, reason = "other processes are waited for here, and they have no paused clock")]
fn pause(step: Duration) {
    std::thread::sleep(step);
}
