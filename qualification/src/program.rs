//! The programs this crate starts: a closed list, at one place.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A program the qualification may start.
#[derive(Debug, Clone)]
pub enum Program {
    /// `ip` of iproute2: links and addresses of namespaces we made.
    Ip,
    /// `nsenter` of util-linux: runs something inside a node or a network.
    Nsenter,
    /// `systemd-nspawn`, on hosts which run systemd themselves.
    Nspawn,
    /// `systemd-analyze`: checks unit files.
    SystemdAnalyze,
    /// `setpriv` of util-linux, which starts a node's init with fewer capabilities.
    Setpriv,
    /// `openssl`, by which the operator of a step-ca has its root and intermediate.
    Openssl,
    /// `ssh-keygen` of openssh-client, for the person of the demo.
    SshKeygen,
    /// `certutil` of libnss3-tools, by which the demo's browser gets to trust the demo's root.
    Certutil,
    /// `script` of util-linux, which gives a program a terminal.
    Script,
    /// `install` of coreutils, for a file that is run: it is never open for writing in this process.
    Install,
    /// A binary of this workspace, by its path.
    Built(PathBuf),
}

impl Program {
    /// What is looked up or started.
    pub fn path(&self) -> &Path {
        match self {
            Self::Ip => Path::new("ip"),
            Self::Nsenter => Path::new("nsenter"),
            Self::Nspawn => Path::new("systemd-nspawn"),
            Self::SystemdAnalyze => Path::new("systemd-analyze"),
            Self::Setpriv => Path::new("setpriv"),
            Self::Openssl => Path::new("openssl"),
            Self::Script => Path::new("script"),
            Self::SshKeygen => Path::new("ssh-keygen"),
            Self::Certutil => Path::new("certutil"),
            Self::Install => Path::new("install"),
            Self::Built(path) => path,
        }
    }

    /// A command with a clean environment: nothing of the caller's locale, pager or D-Bus address reaches it.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one site of this crate that starts programs, from the list above"
    )]
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.path());
        command.env_clear().env("PATH", PATH).env("LC_ALL", "C.UTF-8");
        command
    }
}

/// Where programs are looked for, on the host and inside a node.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
