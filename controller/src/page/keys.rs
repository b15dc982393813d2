//! SSH keys by account, and the form that drafts the next order about them.

use askama::Template;
use lucia_proto::host_api::{NodeLine, SshKeyView};
use lucia_proto::intent::SshKeys;
use lucia_proto::key::VerificationCode;
use lucia_proto::names::AccountName;
use lucia_proto::owner_api::DraftState;
use lucia_proto::text::{counted, shown};
use lucia_proto::words::actor;

use super::orders::tone;
use super::words::ago;
use super::{Frame, Tone};

/// The document.
#[derive(Template)]
#[template(path = "keys.html")]
pub(crate) struct Keys {
    frame: Frame,
    accounts: Vec<AccountRow>,
    keys: Vec<KeyRow>,
    nodes: Vec<NodeRow>,
}

/// What was ordered about the keys of an account.
#[derive(Clone, Debug)]
pub(crate) struct OrderedKeys {
    /// Whose.
    pub(crate) account: AccountName,
    /// The newest order that was given; nothing while one only waits.
    pub(crate) given: Option<GivenKeys>,
    /// The newest draft about it that waits for a signature.
    pub(crate) waiting: Option<VerificationCode>,
    /// The number of the next order: over that of any that somebody signed.
    pub(crate) next: u64,
}

/// An order about the keys of an account that was given.
#[derive(Clone, Debug)]
pub(crate) struct GivenKeys {
    /// The keys it sets.
    pub(crate) keys: SshKeys,
    /// How many nodes it names.
    pub(crate) nodes: usize,
    /// Its number.
    pub(crate) revision: u64,
    /// Which order it is.
    pub(crate) code: VerificationCode,
    /// Where it stands.
    pub(crate) state: DraftState,
}

struct AccountRow {
    account: String,
    next: u64,
    given: Option<GivenRow>,
    waiting: Option<String>,
}

struct GivenRow {
    keys: Vec<(String, String)>,
    nodes: String,
    code: String,
    state: &'static str,
    tone: Tone,
}

struct KeyRow {
    account: String,
    label: String,
    fingerprint: String,
    by: String,
    at: String,
}

struct NodeRow {
    id: String,
    hostname: String,
}

impl Keys {
    /// The document; `nodes` are those that an order may name.
    pub(crate) fn new(frame: Frame, ordered: &[OrderedKeys], keys: &[SshKeyView], nodes: &[NodeLine]) -> Self {
        let now = frame.now;
        let given = |given: &GivenKeys| GivenRow {
            keys: given.keys.keys.iter().map(|key| (shown(key.label.as_str()), key.key.key().fingerprint())).collect(),
            nodes: counted(u64::try_from(given.nodes).unwrap_or(u64::MAX), "node"),
            code: given.code.to_string(),
            state: given.state.words(),
            tone: tone(given.state),
        };
        let account = |row: &OrderedKeys| AccountRow {
            account: row.account.to_string(),
            next: row.next,
            given: row.given.as_ref().map(given),
            waiting: row.waiting.as_ref().map(ToString::to_string),
        };
        let row = |key: &SshKeyView| KeyRow {
            account: key.account.to_string(),
            label: shown(key.label.as_str()),
            fingerprint: shown(&key.fingerprint),
            by: actor(key.added_by.as_str()),
            at: ago(now, key.added_at),
        };
        let node = |node: &NodeLine| NodeRow { id: node.node_id.to_string(), hostname: node.hostname.to_string() };
        Self {
            accounts: ordered.iter().map(account).collect(),
            keys: keys.iter().map(row).collect(),
            nodes: nodes.iter().map(node).collect(),
            frame,
        }
    }
}
