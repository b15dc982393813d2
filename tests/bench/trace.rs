//! What Chromium's trace of itself says of a page's main thread.

use lucia_tests::sim::Failure;
use serde::Deserialize;

/// What was read of it.
pub(crate) struct Trace {
    /// The longest task of the main thread since the page was marked, in milliseconds of the wall clock.
    pub(crate) longest: f64,
    /// The dearest, in milliseconds of that thread's own CPU time: what another program took is not in it.
    pub(crate) dearest: f64,
    /// The longest before.
    pub(crate) longest_of_load: f64,
    /// How many there were since.
    pub(crate) tasks: u32,
    /// Their share of the time from the mark to the last of them.
    pub(crate) busy: f64,
}

/// The mark that the page leaves.
pub(crate) const MARK: &str = "lucia-watched";
/// A task of any thread, from its taking to its end.
const TASK: &str = "ThreadControllerImpl::RunTask";

/// The form that Chromium writes, as far as it is read; times in microseconds.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    name: String,
    #[serde(default)]
    ph: String,
    pid: i64,
    tid: i64,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    tdur: f64,
}

impl Trace {
    /// Reads the file that the browser wrote.
    ///
    /// # Errors
    /// When there is no mark, or no task behind it: such a trace says nothing.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Failure> {
        let File { events } = serde_json::from_slice(bytes)?;
        let mark = events.iter().find(|event| event.name == MARK);
        let mark = mark.ok_or_else(|| format!("the trace of {} events has no mark", events.len()))?;
        let mut read = Self { longest: 0.0, dearest: 0.0, longest_of_load: 0.0, tasks: 0, busy: 0.0 };
        let mut last = mark.ts;
        // The mark was left by the page's own thread.
        let own = events.iter().filter(|event| (event.pid, event.tid) == (mark.pid, mark.tid));
        for task in own.filter(|event| event.name == TASK && event.ph == "X") {
            let took = task.dur / 1e3;
            if task.ts < mark.ts {
                read.longest_of_load = read.longest_of_load.max(took);
                continue;
            }
            read.longest = read.longest.max(took);
            read.dearest = read.dearest.max(task.tdur / 1e3);
            read.tasks += 1;
            read.busy += task.dur;
            last = last.max(task.ts + task.dur);
        }
        if read.tasks == 0 {
            return Err("the trace has no task of the page behind its mark".into());
        }
        read.busy /= last - mark.ts;
        Ok(read)
    }
}
