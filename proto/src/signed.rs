//! Bytes and a signature over them, as bundle and answer travel: `{"payload": base64, "signature": base64}`.
//!
//! The payload is kept as the very bytes that were signed; nothing is parsed from a re-encoding.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::limits::SIGNED_PAYLOAD_MAX;

/// Longest DER form of a P-256 signature.
const SIGNATURE_MAX: usize = 72;

/// A payload of at most [`SIGNED_PAYLOAD_MAX`] bytes and an ASN.1 DER signature, not checked yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedPayload {
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64::<SIGNED_PAYLOAD_MAX, _>")]
    payload: Vec<u8>,
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64::<SIGNATURE_MAX, _>")]
    signature: Vec<u8>,
}

impl SignedPayload {
    /// Puts bytes and their signature together. Whether they belong together is not looked at.
    #[must_use]
    pub fn new(payload: Vec<u8>, signature: Vec<u8>) -> Self {
        Self { payload, signature }
    }

    /// The bytes that were signed.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The signature, ASN.1 DER.
    #[must_use]
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

/// Padded standard base64 in its one form, of at most `MAX` bytes.
fn from_base64<'de, const MAX: usize, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.len() > MAX.div_ceil(3) * 4 {
        return Err(de::Error::custom(format_args!("more than {MAX} bytes in base64")));
    }
    STANDARD.decode(text).map_err(|_| de::Error::custom("not padded standard base64"))
}
