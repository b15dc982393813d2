//! Which reader must be in the directory with which passwords, and when a directory that failed is tried again.
//!
//! The receipt of a node has its reader's passwords as the directory keeps them, the newest and the one before. A new
//! one goes into the directory beside the newest *of the receipt* before anything of it is stored or sent: a crash at
//! any place leaves an entry with which the node can still bind, and the next turn begins from the receipt again, so
//! nothing has to be cleaned up (threats.md F-3).

use std::time::Duration;

use lucia_proto::digest::Digest;
use lucia_proto::directory::{DirectoryAccess, reader_dn};
use lucia_proto::ids::NodeId;
use lucia_proto::key::NodePublicKey;
use lucia_proto::sealed::Sealed;
use lucia_proto::time::UnixTime;
use serde::{Deserialize, Serialize};

use super::password::{self, Stored};
use super::{Directory, DirectoryError, Found};
use crate::chain;

/// First pause after a failure; doubled up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_secs(5);
/// A directory that is well again is noticed within this.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Between two looks at all readers when nothing happened.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// Entries changed in one sweep: the rest is for the next turn, which comes in seconds.
const SWEEP_MAX: usize = 128;

/// The passwords of a node's reader, in its receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ReaderRecord {
    /// The one in the node's newest answer.
    pub current: Stored,
    /// The one before, with which the node binds until it has that answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<Stored>,
}

/// What a node's answer says of the directory, and what its receipt keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// For the answer.
    pub access: DirectoryAccess,
    /// For the receipt.
    pub record: ReaderRecord,
}

/// Whom a password is for.
#[derive(Clone, Copy, Debug)]
pub struct For<'a> {
    /// The node.
    pub node_id: &'a NodeId,
    /// Its key.
    pub key: &'a NodePublicKey,
    /// SHA-256 of the DER of the CSR that is answered.
    pub csr_sha256: &'a Digest,
}

/// What must be so of a node's reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It has these passwords.
    There(NodeId, ReaderRecord),
    /// It is not there.
    Gone(NodeId),
}

/// The readers of a fleet.
pub struct Readers {
    directory: Box<dyn Directory>,
    /// Since it failed: when it is tried again, the pause before that, and why.
    failed: Option<(UnixTime, Duration, String)>,
    /// When all readers were last looked at.
    swept_at: Option<UnixTime>,
}

impl ReaderRecord {
    fn values(&self) -> Vec<&Stored> {
        std::iter::once(&self.current).chain(&self.former).collect()
    }
}

impl Readers {
    /// The readers in a directory.
    #[must_use]
    pub fn new(directory: Box<dyn Directory>) -> Self {
        Self { directory, failed: None, swept_at: None }
    }

    /// What is wrong with the directory, while it is.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.failed.as_ref().map(|(_, _, why)| why.as_str())
    }

    /// The reader of a node that is about to be answered, in the directory already; nothing without a directory.
    ///
    /// `before` is what the node was answered last. It is used again when `again` says so and the directory is still the
    /// one it names (design.md I9); else a new password is drawn, and that of `before` goes on working.
    ///
    /// # Errors
    /// The directory failed, or did a short while ago: the request is to wait.
    pub fn of(
        &mut self,
        who: &For<'_>,
        before: Option<Reader>,
        again: bool,
        now: UnixTime,
    ) -> Result<Option<Reader>, DirectoryError> {
        let Some(site) = self.directory.site() else { return Ok(None) };
        let Some(bind_dn) = reader_dn(who.node_id, &site.base_dn) else {
            return Err(DirectoryError::NoPlace { dn: site.base_dn.to_string() });
        };
        let names = |access: &DirectoryAccess| {
            access.uri == site.uri
                && access.base_dn == site.base_dn
                && access.bind_dn == bind_dn
                && access.owner_group == site.owner_group
        };
        let reader = match before {
            Some(before) if again && names(&before.access) => before,
            before => {
                let new = password::New::draw()?;
                let ephemeral = password::random::<32>()?;
                let sealed = Sealed::seal(new.clear.as_bytes(), who.key, who.node_id, who.csr_sha256, &ephemeral)
                    .map_err(DirectoryError::Seal)?;
                let access = DirectoryAccess {
                    uri: site.uri.clone(),
                    base_dn: site.base_dn.clone(),
                    bind_dn,
                    bind_password: sealed,
                    owner_group: site.owner_group.clone(),
                };
                let former = before.map(|before| before.record.current);
                Reader { access, record: ReaderRecord { current: new.stored, former } }
            }
        };
        self.ask(now, |directory| directory.set_reader(who.node_id, &reader.record.values()))?;
        Ok(Some(reader))
    }

    /// Whether all readers are to be looked at now.
    #[must_use]
    pub fn is_due(&self, removed: bool, now: UnixTime) -> bool {
        let is_old = self.swept_at.is_none_or(|at| now < at || now.since(at) >= SWEEP_EVERY);
        self.directory.site().is_some() && (removed || is_old)
    }

    /// Deletes the readers of barred nodes and makes those again that the directory lost (threats.md F-16); gives how
    /// many entries it changed. Entries of nodes it does not know are left alone: another fleet may use the directory.
    ///
    /// # Errors
    /// The directory failed; all of it is looked at again once it is well.
    pub fn sweep(&mut self, wanted: impl Iterator<Item = Wanted>, now: UnixTime) -> Result<usize, DirectoryError> {
        self.swept_at = None;
        let found = self.ask(now, |directory| directory.readers())?;
        let wrong: Vec<Wanted> = wanted.filter(|wanted| !is_so(wanted, &found)).take(SWEEP_MAX + 1).collect();
        for wanted in wrong.iter().take(SWEEP_MAX) {
            self.ask(now, |directory| match wanted {
                Wanted::There(node_id, record) => directory.set_reader(node_id, &record.values()),
                Wanted::Gone(node_id) => directory.delete_reader(node_id),
            })?;
        }
        if wrong.len() <= SWEEP_MAX {
            self.swept_at = Some(now);
        }
        Ok(wrong.len().min(SWEEP_MAX))
    }

    /// Asks the directory, unless it failed a short while ago: one that is down costs a turn one time-out.
    fn ask<T>(
        &mut self,
        now: UnixTime,
        question: impl FnOnce(&dyn Directory) -> Result<T, DirectoryError>,
    ) -> Result<T, DirectoryError> {
        let pause = match &self.failed {
            // A clock that was set back does not make the wait longer.
            Some((at, pause, before)) if now < *at && at.since(now) <= *pause => {
                return Err(DirectoryError::Waits { at: *at, before: before.clone() });
            }
            Some((_, pause, _)) => (*pause * 2).min(PAUSE_MAX),
            None => PAUSE,
        };
        match question(self.directory.as_ref()) {
            Ok(answer) => {
                self.failed = None;
                Ok(answer)
            }
            Err(error) => {
                self.failed = Some((now.plus(pause), pause, chain(&error)));
                Err(error)
            }
        }
    }
}

fn is_so(wanted: &Wanted, found: &Found) -> bool {
    match wanted {
        Wanted::Gone(node_id) => !found.contains_key(node_id),
        Wanted::There(node_id, record) => found.get(node_id).is_some_and(|there| {
            let values = record.values();
            there.len() == values.len() && values.iter().all(|value| there.iter().any(|text| text == value.as_str()))
        }),
    }
}

#[cfg(test)]
mod tests;
