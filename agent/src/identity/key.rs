//! The one key: made once, kept for good, never replaced by the program.

use std::path::PathBuf;

use lucia_durable::crash_point;
use lucia_proto::pki::key::NodeKey;
use thiserror::Error;

use crate::host::random::{self, NoRandomness};
use crate::host::state::{State, StateError, StateFile};
use crate::host::status;

/// There is no key to work with.
#[derive(Debug, Error)]
pub enum KeyError {
    /// There was one.
    #[error(
        "the node's key {0} is gone, and with it the node's identity; restore the file from a backup, or run \
         `lucia-node-agent rekey`, which makes a new key that must be approved in the old one's place. The agent never \
         makes a second key by itself"
    )]
    Lost(PathBuf),
    /// An owner removed it.
    #[error(
        "an owner removed this machine's identity, and its key with it: there is nothing to go on with; to make it a node again \
         begin anew with `lucia-node-agent discover`, which makes another key"
    )]
    Removed,
    /// There never was one.
    #[error("this machine has no key yet: begin with `lucia-node-agent discover`, which makes it")]
    None,
    /// There is one that cannot be used.
    #[error(
        "the node's key {0} is damaged; restore the file from a backup, or run `lucia-node-agent rekey`, which makes a \
         new key that must be approved in the old one's place. The agent never makes a second key by itself"
    )]
    Damaged(PathBuf, #[source] lucia_proto::pki::key::KeyError),
    /// The private directory fails.
    #[error(transparent)]
    State(#[from] StateError),
    /// The kernel fails.
    #[error(transparent)]
    Random(#[from] NoRandomness),
}

/// The key that must be there.
///
/// # Errors
/// [`KeyError::Lost`], [`KeyError::Removed`], [`KeyError::None`], [`KeyError::Damaged`], [`KeyError::State`].
pub fn load(state: &State) -> Result<NodeKey, KeyError> {
    if let Some(key) = find(state)? {
        return Ok(key);
    }
    if had_one(state)? {
        return Err(KeyError::Lost(path(state)));
    }
    Err(if status::was_removed(state) { KeyError::Removed } else { KeyError::None })
}

/// Whether there was a key: an owner's order to remove the identity leaves nothing that says so.
fn had_one(state: &State) -> Result<bool, KeyError> {
    let mut had = state.had_key();
    for file in StateFile::ALL.iter().copied() {
        let of_a_node = !matches!(file, StateFile::Key | StateFile::Status | StateFile::System);
        had = had || (of_a_node && state.exists(file)?);
    }
    Ok(had)
}

/// The key, made if this directory never had one.
///
/// # Errors
/// [`KeyError::Lost`]: a directory that has anything else of a node but no key has lost it. Else as [`load`].
pub fn load_or_make(state: &mut State) -> Result<NodeKey, KeyError> {
    if let Some(key) = find(state)? {
        state.confirm_key()?;
        return Ok(key);
    }
    let known = had_one(state)?;
    if known {
        return Err(KeyError::Lost(path(state)));
    }
    let key = draw()?;
    store(state, &key)?;
    Ok(key)
}

/// A new key.
pub(super) fn draw() -> Result<NodeKey, NoRandomness> {
    loop {
        if let Some(key) = NodeKey::from_random(&random::bytes()?) {
            return Ok(key);
        }
    }
}

/// Writes a key where none is, and notes that there is one.
///
/// # Errors
/// [`KeyError::State`] when one is there, and else.
pub fn store(state: &mut State, key: &NodeKey) -> Result<(), KeyError> {
    let pem = key.to_pem().map_err(|source| KeyError::Damaged(path(state), source))?;
    state.create_new(StateFile::Key, pem.as_bytes())?;
    crash_point!("agent/key-kept", state.path()).map_err(StateError::from)?;
    Ok(state.confirm_key()?)
}

/// Writes a key where another one is: what a person asked for, the former one being kept aside.
///
/// # Errors
/// [`KeyError::State`], and [`KeyError::Damaged`] when the new key has no text form.
pub(super) fn replace(state: &mut State, key: &NodeKey) -> Result<(), KeyError> {
    let pem = key.to_pem().map_err(|source| KeyError::Damaged(path(state), source))?;
    state.replace(StateFile::Key, pem.as_bytes())?;
    crash_point!("agent/key-replaced", state.path()).map_err(StateError::from)?;
    Ok(state.confirm_key()?)
}

/// The key, if there is a file of that name.
///
/// # Errors
/// [`KeyError::Damaged`], [`KeyError::State`].
pub fn find(state: &State) -> Result<Option<NodeKey>, KeyError> {
    let Some(bytes) = state.read(StateFile::Key)?.map(zeroize::Zeroizing::new) else {
        return Ok(None);
    };
    let damaged = |source| KeyError::Damaged(path(state), source);
    let text = std::str::from_utf8(&bytes).map_err(|_| damaged(lucia_proto::pki::key::KeyError::NotPrivateKey))?;
    NodeKey::from_pem(text).map(Some).map_err(damaged)
}

fn path(state: &State) -> PathBuf {
    state.path().join(StateFile::Key.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;

    fn fingerprint(key: &NodeKey) -> String {
        key.public().fingerprint().to_string()
    }

    // spec: AG-8
    #[test]
    fn a_key_is_made_once() {
        let scratch = Scratch::new();
        let mut state = State::hold(&scratch.root(), "test").unwrap();
        let first = load_or_make(&mut state).unwrap();
        assert_eq!(fingerprint(&load_or_make(&mut state).unwrap()), fingerprint(&first));
        assert_eq!(fingerprint(&load(&state).unwrap()), fingerprint(&first));
        assert!(!format!("{first:?}").contains("PRIVATE"));
        let other = Scratch::new();
        let mut state = State::hold(&other.root(), "test").unwrap();
        assert_ne!(fingerprint(&load_or_make(&mut state).unwrap()), fingerprint(&first));
    }

    // spec: AG-8
    #[test]
    fn a_lost_or_damaged_key_is_never_replaced() {
        let scratch = Scratch::new();
        let mut state = State::hold(&scratch.root(), "test").unwrap();
        load_or_make(&mut state).unwrap();
        let path = scratch.root().state().join("node.key");
        let pem = std::fs::read(&path).unwrap();
        for cut in [0, 1, pem.len() / 2, pem.len() - 2] {
            std::fs::write(&path, &pem[..cut]).unwrap();
            let error = load_or_make(&mut state).unwrap_err();
            assert!(matches!(error, KeyError::Damaged { .. }), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), &pem[..cut]);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(load_or_make(&mut state), Err(KeyError::Lost { .. })));
        assert!(matches!(load(&state), Err(KeyError::Lost { .. })));
        drop(state);
        // Even without the lease's mark, the remains of a node say that there was a key.
        std::fs::remove_file(scratch.root().state().join(".lease")).unwrap();
        let mut state = State::hold(&scratch.root(), "test").unwrap();
        state.replace(StateFile::Installed, b"{}").unwrap();
        assert!(matches!(load_or_make(&mut state), Err(KeyError::Lost { .. })));
        assert!(!path.exists());
    }
}
