//! How far the audit reaches, handed over to the worker, which keeps it where the controller cannot change it (design.md
//! O6).

use lucia_proto::base::bounded::Version;
use lucia_proto::files::owner_queue::{AuditHeadFile, OwnerFile};

use super::Audit;
use crate::lock::lock;
use crate::refusal::Refusal;

impl Audit {
    /// Says how far the audit reaches, if that is news.
    pub(super) fn hand_over(&self) -> Result<(), Refusal> {
        let (chain, since_boot) = (lock(&self.log).chain(), self.clock.since_boot());
        let is_due = lock(&self.handed_over).is_due(chain, since_boot);
        // Whoever slept while another took the state over has an audit that the other one's went beyond.
        if chain.entries == 0 || !is_due || !self.journal.is_ours() {
            return Ok(());
        }
        let file = AuditHeadFile { schema_version: Version, chain };
        let bytes = file.to_bytes().map_err(|error| Refusal::persistence(&error))?;
        self.queue.ask(&OwnerFile::AuditHead, &bytes)?;
        lock(&self.handed_over).last = Some((chain, since_boot));
        Ok(())
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
        let operator = crate::parts::By::Operator(0);
        let act = || {
            let act = crate::parts::AuditedChange::new(lucia_proto::base::acts::Act::WindowClosed, None);
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
