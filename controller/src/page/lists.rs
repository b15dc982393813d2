//! The other documents: keys, owners, audit, the discovery window, passkeys, signing in, and what went wrong.

use askama::Template;
use lucia_proto::audit::AuditEntry;
use lucia_proto::host_api::{OnboardingView, SshKeyView};
use lucia_proto::intent::SshKeys;
use lucia_proto::key::VerificationCode;
use lucia_proto::owner::{KeyUse, Role};
use lucia_proto::owner_api::DraftState;
use lucia_proto::roster::Roster;
use lucia_proto::sign_in::{PasskeyView, SessionView};
use lucia_proto::text::{counted, shown};

use super::Frame;
use super::words::{ago, left};

/// SSH keys by account.
#[derive(Template)]
#[template(path = "keys.html")]
pub(crate) struct Keys {
    frame: Frame,
    ordered: Vec<OrderedRow>,
    keys: Vec<KeyRow>,
}

/// The newest order about the keys of an account.
#[derive(Clone, Debug)]
pub(crate) struct OrderedKeys {
    /// The keys it sets.
    pub(crate) keys: SshKeys,
    /// How many nodes it names.
    pub(crate) nodes: usize,
    /// Which order it is.
    pub(crate) code: VerificationCode,
    /// Where it stands.
    pub(crate) state: DraftState,
}

struct OrderedRow {
    account: String,
    keys: Vec<(String, String)>,
    nodes: String,
    code: String,
    state: &'static str,
}

struct KeyRow {
    account: String,
    label: String,
    fingerprint: String,
    by: String,
    at: String,
}

impl Keys {
    /// The document.
    pub(crate) fn new(frame: Frame, ordered: &[OrderedKeys], keys: &[SshKeyView]) -> Self {
        let now = frame.now;
        let order = |order: &OrderedKeys| OrderedRow {
            account: order.keys.account.to_string(),
            keys: order.keys.keys.iter().map(|key| (shown(key.label.as_str()), key.key.key().fingerprint())).collect(),
            nodes: counted(u64::try_from(order.nodes).unwrap_or(u64::MAX), "node"),
            code: order.code.to_string(),
            state: state(order.state),
        };
        let row = |key: &SshKeyView| KeyRow {
            account: key.account.to_string(),
            label: shown(key.label.as_str()),
            fingerprint: shown(&key.fingerprint),
            by: shown(key.added_by.as_str()),
            at: ago(now, key.added_at),
        };
        Self { ordered: ordered.iter().map(order).collect(), keys: keys.iter().map(row).collect(), frame }
    }
}

/// Who is in the roster.
#[derive(Template)]
#[template(path = "owners.html")]
pub(crate) struct Owners {
    frame: Frame,
    version: Option<u64>,
    owners: Vec<OwnerRow>,
    page_kinds: Vec<&'static str>,
}

struct OwnerRow {
    name: String,
    role: &'static str,
    keys: Vec<String>,
}

impl Owners {
    /// The document; `roster` is nothing while there is none.
    pub(crate) fn new(frame: Frame, roster: Option<&Roster>) -> Self {
        let key = |key: &lucia_proto::owner::OwnerKey| {
            let code = lucia_proto::key::NodePublicKey::from_pem(&key.public_key_pem)
                .map_or_else(|_| String::new(), |key| lucia_proto::owner::code(&key).to_string());
            let words = match key.key_use {
                KeyUse::OwnerKey => "owner key",
                KeyUse::IntentPasskey => "passkey for orders",
            };
            format!("{words} {code}")
        };
        let row = |owner: &lucia_proto::owner::Owner| OwnerRow {
            name: owner.name.to_string(),
            role: role(owner.role),
            keys: owner.keys.iter().map(key).collect(),
        };
        Self {
            version: roster.map(|roster| roster.version),
            owners: roster.map(|roster| roster.owners.iter().map(row).collect()).unwrap_or_default(),
            page_kinds: roster
                .map(|roster| roster.page_kinds.iter().map(|kind| kind.as_str()).collect())
                .unwrap_or_default(),
            frame,
        }
    }
}

/// A role in words.
pub(super) const fn role(role: Role) -> &'static str {
    match role {
        Role::Viewer => "viewer",
        Role::Owner => "owner",
    }
}

/// Where an order stands, in words.
const fn state(state: DraftState) -> &'static str {
    match state {
        DraftState::Drafted => "waits for a signature",
        DraftState::Signed => "signed, not carried out by all yet",
        DraftState::Done => "carried out",
        DraftState::Refused => "refused",
        DraftState::Expired => "ran out",
    }
}

/// Who changed or ordered what.
#[derive(Template)]
#[template(path = "audit.html")]
pub(crate) struct Audit {
    frame: Frame,
    entries: Vec<AuditRow>,
}

struct AuditRow {
    at: String,
    ago: String,
    what: &'static str,
    who: String,
    node: Option<String>,
    order: Option<String>,
    result: &'static str,
}

impl Audit {
    /// The document, of entries in their order: the newest come first on it.
    pub(crate) fn new(frame: Frame, entries: &[AuditEntry]) -> Self {
        let now = frame.now;
        let row = |entry: &AuditEntry| AuditRow {
            at: entry.at.to_string(),
            ago: ago(now, entry.at),
            what: entry.action.as_str(),
            who: match entry.from {
                Some(from) => format!("{} from {from}", entry.actor),
                None => entry.actor.to_string(),
            },
            node: entry.node.as_ref().map(ToString::to_string),
            order: entry.intent.map(|intent| intent.code().to_string()),
            result: match (entry.refused, entry.intent_refused) {
                (Some(code), _) => code.as_str(),
                (None, Some(code)) => code.as_str(),
                (None, None) => "done",
            },
        };
        Self { entries: entries.iter().rev().map(row).collect(), frame }
    }
}

/// The discovery window.
#[derive(Template)]
#[template(path = "window.html")]
pub(crate) struct Window {
    frame: Frame,
    /// What is left, in words, and the end by the clock.
    open: Option<(String, u64)>,
}

impl Window {
    /// The document.
    pub(crate) fn new(frame: Frame, view: &OnboardingView) -> Self {
        let now = frame.now;
        let open = view.window_expires_at.map(|until| (left(now, until), until.since(now).as_secs()));
        Self { open, frame }
    }
}

/// Signing in.
#[derive(Template)]
#[template(path = "sign-in.html")]
pub(crate) struct SignIn {
    frame: Frame,
    rp_id: String,
}

impl SignIn {
    /// The document, for passkeys of this site.
    pub(crate) fn new(frame: Frame, rp_id: &str) -> Self {
        Self { frame, rp_id: rp_id.to_owned() }
    }
}

/// One's passkeys and sessions; before signing in, how one gets a passkey.
#[derive(Template)]
#[template(path = "passkeys.html")]
pub(crate) struct Passkeys {
    frame: Frame,
    rp_id: String,
    passkeys: Vec<PasskeyRow>,
    sessions: Vec<SessionRow>,
}

struct PasskeyRow {
    code: String,
    label: String,
    at: String,
}

struct SessionRow {
    code: String,
    address: String,
    since: String,
    used: String,
    current: bool,
}

impl Passkeys {
    /// The document.
    pub(crate) fn new(frame: Frame, rp_id: &str, passkeys: &[PasskeyView], sessions: &[SessionView]) -> Self {
        let now = frame.now;
        let passkey = |passkey: &PasskeyView| PasskeyRow {
            code: passkey.code.to_string(),
            label: shown(passkey.label.as_str()),
            at: ago(now, passkey.added_at),
        };
        let session = |session: &SessionView| SessionRow {
            code: session.code.to_string(),
            address: session.address.to_string(),
            since: ago(now, session.since),
            used: ago(now, session.used_at),
            current: session.current,
        };
        Self {
            rp_id: rp_id.to_owned(),
            passkeys: passkeys.iter().map(passkey).collect(),
            sessions: sessions.iter().map(session).collect(),
            frame,
        }
    }
}

/// What went wrong.
#[derive(Template)]
#[template(path = "trouble.html")]
pub(crate) struct Trouble {
    frame: Frame,
    message: String,
}

impl Trouble {
    /// The document.
    pub(crate) fn new(frame: Frame, message: &str) -> Self {
        Self { frame, message: shown(message) }
    }
}
