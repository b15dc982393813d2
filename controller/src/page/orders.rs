//! Orders: those there are, and one of them in the words of its own bytes.

use askama::Template;
use lucia_proto::host_api::NodeLine;
use lucia_proto::ids::NodeId;
use lucia_proto::intent::{IntentKind, ReadDraft, Rule, Terms};
use lucia_proto::key::NodePublicKey;
use lucia_proto::owner::{KeyUse, OwnerId, OwnerKey, Role};
use lucia_proto::owner_api::{DraftLine, DraftState, Outcome};
use lucia_proto::roster::Roster;
use lucia_proto::text::{counted, shown};

use super::words::{ago, left};
use super::{Frame, Tone};

/// A kind of order in words.
pub(super) const fn kind(kind: IntentKind) -> &'static str {
    match kind {
        IntentKind::Admit => "Admit a machine",
        IntentKind::SshKey => "SSH keys of an account",
        IntentKind::ReleaseLapse => "Let a lapsed node renew",
        IntentKind::CloneDecision => "Decide about a clone",
        IntentKind::RemoveIdentity => "Remove an identity",
    }
}

/// Where an order stands, in words.
pub(super) const fn state(state: DraftState) -> &'static str {
    match state {
        DraftState::Drafted => "waits for a signature",
        DraftState::Signed => "signed, not carried out by all yet",
        DraftState::Done => "carried out",
        DraftState::Refused => "refused",
        DraftState::Expired => "ran out",
    }
}

/// How that looks.
pub(super) const fn tone(state: DraftState) -> Tone {
    match state {
        DraftState::Drafted | DraftState::Signed => Tone::Wait,
        DraftState::Done => Tone::Ok,
        DraftState::Refused => Tone::Bad,
        DraftState::Expired => Tone::Calm,
    }
}

/// Whether nothing becomes of it any more.
const fn is_over(state: DraftState) -> bool {
    match state {
        DraftState::Drafted | DraftState::Signed => false,
        DraftState::Done | DraftState::Refused | DraftState::Expired => true,
    }
}

/// The list of orders.
#[derive(Template)]
#[template(path = "orders.html")]
pub(crate) struct Orders {
    frame: Frame,
    orders: Vec<Row>,
    /// The code after which older ones come.
    older: Option<String>,
    /// It begins with the newest.
    is_first: bool,
}

struct Row {
    code: String,
    kind: &'static str,
    state: &'static str,
    tone: Tone,
    signed: String,
    told: String,
    by: String,
    at: String,
    ago: String,
}

impl Orders {
    /// The document of these, newest first; `more` says whether older ones may be.
    pub(crate) fn new(frame: Frame, drafts: &[DraftLine], is_first: bool, more: bool) -> Self {
        let now = frame.now;
        let row = |draft: &DraftLine| Row {
            code: draft.code.to_string(),
            kind: kind(draft.kind),
            state: state(draft.state),
            tone: tone(draft.state),
            signed: match draft.signers.len() {
                0 => "nobody".to_owned(),
                count => counted(u64::try_from(count).unwrap_or(u64::MAX), "owner"),
            },
            told: match draft.outcomes.len() {
                0 => "nobody yet".to_owned(),
                count => counted(u64::try_from(count).unwrap_or(u64::MAX), "node"),
            },
            by: shown(draft.drafted_by.as_str()),
            at: draft.at.to_string(),
            ago: ago(now, draft.at),
        };
        let older = drafts.last().filter(|_| more).map(|draft| draft.code.to_string());
        Self { orders: drafts.iter().map(row).collect(), older, is_first, frame }
    }
}

/// One order.
#[derive(Template)]
#[template(path = "order.html")]
pub(crate) struct Order {
    frame: Frame,
    code: String,
    kind: &'static str,
    word: &'static str,
    state: &'static str,
    tone: Tone,
    is_over: bool,
    waits: bool,
    /// Somebody may have it who did not say yet what became of it.
    handed_out: bool,
    /// What the signed bytes say, line by line.
    lines: Vec<String>,
    /// What the controller calls the nodes it names.
    names: Vec<String>,
    signers: Vec<String>,
    by: String,
    at: String,
    ago: String,
    left: Option<String>,
    outcomes: Vec<OutcomeRow>,
    /// Where the roster lets orders of this kind be signed by a passkey; nothing where it does not.
    page: Option<String>,
    /// How whoever looks may sign it on this page.
    here: Option<SignHere>,
    two: bool,
}

/// What a button to sign on this page takes.
struct SignHere {
    /// The site of the passkeys.
    rp_id: String,
    /// Credential and key of each that may sign, with a colon between them and a space after.
    passkeys: String,
}

impl SignHere {
    /// Nothing where the kind is not signed on this page, and for who has no passkey for orders or signed already.
    fn new(frame: &Frame, line: &DraftLine, roster: &Roster) -> Option<Self> {
        let drafting = frame.drafting.as_ref().filter(|drafting| drafting.page_kinds.contains(&line.kind))?;
        let owner = roster.owners.iter().find(|owner| owner.id == drafting.owner && owner.role == Role::Owner)?;
        let passkey = |key: &OwnerKey| match key.key_use {
            KeyUse::IntentPasskey => {
                let public = NodePublicKey::from_pem(&key.public_key_pem).ok()?;
                Some(format!("{}:{}", key.credential_id.as_ref()?.to_text(), public.fingerprint()))
            }
            KeyUse::OwnerKey => None,
        };
        let passkeys: Vec<String> = owner.keys.iter().filter_map(passkey).collect();
        let rp_id = roster.page_origin.as_ref()?.rp_id().to_owned();
        let may = line.state == DraftState::Drafted && !line.signers.contains(&owner.id) && !passkeys.is_empty();
        may.then(|| Self { rp_id, passkeys: passkeys.join(" ") })
    }
}

struct OutcomeRow {
    node: String,
    name: Option<String>,
    at: String,
    ago: String,
    refused: Option<(&'static str, &'static str)>,
}

/// An order as there is of it.
#[derive(Debug)]
pub(crate) struct OrderFacts<'a> {
    /// As it stands in lists.
    pub(crate) line: &'a DraftLine,
    /// As it was read, from the text that is signed.
    pub(crate) read: &'a ReadDraft<'a>,
    /// Who may sign, and where.
    pub(crate) roster: Option<&'a Roster>,
    /// The nodes that there are.
    pub(crate) nodes: &'a [NodeLine],
}

impl Order {
    /// The document.
    pub(crate) fn new(frame: Frame, facts: &OrderFacts<'_>) -> Self {
        let (now, OrderFacts { line, read, roster, nodes }) = (frame.now, facts);
        let hostname = |id: &NodeId| {
            let node = nodes.iter().find(|node| node.node_id == *id);
            node.map(|node| node.hostname.to_string())
        };
        let name = |id: &OwnerId| {
            let owner = roster.and_then(|roster| roster.owners.iter().find(|owner| owner.id == *id));
            owner.map_or_else(|| format!("{id}, who is not in the roster"), |owner| owner.name.to_string())
        };
        let outcome = |outcome: &Outcome| OutcomeRow {
            node: outcome.node_id.to_string(),
            name: hostname(&outcome.node_id),
            at: outcome.at.to_string(),
            ago: ago(now, outcome.at),
            refused: outcome.refused.filter(|code| !code.is_repeat()).map(|code| (code.as_str(), code.cure())),
        };
        let left = match read.intent().terms {
            Terms::Once { not_after, .. } => Some(left(now, not_after)),
            Terms::State { .. } => None,
        };
        let page = roster.filter(|roster| roster.page_kinds.contains(&line.kind));
        Self {
            code: line.code.to_string(),
            kind: kind(line.kind),
            word: line.kind.as_str(),
            state: state(line.state),
            tone: tone(line.state),
            is_over: is_over(line.state),
            waits: line.state == DraftState::Drafted,
            handed_out: line.handed_out,
            lines: read.words(),
            names: read.intent().nodes.iter().filter_map(hostname).collect(),
            signers: line.signers.iter().map(name).collect(),
            by: shown(line.drafted_by.as_str()),
            at: line.at.to_string(),
            ago: ago(now, line.at),
            left: left.filter(|_| !is_over(line.state)),
            outcomes: line.outcomes.iter().map(outcome).collect(),
            here: roster.and_then(|roster| SignHere::new(&frame, line, roster)),
            page: page.and_then(|roster| roster.page_origin.as_ref()).map(ToString::to_string),
            two: roster.is_some_and(|roster| roster.policy.rule(line.kind) == Rule::TwoOwners),
            frame,
        }
    }
}
