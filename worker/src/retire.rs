//! `retire-key`: a new key signs answers and rosters from here on, and the next bundle names no other (threats.md W).
//!
//! | step | a crash before the next one |
//! |---|---|
//! | the new key lies beside the present one | nothing has changed; the next try makes another |
//! | the bundle that names it takes the former one's place | it is the worker's key, see [`Home::identity`] |
//! | it takes the former key's place | a copy of it lies beside it |
//! | the copy is removed | nothing is left to do |
//!
//! The roster that there is is signed anew with the worker's next turn, and nodes get bundle and roster with their next
//! heartbeat. What the former key signed counts nowhere once they have them.

use lucia_durable::{LeaseError, WriteError};
use lucia_proto::base::json::{self, JsonError};
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::bundle::{Bundle, BundleError, SignedBundle};
use lucia_proto::pki::key::NodeKey;
use thiserror::Error;

use crate::ca::{CaError, new_key};
use crate::files::file;
use crate::home::{BUNDLE, Home, Identity, NEXT_KEY, WORKER_KEY};
use crate::turn::take_lease;

/// Mode of each of the files.
const SECRET: u32 = 0o600;

/// Why the key was not retired.
#[derive(Debug, Error)]
pub enum RetireError {
    /// A worker runs.
    #[error(
        "the worker runs, with the key that is to go: systemctl stop lucia-enrollment-worker first; nothing was changed"
    )]
    Runs(#[source] LeaseError),
    /// The root's key cannot be read.
    #[error("--root-key is no unencrypted PKCS #8 key on P-256; nothing was changed")]
    RootKey,
    /// It is another root's.
    #[error("--root-key is not the key of this fleet's root (ca/root.pem); nothing was changed")]
    OtherRoot,
    /// A key could not be made.
    #[error("a key could not be made; nothing was changed")]
    Key(#[source] CaError),
    /// The bundle could not be signed.
    #[error("the bundle could not be made; nothing was changed")]
    Bundle(#[source] BundleError),
    /// It could not be written as JSON.
    #[error("the bundle could not be made; this is a mistake in the program, report it")]
    Json(#[source] JsonError),
    /// A file could not be written.
    #[error("the key was not replaced, or not to the end; free space on the disk, then run it again")]
    Write(#[source] WriteError),
}

/// Replaces the worker's key, under a bundle that the root's key signs for that; gives the bundle's version.
///
/// # Errors
/// [`RetireError`].
pub fn retire(home: &Home, identity: &Identity, root_key: &str, now: UnixTime) -> Result<u64, RetireError> {
    // A worker that runs has the former key in memory, and would sign on with it.
    let _lease = take_lease(home).map_err(RetireError::Runs)?;
    let root_key = NodeKey::from_pem(root_key).map_err(|_| RetireError::RootKey)?;
    if root_key.public() != identity.root.public_key() {
        return Err(RetireError::OtherRoot);
    }
    let key = new_key().map_err(RetireError::Key)?;
    let former = identity.bundle.bundle();
    let workers = vec![key.public().to_pem()];
    let bundle = Bundle { version: former.version.saturating_add(1), issued: now, workers, ..former.clone() };
    let signed = SignedBundle::sign(&bundle, &root_key).map_err(RetireError::Bundle)?;
    signed.verify(&identity.root).map_err(RetireError::Bundle)?;
    let text = json::to_string(&signed).map_err(RetireError::Json)?;
    // A try that was cut off may have left the present key beside the former one alone.
    place(home, WORKER_KEY, &identity.worker_key)?;
    place(home, NEXT_KEY, &key)?;
    home.dir.replace(&file(BUNDLE), text.as_bytes(), SECRET).map_err(RetireError::Write)?;
    place(home, WORKER_KEY, &key)?;
    home.dir.remove(&file(NEXT_KEY)).map_err(RetireError::Write)?;
    Ok(bundle.version)
}

fn place(home: &Home, name: &str, key: &NodeKey) -> Result<(), RetireError> {
    let pem = key.to_pem().map_err(|_| RetireError::Key(CaError::Key))?;
    home.dir.replace(&file(name), pem.as_bytes(), SECRET).map_err(RetireError::Write)
}
