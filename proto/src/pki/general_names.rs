//! The value of a subjectAltName extension (RFC 5280, 4.2.1.6), always written whole and compared whole.

use crate::base::der::{DNS_NAME, SEQUENCE, tlv};

/// One dNSName.
pub(crate) fn one_dns(name: &str) -> Vec<u8> {
    tlv(SEQUENCE, &tlv(DNS_NAME, name.as_bytes()))
}
