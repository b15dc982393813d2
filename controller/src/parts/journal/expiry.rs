//! What time ends: the window, an approval nobody used, an installation that took too long.

use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::Text;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::{NodeId, TaskId};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::Journal;
use lucia_proto::node::phase::{DeviceEvent, TaskPhase};

use super::{CONTROLLER, Refusal, close_window, note, step};

/// Ends everything that is over at `now`. `window_over` says so of the window, which is measured by another clock.
pub(crate) fn expire(journal: &mut Journal, window_over: bool, now: UnixTime) -> Result<(), Refusal> {
    if window_over || journal.window_expires_at.is_some_and(|until| until <= now) {
        close_window(journal, Act::WindowExpired, CONTROLLER, now)?;
    }
    for (id, task_id, granted) in over(journal, now) {
        let (event, kind, message) = if granted {
            let message = "The installation took longer than its grant allows.";
            (DeviceEvent::ProgressExpired, Act::InstallationExpired, message)
        } else {
            let message = "The approval ran out before the installer asked for its grant.";
            (DeviceEvent::AuthorityExpired, Act::ApprovalExpired, message)
        };
        step(journal, &id, event, Code::InvalidTransition)?;
        if let Some(device) = journal.device_mut(&id) {
            device.message = Text::fitted(message);
        }
        note(journal, now, kind, CONTROLLER, Some(&id), Some(&task_id))?;
    }
    Ok(())
}

/// Whether [`expire`] would end anything: asked each second, so it copies nothing.
pub(crate) fn is_anything_over(journal: &Journal, window_over: bool, now: UnixTime) -> bool {
    window_over || journal.window_expires_at.is_some_and(|until| until <= now) || !over(journal, now).is_empty()
}

/// Tasks whose time is over, and whether they had their grant.
fn over(journal: &Journal, now: UnixTime) -> Vec<(NodeId, TaskId, bool)> {
    let open = journal.tasks.iter().filter(|task| !task.phase.is_ended() && task.phase != TaskPhase::Managed);
    open.filter_map(|task| {
        let (until, granted) = match &task.grant {
            None => (task.authority_expires_at, false),
            Some(grant) => (grant.progress_expires_at, true),
        };
        (until <= now).then(|| (task.device_id.clone(), task.task_id.clone(), granted))
    })
    .collect()
}
