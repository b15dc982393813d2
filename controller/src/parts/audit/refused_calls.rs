//! How many refused calls of one caller have a line of the audit each, within a minute; the others are counted, and one
//! line says how many those were. So nobody fills the disk, or hides one line among a million, by asking what is refused.
//!
//! What is counted is in memory until its minute is over. A program that is killed loses that number and no line.

use std::collections::BTreeMap;
use std::time::Duration;

use lucia_people::audit::AuditEntry;
use lucia_proto::base::acts::Act;
use lucia_proto::base::limits::REFUSED_LINES_PER_MINUTE;

const MINUTE: Duration = Duration::from_secs(60);

/// By caller, as the journal names them: there are no more than the roster has people and this machine operators.
#[derive(Debug, Default)]
pub(super) struct RefusedCalls(BTreeMap<String, Minute>);

/// One caller's, since the first of them by time since boot.
#[derive(Debug)]
struct Minute {
    since: Duration,
    lines: u32,
    more: u64,
    last: AuditEntry,
}

impl Minute {
    fn is_over(&self, now: Duration) -> bool {
        now >= self.since.saturating_add(MINUTE)
    }

    fn counted(self) -> Option<AuditEntry> {
        let AuditEntry { at, actor, from, refused, .. } = self.last;
        let note = AuditEntry { from, refused, ..AuditEntry::new(at, actor, Act::RefusalsCounted) };
        (self.more > 0).then_some(AuditEntry { more: Some(self.more), ..note })
    }
}

impl RefusedCalls {
    /// A call was refused: the lines to write now, if any.
    pub(super) fn refused(&mut self, who: &str, note: AuditEntry, now: Duration) -> Vec<AuditEntry> {
        let mut lines = self.over(now);
        let minute = self.0.entry(who.to_owned()).or_insert_with(|| Minute {
            since: now,
            lines: 0,
            more: 0,
            last: note.clone(),
        });
        if minute.lines < REFUSED_LINES_PER_MINUTE {
            minute.lines += 1;
            lines.push(note);
        } else {
            minute.more = minute.more.saturating_add(1);
            minute.last = note;
        }
        lines
    }

    /// The lines of minutes that are over.
    pub(super) fn over(&mut self, now: Duration) -> Vec<AuditEntry> {
        self.0.extract_if(.., |_, minute| minute.is_over(now)).filter_map(|(_, minute)| minute.counted()).collect()
    }

    /// The lines of all of them: for the end of the program.
    pub(super) fn end(&mut self) -> Vec<AuditEntry> {
        std::mem::take(&mut self.0).into_values().filter_map(Minute::counted).collect()
    }
}
