//! PEM as strictly as RFC 7468 allows: one label, LF line ends, 64 columns, nothing before, between or after.
//!
//! A text is taken only if encoding what it decodes to gives the same text back (one final line end
//! may be missing). So two readers can never see two things in one text (threats.md C-1, C-2).

use thiserror::Error;
use x509_cert::der::pem::{self, LineEnding};

/// Why a text is not the PEM that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PemError {
    /// Longer than the limit.
    #[error("longer than {max} characters")]
    TooLong {
        /// The limit in characters.
        max: usize,
    },
    /// Not the strict form.
    #[error("not strict PEM of type {label}")]
    NotPem {
        /// The label that was expected.
        label: &'static str,
    },
    /// Fewer or more blocks than allowed.
    #[error("{count} PEM blocks where 1 to {max} are allowed")]
    Count {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
}

/// The DER of the one block in `text`.
///
/// # Errors
/// When the text is longer than `max` or is not exactly one strict block of type `label`.
pub fn one(text: &str, label: &'static str, max: usize) -> Result<Vec<u8>, PemError> {
    let mut blocks = many(text, label, max, 1)?;
    blocks.pop().ok_or(PemError::Count { count: 0, max: 1 })
}

/// The DER of each of the 1 to `max_blocks` blocks in `text`, in their order.
///
/// # Errors
/// When the text is longer than `max` or is not strict blocks of type `label`, one after the other.
pub fn many(text: &str, label: &'static str, max: usize, max_blocks: usize) -> Result<Vec<Vec<u8>>, PemError> {
    if text.len() > max {
        return Err(PemError::TooLong { max });
    }
    let end = format!("-----END {label}-----");
    let count = text.matches(end.as_str()).count();
    if count > max_blocks {
        return Err(PemError::Count { count, max: max_blocks });
    }
    let mut out = Vec::with_capacity(count);
    let mut rest = text;
    while !rest.is_empty() {
        let stop = rest.find(end.as_str()).ok_or(PemError::NotPem { label })? + end.len();
        let (block, after) = rest.split_at_checked(stop).ok_or(PemError::NotPem { label })?;
        let (found, der) = pem::decode_vec(block.as_bytes()).map_err(|_| PemError::NotPem { label })?;
        if found != label || encode(&der, label).trim_end() != block {
            return Err(PemError::NotPem { label });
        }
        out.push(der);
        rest = match after.strip_prefix('\n') {
            Some(after) => after,
            None if after.is_empty() => after,
            None => return Err(PemError::NotPem { label }),
        };
    }
    if out.is_empty() { Err(PemError::Count { count: 0, max: max_blocks }) } else { Ok(out) }
}

/// `der` as one strict block, with a final line end.
#[must_use]
pub fn encode(der: &[u8], label: &'static str) -> String {
    // Encoding into a growing string fails for malformed labels alone, and labels are constants here.
    pem::encode_string(label, LineEnding::LF, der).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: &str = "PUBLIC KEY";

    // spec: CE-1
    #[test]
    fn only_the_strict_form_is_taken() {
        let block = encode(&[7; 100], LABEL);
        assert_eq!(one(&block, LABEL, 1000), Ok(vec![7; 100]));
        assert_eq!(one(block.trim_end(), LABEL, 1000), Ok(vec![7; 100]));
        assert_eq!(many(&format!("{block}{block}"), LABEL, 1000, 2).map(|blocks| blocks.len()), Ok(2));
        for (name, text) in [
            ("empty", String::new()),
            ("text before", format!("hello\n{block}")),
            ("text after", format!("{block}hello")),
            ("empty line after", format!("{block}\n")),
            ("two blocks", format!("{block}{block}")),
            ("CRLF", block.replace('\n', "\r\n")),
            ("other label", block.replace("PUBLIC", "PRIVATE")),
            ("one long line", block.replacen('\n', "", 2)),
            ("leading space", format!(" {block}")),
            ("trailing space", block.replacen("-----\n", "----- \n", 1)),
            ("cut", block.get(..80).unwrap_or_default().to_owned()),
            ("not base64", block.replace("Bw", "!!")),
        ] {
            assert!(one(&text, LABEL, 1000).is_err(), "{name}");
        }
        assert_eq!(one(&block, LABEL, block.len() - 1), Err(PemError::TooLong { max: block.len() - 1 }));
        assert_eq!(one(&block, LABEL, block.len()), Ok(vec![7; 100]));
    }
}
