//! How the machine started and what its firmware calls it: `/sys/firmware/efi` and `/sys/class/dmi/id`.
//!
//! Virtual machines and containers often have no DMI at all; then all of it is absent.

use lucia_proto::base::bounded::Text;
use lucia_proto::node::inventory::{BootMode, HardwareText};

use super::read;
use crate::host::root::Root;

/// The variable that says whether UEFI checks what it starts (UEFI specification, section 3.3).
const SECURE_BOOT: &str = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

/// What makers leave in a field that they were to fill, in lower case.
const PLACEHOLDERS: &[&str] = &[
    "0123456789",
    "123456789",
    "1234567890",
    "chassis serial number",
    "default string",
    "empty",
    "invalid",
    "n/a",
    "na",
    "no asset information",
    "none",
    "not applicable",
    "not available",
    "not specified",
    "null",
    "o.e.m.",
    "oem",
    "system manufacturer",
    "system product name",
    "system serial number",
    "to be filled by o.e.m",
    "to be filled by o.e.m.",
    "type1productconfigid",
    "undefined",
    "unknown",
];

/// What the firmware says.
#[derive(Debug, PartialEq)]
pub(super) struct Firmware {
    pub(super) boot_mode: BootMode,
    pub(super) secure_boot: Option<bool>,
    pub(super) manufacturer: Option<HardwareText>,
    pub(super) model: Option<HardwareText>,
    pub(super) serial_number: Option<HardwareText>,
    pub(super) hardware_uuid: Option<Text<1, 64>>,
}

pub(super) fn gather(root: &Root) -> Firmware {
    let uefi = root.join("sys/firmware/efi").is_dir();
    let dmi = root.join("sys/class/dmi/id");
    let attribute = |name: &str| read::attribute(&dmi.join(name)).as_deref().and_then(told);
    // A machine that somebody put together is named by its board.
    let either = |machine: &str, board: &str| attribute(machine).or_else(|| attribute(board));
    Firmware {
        boot_mode: if uefi { BootMode::Uefi } else { BootMode::Bios },
        secure_boot: if uefi { secure_boot(root) } else { None },
        manufacturer: either("sys_vendor", "board_vendor"),
        model: either("product_name", "board_name"),
        serial_number: either("product_serial", "board_serial"),
        hardware_uuid: read::attribute(&dmi.join("product_uuid")).as_deref().and_then(uuid),
    }
}

/// Four bytes of attributes, then 0 or 1.
fn secure_boot(root: &Root) -> Option<bool> {
    match read::bytes(&root.join(SECURE_BOOT), 64)?.as_slice() {
        [_, _, _, _, 0] => Some(false),
        [_, _, _, _, 1] => Some(true),
        _ => None,
    }
}

/// The text, unless it is what stands there when nobody wrote one.
fn told(text: &str) -> Option<HardwareText> {
    let clean = read::clean(text)?;
    let plain = clean.as_str().to_ascii_lowercase();
    let filler = plain.chars().all(|c| matches!(c, '0' | '.' | '-' | '_' | ' '))
        || plain.chars().all(|c| matches!(c, 'x' | ' '))
        || plain.chars().all(|c| matches!(c, 'f' | ' '));
    (!filler && !PLACEHOLDERS.contains(&plain.as_str())).then_some(clean)
}

/// A UUID in lower case that is not all zeros or ones.
fn uuid(text: &str) -> Option<Text<1, 64>> {
    let text = text.to_ascii_lowercase();
    let form = text.len() == 36
        && text.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            _ => matches!(b, b'0'..=b'9' | b'a'..=b'f'),
        });
    let same = |digit: char| text.chars().all(|c| c == '-' || c == digit);
    if form && !same('0') && !same('f') { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;

    // spec: AG-66
    #[test]
    fn what_nobody_filled_in_is_absent() {
        for (text, told_) in [
            ("PowerEdge R650", true),
            ("To Be Filled By O.E.M.", false),
            ("Default string", false),
            ("0000 0000", false),
            ("..........", false),
            ("\u{1b}\u{7}", false),
            ("FFFF", false),
            ("7XK9F3", true),
        ] {
            assert_eq!(told(text).is_some(), told_, "{text:?}");
        }
        assert_eq!(
            uuid("4C4C4544-0058-4B10-8039-B7C04F46F333").unwrap().as_str(),
            "4c4c4544-0058-4b10-8039-b7c04f46f333"
        );
        for bad in
            ["00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "x", "", "Not Settable"]
        {
            assert_eq!(uuid(bad), None, "{bad:?}");
        }
    }

    // spec: AG-66
    #[test]
    fn secure_boot_is_told_or_unknown() {
        for (bytes, want) in [
            (Some(&[6, 0, 0, 0, 1][..]), Some(true)),
            (Some(&[6, 0, 0, 0, 0]), Some(false)),
            (Some(&[6, 0, 0, 0, 2]), None),
            (Some(&[6, 0, 0, 0]), None),
            (Some(&[6, 0, 0, 0, 1, 1]), None),
            (None, None),
        ] {
            let scratch = Scratch::new();
            scratch.put("sys/firmware/efi/fw_platform_size", "64\n");
            if let Some(bytes) = bytes {
                scratch.put(SECURE_BOOT, "");
                std::fs::write(scratch.root().join(SECURE_BOOT), bytes).unwrap();
            }
            let firmware = gather(&scratch.root());
            assert_eq!((firmware.boot_mode, firmware.secure_boot), (BootMode::Uefi, want), "{bytes:?}");
        }
        let bios = gather(&Scratch::new().root());
        assert_eq!((bios.boot_mode, bios.secure_boot, bios.manufacturer), (BootMode::Bios, None, None));
    }
}
