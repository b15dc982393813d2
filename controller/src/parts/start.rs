//! From the files to a running [`Controller`]: everything is read and held against everything else before one call is
//! answered.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use lucia_proto::base::acts::Act;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::ROOT_PEM_MAX;
use lucia_proto::base::time::Clock;
use lucia_proto::files::journal::Journal;
use lucia_proto::node::enrollment::IdentityRecord;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::pki::certificate::CertificateError;
use lucia_proto::pki::chain::Root;
use lucia_proto::pki::key::{KeyError, NodePublicKey};
use thiserror::Error;

use super::audit::Audit;
use super::challenges::Challenges;
use super::changes::Changes;
use super::journal::{self, CONTROLLER, Keeper};
use super::nodes::Nodes;
use super::owners::Owners;
use super::sign_in::SignIns;
use super::tokens::Tokens;
use super::verifier::Verifier;
use super::{Controller, clones};
use crate::bridge::owners::OwnerQueue;
use crate::bridge::queue::Queue;
use crate::config::Config;
use crate::lock::lock;
use crate::refusal::Refusal;
use crate::store::audit_log::AuditLog;
use crate::store::journal_file::JournalFile;
use crate::store::layout::Layout;
use crate::store::passkeys::Passkeys;
use crate::store::records::Records;
use crate::store::tokens::TokenStore;
use crate::store::{
    AuditLogError, DraftsError, JournalFileError, JsonFileError, LayoutError, PasskeysError, RecordError,
};

/// Why the controller does not start.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The root cannot be read.
    #[error("root-file {path} cannot be read; copy the root there that `lucia-enrollment-worker init` made")]
    ReadRoot {
        /// The setting.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is not a root.
    #[error("root-file {path} is not a root CA")]
    Root {
        /// The setting.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: CertificateError,
    },
    /// The directories.
    #[error("the state directory cannot be used")]
    Layout(#[source] LayoutError),
    /// The journal.
    #[error("the journal stops the start")]
    Journal(#[source] JournalFileError),
    /// A node's record.
    #[error("a node's record stops the start")]
    Record(#[source] RecordError),
    /// The mark of the roster.
    #[error("the mark of the roster stops the start")]
    RosterMark(#[source] JsonFileError),
    /// The audit.
    #[error("the audit stops the start")]
    Audit(#[source] AuditLogError),
    /// An order.
    #[error("an order stops the start")]
    Drafts(#[source] DraftsError),
    /// The passkeys.
    #[error("the list of passkeys stops the start")]
    Passkeys(#[source] PasskeysError),
    /// The automation tokens.
    #[error("the list of automation tokens stops the start")]
    Tokens(#[source] JsonFileError),
    /// A device's key in the journal.
    #[error("device {id} has no usable key in the journal; `lucia-controller doctor` shows how to go back")]
    Key {
        /// Which device.
        id: NodeId,
        /// What is wrong with it.
        #[source]
        source: KeyError,
    },
    /// The queue or the first change could not be written.
    #[error("the first change cannot be written")]
    Write(#[source] Refusal),
    /// The system has no randomness.
    #[error("the system gives no random bytes: {0}")]
    Random(getrandom::Error),
}

pub(super) fn open(config: &Config, clock: Arc<dyn Clock>, secret: &[u8; 32]) -> Result<Controller, OpenError> {
    let root = read_root(&config.root_file)?;
    let layout = Layout::open(config).map_err(OpenError::Layout)?;
    note_unsigned_keys(&config.state_dir);
    let Layout { onboarding, requests, removals, identities, responses, .. } = layout;
    let (orders, owner_requests) = (layout.orders, layout.owner_requests);
    let (file, journal) = JournalFile::open(onboarding).map_err(OpenError::Journal)?;
    // Whoever slept while another took the state over writes nothing of it any more, the journal or else (F-12).
    let passkeys = layout.passkeys.guarded(file.guard());
    let tokens = layout.tokens.guarded(file.guard());
    let [requests, removals, identities, orders, owner_requests] =
        [requests, removals, identities, orders, owner_requests].map(|dir| dir.guarded(file.guard()));
    let keeper = Arc::new(Keeper::new(file, journal));
    let verifier = Arc::new(Verifier::new(root).map_err(OpenError::Random)?);
    let now = clock.now();
    // Always closed at the start: an operator who opened it may not know that it was restarted.
    keeper
        .change(|journal| journal::close_window(journal, Act::WindowClosedAtStart, CONTROLLER, now))
        .map_err(OpenError::Write)?;
    let journal = keeper.read();
    let records = Records::new(identities);
    let nodes = Nodes::new(Arc::clone(&verifier));
    let mut known = load_records(&records, &journal)?;
    let mut to_freeze = BTreeSet::new();
    for device in &journal.devices {
        let key = NodePublicKey::from_pem(device.public_key_pem.as_str())
            .map_err(|source| OpenError::Key { id: device.device_id.clone(), source })?;
        let record = known.iter().position(|record| record.node_id == device.device_id);
        let mut record = record.map(|at| known.swap_remove(at));
        if let Some(record) = &mut record
            && clones::settle(&mut record.lineage, device.frozen.as_ref(), device.kept.as_ref())
        {
            to_freeze.insert(device.device_id.clone());
        }
        nodes.add(key, record, device.phase == DevicePhase::Managed);
        if let Some(known) = nodes.get(&device.device_id) {
            lock(&known.state).follow_name(Some(device));
        }
    }
    let queue = Queue::new(requests, removals, responses);
    settle_queue(&queue, &journal).map_err(OpenError::Write)?;
    let passkeys = Passkeys::open(passkeys).map_err(OpenError::Passkeys)?;
    let tokens = TokenStore::open(tokens).map_err(OpenError::Tokens)?;
    let audit = AuditLog::open(layout.audit, now).map_err(OpenError::Audit)?;
    let owner_queue = Arc::new(OwnerQueue::new(owner_requests, layout.owner_responses));
    let audit = Arc::new(Audit::new(Arc::clone(&clock), Arc::clone(&keeper), Arc::clone(&owner_queue), audit));
    let owners = Owners::open(orders, owner_queue)?;
    let controller = Controller {
        challenges: Arc::new(Challenges::new(secret, config.source_binding, Arc::clone(&clock))),
        clock,
        names: config.names.clone(),
        limits: config.limits,
        nodes,
        journal: keeper,
        audit,
        verifier,
        queue: Mutex::new(queue),
        records: Mutex::new(records),
        window: Mutex::new(None),
        last_written: Mutex::new(None),
        queue_looked_at: Mutex::new(None),
        to_freeze: Mutex::new(to_freeze),
        followed: AtomicU64::new(0),
        changes: Changes::default(),
        moves: Changes::default(),
        new_starts: Mutex::default(),
        owners,
        sign_ins: SignIns::new(passkeys),
        tokens: Tokens::new(tokens),
        heartbeats: AtomicU64::new(0),
    };
    // Before the first call: an owner is not to be refused for a second after each start.
    controller.start_orders();
    Ok(controller)
}

/// The fleet's root, which came from outside the controller.
///
/// # Errors
/// [`OpenError::ReadRoot`], [`OpenError::Root`].
pub fn read_root(path: &Path) -> Result<Root, OpenError> {
    let failed = |source| OpenError::ReadRoot { path: path.to_owned(), source };
    let mut text = String::new();
    let most = u64::try_from(ROOT_PEM_MAX).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path).and_then(|file| file.take(most).read_to_string(&mut text)).map_err(failed)?;
    Root::from_pem(&text).map_err(|source| OpenError::Root { path: path.to_owned(), source })
}

/// A list of unsigned SSH keys is left alone, since going back to the version before needs it.
fn note_unsigned_keys(state_dir: &Path) {
    let path = state_dir.join("keys/ssh-keys.json");
    if path.symlink_metadata().is_ok() {
        let path = path.display();
        tracing::warn!(
            "{path} is no longer used: nodes take SSH keys from owners' signed orders alone (luciactl keys add). Remove it \
             once you no longer need to go back to the version before"
        );
    }
}

/// The records of the journal's devices. One that the journal does not know is what a crash left of a removal; one of
/// another installation is what it left of an approval: neither may be inherited.
fn load_records(records: &Records, journal: &Journal) -> Result<Vec<IdentityRecord>, OpenError> {
    let (mut kept, mut stale) = (Vec::new(), Vec::new());
    for record in records.load().map_err(OpenError::Record)? {
        let known = journal.device(&record.node_id).is_some_and(|device| {
            device.fingerprint == record.public_key_fingerprint
                && device.task_id.as_ref() == Some(&record.task_id)
                && [&device.hostname, &device.former_hostname]
                    .into_iter()
                    .flatten()
                    .any(|name| *name == record.hostname)
        });
        if known { kept.push(record) } else { stale.push(record.node_id) }
    }
    for id in stale {
        tracing::warn!(node = %id, "the record of a removed node is deleted");
        records.remove(&id).map_err(OpenError::Record)?;
    }
    Ok(kept)
}

/// A removal that was announced and did not reach the journal did not happen.
fn settle_queue(queue: &Queue, journal: &Journal) -> Result<(), Refusal> {
    queue.clean()?;
    for id in queue.removals()? {
        if journal.device(&id).is_some_and(|device| device.phase.needs_task()) {
            queue.withdraw_removal(&id)?;
        } else if journal.device(&id).is_none() {
            queue.forget(&id)?;
        }
    }
    Ok(())
}
