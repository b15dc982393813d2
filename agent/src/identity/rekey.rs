//! A new key in place of one that somebody else has too (design.md I8), or that is lost or barred: on a person's word
//! alone, and what there is of the former one is kept aside.
//!
//! In this order, so that a crash leaves either the former identity, whole or healing, or the new key alone: that a system
//! runs here is noted; the former key is copied aside; what was issued to it is removed; the new key takes its place.

use lucia_durable::crash_point;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::pki::key::{Fingerprint, NodeKey};
use thiserror::Error;

use super::installed::InstalledFacts;
use super::key::{self, KeyError};
use super::running;
use crate::host::boot::MachineId;
use crate::host::failed::Failed;
use crate::host::state::{State, StateError, StateFile};
use lucia_proto::node::first_contact::Grant;

/// What was issued to a key, said with it, or ordered of it; bundle and roster are the fleet's and stay.
const OF_A_KEY: [StateFile; 6] = [
    StateFile::Certificate,
    StateFile::Answer,
    StateFile::Csr,
    StateFile::Installation,
    StateFile::Starts,
    StateFile::Orders,
];

/// The installation does not go on under a new key.
#[derive(Debug, Error)]
pub enum RekeyError {
    /// The private directory fails.
    #[error(transparent)]
    State(#[from] StateError),
    /// There is nothing of an installation.
    #[error(
        "this machine was approved for an installation, and there is none here (no installed.json); run `lucia-node-agent \
         rekey`, then `lucia-node-agent discover`, and have it approved as it runs"
    )]
    NotInstalled,
    /// The key is still the installed one.
    #[error("this machine still has the key it was installed with; run `lucia-node-agent rekey` first")]
    NotRekeyed,
}

/// What became of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rekeyed {
    /// The node that was, where its key or its installation still says so.
    pub former: Option<NodeId>,
    /// The file its key is in now, or what was left of it; none where the key was gone.
    pub aside: Option<String>,
    /// The new key's fingerprint.
    pub fingerprint: Fingerprint,
}

/// Where a former key is kept: by its own id, so that none takes another's place.
fn aside(former: &NodeId) -> String {
    format!("former-{former}.key")
}

/// The key that goes, whole or not.
#[derive(Debug)]
pub struct Former {
    /// The node that was.
    pub node_id: Option<NodeId>,
    /// The bytes of its key, and under which name they are kept.
    key: Option<(String, zeroize::Zeroizing<Vec<u8>>)>,
}

impl Former {
    /// Whether there is no file of a key.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.key.is_none()
    }
}

/// What goes: also a key that is lost or damaged, since no other verb gets past that.
///
/// # Errors
/// [`KeyError::Removed`] and [`KeyError::None`], where there is nothing to replace; [`KeyError::State`].
pub fn former(state: &State) -> Result<Former, KeyError> {
    let node_id = match key::load(state) {
        Ok(key) => Some(key.public().fingerprint().node_id()),
        Err(KeyError::Lost { .. } | KeyError::Damaged { .. }) => None,
        Err(error) => return Err(error),
    };
    let bytes = state.read(StateFile::Key)?.map(zeroize::Zeroizing::new);
    let key = bytes.map(|bytes| {
        // Of what is damaged nobody knows the id.
        let name = node_id.as_ref().map_or_else(|| format!("damaged-{}.key", Digest::of(&bytes)), aside);
        (name, bytes)
    });
    let installed = || InstalledFacts::read(state).ok().flatten().map(|facts| facts.node_id);
    Ok(Former { node_id: node_id.or_else(installed), key })
}

/// Makes a new key. The caller asked a person, and holds the private directory, so that no daemon runs.
///
/// # Errors
/// [`Failed`]; a second try goes on from where this one ended.
pub fn rekey(state: &mut State) -> Result<Rekeyed, Failed> {
    let Former { node_id, key: former } = former(state)?;
    let key = key::draw()?;
    // Whoever says this word sits at a system that runs, whatever else was lost of it.
    running::note(state)?;
    if let Some((name, bytes)) = &former {
        state.put_aside(name, bytes)?;
    }
    crash_point!("agent/key-aside", state.path())?;
    for file in OF_A_KEY {
        state.remove(file)?;
    }
    crash_point!("agent/identity-cleared", state.path())?;
    key::replace(state, &key)?;
    let aside = former.map(|(name, _)| name);
    Ok(Rekeyed { former: node_id, aside, fingerprint: key.public().fingerprint() })
}

/// What the daemon will find once this grant of a new key is taken: the installation as it was, under the new identity,
/// or that the machine joined as it ran.
///
/// # Errors
/// [`RekeyError::NotInstalled`], [`RekeyError::NotRekeyed`], [`RekeyError::State`].
pub fn finished(
    state: &State,
    key: &NodeKey,
    grant: &Grant,
    machine_id: &MachineId,
) -> Result<InstalledFacts, RekeyError> {
    let node_id = key.public().fingerprint().node_id();
    let joins = grant.disk_id.is_none();
    let install_boot_id = match InstalledFacts::read(state) {
        // The approval is for a system that runs: what an installer left is not asked for.
        Ok(None) | Err(StateError::Form { .. }) if joins => None,
        Ok(Some(former)) if joins || former.node_id != node_id || former.task_id == grant.task_id => {
            former.install_boot_id
        }
        Ok(Some(_)) => return Err(RekeyError::NotRekeyed),
        Ok(None) => return Err(RekeyError::NotInstalled),
        Err(error) => return Err(error.into()),
    };
    let (task_id, hostname) = (grant.task_id.clone(), grant.hostname.clone());
    Ok(InstalledFacts { node_id, task_id, hostname, machine_id: machine_id.clone(), install_boot_id })
}

#[cfg(test)]
mod tests {
    use lucia_proto::base::time::UnixTime;

    use super::*;
    use crate::host::scratch::Scratch;

    /// A node with everything, on a disk of its own.
    fn node() -> (Scratch, State) {
        let scratch = Scratch::new();
        let mut state = State::hold(&scratch.root(), "test").unwrap();
        key::load_or_make(&mut state).unwrap();
        for file in OF_A_KEY {
            state.replace(file, b"{}").unwrap();
        }
        state.replace(StateFile::Bundle, b"{}").unwrap();
        (scratch, state)
    }

    fn id(state: &State) -> NodeId {
        key::load(state).unwrap().public().fingerprint().node_id()
    }

    // spec: AG-43
    #[test]
    fn a_new_key_takes_the_place_of_the_old_one_which_is_kept_aside() {
        let (scratch, mut state) = node();
        let old = state.read(StateFile::Key).unwrap().unwrap();
        let former = id(&state);
        let done = rekey(&mut state).unwrap();
        assert_eq!((done.former.as_ref(), done.fingerprint.node_id()), (Some(&former), id(&state)));
        assert_ne!(former, id(&state));
        assert_eq!(std::fs::read(scratch.root().state().join(done.aside.as_ref().unwrap())).unwrap(), old);
        for file in OF_A_KEY {
            assert!(!state.exists(file).unwrap(), "{file:?}");
        }
        assert!(state.exists(StateFile::Bundle).unwrap());
        let again = rekey(&mut state).unwrap();
        assert_ne!(again.aside, done.aside, "no former key takes another's place");
    }

    // spec: AG-43
    #[test]
    fn a_crash_at_any_step_loses_no_key_and_a_second_try_ends_it() {
        for nth in 0.. {
            let (scratch, mut state) = node();
            let former = id(&state);
            let plan = crash_point::crash_at(&scratch.root().state(), nth);
            let _ = rekey(&mut state);
            let crashed = plan.crashed().is_some();
            drop((plan, state));
            let mut state = State::hold(&scratch.root(), "test").unwrap();
            let kept = scratch.root().state().join(aside(&former)).exists();
            assert!(kept || id(&state) == former, "step {nth}");
            if id(&state) == former {
                rekey(&mut state).unwrap();
            }
            assert!(scratch.root().state().join(aside(&former)).exists(), "step {nth}");
            assert!(!state.exists(StateFile::Certificate).unwrap(), "step {nth}");
            if !crashed {
                assert!(nth > 5, "only {nth} steps were tried");
                break;
            }
        }
    }

    // spec: AG-300
    #[test]
    fn a_lost_or_damaged_key_is_replaced_on_a_persons_word_after_a_crash_at_any_step() {
        for damaged in [None, Some(&b""[..]), Some(&b"no key"[..])] {
            for nth in 0.. {
                let (scratch, mut state) = node();
                let (before, path) = (id(&state), scratch.root().state().join("node.key"));
                std::fs::remove_file(&path).unwrap();
                if let Some(bytes) = damaged {
                    state.replace(StateFile::Key, bytes).unwrap();
                }
                assert!(key::load_or_make(&mut state).is_err(), "never by itself");
                let plan = crash_point::crash_at(&scratch.root().state(), nth);
                let _ = rekey(&mut state);
                let crashed = plan.crashed().is_some();
                drop((plan, state));
                let mut state = State::hold(&scratch.root(), "test").unwrap();
                if !key::load(&state).is_ok_and(|key| key.public().fingerprint().node_id() != before) {
                    rekey(&mut state).unwrap();
                }
                assert_ne!(id(&state), before, "step {nth}");
                assert!(running::is_running(&state).unwrap(), "step {nth}");
                assert!(!state.exists(StateFile::Certificate).unwrap(), "step {nth}");
                if let Some(bytes) = damaged {
                    let name = format!("damaged-{}.key", Digest::of(bytes));
                    assert_eq!(std::fs::read(scratch.root().state().join(name)).unwrap(), bytes, "step {nth}");
                }
                if !crashed {
                    assert!(nth > 5, "only {nth} steps were tried");
                    break;
                }
            }
        }
    }

    // spec: AG-301
    #[test]
    fn a_machine_that_joins_needs_nothing_of_an_installer() {
        let (_scratch, state) = node();
        let machine: MachineId = "22222222222242228222222222222222".parse().unwrap();
        let key = key::load(&state).unwrap();
        let grant = Grant {
            task_id: lucia_proto::base::ids::TaskId::from_random([1; 16]),
            device_id: id(&state),
            request_id: lucia_proto::base::ids::RequestId::from_random([1; 16]),
            hostname: "n2".parse().unwrap(),
            disk_id: None,
            inventory_revision: 1,
            expires_at: UnixTime::EPOCH,
            progress_expires_at: UnixTime::EPOCH,
        };
        let facts = finished(&state, &key, &grant, &machine).unwrap();
        assert_eq!((&facts.node_id, facts.hostname.as_str(), &facts.install_boot_id), (&id(&state), "n2", &None));
        // What is left of an installation may be damaged, or of this very key.
        state.replace(StateFile::Installed, b"{").unwrap();
        assert_eq!(finished(&state, &key, &grant, &machine).unwrap(), facts);
        facts.write(&state).unwrap();
        let second = Grant { task_id: lucia_proto::base::ids::TaskId::from_random([2; 16]), ..grant };
        assert_eq!(finished(&state, &key, &second, &machine).unwrap().task_id, second.task_id);
        assert_eq!(InstalledFacts::read(&state).unwrap(), Some(facts));
    }

    // spec: AG-44
    #[test]
    fn the_new_identity_takes_over_the_installation_and_not_before_there_is_one() {
        let (_scratch, mut state) = node();
        let machine: MachineId = "22222222222242228222222222222222".parse().unwrap();
        let grant = |number| Grant {
            task_id: lucia_proto::base::ids::TaskId::from_random([number; 16]),
            device_id: id(&state),
            request_id: lucia_proto::base::ids::RequestId::from_random([1; 16]),
            hostname: "n2".parse().unwrap(),
            disk_id: Some("d".parse().unwrap()),
            inventory_revision: 1,
            expires_at: UnixTime::EPOCH,
            progress_expires_at: UnixTime::EPOCH,
        };
        let (first, second) = (grant(1), grant(2));
        let key = key::load(&state).unwrap();
        assert!(matches!(finished(&state, &key, &first, &machine), Err(RekeyError::NotInstalled)));
        let left = InstalledFacts {
            node_id: id(&state),
            task_id: first.task_id.clone(),
            hostname: "n1".parse().unwrap(),
            install_boot_id: Some("33333333-3333-4333-8333-333333333333".parse().unwrap()),
            machine_id: machine.clone(),
        };
        left.write(&state).unwrap();
        assert!(matches!(finished(&state, &key, &second, &machine), Err(RekeyError::NotRekeyed)));
        rekey(&mut state).unwrap();
        let key = key::load(&state).unwrap();
        let facts = finished(&state, &key, &second, &machine).unwrap();
        assert_eq!((&facts.node_id, &facts.task_id), (&id(&state), &second.task_id));
        assert_eq!((facts.hostname.as_str(), &facts.install_boot_id), ("n2", &left.install_boot_id));
        facts.write(&state).unwrap();
        assert_eq!(finished(&state, &key, &second, &machine).unwrap(), facts, "a second run ends in the same");
    }
}
