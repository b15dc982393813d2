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
use lucia_proto::base::json;
use lucia_proto::base::limits::JSON_DEPTH_MAX;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::first_contact::{DeviceState, Grant};
use lucia_proto::node::report::{Purpose, Question};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::client::transport::Transport;
use crate::client::{CallError, Client};
use crate::host::boot::BootId;
use crate::host::state::{State, StateError, StateFile};

/// Longest file.
const MAX: usize = 16 * 1024;

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

/// The file cannot be used.
#[derive(Debug, Error)]
pub enum InstallationError {
    /// The private directory fails.
    #[error("installation.json cannot be read or written")]
    State(#[source] StateError),
    /// It is there but broken.
    #[error("installation.json is damaged; the machine has to be approved anew")]
    Form(#[source] json::JsonError),
}

impl Installation {
    /// Reads the file; nothing when there is none.
    ///
    /// # Errors
    /// Any [`InstallationError`].
    pub fn read(state: &State) -> Result<Option<Self>, InstallationError> {
        let bytes = state.read(StateFile::Installation).map_err(InstallationError::State)?;
        let Some(bytes) = bytes else { return Ok(None) };
        json::from_slice(&bytes, MAX, JSON_DEPTH_MAX).map(Some).map_err(InstallationError::Form)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Any [`InstallationError`].
    pub fn write(&self, state: &State) -> Result<(), InstallationError> {
        let text = json::to_string(self).map_err(InstallationError::Form)?;
        state.replace(StateFile::Installation, text.as_bytes()).map_err(InstallationError::State)
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
