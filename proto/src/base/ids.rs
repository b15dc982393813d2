//! Identifiers: each is a type of its own, and holding one is proof that it was checked.

use crate::checked_text;

/// Length of a node id in hex digits: the first half of a fingerprint.
const NODE_ID_LEN: usize = 32;

/// Whether `text` is made of lower-case hex digits only.
pub(crate) fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether `text` is a UUID in its one text form: 36 characters, lower case, hyphens in place.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            _ => matches!(b, b'0'..=b'9' | b'a'..=b'f'),
        })
}

checked_text! {
    /// A node: the first 32 lower-case hex digits of its key's fingerprint. A device's id is the same
    /// value, since a device becomes a node without changing its key.
    NodeId, BadNodeId, "a node id: 32 lower-case hex digits",
    |text| text.len() == NODE_ID_LEN && is_lower_hex(text)
}

checked_text! {
    /// One approved installation.
    TaskId, BadTaskId, "a task id: a lower-case UUID", is_uuid
}

checked_text! {
    /// What a device names its request for a grant by, so that asking twice is asking once.
    RequestId, BadRequestId, "a request id: a lower-case UUID", is_uuid
}

checked_text! {
    /// One start of an agent, drawn by itself (design.md I8).
    StartId, BadStartId, "a start id: 32 lower-case hex digits",
    |text| text.len() == 32 && is_lower_hex(text)
}

checked_text! {
    /// One boot: a new random UUID each time the kernel starts.
    BootId, BadBootId, "a boot id: a lower-case UUID", is_uuid
}

impl StartId {
    /// A start id of these random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(format!("{:032x}", u128::from_be_bytes(bytes)))
    }
}

impl TaskId {
    /// A task id of these random bytes, in the form of a UUID version 4.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(uuid_text(bytes, 4))
    }
}

impl RequestId {
    /// A request id of these random bytes, in the form of a UUID version 4.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(uuid_text(bytes, 4))
    }
}

/// The text form of a UUID with version and variant set (RFC 9562, section 4).
pub(crate) fn uuid_text(bytes: [u8; 16], version: u8) -> String {
    let value = u128::from_be_bytes(bytes);
    let value = (value & !(0xf << 76) & !(0b11 << 62)) | (u128::from(version & 0xf) << 76) | (0b10 << 62);
    let hex = format!("{value:032x}");
    let mut out = String::with_capacity(36);
    for (at, c) in hex.chars().enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            out.push('-');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: ID-1
    #[test]
    fn a_node_id_is_32_lower_case_hex_digits() {
        for (text, ok) in [
            ("0123456789abcdef0123456789abcdef", true),
            ("0123456789ABCDEF0123456789abcdef", false),
            ("0123456789abcdef0123456789abcde", false),
            ("0123456789abcdef0123456789abcdef0", false),
            ("0123456789abcdef0123456789abcdeg", false),
            ("../../../../../../../../../../..", false),
            ("", false),
        ] {
            assert_eq!(text.parse::<NodeId>().is_ok(), ok, "{text:?}");
        }
    }

    #[test]
    fn a_start_id_is_its_random_bytes() {
        assert_eq!(StartId::from_random([0; 16]).as_str(), "0".repeat(32));
        assert!(StartId::from_random([0xff; 16]).as_str().parse::<StartId>().is_ok());
        for bad in ["", "0f", &"0".repeat(33), &"F".repeat(32), "00000000-0000-4000-8000-000000000000"] {
            assert!(bad.parse::<StartId>().is_err(), "{bad:?}");
        }
        assert!("0f0f0f0f-0000-4000-8000-000000000000".parse::<BootId>().is_ok());
        assert!("0F0f0f0f-0000-4000-8000-000000000000".parse::<BootId>().is_err());
    }

    #[test]
    fn uuids_carry_their_version_and_variant() {
        let zero = TaskId::from_random([0; 16]);
        assert_eq!(zero.as_str(), "00000000-0000-4000-8000-000000000000");
        let ones = RequestId::from_random([0xff; 16]);
        assert_eq!(ones.as_str(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        for bad in ["", "00000000-0000-4000-8000-00000000000G", "00000000-0000-4000-8000-0000000000001"] {
            assert!(bad.parse::<TaskId>().is_err(), "{bad:?}");
        }
        assert!("00000000-0000-4000-8000-00000000000A".parse::<TaskId>().is_err());
        assert!("000000000-000-4000-8000-000000000000".parse::<TaskId>().is_err());
    }
}
