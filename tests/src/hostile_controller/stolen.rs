//! The disk of a controller that was taken: its journal, its TLS key, the queue it shares with the worker, and whatever
//! the worker ever said there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lucia_proto::base::bounded::{PemText, Version};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::{OrderAnswerFile, OwnerFile, ROSTER_FILE};
use lucia_proto::node::answer::SignedAnswer;
use lucia_proto::node::challenge::Nonce;
use lucia_proto::node::enrollment::EnrollmentRequest;
use lucia_proto::orders::freshness::{FreshnessRequest, SignedFreshness};
use lucia_proto::orders::roster::SignedRoster;
use lucia_proto::orders::{OrderId, SignedOrder};

use crate::hostile_queue::Queue;
use crate::sim::Failure;

/// Looks, and the time between two: 30 s in all, on a busy machine longer than the worker's poll.
const LOOKS: usize = 6000;
const STEP: Duration = Duration::from_millis(5);
/// How long a request for a certificate counts.
const REQUEST: Duration = Duration::from_secs(600);

/// Clones are the same disk.
#[derive(Clone)]
pub struct Stolen {
    dir: PathBuf,
    queue: Arc<Mutex<Queue>>,
}

/// This machine's clock: the programs under test go by it.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the built programs have the real time of day, and so has who deceives them"
)]
pub fn now() -> UnixTime {
    UnixTime::from_secs(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// Looks until there is something.
pub fn until<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    (0..LOOKS).find_map(|turn| {
        if turn > 0 {
            // Another process has no paused clock, and nothing wakes this one.
            thread::park_timeout(STEP);
        }
        look()
    })
}

impl Stolen {
    /// Takes the state directory of a controller that has ended.
    ///
    /// # Errors
    /// When there is no journal.
    pub fn take(dir: &Path) -> Result<Self, Failure> {
        let queue = Arc::new(Mutex::new(Queue::stolen(dir, now())?));
        Ok(Self { dir: dir.to_owned(), queue })
    }

    /// The queue and the journal.
    pub fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A text of the disk.
    ///
    /// # Errors
    /// When it is not there.
    pub fn text(&self, name: &str) -> Result<String, Failure> {
        Ok(fs::read_to_string(self.dir.join(name))?)
    }

    /// Where something lies.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The roster that the worker handed out, once it is this version.
    ///
    /// # Errors
    /// When it does not come.
    pub fn roster(&self, version: u64) -> Result<SignedRoster, Failure> {
        let path = self.dir.join("nodes/owner-responses").join(ROSTER_FILE);
        let look = || {
            let signed: SignedRoster = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            let payload: serde_json::Value = serde_json::from_slice(signed.parts().payload()).ok()?;
            (payload.get("version")?.as_u64()? == version).then_some(signed)
        };
        until(look).ok_or_else(|| format!("the worker hands out no roster {version}").into())
    }

    /// Passes a node's question on; gives what the worker signs to it.
    #[must_use]
    pub fn fresh(&self, node: &NodeId, nonce: &Nonce) -> Option<SignedFreshness> {
        let asked = FreshnessRequest { schema_version: Version, node_id: node.clone(), nonce: nonce.clone() };
        self.queue().put_owner(&OwnerFile::Freshness(node.clone()), &asked.to_bytes().ok()?);
        until(|| self.queue().freshness(node).filter(|said| said.nonce == *nonce)).map(|said| said.answer)
    }

    /// Puts an order before the worker; gives what it says.
    #[must_use]
    pub fn ordered(&self, signed: &SignedOrder) -> Option<OrderAnswerFile> {
        let id = self.queue().order(signed);
        self.outcome(id)
    }

    /// What the worker says about an order that lies before it.
    #[must_use]
    pub fn outcome(&self, id: OrderId) -> Option<OrderAnswerFile> {
        until(|| self.queue().outcome(id))
    }

    /// Passes a node's CSR on, with what the journal says of it; gives the worker's answer if there is one soon.
    #[must_use]
    pub fn certificate(&self, node: &NodeId, csr_pem: &str) -> Option<SignedAnswer> {
        {
            let queue = self.queue();
            let device = queue.journal().device(node)?;
            let request = EnrollmentRequest {
                schema_version: Version,
                node_id: node.clone(),
                task_id: device.task_id.clone()?,
                hostname: device.hostname.clone()?,
                public_key_fingerprint: device.fingerprint,
                csr_pem: PemText::try_from(csr_pem.to_owned()).ok()?,
                expires_at: now().plus(REQUEST),
            };
            queue.ask(&request);
        }
        // Who waits for an owner is answered nothing at all.
        (0..100).find_map(|_| {
            thread::park_timeout(STEP);
            self.queue().answer(node)?.answer
        })
    }
}
