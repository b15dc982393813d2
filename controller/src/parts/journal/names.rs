//! Another name for a node, durably.

use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{DeviceRow, Journal, NewName};
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::pki::endpoint_names::EndpointNames;

use super::approvals::{holder, is_own};
use super::{Refusal, note_names};

/// A rename as the operator sent it, and what it is held against.
pub(crate) struct Renamed<'a> {
    /// The node.
    pub(crate) id: &'a NodeId,
    /// Its new name.
    pub(crate) hostname: &'a Hostname,
    /// What its machine called itself when it was last heard, where that was another name than its own.
    pub(crate) reported: Option<&'a Hostname>,
    /// The controller's own names.
    pub(crate) own_names: &'a EndpointNames,
    /// Who renames.
    pub(crate) actor: &'a str,
}

/// Gives a node the name that it reports; a rename that is under way may be taken back, and nothing else.
pub(crate) fn rename(journal: &mut Journal, wanted: &Renamed<'_>, now: UnixTime) -> Result<(), Refusal> {
    let Renamed { id, hostname, reported, own_names, actor } = *wanted;
    let unknown = || Refusal::unknown_node(id);
    let device = journal.device(id).filter(|row| row.phase == DevicePhase::Managed).ok_or_else(unknown)?;
    let (Some(current), Some(task_id)) = (device.hostname.clone(), device.task_id.clone()) else {
        return Err(unknown());
    };
    if current == *hostname {
        return Ok(());
    }
    may_be_called(device, &current, hostname, reported)?;
    if is_own(hostname, own_names) {
        return Err(refused("this is the controller's own name"));
    }
    if let Some(holder) = holder(journal, hostname).filter(|holder| *holder != id) {
        let message = format!("{hostname} is the name of {holder}; choose another one.");
        return Err(Refusal::new(Code::HostnameInUse, message));
    }
    if let Some(device) = journal.device_mut(id) {
        device.hostname = Some(hostname.clone());
        device.former_hostname = Some(current.clone());
    }
    if let Some(task) = journal.task_mut(&task_id) {
        task.hostname = hostname.clone();
    }
    note_names(journal, now, actor, id, NewName { from: current, to: hostname.clone() })
}

/// Whether the node itself stands in the way of its new name.
fn may_be_called(
    device: &DeviceRow,
    current: &Hostname,
    new: &Hostname,
    reported: Option<&Hostname>,
) -> Result<(), Refusal> {
    if device.frozen.is_some() {
        return Err(refused(&format!(
            "the identity of {current} is frozen, so nobody knows who calls itself {new}; decide that first: luciactl clone \
             keep or split"
        )));
    }
    match (&device.former_hostname, reported) {
        (Some(former), _) if former == new => Ok(()),
        // It may hold a certificate under either; under a third name it would be nobody's.
        (Some(former), _) => Err(refused(&format!(
            "{former} was given the name {current} and is not heard under it yet; take that back first: luciactl rename \
             {current} {former}"
        ))),
        (None, Some(reported)) if reported == new => Ok(()),
        (None, Some(reported)) => Err(refused(&format!("the machine calls itself {reported} and not {new}"))),
        (None, None) => Err(refused(&format!(
            "the machine calls itself {current}; write {new} into its /etc/hostname, and its next heartbeat tells"
        ))),
    }
}

fn refused(why: &str) -> Refusal {
    Refusal::new(Code::InvalidOnboardingRequest, format!("hostname: {why}."))
}

/// The node was heard under its new name: the one before is no longer its own.
pub(crate) fn renamed(journal: &mut Journal, id: &NodeId, from: &Hostname, to: &Hostname) {
    let is_it = |row: &&mut DeviceRow| row.hostname.as_ref() == Some(to) && row.former_hostname.as_ref() == Some(from);
    if let Some(row) = journal.device_mut(id).filter(is_it) {
        row.former_hostname = None;
    }
}
