//! How a fleet begins: root, issuing CA, worker key, the first bundle and an empty ledger, in a directory that had none.

use std::path::{Path, PathBuf};

use lucia_durable::{DirError, DirRules, Lease, LeaseError, Marker, PrivateDir, WriteError};
use lucia_proto::bundle::{Bundle, BundleError, SignedBundle};
use lucia_proto::certificate::CertificateError;
use lucia_proto::chain::Root;
use lucia_proto::digest::Digest;
use lucia_proto::json::{self, JsonError};
use lucia_proto::key::NodeKey;
use lucia_proto::time::UnixTime;
use thiserror::Error;

use crate::ca::{CaError, Embedded, make_issuing, make_root, new_key};
use crate::config::Config;
use crate::home::{Home, file};
use crate::ledger::{ANCHOR, Ledger, LedgerError};
use crate::turn::{MARKER, lease_name, take_lease};

/// Mode of everything secret.
const SECRET: u32 = 0o600;

/// What `init` made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// SHA-256 of the root's DER: the fleet.
    pub fleet: Digest,
    /// The root's certificate, to be copied.
    pub root_pem: PathBuf,
    /// The root's key, to be taken away.
    pub root_key: PathBuf,
}

/// Why no fleet was begun.
#[derive(Debug, Error)]
pub enum InitError {
    /// The directory cannot be made or used.
    #[error("the worker's directory cannot be used; run this as the user the worker runs as (lucia-worker)")]
    Dir(#[source] DirError),
    /// There is something already.
    #[error(
        "{path} is there already and is never overwritten; a fleet has one root for ever. If an earlier `init` was cut \
         off (no ledger.jsonl beside it), nothing was ever issued: move the directory's contents away, then run `init` again"
    )]
    AlreadyThere {
        /// What is there.
        path: PathBuf,
    },
    /// There was a fleet, and its files are gone.
    #[error(
        "a fleet was begun in {path}, and its files are gone; restore them from a backup. If another fleet is really to \
         begin here, remove {path}/.worker.lease as well: no node and no controller of the former one will trust it"
    )]
    Lost {
        /// The directory.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("`init` did not finish; move what it made away, then run it again")]
    Write(#[source] WriteError),
    /// A key or certificate could not be made.
    #[error("a key or certificate could not be made")]
    Ca(#[source] CaError),
    /// The root just made is not one.
    #[error("the root just made cannot be read back; this is a mistake in the program, report it")]
    Root(#[source] CertificateError),
    /// The bundle could not be signed.
    #[error("the bundle could not be made; this is a mistake in the program, report it")]
    Bundle(#[source] BundleError),
    /// The bundle could not be written as JSON.
    #[error("the bundle could not be made; this is a mistake in the program, report it")]
    Json(#[source] JsonError),
    /// The ledger could not be begun.
    #[error("the ledger could not be begun; move what `init` made away, then run it again")]
    Ledger(#[source] LedgerError),
    /// Another worker runs there.
    #[error("the directory cannot be taken")]
    Lease(#[source] LeaseError),
}

/// Begins a fleet. Nothing that is there is touched.
///
/// # Errors
/// [`InitError`].
pub fn init(config: &Config, now: UnixTime) -> Result<Made, InitError> {
    let dir = PrivateDir::create(&config.state_dir, DirRules::private()).map_err(InitError::Dir)?;
    for name in ["ledger.jsonl", ANCHOR, "ca", "worker.key", "bundle.json", "receipts"] {
        if dir.exists(&file(name)).map_err(InitError::Dir)? {
            return Err(InitError::AlreadyThere { path: dir.path_of(&file(name)) });
        }
    }
    if Lease::look(&dir, &lease_name(), MARKER).map_err(InitError::Lease)? == Marker::Present {
        return Err(InitError::Lost { path: config.state_dir.clone() });
    }
    let sub = |name| dir.create_subdir(&file(name), DirRules::private()).map_err(InitError::Dir);
    let home = Home { ca: sub("ca")?, receipts: sub("receipts")?, dir };
    let mut lease = take_lease(&home).map_err(InitError::Lease)?;

    let root = make_root(now).map_err(InitError::Ca)?;
    let issuing = make_issuing(&root, now).map_err(InitError::Ca)?;
    let worker_key = new_key().map_err(InitError::Ca)?;
    let checked = Root::from_pem(&root.pem).map_err(InitError::Root)?;
    let issuing_key = key_pem(&issuing.key)?;
    let embedded = Embedded::open(&issuing.pem, &issuing_key).map_err(InitError::Ca)?;
    let bundle = Bundle {
        version: 1,
        issued: now,
        issuing_cas: vec![issuing.pem.clone()],
        limits: [(Digest::of(embedded.issuing_der()), Vec::new())].into(),
        workers: vec![worker_key.public().to_pem()],
        release_keys: Vec::new(),
    };
    let signed = SignedBundle::sign(&bundle, &root.key).map_err(InitError::Bundle)?;
    // What nodes will check, checked here first.
    signed.verify(&checked).map_err(InitError::Bundle)?;
    let bundle_json = json::to_string(&signed).map_err(InitError::Json)?;

    for (place, name, text) in [
        (&home.ca, "root.key", key_pem(&root.key)?.as_str()),
        (&home.ca, "root.pem", root.pem.as_str()),
        (&home.ca, "issuing.key", issuing_key.as_str()),
        (&home.ca, "issuing.pem", issuing.pem.as_str()),
        (&home.dir, "worker.key", key_pem(&worker_key)?.as_str()),
        (&home.dir, "bundle.json", bundle_json.as_str()),
    ] {
        place.create_new(&file(name), text.as_bytes(), SECRET).map_err(InitError::Write)?;
    }
    Ledger::create(&home.dir, checked.sha256(), now).map_err(InitError::Ledger)?;
    lease.confirm(&home.dir).map_err(InitError::Lease)?;
    Ok(Made {
        fleet: checked.sha256(),
        root_pem: home.ca.path_of(&file("root.pem")),
        root_key: home.ca.path_of(&file("root.key")),
    })
}

fn key_pem(key: &NodeKey) -> Result<zeroize::Zeroizing<String>, InitError> {
    key.to_pem().map_err(|_| InitError::Ca(CaError::Key))
}

/// What a person does next.
#[must_use]
pub fn next_steps(made: &Made, config: &Path) -> String {
    format!(
        "The fleet has begun.\n\
         \n\
         root fingerprint  {}\n\
         root certificate  {}\n\
         \n\
         Next:\n\
         1. Copy the root certificate to the controller's host and into the installer, both as /etc/lucia/root.pem,\n\
         \x20  by a way that does not lead through the controller; compare the fingerprint there:\n\
         \x20  openssl x509 -in /etc/lucia/root.pem -outform DER | sha256sum\n\
         2. Take {} offline now: the worker does not need it. Keep it for the next issuing CA, in two years.\n\
         3. Set endpoint-names in {} to the names nodes call the controller by.\n\
         4. systemctl enable --now lucia-enrollment-worker\n",
        made.fleet,
        made.root_pem.display(),
        made.root_key.display(),
        config.display(),
    )
}
