//! Owners at the controller (design.md O1, O3): who of the roster calls, who asks to be in it.
//!
//! The controller decides nothing about who is an owner. It holds the roster that the worker published, checked with
//! the root it was given, and lets in whoever has a key of it. What it cannot check nobody here believes.

mod about;
mod applications;
mod carry;
mod leaving;
mod lists;
mod orders;
mod progress;
mod relay;
mod room;
#[cfg(test)]
mod tests;
mod trust;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use lucia_durable::PrivateDir;
use lucia_people::audit::{AuditActor, AuditEntry};
use lucia_people::owner_api::RosterView;
use lucia_proto::base::acts::Act;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::{APPLICATIONS_PER_SOURCE, OWNER_CALLS_PER_SOURCE, QUEUE_FILE_MAX};
use lucia_proto::files::owner_queue::{BUNDLE_FILE, OwnerFile, ROSTER_FILE};
use lucia_proto::node::challenge::Scope;
use lucia_proto::orders::OrderId;
use lucia_proto::orders::owner::OwnerId;
use lucia_proto::orders::owner_proof::{Arrived, Method, OwnerProof, OwnerProofError, VerifiedRequest};
use lucia_proto::orders::roster::{TakenRoster, VerifiedRoster};
use lucia_proto::pki::key::Signature;

use super::challenges::Whose;
use super::fleet::Fleet;
use super::{Controller, OpenError};
use crate::bridge::owners::OwnerQueue;
use crate::lock::lock;
use crate::refusal::{Refusal, chain};
use crate::source::Rates;
use crate::store::drafts::DraftFiles;
use crate::store::roster_mark;
pub use applications::Applicant;
use applications::Applications;
use lists::Lists;
use orders::Orders;
use relay::Relay;
use trust::Trust;

/// What the controller holds of owners.
///
/// Locks are taken in this order: `orders` before any other lock of the controller, `applications`, `asked`,
/// `seen`; none of them while a node's state is held. `relay` is the last of all, and held for no write.
pub(super) struct Owners {
    trust: RwLock<Option<Trust>>,
    queue: Arc<OwnerQueue>,
    seen: Mutex<FilesRead>,
    /// What the worker signed of its ledger.
    lists: Lists,
    applications: Mutex<Applications>,
    orders: Mutex<Orders>,
    /// Orders that lie in the worker's queue.
    asked: Mutex<BTreeSet<OrderId>>,
    relay: Mutex<Relay>,
    /// The controller's own directory.
    dir: Arc<PrivateDir>,
    /// Calls with a proof, and changes in a session.
    calls: Rates,
    /// Applications.
    asking: Rates,
}

/// What was last looked at of the worker's files.
#[derive(Debug, Default)]
struct FilesRead {
    /// The bytes of bundle and roster: the same ones are not verified twice.
    files: Option<(Option<Digest>, Option<Digest>)>,
    mark: Option<TakenRoster>,
    /// What was said about them last, so that it is said once.
    said: String,
}

/// A request that came with an owner's proof.
#[derive(Clone, Copy, Debug)]
pub struct OwnerCall<'a> {
    /// The proof.
    pub proof: &'a OwnerProof,
    /// The method.
    pub method: Method,
    /// Path and query, as they arrived.
    pub target: &'a str,
    /// The body, as it arrived.
    pub body: &'a [u8],
}

impl Owners {
    pub(super) fn open(dir: PrivateDir, queue: Arc<OwnerQueue>, fleet: &Fleet) -> Result<Self, OpenError> {
        let lists = Lists::open(&dir, fleet).map_err(OpenError::RosterMark)?;
        let mark = roster_mark::read(&dir).map_err(OpenError::RosterMark)?;
        queue.clean().map_err(OpenError::Write)?;
        let applications = Applications::load(&queue).map_err(OpenError::Write)?;
        let asked = settle_requests(&queue).map_err(OpenError::Write)?;
        let dir = Arc::new(dir);
        let orders = Orders::open(DraftFiles::new(Arc::clone(&dir))).map_err(OpenError::Drafts)?;
        Ok(Self {
            trust: RwLock::default(),
            queue,
            lists,
            seen: Mutex::new(FilesRead { mark, ..FilesRead::default() }),
            applications: Mutex::new(applications),
            orders: Mutex::new(orders),
            asked: Mutex::new(asked),
            relay: Mutex::default(),
            dir,
            calls: Rates::new(OWNER_CALLS_PER_SOURCE, Duration::from_secs(1)),
            asking: Rates::new(APPLICATIONS_PER_SOURCE, Duration::from_secs(60)),
        })
    }

    fn trust(&self) -> Option<Trust> {
        self.trust.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn roster(&self) -> Option<Arc<VerifiedRoster>> {
        self.trust()?.roster
    }
}

impl Controller {
    /// Whoever of the roster signed this very request over a fresh challenge.
    ///
    /// An unknown key, a wrong one, another request and a controller without a roster are one and the same refusal
    /// after one verification.
    ///
    /// # Errors
    /// `too_many_requests`, `challenge_refused`, `actor_required`.
    pub fn owner(&self, call: &OwnerCall<'_>, from: IpAddr) -> Result<VerifiedRequest, Refusal> {
        self.owners.calls.allow(from, self.clock.since_boot())?;
        let OwnerCall { proof, method, target, body } = *call;
        let nonce = self.challenges.open(&proof.challenge_id, &Scope::Owner, from)?;
        let dummy = self.verifier.dummy();
        self.verifier.count();
        let Some(roster) = self.owners.roster() else {
            // As much work as with one.
            let _ = Signature::from_text(&proof.signature)
                .and_then(|signature| dummy.verify(proof.request_json.as_bytes(), &signature));
            return Err(Refusal::actor("there is no roster to look the key up in"));
        };
        let fleet = self.verifier.fleet();
        let arrived = Arrived { fleet: &fleet, method, target, body };
        let verified = proof.verify(&nonce, &roster, dummy, &arrived).map_err(|error| refused_proof(&error))?;
        self.challenges.accept(&proof.challenge_id, Whose::Owner(&verified.owner().id))?;
        Ok(verified)
    }

    /// The roster that is held.
    pub fn verified_roster(&self) -> Option<Arc<VerifiedRoster>> {
        self.owners.roster()
    }

    /// The roster as the worker signed it, with the bundle that says whose signature that is.
    pub fn roster(&self) -> RosterView {
        let trust = self.owners.trust();
        RosterView {
            roster: trust.as_ref().and_then(|trust| trust.roster.as_ref()).map(|roster| roster.signed().clone()),
            bundle: trust.map(|trust| trust.bundle.signed().clone()),
        }
    }

    /// Counts a change that is made in a session as a call with a proof counts: one of its source, and one of its owner.
    ///
    /// # Errors
    /// `too_many_requests`.
    pub fn count_change(&self, owner: &OwnerId, from: IpAddr) -> Result<(), Refusal> {
        self.owners.calls.allow(from, self.clock.since_boot())?;
        self.challenges.count_owner(owner)
    }

    /// What time brings about owners: the worker's newest files, and who no longer waits.
    pub(super) fn follow_owners(&self) {
        self.follow_worker();
        self.follow_lists();
        let roster = self.owners.roster();
        let is_there = |application: &lucia_proto::orders::application::Application| {
            let key = application.key().ok();
            key.is_some_and(|key| roster.as_ref().is_some_and(|roster| applications::has(roster, application, &key)))
        };
        let mut applications = lock(&self.owners.applications);
        let queue = &self.owners.queue;
        if let Err(refusal) = applications.expire(&queue, self.clock.now(), is_there) {
            tracing::warn!(code = refusal.code.as_str(), "applications that ran out stay: {refusal}");
        }
        drop(applications);
        self.follow_orders();
    }

    /// Puts into memory what waits from before the start.
    pub(super) fn start_orders(&self) {
        self.follow_worker();
        self.index_orders(&lock(&self.owners.orders));
        self.follow_lists();
    }

    /// Takes the bundle and the roster that the worker published, when they changed.
    pub(super) fn follow_worker(&self) {
        let queue = &self.owners.queue;
        let mut seen = lock(&self.owners.seen);
        let mut trouble = Vec::new();
        let (bundle, roster) = match queue.answers() {
            Ok(None) => {
                trouble.push("the enrollment worker has made no owner-responses yet".to_owned());
                (None, None)
            }
            Err(error) => {
                trouble.push(chain(&error));
                (None, None)
            }
            Ok(Some(answers)) => {
                let mut read = |file| match answers.read(file, QUEUE_FILE_MAX) {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        trouble.push(error);
                        None
                    }
                };
                (read(BUNDLE_FILE), read(ROSTER_FILE))
            }
        };
        let digest = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(Digest::of);
        let files = (digest(&bundle), digest(&roster));
        if seen.files == Some(files) && trouble.is_empty() {
            return;
        }
        let held = self.owners.trust();
        let root = self.verifier.root();
        let (next, refused) =
            trust::next(held.as_ref(), seen.mark.as_ref(), root, bundle.as_deref(), roster.as_deref());
        trouble.extend(refused.iter().map(|error| chain(error)));
        match next.map(|next| self.mark(&mut seen, next)).transpose() {
            Ok(next) => {
                lock(&self.owners.relay).set_trust(next.clone());
                *self.owners.trust.write().unwrap_or_else(PoisonError::into_inner) = next;
                seen.files = Some(files);
            }
            // What is not marked does not count, and is tried again.
            Err(refusal) => trouble.push(refusal.log),
        }
        let said = trouble.join("; ");
        if said != seen.said && !said.is_empty() {
            tracing::warn!("owners: {}", lucia_proto::base::text::shown(&said));
        }
        seen.said = said;
    }

    /// Writes which roster this is, before it counts.
    fn mark(&self, seen: &mut FilesRead, next: Trust) -> Result<Trust, Refusal> {
        let Some(roster) = &next.roster else { return Ok(next) };
        let (taken, former) = (roster.taken(), seen.mark);
        if former != Some(taken) {
            roster_mark::write(&self.owners.dir, &taken).map_err(|error| Refusal::persistence(&error))?;
            seen.mark = Some(taken);
        }
        if former.is_none_or(|former| former.mark() != taken.mark()) {
            tracing::info!(version = roster.version(), "the worker published a roster");
            // An entry that cannot be written waits; the roster counts all the same, since it may have let somebody go.
            let now = self.clock.now();
            let _ = self.audit.note(vec![AuditEntry::new(now, AuditActor::Worker, Act::RosterTaken)]);
        }
        Ok(next)
    }
}

/// Orders that lie in the queue from before the start. Questions go: a node asks again as long as it waits.
fn settle_requests(queue: &OwnerQueue) -> Result<BTreeSet<OrderId>, Refusal> {
    let mut asked = BTreeSet::new();
    for file in queue.requests()? {
        match &file {
            OwnerFile::OrderHead(id) => {
                asked.insert(*id);
            }
            OwnerFile::Freshness(_) => queue.withdraw(&file)?,
            OwnerFile::Application(_) | OwnerFile::AuditHead => {}
        }
    }
    Ok(asked)
}

/// Only the header's own form is told apart, and that before anything is looked up.
fn refused_proof(error: &OwnerProofError) -> Refusal {
    Refusal::actor(format!("the owner's proof is refused: {}", chain(error)))
}
