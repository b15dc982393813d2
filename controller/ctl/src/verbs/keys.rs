//! An owner's orders about SSH keys: what an account has by the last one, and the next.
//!
//! The last one counts only with the signature of an owner of the roster. Which of those is the last is the controller's
//! word: an older one is refused by nodes that hold a newer, and the next is shown whole before it is signed, each key that
//! the account will have, in full. Which node has which name is the worker's word.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use lucia_people::calls::PeopleCall;
use lucia_people::host_api::NodeLine;
use lucia_people::owner_api::{DraftLine, DraftState, DraftView};
use lucia_proto::base::bounded::KeyLabel;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::{SSH_KEY_LINE_MAX, SSH_KEYS_PER_ACCOUNT_MAX};
use lucia_proto::base::names::AccountName;
use lucia_proto::base::text::{counted, shown};
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::orders::ssh_key::SshKey;
use lucia_proto::orders::{Body, LabelledKey, OrderKind, SshKeys, Terms};
use lucia_proto::pki::key::VerificationCode;
use serde::Serialize;

use crate::client::{Client, Me};
use crate::find::is_named;
use crate::given::{self, GivenError};
use crate::nodes_named::Meant;
use crate::order::drafted;
use crate::patience::Progress;
use crate::problem::{FAILED, Failure, problems};
use crate::session::Session;
use crate::table::{Screen, plain, table};
use crate::{roster, sign};

problems! {
    /// Why no keys were ordered.
    enum KeysError {
        NoNodes = "", FAILED, ["nothing was ordered: nothing says for which nodes"], ["give --nodes NODE,... or --all"];
        NoNode(text: String) = "", FAILED, ["nothing was ordered: no node is {}", shown(text)], ["luciactl nodes shows those there are"];
        HasKey(account: AccountName) = "", FAILED, ["nothing was ordered: {account} has this key already"],
            ["luciactl drafts shows by which order"];
        NoKey(account: AccountName, fingerprint: String) = "", FAILED,
            ["nothing was ordered: no order gave {account} the key {}", shown(fingerprint)],
            ["luciactl drafts shows the orders there are"];
        TooManyKeys(account: AccountName) = "", FAILED, ["nothing was ordered: {account} has {SSH_KEYS_PER_ACCOUNT_MAX} keys"],
            ["remove one first"];
        NoRevision = "", FAILED, ["nothing was ordered: the last revision has no next one"], ["say another with --revision N"];
    }
}

/// List, add and remove SSH keys by orders that you sign.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  luciactl keys list\n  luciactl keys add alice ~/.ssh/id_ed25519.pub --label laptop --all"
)]
pub(crate) enum Keys {
    /// List the keys that owners ordered.
    #[command(after_help = "Example:\n  luciactl keys list")]
    List,
    /// Sign an order that adds a key; each node takes it with its next heartbeat.
    ///
    /// The first order about an account says for which nodes: --nodes or --all.
    #[command(
        after_help = "Examples:\n  luciactl keys add alice ~/.ssh/id_ed25519.pub --label laptop --all\n  luciactl keys add alice ~/.ssh/id_ed25519.pub --label laptop --nodes web-1,web-2"
    )]
    Add {
        /// The directory account whose key it is.
        account: AccountName,
        /// The public key's file; - for standard input.
        file: PathBuf,
        /// What you call it.
        #[arg(long, value_name = "TEXT")]
        label: KeyLabel,
        #[command(flatten)]
        wanted: NodesWanted,
    },
    /// Sign an order that removes a key; each node drops it with its next heartbeat.
    #[command(after_help = "Example:\n  luciactl keys remove alice SHA256:...")]
    Remove {
        /// The account whose key it is.
        account: AccountName,
        /// `SHA256:...`, as the list and `ssh-keygen -l` show it.
        fingerprint: String,
        #[command(flatten)]
        wanted: NodesWanted,
    },
}

/// Where an account's keys are set, and how often they were before. For owners.
#[derive(Debug, Args)]
pub(crate) struct NodesWanted {
    /// As an owner: the nodes it is for, by hostname, node id or verification code, with commas between. Those of the
    /// last order about this account, unless said.
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    nodes: Vec<String>,
    /// As an owner: every node there is now; they are listed before you sign.
    #[arg(long, conflicts_with = "nodes")]
    all: bool,
    /// As an owner: the number of this order about the account; one more than the last, unless said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    revision: Option<u64>,
    /// Does not ask.
    #[arg(long)]
    yes: bool,
}

pub(super) async fn keys(session: &Session, asked: Keys) -> Result<(), Failure> {
    let (client, me, out) = (&session.client, session.owner("to order SSH keys")?, session.out);
    let (account, change, wanted) = match asked {
        Keys::List => {
            let view = Reader { client, me, roster: roster::ask(client, me).await? }.list().await?;
            return out.say(&view, || ordered(&view, out.screen));
        }
        Keys::Add { account, file, label, wanted } => (account, Change::Add(label, public_key(&file)?), wanted),
        Keys::Remove { account, fingerprint, wanted } => (account, Change::Remove(fingerprint), wanted),
    };
    let roster = roster::signer(client, me, &[OrderKind::SshKey]).await?;
    let (last, keys, nodes) = Reader { client, me, roster }.last(&account).await?;
    let keys = change.of(&account, keys)?;
    let (mut nodes, meant) = named(&client.nodes().await?.nodes, &wanted, nodes)?;
    nodes.sort();
    nodes.dedup();
    if nodes.is_empty() {
        return Err(KeysError::NoNodes.into());
    }
    let revision = match wanted.revision {
        Some(revision) => revision,
        None => last.checked_add(1).ok_or(KeysError::NoRevision)?,
    };
    let no_subject = |_| KeysError::NoKey(account.clone(), String::new());
    let terms = Terms::State { subject: account.as_str().parse().map_err(no_subject)?, revision };
    let count = u64::try_from(nodes.len()).unwrap_or(u64::MAX);
    let draft = drafted(me, nodes, &Body::SshKey(SshKeys { account, keys }), terms)?;
    sign::order(session, me, &draft, &meant, &format!("This is for {}.", counted(count, "node")), wanted.yes).await
}

/// What an account has by the last order about it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ordered {
    /// Whose.
    account: AccountName,
    /// The number of that order.
    revision: u64,
    /// What to look at.
    order: VerificationCode,
    /// Where it stands.
    state: DraftState,
    /// Since when.
    at: UnixTime,
    /// Whom it is for.
    nodes: Vec<NodeId>,
    /// All of them.
    keys: Vec<LabelledKey>,
}

/// The one key in a public key file.
fn public_key(file: &Path) -> Result<SshKey, GivenError> {
    let text = given::read(file, SSH_KEY_LINE_MAX + 2, "the public key, the one line of its .pub file,")?;
    if text.contains("PRIVATE KEY") {
        return Err(given::bad(file, "this is a private key: give the .pub file beside it"));
    }
    text.parse().map_err(|error| given::bad(file, error))
}

/// What becomes of the keys.
enum Change {
    Add(KeyLabel, SshKey),
    Remove(String),
}

impl Change {
    fn of(self, account: &AccountName, mut keys: Vec<LabelledKey>) -> Result<Vec<LabelledKey>, KeysError> {
        match self {
            Self::Add(label, key) => {
                if keys.iter().any(|held| *held.key.key() == key) {
                    return Err(KeysError::HasKey(account.clone()));
                }
                if keys.len() >= SSH_KEYS_PER_ACCOUNT_MAX {
                    return Err(KeysError::TooManyKeys(account.clone()));
                }
                keys.push(LabelledKey { label, key: key.into() });
            }
            Self::Remove(fingerprint) => {
                let before = keys.len();
                keys.retain(|held| held.key.key().fingerprint() != fingerprint);
                if keys.len() == before {
                    return Err(KeysError::NoKey(account.clone(), fingerprint));
                }
            }
        }
        Ok(keys)
    }
}

/// Whom the next order is for: those that are named, all there are, or those of the last one; and how they were named.
fn named(all: &[NodeLine], wanted: &NodesWanted, last: Vec<NodeId>) -> Result<(Vec<NodeId>, Vec<Meant>), KeysError> {
    if wanted.all {
        return Ok((all.iter().map(|node| node.node_id.clone()).collect(), Vec::new()));
    }
    if wanted.nodes.is_empty() {
        return Ok((last, Vec::new()));
    }
    let one = |text: &String| {
        let found = all.iter().find(|node| is_named(node, text));
        found.map(|node| Meant::new(text, &node.node_id)).ok_or_else(|| KeysError::NoNode(text.clone()))
    };
    let meant = wanted.nodes.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    Ok((meant.iter().map(|meant| meant.node.clone()).collect(), meant))
}

/// Reads the orders about SSH keys that there are.
struct Reader<'a> {
    client: &'a Client,
    me: &'a Me,
    roster: VerifiedRoster,
}

impl Reader<'_> {
    /// What was ordered about this account: the highest number of any order that somebody signed, and by the last of them
    /// that was given the keys, and the nodes that it is for.
    async fn last(&self, account: &AccountName) -> Result<(u64, Vec<LabelledKey>, Vec<NodeId>), Failure> {
        let (mut last, mut keys, mut nodes) = (0, Vec::new(), Vec::new());
        let each = |order: Ordered| {
            let is_its = order.account == *account;
            last = if is_its { last.max(order.revision) } else { last };
            let is_last = is_its && was_given(order.state);
            if is_last {
                (keys, nodes) = (order.keys, order.nodes);
            }
            is_last
        };
        self.all(each).await?;
        Ok((last, keys, nodes))
    }

    /// What was ordered last about each account, in their order.
    async fn list(&self) -> Result<Vec<Ordered>, Failure> {
        let mut all = BTreeMap::new();
        let each = |order: Ordered| {
            if was_given(order.state) {
                all.entry(order.account.clone()).or_insert(order);
            }
            false
        };
        self.all(each).await?;
        Ok(all.into_values().collect())
    }

    /// Every order that somebody signed, the newest first, until `each` has what it looks for. Each is read by a call of its
    /// own, which takes its time.
    async fn all(&self, mut each: impl FnMut(Ordered) -> bool) -> Result<(), Failure> {
        let mut lines = sign::drafts(self.client).await?.drafts;
        lines.retain(|line| line.kind == OrderKind::SshKey && !line.signers.is_empty());
        let mut progress = Progress::new("Reading earlier orders", lines.len());
        for line in lines {
            progress.step();
            if self.signed(&line).await?.is_some_and(&mut each) {
                break;
            }
        }
        Ok(())
    }

    /// One that no owner of the roster signed counts for nothing: neither its keys, which somebody may have slipped in, nor
    /// its number.
    async fn signed(&self, line: &DraftLine) -> Result<Option<Ordered>, Failure> {
        let view: DraftView = self.client.call(PeopleCall::Draft, &line.code).await?;
        let read = sign::read(&view.draft, &line.code, &self.me.fleet())?;
        let (order, intent) = (read.signed(view.signatures), read.intent());
        let is_signed =
            order.signatures.iter().any(|one| order.check_signature(one, intent.kind, &self.roster).is_ok());
        let (Body::SshKey(keys), Terms::State { revision, .. }, true) = (read.body(), &intent.terms, is_signed) else {
            return Ok(None);
        };
        Ok(Some(Ordered {
            account: keys.account.clone(),
            revision: *revision,
            order: line.code.clone(),
            state: line.state,
            at: intent.issued_at,
            nodes: intent.nodes.clone(),
            keys: keys.keys.clone(),
        }))
    }
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

/// `keys list`.
fn ordered(all: &[Ordered], screen: Screen) -> String {
    if all.is_empty() {
        return "No owner ordered SSH keys yet. luciactl keys add ACCOUNT FILE --label TEXT --all orders one.\n"
            .to_owned();
    }
    let mut rows = Vec::new();
    for order in all {
        let nodes = counted(u64::try_from(order.nodes.len()).unwrap_or(u64::MAX), "node");
        let mut row = |fingerprint: String, label: String| {
            rows.push(vec![
                plain(&order.account),
                plain(fingerprint),
                plain(label),
                plain(nodes.clone()),
                plain(order.revision),
                plain(&order.order),
                plain(order.at),
            ]);
        };
        if order.keys.is_empty() {
            row("none".to_owned(), "-".to_owned());
        }
        for key in &order.keys {
            row(key.key.key().fingerprint(), key.label.to_string());
        }
    }
    table(&["ACCOUNT", "FINGERPRINT", "LABEL", "FOR", "REVISION", "ORDER", "SINCE"], &rows, screen)
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
            matches!(named(&all, &wanted(&["n1", "n9"], false), last()), Err(KeysError::NoNode(name)) if name == "n9")
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
        assert!(matches!(again, Err(KeysError::HasKey(_))));
        assert!(Change::Remove(key.fingerprint()).of(&account, one.clone()).unwrap().is_empty());
        assert!(matches!(Change::Remove("SHA256:x".to_owned()).of(&account, one), Err(KeysError::NoKey(..))));
    }
}
