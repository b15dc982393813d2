//! Another name for a node: its machine says it, an operator approves it, and it counts once the node is heard under it.
//!
//! Until then the node may call under either name. Which certificate it kept last nobody knows here: an answer that was
//! collected may have been lost on its way, and one that was lost may be asked for again.

use lucia_people::host_api::RenameForm;
use lucia_proto::base::ids::NodeId;

use super::Enrollment;
use crate::lock::lock;
use crate::parts::journal::{self, Renamed};
use crate::refusal::Refusal;

impl Enrollment {
    /// Gives a node the name that its machine calls itself by, or takes a rename back that is under way.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn rename(&self, id: &NodeId, form: &RenameForm, actor: &str) -> Result<(), Refusal> {
        let now = self.clock.now();
        let reported = self.fleet.reported_name(id)?;
        self.fleet.write_freezes();
        // The queue's lock: a removal comes before or after this, and so does a request for a certificate.
        let queue = lock(&self.queue);
        let wanted =
            Renamed { id, hostname: &form.hostname, reported: reported.as_ref(), own_names: &self.names, actor };
        self.journal.change(|journal| journal::rename(journal, &wanted, now))?;
        drop(queue);
        self.fleet.follow_name(id);
        tracing::info!(node = %id, to = %form.hostname, "a node is given another name");
        Ok(())
    }
}
