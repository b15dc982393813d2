//! Frozen identities, durably (design.md I8).

use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{FrozenRow, Holder, Journal, KeptRow};
use lucia_proto::node::phase::DevicePhase;

use super::{CONTROLLER, Refusal, note_holders, remove};

/// The identity was seen twice. One that is frozen already, or was removed meanwhile, stays as it is.
pub(crate) fn freeze(journal: &mut Journal, id: &NodeId, holders: Vec<Holder>, now: UnixTime) -> Result<(), Refusal> {
    let node = journal.device_mut(id).filter(|device| device.phase == DevicePhase::Managed);
    let Some(node) = node.filter(|node| node.frozen.is_none()) else { return Ok(()) };
    node.frozen = Some(FrozenRow { at: now, holders: holders.clone() });
    note_holders(journal, now, Act::Frozen, CONTROLLER, id, holders)
}

/// One holder stays.
pub(crate) fn keep(
    journal: &mut Journal,
    id: &NodeId,
    kept: KeptRow,
    actor: &str,
    now: UnixTime,
) -> Result<(), Refusal> {
    frozen(journal, id)?;
    let holders = vec![kept.holder.clone()];
    if let Some(node) = journal.device_mut(id) {
        node.frozen = None;
        node.kept = Some(kept);
    }
    note_holders(journal, now, Act::CloneKept, actor, id, holders)
}

/// None stays: the identity is removed.
pub(crate) fn split(journal: &mut Journal, id: &NodeId, actor: &str, now: UnixTime) -> Result<(), Refusal> {
    let holders = frozen(journal, id)?.holders.clone();
    note_holders(journal, now, Act::CloneSplit, actor, id, holders)?;
    remove(journal, id, actor, now)
}

fn frozen<'a>(journal: &'a Journal, id: &NodeId) -> Result<&'a FrozenRow, Refusal> {
    let unknown = || Refusal::unknown_node(id);
    let node = journal.device(id).filter(|device| device.phase == DevicePhase::Managed).ok_or_else(unknown)?;
    node.frozen.as_ref().ok_or_else(|| not_frozen(id))
}

/// There is nothing to decide about.
pub(crate) fn not_frozen(id: &NodeId) -> Refusal {
    Refusal::new(Code::NotFrozen, format!("The identity of node {id} is not frozen: it was not seen twice."))
}
