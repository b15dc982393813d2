//! Who an owner is: an id, a name, a role, and the keys that speak for that person (design.md O1, O3).
//!
//! A key is for one use. An owner key signs requests and intents on the owner's own machine. An intent passkey signs
//! intents on the page, of the kinds the roster allows there, and nothing else; passkeys for signing in are the
//! controller's affair and stand in no roster, so that whatever a sign-in is made to sign is no order.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::base::limits::CREDENTIAL_ID_MAX;
use crate::base::names::DnsName;
use crate::checked_text;
use crate::pki::key::{Fingerprint, NodePublicKey, VerificationCode};
use crate::pki::signed::{some_base64, to_base64};

checked_text! {
    /// An owner for good, whatever keys come and go: the first 32 hex digits of the first key's fingerprint.
    OwnerId, BadOwnerId, "an owner id: 32 lower-case hex digits",
    |text| text.len() == 32 && crate::base::ids::is_lower_hex(text)
}

checked_text! {
    /// What people call an owner, and type on the worker's host.
    OwnerName, BadOwnerName, "an owner's name: a-z first, then up to 31 of a-z, 0-9, _, . and -",
    |text| {
        let mut bytes = text.bytes();
        bytes.next().is_some_and(|b| b.is_ascii_lowercase())
            && bytes.all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-'))
            && text.len() <= 32
    }
}

checked_text! {
    /// Where the page is: `https://`, a DNS name, and a port other than 443. Its host is what passkeys are made for.
    PageOrigin, BadPageOrigin, "a page's origin: https:// and a lower-case DNS name, at most a port other than 443",
    |text| text.strip_prefix("https://").is_some_and(|rest| {
        let (host, port) = rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port)));
        let port = port.is_none_or(|port| {
            port.parse::<u16>().is_ok_and(|number| number != 0 && number != 443 && number.to_string() == port)
        });
        host.parse::<DnsName>().is_ok() && port
    })
}

impl OwnerId {
    /// The id of whoever comes with this key first.
    #[must_use]
    pub fn of(first_key: &Fingerprint) -> Self {
        Self(first_key.node_id().as_str().to_owned())
    }
}

impl PageOrigin {
    /// The relying party of its passkeys: the host alone (WebAuthn level 2, section 5.1.2).
    #[must_use]
    pub fn rp_id(&self) -> &str {
        let host = self.as_str().strip_prefix("https://").unwrap_or_default();
        host.split_once(':').map_or(host, |(host, _)| host)
    }
}

/// What a person compares before somebody becomes an owner: made from the key alone, as a device's code is, so that each
/// end computes it from the key it has.
#[must_use]
pub fn code(key: &NodePublicKey) -> VerificationCode {
    key.fingerprint().verification_code()
}

/// What somebody of the roster may do. The later may all that the earlier may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Look at everything.
    Viewer,
    /// And order.
    Owner,
}

/// What a key is for. A key is for one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyUse {
    /// Requests and intents, signed on the owner's own machine.
    OwnerKey,
    /// OrderHeads alone, signed by a passkey on the page.
    #[serde(rename = "intent-passkey")]
    OrderPasskey,
}

/// The raw id of a passkey, by which a browser finds it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CredentialId(
    #[serde(serialize_with = "to_base64", deserialize_with = "some_base64::<CREDENTIAL_ID_MAX, _>")] Vec<u8>,
);

impl CredentialId {
    /// The id these bytes are; nothing when they are none or more than 256.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        (1..=CREDENTIAL_ID_MAX).contains(&bytes.len()).then_some(Self(bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As it travels: padded base64.
    #[must_use]
    pub fn to_text(&self) -> String {
        STANDARD.encode(&self.0)
    }
}

/// One key of an owner, as the roster writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OwnerKey {
    /// What it is for.
    #[serde(rename = "use")]
    pub key_use: KeyUse,
    /// P-256, one PEM block.
    pub public_key_pem: String,
    /// Of a passkey, and of no other key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_id: Option<CredentialId>,
}

/// Somebody of the roster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Owner {
    /// Who.
    pub id: OwnerId,
    /// What people call them.
    pub name: OwnerName,
    /// What they may do.
    pub role: Role,
    /// Their keys, 1 to 8.
    pub keys: Vec<OwnerKey>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::key;

    // spec: OW-1
    #[test]
    fn a_code_is_made_from_the_key_alone_as_a_devices_is() {
        let (mine, other) = (key(7), key(8));
        assert_eq!(code(mine.public()), mine.public().fingerprint().verification_code());
        assert_ne!(code(mine.public()), code(other.public()));
        assert_eq!(code(mine.public()).as_str().replace('-', ""), mine.public().fingerprint().to_string()[..12]);
        assert_eq!(OwnerId::of(&mine.public().fingerprint()).as_str(), mine.public().fingerprint().node_id().as_str());
    }

    // spec: OW-2
    #[test]
    fn names_ids_and_origins_have_one_form() {
        for (text, ok) in [
            ("alice", true),
            ("a.b-c_1", true),
            (&"a".repeat(32), true),
            (&"a".repeat(33), false),
            ("", false),
            ("Alice", false),
            ("1a", false),
            ("-rf", false),
            ("al ice", false),
            ("al\nice", false),
            ("аlice", false),
        ] {
            assert_eq!(text.parse::<OwnerName>().is_ok(), ok, "{text:?}");
        }
        for (text, ok) in [(&"0f".repeat(16), true), (&"0F".repeat(16), false), (&"0f".repeat(15), false)] {
            assert_eq!(text.parse::<OwnerId>().is_ok(), ok, "{text:?}");
        }
        for (text, host) in [
            ("https://controller.lucia.home.arpa", Some("controller.lucia.home.arpa")),
            ("https://controller:8443", Some("controller")),
            ("https://controller:443", None),
            ("https://controller:08443", None),
            ("https://controller:0", None),
            ("https://controller:", None),
            ("https://controller/", None),
            ("https://Controller", None),
            ("https://a@controller", None),
            ("http://controller", None),
            ("https://", None),
            ("", None),
        ] {
            let origin = text.parse::<PageOrigin>().ok();
            assert_eq!(origin.as_ref().map(PageOrigin::rp_id), host, "{text:?}");
        }
    }

    // spec: IN-40
    #[test]
    fn a_credential_id_has_1_to_256_bytes_however_it_comes() {
        #[derive(Deserialize)]
        struct Holder {
            id: CredentialId,
        }
        for (length, ok) in [(0, false), (1, true), (255, true), (256, true), (257, false), (258, false), (259, false)]
        {
            let bytes = vec![1; length];
            let text = format!(r#"{{"id":"{}"}}"#, STANDARD.encode(&bytes));
            let made = CredentialId::from_bytes(bytes);
            assert_eq!(made.is_some(), ok, "{length}");
            let read = crate::base::json::from_str::<Holder>(&text, 4096, 8).ok().map(|read| read.id);
            assert_eq!(read, made, "{length}");
            assert!(made.is_none_or(|made| text.contains(&format!(":\"{}\"", made.to_text()))), "{length}");
        }
    }
}
