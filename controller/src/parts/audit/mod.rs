//! Every change, signature and outcome is in the audit before its answer leaves (design.md O6).
//!
//! An entry is written after what it tells of, since it says what came of that. While one cannot be written no other
//! change is made; one that was made and whose entry could not be written is not acknowledged, and its entry comes first
//! when the disk takes it again.

mod by;
mod refused_calls;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lucia_people::audit::{AuditActor, AuditEntry, AuditView};
use lucia_people::token::TokenName;
use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::Version;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::AUDIT_HEAD_INTERVAL;
use lucia_proto::base::time::Clock;
use lucia_proto::files::audit_chain::AuditChain;
use lucia_proto::files::owner_queue::{AuditHeadFile, OwnerFile};
use lucia_proto::orders::OrderId;

use super::journal::Keeper;
use crate::bridge::owners::OwnerQueue;
use crate::lock::lock;
use crate::refusal::Refusal;
use crate::store::audit_log::AuditLog;
use refused_calls::RefusedCalls;

pub use by::By;

/// The audit: nothing is said of a change before it can be noted.
///
/// One controller alone writes it, since each line carries the hash of the one before.
pub struct Audit {
    clock: Arc<dyn Clock>,
    journal: Arc<Keeper>,
    queue: Arc<OwnerQueue>,
    log: Mutex<AuditLog>,
    /// Held for itself alone.
    refused_calls: Mutex<RefusedCalls>,
    /// How far the audit reaches, as the worker was told.
    handed_over: Mutex<HandedOver>,
}

/// What is done, and what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedChange {
    /// What.
    pub action: Act,
    /// Which device or node.
    pub node: Option<NodeId>,
    /// Which order.
    pub intent: Option<OrderId>,
    /// Which automation token.
    pub token: Option<TokenName>,
}

impl AuditedChange {
    /// Something about a node, or about none.
    #[must_use]
    pub const fn new(action: Act, node: Option<NodeId>) -> Self {
        Self { action, node, intent: None, token: None }
    }
}

impl Audit {
    pub(super) fn new(clock: Arc<dyn Clock>, journal: Arc<Keeper>, queue: Arc<OwnerQueue>, log: AuditLog) -> Self {
        let (refused_calls, handed_over) = (Mutex::default(), Mutex::default());
        Self { clock, journal, queue, log: Mutex::new(log), refused_calls, handed_over }
    }

    /// Makes a change and notes who made it and what came of it.
    ///
    /// # Errors
    /// What the change refuses; `persistence_failed` when it cannot be noted.
    pub fn audited<T>(
        &self,
        by: &By,
        act: &AuditedChange,
        change: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        // What waits goes first: no change is made while it cannot be noted.
        self.note(Vec::new())?;
        self.noted(by, act, change())
    }

    /// Notes a change that was made, or refused. What is safe to do in any case is done though it cannot be noted yet.
    ///
    /// # Errors
    /// As [`Audit::audited`]; what was done stays done, and is noted when it can be.
    pub(super) fn noted<T>(&self, by: &By, act: &AuditedChange, done: Result<T, Refusal>) -> Result<T, Refusal> {
        let (actor, from, via) = match by {
            By::Operator(uid) => (AuditActor::Operator(*uid), None, None),
            By::Owner { id, name, from, via } => (AuditActor::Owner(id.clone(), name.clone()), Some(*from), Some(*via)),
        };
        let refused = done.as_ref().err().map(|refusal| refusal.code);
        let note = AuditEntry::new(self.clock.now(), actor, act.action);
        let note = AuditEntry {
            from,
            via,
            node: act.node.clone(),
            intent: act.intent,
            token: act.token.clone(),
            refused,
            ..note
        };
        self.note(match refused {
            None => vec![note],
            Some(_) => lock(&self.refused_calls).refused(&by.actor(), note, self.clock.since_boot()),
        })?;
        done
    }

    /// Writes what waits, how many refused calls had no line of their own within a minute that is over, and tells the
    /// worker how far the audit reaches.
    pub(super) fn tick(&self) {
        if let Err(refusal) = self.hand_over() {
            tracing::warn!(code = refusal.code.as_str(), "how far the audit reaches is not handed over: {refusal}");
        }
        let counted = lock(&self.refused_calls).over(self.clock.since_boot());
        // Why it waits has been said.
        let _ = self.note(counted);
    }

    /// The same for minutes that are not over: before the program ends.
    pub(super) fn note_the_last(&self) {
        let counted = lock(&self.refused_calls).end();
        let _ = self.note(counted);
    }

    /// Writes entries, after those that wait.
    ///
    /// # Errors
    /// `persistence_failed`; they wait then.
    pub(super) fn note(&self, notes: Vec<AuditEntry>) -> Result<(), Refusal> {
        let mut log = lock(&self.log);
        // Whoever slept while another took the state over adds nothing to it any more (F-12).
        if !notes.is_empty() && !self.journal.is_ours() {
            return Err(Refusal::logged(
                Code::PersistenceFailed,
                "Another controller has taken over.",
                "the audit is another controller's by now",
            ));
        }
        let is_news = !notes.is_empty();
        log.record(notes).map_err(|error| {
            let refusal = Refusal::persistence(error);
            if is_news {
                tracing::error!("the audit: {refusal}");
            }
            refusal
        })
    }

    #[cfg(test)]
    pub(super) fn set_file_max(&self, bytes: u64) {
        lock(&self.log).set_file_max(bytes);
    }

    /// Lines and bytes of the audit.
    pub fn size(&self) -> (u64, u64) {
        let log = lock(&self.log);
        (log.chain().entries, log.bytes())
    }

    /// At most `limit` entries with a number over `after`.
    ///
    /// # Errors
    /// `persistence_failed` when it cannot be read.
    pub fn entries(&self, after: u64, limit: usize) -> Result<AuditView, Refusal> {
        let log = lock(&self.log);
        let entries = log.read(after, limit).map_err(Refusal::persistence)?;
        let chain = log.chain();
        Ok(AuditView { entries, last_sequence: chain.entries, head: chain.head })
    }

    /// Says how far the audit reaches, if that is news.
    fn hand_over(&self) -> Result<(), Refusal> {
        let (chain, since_boot) = (lock(&self.log).chain(), self.clock.since_boot());
        let is_due = lock(&self.handed_over).is_due(chain, since_boot);
        // Whoever slept while another took the state over has an audit that the other one's went beyond.
        if chain.entries == 0 || !is_due || !self.journal.is_ours() {
            return Ok(());
        }
        let file = AuditHeadFile { schema_version: Version, chain };
        let bytes = file.to_bytes().map_err(Refusal::persistence)?;
        self.queue.ask(&OwnerFile::AuditHead, &bytes)?;
        lock(&self.handed_over).last = Some((chain, since_boot));
        Ok(())
    }
}

/// What lies in the queue.
#[derive(Clone, Copy, Debug, Default)]
struct HandedOver {
    /// What was written, and when. Nothing since the start: what is there may be a former controller's.
    last: Option<(AuditChain, Duration)>,
}

impl HandedOver {
    /// Whether it is written now: at the start, and with news a while after the last time.
    fn is_due(&self, chain: AuditChain, since_boot: Duration) -> bool {
        self.last.is_none_or(|(written, at)| written != chain && since_boot >= at.saturating_add(AUDIT_HEAD_INTERVAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::tests::bench::World;
    use crate::parts::tests::owners::{fleet, publish};
    use lucia_proto::base::limits::AUDIT_HEAD_INTERVAL;

    // spec: AU-50
    #[test]
    fn how_far_the_audit_reaches_is_handed_over_at_the_start_and_with_news_now_and_then() {
        let world = World::new();
        let path = world.file("nodes/owner-requests/audit-head.json");
        world.parts.tick();
        assert!(!path.exists(), "there is nothing to tell of");
        // The roster is noted.
        publish(&world, &fleet(&world));
        let told = || AuditHeadFile::from_bytes(&std::fs::read(&path).unwrap()).unwrap().chain;
        let first = lock(&world.parts.audit.log).chain();
        assert_eq!((first.entries, told()), (1, first));
        let operator = By::Operator(0);
        let act = || {
            let act = AuditedChange::new(Act::WindowClosed, None);
            world.parts.audit.audited(&operator, &act, || Ok(())).unwrap();
        };
        act();
        world.advance(AUDIT_HEAD_INTERVAL.as_secs() - 1);
        world.parts.tick();
        assert_eq!(told(), first, "each is a write");
        world.advance(1);
        world.parts.tick();
        assert_eq!(told(), lock(&world.parts.audit.log).chain());
        let plan = lucia_durable::crash_point::record(&world.file("nodes/owner-requests"));
        world.advance(AUDIT_HEAD_INTERVAL.as_secs());
        world.parts.tick();
        assert!(plan.steps().is_empty(), "no news is no write: {:?}", plan.steps());
        drop(plan);
        std::fs::write(&path, b"{}").unwrap();
        let world = world.restart();
        world.parts.tick();
        assert_eq!(told(), lock(&world.parts.audit.log).chain(), "whatever lay there before");
    }
}
