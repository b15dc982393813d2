//! `installed.json`: what the installer leaves for the daemon, and the proof that it was an installer who did.

use lucia_proto::base::ids::{NodeId, TaskId};
use lucia_proto::base::json;
use lucia_proto::base::limits::JSON_DEPTH_MAX;
use lucia_proto::base::names::Hostname;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::host::boot::{BootId, MachineId};
use crate::host::state::{State, StateError, StateFile};

/// Longest file.
const MAX: usize = 4096;

/// Written by `stage-managed`, read by `managed-run` (design.md N4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InstalledFacts {
    /// The node whose key lies beside it.
    pub node_id: NodeId,
    /// The approved installation.
    pub task_id: TaskId,
    /// The approved name.
    pub hostname: Hostname,
    /// The installer's boot: the daemon does not run in it. Absent where no installer ran and the machine joined as it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_boot_id: Option<BootId>,
    /// The installed system's machine id.
    pub machine_id: MachineId,
}

/// The file cannot be used.
#[derive(Debug, Error)]
pub enum InstalledError {
    /// The private directory fails.
    #[error("installed.json cannot be read or written")]
    State(#[source] StateError),
    /// It is there but broken.
    #[error("installed.json is damaged; install this machine anew, or restore the file from a backup")]
    Form(#[source] json::JsonError),
}

impl InstalledFacts {
    /// Reads the file; nothing when there is none.
    ///
    /// # Errors
    /// Any [`InstalledError`].
    pub fn read(state: &State) -> Result<Option<Self>, InstalledError> {
        let Some(bytes) = state.read(StateFile::Installed).map_err(InstalledError::State)? else { return Ok(None) };
        json::from_slice(&bytes, MAX, JSON_DEPTH_MAX).map(Some).map_err(InstalledError::Form)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Any [`InstalledError`].
    pub fn write(&self, state: &State) -> Result<(), InstalledError> {
        let text = json::to_string(self).map_err(InstalledError::Form)?;
        state.replace(StateFile::Installed, text.as_bytes()).map_err(InstalledError::State)
    }
}
