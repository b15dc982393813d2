//! `remove-identity`, the way back to a plain machine: everything of the fleet goes, and people with an account of this
//! machine's own log in as before.
//!
//! | step | a crash before the next one |
//! |---|---|
//! | `orders.json` says that things go from here on | the next start goes on here, whatever else is left |
//! | `system.json` says that an installed system is left | as before |
//! | key files, sshd's drop-in and sssd.conf are removed, both services told | as before |
//! | all of the private directory but what is named here is removed, the key with it | as before |
//! | the lease forgets that there was a key, `installed.json` is removed | as before |
//! | `orders.json` is removed | nothing is left to do |

use lucia_durable::DirError;
use lucia_proto::orders::RemoveIdentity;

use super::carry::{Act, Carry, Facts, NotDone};
use super::record::{Loaded, OpenOrder, Record};
use crate::directory::files::{self, FilesError, SetUpFile};
use crate::host::chain;
use crate::host::failed::{Failed, OrFailed as _};
use crate::host::root::Root;
use crate::host::state::{State, StateFile};
use crate::identity::running;
use crate::keys::OrderedKeys;
use crate::keys::files::{Files, KeysError};
use crate::units::{Runner, ServiceAct};

/// What became of the node, for people.
pub const REMOVED: &str = "an owner removed this node's identity: key, certificate, directory and SSH keys of the fleet are gone, \
     accounts of this machine itself are as before; to bring it back begin with `lucia-node-agent discover`";
const NOT_ORDERED: &str = "no owner's order to remove the identity is under way; nothing is removed";
const KEYS_STAY: &str = "SSH keys of the fleet cannot be removed";
/// What stays to the end: what says that there is something to end, and what people read.
const LAST: [StateFile; 4] = [StateFile::Orders, StateFile::Installed, StateFile::System, StateFile::Status];

impl Carry for RemoveIdentity {
    fn plan(&self, _: &Facts<'_>) -> Result<Option<Act>, NotDone> {
        Ok(Some(Act::Remove))
    }
}

/// Whether a removal was begun, and is to be ended before anything else.
#[must_use]
pub fn is_under_way(root: &Root) -> bool {
    let state = State::open(root);
    state.is_ok_and(|state| matches!(Record::load(&state), Loaded::Held(record) if is_wiping(&record)))
}

/// Removes everything of the fleet. The daemon's loops have ended.
///
/// # Errors
/// [`Failed`]; another call goes on from where this one ended.
pub async fn remove<R: Runner>(root: &Root, state: &State, runner: &R) -> Result<(), Failed> {
    let Loaded::Held(record) = Record::load(state) else { return Err(Failed::new(NOT_ORDERED)) };
    let wiping = record.wiping().ok_or_else(|| Failed::new(NOT_ORDERED))?;
    if !is_wiping(&record) {
        wiping.write(state)?;
    }
    // What is left is an installed system, and no installer: discovery says so, and no disk of it may be erased.
    running::note(state)?;
    remove_keys(root)?;
    let had = files::kept(state);
    for file in SetUpFile::ALL {
        match files::put(root, file, None) {
            Ok(()) | Err(FilesError::Dir(_, DirError::Missing { .. })) => {}
            // What the agent did not write is none of the fleet's.
            Err(error @ (FilesError::Foreign { .. } | FilesError::Read { .. })) => tracing::warn!("{}", chain(&error)),
            Err(error) => return Err(error).or_failed("the fleet's directory cannot be taken away"),
        }
    }
    if had.is_some_and(|had| had.sssd.is_some()) {
        for act in [ServiceAct::ReloadSshd, ServiceAct::RestartSssd] {
            if let Err(error) = runner.act(act).await {
                tracing::warn!(
                    "{}; its files are gone, and it goes by that at the next boot at the latest",
                    chain(&error)
                );
            }
        }
    }
    state.remove_all_but(&LAST)?;
    state.forget_key()?;
    state.remove(StateFile::Installed)?;
    Ok(state.remove(StateFile::Orders)?)
}

/// Whether there is no way back.
fn is_wiping(record: &Record) -> bool {
    matches!(record.ending(), Some(OpenOrder { act: Act::Wipe, .. }))
}

fn remove_keys(root: &Root) -> Result<(), Failed> {
    let files = match Files::open(root) {
        Ok(files) => files,
        Err(KeysError::Dir(DirError::Missing { .. })) => return Ok(()),
        Err(error) => return Err(error).or_failed(KEYS_STAY),
    };
    let brought = files.bring(&OrderedKeys::none(), None, false).or_failed(KEYS_STAY)?;
    if let Some(what) = crate::keys::told(&brought.dropped) {
        tracing::warn!("{what}");
    }
    Ok(())
}
