//! `installed.json`: what the installer leaves for the daemon, and the proof that it was an installer who did.

use lucia_proto::base::ids::{NodeId, TaskId};
use lucia_proto::base::names::Hostname;
use serde::{Deserialize, Serialize};

use crate::host::boot::{BootId, MachineId};
use crate::host::state::{State, StateError, StateFile};

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

impl InstalledFacts {
    /// Reads the file; nothing when there is none.
    ///
    /// # Errors
    /// Any [`StateError`].
    pub fn read(state: &State) -> Result<Option<Self>, StateError> {
        state.read_json(StateFile::Installed)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Any [`StateError`].
    pub fn write(&self, state: &State) -> Result<(), StateError> {
        state.replace_json(StateFile::Installed, self)
    }
}
