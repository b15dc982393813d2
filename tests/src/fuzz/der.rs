//! Just enough DER to take a signed thing apart and sign it again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lucia_proto::pki::key::NodeKey;

/// One element: with its header, without it, and what follows.
pub(super) struct Element<'a> {
    pub(super) whole: &'a [u8],
    pub(super) content: &'a [u8],
    pub(super) rest: &'a [u8],
}

/// The first element of these bytes, if it is whole.
pub(super) fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let first = usize::from(*bytes.get(1)?);
    let (header, length) = match first {
        0..=0x7f => (2, first),
        0x81..=0x83 => {
            let digits = bytes.get(2..2 + (first - 0x80))?;
            (2 + digits.len(), digits.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
        }
        _ => return None,
    };
    let whole = bytes.get(..header + length)?;
    Some(Element { whole, content: whole.get(header..)?, rest: bytes.get(header + length..)? })
}

/// The elements one after the other, as far as they are whole, at most nine.
pub(super) fn elements(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some(element) = element(bytes)
        && found.len() < 9
    {
        found.push(element.whole);
        bytes = element.rest;
    }
    found
}

fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len();
    let mut out = vec![tag];
    let digits = u32::try_from(length).unwrap().to_be_bytes();
    match length {
        0..=0x7f => out.push(digits[3]),
        0x80..=0xff => out.extend([0x81, digits[3]]),
        0x100..=0xffff => out.extend([0x82, digits[2], digits[3]]),
        _ => out.extend([0x83, digits[1], digits[2], digits[3]]),
    }
    out.extend(content);
    out
}

/// ecdsa-with-SHA256.
const ALGORITHM: &[u8] = &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

/// The same certificate or request, of whatever content, signed by this key.
pub(super) fn sign_again(signed: &[u8], key: &NodeKey) -> Option<Vec<u8>> {
    let info = element(element(signed)?.content)?.whole;
    let signature = tlv(3, &[&[0], &key.sign_der(info)]);
    Some(tlv(0x30, &[info, ALGORITHM, &signature]))
}

/// One PEM block, as our programs write it.
pub(super) fn pem(der: &[u8], label: &str) -> String {
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in STANDARD.encode(der).as_bytes().chunks(64) {
        out.push_str(std::str::from_utf8(line).unwrap());
        out.push('\n');
    }
    out + &format!("-----END {label}-----\n")
}
