//! The fingerprint of a machine's key, as somebody reads it from that machine's own screen and types it here.

use lucia_proto::pki::key::Fingerprint;

use crate::problem::{FAILED, Failure, USAGE, problems};
use crate::tell;

/// Hex digits of a fingerprint.
const FINGERPRINT_DIGITS: usize = 64;

problems! {
    /// Why there is no fingerprint to go by.
    pub(crate) enum FingerprintError {
        Malformed = "fingerprint_invalid", FAILED, ["that is no fingerprint: it is 64 hex digits, in two rows; nothing was done"];
        Missing = "", USAGE, ["the whole fingerprint is needed, as the machine's own screen shows it"],
            ["give --fingerprint HEX, or run it on a terminal to type it on"];
        Other(given: Fingerprint, found: Fingerprint) = "fingerprint_mismatch", FAILED,
            ["the fingerprint is not this device's, so nothing was approved.\n  given       {}\n              {}\n  device has  {}\n              {}",
             given.rows()[0], given.rows()[1], found.rows()[0], found.rows()[1]],
            ["Look at the machine's own screen: if it shows the given one, another machine pretends to be it."];
    }
}

/// As a person types or pastes it: upper or lower case, in one row or two, with colons or spaces between.
pub(crate) fn parse(text: &str) -> Result<Fingerprint, String> {
    Fingerprint::typed(&digits(text))
        .map_err(|_| "a fingerprint is 64 hex digits, as the two rows show them".to_owned())
}

/// What is typed without what stands between the digits.
fn digits(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !matches!(c, ':' | '-')).collect()
}

/// Has the fingerprint typed that the machine's own screen shows, where it was not given. Nothing that could be copied is
/// shown before.
pub(crate) fn typed(given: Option<Fingerprint>, yes: bool) -> Result<Fingerprint, Failure> {
    if let Some(given) = given {
        return Ok(given);
    }
    let question = "The whole fingerprint, as the machine's own screen shows it: ";
    let mut text = tell::typed(question, yes)?.ok_or(FingerprintError::Missing)?;
    // It is shown in two rows, and who types them so types two lines.
    if digits(&text).len() == FINGERPRINT_DIGITS / 2 {
        text.extend(tell::typed("Its second row: ", yes)?);
    }
    parse(&text).map_err(|_| FingerprintError::Malformed.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: LC-97
    #[test]
    fn a_fingerprint_is_taken_as_it_was_shown() {
        let key: Fingerprint = "1a2b3c4d5e6f00000000000000000000ffffffffffffffffffffffffffffffff".parse().unwrap();
        let [first, second] = key.rows();
        for text in [
            key.to_string(),
            key.to_string().to_uppercase(),
            format!("{first}\n{second}\n"),
            format!("  {first}\r\n      {second}"),
            format!("{first} {second}").replace(' ', ":"),
        ] {
            assert_eq!(parse(&text), Ok(key), "{text}");
        }
        for bad in ["", "1a2b", first.as_str(), &format!("{first} {second} 0")] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
