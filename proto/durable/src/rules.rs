//! Who may own a directory or file, and how open it may be. One check for all, on what the kernel says of a descriptor.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use nix::sys::stat::SFlag;

/// Permission bits, with setuid, setgid and sticky.
const PERMISSIONS: u32 = 0o7777;

/// The bit that hands a directory's group on to what is made in it.
const SETGID: u32 = 0o2000;

/// Whose a directory or file must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The user this process runs as.
    Us,
    /// Another, by number: the worker reading what the controller wrote.
    Uid(u32),
    /// Root's, or this user's where nobody laid the directories as root: what only leads to others.
    RootOr(u32),
}

/// What a directory must be like before anything in it is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirRules {
    /// Permission bits it may have at most, as 0o700 or 0o2750; a directory we make gets exactly these.
    pub mode: u32,
    /// Whose it must be.
    pub owner: Owner,
    /// The group it must have; `None` takes any.
    pub group: Option<u32>,
}

impl DirRules {
    /// 0700 and ours.
    #[must_use]
    pub const fn private() -> Self {
        Self { mode: 0o700, owner: Owner::Us, group: None }
    }
}

/// What a file must be like before a byte of it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRules {
    /// Permission bits it may have at most, as 0o600 or 0o640.
    pub mode: u32,
    /// Whose it must be.
    pub owner: Owner,
}

impl FileRules {
    /// 0600 and ours.
    #[must_use]
    pub const fn private() -> Self {
        Self { mode: 0o600, owner: Owner::Us }
    }
}

/// The rule that a directory or file breaks. The error that carries this as its source says where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleBreach {
    /// Not a directory, or not a regular file.
    #[error("it is a {got} where a {want} is right; find out who put it there, then move it away")]
    Kind {
        /// What it must be.
        want: &'static str,
        /// What it is.
        got: &'static str,
    },
    /// Not of the user who runs this. No cure hands it to the caller, who may be the wrong one.
    #[error(
        "it belongs to uid {got}, and this program runs as uid {us}; run it as the owner of its directory, and if it does, \
         find out who changed this one's owner"
    )]
    NotOurs {
        /// The user of this process.
        us: u32,
        /// Its user.
        got: u32,
    },
    /// Another user's.
    #[error("it belongs to uid {got} where uid {want} is right; find out why, then `chown {want}` it")]
    Owner {
        /// The right user.
        want: u32,
        /// Its user.
        got: u32,
    },
    /// Neither root's nor the one user's that it may be.
    #[error(
        "it belongs to uid {got} where root or uid {want} is right; find out why, then lay it as after an installation \
         (systemd-tmpfiles --create)"
    )]
    NotRoots {
        /// The user it may also be of.
        want: u32,
        /// Its user.
        got: u32,
    },
    /// Another group's.
    #[error("it belongs to gid {got} where gid {want} is right; find out why, then `chgrp {want}` it")]
    Group {
        /// The right group.
        want: u32,
        /// Its group.
        got: u32,
    },
    /// More open than allowed, or (a directory just made) not as it was set.
    #[error("its mode is {got:04o} where {want:04o} is right; find out who used it, then `chmod {want:04o}` it")]
    Mode {
        /// The right mode.
        want: u32,
        /// Its mode.
        got: u32,
    },
    /// A second name leads to the same file.
    #[error(
        "it has {links} names (hard links) where one is right; find the others with `find -samefile`, and remove them"
    )]
    Links {
        /// How many names.
        links: u64,
    },
}

impl Owner {
    pub(crate) fn check(self, got: u32) -> Result<(), RuleBreach> {
        let us = nix::unistd::geteuid().as_raw();
        match self {
            Self::Us if got != us => Err(RuleBreach::NotOurs { us, got }),
            Self::Uid(want) if got != want => Err(RuleBreach::Owner { want, got }),
            Self::RootOr(want) if got != want && got != 0 => Err(RuleBreach::NotRoots { want, got }),
            Self::Us | Self::Uid(_) | Self::RootOr(_) => Ok(()),
        }
    }
}

impl DirRules {
    pub(crate) fn check(&self, facts: &Metadata) -> Result<(), RuleBreach> {
        check_kind("directory", SFlag::S_IFDIR, facts.mode())?;
        self.owner.check(facts.uid())?;
        check_mode(self.mode, facts.mode())?;
        match self.group {
            Some(want) if facts.gid() != want => Err(RuleBreach::Group { want, got: facts.gid() }),
            _ => Ok(()),
        }
    }

    /// As [`DirRules::check`] for a directory that `create` is about to bring up to the rules: without the group, and
    /// with the setgid bit, which a new directory inherits from its parent and which opens it to nobody.
    pub(crate) fn check_before(&self, facts: &Metadata) -> Result<(), RuleBreach> {
        Self { mode: self.mode | SETGID, group: None, ..*self }.check(facts)
    }

    /// Whether it is exactly as the rules say, rather than merely no more open.
    pub(crate) fn check_exact(&self, facts: &Metadata) -> Result<(), RuleBreach> {
        self.check(facts)?;
        let got = facts.mode() & PERMISSIONS;
        if got == self.mode { Ok(()) } else { Err(RuleBreach::Mode { want: self.mode, got }) }
    }
}

impl FileRules {
    pub(crate) fn check(&self, facts: &Metadata) -> Result<(), RuleBreach> {
        check_regular(facts.mode())?;
        // None is fine: it was replaced after we opened it, and is the whole former version.
        if facts.nlink() > 1 {
            return Err(RuleBreach::Links { links: facts.nlink() });
        }
        self.owner.check(facts.uid())?;
        check_mode(self.mode, facts.mode())
    }
}

/// Refuses all but a regular file, by `st_mode`.
pub(crate) fn check_regular(mode: u32) -> Result<(), RuleBreach> {
    check_kind("regular file", SFlag::S_IFREG, mode)
}

fn check_kind(want: &'static str, flag: SFlag, mode: u32) -> Result<(), RuleBreach> {
    let kind = SFlag::from_bits_truncate(mode & SFlag::S_IFMT.bits());
    if kind == flag { Ok(()) } else { Err(RuleBreach::Kind { want, got: kind_name(kind) }) }
}

fn check_mode(want: u32, mode: u32) -> Result<(), RuleBreach> {
    let got = mode & PERMISSIONS;
    if got & !want == 0 { Ok(()) } else { Err(RuleBreach::Mode { want, got }) }
}

/// The plain word for a kind of file.
fn kind_name(kind: SFlag) -> &'static str {
    match kind {
        SFlag::S_IFREG => "regular file",
        SFlag::S_IFDIR => "directory",
        SFlag::S_IFLNK => "symbolic link",
        SFlag::S_IFIFO => "FIFO",
        SFlag::S_IFSOCK => "socket",
        SFlag::S_IFCHR => "character device",
        SFlag::S_IFBLK => "block device",
        _ => "file of unknown kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_may_be_narrower_never_wider() {
        for (want, got, fine) in [
            (0o600, 0o600, true),
            (0o600, 0o400, true),
            (0o640, 0o600, true),
            (0o600, 0o640, false),
            (0o600, 0o604, false),
            (0o600, 0o4600, false),
            (0o700, 0o2700, false),
            (0o2750, 0o750, true),
            (0o2750, 0o2770, false),
        ] {
            assert_eq!(check_mode(want, 0o100_000 | got).is_ok(), fine, "{want:o} {got:o}");
        }
    }

    // spec: DU-240
    #[test]
    fn whose_it_is_may_be_roots_only_where_that_is_said_and_no_cure_names_the_caller() {
        let us = nix::unistd::geteuid().as_raw();
        let (one, other) = (us + 1000, us + 2000);
        assert_eq!(Owner::RootOr(one).check(0), Ok(()));
        assert_eq!(Owner::RootOr(one).check(one), Ok(()));
        assert_eq!(Owner::RootOr(one).check(other), Err(RuleBreach::NotRoots { want: one, got: other }));
        assert_eq!(Owner::Uid(one).check(one), Ok(()));
        assert_eq!(Owner::Uid(one).check(other), Err(RuleBreach::Owner { want: one, got: other }));
        assert_eq!(Owner::Us.check(us), Ok(()));
        let breach = Owner::Us.check(other).unwrap_err();
        assert_eq!(breach, RuleBreach::NotOurs { us, got: other });
        assert!(!breach.to_string().contains("chown"));
    }

    #[test]
    fn each_kind_has_its_word() {
        let kinds = [0o100_000, 0o040_000, 0o120_000, 0o010_000, 0o140_000, 0o020_000, 0o060_000, 0];
        let words = kinds.map(|bits| kind_name(SFlag::from_bits_truncate(bits)));
        assert_eq!(words.iter().collect::<std::collections::BTreeSet<_>>().len(), kinds.len(), "{words:?}");
    }
}
