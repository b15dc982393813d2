//! Bytes and a signature over them, as bundle, answer, roster and freshness travel:
//! `{"payload": base64, "signature": base64}`.
//!
//! The payload is kept as the very bytes that were signed; nothing is parsed from a re-encoding. What is signed begins
//! with a first line of its own, so that no signature over one kind can be taken for one over another.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::base::limits::{SIGNATURE_DER_MAX, SIGNED_PAYLOAD_MAX};
use crate::pki::key::{NodeKey, NodePublicKey};

/// A payload of at most `MAX` bytes and an ASN.1 DER signature, not checked yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedPayload<const MAX: usize = SIGNED_PAYLOAD_MAX> {
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64::<MAX, _>")]
    payload: Vec<u8>,
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64::<SIGNATURE_DER_MAX, _>")]
    signature: Vec<u8>,
}

impl<const MAX: usize> SignedPayload<MAX> {
    /// Signs `tag` and the payload.
    #[must_use]
    pub(crate) fn sign(tag: &[u8], payload: Vec<u8>, key: &NodeKey) -> Self {
        let signature = key.sign_der(&signed_text(tag, &payload));
        Self { payload, signature }
    }

    /// Whether one of these keys signed `tag` and the payload.
    pub(crate) fn is_of(&self, tag: &[u8], keys: &[NodePublicKey]) -> bool {
        self.signer(tag, keys).is_some()
    }

    /// Which of these keys signed `tag` and the payload.
    pub(crate) fn signer<'a>(&self, tag: &[u8], keys: &'a [NodePublicKey]) -> Option<&'a NodePublicKey> {
        let text = signed_text(tag, &self.payload);
        keys.iter().find(|key| key.verify_der(&text, &self.signature).is_ok())
    }

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

/// What is signed: the first line of its kind, and the payload.
pub(crate) fn signed_text(tag: &[u8], payload: &[u8]) -> Vec<u8> {
    [tag, payload].concat()
}

/// One kind of [`SignedPayload`], as it travels and lies on disk: not checked yet. How it is checked is its own.
macro_rules! signed_kind {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name($crate::pki::signed::SignedPayload);

        impl $name {
            /// Puts one together that was signed elsewhere.
            #[must_use]
            pub fn from_parts(payload: Vec<u8>, signature: Vec<u8>) -> Self {
                Self($crate::pki::signed::SignedPayload::new(payload, signature))
            }

            /// Payload and signature.
            #[must_use]
            pub fn parts(&self) -> &$crate::pki::signed::SignedPayload {
                &self.0
            }
        }
    };
}
pub(crate) use signed_kind;

/// Padded standard base64.
pub fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

/// Padded standard base64 in its one form, of at most `MAX` bytes.
pub fn from_base64<'de, const MAX: usize, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.len() > MAX.div_ceil(3) * 4 {
        return Err(de::Error::custom(format_args!("more than {MAX} bytes in base64")));
    }
    let bytes = STANDARD.decode(text).map_err(|_| de::Error::custom("not padded standard base64"))?;
    // The last letters have room for two bytes more.
    if bytes.len() > MAX { Err(de::Error::custom(format_args!("more than {MAX} bytes in base64"))) } else { Ok(bytes) }
}

/// The same, of one byte at least.
pub(crate) fn some_base64<'de, const MAX: usize, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let bytes = from_base64::<MAX, D>(deserializer)?;
    if bytes.is_empty() { Err(de::Error::custom("no bytes in base64")) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    /// First lines of the house and the file that has each.
    const HEADS: [(&str, &str); 11] = [
        ("lucia-answer-v1", "node/answer.rs"),
        ("lucia-bundle-v1", "pki/bundle.rs"),
        ("lucia-discovery-v1", "node/challenge.rs"),
        ("lucia-freshness-v1", "orders/freshness.rs"),
        ("lucia-intent-passkey-v1", "orders/passkey.rs"),
        ("lucia-intent-v1", "orders/head.rs"),
        ("lucia-owner-application-v2", "orders/application.rs"),
        ("lucia-owner-passkey-v1", "orders/application.rs"),
        ("lucia-owner-v1", "orders/owner_proof.rs"),
        ("lucia-roster-v1", "orders/roster.rs"),
        ("lucia-sign-in-v1", "people/sign_in.rs"),
    ];
    /// First lines of what is hashed or sealed, where nothing may be taken for something signed either.
    const OTHERS: [(&str, &str); 2] =
        [("lucia-reader-v1", "pki/sealed.rs"), ("lucia-sign-in-passkey-v1", "people/sign_in.rs")];

    /// Every `"lucia-...-v<number>` in what is no test.
    #[expect(clippy::disallowed_methods, reason = "a test looks through the sources")]
    fn found(dir: &Path, at: &str, all: &mut BTreeMap<String, BTreeSet<String>>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if entry.file_type().unwrap().is_dir() {
                if name != "tests" && name != "test_support" {
                    found(&entry.path(), &format!("{at}{name}/"), all);
                }
                continue;
            }
            if name == "tests.rs" || format!("{at}{name}") == "pki/signed.rs" {
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for part in code.split("\"lucia-").skip(1) {
                let word: String =
                    part.chars().take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-').collect();
                let version = word.rsplit("-v").next().unwrap_or_default();
                if word.contains("-v") && !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) {
                    all.entry(format!("lucia-{word}")).or_default().insert(format!("{at}{name}"));
                }
            }
        }
    }

    // spec: BU-240
    #[test]
    fn everything_signed_has_a_first_line_of_its_own() {
        let mut all = BTreeMap::new();
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        found(&here.join("src"), "", &mut all);
        found(&here.join("people/src"), "people/", &mut all);
        for (head, file) in HEADS.iter().chain(&OTHERS) {
            assert!(all.get(*head).is_some_and(|files| files.contains(*file)), "{head}: {file}");
        }
        // Where two files have one, two kinds have it.
        assert_eq!(all.iter().filter(|(_, files)| files.len() > 1).collect::<Vec<_>>(), []);
        for one in all.keys() {
            // A line ends: neither as a line nor as a text does one begin another.
            let others = all.keys().filter(|other| *other != one);
            assert!(others.into_iter().all(|other| !format!("{other}\n").starts_with(&format!("{one}\n"))), "{one}");
            assert!(!one.starts_with('{'));
        }
    }
}
