//! How far the controller's audit was seen (design.md O6).

use std::collections::VecDeque;

use lucia_proto::base::time::UnixTime;
use lucia_proto::files::audit_chain::AuditChain;
use serde::Serialize;

/// Anchors that are remembered, the last ones: a month of hours. Each proves all that came before it.
const ANCHORS_MAX: usize = 744;

/// How far the audit reached at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Anchored {
    /// When the ledger took it.
    pub at: UnixTime,
    /// Lines then, and the hash of the last of them.
    pub chain: AuditChain,
    /// Whether somebody accepted the audit as it was then, although it was not the one seen before.
    pub accepted: bool,
}

/// Since somebody accepted it, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anchors(VecDeque<Anchored>);

impl Anchors {
    /// All that are remembered, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Anchored> {
        self.0.iter()
    }

    /// The newest.
    #[must_use]
    pub fn last(&self) -> Option<Anchored> {
        self.0.back().copied()
    }

    /// One that goes on from the last.
    pub(super) fn see(&mut self, at: UnixTime, chain: AuditChain) -> Result<(), &'static str> {
        if self.last().is_some_and(|known| chain.entries <= known.chain.entries) {
            return Err("an audit that does not go on");
        }
        self.add(Anchored { at, chain, accepted: false });
        Ok(())
    }

    /// One that was accepted as it is: those before are another audit's.
    pub(super) fn accept(&mut self, at: UnixTime, chain: AuditChain) {
        self.0.clear();
        self.add(Anchored { at, chain, accepted: true });
    }

    fn add(&mut self, anchored: Anchored) {
        if self.0.len() >= ANCHORS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(anchored);
    }
}
