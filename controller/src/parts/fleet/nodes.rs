//! Who calls: the keys of all devices, one verification a call, and the verdict over a certificate kept until the chain
//! ends (design.md I5, part 6).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, RwLock};

use lucia_proto::base::code::Code;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::DeviceRow;
use lucia_proto::node::challenge::Nonce;
use lucia_proto::node::enrollment::IdentityRecord;
use lucia_proto::node::report::{Proof, ProofError, Purpose, Report, Verified};
use lucia_proto::pki::certificate::{Leaf, LeafRules};
use lucia_proto::pki::chain::{self, ChainError, Usage};
use lucia_proto::pki::key::NodePublicKey;

use super::clones::Thread;
use crate::lock::{lock, read, write};
use crate::parts::verifier::Verifier;
use crate::refusal::{self, Refusal};
use crate::store::samples::Samples;

/// Every device of the journal, by id.
pub(super) struct Nodes {
    known: RwLock<BTreeMap<NodeId, Arc<Known>>>,
    verifier: Arc<Verifier>,
}

/// One device.
pub(super) struct Known {
    pub(super) key: NodePublicKey,
    pub(super) state: Mutex<NodeState>,
}

/// What changes of a device without the journal.
#[derive(Default)]
pub(super) struct NodeState {
    /// There once the worker answered.
    pub(super) record: Option<IdentityRecord>,
    /// Whether `record` says more than its file.
    pub(super) dirty: bool,
    /// Whether it waits to be written before others, for a start that its file does not have.
    pub(super) first: bool,
    /// Whether the journal says Managed: then a heartbeat needs no disk.
    pub(super) managed: bool,
    pub(super) samples: Samples,
    /// What its present start said and was given.
    pub(super) thread: Thread,
    /// Its name before and after, from a rename until it is heard under the one it was given.
    renaming: Option<Renaming>,
    /// The certificate that was last found good, as it was sent, how long that holds, and under which name it is.
    verdict: Option<(Digest, UnixTime, Under)>,
}

/// A node that is given another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Renaming {
    pub(super) from: Hostname,
    pub(super) to: Hostname,
}

/// Under which of its names a node calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Under {
    /// The approved one.
    Approved,
    /// The one that a rename takes from it.
    Former,
}

impl NodeState {
    /// What the journal says of its name.
    pub(super) fn follow_name(&mut self, device: Option<&DeviceRow>) {
        let named = |row: &DeviceRow| Some(Renaming { from: row.former_hostname.clone()?, to: row.hostname.clone()? });
        let renaming = device.and_then(named);
        if self.renaming != renaming {
            (self.renaming, self.verdict) = (renaming, None);
        }
    }

    /// The name in its certificate, which was found to be this one of its names.
    pub(super) fn called(&self, under: Under) -> Option<Hostname> {
        match (&self.renaming, under) {
            (Some(renaming), Under::Former) => Some(renaming.from.clone()),
            (Some(renaming), Under::Approved) => Some(renaming.to.clone()),
            (None, _) => self.record.as_ref().map(|record| record.hostname.clone()),
        }
    }

    /// Its name before and after, while it is renamed.
    pub(super) const fn renaming(&self) -> Option<&Renaming> {
        self.renaming.as_ref()
    }
}

/// Which certificates a call takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lapsed {
    /// Only what is valid now.
    Refused,
    /// One that is over as well: renewal alone.
    Taken,
}

impl Nodes {
    pub(super) fn new(verifier: Arc<Verifier>) -> Self {
        Self { known: RwLock::default(), verifier }
    }

    pub(super) fn get(&self, id: &NodeId) -> Option<Arc<Known>> {
        read(&self.known).get(id).cloned()
    }

    /// Everyone, in the order of ids.
    pub(super) fn all(&self) -> Vec<(NodeId, Arc<Known>)> {
        let known = read(&self.known);
        known.iter().map(|(id, node)| (id.clone(), Arc::clone(node))).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        read(&self.known).len()
    }

    /// The next `most` after this one, then from the first on, this one last.
    pub(super) fn after(&self, last: Option<&NodeId>, most: usize) -> Vec<(NodeId, Arc<Known>)> {
        let known = read(&self.known);
        let after = (last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let before = last.into_iter().flat_map(|last| known.range(..=last));
        let next = known.range::<NodeId, _>(after).chain(before).take(most);
        next.map(|(id, node)| (id.clone(), Arc::clone(node))).collect()
    }

    /// Adds a device, unless it is there.
    pub(super) fn add(&self, key: NodePublicKey, record: Option<IdentityRecord>, managed: bool) {
        let id = key.fingerprint().node_id();
        let mut known = write(&self.known);
        known.entry(id).or_insert_with(|| {
            Arc::new(Known { key, state: Mutex::new(NodeState { record, managed, ..NodeState::default() }) })
        });
    }

    /// Forgets a device; a call that is under way finds it without a record.
    pub(super) fn forget(&self, id: &NodeId) {
        let node = write(&self.known).remove(id);
        if let Some(node) = node {
            *lock(&node.state) = NodeState::default();
        }
    }

    /// Keeps devices that `stays` says are still in the journal.
    pub(super) fn retain(&self, stays: impl Fn(&NodeId) -> bool) {
        let gone: Vec<NodeId> = self.all().into_iter().map(|(id, _)| id).filter(|id| !stays(id)).collect();
        gone.iter().for_each(|id| self.forget(id));
    }

    /// The device whose key made this proof for this purpose. An unknown id costs the same single verification and gets
    /// the same answer as a wrong key, and so does one that is `refused` whatever the journal says.
    pub(super) fn prove<T: Report>(
        &self,
        (id, refused): (&NodeId, bool),
        purpose: Purpose,
        proof: &Proof,
        nonce: &Nonce,
    ) -> Result<(Arc<Known>, Verified<T>), Refusal> {
        let known = self.get(id).filter(|_| !refused);
        let key = known.as_ref().map_or_else(|| self.verifier.dummy(), |known| &known.key);
        self.verifier.count();
        let verified = proof.verify::<T>(nonce, key, id, purpose);
        match (known, verified) {
            (Some(known), Ok(verified)) => Ok((known, verified)),
            (Some(_), Err(error)) => Err(refused_proof(id, &error)),
            (None, _) if refused => Err(Refusal::identity(format!("the worker bars the key of node {id}"))),
            (None, _) => Err(Refusal::identity(format!("node {id} is unknown or was removed"))),
        }
    }

    /// Whether `pem` is a certificate of this node: of its key, its id and its name, chained to the root. One that is
    /// renamed has two names.
    pub(super) fn certificate(
        &self,
        known: &Known,
        pem: &str,
        lapsed: Lapsed,
        now: UnixTime,
    ) -> Result<Under, Refusal> {
        let digest = Digest::of(pem.as_bytes());
        let (id, hostname, renaming) = {
            let state = lock(&known.state);
            let Some(record) = &state.record else {
                return Err(Refusal::identity(format!(
                    "node {} has no certificate yet",
                    known.key.fingerprint().node_id()
                )));
            };
            if let Some((_, _, under)) = state.verdict.filter(|(good, until, _)| *good == digest && now <= *until) {
                return Ok(under);
            }
            let renaming = state.renaming.clone();
            let hostname = renaming.as_ref().map_or(&record.hostname, |renaming| &renaming.to).clone();
            (record.node_id.clone(), hostname, renaming)
        };
        let refused = |error: &dyn std::error::Error| {
            Refusal::identity(format!("the certificate of node {id} is refused: {}", refusal::chain(error)))
        };
        let fingerprint = known.key.fingerprint();
        let read = |hostname: &Hostname| {
            let rules = LeafRules { node_id: &id, hostname, fingerprint: &fingerprint };
            Leaf::parse(pem).and_then(|leaf| leaf.check(&rules))
        };
        let (leaf, under) = match (read(&hostname), &renaming) {
            (Ok(leaf), _) => (leaf, Under::Approved),
            (Err(error), None) => return Err(refused(&error)),
            (Err(error), Some(renaming)) => match read(&renaming.from) {
                Ok(leaf) => (leaf, Under::Former),
                Err(_) => return Err(refused(&error)),
            },
        };
        let roots = std::slice::from_ref(self.verifier.root());
        self.verifier.count();
        match chain::verify(&leaf, roots, now, Usage::Client) {
            Ok(chain) => {
                let mut state = lock(&known.state);
                // After a rename in between the next call is decided anew.
                if state.renaming == renaming {
                    state.verdict = Some((digest, chain.not_after(), under));
                }
                Ok(under)
            }
            Err(ChainError::Expired { .. }) if lapsed == Lapsed::Taken => {
                self.verifier.count();
                chain::verify_lapsed(&leaf, roots, now).map(|_| under).map_err(|error| refused(&error))
            }
            Err(error) => Err(refused(&error)),
        }
    }
}

/// A report that the right key signed and that is not one is told apart: only the holder of the key can get there.
pub(crate) fn refused_proof(id: &NodeId, error: &ProofError) -> Refusal {
    match error {
        ProofError::Report(json) => Refusal::logged(
            Code::InvalidBody,
            format!("reportJson: {json}."),
            format!("the report of node {id} is malformed: {json}"),
        ),
        error => Refusal::identity(format!("the proof for node {id} is refused: {}", refusal::chain(error))),
    }
}
