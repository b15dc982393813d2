//! Another name for a node: its machine says it, an operator approves it, and it counts once the node is heard under it.
//!
//! Until then the node may call under either name. Which certificate it kept last nobody knows here: an answer that was
//! collected may have been lost on its way, and one that was lost may be asked for again.

use std::sync::Arc;

use lucia_people::host_api::RenameForm;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;

use super::Controller;
use super::journal::{self, Renamed};
use super::nodes::{Known, Under};
use crate::lock::lock;
use crate::refusal::Refusal;

impl Controller {
    /// Gives a node the name that its machine calls itself by, or takes a rename back that is under way.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn rename(&self, id: &NodeId, form: &RenameForm, actor: &str) -> Result<(), Refusal> {
        let now = self.clock.now();
        let unknown = || Refusal::new(Code::UnknownNode, format!("There is no node {id}."));
        let known = self.nodes.get(id).ok_or_else(unknown)?;
        self.write_freezes();
        let reported = {
            let state = lock(&known.state);
            let heartbeat = state.record.as_ref().and_then(|record| record.last_heartbeat.as_ref());
            heartbeat.and_then(|heartbeat| heartbeat.new_hostname.clone())
        };
        // The queue's lock: a removal comes before or after this, and so does a request for a certificate.
        let queue = lock(&self.queue);
        let wanted =
            Renamed { id, hostname: &form.hostname, reported: reported.as_ref(), own_names: &self.names, actor };
        self.journal.change(|journal| journal::rename(journal, &wanted, now))?;
        drop(queue);
        self.follow_name(id, &known);
        tracing::info!(node = %id, to = %form.hostname, "a node is given another name");
        Ok(())
    }

    /// What an accepted heartbeat under this name means for a node that is renamed: under the new one the rename is done;
    /// under the former one the answer tells the new one.
    pub(super) fn named(&self, id: &NodeId, known: &Arc<Known>, under: Under) -> Option<Hostname> {
        let renaming = lock(&known.state).renaming().cloned()?;
        if under == Under::Former {
            return Some(renaming.to);
        }
        let done = self.journal.change(|journal| {
            journal::renamed(journal, id, &renaming.from, &renaming.to);
            Ok(())
        });
        match done {
            Ok(()) => {
                self.follow_name(id, known);
                tracing::info!(node = %id, from = %renaming.from, to = %renaming.to, "a node is heard under its new name");
            }
            // The next heartbeat says it again.
            Err(refusal) => {
                tracing::warn!(node = %id, code = refusal.code.as_str(), "a rename is done and not written: {refusal}");
            }
        }
        None
    }

    fn follow_name(&self, id: &NodeId, known: &Arc<Known>) {
        let mut state = lock(&known.state);
        state.follow_name(self.journal.read().device(id));
    }
}
