//! The audit's part of a turn: how far the controller says that its audit reaches goes into the ledger once an hour.

use lucia_proto::files::owner_queue::{AuditHeadFile, OwnerFile};

use super::error::TurnError;
use super::pass::Pass;
use super::places::OwnerFiles;
use super::summary::Summary;
use crate::ledger::Entry;
use crate::owner_queue::OwnerQueue;
use crate::{audit, chain};

impl Pass<'_> {
    /// Takes note of how far the audit reaches. One that went back is told of, and holds up nothing else.
    pub(super) fn audit(
        &mut self,
        owners: &OwnerQueue,
        looked: &OwnerFiles,
        summary: &mut Summary,
    ) -> Result<(), TurnError> {
        let says = looked.audit.then(|| self.read(owners, &OwnerFile::AuditHead, AuditHeadFile::from_bytes)).flatten();
        let Some(says) = says else { return Ok(()) };
        match audit::next(self.transaction.records(), says.chain, self.now) {
            Ok(Some(chain)) => self.add(Entry::AuditAnchored(chain)),
            Ok(None) => Ok(()),
            Err(error) => {
                let text = chain(&error);
                self.owner_remark(&OwnerFile::AuditHead.name(), &text);
                summary.problems.push(text);
                Ok(())
            }
        }
    }
}
