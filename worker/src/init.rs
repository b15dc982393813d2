//! How a fleet begins: root, issuing CA, worker key, the first bundle and an empty ledger, in a directory that had none.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use lucia_durable::{DirError, DirRules, Lease, LeaseError, Marker, PrivateDir, WriteError};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::extensions::Extensions;
use lucia_proto::base::json::{self, JsonError};
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::bundle::{Bundle, BundleError, SignedBundle};
use lucia_proto::pki::certificate::CertificateError;
use lucia_proto::pki::chain::Root;
use lucia_proto::pki::key::NodeKey;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::ca::{Ca as _, CaError, Embedded, Issuing, KEY_FILE, make_issuing, make_root, new_key};
use crate::config::Config;
use crate::files::file;
use crate::home::Home;
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
    /// The root's key, to be taken away, where `init` made it.
    pub root_key: Option<PathBuf>,
    /// Where step-ca's provisioner key is to be put, where step-ca signs.
    pub provisioner_key: Option<PathBuf>,
}

/// A root, its key and its issuing CA, PEM, as step-ca has them.
#[derive(Debug)]
pub struct Given {
    /// The root.
    pub root: String,
    /// Its key, PKCS #8.
    pub root_key: Zeroizing<String>,
    /// The issuing CA, signed by it.
    pub issuing: String,
}

/// What a fleet begins with.
struct Fleet {
    root: Root,
    root_key: NodeKey,
    issuing: Issuing,
    /// Keys of the root and of the issuing CA, where they are made here.
    kept: Option<(Zeroizing<String>, Zeroizing<String>)>,
}

impl Fleet {
    fn made(now: UnixTime) -> Result<Self, InitError> {
        let root = make_root(now).map_err(InitError::Ca)?;
        let issuing = make_issuing(&root, now).map_err(InitError::Ca)?;
        let issuing_key = key_pem(&issuing.key)?;
        // That both halves belong together is checked before they are written.
        let embedded = Embedded::open(&issuing.pem, &issuing_key).map_err(InitError::Ca)?;
        let kept = Some((key_pem(&root.key)?, issuing_key));
        let checked = Root::from_pem(&root.pem).map_err(InitError::Root)?;
        Ok(Self { root: checked, root_key: root.key, issuing: embedded.issuing().clone(), kept })
    }

    fn given(given: &Given, now: UnixTime) -> Result<Self, InitError> {
        let root = Root::from_pem(&given.root).map_err(InitError::Root)?;
        let root_key = NodeKey::from_pem(&given.root_key).map_err(|_| InitError::RootKey)?;
        if root_key.public() != root.public_key() {
            return Err(InitError::OtherRootKey);
        }
        let issuing = Issuing::read(&given.issuing).map_err(InitError::Ca)?;
        if now > issuing.not_after() {
            return Err(InitError::Ca(CaError::Ended { not_after: issuing.not_after() }));
        }
        Ok(Self { root, root_key, issuing, kept: None })
    }
}

/// Why no fleet was begun.
#[derive(Debug, Error)]
pub enum InitError {
    /// The directory cannot be made or used.
    #[error("the worker's directory cannot be used; run this as root or as the user the worker runs as (lucia-worker)")]
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
    /// The root is not one.
    #[error("the root is no self-signed authority on P-256; give the root step-ca was begun with")]
    Root(#[source] CertificateError),
    /// step-ca is to sign, and there is nothing of it.
    #[error(
        "with [ca] kind = \"step-ca\" the fleet's root is step-ca's: give it with --root, its key with --root-key and \
         step-ca's intermediate with --issuing"
    )]
    NothingGiven,
    /// The worker is to sign, and there is something of another CA.
    #[error("--root, --root-key and --issuing are for [ca] kind = \"step-ca\"; nothing was made")]
    NothingWanted,
    /// The root's key cannot be read.
    #[error(
        "--root-key is no unencrypted PKCS #8 key on P-256; make one for this one use: \
         openssl pkcs8 -topk8 -nocrypt -in root_ca_key -out root.key, and delete it afterwards"
    )]
    RootKey,
    /// The root's key is another root's.
    #[error("--root-key is not the key of --root; nothing was made")]
    OtherRootKey,
    /// The bundle could not be signed.
    #[error("the bundle could not be made; the issuing CA must be an authority that this root signed itself")]
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
    begin(config, None, now)
}

/// Begins a fleet whose root and issuing CA are somebody else's. The root's key signs the bundle and is not kept.
///
/// # Errors
/// As [`init`].
pub fn init_with(config: &Config, given: &Given, now: UnixTime) -> Result<Made, InitError> {
    begin(config, Some(given), now)
}

fn begin(config: &Config, given: Option<&Given>, now: UnixTime) -> Result<Made, InitError> {
    match (&config.step_ca, given) {
        (Some(_), None) => return Err(InitError::NothingGiven),
        (None, Some(_)) => return Err(InitError::NothingWanted),
        (Some(_), Some(_)) | (None, None) => {}
    }
    let dir = PrivateDir::create(&config.state_dir, DirRules::private()).map_err(InitError::Dir)?;
    for name in ["ledger.jsonl", ANCHOR, "ca", "worker.key", "bundle.json", "receipts"] {
        if dir.exists(&file(name)).map_err(InitError::Dir)? {
            return Err(InitError::AlreadyThere { path: dir.path_of(&file(name)) });
        }
    }
    if Lease::look(&dir, &lease_name(), MARKER).map_err(InitError::Lease)? == Marker::Present {
        return Err(InitError::Lost { path: config.state_dir.clone() });
    }
    let fleet = match given {
        None => Fleet::made(now)?,
        Some(given) => Fleet::given(given, now)?,
    };
    let Fleet { root, root_key, issuing, .. } = &fleet;
    let worker_key = new_key().map_err(InitError::Ca)?;
    let bundle = Bundle {
        version: 1,
        issued: now,
        issuing_cas: vec![issuing.pem().to_owned()],
        limits: [(Digest::of(issuing.der()), Vec::new())].into(),
        workers: vec![worker_key.public().to_pem()],
        release_keys: Vec::new(),
        extensions: Extensions::default(),
    };
    let signed = SignedBundle::sign(&bundle, root_key).map_err(InitError::Bundle)?;
    // What nodes will check, checked here first.
    signed.verify(root).map_err(InitError::Bundle)?;
    let bundle_json = json::to_string(&signed).map_err(InitError::Json)?;

    // All that could be wrong about it is behind us: only now is anything made.
    let sub = |name| dir.create_subdir(&file(name), DirRules::private()).map_err(InitError::Dir);
    let home = Home { ca: sub("ca")?, receipts: sub("receipts")?, dir };
    let mut lease = take_lease(&home).map_err(InitError::Lease)?;
    let files = [
        (&home.ca, "root.pem", root.pem()),
        (&home.ca, "issuing.pem", issuing.pem().to_owned()),
        (&home.dir, "bundle.json", bundle_json),
    ];
    let worker_key = key_pem(&worker_key)?;
    let mut keys = vec![(&home.dir, "worker.key", &worker_key)];
    if let Some((root_key, issuing_key)) = &fleet.kept {
        keys.extend([(&home.ca, "root.key", root_key), (&home.ca, "issuing.key", issuing_key)]);
    }
    for (place, name, text) in keys {
        place.create_new(&file(name), text.as_bytes(), SECRET).map_err(InitError::Write)?;
    }
    for (place, name, text) in files {
        place.create_new(&file(name), text.as_bytes(), SECRET).map_err(InitError::Write)?;
    }
    Ledger::create(&home.dir, root.sha256(), now).map_err(InitError::Ledger)?;
    lease.confirm(&home.dir).map_err(InitError::Lease)?;
    Ok(Made {
        fleet: root.sha256(),
        root_pem: home.ca.path_of(&file("root.pem")),
        root_key: fleet.kept.is_some().then(|| home.ca.path_of(&file("root.key"))),
        provisioner_key: fleet.kept.is_none().then(|| home.ca.path_of(&file(KEY_FILE))),
    })
}

fn key_pem(key: &NodeKey) -> Result<Zeroizing<String>, InitError> {
    key.to_pem().map_err(|_| InitError::Ca(CaError::Key))
}

/// What a person does next.
#[must_use]
pub fn next_steps(made: &Made, config: &Path) -> String {
    let mut steps = vec![
        "Copy the root certificate to the controller's host and into the installer, both as /etc/lucia/root.pem,\n   by a \
         way that does not lead through the controller; compare the fingerprint there:\n   openssl x509 -in \
         /etc/lucia/root.pem -outform DER | sha256sum"
            .to_owned(),
    ];
    if let Some(key) = &made.root_key {
        let key = key.display();
        steps.push(format!(
            "Take {key} offline now: the worker does not need it. Keep it for the next issuing CA, in two years."
        ));
    }
    if let Some(key) = &made.provisioner_key {
        steps.push(format!(
            "Delete the copy of the root's key that --root-key named: the worker kept nothing of it.\n   Put the key of \
             step-ca's JWK provisioner, as `step crypto jwe decrypt` leaves it, into\n   {} (mode 0600, owned by the \
             worker's user).",
            key.display()
        ));
    }
    steps.push(format!("Set endpoint-names in {} to the names nodes call the controller by.", config.display()));
    steps.push("systemctl enable --now lucia-enrollment-worker".to_owned());
    let mut out = format!(
        "The fleet has begun.\n\nroot fingerprint  {}\nroot certificate  {}\n\nNext:\n",
        made.fleet,
        made.root_pem.display()
    );
    for (at, step) in steps.iter().enumerate() {
        // Writing into a String cannot fail.
        let _ = writeln!(out, "{}. {step}", at + 1);
    }
    out
}
