//! SSH keys by account, and the form that drafts the next order about them.

use askama::Template;
use lucia_people::host_api::NodeLine;
use lucia_people::owner_api::DraftState;
use lucia_proto::base::names::AccountName;
use lucia_proto::base::text::{counted, shown};
use lucia_proto::orders::SshKeys;
use lucia_proto::orders::ssh_key::{BadSshKey, SshKeyKind};
use lucia_proto::pki::key::VerificationCode;

use super::orders::tone;
use super::{Frame, Tone};

/// The document.
#[derive(Template)]
#[template(path = "keys.html")]
pub(crate) struct Keys {
    frame: Frame,
    accounts: Vec<AccountRow>,
    nodes: Vec<NodeRow>,
    key_words: KeyWords,
}

/// What is wrong with a key that is none, as sentences, for the form that looks before it hands in.
struct KeyWords {
    private: String,
    line: String,
    kind: String,
    base64: String,
    blob: String,
    /// The kinds that nodes take, with a space between.
    kinds: String,
}

impl KeyWords {
    fn new() -> Self {
        let words = |bad: BadSshKey| format!("The key is not taken: {bad}.");
        Self {
            private: words(BadSshKey::Private),
            line: words(BadSshKey::Line),
            kind: words(BadSshKey::Kind),
            base64: words(BadSshKey::Base64),
            blob: words(BadSshKey::Blob),
            kinds: SshKeyKind::ALL.map(SshKeyKind::as_str).join(" "),
        }
    }
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
    /// How many of those were removed since.
    pub(crate) gone: usize,
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
    /// Whether any of its nodes is there, so that there is something to take.
    has_nodes: bool,
    code: String,
    state: &'static str,
    tone: Tone,
}

struct NodeRow {
    id: String,
    hostname: String,
}

/// Whom an order is for, and who of them is gone.
fn nodes_words(nodes: usize, gone: usize) -> String {
    let count = |count: usize| counted(u64::try_from(count).unwrap_or(u64::MAX), "node");
    match (nodes.saturating_sub(gone), gone) {
        (_, 0) => count(nodes),
        (0, 1) => "nobody: its node was removed".to_owned(),
        (0, gone) => format!("nobody: its {gone} nodes were removed"),
        (left, 1) => format!("{}; 1 was removed", count(left)),
        (left, gone) => format!("{}; {gone} were removed", count(left)),
    }
}

impl Keys {
    /// The document; `nodes` are those that an order may name.
    pub(crate) fn new(frame: Frame, ordered: &[OrderedKeys], nodes: &[NodeLine]) -> Self {
        let given = |given: &GivenKeys| GivenRow {
            keys: given.keys.keys.iter().map(|key| (shown(key.label.as_str()), key.key.key().fingerprint())).collect(),
            nodes: nodes_words(given.nodes, given.gone),
            has_nodes: given.gone < given.nodes,
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
        let node = |node: &NodeLine| NodeRow { id: node.node_id.to_string(), hostname: node.hostname.to_string() };
        Self {
            accounts: ordered.iter().map(account).collect(),
            nodes: nodes.iter().map(node).collect(),
            key_words: KeyWords::new(),
            frame,
        }
    }
}
