//! What every proof is verified with besides its own key, and how many were.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::ROOT_PEM_MAX;
use lucia_proto::pki::chain::Root;
use lucia_proto::pki::key::{NodeKey, NodePublicKey};
use zeroize::Zeroizing;

use super::open_error::OpenError;

/// The fleet's root, and a key that nobody has.
pub struct Verifier {
    root: Root,
    /// What a proof of an unknown identity is verified with, so that it costs as much as a known one.
    dummy: NodePublicKey,
    operations: AtomicU64,
}

impl Verifier {
    pub(super) fn new(root: Root) -> Result<Self, getrandom::Error> {
        loop {
            let mut random = Zeroizing::new([0; 32]);
            getrandom::fill(random.as_mut_slice())?;
            if let Some(key) = NodeKey::from_random(&random) {
                return Ok(Self { root, dummy: key.public().clone(), operations: AtomicU64::new(0) });
            }
        }
    }

    pub(super) const fn root(&self) -> &Root {
        &self.root
    }

    /// The SHA-256 of the root: what orders name the fleet by.
    pub fn fleet(&self) -> Digest {
        self.root.sha256()
    }

    pub(super) const fn dummy(&self) -> &NodePublicKey {
        &self.dummy
    }

    /// Counts one public-key operation more.
    pub(super) fn count(&self) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    /// Public-key operations since the start.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }
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
