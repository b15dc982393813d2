//! An owner's orders about SSH keys: what an account has by the last one, and the next.
//!
//! The last one counts only with the signature of an owner of the roster. Which of those is the last is the controller's
//! word: an older one is refused by nodes that hold a newer, and the next is shown whole before it is signed, each key that
//! the account will have, in full. Which node has which name is the worker's word.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use lucia_people::host_api::NodeLine;
use lucia_people::owner_api::{DraftLine, DraftState, DraftView, OwnerEndpoint};
use lucia_proto::base::bounded::KeyLabel;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::{SSH_KEY_LINE_MAX, SSH_KEYS_PER_ACCOUNT_MAX};
use lucia_proto::base::names::AccountName;
use lucia_proto::base::text::counted;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::orders::ssh_key::SshKey;
use lucia_proto::orders::{Body, LabelledKey, OrderKind, SshKeys, Terms};
use lucia_proto::pki::key::VerificationCode;
use serde::Serialize;

use crate::args::{KeysVerb, NodesWanted};
use crate::client::{Client, Me};
use crate::failure::Failure;
use crate::nodes_named::Meant;
use crate::operator::is_named;
use crate::order::{self, OrderError};
use crate::patience::Progress;
use crate::tell::{Out, paste};
use crate::{roster, show, sign};

/// What was ordered about an account before.
#[derive(Debug, Default)]
struct Held {
    /// The highest number of any order that somebody signed.
    revision: u64,
    /// By the last of them that was given.
    keys: Vec<LabelledKey>,
    /// Whom that is for.
    nodes: Vec<NodeId>,
}

/// What an account has by the last order about it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ordered {
    /// Whose.
    pub(crate) account: AccountName,
    /// The number of that order.
    pub(crate) revision: u64,
    /// What to look at.
    pub(crate) order: VerificationCode,
    /// Where it stands.
    pub(crate) state: DraftState,
    /// Since when.
    pub(crate) at: UnixTime,
    /// Whom it is for.
    pub(crate) nodes: Vec<NodeId>,
    /// All of them.
    pub(crate) keys: Vec<LabelledKey>,
}

/// `keys` of an owner.
pub(crate) async fn order(client: &Client, me: &Me, out: Out, verb: KeysVerb) -> Result<(), Failure> {
    let (account, change, wanted) = match verb {
        KeysVerb::List => {
            let view = list(client, me, &roster::ask(client, me).await?).await?;
            return out.say(&view, || show::ordered(&view, out.screen));
        }
        KeysVerb::Add { account, file, label, wanted } => (account, Change::Add(label, public_key(&file)?), wanted),
        KeysVerb::Remove { account, fingerprint, wanted } => (account, Change::Remove(fingerprint), wanted),
    };
    let roster = roster::signer(client, me, &[OrderKind::SshKey]).await?;
    let held = held(client, me, &roster, &account).await?;
    let keys = change.of(&account, held.keys)?;
    let nodes = client.nodes().await?;
    let (named, meant) = named(&nodes.nodes, &wanted, held.nodes)?;
    let revision = match wanted.revision {
        Some(revision) => revision,
        None => held.revision.checked_add(1).ok_or(OrderError::NoRevision)?,
    };
    let draft = order::ssh_keys(me, named.clone(), SshKeys { account, keys }, revision)?;
    let count = u64::try_from(named.len()).unwrap_or(u64::MAX);
    let sentence = format!("This is for {}.", counted(count, "node"));
    sign::order(client, me, out, &draft, &meant, &sentence, wanted.yes).await
}

/// The one key in a public key file, checked here so that the mistake is told with the file's name.
fn public_key(file: &Path) -> Result<SshKey, Failure> {
    let bad = |why: String| Failure::KeyFile { file: file.to_owned(), why };
    let most = u64::try_from(SSH_KEY_LINE_MAX).unwrap_or(u64::MAX) + 2;
    let mut text = String::new();
    if file == Path::new("-") {
        paste("the public key, the one line of its .pub file,");
        io::stdin().lock().take(most).read_to_string(&mut text)
    } else {
        File::open(file).and_then(|file| file.take(most).read_to_string(&mut text))
    }
    .map_err(|error| bad(error.to_string()))?;
    if text.contains("PRIVATE KEY") {
        return Err(bad("this is a private key: give the .pub file beside it".to_owned()));
    }
    text.parse::<SshKey>().map_err(|error| bad(error.to_string()))
}

/// What becomes of the keys.
enum Change {
    Add(KeyLabel, SshKey),
    Remove(String),
}

impl Change {
    fn of(self, account: &AccountName, mut keys: Vec<LabelledKey>) -> Result<Vec<LabelledKey>, OrderError> {
        match self {
            Self::Add(label, key) => {
                if keys.iter().any(|held| *held.key.key() == key) {
                    return Err(OrderError::HasKey(account.clone()));
                }
                if keys.len() >= SSH_KEYS_PER_ACCOUNT_MAX {
                    return Err(OrderError::TooManyKeys(account.clone()));
                }
                keys.push(LabelledKey { label, key: key.into() });
            }
            Self::Remove(fingerprint) => {
                let before = keys.len();
                keys.retain(|held| held.key.key().fingerprint() != fingerprint);
                if keys.len() == before {
                    return Err(OrderError::NoKey { account: account.clone(), fingerprint });
                }
            }
        }
        Ok(keys)
    }
}

/// Whom the next order is for: those that are named, all there are, or those of the last one; and how they were named.
fn named(all: &[NodeLine], wanted: &NodesWanted, last: Vec<NodeId>) -> Result<(Vec<NodeId>, Vec<Meant>), OrderError> {
    if wanted.all {
        return Ok((all.iter().map(|node| node.node_id.clone()).collect(), Vec::new()));
    }
    if wanted.nodes.is_empty() {
        return Ok((last, Vec::new()));
    }
    let one = |text: &String| {
        let found = all.iter().find(|node| is_named(node, text));
        found.map(|node| Meant::new(text, &node.node_id)).ok_or_else(|| OrderError::NoNode(text.clone()))
    };
    let meant = wanted.nodes.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    Ok((meant.iter().map(|meant| meant.node.clone()).collect(), meant))
}

/// What was ordered about this account.
async fn held(client: &Client, me: &Me, roster: &VerifiedRoster, account: &AccountName) -> Result<Held, Failure> {
    let mut held = Held::default();
    let (lines, mut progress) = lines(client).await?;
    for line in lines {
        progress.step();
        let Some(order) = signed(client, me, roster, &line).await?.filter(|order| order.account == *account) else {
            continue;
        };
        held.revision = held.revision.max(order.revision);
        if was_given(line.state) {
            (held.keys, held.nodes) = (order.keys, order.nodes);
            return Ok(held);
        }
    }
    Ok(held)
}

/// What was ordered last about each account, in their order.
async fn list(client: &Client, me: &Me, roster: &VerifiedRoster) -> Result<Vec<Ordered>, Failure> {
    let mut all: Vec<Ordered> = Vec::new();
    let (lines, mut progress) = lines(client).await?;
    for line in lines {
        progress.step();
        let Some(order) = signed(client, me, roster, &line).await? else { continue };
        let is_known = all.iter().any(|later| later.account == order.account);
        if is_known || !was_given(line.state) {
            continue;
        }
        all.push(order);
    }
    all.sort_by(|one, other| one.account.cmp(&other.account));
    Ok(all)
}

/// The orders about SSH keys that somebody signed. Each is read by a call of its own, which takes its time.
async fn lines(client: &Client) -> Result<(Vec<DraftLine>, Progress), Failure> {
    let mut lines = sign::drafts(client).await?.drafts;
    lines.retain(|line| line.kind == OrderKind::SshKey && !line.signers.is_empty());
    let progress = Progress::new("Reading earlier orders", lines.len());
    Ok((lines, progress))
}

/// An earlier order about SSH keys, as the controller has it. One that no owner of the roster signed counts for nothing:
/// neither its keys, which somebody may have slipped in, nor its number.
async fn signed(
    client: &Client,
    me: &Me,
    roster: &VerifiedRoster,
    line: &DraftLine,
) -> Result<Option<Ordered>, Failure> {
    let view: DraftView = client.look(OwnerEndpoint::Draft, Some(&line.code)).await?;
    let read = sign::read(&view.draft, &line.code, &me.fleet())?;
    let order = read.signed(view.signatures);
    let is_signed =
        order.signatures.iter().any(|signature| order.check_signature(signature, read.intent().kind, roster).is_ok());
    let (Body::SshKey(keys), Terms::State { revision, .. }, true) = (read.body(), &read.intent().terms, is_signed)
    else {
        return Ok(None);
    };
    Ok(Some(Ordered {
        account: keys.account.clone(),
        revision: *revision,
        order: line.code.clone(),
        state: line.state,
        at: read.intent().issued_at,
        nodes: read.intent().nodes.clone(),
        keys: keys.keys.clone(),
    }))
}

/// Whether somebody signed it: then it holds, or will, at whoever did not refuse it.
const fn was_given(state: DraftState) -> bool {
    match state {
        DraftState::Signed | DraftState::Done | DraftState::Refused | DraftState::Replaced | DraftState::NobodyLeft => {
            true
        }
        DraftState::Drafted | DraftState::Expired => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

    fn node(number: u8) -> NodeLine {
        let id = format!("{number:02x}").repeat(16);
        lucia_proto::base::json::from_str(
            &format!(
                r#"{{"nodeId":"{id}","hostname":"n{number}","verificationCode":"{code}","state":"Online"}}"#,
                code = format!("{number:02x}{number:02x}-").repeat(3).trim_end_matches('-'),
            ),
            1024,
            8,
        )
        .unwrap()
    }

    // spec: LC-8
    #[test]
    fn nodes_are_named_one_by_one() {
        let all = [node(1), node(2), node(3)];
        let wanted = |nodes: &[&str], all| NodesWanted {
            nodes: nodes.iter().map(|text| (*text).to_owned()).collect(),
            all,
            revision: None,
            yes: true,
        };
        let ids = |numbers: &[u8]| numbers.iter().map(|number| node(*number).node_id).collect::<Vec<_>>();
        let last = || ids(&[3]);
        assert_eq!(named(&all, &wanted(&[], true), last()).unwrap().0, ids(&[1, 2, 3]));
        assert_eq!(named(&all, &wanted(&[], false), last()).unwrap().0, ids(&[3]));
        let by = ["n2", "0101-0101-0101", &"03".repeat(16)];
        assert_eq!(named(&all, &wanted(&by, false), last()).unwrap().0, ids(&[2, 1, 3]));
        assert!(
            matches!(named(&all, &wanted(&["n1", "n9"], false), last()), Err(OrderError::NoNode(name)) if name == "n9")
        );
    }

    // spec: LC-8
    #[test]
    fn the_next_order_has_every_key_that_stays() {
        let account: AccountName = "alice".parse().unwrap();
        let key: SshKey = KEY.parse().unwrap();
        let label: KeyLabel = "laptop".parse().unwrap();
        let one = Change::Add(label.clone(), key.clone()).of(&account, Vec::new()).unwrap();
        assert_eq!(one.len(), 1);
        let again = Change::Add(label, key.clone()).of(&account, one.clone());
        assert!(matches!(again, Err(OrderError::HasKey(_))));
        assert!(Change::Remove(key.fingerprint()).of(&account, one.clone()).unwrap().is_empty());
        assert!(matches!(Change::Remove("SHA256:x".to_owned()).of(&account, one), Err(OrderError::NoKey { .. })));
    }
}
