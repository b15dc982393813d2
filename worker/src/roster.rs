//! `roster.json`: who may order, as this worker signed it (design.md O3).
//!
//! It is changed only by `owner approve`, `owner remove` and `roster policy set|page-kinds` on this host. The ledger has a line for each change, with
//! version and hash of the roster from there on; a file that is another one than the ledger's newest was put back or
//! edited, and stops the worker. The new roster is laid beside the old one before its line is written, and takes its
//! place after that: so a crash at any step leaves either roster whole, and the ledger says which of the two counts.
//!
//! After a change of the worker's key the bundle does not know who signed the roster that is there. Since the ledger names
//! its payload, whatever signed it, the present key signs that payload anew, and nodes take it for the roster they hold.

use std::path::PathBuf;

use lucia_durable::{FileRules, Format, PrivateDir, ReadError, WriteError};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::json::{self, JsonError};
use lucia_proto::base::limits::{JSON_DEPTH_MAX, ROSTER_PAYLOAD_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::OrderPolicy;
use lucia_proto::orders::owner::{Owner, OwnerKey, OwnerName, Role};
use lucia_proto::orders::roster::{Roster, RosterError, RosterMark, SignedRoster, VerifiedRoster};
use thiserror::Error;

use crate::files::file;
use crate::home::Identity;
use crate::ledger::{Entry, Ledger, LedgerError, Transaction};

/// The file, in the worker's own directory.
const NAME: &str = "roster.json";
/// The one that is to take its place.
const NEXT: &str = "roster.next.json";
/// Longest file: a payload of full size in base64.
pub const FILE_MAX: usize = 24 * 1024;
/// How often a reader looks whose file and ledger do not agree: a change takes two of the looks at most.
const LOOKS: usize = 3;
/// Its mode.
const MODE: u32 = 0o600;

/// Why the roster cannot be used. Nothing is issued then: a node would be given another one, or none.
#[derive(Debug, Error)]
pub enum RosterFileError {
    /// It cannot be read.
    #[error("the roster cannot be read")]
    Read(#[source] ReadError),
    /// It is gone.
    #[error(
        "{path} is missing, and the ledger has roster {version}; put it back: a copy is the worker's own \
         nodes/owner-responses/roster.json in controller-state (mode 0600 here)"
    )]
    Lost {
        /// Where it should be.
        path: PathBuf,
        /// The version that counts.
        version: u64,
    },
    /// It is no signed roster, or its payload is none.
    #[error(
        "{path} is damaged; restore it from a backup, or from nodes/owner-responses/roster.json in controller-state"
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// No worker key of the bundle signed it, or one of its entries is wrong.
    #[error(
        "{path} is not a roster of this worker; restore it, worker.key and bundle.json from one and the same backup"
    )]
    Refused {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: RosterError,
    },
    /// It is an older one.
    #[error(
        "{path} has version {found} and the ledger has {version}: it was put back to an older one, and whoever was removed \
         since would be an owner again. Put version {version} back: a copy is nodes/owner-responses/roster.json in \
         controller-state"
    )]
    Older {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The version that counts.
        version: u64,
    },
    /// It is a newer one than the ledger knows of.
    #[error(
        "{path} has version {found} and the ledger has {version}: the ledger is older than the roster; restore both from \
         one and the same backup"
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The version that counts; 0 where the ledger has none.
        version: u64,
    },
    /// It is another one of the same version.
    #[error(
        "{path} is not the roster {version} that the ledger has: it was edited; restore it from a backup, or from \
         nodes/owner-responses/roster.json in controller-state"
    )]
    Edited {
        /// Which file.
        path: PathBuf,
        /// The version of both.
        version: u64,
    },
    /// It cannot be written.
    #[error("the roster cannot be written")]
    Write(#[source] WriteError),
    /// Its line cannot be written.
    #[error("the roster's line cannot be written")]
    Ledger(#[source] LedgerError),
    /// The ledger cannot be read.
    #[error("who may order cannot be told")]
    LedgerRead(#[source] LedgerError),
    /// Nodes would refuse it for its length.
    #[error(
        "the roster would have {bytes} bytes and nodes take {ROSTER_PAYLOAD_MAX}, so it has no room for more people, keys or \
         rules; nothing was changed. Take a key or somebody away first: owner list, then owner remove NAME --key FINGERPRINT \
         or owner remove NAME"
    )]
    TooLong {
        /// What it would have.
        bytes: usize,
    },
    /// It cannot be put together.
    #[error("the roster cannot be put together; nothing was changed")]
    Made(#[source] RosterError),
    /// It cannot be written as JSON.
    #[error("the roster could not be put together; this is a mistake in the program, report it")]
    Json(#[source] JsonError),
}

/// The roster in force, and whether a change of it was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The one that the ledger names; none before the first owner was approved.
    pub roster: Option<VerifiedRoster>,
    /// What is left to do: the file beside it is there.
    unfinished: Option<Unfinished>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfinished {
    /// It did not take its place yet: its line is written, or it was signed anew.
    Place,
    /// Nothing rests on the file beside it.
    Leftover,
}

/// Reads the roster that the ledger names.
///
/// # Errors
/// It is not there, or another one is.
pub fn load(dir: &PrivateDir, mark: Option<&RosterMark>, identity: &Identity) -> Result<Found, RosterFileError> {
    let (bundle, fleet) = (&identity.bundle, &identity.root.sha256());
    let (named, next) = (read(dir, NAME)?, read(dir, NEXT)?);
    let path = || dir.path_of(&file(NAME));
    let parse = |bytes: &[u8]| json::from_slice::<SignedRoster>(bytes, FILE_MAX, JSON_DEPTH_MAX);
    let Some(mark) = mark else {
        return match named {
            None => Ok(Found { roster: None, unfinished: next.map(|_| Unfinished::Leftover) }),
            Some(bytes) => Err(RosterFileError::Newer { path: path(), found: version(&parse(&bytes)), version: 0 }),
        };
    };
    let is_it = |signed: &SignedRoster| Digest::of(signed.parts().payload()) == mark.sha256;
    // What is done about it once it is known to be the ledger's: one that had to be signed anew takes the place.
    let found = |signed: &SignedRoster, unfinished| {
        let verified = match signed.verify(bundle, fleet) {
            Ok(roster) => Ok((roster, unfinished)),
            Err(RosterError::Signature) => anew(signed, identity).map(|roster| (roster, Some(Unfinished::Place))),
            Err(source) => Err(source),
        };
        verified
            .map(|(roster, unfinished)| Found { roster: Some(roster), unfinished })
            .map_err(|source| RosterFileError::Refused { path: path(), source })
    };
    let first = named.as_deref().map(parse);
    if let Some(Ok(signed)) = &first
        && is_it(signed)
    {
        return found(signed, next.map(|_| Unfinished::Leftover));
    }
    if let Some(Ok(signed)) = next.as_deref().map(parse)
        && is_it(&signed)
    {
        return found(&signed, Some(Unfinished::Place));
    }
    let version = mark.version;
    Err(match first {
        None => RosterFileError::Lost { path: path(), version },
        Some(Err(source)) => RosterFileError::Damaged { path: path(), source },
        Some(Ok(signed)) => match signed.verify(bundle, fleet).map(|roster| roster.version()) {
            Ok(found) if found < version => RosterFileError::Older { path: path(), found, version },
            Ok(found) if found > version => RosterFileError::Newer { path: path(), found, version },
            Ok(_) | Err(_) => RosterFileError::Edited { path: path(), version },
        },
    })
}

/// The roster in force, only looked at. A command may change it meanwhile: then it is looked at again.
///
/// # Errors
/// As [`load`], or the ledger cannot be read.
pub fn look(dir: &PrivateDir, identity: &Identity) -> Result<Option<VerifiedRoster>, RosterFileError> {
    let once = || {
        let ledger = Ledger::load(dir).map_err(RosterFileError::LedgerRead)?;
        load(dir, ledger.records().roster(), identity).map(|found| found.roster)
    };
    (1..LOOKS).fold(once(), |found, _| found.or_else(|_| once()))
}

/// The same payload, signed with the worker's present key. That the ledger names this payload was looked at before.
fn anew(signed: &SignedRoster, identity: &Identity) -> Result<VerifiedRoster, RosterError> {
    let payload = signed.parts().payload();
    let roster: Roster = json::from_slice(payload, FILE_MAX, JSON_DEPTH_MAX).map_err(RosterError::Json)?;
    let anew = SignedRoster::sign(&roster, &identity.worker_key)?;
    // Another version of this program may have put it in other words, and those are another roster to nodes.
    if anew.parts().payload() != payload {
        return Err(RosterError::Signature);
    }
    anew.verify(&identity.bundle, &identity.root.sha256())
}

/// The version that a file says it has, whoever signed it: for words only.
fn version(signed: &Result<SignedRoster, JsonError>) -> u64 {
    let payload = signed.as_ref().ok().map(|signed| signed.parts().payload());
    let roster = payload.and_then(|payload| json::from_slice::<Roster>(payload, FILE_MAX, JSON_DEPTH_MAX).ok());
    roster.map_or(0, |roster| roster.version)
}

fn read(dir: &PrivateDir, name: &str) -> Result<Option<Vec<u8>>, RosterFileError> {
    let max = u64::try_from(FILE_MAX).unwrap_or(u64::MAX);
    let read = dir.read_as(&file(name), max, FileRules::private(), Format::schema(1));
    read.map(lucia_durable::Loaded::found).map_err(RosterFileError::Read)
}

/// The roster in force under the ledger's lock; what a crash cut off is made good.
///
/// # Errors
/// As [`load`], or it cannot be written.
pub fn current(
    dir: &PrivateDir,
    identity: &Identity,
    transaction: &Transaction<'_>,
) -> Result<Option<VerifiedRoster>, RosterFileError> {
    let found = load(dir, transaction.records().roster(), identity)?;
    settle(dir, &found)?;
    Ok(found.roster)
}

fn settle(dir: &PrivateDir, found: &Found) -> Result<(), RosterFileError> {
    match (found.unfinished, &found.roster) {
        (Some(Unfinished::Place), Some(roster)) => place(dir, &bytes(roster)?),
        (Some(Unfinished::Place | Unfinished::Leftover), _) => clear(dir),
        (None, _) => Ok(()),
    }
}

fn place(dir: &PrivateDir, bytes: &[u8]) -> Result<(), RosterFileError> {
    dir.replace(&file(NAME), bytes, MODE).map_err(RosterFileError::Write)?;
    clear(dir)
}

fn clear(dir: &PrivateDir) -> Result<(), RosterFileError> {
    dir.remove(&file(NEXT)).map(drop).map_err(RosterFileError::Write)
}

/// The bytes of a roster's file, here and where it is published.
///
/// # Errors
/// [`RosterFileError::Json`]: never for a roster that was verified.
pub fn bytes(roster: &VerifiedRoster) -> Result<Vec<u8>, RosterFileError> {
    json::to_string(roster.signed()).map(String::into_bytes).map_err(RosterFileError::Json)
}

/// Signs a roster, and checks it as nodes will.
///
/// # Errors
/// [`RosterFileError::TooLong`], [`RosterFileError::Made`].
pub fn sign(roster: &Roster, identity: &Identity) -> Result<VerifiedRoster, RosterFileError> {
    let bytes = json::to_string(roster).map_err(RosterFileError::Json)?.len();
    if bytes > ROSTER_PAYLOAD_MAX {
        return Err(RosterFileError::TooLong { bytes });
    }
    let signed = SignedRoster::sign(roster, &identity.worker_key).map_err(RosterFileError::Made)?;
    signed.verify(&identity.bundle, &identity.root.sha256()).map_err(RosterFileError::Made)
}

/// Puts a roster in force, with the line that says who came or went.
///
/// # Errors
/// It is in force after an error only where its line was written; then the next turn or command makes the rest good.
pub fn change(
    dir: &PrivateDir,
    mut transaction: Transaction<'_>,
    roster: &VerifiedRoster,
    entry: Entry,
    now: UnixTime,
) -> Result<(), RosterFileError> {
    let bytes = bytes(roster)?;
    dir.replace(&file(NEXT), &bytes, MODE).map_err(RosterFileError::Write)?;
    transaction.add(now, entry).and_then(|()| transaction.flush()).map_err(RosterFileError::Ledger)?;
    place(dir, &bytes)?;
    transaction.commit().map_err(RosterFileError::Ledger)
}

/// The next roster, with somebody more. The first one allows every kind of order, and none of them on the page.
#[must_use]
pub fn with(former: Option<&Roster>, fleet: Digest, owner: Owner, now: UnixTime) -> Roster {
    let mut roster = former.cloned().unwrap_or_else(|| Roster {
        version: 0,
        fleet,
        issued_at: now,
        owners: Vec::new(),
        page_kinds: Vec::new().into(),
        page_origin: None,
        policy: OrderPolicy::allow_all(),
    });
    roster.owners.push(owner);
    next(roster, now)
}

/// The next roster, without this one.
#[must_use]
pub fn without(former: &Roster, name: &OwnerName, now: UnixTime) -> Roster {
    let mut roster = former.clone();
    roster.owners.retain(|owner| owner.name != *name);
    next(roster, now)
}

/// The next roster, in which this one has other keys.
#[must_use]
pub fn with_keys(former: &Roster, name: &OwnerName, change: impl FnOnce(&mut Vec<OwnerKey>), now: UnixTime) -> Roster {
    let mut roster = former.clone();
    if let Some(owner) = roster.owners.iter_mut().find(|owner| owner.name == *name) {
        change(&mut owner.keys);
    }
    next(roster, now)
}

/// The next roster, which asks something else of orders.
#[must_use]
pub fn asking(former: &Roster, change: impl FnOnce(&mut Roster), now: UnixTime) -> Roster {
    let mut roster = former.clone();
    change(&mut roster);
    next(roster, now)
}

fn next(mut roster: Roster, now: UnixTime) -> Roster {
    roster.version += 1;
    roster.issued_at = now;
    roster
}

/// Whether nobody could order any more without this one.
#[must_use]
pub fn is_last(roster: &Roster, name: &OwnerName) -> bool {
    let mut owners = roster.owners.iter().filter(|owner| owner.role == Role::Owner);
    owners.clone().any(|owner| owner.name == *name) && owners.all(|owner| owner.name == *name)
}
