//! Signing in to the page with a passkey: what the browser signs, and how a passkey comes to be known (design.md O1).
//!
//! A passkey for signing in stands in no roster and signs no intent. What it signs is made from the controller's own
//! challenge under a head of its own, so that an intent offered as a sign-in is signed for nothing (`intent::passkey`).
//! Anybody may hand one in; it signs in whoever confirmed its code with an owner key, and nobody before.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use lucia_proto::base::bounded::KeyLabel;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::SPKI_DER_MAX;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::challenge::{ChallengeId, Nonce};
use lucia_proto::orders::owner::{CredentialId, OwnerName, PageOrigin, Role};
use lucia_proto::orders::{Assertion, AssertionError, verify_over};
use lucia_proto::pki::key::{KeyError, NodePublicKey, VerificationCode};
use lucia_proto::pki::signed::{from_base64, to_base64};

/// What is hashed for the challenge of a sign-in begins with this line.
pub const SIGN_IN_HEAD: &str = "lucia-sign-in-v1";
/// What is hashed for a passkey's code begins with this line.
pub const PASSKEY_CODE_HEAD: &str = "lucia-sign-in-passkey-v1\n";
/// Name of the session's cookie. Browsers take one of this name only with `Secure`, `Path=/` and no domain.
pub const SESSION_COOKIE: &str = "__Host-lucia-session";

/// The challenge that a passkey signs to sign in: the SHA-256 of head, id and nonce, a line each.
#[must_use]
pub fn challenge(id: &ChallengeId, nonce: &Nonce) -> [u8; 32] {
    *Digest::of([SIGN_IN_HEAD, id.as_str(), nonce.as_str()].join("\n").as_bytes()).as_bytes()
}

/// Body of `POST /api/host/sessions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SignIn {
    /// The challenge of scope `owner` that was signed over.
    pub challenge_id: ChallengeId,
    /// Which passkey signed.
    pub credential_id: CredentialId,
    /// What the browser returned.
    pub assertion: Assertion,
}

impl SignIn {
    /// Checks that `key` signed this challenge on the page at `origin`, with its user verified.
    ///
    /// # Errors
    /// The first of [`AssertionError`] that applies.
    pub fn verify(&self, nonce: &Nonce, key: &NodePublicKey, origin: &PageOrigin) -> Result<(), AssertionError> {
        verify_over(&self.assertion, key, &challenge(&self.challenge_id, nonce), origin)
    }
}

/// Answer to it, beside the cookie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedIn {
    /// Who.
    pub name: OwnerName,
    /// What they may do.
    pub role: Role,
    /// When the session ends at the latest.
    pub expires_at: UnixTime,
}

/// Body of `POST /api/host/passkeys`: what `navigator.credentials.create` made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PasskeyForm {
    /// What people call it.
    pub label: KeyLabel,
    /// Its raw id.
    pub credential_id: CredentialId,
    /// Its public key as `getPublicKey()` gives it, DER, base64.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64::<SPKI_DER_MAX, _>")]
    pub public_key: Vec<u8>,
}

impl PasskeyForm {
    /// The key.
    ///
    /// # Errors
    /// When it is no P-256 key in its one form.
    pub fn key(&self) -> Result<NodePublicKey, KeyError> {
        NodePublicKey::from_der(&self.public_key)
    }

    /// What a person compares and confirms: made from key and id, so that the browser computes it from what it has. The
    /// key's one form has one length, so the two cannot run into one another.
    #[must_use]
    pub fn code(&self) -> VerificationCode {
        let text = [PASSKEY_CODE_HEAD.as_bytes(), &self.public_key, self.credential_id.as_bytes()].concat();
        VerificationCode::of(&Digest::of(&text))
    }
}

/// Answer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PasskeyAsked {
    /// What an owner key confirms (`luciactl passkey approve CODE`).
    pub code: VerificationCode,
    /// Until when.
    pub expires_at: UnixTime,
}

/// A passkey that signs somebody in. Answer to its confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PasskeyView {
    /// Its code, and its name in calls.
    pub code: VerificationCode,
    /// Whom it signs in; absent when they left the roster, and then it signs nobody in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerName>,
    /// What people call it.
    pub label: KeyLabel,
    /// Since when.
    pub added_at: UnixTime,
}

/// Answer to `GET /api/host/passkeys` and to a removal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PasskeysView {
    /// In the order they were added.
    pub passkeys: Vec<PasskeyView>,
}

/// A session of the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    /// Its name in calls; not what the cookie holds.
    pub code: VerificationCode,
    /// Whose.
    pub owner: OwnerName,
    /// What it may do.
    pub role: Role,
    /// The passkey that signed in.
    pub passkey: VerificationCode,
    /// From where.
    pub address: IpAddr,
    /// Since when.
    pub since: UnixTime,
    /// When it was last used.
    pub used_at: UnixTime,
    /// When it ends at the latest.
    pub expires_at: UnixTime,
    /// It is the one that asks.
    pub current: bool,
}

/// Answer to `GET /api/host/sessions` and to the end of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionsView {
    /// The controller's clock when it answered.
    pub server_time: UnixTime,
    /// Those that have not ended, oldest first.
    pub sessions: Vec<SessionView>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucia_proto::orders::passkey_challenge;
    use lucia_proto::test_support::{OrderWorld, assertion, key};

    fn id() -> ChallengeId {
        ChallengeId::from_parts(1_795_982_400_000, 7)
    }

    fn nonce() -> Nonce {
        Nonce::from_bytes(&[5; 32])
    }

    fn over(challenge: &[u8; 32], change: impl FnOnce(&mut String, &mut Vec<u8>)) -> SignIn {
        let credential_id = CredentialId::from_bytes(vec![1]).unwrap();
        SignIn {
            challenge_id: id(),
            credential_id,
            assertion: assertion(&key(61), challenge, &OrderWorld::origin(), change),
        }
    }

    // spec: PG-1
    #[test]
    fn a_sign_in_is_of_this_challenge_this_page_this_passkey_and_a_verified_person() {
        let right = challenge(&id(), &nonce());
        let check = |sign_in: &SignIn| sign_in.verify(&nonce(), key(61).public(), &OrderWorld::origin());
        assert!(check(&over(&right, |_, _| ())).is_ok());
        let other = ChallengeId::from_parts(1_795_982_400_000, 8);
        for (name, offered) in [
            ("another id", challenge(&other, &nonce())),
            ("another nonce", challenge(&id(), &Nonce::from_bytes(&[6; 32]))),
            ("an intent", passkey_challenge("{}")),
            ("nothing", [0; 32]),
        ] {
            assert!(matches!(check(&over(&offered, |_, _| ())), Err(AssertionError::Challenge)), "{name}");
        }
        let sent_elsewhere = SignIn { challenge_id: other, ..over(&right, |_, _| ()) };
        assert!(matches!(check(&sent_elsewhere), Err(AssertionError::Challenge)));
        let bad = |change: &dyn Fn(&mut String, &mut Vec<u8>)| check(&over(&right, change)).expect_err("refused");
        assert!(matches!(bad(&|_, data| data[32] = 0x01), AssertionError::User));
        assert!(matches!(bad(&|_, data| data[32] = 0x04), AssertionError::User));
        assert!(matches!(bad(&|_, data| data[0] ^= 1), AssertionError::RelyingParty));
        assert!(matches!(bad(&|_, data| data.push(0)), AssertionError::Length));
        assert!(matches!(
            bad(&|text, _| *text = text.replace("webauthn.get", "webauthn.create")),
            AssertionError::Type
        ));
        assert!(matches!(bad(&|text, _| *text = text.replace(":8443", "")), AssertionError::Origin));
        let another = over(&right, |_, _| ()).verify(&nonce(), key(62).public(), &OrderWorld::origin());
        assert!(matches!(another, Err(AssertionError::Signature)));
    }

    // spec: PG-2
    #[test]
    fn the_code_of_a_passkey_is_made_from_its_key_and_its_id() {
        let form = |number: u8, id: u8| PasskeyForm {
            label: KeyLabel::fitted("laptop").unwrap(),
            credential_id: CredentialId::from_bytes(vec![id]).unwrap(),
            public_key: key(number).public().der().to_vec(),
        };
        assert_eq!(form(61, 1).key().as_ref(), Ok(key(61).public()));
        assert_eq!(form(61, 1).code(), form(61, 1).code());
        for other in [form(61, 2), form(62, 1)] {
            assert_ne!(form(61, 1).code(), other.code());
        }
        let mut broken = form(61, 1);
        broken.public_key.push(0);
        assert!(broken.key().is_err());
    }
}
