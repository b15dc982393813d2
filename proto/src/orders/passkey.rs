//! A passkey's signature under an intent: a WebAuthn assertion over a challenge that is made from the intent's text
//! (Web Authentication level 2, sections 5.8.1, 6.1 and 7.2).
//!
//! The passkey is of the roster and for intents alone; who signs in with it proves nothing here, and a passkey for
//! signing in signs no intent. The signature counter is not looked at: the nodes of a fleet see different ones. What
//! makes an assertion good is the same for signing in ([`crate::sign_in`]), over a challenge of another kind.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::base::json::{self, JsonError};
use crate::base::limits::{CLIENT_DATA_MAX, JSON_DEPTH_MAX, SIGNATURE_DER_MAX};
use crate::orders::owner::PageOrigin;
use crate::pki::key::NodePublicKey;
use crate::pki::signed::{from_base64, to_base64};

/// What is hashed for the challenge begins with this line.
const CHALLENGE_HEAD: &str = "lucia-intent-passkey-v1\n";
/// Hash of the relying party, flags and counter; a request for a signature asks for no extension, so nothing follows.
const AUTHENTICATOR_DATA_LEN: usize = 37;
/// Flags of section 6.1: a person was there.
const USER_PRESENT: u8 = 0x01;
/// Flags of section 6.1: it was the owner, by PIN or fingerprint.
const USER_VERIFIED: u8 = 0x04;
/// Flags of section 6.1 that say more data follows.
const MORE_DATA: u8 = 0x40 | 0x80;
/// `type` of an assertion.
const GET: &str = "webauthn.get";

/// The challenge that a passkey signs for this intent. It is no hash of the intent alone, so that it is of no use where
/// one is taken.
#[must_use]
pub fn challenge(intent_json: &str) -> [u8; 32] {
    *Digest::of([CHALLENGE_HEAD, intent_json].concat().as_bytes()).as_bytes()
}

/// What a browser returns for a passkey's signature, as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Assertion {
    /// `authenticatorData`, base64.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64::<AUTHENTICATOR_DATA_LEN, _>")]
    pub authenticator_data: Vec<u8>,
    /// `clientDataJSON`, as the very text that was hashed.
    pub client_data_json: String,
    /// The signature, ASN.1 DER, base64.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64::<SIGNATURE_DER_MAX, _>")]
    pub signature: Vec<u8>,
}

/// Members of `clientDataJSON` that count. Browsers add others on purpose; they are read strictly and left.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientData {
    #[serde(rename = "type")]
    kind: String,
    challenge: String,
    origin: String,
    #[serde(default)]
    cross_origin: Option<bool>,
    #[serde(default)]
    top_origin: Option<IgnoredAny>,
}

/// Why an assertion is no signature over what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum AssertionError {
    /// `clientDataJSON` is not one.
    #[error("clientDataJSON is not what a browser writes")]
    ClientData(#[source] JsonError),
    /// It was made for something else than a signature.
    #[error("the passkey's signature is of another type than webauthn.get")]
    Type,
    /// It was made over another challenge: another intent, or a sign-in instead of one.
    #[error("the passkey signed another challenge than the one asked for")]
    Challenge,
    /// Another page asked for it, or a page inside another.
    #[error("the passkey signed for another page than the fleet's")]
    Origin,
    /// `authenticatorData` has another length.
    #[error("authenticatorData is not {AUTHENTICATOR_DATA_LEN} bytes without extensions")]
    Length,
    /// The authenticator signed for another site.
    #[error("the authenticator signed for another site than the fleet's page")]
    RelyingParty,
    /// Nobody touched the authenticator, or it did not make sure who did.
    #[error("the authenticator did not verify its user")]
    User,
    /// The signature is not the passkey's over these bytes.
    #[error("the passkey's signature does not verify")]
    Signature,
}

/// Checks an assertion of `key` for the page at `origin` over this intent.
///
/// # Errors
/// The first of [`AssertionError`] that applies.
pub(super) fn verify(
    assertion: &Assertion,
    key: &NodePublicKey,
    intent_json: &str,
    origin: &PageOrigin,
) -> Result<(), AssertionError> {
    verify_over(assertion, key, &challenge(intent_json), origin)
}

/// Checks an assertion of `key` for the page at `origin` over this challenge.
///
/// # Errors
/// The first of [`AssertionError`] that applies.
pub fn verify_over(
    assertion: &Assertion,
    key: &NodePublicKey,
    challenge: &[u8; 32],
    origin: &PageOrigin,
) -> Result<(), AssertionError> {
    let client: ClientData = json::from_str(&assertion.client_data_json, CLIENT_DATA_MAX, JSON_DEPTH_MAX)
        .map_err(AssertionError::ClientData)?;
    if client.kind != GET {
        return Err(AssertionError::Type);
    }
    if client.challenge != URL_SAFE_NO_PAD.encode(challenge) {
        return Err(AssertionError::Challenge);
    }
    if client.origin != origin.as_str() || client.cross_origin == Some(true) || client.top_origin.is_some() {
        return Err(AssertionError::Origin);
    }
    let data: &[u8; AUTHENTICATOR_DATA_LEN] =
        assertion.authenticator_data.as_slice().try_into().map_err(|_| AssertionError::Length)?;
    let (site, rest) = data.split_first_chunk::<32>().ok_or(AssertionError::Length)?;
    let flags = *rest.first().ok_or(AssertionError::Length)?;
    if site != Digest::of(origin.rp_id().as_bytes()).as_bytes() {
        return Err(AssertionError::RelyingParty);
    }
    if flags & MORE_DATA != 0 {
        return Err(AssertionError::Length);
    }
    if flags & USER_PRESENT == 0 || flags & USER_VERIFIED == 0 {
        return Err(AssertionError::User);
    }
    let client_hash = Digest::of(assertion.client_data_json.as_bytes());
    let text = [&data[..], client_hash.as_bytes()].concat();
    key.verify_der(&text, &assertion.signature).map_err(|_| AssertionError::Signature)
}
