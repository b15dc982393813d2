//! Whether this is an installed system and no installer: known by what the installer left, and noted before that goes.
//!
//! What runs becomes a node as it is. No disk of it is ever agreed to be erased, whatever a controller says.

use crate::host::state::{State, StateError, StateFile};

/// Whether an installed system has this directory.
///
/// # Errors
/// When the directory fails.
pub fn is_running(state: &State) -> Result<bool, StateError> {
    Ok(state.exists(StateFile::System)? || state.exists(StateFile::Installed)?)
}

/// Notes that one has it, for when nothing else is left that says so.
///
/// # Errors
/// When the directory fails.
pub fn note(state: &State) -> Result<(), StateError> {
    if state.exists(StateFile::System)? { Ok(()) } else { state.replace(StateFile::System, b"{}") }
}
