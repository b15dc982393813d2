//! How far the controller's audit was seen (design.md O6): a pure function of what the controller says now and what the
//! ledger has.
//!
//! The controller says it and may lie, so an anchor proves nothing about lines that come after it. What it said once it
//! cannot take back: lines that were counted here cannot be cut off, and none of them rewritten, unseen.

use lucia_proto::base::limits::AUDIT_ANCHOR_INTERVAL;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::audit_chain::AuditChain;
use thiserror::Error;

use crate::ledger::{Anchored, Records};

/// What cures an audit that is not the one seen before.
const CURE: &str = "find out who restored or changed it; keep what there is, compare it with an export \
     (`lucia-enrollment-worker audit verify FILE`), and if it was you: lucia-enrollment-worker audit accept";

/// The controller's audit is not the one that was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AuditWentBack {
    /// It has fewer lines.
    #[error("the controller's audit has {now} lines, and {} had been seen by {}: lines are missing; {CURE}", seen.chain.entries, seen.at)]
    Short {
        /// As it says now.
        now: u64,
        /// What was seen.
        seen: Anchored,
    },
    /// It has as many lines, and the last of them is another one.
    #[error("line {} of the controller's audit is not the one that was seen by {}: it was rewritten; {CURE}", seen.chain.entries, seen.at)]
    Other {
        /// What was seen.
        seen: Anchored,
    },
}

/// What is to be kept in the ledger of what the controller says now; nothing while it is not time, or no news.
///
/// # Errors
/// It is not the audit that was seen before.
pub fn next(records: &Records, says: AuditChain, now: UnixTime) -> Result<Option<AuditChain>, AuditWentBack> {
    let Some(seen) = records.anchors().last() else { return Ok((says.entries > 0).then_some(says)) };
    if says.entries < seen.chain.entries {
        return Err(AuditWentBack::Short { now: says.entries, seen });
    }
    if says.entries == seen.chain.entries {
        return if says.head == seen.chain.head { Ok(None) } else { Err(AuditWentBack::Other { seen }) };
    }
    Ok((now.since(seen.at) >= AUDIT_ANCHOR_INTERVAL).then_some(says))
}
