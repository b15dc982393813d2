//! What a controller takes of memory at most: the one place where that is reckoned.
//!
//! The unit's `MemoryMax=` is [`UNIT_MAX`]; a test compares the two, and with the usual settings a fifth of it stays free.

use lucia_proto::base::limits::{DEVICE_ROW_MAX, DISCOVER_REPORT_MAX, JOURNAL_MAX, TASK_ROW_MAX};

use super::budget::{BODIES_MAX, SMALL};
use super::head::HEAD_MAX;
use crate::config::Config;

/// Connections over the socket at most: an operator has a few, a runaway script must not have all descriptors.
pub(super) const OPERATORS_MAX: usize = 64;
/// Connections at most: a scraper has one or two. The next one takes the place of the oldest, so that nobody on this
/// machine blinds the others by holding all of them.
pub(super) const OBSERVERS_MAX: usize = 16;
const KIB: usize = 1024;
/// What the unit gives.
const UNIT_MAX: usize = 1024 * KIB * KIB;

/// What waits to be written over TLS.
pub(super) const TLS_OUT: usize = 16 * KIB;
/// What the system keeps of a connection before anybody reads it, as asked for: it takes up to twice as much.
pub(super) const SOCKET_IN: u32 = 32 * 1024;
/// What the system keeps of an answer before it has left: the same.
pub(super) const SOCKET_OUT: u32 = 32 * 1024;

/// A TLS record that is not whole yet, in a list that doubles, and what the former one held. A handshake takes 64 KiB, but
/// nothing else is there during one.
const TLS_IN: usize = (32 + 16) * KIB;
/// A head, and as much that came after it.
const HTTP_IN: usize = 2 * HEAD_MAX;
/// The task with its deadlines, keys and headers.
const STATE: usize = 16 * KIB;
/// The system's own, twice what was asked for.
const SOCKET: usize = 2 * (SOCKET_IN as usize + SOCKET_OUT as usize);
/// One connection, with a small body and a small answer.
const CONNECTION: usize = STATE + TLS_IN + TLS_OUT + HTTP_IN + 2 * SMALL + SOCKET;
/// The program, its threads, and what their calls take while they run.
const PROGRAM: usize = 48 * KIB * KIB;
/// A node's samples and used challenges.
const NODE: usize = 32 * KIB;
/// Each byte of the journal: as it is read, as it is changed, and as it is written.
const JOURNAL: usize = 4;
/// Each byte of a body: as it came, and as it was read.
const BODY: usize = 2;

/// The most that a controller of these settings takes, in bytes.
const fn most(connections: usize, devices: usize, tasks: usize) -> usize {
    let rows = devices * (DEVICE_ROW_MAX + DISCOVER_REPORT_MAX) + tasks * TASK_ROW_MAX;
    let journal = if rows < JOURNAL_MAX { rows } else { JOURNAL_MAX };
    PROGRAM
        + (connections + OPERATORS_MAX + OBSERVERS_MAX) * CONNECTION
        + BODY * BODIES_MAX
        + devices * NODE
        + JOURNAL * journal
}

/// How many MiB the settings allow, where that is more than the unit gives.
#[must_use]
pub fn beyond_unit(config: &Config) -> Option<usize> {
    let most = most(config.connections.max, config.limits.devices, config.limits.tasks);
    (most > UNIT_MAX).then_some(most.div_ceil(KIB * KIB))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Connections;
    use lucia_proto::base::limits::{DEVICES_DEFAULT, TASKS_DEFAULT};

    /// The unit, as it is shipped.
    const UNIT: &str = include_str!("../../../systemd/lucia-controller.service");

    // spec: HT-214
    #[test]
    fn the_unit_gives_a_quarter_more_than_the_usual_settings_allow() {
        let given = UNIT.lines().find_map(|line| line.strip_prefix("MemoryMax=")?.strip_suffix('M'));
        let given = given.unwrap().parse::<usize>().unwrap() * KIB * KIB;
        assert_eq!(given, UNIT_MAX);
        let usual = most(Connections::default().max, DEVICES_DEFAULT, TASKS_DEFAULT);
        println!("{} of {} MiB", usual >> 20, given >> 20);
        assert!(usual * 5 <= given * 4, "{} MiB of {}", usual >> 20, given >> 20);
        assert!(usual * 2 > given, "the unit gives more than twice what is reckoned");
    }

    // spec: HT-214
    #[test]
    fn settings_that_allow_more_than_the_unit_gives_are_told() {
        let text = |more: &str| format!("names = [\"controller.test\"]\n{more}");
        let beyond = |more: &str| beyond_unit(&Config::parse(&text(more)).unwrap());
        assert_eq!(beyond(""), None);
        let [some, more] = [4096, 8192].map(|max| beyond(&format!("[connections]\nmax = {max}\n")));
        assert!(some.unwrap() > UNIT_MAX >> 20 && more.unwrap() > some.unwrap(), "{some:?} {more:?}");
        assert!(beyond("[limits]\ndevices = 5000\ntasks = 5000\n").is_some());
    }
}
