//! Who comes and who goes, by which keys, and what is asked of orders: the changes of the roster, as the commands make
//! them and tests cut them off.

use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::owner::{Owner, OwnerKey};
use lucia_proto::orders::roster::{Roster, VerifiedRoster};
use lucia_proto::pki::key::Fingerprint;
use thiserror::Error;

use crate::home::{Home, Identity};
use crate::ledger::{Entry, Transaction};
use crate::orders::kept::{KeptError, OrderStore};
use crate::roster::{self, RosterFileError};

/// Why a change did not come about.
#[derive(Debug, Error)]
pub enum OwnersError {
    /// The roster's part.
    #[error(transparent)]
    Roster(#[from] RosterFileError),
    /// The memory's part.
    #[error(transparent)]
    Memory(#[from] KeptError),
}

/// Puts the roster in force that has somebody more, with this key. Whether they may come was decided before.
///
/// # Errors
/// What could not be signed or written; see [`roster::change`].
pub fn enter(
    home: &Home,
    identity: &Identity,
    transaction: Transaction<'_>,
    former: Option<&VerifiedRoster>,
    (who, key): (Owner, Fingerprint),
    at: UnixTime,
) -> Result<VerifiedRoster, OwnersError> {
    let (owner, name, role) = (who.id.clone(), who.name.clone(), who.role);
    let next = roster::with(former.map(VerifiedRoster::roster), identity.root.sha256(), who, at);
    let next = roster::sign(&next, identity)?;
    if former.is_none() && OrderStore::read(&home.dir)?.is_none() {
        // Before anybody can order: an order that is signed from here on is not older than the memory of orders.
        OrderStore::begin(at).store(&home.dir)?;
    }
    let entry = Entry::OwnerApproved { owner, name, role, key, roster: next.mark() };
    roster::change(&home.dir, transaction, &next, entry, at)?;
    Ok(next)
}

/// Puts the roster in force that has somebody less.
///
/// # Errors
/// As [`enter`].
pub fn leave(
    home: &Home,
    identity: &Identity,
    transaction: Transaction<'_>,
    (former, who): (&VerifiedRoster, &Owner),
    at: UnixTime,
) -> Result<VerifiedRoster, OwnersError> {
    let next = roster::sign(&roster::without(former.roster(), &who.name, at), identity)?;
    let entry = Entry::OwnerRemoved { owner: who.id.clone(), name: who.name.clone(), roster: next.mark() };
    roster::change(&home.dir, transaction, &next, entry, at)?;
    Ok(next)
}

/// Puts the roster in force in which somebody has one key more.
///
/// # Errors
/// As [`enter`].
pub fn add_key(
    home: &Home,
    identity: &Identity,
    transaction: Transaction<'_>,
    (former, who): (&VerifiedRoster, &Owner),
    (key, fingerprint): (OwnerKey, Fingerprint),
    at: UnixTime,
) -> Result<VerifiedRoster, OwnersError> {
    let next = roster::with_keys(former.roster(), &who.name, |keys| keys.push(key), at);
    let next = roster::sign(&next, identity)?;
    let (owner, name) = (who.id.clone(), who.name.clone());
    let entry = Entry::OwnerKeyAdded { owner, name, key: fingerprint, roster: next.mark() };
    roster::change(&home.dir, transaction, &next, entry, at)?;
    Ok(next)
}

/// Puts the roster in force in which somebody has one key less. That others remain was looked at before.
///
/// # Errors
/// As [`enter`].
pub fn drop_key(
    home: &Home,
    identity: &Identity,
    transaction: Transaction<'_>,
    (former, who): (&VerifiedRoster, &Owner),
    (key, fingerprint): (&OwnerKey, Fingerprint),
    at: UnixTime,
) -> Result<VerifiedRoster, OwnersError> {
    let next = roster::with_keys(former.roster(), &who.name, |keys| keys.retain(|other| other != key), at);
    let next = roster::sign(&next, identity)?;
    let (owner, name) = (who.id.clone(), who.name.clone());
    let entry = Entry::OwnerKeyRemoved { owner, name, key: fingerprint, roster: next.mark() };
    roster::change(&home.dir, transaction, &next, entry, at)?;
    Ok(next)
}

/// Puts the roster in force that asks something else of orders.
///
/// # Errors
/// As [`enter`].
pub fn ask(
    home: &Home,
    identity: &Identity,
    transaction: Transaction<'_>,
    (former, change): (&VerifiedRoster, impl FnOnce(&mut Roster)),
    at: UnixTime,
) -> Result<VerifiedRoster, OwnersError> {
    let next = roster::sign(&roster::asking(former.roster(), change, at), identity)?;
    roster::change(&home.dir, transaction, &next, Entry::RosterChanged { roster: next.mark() }, at)?;
    Ok(next)
}
