//! The one-time challenge a server hands out, and the exact text a node signs over it.
//!
//! Design.md I1, I2: nothing is stored when a challenge is issued. What makes one genuine is the
//! controller's secret; this module has the shapes alone.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::base::ids::{NodeId, is_uuid, uuid_text};
use crate::base::json;
use crate::base::limits::JSON_DEPTH_MAX;
use crate::base::time::UnixTime;
use crate::checked_text;

/// First line of every signed text: the protocol and its version.
pub const SIGNED_TEXT_HEAD: &str = "lucia-discovery-v1";
/// Header in which an answer carries the next challenge.
pub const NEXT_CHALLENGE_HEADER: &str = "Lucia-Challenge";
/// Longest value of that header: 300 characters in truth.
const NEXT_CHALLENGE_MAX: usize = 1024;

checked_text! {
    /// A challenge: a UUID version 7, so that its time is part of it (RFC 9562, section 5.7).
    ChallengeId, BadChallengeId, "a challenge id: a lower-case UUID version 7",
    |text| is_uuid(text) && text.as_bytes().get(14) == Some(&b'7')
        && matches!(text.as_bytes().get(19), Some(b'8' | b'9' | b'a' | b'b'))
}

checked_text! {
    /// What makes a challenge unpredictable: 32 bytes in 44 base64 characters.
    Nonce, BadNonce, "a nonce: 32 bytes in base64",
    |text| text.len() == 44 && STANDARD.decode(text).is_ok_and(|bytes| bytes.len() == 32)
}

impl ChallengeId {
    /// The id made at `millis` since 1970 (48 bits of it) with these other 74 bits of `rest`.
    #[must_use]
    pub fn from_parts(millis: u64, rest: u128) -> Self {
        let high = u128::from(millis & 0xffff_ffff_ffff) << 80;
        // The 74 free bits lie on both sides of the variant: 12 above it, 62 below.
        let value = high | (((rest >> 62) & 0xfff) << 64) | (rest & 0x3fff_ffff_ffff_ffff);
        Self(uuid_text(value.to_be_bytes(), 7))
    }

    /// When it was made, in milliseconds since 1970, and its other 74 bits.
    #[must_use]
    pub fn parts(&self) -> (u64, u128) {
        let value =
            self.0.bytes().filter_map(|b| (b as char).to_digit(16)).fold(0u128, |v, d| (v << 4) | u128::from(d));
        let millis = u64::try_from(value >> 80).unwrap_or(u64::MAX);
        (millis, (((value >> 64) & 0xfff) << 62) | (value & 0x3fff_ffff_ffff_ffff))
    }
}

impl Nonce {
    /// The nonce these bytes are.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(STANDARD.encode(bytes))
    }
}

/// What a challenge is for: first contact, one device or node, or owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Discovery, before there is an id.
    Boot,
    /// Every call of this device or node.
    Node(NodeId),
    /// A request of an owner.
    Owner,
}

impl Scope {
    /// The text that enters the challenge.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Boot => "boot",
            Self::Node(id) => id.as_str(),
            Self::Owner => "owner",
        }
    }
}

/// `GET .../challenge`: what to sign over, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Challenge {
    /// Names the challenge in the proof.
    pub challenge_id: ChallengeId,
    /// Is signed and never sent back.
    pub nonce: Nonce,
    /// When it is refused at the latest, by the server's clock.
    pub expires_at: UnixTime,
}

/// The value of the `Lucia-Challenge` header: the next challenge and the server's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NextChallenge {
    /// Names the challenge in the proof.
    pub challenge_id: ChallengeId,
    /// Is signed and never sent back.
    pub nonce: Nonce,
    /// When it is refused at the latest, by the server's clock.
    pub expires_at: UnixTime,
    /// The server's clock when it answered (design.md I6).
    pub server_time: UnixTime,
}

/// The header is not a next challenge.
#[derive(Debug, Error)]
#[error("not a next challenge: base64url of a challenge with the server's time")]
pub struct BadNextChallenge;

impl NextChallenge {
    /// The header's value.
    #[must_use]
    pub fn to_header(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads the header's value.
    ///
    /// # Errors
    /// When it is anything else, or over 1024 characters.
    pub fn from_header(value: &str) -> Result<Self, BadNextChallenge> {
        if value.len() > NEXT_CHALLENGE_MAX {
            return Err(BadNextChallenge);
        }
        let bytes = URL_SAFE_NO_PAD.decode(value).map_err(|_| BadNextChallenge)?;
        json::from_slice(&bytes, NEXT_CHALLENGE_MAX, JSON_DEPTH_MAX).map_err(|_| BadNextChallenge)
    }

    /// The challenge without the clock.
    #[must_use]
    pub fn challenge(self) -> Challenge {
        Challenge { challenge_id: self.challenge_id, nonce: self.nonce, expires_at: self.expires_at }
    }
}

/// The bytes a node signs.
#[must_use]
pub fn signed_text(id: &ChallengeId, nonce: &Nonce, report_json: &str) -> Vec<u8> {
    framed(SIGNED_TEXT_HEAD, id, nonce, report_json)
}

/// Text over a challenge, under the head of who signs. Neither id nor nonce can hold a line end, so the frame cannot
/// shift.
pub(crate) fn framed(head: &str, id: &ChallengeId, nonce: &Nonce, json: &str) -> Vec<u8> {
    [head, id.as_str(), nonce.as_str(), json].join("\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: CH-1
    #[test]
    fn s_9_no_id_or_nonce_can_shift_the_frame() {
        let id = ChallengeId::from_parts(1, 2);
        for bad in
            [format!("{id}\n"), format!("\n{}", &id.as_str()[1..]), id.as_str().to_uppercase() + "A", String::new()]
        {
            assert!(bad.parse::<ChallengeId>().is_err(), "{bad:?}");
        }
        // Version 4, and a wrong variant.
        assert!("00000000-0001-4000-8000-000000000000".parse::<ChallengeId>().is_err());
        assert!("00000000-0001-7000-0000-000000000000".parse::<ChallengeId>().is_err());
        let nonce = Nonce::from_bytes(&[5; 32]);
        for bad in [
            format!("{nonce}\n"),
            nonce.as_str().replace('=', "\n"),
            STANDARD.encode([5; 31]),
            STANDARD.encode([5; 33]),
        ] {
            assert!(bad.parse::<Nonce>().is_err(), "{bad:?}");
        }
        let text = signed_text(&id, &nonce, "{}");
        assert_eq!(String::from_utf8(text).unwrap(), format!("lucia-discovery-v1\n{id}\n{nonce}\n{{}}"));
    }

    #[test]
    fn an_id_holds_its_time_and_74_bits() {
        for (millis, rest) in
            [(0, 0), (1_795_982_400_123, 0x3ff_ffff_ffff_ffff_ffff), (0xffff_ffff_ffff, 0x155_5555_5555_5555_5555)]
        {
            let id = ChallengeId::from_parts(millis, rest);
            assert_eq!(id.parts(), (millis, rest), "{id}");
            assert_eq!(id.as_str().parse(), Ok(id));
        }
    }

    #[test]
    fn the_header_carries_challenge_and_clock() {
        let next = NextChallenge {
            challenge_id: ChallengeId::from_parts(1, 2),
            nonce: Nonce::from_bytes(&[5; 32]),
            expires_at: UnixTime::from_secs(120),
            server_time: UnixTime::from_secs(0),
        };
        assert_eq!(NextChallenge::from_header(&next.to_header()).unwrap(), next);
        for bad in ["", "!!", "e30", &"A".repeat(2000)] {
            assert!(NextChallenge::from_header(bad).is_err(), "{bad:?}");
        }
    }
}
