//! Directories below `/etc` that the agent writes to: reached part by part from the root, each part checked on its own
//! descriptor, none through a link (design.md N2, threats.md D-7).

use lucia_durable::{DirError, DirRules, FileName, FileRules, Loaded, Owner, PrivateDir, ReadError};

use super::root::Root;

/// Every part on the way: root's, and writable by nobody else.
const RULES: DirRules = DirRules { mode: 0o755, owner: Owner::Us, group: None };

/// A directory the agent writes to. A closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EtcDir {
    /// sssd's configuration.
    Sssd,
    /// sshd's drop-ins.
    SshdConfig,
    /// Keys that sshd takes beside users' own.
    AuthorizedKeys,
}

impl EtcDir {
    /// Every directory.
    pub const ALL: [Self; 3] = [Self::Sssd, Self::SshdConfig, Self::AuthorizedKeys];

    const fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Sssd => &["etc", "sssd"],
            Self::SshdConfig => &["etc", "ssh", "sshd_config.d"],
            Self::AuthorizedKeys => &["etc", "ssh", "lucia-authorized-keys"],
        }
    }

    /// Its path on a node.
    #[must_use]
    pub fn path(self) -> String {
        format!("/{}", self.parts().join("/"))
    }

    /// What makes it where it is missing, for a person.
    #[must_use]
    pub const fn cure(self) -> &'static str {
        match self {
            Self::Sssd => {
                "see that the packages sssd-ldap, libnss-sss and libpam-sss are installed, then `systemctl restart \
                 lucia-node-agent`"
            }
            Self::SshdConfig => "see that openssh-server is installed, then `systemctl restart lucia-node-agent`",
            Self::AuthorizedKeys => "run `systemd-tmpfiles --create`, then `systemctl restart lucia-node-agent`",
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// [`DirError`]: it is missing, or a part of the way is a link, another user's, or open to others.
    pub fn open(self, root: &Root) -> Result<PrivateDir, DirError> {
        walk(root, self.parts())
    }
}

fn walk(root: &Root, parts: &[&str]) -> Result<PrivateDir, DirError> {
    let mut at = PrivateDir::open(root.path(), RULES)?;
    for part in parts {
        // Constants of this file, all of them names.
        let name = FileName::new(part).map_err(|_| DirError::Missing { path: part.into() })?;
        at = at.subdir(&name, RULES)?;
    }
    Ok(at)
}

/// Opens `/etc/lucia`, where a person says what the agent may do: read with the same care.
///
/// # Errors
/// [`DirError`]: it is missing, or a part of the way is a link, another user's, or open to others.
pub fn settings(root: &Root) -> Result<PrivateDir, DirError> {
    walk(root, &["etc", "lucia"])
}

/// Reads a file that the agent wrote, or finds none; refuses whatever else has its name.
///
/// # Errors
/// [`ReadError`]: a link, a second name, another user's, too open, too long.
pub fn read(dir: &PrivateDir, name: &FileName, max: u64, mode: u32) -> Result<Option<Vec<u8>>, ReadError> {
    dir.read(name, max, FileRules { mode, owner: Owner::Us }).map(Loaded::found)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::host::scratch::Scratch;

    fn made() -> Scratch {
        let scratch = Scratch::new();
        for dir in EtcDir::ALL {
            fs::create_dir_all(scratch.root().join(&dir.path())).unwrap();
        }
        scratch
    }

    // spec: KF-7 (threats.md D-7)
    #[test]
    fn a_directory_that_others_can_write_to_is_refused_at_every_part_of_the_way() {
        for dir in EtcDir::ALL {
            let path = dir.path();
            let parts: Vec<_> = path.match_indices('/').skip(1).map(|(at, _)| &path[..at]).chain([&*path]).collect();
            for part in parts {
                let scratch = made();
                assert!(dir.open(&scratch.root()).is_ok());
                let at = scratch.root().join(part);
                for mode in [0o777, 0o775, 0o1777, 0o2755] {
                    fs::set_permissions(&at, fs::Permissions::from_mode(mode)).unwrap();
                    assert!(matches!(dir.open(&scratch.root()), Err(DirError::Refused { .. })), "{part} {mode:o}");
                }
                fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).unwrap();
                if nix::unistd::geteuid().is_root() {
                    std::os::unix::fs::chown(&at, Some(1000), None).unwrap();
                    assert!(matches!(dir.open(&scratch.root()), Err(DirError::Refused { .. })), "{part} of a user");
                    std::os::unix::fs::chown(&at, Some(0), None).unwrap();
                }
                // The same directory by way of a link is another way.
                fs::rename(&at, scratch.root().join("elsewhere")).unwrap();
                symlink(scratch.root().join("elsewhere"), &at).unwrap();
                assert!(matches!(dir.open(&scratch.root()), Err(DirError::Refused { .. })), "{part} is a link");
                fs::remove_file(&at).unwrap();
                assert!(matches!(dir.open(&scratch.root()), Err(DirError::Missing { .. })), "{part} is gone");
                fs::write(&at, "").unwrap();
                assert!(matches!(dir.open(&scratch.root()), Err(DirError::Refused { .. })), "{part} is a file");
            }
        }
    }
}
