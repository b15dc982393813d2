//! Frozen identities: from a heartbeat that shows one to the journal, and what an operator decides (design.md I8).

use lucia_people::host_api::KeepForm;
use lucia_proto::base::code::Code;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::text::shown;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{Holder, KeptRow};
use lucia_proto::node::enrollment::Lineage;
use lucia_proto::node::heartbeat::Heartbeat;
use lucia_proto::node::report::NodeCall;

use super::Fleet;
use super::clones::{self, Claim, Heard, Unkept, Verdict};
use super::nodes::NodeState;
use crate::lock::lock;
use crate::parts::{challenges, journal};
use crate::refusal::Refusal;

impl Fleet {
    /// Who sent this heartbeat, as far as the node's starts tell.
    pub(super) fn hear(
        &self,
        id: &NodeId,
        state: &mut NodeState,
        call: &NodeCall,
        heartbeat: &Heartbeat,
        from: std::net::IpAddr,
        now: UnixTime,
    ) -> Option<Heard> {
        let NodeState { record, thread, first, .. } = state;
        let record = record.as_mut()?;
        let told = Claim::of(heartbeat, from, challenges::order(&call.proof.challenge_id));
        let mut random = [0; 32];
        // Without randomness the chain stands still, and no heartbeat is lost for it.
        let fresh = getrandom::fill(&mut random).is_ok().then(|| Digest::of(&random));
        let is_new = clones::is_new(record.lineage.as_ref(), &told);
        let heard = clones::hear(&mut record.lineage, thread, &told, fresh, now);
        if is_new && !*first {
            *first = true;
            lock(&self.new_starts).push_back(id.clone());
        }
        if let Verdict::Frozen(evidence) = heard.verdict {
            let holders = record.lineage.as_ref().map(clones::pair).unwrap_or_default();
            tracing::error!(node = %id, ?evidence, holders = %shown(&format!("{holders:?}")), "an identity was seen twice");
            lock(&self.to_freeze).insert(id.clone());
        }
        Some(heard)
    }

    /// Whether an identity is frozen that the journal does not have yet.
    pub fn freezes_wait(&self) -> bool {
        !lock(&self.to_freeze).is_empty()
    }

    /// Writes what [`Fleet::freezes_wait`] says; what cannot be written stays frozen in memory and waits.
    pub fn write_freezes(&self) {
        let waiting: Vec<NodeId> = lock(&self.to_freeze).iter().cloned().collect();
        for id in waiting {
            let holders = self.nodes.get(&id).and_then(|known| {
                let state = lock(&known.state);
                state.record.as_ref().and_then(|record| record.lineage.as_ref()).filter(is_frozen).map(clones::pair)
            });
            let written = holders.map_or(Ok(()), |holders| {
                self.journal.change(|journal| journal::freeze(journal, &id, holders, self.clock.now()))
            });
            match written {
                Ok(()) => {
                    lock(&self.to_freeze).remove(&id);
                }
                Err(refusal) => {
                    tracing::error!(node = %id, code = refusal.code.as_str(), "a frozen identity is not written: {refusal}");
                }
            }
        }
    }

    /// What the journal alone knows of a node's starts, for one whose record is new.
    pub(super) fn decided(&self, id: &NodeId) -> Option<Lineage> {
        let journal = self.journal.read();
        let device = journal.device(id)?;
        let mut lineage = None;
        clones::settle(&mut lineage, device.frozen.as_ref(), device.kept.as_ref());
        lineage
    }

    /// Keeps one holder of a frozen identity: it goes on, and the others are told that they are frozen.
    ///
    /// # Errors
    /// `not_frozen`, `unknown_node`, `invalid_onboarding_request` for a start that no holder or more than one has.
    pub fn keep_clone(&self, id: &NodeId, form: &KeepForm, actor: &str) -> Result<(), Refusal> {
        let now = self.clock.now();
        let unknown = || Refusal::unknown_node(id);
        let known = self.nodes.get(id).ok_or_else(unknown)?;
        self.write_freezes();
        let kept: KeptRow = {
            let state = lock(&known.state);
            let lineage = state.record.as_ref().ok_or_else(unknown)?.lineage.as_ref();
            clones::keep(lineage, &form.start_id, now).map_err(|why| refused(id, form, why))?
        };
        self.journal.change(|journal| journal::keep(journal, id, kept.clone(), actor, now))?;
        let mut state = lock(&known.state);
        let NodeState { record: Some(record), thread, dirty, .. } = &mut *state else { return Ok(()) };
        clones::follow(&mut record.lineage, thread, &kept);
        *dirty = true;
        Ok(())
    }
}

fn is_frozen(lineage: &&Lineage) -> bool {
    lineage.frozen_at.is_some()
}

fn refused(id: &NodeId, form: &KeepForm, why: Unkept) -> Refusal {
    let start = &form.start_id;
    match why {
        Unkept::NotFrozen => journal::not_frozen(id),
        Unkept::NoSuch => Refusal::new(
            Code::InvalidOnboardingRequest,
            format!("startId: no holder of node {id} has the start {start}; luciactl node shows those there are."),
        ),
        Unkept::Twice => Refusal::new(
            Code::InvalidOnboardingRequest,
            format!(
                "startId: two holders of node {id} have the start {start}; restart the agent on the one that stays, \
                 which gives it a start of its own, or split."
            ),
        ),
    }
}

/// Who speaks for a node now, for people.
pub(super) fn holder(lineage: &Lineage) -> Option<Holder> {
    lineage.heard.first().cloned()
}
