//! The little DER that templates are made of: writing whole values, and splitting one into its parts without
//! reading them. What is compared whole (CSRs, subjects, extensions) is compared as these bytes.

use x509_cert::der::{Decode, Error, Reader, SliceReader, asn1::AnyRef};

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const UTF8_STRING: u8 = 0x0c;
pub(crate) const PRINTABLE_STRING: u8 = 0x13;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
/// `[0]` constructed: a CSR's attributes.
pub(crate) const CONTEXT_0: u8 = 0xa0;
/// `[2]` primitive: a dNSName among general names.
pub(crate) const DNS_NAME: u8 = 0x82;
/// `[7]` primitive: an iPAddress among general names.
pub(crate) const IP_ADDRESS: u8 = 0x87;

/// 2.5.4.3
pub(crate) const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.29.17
pub(crate) const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// 2.5.29.19
pub(crate) const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
/// 2.5.29.15
pub(crate) const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
/// 2.5.29.37
pub(crate) const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// 2.5.29.30
pub(crate) const NAME_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x1e];
/// 1.3.6.1.5.5.7.3.1
pub(crate) const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
/// 1.3.6.1.5.5.7.3.2
pub(crate) const CLIENT_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];
/// 1.2.840.113549.1.9.14
pub(crate) const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
/// 1.2.840.10045.4.3.2
pub(crate) const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

/// One value: tag, shortest length, content.
pub(crate) fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len().to_be_bytes();
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let significant: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
            out.push(0x80 | u8::try_from(significant.len()).unwrap_or(0x7f));
            out.extend(significant);
        }
    }
    out.extend_from_slice(content);
    out
}

/// A value made of the parts, in the order given.
pub(crate) fn constructed(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    tlv(tag, &parts.concat())
}

/// A SEQUENCE of the parts.
pub(crate) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    constructed(SEQUENCE, parts)
}

/// A BIT STRING of whole bytes.
pub(crate) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    constructed(BIT_STRING, &[&[0], bytes])
}

/// A name of one RDN of one attribute: the common name, as the string type of `tag`.
pub(crate) fn common_name(tag: u8, text: &str) -> Vec<u8> {
    let pair = sequence(&[&tlv(OID, COMMON_NAME), &tlv(tag, text.as_bytes())]);
    sequence(&[&constructed(SET, &[&pair])])
}

/// The algorithm ecdsa-with-SHA256, which has no parameters.
pub(crate) fn ecdsa_with_sha256() -> Vec<u8> {
    sequence(&[&tlv(OID, ECDSA_WITH_SHA256)])
}

/// One extension. `critical` is left out when false, as its default must be.
pub(crate) fn extension(oid: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let flag = if critical { tlv(BOOLEAN, &[0xff]) } else { Vec::new() };
    sequence(&[&tlv(OID, oid), &flag, &tlv(OCTET_STRING, value)])
}

/// The parts directly inside one value that has nothing after it, each with its tag and length.
///
/// Only the shortest definite lengths are read; what the parts hold is not looked at.
pub(crate) fn parts(whole: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let mut reader = SliceReader::new(AnyRef::from_der(whole)?.value())?;
    let mut parts = Vec::new();
    while !reader.is_finished() {
        parts.push(reader.tlv_bytes()?);
    }
    Ok(parts)
}

/// The content of one value that has nothing after it, if it has this tag.
pub(crate) fn content(tag: u8, whole: &[u8]) -> Option<&[u8]> {
    let value = AnyRef::from_der(whole).ok()?.value();
    (whole.first() == Some(&tag)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_the_shortest() {
        for (length, head) in
            [(0, vec![4, 0]), (127, vec![4, 127]), (128, vec![4, 0x81, 128]), (256, vec![4, 0x82, 1, 0])]
        {
            let bytes = tlv(OCTET_STRING, &vec![7; length]);
            assert_eq!(bytes[..head.len()], head);
            assert_eq!(bytes.len(), head.len() + length);
        }
    }

    #[test]
    fn a_value_splits_into_the_parts_it_was_made_of() {
        let (a, b) = (tlv(INTEGER, &[1]), tlv(OID, COMMON_NAME));
        assert_eq!(parts(&sequence(&[&a, &b])).unwrap(), [a.as_slice(), b.as_slice()]);
    }

    #[test]
    fn other_lengths_and_trailing_bytes_are_refused() {
        for (name, bytes) in [
            ("long form of a short length", &[0x30, 0x81, 0x02, 0x05, 0x00][..]),
            ("indefinite length", &[0x30, 0x80, 0x05, 0x00, 0x00, 0x00]),
            ("trailing byte", &[0x30, 0x02, 0x05, 0x00, 0x00]),
            ("cut short", &[0x30, 0x03, 0x05, 0x00]),
            ("inner cut short", &[0x30, 0x02, 0x05, 0x01]),
            ("empty", &[]),
        ] {
            assert!(parts(bytes).is_err(), "{name}");
        }
    }
}
