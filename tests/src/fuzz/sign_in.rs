//! A sign-in to the page, and the passkey that is handed in for it: made by the right passkey, whatever the browser says.

use std::sync::LazyLock;

use lucia_people::sign_in::{PasskeyForm, SignIn};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::{HOST_BODY_MAX, SIGN_IN_MAX};
use lucia_proto::node::challenge::{ChallengeId, Nonce};
use lucia_proto::orders::owner::CredentialId;
use lucia_proto::orders::{Assertion, OrderKind, OrderSignature};
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::{OrderWorld, key};
use serde_json::Value;

use super::intent::WORLD;
use super::twice;

/// The passkey.
static PASSKEY: LazyLock<NodeKey> = LazyLock::new(|| key(61));

fn nonce() -> Nonce {
    Nonce::from_bytes(&[5; 32])
}

/// The bytes are a sign-in, a passkey handed in, `clientDataJSON`, or the authenticator's data.
pub(super) fn run(input: &[u8]) {
    if let Some(sign_in) = twice::<SignIn>(input, SIGN_IN_MAX) {
        judge(&sign_in);
        let Assertion { authenticator_data, client_data_json, .. } = &sign_in.assertion;
        judge(&SignIn { assertion: touched(authenticator_data.clone(), client_data_json), ..sign_in.clone() });
    }
    if let Some(form) = twice::<PasskeyForm>(input, HOST_BODY_MAX)
        && let Ok(key) = form.key()
    {
        assert_eq!(key.der(), form.public_key, "one key has one form");
        let mut other = form.clone();
        other.public_key.clear();
        assert!(other.key().is_err());
        assert_ne!(other.code(), form.code());
    }
    let good = [Digest::of(b"controller.test").as_bytes(), &[5, 0, 0, 0, 7][..]].concat();
    if let Ok(text) = std::str::from_utf8(input) {
        judge(&sign_in(good, text));
    }
    let challenge = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, right());
    let origin = OrderWorld::origin();
    judge(&sign_in(
        input.to_vec(),
        &format!(r#"{{"type":"webauthn.get","challenge":"{challenge}","origin":"{origin}"}}"#),
    ));
}

fn id() -> ChallengeId {
    ChallengeId::from_parts(1, 2)
}

fn right() -> [u8; 32] {
    lucia_people::sign_in::challenge(&id(), &nonce())
}

fn sign_in(authenticator_data: Vec<u8>, client_data_json: &str) -> SignIn {
    let credential_id = CredentialId::from_bytes(vec![1]).unwrap();
    SignIn { challenge_id: id(), credential_id, assertion: touched(authenticator_data, client_data_json) }
}

/// As the passkey signs whatever it is given.
fn touched(authenticator_data: Vec<u8>, client_data_json: &str) -> Assertion {
    let text = [&authenticator_data[..], Digest::of(client_data_json.as_bytes()).as_bytes()].concat();
    Assertion { signature: PASSKEY.sign_der(&text), authenticator_data, client_data_json: client_data_json.to_owned() }
}

fn judge(sign_in: &SignIn) {
    let origin = OrderWorld::origin();
    // Whatever it is, it signs no order: the passkey stands in no roster.
    let order = WORLD.order(OrderKind::SshKey);
    let signature =
        OrderSignature::with_passkey(WORLD.alice.id.clone(), PASSKEY.public().fingerprint(), sign_in.assertion.clone());
    assert!(order.check_signature(&signature, OrderKind::SshKey, &WORLD.roster).is_err(), "an order by a sign-in");
    let Ok(()) = sign_in.verify(&nonce(), PASSKEY.public(), &origin) else { return };
    let value: Value = serde_json::from_str(&sign_in.assertion.client_data_json).unwrap();
    let challenge = lucia_people::sign_in::challenge(&sign_in.challenge_id, &nonce());
    let challenge = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, challenge);
    for (field, want) in [("type", "webauthn.get"), ("challenge", &challenge), ("origin", origin.as_str())] {
        assert_eq!(value[field].as_str(), Some(want), "{field}");
    }
    assert!(value["crossOrigin"] != true && value["topOrigin"].is_null(), "a page in a page: {value}");
    let data = &sign_in.assertion.authenticator_data;
    assert_eq!(data.len(), 37);
    assert_eq!(&data[..32], Digest::of(b"controller.test").as_bytes());
    assert_eq!(data[32] & 0x05, 0x05, "nobody was there, or nobody knows who");
    // Over this challenge, by this passkey, for this page.
    assert!(sign_in.verify(&Nonce::from_bytes(&[6; 32]), PASSKEY.public(), &origin).is_err());
    assert!(sign_in.verify(&nonce(), key(62).public(), &origin).is_err());
    let elsewhere = "https://evil.test:8443".parse().unwrap();
    assert!(sign_in.verify(&nonce(), PASSKEY.public(), &elsewhere).is_err());
}
