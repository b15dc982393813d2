//! An order as it travels: drafted, read by who is to sign it, and signed in either form.

use serde::{Deserialize, Serialize};

use super::head::{OrderHead, OrderId, signed_text};
use super::passkey::Assertion;
use super::{Body, words::words};
use crate::base::bounded::OutOfBounds;
use crate::base::digest::Digest;
use crate::base::json::{self, JsonError};
use crate::base::limits::{JSON_DEPTH_MAX, SIGNED_INTENT_MAX};
use crate::orders::owner::OwnerId;
use crate::pki::key::{Fingerprint, NodeKey, VerificationCode};

/// An order that nobody signed yet, as the controller hands it out: whoever is to sign it reads it with
/// [`Draft::read`] and believes nothing else about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Draft {
    /// The intent, as the very text that will be signed.
    pub intent_json: String,
    /// The body, as the very text whose hash the intent has.
    pub body: String,
}

/// Why a draft is not signed.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// Its head is no intent.
    #[error("the draft's intent is malformed; draft it anew, with programs of one version")]
    OrderHead(#[source] JsonError),
    /// Its body is none of its kind.
    #[error("the draft's body is malformed; draft it anew, with programs of one version")]
    Body(#[source] JsonError),
    /// Its body is not the one the head has the hash of.
    #[error("the draft's body is not the one its intent names; somebody changed it, draft it anew")]
    BodyMismatch,
    /// Head and body speak of different things.
    #[error("the draft contradicts itself; draft it anew")]
    DoesNotFit(#[source] OutOfBounds),
    /// A label has characters that nobody sees.
    #[error("a label of the draft has characters that cannot be seen; draft the order again with another label")]
    Hidden,
    /// It is longer than one may be when signed.
    #[error("the draft is too long to be sent; name fewer nodes")]
    TooLong,
}

impl Draft {
    /// Writes an order down. The hash of the body is put in.
    ///
    /// # Errors
    /// When it could not be signed; see [`DraftError`].
    pub fn new(mut intent: OrderHead, body: &Body) -> Result<Self, DraftError> {
        let body = body.to_text().map_err(DraftError::Body)?;
        intent.body_sha256 = Digest::of(body.as_bytes());
        let draft = Self { intent_json: json::to_string(&intent).map_err(DraftError::OrderHead)?, body };
        draft.read_new()?;
        // Both texts are escaped once more where they travel; two signatures take 4 KiB.
        let length = json::to_string(&draft).map_err(DraftError::OrderHead)?.len();
        if length + 4096 > SIGNED_INTENT_MAX { Err(DraftError::TooLong) } else { Ok(draft) }
    }

    /// Reads what somebody is about to sign, or to ask signatures for: all of it is there to be seen.
    ///
    /// # Errors
    /// As [`Draft::read`], and when a label hides something.
    pub fn read_new(&self) -> Result<ReadDraft<'_>, DraftError> {
        let read = self.read()?;
        if read.body.hides_text() { Err(DraftError::Hidden) } else { Ok(read) }
    }

    /// Reads what was drafted or signed, all of it.
    ///
    /// # Errors
    /// When it is nothing that anybody would carry out.
    pub fn read(&self) -> Result<ReadDraft<'_>, DraftError> {
        let intent = OrderHead::parse(&self.intent_json).map_err(DraftError::OrderHead)?;
        if intent.body_sha256 != Digest::of(self.body.as_bytes()) {
            return Err(DraftError::BodyMismatch);
        }
        let body = Body::parse(intent.kind, &self.body).map_err(DraftError::Body)?;
        intent.fits(&body).map_err(DraftError::DoesNotFit)?;
        Ok(ReadDraft { draft: self, intent, body })
    }
}

/// A draft that was read whole. Only [`Draft::read`] makes one, and only from one is anything shown or signed.
#[derive(Debug)]
pub struct ReadDraft<'a> {
    draft: &'a Draft,
    intent: OrderHead,
    body: Body,
}

impl ReadDraft<'_> {
    /// Its head.
    #[must_use]
    pub const fn intent(&self) -> &OrderHead {
        &self.intent
    }

    /// Its body.
    #[must_use]
    pub const fn body(&self) -> &Body {
        &self.body
    }

    /// The code of exactly these bytes: compare it with the one that was asked for.
    #[must_use]
    pub fn code(&self) -> VerificationCode {
        OrderId::of(&self.draft.intent_json).code()
    }

    /// What a person reads before signing, made from the bytes that are signed and from nothing else.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        words(&self.draft.intent_json, &self.intent, &self.body)
    }

    /// An owner's signature under it.
    #[must_use]
    pub fn sign(&self, owner: OwnerId, key: &NodeKey) -> OrderSignature {
        let signature = key.sign(&signed_text(&self.draft.intent_json));
        OrderSignature::with_key(owner, key.public().fingerprint(), signature.to_text())
    }

    /// The order with these signatures, to be sent.
    #[must_use]
    pub fn signed(&self, signatures: Vec<OrderSignature>) -> SignedOrder {
        SignedOrder { intent_json: self.draft.intent_json.clone(), body: self.draft.body.clone(), signatures }
    }
}

/// One owner's signature under an intent: of an owner key, or of a passkey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SignatureWire", into = "SignatureWire")]
pub struct OrderSignature {
    /// Whose.
    pub owner: OwnerId,
    /// By which of that owner's keys.
    pub key: Fingerprint,
    /// In which form.
    pub(super) form: SignatureForm,
}

/// The two forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SignatureForm {
    /// P1363, 88 base64 characters.
    Key(String),
    /// WebAuthn.
    Passkey(Assertion),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SignatureWire {
    owner: OwnerId,
    key: Fingerprint,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    assertion: Option<Assertion>,
}

impl TryFrom<SignatureWire> for OrderSignature {
    type Error = OutOfBounds;

    fn try_from(wire: SignatureWire) -> Result<Self, OutOfBounds> {
        let form = match (wire.signature, wire.assertion) {
            (Some(signature), None) => SignatureForm::Key(signature),
            (None, Some(assertion)) => SignatureForm::Passkey(assertion),
            _ => return Err(OutOfBounds { field: "signature", rule: "either it or assertion" }),
        };
        Ok(Self { owner: wire.owner, key: wire.key, form })
    }
}

impl From<OrderSignature> for SignatureWire {
    fn from(signature: OrderSignature) -> Self {
        let OrderSignature { owner, key, form } = signature;
        let (signature, assertion) = match form {
            SignatureForm::Key(text) => (Some(text), None),
            SignatureForm::Passkey(assertion) => (None, Some(assertion)),
        };
        Self { owner, key, signature, assertion }
    }
}

impl OrderSignature {
    /// A signature of an owner key, made elsewhere.
    #[must_use]
    pub const fn with_key(owner: OwnerId, key: Fingerprint, signature: String) -> Self {
        Self { owner, key, form: SignatureForm::Key(signature) }
    }

    /// A passkey's signature, as the browser gave it.
    #[must_use]
    pub const fn with_passkey(owner: OwnerId, key: Fingerprint, assertion: Assertion) -> Self {
        Self { owner, key, form: SignatureForm::Passkey(assertion) }
    }
}

/// An order with its signatures, as it travels: not checked yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SignedOrder {
    /// The intent, as the very text that was signed.
    pub intent_json: String,
    /// The body, as the very text whose hash the intent has.
    pub body: String,
    /// One or two.
    pub signatures: Vec<OrderSignature>,
}

impl SignedOrder {
    /// Reads one of at most 60 KiB.
    ///
    /// # Errors
    /// When the bytes are more or not of this shape.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, JsonError> {
        json::from_slice(bytes, SIGNED_INTENT_MAX, JSON_DEPTH_MAX)
    }

    /// The bytes that travel and are kept.
    ///
    /// # Errors
    /// Never for values of this type.
    pub fn to_bytes(&self) -> Result<Vec<u8>, JsonError> {
        json::to_string(self).map(String::into_bytes)
    }

    /// Which order it is, whoever signed it.
    #[must_use]
    pub fn id(&self) -> OrderId {
        OrderId::of(&self.intent_json)
    }
}
