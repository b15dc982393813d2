//! The escapes of a string.

/// Undoes the escapes of a scanned string; `None` cannot happen for one.
pub(super) fn unescape(raw: &str) -> Option<String> {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.bytes().position(|byte| byte == b'\\') {
        out.push_str(rest.get(..at)?);
        let kind = *rest.as_bytes().get(at + 1)?;
        rest = rest.get(at + 2..)?;
        match kind {
            b'u' => {
                let high = u16::from_str_radix(rest.get(..4)?, 16).ok()?;
                rest = rest.get(4..)?;
                let low = match high {
                    0xd800..0xdc00 => {
                        let low = u16::from_str_radix(rest.get(2..6)?, 16).ok()?;
                        rest = rest.get(6..)?;
                        Some(low)
                    }
                    _ => None,
                };
                for scalar in char::decode_utf16([high].into_iter().chain(low)) {
                    out.push(scalar.ok()?);
                }
            }
            b'n' => out.push('\n'),
            b't' => out.push('\t'),
            other => out.push(char::from(other)),
        }
    }
    out.push_str(rest);
    Some(out)
}
