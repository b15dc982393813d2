//! The orders the controller keeps: handed in, signed, looked at, thrown away (design.md O2).
//!
//! The controller checks what it can, so that a person hears at once of a mistake; those who carry an order out check it
//! all anew. Nothing here makes an order good.

use std::collections::BTreeMap;
use std::time::Duration;

use lucia_people::audit::{AuditActor, AuditEntry};
use lucia_people::owner_api::{DraftForm, DraftLine, DraftState, DraftView, DraftsView, GoneNode};
use lucia_people::why::Machine;
use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::Label;
use lucia_proto::base::code::Code;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::{
    DRAFTS_PER_ANSWER_MAX, DRAFTS_TOLD_PER_ANSWER_MAX, ORDER_AHEAD, ORDER_SIGNATURES_MAX, SIGNED_INTENT_MAX,
};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::Event;
use lucia_proto::node::challenge::Nonce;
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::orders::{
    Actor, Body, Draft, DraftError, Effect, OrderCode, OrderHead, OrderId, OrderSignature, Rule, SshKeys, Terms,
};
use lucia_proto::pki::key::VerificationCode;

use super::Orders;
use super::about::Given;
use super::book::{entry, signed};
use super::progress::{Entry, signers};
use crate::lock::lock;
use crate::parts::audit::{AuditedChange, By};
use crate::parts::journal::removals;
use crate::refusal::{Refusal, chain};
use crate::store::drafts::DraftRow;

/// How long what is drafted here and done once may be carried out: an owner with the page open signs soon.
const DRAFTED_FOR: Duration = Duration::from_secs(12 * 3600);

/// Room for two signatures beside an order.
const SIGNATURES_ROOM: usize = 4096;

/// An order or signature that is none, with the code that its own checks have for that, and the cure.
fn refused(code: OrderCode, log: impl Into<String>) -> Refusal {
    Refusal::logged(Code::IntentRefused, format!("{}: {}.", code.as_str(), code.cure()), log)
}

/// A draft that cannot be read. Of a key that is none it says what luciactl says of the same key.
fn unread(draft: &Draft, error: &DraftError) -> Refusal {
    match SshKeys::first_bad_key(&draft.body) {
        Some(bad) => Refusal::logged(Code::IntentRefused, format!("The key is not taken: {bad}."), chain(error)),
        None => refused(OrderCode::Malformed, chain(error)),
    }
}

/// Whether somebody could sign this draft now and have it carried out.
fn check_draft(draft: &Draft, roster: &VerifiedRoster, now: UnixTime) -> Result<(), Refusal> {
    let read = draft.read_new().map_err(|error| unread(draft, &error))?;
    let intent = read.intent();
    let bytes = read.signed(Vec::new()).to_bytes().map_err(|error| refused(OrderCode::Malformed, chain(&error)))?;
    if bytes.len() + SIGNATURES_ROOM > SIGNED_INTENT_MAX {
        let message = "The draft is too long to be sent; name fewer nodes.";
        return Err(Refusal::new(Code::InvalidOnboardingRequest, message));
    }
    if intent.fleet != roster.roster().fleet {
        return Err(refused(OrderCode::OtherFleet, "the draft is for another fleet"));
    }
    let owner = roster.owner(&intent.owner);
    let owner = owner.ok_or_else(|| refused(OrderCode::OwnerUnknown, "the draft's owner is not in the roster"))?;
    if owner.role < Role::Owner {
        return Err(refused(OrderCode::NotAnOwner, "the draft's owner is a viewer"));
    }
    match roster.policy().rule(intent.kind) {
        Rule::Forbid => return Err(refused(OrderCode::KindForbidden, "the roster's policy forbids the kind")),
        Rule::Allow | Rule::TwoOwners => {}
    }
    if intent.issued_at > now.plus(ORDER_AHEAD) {
        return Err(refused(OrderCode::NotYet, "the draft was made later than now"));
    }
    match intent.terms {
        Terms::Once { not_after, .. } if not_after < now => Err(refused(OrderCode::Expired, "the draft ran out")),
        Terms::Once { .. } | Terms::State { .. } => Ok(()),
    }
}

/// Whether these signatures make the draft an order, as far as the roster's policy goes.
pub(super) fn is_enough(entry: &Entry, roster: &VerifiedRoster) -> bool {
    let signers = signers(&entry.row);
    signers.contains(&entry.intent.owner)
        && match roster.policy().rule(entry.kind()) {
            Rule::Allow => true,
            Rule::TwoOwners => signers.len() >= 2,
            Rule::Forbid => false,
        }
}

/// The entry with one signature more, if it is one.
fn add_signature(
    entry: &Entry,
    signature: OrderSignature,
    roster: &VerifiedRoster,
    now: UnixTime,
) -> Result<Entry, Refusal> {
    signed(entry)
        .check_signature(&signature, entry.kind(), roster)
        .map_err(|refusal| refused(refusal.code(), chain(&refusal)))?;
    let mut next = entry.clone();
    let signatures = &mut next.row.signatures;
    signatures.retain(|other| other.owner != signature.owner);
    let is_owners = signature.owner == entry.intent.owner;
    // One place stays for the owner who orders: without that signature the others are worth nothing.
    let has_owners = signatures.iter().any(|other| other.owner == entry.intent.owner);
    if signatures.len() >= ORDER_SIGNATURES_MAX || (!is_owners && !has_owners && !signatures.is_empty()) {
        return Err(Refusal::new(Code::IntentRefused, "Two owners signed it, or the one who orders is to sign first."));
    }
    signatures.push(signature);
    if next.row.signed_at.is_none() && is_enough(&next, roster) {
        next.row.signed_at = Some(now);
    }
    if next.row.signatures.len() > entry.row.signatures.len() {
        // Whoever asked for a second owner is asked again.
        let lacked = |refused: Option<OrderCode>| refused == Some(OrderCode::SecondOwnerNeeded);
        next.row.nodes.retain(|outcome| !lacked(outcome.refused));
        if next.row.worker.as_ref().is_some_and(|outcome| lacked(outcome.refused)) {
            next.row.former = next.row.worker.take();
        }
    }
    Ok(next)
}

impl Orders {
    /// The nodes of an order that were removed before they carried it out, as the journal's events still tell of them.
    fn gone(&self, entry: &Entry, removals: &BTreeMap<&NodeId, &Event>) -> Vec<GoneNode> {
        let told = |node_id: NodeId| match removals.get(&node_id) {
            Some(event) => GoneNode { node_id, hostname: event.hostname.clone(), removed_at: Some(event.at) },
            None => GoneNode { node_id, hostname: None, removed_at: None },
        };
        entry.gone(|node| self.fleet.is_there(node)).into_iter().map(told).collect()
    }

    /// Whether somebody may have it who did not say yet what became of it. The worker finds an order as soon as it is
    /// signed; a node is handed it with any heartbeat after that, and which one it was nothing here remembers.
    fn is_handed_out(&self, entry: &Entry, now: UnixTime) -> bool {
        let Some(signed_at) = entry.row.signed_at else { return false };
        let has_heard = |node: &NodeId| self.fleet.last_seen(node).is_some_and(|last| last >= signed_at);
        !entry.is_ended(now, |node| self.fleet.is_there(node))
            && (entry.has(Actor::Worker) || entry.intent.nodes.iter().any(has_heard))
    }

    /// The order by which the worker barred this node's key: one that ends it, or that gave its place to another; and what
    /// its machine has of the identity after that.
    pub(crate) fn end_of(&self, node: &NodeId) -> Option<(VerificationCode, Machine)> {
        let orders = lock(&self.book);
        let end = orders.all().find(|entry| entry.is_the_end_of(node));
        end.map(|entry| (entry.id.code(), entry.leaves(node)))
    }

    fn roster_or_none(&self) -> Result<std::sync::Arc<VerifiedRoster>, Refusal> {
        let message = "There is no roster yet: an owner is approved on the worker's host \
                       (lucia-enrollment-worker owner pending).";
        self.people.verified_roster().ok_or_else(|| Refusal::new(Code::NoRoster, message))
    }

    /// Takes a draft. The same draft is the same answer.
    ///
    /// # Errors
    /// `intent_refused`, `no_roster`, `verification_code_collision`, `registry_full`, `unknown_node`, `hostname_in_use`.
    pub fn add_draft(&self, draft: Draft, by: &By) -> Result<DraftView, Refusal> {
        let intent = Some(OrderId::of(&draft.intent_json));
        let act = AuditedChange { intent, ..AuditedChange::new(Act::DraftAdded, None) };
        self.audit.audited(by, &act, || {
            let (now, roster) = (self.clock.now(), self.roster_or_none()?);
            check_draft(&draft, &roster, now)?;
            let by = Label::fitted(&by.actor());
            let by = by.ok_or_else(|| Refusal::new(Code::InvalidOnboardingRequest, "This call names nobody."))?;
            let new = entry(DraftRow::new(draft, by, now));
            let new = new.ok_or_else(|| refused(OrderCode::Malformed, "a draft that was read cannot be read"))?;
            if new.has(Actor::Node)
                && let Some(node) = new.intent.nodes.iter().find(|node| !self.fleet.is_there(node))
            {
                return Err(Refusal::new(Code::UnknownNode, format!("There is no node {node}.")));
            }
            if let (Effect::Renames(name), Some(node)) = (new.body.effect(), new.node()) {
                // What the machine calls itself has to agree before anybody signs.
                self.enrollment.may_rename(node, name)?;
            }
            let mut orders = lock(&self.book);
            if let Some(there) = orders.get(&new.id) {
                return Ok(view(there));
            }
            if orders.of_code(&new.id.code()).is_some() {
                let message = "Another draft has this code; draft it anew, which makes another code.";
                return Err(Refusal::new(Code::VerificationCodeCollision, message));
            }
            let bytes = new.row.draft.intent_json.len() + new.row.draft.body.len();
            let is_there = |node: &NodeId| self.fleet.is_there(node);
            let (by, owner) = (&new.row.drafted_by, &new.intent.owner);
            orders.make_room(by, owner, bytes, |entry| entry.is_ended(now, is_there), is_there)?;
            let answer = view(&new);
            orders.write(new)?;
            Ok(answer)
        })
    }

    /// Makes a draft of what somebody means, and takes it.
    ///
    /// # Errors
    /// As [`Self::add_draft`]; the operator owns no order.
    pub fn make_draft(&self, form: DraftForm, by: &By) -> Result<DraftView, Refusal> {
        let invalid = |message: &str| Refusal::new(Code::InvalidOnboardingRequest, message);
        let By::Owner { id: owner, .. } = by else { return Err(invalid("An order is an owner's: sign in as one.")) };
        let now = self.clock.now();
        let terms = match (form.kind.is_state(), form.subject, form.revision) {
            (true, Some(subject), Some(revision)) => Terms::State { subject, revision },
            (false, None, None) => {
                let mut nonce = [0; 32];
                getrandom::fill(&mut nonce).map_err(Refusal::no_randomness)?;
                Terms::Once { not_after: now.plus(DRAFTED_FOR), nonce: Nonce::from_bytes(&nonce) }
            }
            _ => return Err(invalid("subject, revision: both of a state, and neither of what is done once.")),
        };
        let DraftForm { kind, mut nodes, body, .. } = form;
        nodes.sort();
        let fleet = self.roster_or_none()?.roster().fleet;
        let (owner, issued_at, body_sha256) = (owner.clone(), now, Digest::ZERO);
        let head = OrderHead { kind, fleet, owner, nodes, body_sha256, issued_at, terms };
        let draft = Body::parse(kind, &body).map_err(DraftError::Body).and_then(|body| Draft::new(head, &body));
        let draft = draft.map_err(|error| unread(&Draft { intent_json: String::new(), body }, &error))?;
        self.add_draft(draft, by)
    }

    /// Drafts, the newest first: at most a hundred, older than the one with the code `after`.
    ///
    /// # Errors
    /// `draft_not_found` when there is no draft of that code.
    pub fn drafts(&self, after: Option<&VerificationCode>) -> Result<DraftsView, Refusal> {
        let now = self.clock.now();
        let orders = lock(&self.book);
        let before = match after {
            Some(code) => {
                let entry = orders.of_code(code).ok_or_else(|| not_found(code))?;
                Some((entry.row.at, entry.id))
            }
            None => None,
        };
        let mut entries: Vec<&Entry> =
            orders.all().filter(|entry| before.is_none_or(|before| (entry.row.at, entry.id) < before)).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse((entry.row.at, entry.id)));
        let journal = self.journal.read();
        let removals = removals(&journal);
        let given = Given::of(orders.all());
        let line = |entry: &&Entry| DraftLine {
            code: entry.id.code(),
            intent: entry.id,
            kind: entry.kind(),
            about: given.about(entry),
            owner: entry.intent.owner.clone(),
            signers: signers(&entry.row),
            state: entry.state(now, |node| self.fleet.is_there(node)),
            gone: self.gone(entry, &removals),
            handed_out: self.is_handed_out(entry, now),
            at: entry.row.at,
            drafted_by: entry.row.drafted_by.clone(),
            outcomes: entry.outcomes(),
        };
        let mut told = 0;
        let fits = |entry: &&&Entry| {
            let first = told == 0;
            told += 1 + entry.row.nodes.len() + entry.gone(|node| self.fleet.is_there(node)).len();
            first || told <= DRAFTS_TOLD_PER_ANSWER_MAX
        };
        let drafts = entries.iter().take_while(fits).take(DRAFTS_PER_ANSWER_MAX).map(line).collect();
        Ok(DraftsView { server_time: now, drafts })
    }

    /// One draft.
    ///
    /// # Errors
    /// `draft_not_found`.
    pub fn draft(&self, code: &VerificationCode) -> Result<DraftView, Refusal> {
        lock(&self.book).of_code(code).map(view).ok_or_else(|| not_found(code))
    }

    /// Whether this draft is still kept.
    pub fn has_draft(&self, id: &OrderId) -> bool {
        lock(&self.book).get(id).is_some()
    }

    /// Takes a signature under a draft. When enough have signed it is an order, and goes to those who carry it out.
    ///
    /// # Errors
    /// `draft_not_found`, `intent_refused`, `no_roster`.
    pub fn sign(&self, code: &VerificationCode, signature: OrderSignature, by: &By) -> Result<DraftView, Refusal> {
        let act = self.act_on(Act::IntentSigned, code);
        self.audit.audited(by, &act, || {
            let (now, roster) = (self.clock.now(), self.roster_or_none()?);
            let mut orders = lock(&self.book);
            let there = orders.of_code(code).ok_or_else(|| not_found(code))?;
            if there.row.signatures.contains(&signature) {
                return Ok(view(there));
            }
            let for_nobody = || {
                let message =
                    "The order cannot be signed: every node that it names was removed. Throw it away (luciactl drop).";
                Refusal::new(Code::UnknownNode, message)
            };
            match there.state(now, |node| self.fleet.is_there(node)) {
                DraftState::Drafted if there.is_for_nobody(|node| self.fleet.is_there(node)) => return Err(for_nobody()),
                DraftState::Drafted | DraftState::Signed => {}
                DraftState::Expired => return Err(refused(OrderCode::Expired, "the draft's time is over")),
                DraftState::Done => return Err(refused(OrderCode::AlreadyDone, "the order was carried out")),
                DraftState::NobodyLeft => return Err(for_nobody()),
                // A second owner's signature may be what was lacking.
                DraftState::Refused | DraftState::Replaced => {
                    if let Some(code) = there.is_beyond_signing(|node| self.fleet.is_there(node)) {
                        return Err(refused(code, "the order was refused"));
                    }
                }
            }
            let signer = roster.owner(&signature.owner).map(|owner| owner.name.clone());
            let signer = signer.map(|name| AuditActor::Owner(signature.owner.clone(), name));
            let next = add_signature(there, signature, &roster, now)?;
            let was_signed = there.row.signed_at.is_some();
            let (answer, is_new) = (view(&next), !was_signed && next.row.signed_at.is_some());
            orders.write(next.clone())?;
            if is_new {
                tracing::info!(intent = %next.id, kind = next.kind().as_str(), owner = %next.intent.owner, "an order was signed");
            }
            // The order stands on the disk: whatever becomes of its entry, it goes to those who carry it out.
            self.carry_one(&mut orders, &next.id, now);
            if is_new && let Some(actor) = signer {
                // By whose hand it arrived is an entry of its own; this one says whose order it is from now on.
                let note = AuditEntry::new(now, actor, Act::OrderGiven);
                self.audit.note(vec![AuditEntry { intent: Some(next.id), ..note }])?;
            }
            Ok(answer)
        })
    }

    /// What is done about the draft of this code.
    fn act_on(&self, action: Act, code: &VerificationCode) -> AuditedChange {
        let intent = lock(&self.book).of_code(code).map(|entry| entry.id);
        AuditedChange { intent, ..AuditedChange::new(action, None) }
    }

    /// Throws a draft away that nobody was handed, or that nobody carries out any more: what somebody may have, nobody calls
    /// back, and what becomes of it is to be seen.
    ///
    /// # Errors
    /// `draft_not_found`, `intent_refused`.
    pub fn drop_draft(&self, code: &VerificationCode, by: &By) -> Result<(), Refusal> {
        let act = self.act_on(Act::DraftDropped, code);
        self.audit.audited(by, &act, || {
            let mut orders = lock(&self.book);
            let there = orders.of_code(code).ok_or_else(|| not_found(code))?;
            if there.is_begun() {
                let message =
                    "The order was carried out already, so there is nothing to drop; another order undoes what it did.";
                return Err(Refusal::new(Code::IntentRefused, message));
            }
            let now = self.clock.now();
            if self.is_handed_out(there, now) {
                let until = there.not_after().map(|last| format!(" until {last}")).unwrap_or_default();
                let message = format!(
                    "The order was handed out and cannot be called back: whoever has it may still carry it out{until}. Give one \
                     against it where that is possible, and look at what becomes of it (luciactl drafts)."
                );
                return Err(Refusal::new(Code::IntentRefused, message));
            }
            let id = there.id;
            // First from where it could be carried out.
            self.withdraw_order(&id)?;
            orders.remove(&id)?;
            self.index_orders(&orders);
            Ok(())
        })
    }
}

fn view(entry: &Entry) -> DraftView {
    DraftView { draft: entry.row.draft.clone(), signatures: entry.row.signatures.clone() }
}

fn not_found(code: &VerificationCode) -> Refusal {
    Refusal::new(Code::DraftNotFound, format!("There is no draft {code}."))
}
