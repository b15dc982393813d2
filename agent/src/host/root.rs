//! Every path the agent reads or writes, by name, below one directory: `/`, or a test's own.

use std::path::{Path, PathBuf};

/// Where the agent must lie on an installed system.
pub const AGENT_BINARY: &str = "/usr/lib/lucia/agent/lucia-node-agent";

/// The directory that stands for `/`.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// The machine itself.
    #[must_use]
    pub fn system() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A directory that a test filled.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The path that `absolute` (or a path relative to `/`) is here.
    #[must_use]
    pub fn join(&self, absolute: &str) -> PathBuf {
        self.0.join(absolute.trim_start_matches('/'))
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// The table of paths.
macro_rules! paths {
    ($($(#[$doc:meta])* $name:ident: $path:expr;)*) => {
        impl Root {
            $($(#[$doc])*
            #[must_use]
            pub fn $name(&self) -> PathBuf {
                self.join($path)
            })*
        }
    };
}

paths! {
    /// The agent's settings.
    config: "etc/lucia/agent.toml";
    /// What must outlive a reboot: key, CSR, certificate, installation.
    state: "var/lib/lucia/agent";
    /// What may vanish at a reboot: the status as it is now.
    runtime: "run/lucia/agent";
    /// The name the machine has given itself.
    hostname: "etc/hostname";
    /// The id that an installation has for good.
    machine_id: "etc/machine-id";
    /// The id that each boot has anew.
    boot_id: "proc/sys/kernel/random/boot_id";
    /// Where the agent must lie.
    agent_binary: AGENT_BINARY;
    /// The same file as PID 1 sees it, bound in by the unit (`BindReadOnlyPaths=`).
    agent_binary_of_pid_1: "run/lucia/boot/agent/lucia-node-agent";
    /// The program that runs.
    running_binary: "proc/self/exe";
}
