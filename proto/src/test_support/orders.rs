//! A fleet with owners: two who order, one who looks, one who is none of it; and orders of each kind that are good.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{TestCa, TestNode, key};
use crate::base::digest::Digest;
use crate::base::limits::ORDER_LIFETIME_MAX;
use crate::base::time::UnixTime;
use crate::node::challenge::Nonce;
use crate::orders::freshness::OrderTime;
use crate::orders::owner::{CredentialId, KeyUse, Owner, OwnerId, OwnerKey, PageOrigin, Role};
use crate::orders::roster::{Roster, SignedRoster, VerifiedRoster};
use crate::orders::{
    Actor, Assertion, Body, Checker, Draft, OrderHead, OrderKind, OrderMemory, OrderPolicy, OrderSample,
    OrderSignature, SignedOrder, Terms, passkey_challenge,
};
use crate::pki::bundle::VerifiedBundle;
use crate::pki::key::NodeKey;

/// Somebody with an owner key and a passkey for intents.
#[derive(Debug)]
pub struct TestOwner {
    /// Who.
    pub id: OwnerId,
    /// What people call them.
    pub name: &'static str,
    /// Signs requests and intents.
    pub key: NodeKey,
    /// Signs intents on the page.
    pub passkey: NodeKey,
}

impl TestOwner {
    /// The owner of [`key`]`(number)`, whose passkey is the next one.
    #[must_use]
    pub fn new(name: &'static str, number: u8) -> Self {
        let (key, passkey) = (key(number), key(number.saturating_add(1)));
        Self { id: OwnerId::of(&key.public().fingerprint()), name, key, passkey }
    }

    /// As a roster has them.
    #[must_use]
    pub fn entry(&self, role: Role) -> Owner {
        let pem = |key: &NodeKey| key.public().to_pem();
        Owner {
            id: self.id.clone(),
            name: self.name.parse().unwrap_or_else(|_| unreachable!("a name of a test")),
            role,
            keys: vec![
                OwnerKey { key_use: KeyUse::OwnerKey, public_key_pem: pem(&self.key), credential_id: None },
                OwnerKey {
                    key_use: KeyUse::OrderPasskey,
                    public_key_pem: pem(&self.passkey),
                    credential_id: CredentialId::from_bytes(self.name.as_bytes().to_vec()),
                },
            ],
        }
    }

    /// A signature of the owner key under a draft.
    #[must_use]
    pub fn sign(&self, draft: &Draft) -> OrderSignature {
        let read = draft.read().unwrap_or_else(|error| unreachable!("{error}"));
        read.sign(self.id.clone(), &self.key)
    }

    /// A signature of the passkey under a draft, as a browser at `origin` makes it.
    #[must_use]
    pub fn touch(&self, draft: &Draft, origin: &PageOrigin) -> OrderSignature {
        let assertion = assertion(&self.passkey, &passkey_challenge(&draft.intent_json), origin, |_, _| ());
        OrderSignature::with_passkey(self.id.clone(), self.passkey.public().fingerprint(), assertion)
    }
}

/// An assertion over any challenge; `change` is given `clientDataJSON` and `authenticatorData` before they are signed.
#[must_use]
pub fn assertion(
    passkey: &NodeKey,
    challenge: &[u8; 32],
    origin: &PageOrigin,
    change: impl FnOnce(&mut String, &mut Vec<u8>),
) -> Assertion {
    let challenge = URL_SAFE_NO_PAD.encode(challenge);
    let mut client_data_json =
        format!(r#"{{"type":"webauthn.get","challenge":"{challenge}","origin":"{origin}","crossOrigin":false}}"#);
    // Present, verified, and kept in a cloud.
    let mut authenticator_data = [Digest::of(origin.rp_id().as_bytes()).as_bytes(), &[0x1d, 0, 0, 0, 7][..]].concat();
    change(&mut client_data_json, &mut authenticator_data);
    let text = [&authenticator_data[..], Digest::of(client_data_json.as_bytes()).as_bytes()].concat();
    Assertion { signature: passkey.sign_der(&text), authenticator_data, client_data_json }
}

/// A fleet with owners, and one node to order about.
#[derive(Debug)]
pub struct OrderWorld {
    /// When it plays.
    pub now: UnixTime,
    /// Root and worker.
    pub ca: TestCa,
    /// The SHA-256 of the root.
    pub fleet: Digest,
    /// Names the worker; version 3.
    pub bundle: VerifiedBundle,
    /// An owner.
    pub alice: TestOwner,
    /// Another owner.
    pub bob: TestOwner,
    /// Somebody who may look.
    pub victor: TestOwner,
    /// Somebody who stands in no roster.
    pub mallory: TestOwner,
    /// The three; version 5.
    pub roster: VerifiedRoster,
    /// Whom the orders are for.
    pub node: TestNode,
    /// Whom they are not for.
    pub other: TestNode,
    /// The policy of that node.
    pub policy: OrderPolicy,
    /// What was ordered before: nothing, for an hour.
    pub memory: OrderMemory,
    /// How late it is.
    pub time: Option<OrderTime>,
}

impl OrderWorld {
    /// The world at `now`. Everything is allowed, nothing on the page.
    #[must_use]
    pub fn new(now: UnixTime) -> Self {
        let ca = TestCa::new(now);
        let bundle = ca.signed_bundle(3, now).verify(&ca.root()).unwrap_or_else(|error| unreachable!("{error}"));
        let owners = [("alice", 41), ("bob", 43), ("victor", 45), ("mallory", 47)];
        let [alice, bob, victor, mallory] = owners.map(|(name, number)| TestOwner::new(name, number));
        let fleet = ca.root().sha256();
        let roster = Roster {
            version: 5,
            fleet,
            issued_at: now,
            owners: vec![alice.entry(Role::Owner), bob.entry(Role::Owner), victor.entry(Role::Viewer)],
            page_kinds: Vec::new().into(),
            page_origin: Some(Self::origin()),
            policy: OrderPolicy::allow_all(),
        };
        let roster = Self::verified(&ca, &bundle, &roster);
        Self {
            now,
            ca,
            fleet,
            bundle,
            alice,
            bob,
            victor,
            mallory,
            roster,
            node: TestNode::new(7),
            other: TestNode::new(8),
            policy: OrderPolicy::allow_all(),
            memory: OrderMemory::begin(now.minus(std::time::Duration::from_secs(3600))),
            time: Some(OrderTime::at_worker(now, 3, 5)),
        }
    }

    /// Where the page is.
    #[must_use]
    pub fn origin() -> PageOrigin {
        "https://controller.test:8443".parse().unwrap_or_else(|_| unreachable!("an origin of a test"))
    }

    fn verified(ca: &TestCa, bundle: &VerifiedBundle, roster: &Roster) -> VerifiedRoster {
        let signed = SignedRoster::sign(roster, &ca.worker_key).unwrap_or_else(|error| unreachable!("{error}"));
        signed.verify(bundle, &roster.fleet).unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// The next roster, with a change.
    pub fn change_roster(&mut self, change: impl FnOnce(&mut Roster)) {
        let mut roster = self.roster.roster().clone();
        roster.version += 1;
        change(&mut roster);
        self.roster = Self::verified(&self.ca, &self.bundle, &roster);
    }

    /// A good body of each kind, for the node.
    #[must_use]
    pub fn body(&self, kind: OrderKind) -> Body {
        let Self { node, now, .. } = self;
        Body::sample(kind, &OrderSample { hostname: node.hostname.clone(), fingerprint: node.fingerprint, now: *now })
    }

    /// The head of alice's order of this kind for the node, made now.
    #[must_use]
    pub fn intent(&self, kind: OrderKind) -> OrderHead {
        let terms = if kind.is_state() {
            let subject = "alice".parse().unwrap_or_else(|_| unreachable!("a subject of a test"));
            Terms::State { subject, revision: 4 }
        } else {
            Terms::Once { not_after: self.now.plus(ORDER_LIFETIME_MAX), nonce: Nonce::from_bytes(&[6; 32]) }
        };
        OrderHead {
            kind,
            fleet: self.fleet,
            owner: self.alice.id.clone(),
            nodes: vec![self.node.node_id.clone()],
            body_sha256: Digest::ZERO,
            issued_at: self.now,
            terms,
        }
    }

    /// A draft of this kind, with a change of its head.
    #[must_use]
    pub fn draft(&self, kind: OrderKind, change: impl FnOnce(&mut OrderHead)) -> Draft {
        let mut intent = self.intent(kind);
        change(&mut intent);
        Draft::new(intent, &self.body(kind)).unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// A good order of this kind, signed by alice.
    #[must_use]
    pub fn order(&self, kind: OrderKind) -> SignedOrder {
        let draft = self.draft(kind, |_| ());
        self.signed(&draft, vec![self.alice.sign(&draft)])
    }

    /// A draft with these signatures.
    #[must_use]
    pub fn signed(&self, draft: &Draft, signatures: Vec<OrderSignature>) -> SignedOrder {
        SignedOrder { intent_json: draft.intent_json.clone(), body: draft.body.clone(), signatures }
    }

    /// What who carries out orders of this kind knows.
    #[must_use]
    pub fn checker(&self, kind: OrderKind) -> Checker<'_> {
        Checker {
            actor: kind.actors().first().copied().unwrap_or(Actor::Node),
            policy: &self.policy,
            fleet: &self.fleet,
            node: &self.node.node_id,
            hostname: &self.node.hostname,
            roster: &self.roster,
            bundle_version: self.bundle.bundle().version,
            time: self.time,
            memory: &self.memory,
        }
    }
}
