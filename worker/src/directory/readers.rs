//! Which reader must be in the directory with which passwords, and when a directory that failed is tried again.
//!
//! The receipt of a node has its reader's passwords as the directory keeps them, the newest and the one before. A new
//! one goes into the directory beside the newest *of the receipt* before anything of it is stored or sent: a crash at
//! any place leaves an entry with which the node can still bind, and the next turn begins from the receipt again, so
//! nothing has to be cleaned up (threats.md F-3).

use std::time::Duration;

use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::directory::{DirectoryAccess, reader_dn};
use lucia_proto::pki::key::NodePublicKey;
use lucia_proto::pki::sealed::Sealed;
use serde::{Deserialize, Serialize};

use super::budget::{ANSWERS, Budget, LOOK, Stopwatch};
use super::contract::{Directory, Found};
use super::error::DirectoryError;
use super::password::{self, Stored};
use crate::chain;

/// First pause after a failure; doubled up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_secs(5);
/// A directory that is well again is noticed within this.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Between two looks at all readers when nothing happened.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// Readers looked at by one question.
const AT_ONCE: usize = 16;

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
pub enum WantedReaders {
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
    budget: Budget,
    /// Whether something of this turn was left to the next one since the directory is slow.
    is_late: bool,
    /// The look at all readers that is under way.
    look: Option<Look>,
    /// The last one that came to its end.
    looked: Option<ScanResult>,
    at_once: usize,
}

/// A look at all readers, which may take several turns.
struct Look {
    /// What is behind it.
    after: Option<ReaderPlace>,
    /// Nodes that were barred when it began.
    barred: usize,
    /// Whether it left out what the directory refused.
    has_failed: bool,
}

/// A look that came to its end.
struct ScanResult {
    at: UnixTime,
    barred: usize,
    /// When, from then on, the next one is due.
    next: Duration,
}

/// Where a reader stands in the order of a look: those that must be gone come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReaderPlace {
    /// Whether it is to be there.
    pub is_there: bool,
    /// Its node.
    pub node_id: NodeId,
}

impl ReaderRecord {
    fn values(&self) -> Vec<&Stored> {
        std::iter::once(&self.current).chain(&self.former).collect()
    }
}

impl Readers {
    /// The readers in a directory.
    #[must_use]
    pub fn new(directory: Box<dyn Directory>, stopwatch: Stopwatch) -> Self {
        let budget = Budget::new(stopwatch);
        Self { directory, failed: None, budget, is_late: false, look: None, looked: None, at_once: AT_ONCE }
    }

    /// Another turn: there is time again for questions.
    pub fn turn(&mut self) {
        self.budget.begin(ANSWERS);
        self.is_late = false;
    }

    /// What is wrong with the directory, while it is.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.failed.as_ref().map(|(_, _, why)| why.as_str())
    }

    /// That this turn left something to the next one since the directory is slow.
    #[must_use]
    pub fn late(&self) -> Option<String> {
        let site = self.directory.site().filter(|_| self.is_late)?;
        Some(format!(
            "{} answers so slowly that a turn has no time for all there is to do; the rest is done in the next ones: see \
             that slapd is well",
            site.uri
        ))
    }

    /// Whether the directory may be asked for a node now. Where there is none it always may.
    ///
    /// # Errors
    /// [`DirectoryError::Waits`]: it failed a short while ago. [`DirectoryError::NextTurn`]: it had its time of this turn.
    pub fn may(&mut self, now: UnixTime) -> Result<(), DirectoryError> {
        if self.directory.site().is_none() {
            return Ok(());
        }
        self.waits(now)?;
        if self.has_room() { Ok(()) } else { Err(DirectoryError::NextTurn) }
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

    /// Whether readers are to be looked at now, of so many barred nodes: a look is under way, the last one is long ago, or
    /// somebody was barred since, be it by another process.
    #[must_use]
    pub fn is_due(&self, barred: usize, now: UnixTime) -> bool {
        let is_due = |last: &ScanResult| last.barred != barred || now < last.at || now.since(last.at) >= last.next;
        self.directory.site().is_some() && (self.look.is_some() || self.looked.as_ref().is_none_or(is_due))
    }

    /// What the look under way has behind it. It begins anew when somebody was barred since it began: those come first.
    pub fn goes_on_after(&mut self, barred: usize) -> Option<&ReaderPlace> {
        if self.look.as_ref().is_some_and(|look| look.barred != barred) {
            self.look = None;
        }
        self.look.as_ref().and_then(|look| look.after.as_ref())
    }

    /// Deletes the readers of barred nodes and makes those again that the directory lost (threats.md F-16); gives how
    /// many entries it changed. Takes what is behind [`Readers::goes_on_after`], in the order of [`WantedReaders::place`], and
    /// leaves to the next turn what this one has no time for. Entries of nodes it does not know are left alone: another
    /// fleet may use the directory.
    ///
    /// # Errors
    /// The directory failed. The look goes on where it stands once it is well; an entry that the directory refuses is left
    /// for the next look.
    pub fn sweep(
        &mut self,
        wanted: impl IntoIterator<Item = WantedReaders>,
        barred: usize,
        now: UnixTime,
    ) -> Result<usize, DirectoryError> {
        self.budget.begin(LOOK);
        let mut look = self.look.take().unwrap_or(Look { after: None, barred, has_failed: false });
        let (mut wanted, mut changed) = (wanted.into_iter(), 0);
        let outcome = loop {
            let some: Vec<WantedReaders> = wanted.by_ref().take(self.at_once).collect();
            if some.is_empty() {
                break Ok(true);
            }
            match self.put_right(&some, &mut look, &mut changed, now) {
                Ok(true) => {}
                other => break other,
            }
        };
        match &outcome {
            Ok(true) => {
                let next = if look.has_failed { PAUSE_MAX } else { SWEEP_EVERY };
                self.looked = Some(ScanResult { at: now, barred: look.barred, next });
            }
            _ => self.look = Some(look),
        }
        outcome.map(|_| changed)
    }

    /// Puts some readers right, and the look behind them; says whether there is time for more.
    fn put_right(
        &mut self,
        some: &[WantedReaders],
        look: &mut Look,
        changed: &mut usize,
        now: UnixTime,
    ) -> Result<bool, DirectoryError> {
        let nodes: Vec<NodeId> = some.iter().map(|wanted| wanted.node_id().clone()).collect();
        if !self.has_room() {
            return Ok(false);
        }
        let found = match self.ask(now, |directory| directory.readers(&nodes)) {
            Ok(found) => found,
            Err(error) => {
                match &error {
                    // Fewer at a time may be quicker.
                    DirectoryError::Slow { .. } => self.at_once = (self.at_once / 2).max(1),
                    // Else they would be the last ones that were ever looked at.
                    error if is_of_entry(error) => look.leave(some.last()),
                    _ => {}
                }
                return Err(error);
            }
        };
        if self.budget.has_room() {
            self.at_once = (self.at_once * 2).min(AT_ONCE);
        }
        let mut is_first = true;
        for wanted in some {
            if !is_so(wanted, &found) {
                // The first one in any case: else a look alone could use up each turn's time.
                if !is_first && !self.has_room() {
                    return Ok(false);
                }
                is_first = false;
                let done = self.ask_anyway(now, |directory| match wanted {
                    WantedReaders::There(node_id, record) => directory.set_reader(node_id, &record.values()),
                    WantedReaders::Gone(node_id) => directory.delete_reader(node_id),
                });
                if done.as_ref().is_err_and(is_of_entry) {
                    look.leave(Some(wanted));
                }
                done?;
                *changed += 1;
            }
            look.after = Some(wanted.place());
        }
        Ok(true)
    }

    /// Whether the turn has time for another question; what has none is remembered where the directory is slow.
    fn has_room(&mut self) -> bool {
        let has_room = self.budget.has_room();
        self.is_late |= !has_room && self.budget.is_slow();
        has_room
    }

    /// Asks the directory, unless it failed a short while ago, or had its time of this turn.
    fn ask<T>(
        &mut self,
        now: UnixTime,
        question: impl FnOnce(&dyn Directory) -> Result<T, DirectoryError>,
    ) -> Result<T, DirectoryError> {
        self.may(now)?;
        self.ask_anyway(now, question)
    }

    /// Asks the directory, unless it failed a short while ago: one that is down costs a turn one time-out.
    fn ask_anyway<T>(
        &mut self,
        now: UnixTime,
        question: impl FnOnce(&dyn Directory) -> Result<T, DirectoryError>,
    ) -> Result<T, DirectoryError> {
        self.waits(now)?;
        let pause = self.failed.as_ref().map_or(PAUSE, |(_, pause, _)| (*pause * 2).min(PAUSE_MAX));
        let Self { directory, budget, .. } = self;
        match budget.spend(|| question(directory.as_ref())) {
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

    fn waits(&self, now: UnixTime) -> Result<(), DirectoryError> {
        match &self.failed {
            // A clock that was set back does not make the wait longer.
            Some((at, pause, before)) if now < *at && at.since(now) <= *pause => {
                Err(DirectoryError::Waits { at: *at, before: before.clone() })
            }
            _ => Ok(()),
        }
    }
}

impl WantedReaders {
    /// Whose reader it is about.
    #[must_use]
    pub fn node_id(&self) -> &NodeId {
        let (Self::There(node_id, _) | Self::Gone(node_id)) = self;
        node_id
    }

    fn place(&self) -> ReaderPlace {
        ReaderPlace { is_there: matches!(self, Self::There(..)), node_id: self.node_id().clone() }
    }
}

impl Look {
    /// Goes on behind one that the directory refuses.
    fn leave(&mut self, last: Option<&WantedReaders>) {
        self.after = last.map(WantedReaders::place);
        self.has_failed = true;
    }
}

/// Whether the directory answered, and would not have it so: that is about these entries, and others may be fine.
fn is_of_entry(error: &DirectoryError) -> bool {
    matches!(error, DirectoryError::Refused { .. } | DirectoryError::Limit { .. })
}

fn is_so(wanted: &WantedReaders, found: &Found) -> bool {
    match wanted {
        WantedReaders::Gone(node_id) => !found.contains_key(node_id),
        WantedReaders::There(node_id, record) => found.get(node_id).is_some_and(|there| {
            let values = record.values();
            there.len() == values.len() && values.iter().all(|value| there.iter().any(|text| text == value.as_str()))
        }),
    }
}

#[cfg(test)]
pub(crate) mod tests;
