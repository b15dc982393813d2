//! The four conditions of `managed-run` (design.md N4). Only when all hold is there an [`Installed`], and without one
//! no loop starts.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use lucia_durable::DirError;
use thiserror::Error;

use crate::host::boot::{self, BootId, MachineId};
use crate::host::failed::Failed;
use crate::host::root::{AGENT_BINARY, Root};
use crate::host::state::{State, StateError, StateFile};
use crate::identity::installed::InstalledFacts;

/// Device and inode: which file it really is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(path: &Path) -> Option<Self> {
        let facts = fs::metadata(path).ok()?;
        facts.is_file().then(|| Self { device: facts.dev(), inode: facts.ino() })
    }
}

/// What is looked at, read once.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The program that runs.
    pub running: Option<FileId>,
    /// The file at the agent's path.
    pub at_path: Option<FileId>,
    /// The same path as PID 1 sees it.
    pub of_pid_1: Option<FileId>,
    /// This system's machine id.
    pub machine_id: Option<MachineId>,
    /// This boot.
    pub boot_id: BootId,
    /// What `/etc/hostname` says.
    pub hostname: String,
    /// Whether it ever had a certificate: from then on another name is the fleet's to approve, and stops nothing.
    pub certified: bool,
}

/// Why `managed-run` does not start. Each has its own exit code.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotInstalled {
    /// Another copy of the program runs.
    #[error(
        "this program is not {AGENT_BINARY}; start the service (`systemctl start lucia-node-agent`) instead of a copy"
    )]
    NotAtItsPath,
    /// Not the root that PID 1 booted, or not the one that was staged.
    #[error(
        "this is not the system that was installed: {0}; start the service (`systemctl start lucia-node-agent`) on the installed system"
    )]
    NotTheInstalledRoot(&'static str),
    /// The machine was not rebooted yet.
    #[error("this is still the boot of the installer; reboot into the installed system")]
    InstallersBoot,
    /// Another name than the approved one.
    #[error(
        "/etc/hostname says {found:?}, but this node was approved as {approved:?}; write {approved:?} into /etc/hostname"
    )]
    Hostname {
        /// What is there.
        found: String,
        /// What was approved.
        approved: String,
    },
}

impl NotInstalled {
    /// The exit code.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NotAtItsPath => 10,
            Self::NotTheInstalledRoot { .. } => 11,
            Self::InstallersBoot => 12,
            Self::Hostname { .. } => 13,
        }
    }
}

/// Proof that the four conditions held, and what the installer left. Only [`check`] makes one.
#[derive(Clone, Debug)]
pub struct Installed(InstalledFacts);

impl Installed {
    /// What the installer left.
    #[must_use]
    pub const fn facts(&self) -> &InstalledFacts {
        &self.0
    }
}

impl Facts {
    /// Reads them.
    ///
    /// # Errors
    /// [`Failed::Boot`].
    pub fn read(root: &Root) -> Result<Self, Failed> {
        Ok(Self {
            running: FileId::of(&root.running_binary()),
            at_path: FileId::of(&root.agent_binary()),
            of_pid_1: FileId::of(&root.agent_binary_of_pid_1()),
            machine_id: boot::machine_id(root).ok(),
            boot_id: boot::boot_id(root)?,
            hostname: boot::hostname(root)?,
            certified: State::open(root).is_ok_and(|state| state.exists(StateFile::Certificate).unwrap_or(false)),
        })
    }
}

/// What the installer left, if it was here. Nothing is made and nothing is locked for this look.
///
/// # Errors
/// [`Failed::State`] or [`Failed::Installed`] when it is there but cannot be used.
pub fn installed_facts(root: &Root) -> Result<Option<InstalledFacts>, Failed> {
    match State::open(root) {
        Ok(state) => Ok(InstalledFacts::read(&state)?),
        Err(StateError::Dir(DirError::Missing { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Checks the first condition alone, which needs nothing of the private directory.
///
/// # Errors
/// [`NotInstalled::NotAtItsPath`].
pub fn check_program(facts: &Facts) -> Result<(), NotInstalled> {
    if facts.running.is_none() || facts.running != facts.at_path { Err(NotInstalled::NotAtItsPath) } else { Ok(()) }
}

/// Checks the four conditions, in this order.
///
/// # Errors
/// The first that does not hold.
pub fn check(facts: &Facts, installed: Option<InstalledFacts>) -> Result<Installed, NotInstalled> {
    check_program(facts)?;
    let elsewhere = |what| Err(NotInstalled::NotTheInstalledRoot(what));
    if facts.of_pid_1 != facts.running {
        return elsewhere("PID 1 has another file at the agent's path");
    }
    let Some(installed) = installed else {
        return elsewhere("nothing was left by `stage-managed` in /var/lib/lucia/agent/installed.json");
    };
    if facts.machine_id.as_ref() != Some(&installed.machine_id) {
        return elsewhere("/etc/machine-id is not that of the installation");
    }
    if installed.install_boot_id.as_ref() == Some(&facts.boot_id) {
        return Err(NotInstalled::InstallersBoot);
    }
    if !facts.certified && facts.hostname != installed.hostname.as_str() {
        let approved = installed.hostname.to_string();
        return Err(NotInstalled::Hostname { found: facts.hostname.clone(), approved });
    }
    Ok(Installed(installed))
}

/// The proof without the conditions, for the daemon's own stories.
#[cfg(test)]
pub(crate) fn installed_for_tests(facts: InstalledFacts) -> Installed {
    Installed(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;

    const BOOT: &str = "11111111-1111-4111-8111-111111111111";
    const MACHINE: &str = "22222222222242228222222222222222";

    /// A system on which all four conditions hold.
    fn good() -> (Scratch, InstalledFacts) {
        let scratch = Scratch::new();
        scratch.put(AGENT_BINARY, "the agent");
        for link in ["proc/self/exe", "run/lucia/boot/agent/lucia-node-agent"] {
            let path = scratch.root().join(link);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::hard_link(scratch.root().agent_binary(), path).unwrap();
        }
        scratch.put("etc/hostname", "n1\n");
        scratch.put("etc/machine-id", &format!("{MACHINE}\n"));
        scratch.put("proc/sys/kernel/random/boot_id", &format!("{BOOT}\n"));
        let key = lucia_proto::test_support::key(7);
        let installed = InstalledFacts {
            node_id: key.public().fingerprint().node_id(),
            task_id: lucia_proto::base::ids::TaskId::from_random([1; 16]),
            hostname: "n1".parse().unwrap(),
            install_boot_id: Some("33333333-3333-4333-8333-333333333333".parse().unwrap()),
            machine_id: MACHINE.parse().unwrap(),
        };
        (scratch, installed)
    }

    fn judge(scratch: &Scratch, installed: Option<InstalledFacts>) -> Result<(), u8> {
        let facts = Facts::read(&scratch.root()).unwrap();
        check(&facts, installed).map(|_| ()).map_err(|error| error.exit_code())
    }

    // spec: MR-1
    #[test]
    fn it_starts_when_all_four_hold() {
        let (scratch, installed) = good();
        assert_eq!(judge(&scratch, Some(installed)), Ok(()));
    }

    // spec: MR-2
    #[test]
    fn a_copy_elsewhere_is_refused() {
        let (scratch, installed) = good();
        fs::remove_file(scratch.root().running_binary()).unwrap();
        scratch.put("proc/self/exe", "the agent");
        assert_eq!(judge(&scratch, Some(installed.clone())), Err(10));
        fs::remove_file(scratch.root().running_binary()).unwrap();
        assert_eq!(judge(&scratch, Some(installed)), Err(10));
    }

    // spec: MR-2
    #[test]
    fn two_missing_programs_are_not_the_same_one() {
        let (scratch, installed) = good();
        let root = scratch.root();
        for path in [root.running_binary(), root.agent_binary(), root.agent_binary_of_pid_1()] {
            fs::remove_file(path).unwrap();
        }
        assert_eq!(judge(&scratch, Some(installed)), Err(10));
    }

    // spec: MR-3
    #[test]
    fn another_root_is_refused() {
        let (scratch, installed) = good();
        assert_eq!(judge(&scratch, None), Err(11));
        let other =
            InstalledFacts { machine_id: "2".repeat(32).replace('2', "4").parse().unwrap(), ..installed.clone() };
        assert_eq!(judge(&scratch, Some(other)), Err(11));
        scratch.put("etc/machine-id", "uninitialized\n");
        assert_eq!(judge(&scratch, Some(installed.clone())), Err(11));
        scratch.put("etc/machine-id", MACHINE);
        let bound = scratch.root().agent_binary_of_pid_1();
        fs::remove_file(&bound).unwrap();
        assert_eq!(judge(&scratch, Some(installed.clone())), Err(11));
        fs::write(&bound, "another agent").unwrap();
        assert_eq!(judge(&scratch, Some(installed)), Err(11));
    }

    // spec: MR-4
    #[test]
    fn the_installers_boot_is_refused() {
        let (scratch, installed) = good();
        let same = InstalledFacts { install_boot_id: Some(BOOT.parse().unwrap()), ..installed };
        assert_eq!(judge(&scratch, Some(same)), Err(12));
    }

    // spec: NN-3
    #[test]
    fn a_node_that_had_a_certificate_starts_under_any_name() {
        let (scratch, installed) = good();
        let state = State::hold(&scratch.root(), "test").unwrap();
        for name in ["n2", "", "N1", "n1.example"] {
            scratch.put("etc/hostname", name);
            assert_eq!(judge(&scratch, Some(installed.clone())), Err(13), "{name:?}");
        }
        state.replace(StateFile::Certificate, b"one").unwrap();
        for name in ["n2", "", "N1", "n1.example"] {
            scratch.put("etc/hostname", name);
            assert_eq!(judge(&scratch, Some(installed.clone())), Ok(()), "{name:?}");
        }
        // The other three still hold.
        assert_eq!(judge(&scratch, None), Err(11));
    }

    // spec: MR-5
    #[test]
    fn another_hostname_is_refused() {
        let (scratch, installed) = good();
        for name in ["n2", "", "N1", "n1.example"] {
            scratch.put("etc/hostname", name);
            assert_eq!(judge(&scratch, Some(installed.clone())), Err(13), "{name:?}");
        }
    }
}
