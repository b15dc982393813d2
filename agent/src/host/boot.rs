//! Which boot of which machine this is, and under which name.

use std::path::Path;

pub use lucia_proto::base::ids::BootId;
use lucia_proto::checked_text;

use super::failed::{Failed, OrFailed as _};
use super::root::Root;

/// Longest of these files: they hold one line.
const MAX: u64 = 4096;

checked_text! {
    /// One installation (machine-id(5)).
    MachineId, BadMachineId, "a machine id: 32 lower-case hex digits, not all zero",
    |text| text.len() == 32
        && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        && text.bytes().any(|b| b != b'0')
}

impl MachineId {
    /// A machine id of these random bytes, in the form of a UUID version 4 without hyphens, as systemd makes them.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        let value = u128::from_be_bytes(bytes);
        let value = (value & !(0xf << 76) & !(0b11 << 62)) | (4 << 76) | (0b10 << 62);
        Self(format!("{value:032x}"))
    }
}

/// The present boot's id.
///
/// # Errors
/// The kernel does not say one.
pub fn boot_id(root: &Root) -> Result<BootId, Failed> {
    parse(&root.boot_id())
}

/// The machine id.
///
/// # Errors
/// There is none, or it is empty or `uninitialized`.
pub fn machine_id(root: &Root) -> Result<MachineId, Failed> {
    parse(&root.machine_id())
}

/// What `/etc/hostname` says: its first line that is no comment, as it is.
///
/// # Errors
/// It cannot be read.
pub fn hostname(root: &Root) -> Result<String, Failed> {
    let text = read(&root.hostname())?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(line.unwrap_or_default().to_owned())
}

fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(path: &Path) -> Result<T, Failed> {
    let text = read(path)?;
    text.trim().parse().map_err(|expected| {
        let found: String = text.trim().chars().take(64).collect();
        Failed::new(format!("{} holds {found:?}, where there should be {expected}", path.display()))
    })
}

fn read(path: &Path) -> Result<String, Failed> {
    super::read_text(path, MAX).or_failed(format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_one_form() {
        for bad in ["", "uninitialized", "00000000000000000000000000000000", "0f0f"] {
            assert!(bad.parse::<MachineId>().is_err(), "{bad:?}");
        }
        assert_eq!(MachineId::from_random([0xff; 16]).as_str(), "ffffffffffff4fffbfffffffffffffff");
        assert!(MachineId::from_random([0; 16]).as_str().parse::<MachineId>().is_ok());
    }

    #[test]
    fn a_hostname_file_may_hold_comments() {
        let dir = std::env::temp_dir().join(format!("lucia-agent-boot-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("etc")).unwrap();
        let root = Root::at(&dir);
        std::fs::write(root.hostname(), "# set by Lucia\n\n n1 \n").unwrap();
        assert_eq!(hostname(&root).unwrap(), "n1");
        std::fs::write(root.machine_id(), "uninitialized\n").unwrap();
        assert!(machine_id(&root).is_err());
        assert!(boot_id(&root).is_err());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
