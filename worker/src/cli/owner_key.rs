//! Further keys of somebody who is in the roster: one person, several machines (design.md O3). Who is to be two is two
//! persons: keys are never counted.

use lucia_daemon::clock::now;
use lucia_daemon::exit::Exit;
use lucia_proto::base::limits::OWNER_KEYS_MAX;
use lucia_proto::base::text::shown;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::owner::{self, KeyUse, Owner, OwnerKey, OwnerName};
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::pki::key::{Fingerprint, NodePublicKey};

use super::acts::typed;
use super::at::say;
use super::candidates::{LEFT, choose, open, typed_key, typed_name};
use super::hold::hold;
use crate::applications::{Applicant, applications, node_of};
use crate::config::Config;
use crate::home::{Home, Identity};
use crate::ledger::{Ledger, Transaction};
use crate::{chain, owners, roster};

fn find<'a>(roster: Option<&'a VerifiedRoster>, name: &OwnerName) -> Result<(&'a VerifiedRoster, &'a Owner), Exit> {
    let who = roster.and_then(|roster| {
        let who = roster.roster().owners.iter().find(|owner| owner.name == *name);
        who.map(|who| (roster, who))
    });
    who.ok_or_else(|| Exit::refused(format!("{name} is nobody of the roster; see `owner list`")))
}

/// `owner approve --for NAME`: a further key of somebody of the roster.
pub(super) fn add(config: &Config, code: &str, fingerprint: &str, name: &str) -> Result<String, Exit> {
    let ((code, fingerprint), name) = (typed_key(code, fingerprint)?, typed_name(name)?);
    let (home, identity) = open(config)?;
    let mut ledger = Ledger::load(&home.dir)?;
    let at = now();
    let transaction = ledger.begin(&home.dir, hold(&home)?)?;
    let former = roster::current(&home.dir, &identity, &transaction)?;
    if let Some((known, _)) = former.as_ref().and_then(|roster| roster.caller(&fingerprint)) {
        return Ok(format!("this key is {}'s already; nothing was written\n", known.name));
    }
    let (former, who) = find(former.as_ref(), &name)?;
    if transaction.records().has_left(&fingerprint) {
        return Err(Exit::refused(LEFT));
    }
    let found = applications(config, &identity.root.sha256(), at);
    let applicant = choose(&found, &code, &fingerprint).map_err(Exit::refused)?;
    if applicant.passkey_of.is_some() {
        return Err(Exit::refused("this is a passkey for orders, which says itself whose it is; leave --for out"));
    }
    if applicant.name != name {
        return Err(Exit::refused(format!(
            "whoever asks with code {code} asks as {}, and not as {name}; nothing was written. On that machine: luciactl login \
             --name {name}",
            shown(applicant.name.as_str())
        )));
    }
    has_room(who, applicant, &transaction)?;
    let key = (applicant.key(), fingerprint);
    let next = owners::add_key(&home, &identity, transaction, (former, who), key, at);
    let next = next?;
    Ok(format!("{name} has one key more from roster version {} on; it speaks for the same person\n", next.version()))
}

/// Whether somebody may have this key besides.
fn has_room(who: &Owner, applicant: &Applicant, transaction: &Transaction<'_>) -> Result<(), Exit> {
    let name = &who.name;
    if who.keys.len() >= OWNER_KEYS_MAX {
        return Err(Exit::refused(format!(
            "{name} has {OWNER_KEYS_MAX} keys, and nobody has more; take one away first: owner remove {name} --key FINGERPRINT"
        )));
    }
    let node = node_of(applicant);
    if transaction.records().node(&node).is_some() {
        return Err(Exit::refused(format!(
            "this key is that of node {node}, and a key is for one use; ask anew with another"
        )));
    }
    Ok(())
}

/// `owner approve` of a passkey for orders: its owner confirmed it with an owner key, and it signs what `page-kinds` names.
pub(super) fn add_passkey(
    (home, identity): (&Home, &Identity),
    transaction: Transaction<'_>,
    former: Option<&VerifiedRoster>,
    applicant: &Applicant,
    at: UnixTime,
) -> Result<String, Exit> {
    let (former, who) = find(former, &applicant.name)?;
    applicant.application.verify_in(Some(former)).map_err(|error| {
        Exit::refused(format!(
            "{}; nothing was written. On the owner's machine: luciactl passkey orders",
            chain(&error)
        ))
    })?;
    let name = &who.name;
    if former.key(&who.id, &applicant.fingerprint, KeyUse::OrderPasskey).is_some() {
        return Ok(format!("this passkey is {name}'s already; nothing was written\n"));
    }
    if transaction.records().has_left(&applicant.fingerprint) {
        return Err(Exit::refused(LEFT));
    }
    has_room(who, applicant, &transaction)?;
    let key = (applicant.key(), applicant.fingerprint);
    let next = owners::add_key(home, identity, transaction, (former, who), key, at);
    let next = next?;
    let mut said = format!("{name} has a passkey for orders from roster version {} on\n", next.version());
    if next.roster().page_kinds.is_empty() {
        said.push_str("It signs nothing yet: no kind of order may be signed on the page (roster page-kinds)\n");
    }
    Ok(said)
}

/// The one key of somebody that a fingerprint or code means.
fn key_of<'a>(who: &'a Owner, text: &str) -> Result<(&'a OwnerKey, Fingerprint), Exit> {
    let (text, typed) = (text.to_ascii_lowercase(), Fingerprint::typed(text).ok());
    let keys = who.keys.iter().filter_map(|key| {
        let public = NodePublicKey::from_pem(&key.public_key_pem).ok()?;
        let is_it = Some(public.fingerprint()) == typed || owner::code(&public).as_str() == text;
        is_it.then(|| (key, public.fingerprint()))
    });
    let keys: Vec<_> = keys.collect();
    match keys.as_slice() {
        [one] => Ok(*one),
        [] => Err(Exit::refused(format!(
            "{} has no key with this fingerprint or code; nothing was written; see `owner list`",
            who.name
        ))),
        _ => Err(Exit::refused(format!("{} has two keys of this code; say the fingerprint", who.name))),
    }
}

/// `owner remove NAME --key FINGERPRINT`: one key less.
pub(super) fn drop(config: &Config, name: &str, key: &str, yes: bool) -> Result<String, Exit> {
    let name = typed_name(name)?;
    // Asked before the ledger is taken, which a running worker waits for.
    if !yes {
        say(&format!(
            "Nothing that this key of {name}'s signs or signed counts any more, at nodes with their next heartbeat.\n"
        ));
        if typed(&format!("Type {name} to take the key away: "))? != name.as_str() {
            return Err(Exit::refused("that is not the name; nothing was written"));
        }
    }
    let (home, identity) = open(config)?;
    let mut ledger = Ledger::load(&home.dir)?;
    let at = now();
    let transaction = ledger.begin(&home.dir, hold(&home)?)?;
    let former = roster::current(&home.dir, &identity, &transaction)?;
    let (former, who) = find(former.as_ref(), &name)?;
    let (key, fingerprint) = key_of(who, key)?;
    let others = who.keys.iter().filter(|other| *other != key);
    if !others.clone().any(|other| other.key_use == KeyUse::OwnerKey) {
        return Err(Exit::refused(format!(
            "this is the only key {name} signs with; nothing was written. To take {name} out: owner remove {name}"
        )));
    }
    let next = owners::drop_key(&home, &identity, transaction, (former, who), (key, fingerprint), at);
    let next = next?;
    Ok(format!("the key is out from roster version {} on, for good; {name} goes on with the others\n", next.version()))
}
