//! The directories under `state-dir`, whose they are and who may read them (design.md W6).
//!
//! ```text
//! state-dir/                       2750, root's, group lucia-enrollment: the worker passes through
//!   audit/                         0700: nobody else's
//!   orders/                        0700: nobody else's
//!   passkeys/                      0700: nobody else's
//!   tokens/                        0700: nobody else's
//!   onboarding/                    2750: state.json, its former generations, the lease
//!   nodes/                         2750, root's
//!     enrollment-requests/         2750: the controller writes, the worker reads
//!     enrollment-responses/        2750, the worker's own: it writes, the controller reads
//!     removals/                    2750: the controller writes, the worker reads
//!     identities/                  0700: nobody else's
//!     owner-requests/              2750: the controller writes, the worker reads
//!     owner-responses/             2750, the worker's own: it writes, the controller reads
//! ```
//!
//! What leads to others is root's, as lucia.tmpfiles lays it: whoever has the controller's user could else move away, or
//! replace by a link, what the worker and its unit rely on. Where nobody laid it (a container, a test) it is made here.

use std::path::{Path, PathBuf};

use lucia_durable::{BadName, DirError, DirRules, FileName, Owner, PrivateDir, RuleBreach};
use lucia_proto::base::ids::NodeId;
use nix::unistd::{Gid, Group, Uid, User};
use thiserror::Error;

use crate::config::Config;

/// Mode of what the worker may read: setgid, so that files get the shared group.
const SHARED: u32 = 0o2750;
/// Mode of a file the worker may read.
pub(crate) const SHARED_FILE: u32 = 0o640;

/// Why the directories cannot be used.
#[derive(Debug, Error)]
pub enum LayoutError {
    /// A name in the settings is not known to this machine.
    #[error(
        "{setting} = {name:?}: this machine has no such {what}; create it (systemd-sysusers), or correct the setting"
    )]
    Unknown {
        /// The setting.
        setting: &'static str,
        /// Its value.
        name: String,
        /// `user` or `group`.
        what: &'static str,
    },
    /// The machine's user database does not answer.
    #[error("cannot look up {setting} = {name:?}")]
    Lookup {
        /// The setting.
        setting: &'static str,
        /// Its value.
        name: String,
        /// What the system said.
        #[source]
        source: nix::Error,
    },
    /// A directory is missing, another's, or too open.
    #[error("the state directory cannot be used")]
    Dir(#[source] DirError),
    /// A name of ours is not a file name.
    #[error("a file name of this program is refused; this is a mistake in the program, report it")]
    Name(#[source] BadName),
}

/// The opened directories.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) onboarding: PrivateDir,
    pub(crate) requests: PrivateDir,
    pub(crate) removals: PrivateDir,
    pub(crate) identities: PrivateDir,
    pub(crate) responses: Responses,
    pub(crate) audit: PrivateDir,
    pub(crate) orders: PrivateDir,
    pub(crate) passkeys: PrivateDir,
    pub(crate) tokens: PrivateDir,
    pub(crate) owner_requests: PrivateDir,
    pub(crate) owner_responses: Responses,
}

/// The worker's directory: opened anew each time, since it is the worker's to make and may come later.
#[derive(Clone, Debug)]
pub(crate) struct Responses {
    path: PathBuf,
    rules: DirRules,
}

impl Layout {
    /// Makes what is missing of the controller's own directories and opens all of them.
    pub(crate) fn open(config: &Config) -> Result<Self, LayoutError> {
        let group = group(config)?;
        let shared = DirRules { mode: SHARED, owner: Owner::Us, group };
        let roots = DirRules { owner: Owner::Uid(0), ..shared };
        let state =
            leading(PrivateDir::open(&config.state_dir, roots), || PrivateDir::create(&config.state_dir, shared))?;
        let at = name("nodes")?;
        let nodes = leading(state.subdir(&at, roots), || state.create_subdir(&at, shared))?;
        let worker = worker(config)?;
        let rules = DirRules { mode: SHARED, owner: worker, group };
        let responses = Responses { path: nodes.path().join("enrollment-responses"), rules };
        let owner_responses = Responses { path: nodes.path().join("owner-responses"), rules };
        if worker == Owner::Us {
            for dir in [&responses, &owner_responses] {
                PrivateDir::create(&dir.path, dir.rules).map_err(LayoutError::Dir)?;
            }
        }
        Ok(Self {
            onboarding: sub(&state, "onboarding", shared)?,
            requests: sub(&nodes, "enrollment-requests", shared)?,
            removals: sub(&nodes, "removals", shared)?,
            identities: sub(&nodes, "identities", DirRules::private())?,
            responses,
            audit: sub(&state, "audit", DirRules::private())?,
            orders: sub(&state, "orders", DirRules::private())?,
            passkeys: sub(&state, "passkeys", DirRules::private())?,
            tokens: sub(&state, "tokens", DirRules::private())?,
            owner_requests: sub(&nodes, "owner-requests", shared)?,
            owner_responses,
        })
    }

    /// Opens the directory of the audit alone, as it is.
    pub(crate) fn audit(config: &Config) -> Result<PrivateDir, LayoutError> {
        PrivateDir::open(&config.state_dir.join("audit"), DirRules::private()).map_err(LayoutError::Dir)
    }

    /// Opens the journal's directory alone, as it is: for `doctor`.
    pub(crate) fn onboarding(config: &Config) -> Result<PrivateDir, LayoutError> {
        let rules = DirRules { mode: SHARED, owner: Owner::Us, group: group(config)? };
        PrivateDir::open(&config.state_dir.join("onboarding"), rules).map_err(LayoutError::Dir)
    }
}

impl Responses {
    /// The directory now.
    pub(crate) fn open(&self) -> Result<PrivateDir, DirError> {
        PrivateDir::open(&self.path, self.rules)
    }

    /// Whose answers count.
    pub(crate) const fn owner(&self) -> Owner {
        self.rules.owner
    }

    /// Where it should be, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// A directory that leads to others: root's, or else our own.
fn leading(
    roots: Result<PrivateDir, DirError>,
    ours: impl FnOnce() -> Result<PrivateDir, DirError>,
) -> Result<PrivateDir, LayoutError> {
    match roots {
        Err(DirError::Missing { .. } | DirError::Refused { breach: RuleBreach::Owner { .. }, .. }) => ours(),
        // Root itself has both in one.
        _ if Uid::effective().is_root() => ours(),
        other => other,
    }
    .map_err(LayoutError::Dir)
}

fn sub(dir: &PrivateDir, text: &str, rules: DirRules) -> Result<PrivateDir, LayoutError> {
    dir.create_subdir(&name(text)?, rules).map_err(LayoutError::Dir)
}

/// A file name of ours.
pub(crate) fn name(text: &str) -> Result<FileName, LayoutError> {
    FileName::new(text).map_err(LayoutError::Name)
}

/// The file of one node.
pub(crate) fn file_of(id: &NodeId) -> Result<FileName, LayoutError> {
    name(&format!("{id}.json"))
}

/// The node whose file this is; nothing for other files.
pub(crate) fn node_of(file: &FileName) -> Option<NodeId> {
    file.as_str().strip_suffix(".json")?.parse().ok()
}

fn group(config: &Config) -> Result<Option<u32>, LayoutError> {
    let Some(name) = &config.group else { return Ok(None) };
    let lookup = |source| LayoutError::Lookup { setting: "group", name: name.clone(), source };
    let unknown = || LayoutError::Unknown { setting: "group", name: name.clone(), what: "group" };
    if let Ok(id) = name.parse() {
        return Ok(Some(id));
    }
    let group = Group::from_name(name).map_err(lookup)?.ok_or_else(unknown)?;
    Ok(Some(Gid::as_raw(group.gid)))
}

fn worker(config: &Config) -> Result<Owner, LayoutError> {
    let Some(name) = &config.worker_user else { return Ok(Owner::Us) };
    let lookup = |source| LayoutError::Lookup { setting: "worker-user", name: name.clone(), source };
    let unknown = || LayoutError::Unknown { setting: "worker-user", name: name.clone(), what: "user" };
    if let Ok(id) = name.parse() {
        return Ok(Owner::Uid(id));
    }
    let user = User::from_name(name).map_err(lookup)?.ok_or_else(unknown)?;
    Ok(Owner::Uid(user.uid.as_raw()))
}

#[cfg(test)]
mod tests;
