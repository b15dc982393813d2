//! All that is done with orders by whoever has a controller, with what refuses it at the node and at the worker.

use lucia_people::sign_in;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::challenge::{Challenge, ChallengeId, Nonce};
use lucia_proto::orders::owner::PageOrigin;
use lucia_proto::orders::owner_proof::{Method, OwnerProof, OwnerRequest};
use lucia_proto::orders::{
    Actor, Admit, Body, CloneDecision, Decision, Draft, LabelledKey, OrderCode, OrderHead, OrderKind, OrderSignature,
    ReleaseLapse, RemoveIdentity, RenameNode, SignedOrder, SshKeys, Terms, passkey_challenge,
};
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::{TestNode, TestOwner, assertion, key};

use lucia_worker::ledger::NodeRecord;

use super::{COPIED, HOUR, LAPSED, LEAVING, STRANGER, alice, carol, lapsed_at, mallory, victor};

/// The account whose keys are ordered.
pub(super) const ACCOUNT: &str = "alice";
/// A key that nobody has, and the attacker's.
pub(super) const SSH_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
pub(super) const EVIL_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA";

macro_rules! acts {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        /// One thing that is done.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Deceit { $($(#[$meta])* $name,)* }

        impl Deceit {
            pub(super) const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

acts! {
    /// A signature that is somebody else's, said to be alice's.
    Forged,
    /// By a key that stands in no roster, in its own name and in alice's.
    Stranger, StrangerAsAlice,
    /// By who was an owner, and by who may only look.
    RemovedOwner, Viewer,
    /// alice's, with another body; and with that body's hash besides.
    EditedBody, EditedHash,
    /// alice's for another node, as it is; and sent to this one under its name.
    OtherNode, Retargeted,
    /// alice's for another fleet.
    OtherFleet,
    /// What was carried out once more; another of the same nonce; what held before; another of that revision.
    Again, UsedNonce, OlderRevision, SameRevision,
    /// alice's of yesterday, and of tomorrow.
    Expired, OfTomorrow,
    /// alice's, to a node that is told no time, or that of another question, of another node, or of no worker.
    NoTime, TimeOfAnotherQuestion, TimeOfAnotherNode, TimeOfNoWorker,
    /// With a roster in which the signer stands: the old one, one of the same version, one of no worker.
    OldRoster, RosterOfSameVersion, RosterOfNoWorker,
    /// By alice's passkey for orders, though the page signs nothing; by her owner key in that form.
    OnThePage, OwnerKeyOnThePage,
    /// What her passkey for signing in signed: a sign-in; and the order's own challenge, offered as one.
    SignIn, OrderAsSignIn,
    /// Her passkey for orders over a sign-in whose nonce is the order's hash; her owner key over such a request.
    HashAsSignIn, HashAsRequest,
}

/// What must come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Refused with this code.
    Refused(OrderCode),
    /// It holds or was done already: nothing happens, and nothing is refused.
    Nothing,
}

impl Deceit {
    /// What must come of it at this actor; nothing where there is no such thing.
    pub(super) fn want(self, actor: Actor, kind: OrderKind) -> Option<Want> {
        let (at_node, is_state) = (actor == Actor::Node, kind.is_state());
        let only = |there: bool, code| there.then_some(Want::Refused(code));
        let refused = |code| Some(Want::Refused(code));
        match self {
            Self::Forged | Self::EditedHash | Self::Retargeted | Self::HashAsRequest => {
                refused(OrderCode::SignatureInvalid)
            }
            Self::Stranger | Self::RemovedOwner => refused(OrderCode::OwnerUnknown),
            Self::StrangerAsAlice | Self::OwnerKeyOnThePage | Self::SignIn | Self::OrderAsSignIn => {
                refused(OrderCode::KeyUnknown)
            }
            Self::Viewer => refused(OrderCode::NotAnOwner),
            Self::EditedBody => refused(OrderCode::BodyMismatch),
            // The worker carries out an order for whichever node it names.
            Self::OtherNode => only(at_node, OrderCode::NotNamed),
            Self::OtherFleet => refused(OrderCode::OtherFleet),
            Self::Again => Some(Want::Nothing),
            Self::UsedNonce => only(!is_state, OrderCode::AlreadyDone),
            Self::OlderRevision => only(is_state, OrderCode::OlderRevision),
            Self::SameRevision => only(is_state, OrderCode::RevisionConflict),
            // What holds until the next revision ends with no day.
            Self::Expired => only(!is_state, OrderCode::Expired),
            Self::OfTomorrow => refused(OrderCode::NotYet),
            // The worker has its own clock and its own roster, and takes neither from anybody.
            Self::NoTime | Self::TimeOfAnotherQuestion | Self::TimeOfAnotherNode | Self::TimeOfNoWorker => {
                only(at_node, OrderCode::NoFreshness)
            }
            Self::OldRoster | Self::RosterOfSameVersion | Self::RosterOfNoWorker => {
                only(at_node, OrderCode::OwnerUnknown)
            }
            Self::OnThePage | Self::HashAsSignIn => refused(OrderCode::PageNotAllowed),
        }
    }
}

/// Whom orders of one kind are about, and what was ordered before.
pub(super) struct Aim {
    pub(super) fleet: Digest,
    pub(super) node: TestNode,
    pub(super) kind: OrderKind,
    pub(super) now: UnixTime,
    /// What was carried out before: of this kind where that is a state, else anything that is done once.
    pub(super) done: SignedOrder,
    /// Makes nonces differ.
    pub(super) serial: u8,
}

/// What a node is called by the order that renames it.
const RENAMED: &str = "renamed";

/// The most that an order of this kind does, so that nobody can miss it. Whoever adds a kind says here what that is.
pub(super) fn body(kind: OrderKind, node: &TestNode, now: UnixTime, ssh_key: &str) -> Body {
    let (hostname, fingerprint) = (node.hostname.clone(), node.fingerprint);
    match kind {
        OrderKind::Admit => Body::Admit(Admit { fingerprint, hostname, replaces: None }),
        OrderKind::SshKey => Body::SshKey(SshKeys {
            account: ACCOUNT.parse().unwrap(),
            keys: vec![LabelledKey { label: "laptop".parse().unwrap(), key: ssh_key.to_owned().try_into().unwrap() }],
        }),
        OrderKind::ReleaseLapse => Body::ReleaseLapse(ReleaseLapse {
            fingerprint,
            hostname,
            ended_at: lapsed_at(now),
            former_address: None,
            address: None,
            boot_id: None,
        }),
        OrderKind::CloneDecision => {
            Body::CloneDecision(CloneDecision { hostname, decision: Decision::Split, start_id: None })
        }
        OrderKind::RemoveIdentity => Body::RemoveIdentity(RemoveIdentity { hostname }),
        OrderKind::Rename => Body::Rename(RenameNode { hostname, new_hostname: RENAMED.parse().unwrap() }),
    }
}

/// What shows that the worker carried an order out.
pub(super) enum Seen {
    Certificate,
    /// What the worker's ledger has of the node by then.
    Ledger(fn(&NodeRecord) -> bool),
    /// It does not: the node does.
    Elsewhere,
}

/// Whom an order of this kind is about at the worker, and what shows that it was carried out there.
pub(super) fn control(kind: OrderKind) -> (u8, Seen) {
    match kind {
        OrderKind::Admit => (STRANGER, Seen::Certificate),
        OrderKind::ReleaseLapse => (LAPSED, Seen::Certificate),
        OrderKind::CloneDecision => (COPIED, Seen::Ledger(is_barred)),
        OrderKind::RemoveIdentity => (LEAVING, Seen::Ledger(is_barred)),
        OrderKind::SshKey => (LEAVING, Seen::Elsewhere),
        OrderKind::Rename => (LAPSED, Seen::Ledger(|node| node.names.hostname.as_str() == RENAMED)),
    }
}

pub(super) fn is_barred(node: &NodeRecord) -> bool {
    node.barred_at.is_some()
}

/// The kinds that somebody carries out.
pub(super) fn kinds(actor: Actor) -> impl Iterator<Item = OrderKind> {
    OrderKind::ALL.iter().copied().filter(move |kind| kind.actors().contains(&actor))
}

/// An order's head, for an hour or as this revision.
pub(super) fn intent(
    fleet: Digest,
    by: &TestOwner,
    node: &NodeId,
    kind: OrderKind,
    now: UnixTime,
    number: u8,
) -> OrderHead {
    let terms = if kind.is_state() {
        Terms::State { subject: ACCOUNT.parse().unwrap(), revision: u64::from(number) }
    } else {
        Terms::Once { not_after: now.plus(HOUR), nonce: Nonce::from_bytes(&[number; 32]) }
    };
    let (owner, nodes) = (by.id.clone(), vec![node.clone()]);
    OrderHead { kind, fleet, owner, nodes, body_sha256: Digest::ZERO, issued_at: now, terms }
}

/// Signed by who orders.
pub(super) fn signed(draft: &Draft, by: &TestOwner) -> SignedOrder {
    with(draft, by.sign(draft))
}

fn with(draft: &Draft, signature: OrderSignature) -> SignedOrder {
    draft.read().unwrap().signed(vec![signature])
}

fn origin() -> PageOrigin {
    "https://controller.test:8443".parse().unwrap()
}

/// alice's passkey for signing in, which stands in no roster.
fn sign_in_passkey() -> NodeKey {
    key(61)
}

/// A challenge whose nonce the attacker chose.
fn offered(nonce: &Digest, now: UnixTime) -> Challenge {
    Challenge {
        challenge_id: ChallengeId::from_parts(now.secs() * 1000, 5),
        nonce: Nonce::from_bytes(nonce.as_bytes()),
        expires_at: now.plus(HOUR),
    }
}

impl Aim {
    fn draft(&self, by: &TestOwner, act: Deceit, change: impl FnOnce(&mut OrderHead)) -> Draft {
        let next = if self.kind.is_state() { u8::try_from(self.held()).unwrap() + 1 } else { self.serial };
        let mut intent = intent(self.fleet, by, &self.node.node_id, self.kind, self.now, next);
        if let Terms::Once { nonce, .. } = &mut intent.terms {
            // Each act is an order of its own, and no two share a file.
            let mut random = [self.serial; 32];
            random[0] = u8::try_from(Deceit::ALL.iter().position(|one| *one == act).unwrap()).unwrap();
            *nonce = Nonce::from_bytes(&random);
        }
        change(&mut intent);
        Draft::new(intent, &body(self.kind, &self.node, self.now, EVIL_KEY)).unwrap()
    }

    /// alice's for another node, with all that makes it good there.
    fn elsewhere(&self) -> SignedOrder {
        let other = TestNode::new(99);
        let intent = intent(self.fleet, &alice(), &other.node_id, self.kind, self.now, self.serial);
        signed(&Draft::new(intent, &body(self.kind, &other, self.now, EVIL_KEY)).unwrap(), &alice())
    }

    fn done_terms(&self) -> Terms {
        OrderHead::parse(&self.done.intent_json).unwrap().terms
    }

    /// The revision that holds, for what has one.
    fn held(&self) -> u64 {
        match self.done_terms() {
            Terms::State { revision, .. } => revision,
            Terms::Once { .. } => 0,
        }
    }

    /// The order that is sent for an act.
    pub(super) fn order(&self, act: Deceit) -> SignedOrder {
        let good = self.draft(&alice(), act, |_| ());
        let by = |who: &TestOwner| signed(&self.draft(who, act, |_| ()), who);
        let changed = |change: &dyn Fn(&mut OrderHead)| signed(&self.draft(&alice(), act, change), &alice());
        let owner_key = alice().key.public().fingerprint();
        let hash = Digest::of(good.intent_json.as_bytes());
        match act {
            Deceit::Forged => {
                let text = mallory().key.sign(good.intent_json.as_bytes()).to_text();
                with(&good, OrderSignature::with_key(alice().id, owner_key, text))
            }
            Deceit::Stranger => by(&mallory()),
            Deceit::StrangerAsAlice => with(&good, good.read().unwrap().sign(alice().id, &mallory().key)),
            Deceit::RemovedOwner | Deceit::OldRoster => by(&carol()),
            Deceit::Viewer => by(&victor()),
            Deceit::EditedBody => SignedOrder { body: self.elsewhere().body + " ", ..signed(&good, &alice()) },
            Deceit::EditedHash => {
                let body = body(self.kind, &self.node, self.now, SSH_KEY).to_text().unwrap() + " ";
                let (was, is) = (Digest::of(good.body.as_bytes()), Digest::of(body.as_bytes()));
                let order = signed(&good, &alice());
                let intent_json = order.intent_json.replace(&was.to_string(), &is.to_string());
                assert_ne!(intent_json, order.intent_json);
                SignedOrder { intent_json, body, ..order }
            }
            Deceit::OtherNode => self.elsewhere(),
            Deceit::Retargeted => {
                let order = self.elsewhere();
                let other = TestNode::new(99).node_id;
                let intent_json = order.intent_json.replace(other.as_str(), self.node.node_id.as_str());
                assert_ne!(intent_json, order.intent_json);
                SignedOrder { intent_json, ..order }
            }
            Deceit::OtherFleet => changed(&|intent| intent.fleet = Digest::of(b"another root")),
            Deceit::Again => self.done.clone(),
            Deceit::UsedNonce => changed(&|intent| {
                if let (Terms::Once { nonce, .. }, Terms::Once { nonce: used, .. }) =
                    (&mut intent.terms, self.done_terms())
                {
                    *nonce = used;
                }
            }),
            Deceit::OlderRevision | Deceit::SameRevision => changed(&|intent| {
                if let Terms::State { revision, .. } = &mut intent.terms {
                    *revision = self.held() - u64::from(act == Deceit::OlderRevision);
                }
            }),
            Deceit::Expired => changed(&|intent| {
                intent.issued_at = self.now.minus(2 * HOUR);
                if let Terms::Once { not_after, .. } = &mut intent.terms {
                    *not_after = self.now.minus(HOUR);
                }
            }),
            Deceit::OfTomorrow => changed(&|intent| {
                intent.issued_at = self.now.plus(20 * HOUR);
                if let Terms::Once { not_after, .. } = &mut intent.terms {
                    *not_after = self.now.plus(40 * HOUR);
                }
            }),
            Deceit::NoTime | Deceit::TimeOfAnotherQuestion | Deceit::TimeOfAnotherNode | Deceit::TimeOfNoWorker => {
                signed(&good, &alice())
            }
            Deceit::RosterOfSameVersion | Deceit::RosterOfNoWorker => by(&mallory()),
            Deceit::OnThePage => with(&good, alice().touch(&good, &origin())),
            Deceit::OwnerKeyOnThePage => self.asserted(&good, &alice().key, &passkey_challenge(&good.intent_json)),
            Deceit::SignIn => {
                let Challenge { challenge_id, nonce, .. } = offered(&Digest::of(b"any"), self.now);
                self.asserted(&good, &sign_in_passkey(), &sign_in::challenge(&challenge_id, &nonce))
            }
            // The page is the attacker's: it asks for the very bytes that a signature on the page is made over.
            Deceit::OrderAsSignIn => self.asserted(&good, &sign_in_passkey(), &passkey_challenge(&good.intent_json)),
            Deceit::HashAsSignIn => {
                let Challenge { challenge_id, nonce, .. } = offered(&hash, self.now);
                self.asserted(&good, &alice().passkey, &sign_in::challenge(&challenge_id, &nonce))
            }
            Deceit::HashAsRequest => {
                let request = OwnerRequest {
                    fleet: self.fleet,
                    owner: alice().id,
                    method: Method::Get,
                    target: "/api/host/nodes".parse().unwrap(),
                    body_sha256: hash,
                };
                let proof = OwnerProof::sign(&request, &offered(&hash, self.now), &alice().key).unwrap();
                with(&good, OrderSignature::with_key(alice().id, owner_key, proof.signature))
            }
        }
    }

    fn asserted(&self, draft: &Draft, passkey: &NodeKey, challenge: &[u8; 32]) -> SignedOrder {
        let assertion = assertion(passkey, challenge, &origin(), |_, _| ());
        with(draft, OrderSignature::with_passkey(alice().id, passkey.public().fingerprint(), assertion))
    }
}

/// Each actor's rows of each kind that it carries out are many: none was forgotten when a kind was added.
// spec: OS-10
#[test]
fn every_kind_has_its_rows_at_everybody_who_carries_it_out() {
    let mut pairs = 0;
    for kind in OrderKind::ALL {
        for actor in [Actor::Node, Actor::Worker] {
            let rows = Deceit::ALL.iter().filter(|act| act.want(actor, *kind).is_some()).count();
            assert!(rows >= 18, "{rows} rows of {} at {}", kind.as_str(), actor.as_str());
            pairs += usize::from(kind.actors().contains(&actor));
        }
    }
    assert!(pairs >= 7, "{pairs}");
}
