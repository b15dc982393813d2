//! `owner`: who may order, which only somebody with a shell on this host decides (design.md O3).

use std::fmt::Write as _;

use clap::{Subcommand, ValueEnum};
use lucia_daemon::clock::now;
use lucia_daemon::exit::Exit;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::text::shown;
use lucia_proto::orders::owner::{self, KeyUse, Owner, OwnerId, OwnerName, Role};
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::pki::key::{Fingerprint, NodePublicKey, VerificationCode};
use serde::Serialize;

use super::acts::typed;
use super::at::{At, say, to_json};
use super::candidates::{LEFT, choose, none_of, open, typed_key, typed_name};
use super::hold::hold;
use super::owner_key;
use crate::applications::{Applicant, Applications, applications, node_of, taken};
use crate::config::Config;
use crate::ledger::Ledger;
use crate::{owners, roster};

#[derive(Debug, Subcommand)]
pub(super) enum OwnerCommand {
    /// Show who asks to become an owner.
    Pending {
        #[command(flatten)]
        at: At,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make somebody an owner, after comparing with what their own machine shows.
    Approve {
        #[command(flatten)]
        at: At,
        /// The code that `luciactl login` shows on their machine.
        #[arg(value_name = "CODE")]
        code: String,
        /// The whole fingerprint of their key, as their machine shows it: 64 hex digits; both rows as they stand, in quotes,
        /// are as good.
        #[arg(long, value_name = "HEX")]
        fingerprint: String,
        /// What they may do.
        #[arg(long, value_enum, default_value_t = RoleName::Owner)]
        role: RoleName,
        /// Somebody of the roster, whose further key this is: one person with several machines.
        #[arg(long = "for", value_name = "NAME", conflicts_with = "role")]
        further: Option<String>,
    },
    /// Reject whoever asks with this code. The key is not barred: it may ask again.
    Reject {
        #[command(flatten)]
        at: At,
        /// The code, as `owner pending` shows it.
        #[arg(value_name = "CODE")]
        code: String,
    },
    /// Show owners and viewers.
    List {
        #[command(flatten)]
        at: At,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take somebody out of the roster, or one key of theirs: nothing that it signs or signed counts any more.
    Remove {
        #[command(flatten)]
        at: At,
        /// What people call them.
        #[arg(value_name = "NAME")]
        name: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Also the last one who may order.
        #[arg(long, conflicts_with = "key")]
        last: bool,
        /// Only this key of theirs: its fingerprint or code, as `owner list` shows it.
        #[arg(long, value_name = "FINGERPRINT")]
        key: Option<String>,
    },
}

/// A role as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RoleName {
    /// Order, and look.
    Owner,
    /// Look at everything.
    Viewer,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Owner => Self::Owner,
            RoleName::Viewer => Self::Viewer,
        }
    }
}

pub(super) const fn role_word(role: Role) -> &'static str {
    match role {
        Role::Owner => "owner",
        Role::Viewer => "viewer",
    }
}

/// `owner ...`; gives what to print.
pub(super) fn owner(command: OwnerCommand) -> Result<String, Exit> {
    match command {
        OwnerCommand::Pending { at, json } => {
            let config = at.enter()?;
            let (_, identity) = open(&config)?;
            let found = applications(&config, &identity.root.sha256(), now());
            if json { to_json(&found) } else { Ok(pending_table(&found)) }
        }
        OwnerCommand::Approve { at, code, fingerprint, role, further: None } => {
            approve(&at.enter()?, &code, &fingerprint, role.into())
        }
        OwnerCommand::Approve { at, code, fingerprint, further: Some(name), .. } => {
            owner_key::add(&at.enter()?, &code, &fingerprint, &name)
        }
        OwnerCommand::Reject { at, code } => reject(&at.enter()?, &code),
        OwnerCommand::List { at, json } => {
            let rows = rows(look(&at.enter()?)?.as_ref());
            if json { to_json(&rows) } else { Ok(list_table(&rows)) }
        }
        OwnerCommand::Remove { at, name, yes, last, key: None } => remove(&at.enter()?, &name, yes, last),
        OwnerCommand::Remove { at, name, yes, key: Some(key), .. } => owner_key::drop(&at.enter()?, &name, &key, yes),
    }
}

/// Somebody of the roster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnerRow {
    name: OwnerName,
    role: Role,
    owner: OwnerId,
    keys: Vec<KeyRow>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyRow {
    #[serde(rename = "use")]
    key_use: KeyUse,
    fingerprint: Option<Fingerprint>,
    code: Option<VerificationCode>,
}

pub(super) fn rows(roster: Option<&VerifiedRoster>) -> Vec<OwnerRow> {
    roster.into_iter().flat_map(|roster| &roster.roster().owners).map(OwnerRow::of).collect()
}

impl OwnerRow {
    fn of(owner: &Owner) -> Self {
        let keys = owner.keys.iter().map(|key| {
            // The roster was verified, so that each is one.
            let public = NodePublicKey::from_pem(&key.public_key_pem).ok();
            KeyRow {
                key_use: key.key_use,
                fingerprint: public.as_ref().map(NodePublicKey::fingerprint),
                code: public.as_ref().map(owner::code),
            }
        });
        Self { name: owner.name.clone(), role: owner.role, owner: owner.id.clone(), keys: keys.collect() }
    }
}

fn pending_table(found: &Applications) -> String {
    let mut out = String::new();
    if found.open.is_empty() {
        out.push_str("Nobody asks to become an owner. On the person's machine: luciactl login\n");
    } else {
        let _ = writeln!(out, "{:<15} {:<20} UNTIL", "CODE", "NAME");
    }
    for Applicant { code, name, expires_at, passkey_of, .. } in &found.open {
        let what = if passkey_of.is_some() { "  a passkey for orders on the page" } else { "" };
        let _ = writeln!(out, "{:<15} {:<20} {expires_at}{what}", code.as_str(), name.as_str());
        let _ = writeln!(out, "  compare the code with the person's own machine, and take HEX from there. Then:");
        let _ = writeln!(out, "  lucia-enrollment-worker owner approve {code} --fingerprint HEX");
        let _ = writeln!(out, "  If you do not know who asks: lucia-enrollment-worker owner reject {code}");
    }
    for problem in &found.problems {
        let _ = writeln!(out, "\n! {}", shown(problem));
    }
    out
}

pub(super) fn list_table(rows: &[OwnerRow]) -> String {
    if rows.is_empty() {
        return "Nobody is an owner. On the person's machine: luciactl login; then here: owner pending\n".to_owned();
    }
    let mut out = format!("{:<20} {:<7} KEYS\n", "NAME", "ROLE");
    for OwnerRow { name, role, keys, .. } in rows {
        for (at, key) in keys.iter().enumerate() {
            let (name, role) = if at == 0 { (name.as_str(), role_word(*role)) } else { ("", "") };
            let what = match key.key_use {
                KeyUse::OwnerKey => "owner key",
                KeyUse::OrderPasskey => "passkey",
            };
            let code = key.code.as_ref().map_or("-", VerificationCode::as_str);
            let fingerprint = key.fingerprint.map(|fingerprint| fingerprint.to_string()).unwrap_or_default();
            let _ = writeln!(out, "{name:<20} {role:<7} {what:<9} {code:<14} {fingerprint}");
        }
    }
    out
}

pub(super) fn look(config: &Config) -> Result<Option<VerifiedRoster>, Exit> {
    let (home, identity) = open(config)?;
    roster::look(&home.dir, &identity).map_err(Exit::from)
}

fn approve(config: &Config, code: &str, fingerprint: &str, role: Role) -> Result<String, Exit> {
    let (code, fingerprint) = typed_key(code, fingerprint)?;
    let (home, identity) = open(config)?;
    let mut ledger = Ledger::load(&home.dir)?;
    let at = now();
    let transaction = ledger.begin(&home.dir, hold(&home)?)?;
    let former = roster::current(&home.dir, &identity, &transaction)?;
    let content = former.as_ref().map(VerifiedRoster::roster);
    if let Some((known, _)) = former.as_ref().and_then(|roster| roster.caller(&fingerprint)) {
        let Owner { name, role, .. } = known;
        return Ok(format!("this key is {name}'s already, who is {}; nothing was written\n", role_word(*role)));
    }
    // What was signed with it before it was removed would count again, and so would whoever took it.
    if transaction.records().has_left(&fingerprint) {
        return Err(Exit::refused(LEFT));
    }
    if role == Role::Viewer && !transaction.records().has_owner() {
        return Err(Exit::refused(
            "nobody is an owner yet, and there must be one before there is a viewer; nobody was approved. Approve an owner \
             first, without --role viewer",
        ));
    }
    let found = applications(config, &identity.root.sha256(), at);
    let applicant = choose(&found, &code, &fingerprint).map_err(Exit::refused)?;
    if applicant.passkey_of.is_some() {
        return owner_key::add_passkey((&home, &identity), transaction, former.as_ref(), applicant, at);
    }
    let named = &applicant.name;
    if let Some(other) = taken(applicant, content) {
        return Err(Exit::refused(format!(
            "{named} cannot be approved: {} is in the roster with another key. If this is a further key of the same person: \
             add --for {0}; else ask under another name, or remove {0} first",
            other.name
        )));
    }
    let node: NodeId = node_of(applicant);
    if transaction.records().node(&node).is_some() {
        return Err(Exit::refused(format!(
            "the key of {named} is that of node {node}, and a key is for one use; ask anew: luciactl login"
        )));
    }
    let (entry, in_force) = (applicant.entry(role), former.as_ref());
    let next = owners::enter(&home, &identity, transaction, in_force, (entry, fingerprint), at);
    let next = next?;
    let mut said = format!("{named} is {} from roster version {} on\n", role_word(role), next.version());
    if config.admission.is_none() && role == Role::Owner && former.is_none_or(|former| !former.has_owner()) {
        said.push_str("From now on a new node is let in by an owner's signed order: luciactl sign CODE\n");
    }
    Ok(said)
}

fn reject(config: &Config, code: &str) -> Result<String, Exit> {
    let usage = |error| Exit::usage(format!("CODE is not {error}"));
    let code: VerificationCode = code.parse().map_err(usage)?;
    let (_, identity) = open(config)?;
    let found = applications(config, &identity.root.sha256(), now());
    let mut said = String::new();
    // Two of one code cannot be told apart here, and whoever is meant to become an owner asks again.
    for applicant in found.open.iter().filter(|applicant| applicant.code == code) {
        crate::applications::reject(config, applicant).map_err(Exit::refused)?;
        let _ = writeln!(said, "Rejected {code} ({}). The controller drops it within a minute.", applicant.name);
    }
    if said.is_empty() { Err(Exit::refused(none_of(&found, &code))) } else { Ok(said) }
}

fn remove(config: &Config, name: &str, yes: bool, last: bool) -> Result<String, Exit> {
    let name = typed_name(name)?;
    // Asked before the ledger is taken, which a running worker waits for.
    if !yes {
        say(&format!("Nothing that {name} signs or signed counts any more, at nodes with their next heartbeat.\n"));
        if typed(&format!("Type {name} to remove {name}: "))? != name.as_str() {
            return Err(Exit::refused("that is not the name; nobody was removed"));
        }
    }
    let (home, identity) = open(config)?;
    let mut ledger = Ledger::load(&home.dir)?;
    let at = now();
    let transaction = ledger.begin(&home.dir, hold(&home)?)?;
    let former = roster::current(&home.dir, &identity, &transaction)?;
    let who = former.as_ref().and_then(|roster| {
        let who = roster.roster().owners.iter().find(|owner| owner.name == name);
        who.map(|who| (roster, who))
    });
    let Some((former, who)) = who else {
        return Err(Exit::refused(format!("{name} is nobody of the roster; see `owner list`")));
    };
    if roster::is_last(former.roster(), &name) && !last {
        return Err(Exit::refused(format!(
            "{name} is the last one who may order; nobody was removed. If that is meant, add --last: then new nodes are let \
             in by the operator, and orders by nobody until the next owner is approved"
        )));
    }
    let next = owners::leave(&home, &identity, transaction, (former, who), at)?;
    Ok(format!(
        "{name} is out from roster version {} on; nodes take it with their next heartbeat, and no order of {name}'s \
         after 24 hours in any case\n",
        next.version()
    ))
}
