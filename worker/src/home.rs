//! The worker's own directory: what is kept there, and how it is read back.
//!
//! Every file is the worker's alone (0700, 0600). What does not fit together stops the start: a bundle the root did not
//! sign, an issuing CA or a worker key the bundle does not name.

use std::path::PathBuf;

use lucia_durable::{DirError, DirRules, FileName, FileRules, Format, Loaded, PrivateDir, ReadError};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::json::{self, JsonError};
use lucia_proto::base::limits::{ANSWER_FILE_MAX, CHAIN_PEM_MAX, JSON_DEPTH_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::answer::SignedAnswer;
use lucia_proto::pki::bundle::{BundleError, SignedBundle, VerifiedBundle};
use lucia_proto::pki::certificate::CertificateError;
use lucia_proto::pki::chain::Root;
use lucia_proto::pki::key::{KeyError, NodeKey};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ca::{self, Ca, CaError};
use crate::config::Config;
use crate::directory::readers::ReaderRecord;
use crate::files::{FileError, file, id_file, text};

/// The endpoint's receipt, and its answer in the queue.
pub const ENDPOINT: &str = "endpoint.json";
/// The key that signs answers and rosters.
pub const WORKER_KEY: &str = "worker.key";
/// The one that takes its place, until it has.
pub const NEXT_KEY: &str = "worker.next.key";
/// The bundle.
pub const BUNDLE: &str = "bundle.json";
/// Longest receipt: an answer, and the chain in it once more.
const RECEIPT_MAX: usize = ANSWER_FILE_MAX + 2 * CHAIN_PEM_MAX;

/// The directory, open.
#[derive(Debug)]
pub struct Home {
    /// The directory itself: ledger, worker key, bundle.
    pub dir: PrivateDir,
    /// `ca`: root and issuing CA.
    pub ca: PrivateDir,
    /// `receipts`: the live leaf of each node, and of the endpoint.
    pub receipts: PrivateDir,
}

/// Keys and certificates that fit together.
pub struct Identity {
    /// The root, which nodes were given by another way.
    pub root: Root,
    /// Who signs leaves.
    pub ca: Box<dyn Ca + Send>,
    /// Signs answers.
    pub worker_key: NodeKey,
    /// Goes with each answer.
    pub bundle: VerifiedBundle,
}

/// The live leaf of a node, kept until under 6 days of it remain (design.md I9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Receipt {
    /// The node.
    pub node_id: NodeId,
    /// SHA-256 of the DER of the CSR it answers.
    pub csr_sha256: Digest,
    /// The leaf and its issuing CA.
    pub certificate_pem: String,
    /// Last second of the leaf.
    pub not_after: UnixTime,
    /// What the node was answered.
    pub answer: SignedAnswer,
    /// Its reader's passwords as the directory has them, where there is a directory. Since step 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<ReaderRecord>,
}

/// The endpoint's newest certificate, and what it answers: a worker that dies before its answer left gives the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EndpointReceipt {
    /// SHA-256 of the request's bytes.
    pub request_hash: Digest,
    /// Serial number, hex.
    pub serial: String,
    /// The certificate and its issuing CA.
    pub certificate_pem: String,
    /// Its last second.
    pub not_after: UnixTime,
    /// When it was signed.
    pub signed_at: UnixTime,
}

/// Why the directory cannot be used.
#[derive(Debug, Error)]
pub enum HomeError {
    /// There is none, or it is not ours alone.
    #[error(
        "the worker's directory cannot be used; run this as root or as the user the worker runs as (lucia-worker), after `init`"
    )]
    Dir(#[source] DirError),
    /// A text of it cannot be had.
    #[error(transparent)]
    File(#[from] FileError),
    /// A receipt is there and cannot be read.
    #[error("a file of the worker's directory cannot be used")]
    Read(#[source] ReadError),
    /// The root is not one.
    #[error("ca/root.pem is not a root certificate; restore it from a backup")]
    Root(#[source] CertificateError),
    /// The worker's key is not one.
    #[error("worker.key is not a key; restore it from a backup")]
    WorkerKey(#[source] KeyError),
    /// The bundle's file is not one.
    #[error("bundle.json is not a signed bundle; restore it from a backup")]
    BundleFile(#[source] JsonError),
    /// The root did not sign the bundle.
    #[error("bundle.json is not the root's; restore it, or the root, from a backup")]
    Bundle(#[source] BundleError),
    /// The issuing CA cannot sign.
    #[error("the issuing CA cannot be used; if its files were right once, restore ca/ from a backup")]
    Ca(#[source] CaError),
    /// Keys and bundle are of different fleets or times.
    #[error("the bundle does not name this {what}; restore bundle.json and keys from one and the same backup")]
    NotInBundle {
        /// `issuing CA` or `worker key`.
        what: &'static str,
    },
    /// A receipt is damaged.
    #[error("{path} is damaged; move it away, and there is a new certificate at the next request")]
    Receipt {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: JsonError,
    },
}

impl Home {
    /// Opens a directory that `init` made.
    ///
    /// # Errors
    /// [`HomeError::Dir`].
    pub fn open(config: &Config) -> Result<Self, HomeError> {
        let dir = PrivateDir::open(&config.state_dir, DirRules::private()).map_err(HomeError::Dir)?;
        let sub = |name| dir.subdir(&file(name), DirRules::private()).map_err(HomeError::Dir);
        Ok(Self { ca: sub("ca")?, receipts: sub("receipts")?, dir })
    }

    /// The root certificate.
    ///
    /// # Errors
    /// [`HomeError::File`], [`HomeError::Root`].
    pub fn root(&self) -> Result<Root, HomeError> {
        Root::from_pem(&text(&self.ca, "root.pem")?).map_err(HomeError::Root)
    }

    /// Reads all keys and certificates but the root's key, and checks that they fit together.
    ///
    /// # Errors
    /// What is missing, damaged or of another fleet.
    pub fn identity(&self, config: &Config) -> Result<Identity, HomeError> {
        let root = self.root()?;
        let ca = ca::open(config, &self.ca, &root).map_err(HomeError::Ca)?;
        let mut worker_key = NodeKey::from_pem(&text(&self.dir, WORKER_KEY)?).map_err(HomeError::WorkerKey)?;
        let signed: SignedBundle =
            json::from_str(&text(&self.dir, BUNDLE)?, usize::MAX, JSON_DEPTH_MAX).map_err(HomeError::BundleFile)?;
        let bundle = signed.verify(&root).map_err(HomeError::Bundle)?;
        if !bundle.issuing_cas().any(|der| der == ca.issuing().der()) {
            return Err(HomeError::NotInBundle { what: "issuing CA" });
        }
        // A crash came between the bundle that names the next key and that key's taking its place.
        if !bundle.workers().contains(worker_key.public())
            && let Ok(next) = text(&self.dir, NEXT_KEY)
            && let Ok(next) = NodeKey::from_pem(&next)
        {
            worker_key = next;
        }
        if !bundle.workers().contains(worker_key.public()) {
            return Err(HomeError::NotInBundle { what: "worker key" });
        }
        Ok(Identity { root, ca, worker_key, bundle })
    }

    /// The receipt of a node, if there is one.
    ///
    /// # Errors
    /// [`HomeError::Read`], [`HomeError::Receipt`].
    pub fn receipt(&self, node_id: &NodeId) -> Result<Option<Receipt>, HomeError> {
        self.kept(&id_file(node_id))
    }

    /// The endpoint's receipt, if there is one.
    ///
    /// # Errors
    /// As [`Home::receipt`].
    pub fn endpoint(&self) -> Result<Option<EndpointReceipt>, HomeError> {
        self.kept(&file(ENDPOINT))
    }

    fn kept<T: DeserializeOwned>(&self, name: &FileName) -> Result<Option<T>, HomeError> {
        let max = u64::try_from(RECEIPT_MAX).unwrap_or(u64::MAX);
        match self.receipts.read_as(name, max, FileRules::private(), Format::schema(1)).map_err(HomeError::Read)? {
            Loaded::Missing => Ok(None),
            Loaded::Found(bytes) => {
                let receipt = json::from_slice(&bytes, RECEIPT_MAX, JSON_DEPTH_MAX);
                let path = self.receipts.path_of(name);
                receipt.map(Some).map_err(|source| HomeError::Receipt { path, source })
            }
        }
    }
}
