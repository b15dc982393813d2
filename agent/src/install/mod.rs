//! The installer's side: from a machine that nobody knows to a system on its disk.
//!
//! `discover` → `wait-install` → `installation-guard` → (the installer erases the disk and puts a system on it) →
//! `stage-managed`. Each verb may be run again; none asks for a second grant.

pub mod discover;
pub mod guard;
pub mod stage;
pub mod target;
pub mod wait;

use lucia_proto::base::ids::{RequestId, TaskId};
use lucia_proto::calls::Endpoint;
use lucia_proto::node::first_contact::{DeviceState, Grant};
use lucia_proto::node::report::{Purpose, Question};
use serde::{Deserialize, Serialize};

use crate::client::transport::Transport;
use crate::client::{CallError, Client};
use crate::host::boot::BootId;
use crate::host::state::{State, StateError, StateFile};

/// `installation.json`: the request for the one grant, written before it is sent, and the grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Installation {
    /// The approved installation the request is for.
    pub task_id: TaskId,
    /// Names the request: asking twice is asking once.
    pub request_id: RequestId,
    /// The installer's boot.
    pub boot_id: BootId,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Grant>,
}

impl Installation {
    /// Reads the file; nothing when there is none.
    ///
    /// # Errors
    /// Any [`StateError`].
    pub fn read(state: &State) -> Result<Option<Self>, StateError> {
        state.read_json(StateFile::Installation)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Any [`StateError`].
    pub fn write(&self, state: &State) -> Result<(), StateError> {
        state.replace_json(StateFile::Installation, self)
    }
}

/// Asks the controller what became of this machine.
///
/// # Errors
/// Any [`CallError`].
pub async fn device_state<T: Transport>(client: &mut Client<T>) -> Result<DeviceState, CallError> {
    let question = Question { node_id: client.node_id().clone(), purpose: Purpose::DeviceState };
    client.call(Endpoint::DeviceState, &question, None).await?.json()
}

#[cfg(test)]
mod tests;
