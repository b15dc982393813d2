//! Orders: those there are, and one of them in the words of its own bytes.

use std::collections::BTreeMap;

use askama::Template;
use lucia_people::owner_api::{DraftLine, DraftState, GoneNode};
use lucia_people::words::{actor, order_refused};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::text::{counted, shown};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::Outcome;
use lucia_proto::orders::owner::{KeyUse, OwnerId, OwnerKey, Role};
use lucia_proto::orders::roster::Roster;
use lucia_proto::orders::{Actor, OrderCode, ReadDraft, Rule, Terms};
use lucia_proto::pki::key::NodePublicKey;

use super::words::{NOTHING, ago, left};
use super::{Frame, Tone};

/// How it looks where an order stands.
pub(super) const fn tone(state: DraftState) -> Tone {
    match state {
        DraftState::Drafted | DraftState::Signed => Tone::Wait,
        DraftState::Done => Tone::Ok,
        DraftState::Refused | DraftState::NobodyLeft => Tone::Bad,
        DraftState::Replaced | DraftState::Expired => Tone::Calm,
    }
}

/// Where an order stands in sentences, with who is gone and who comes next.
pub(super) fn sentence(line: &DraftLine) -> String {
    line.awaited().map_or_else(|| line.words(), |next| format!("{} {next}", line.words()))
}

/// What a node is called; one that nobody remembers the name of by its code.
fn called(node: &NodeId, names: &BTreeMap<NodeId, Hostname>) -> String {
    names.get(node).map_or_else(|| format!("node {node}"), ToString::to_string)
}

/// The list of orders.
#[derive(Template)]
#[template(path = "orders.html")]
pub(crate) struct Orders {
    frame: Frame,
    orders: Vec<OrderRow>,
    /// The code after which older ones come.
    older: Option<String>,
    /// It begins with the newest.
    is_first: bool,
}

struct OrderRow {
    code: String,
    kind: &'static str,
    state: &'static str,
    tone: Tone,
    /// Who of its nodes is gone.
    gone: Option<String>,
    /// What it is about, in a few words.
    about: Option<String>,
    signed: String,
    told: Option<String>,
    by: String,
    at: String,
    ago: String,
}

impl Orders {
    /// The document of these, newest first; `names` are what machines are called, and `more` says whether older ones may be.
    pub(crate) fn new(
        frame: Frame,
        (drafts, names): (&[DraftLine], &BTreeMap<NodeId, Hostname>),
        is_first: bool,
        more: bool,
    ) -> Self {
        let now = frame.now;
        let row = |draft: &DraftLine| OrderRow {
            code: draft.code.to_string(),
            kind: draft.kind.title(),
            state: draft.state.words(),
            tone: tone(draft.state),
            gone: draft.gone_words(),
            signed: match draft.signers.len() {
                0 => "nobody".to_owned(),
                count => counted(u64::try_from(count).unwrap_or(u64::MAX), "owner"),
            },
            about: draft.about.as_ref().map(|about| shown(about.as_str())),
            told: draft.told_words(|node| called(node, names)),
            by: actor(draft.drafted_by.as_str()),
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
    /// The same in sentences, with who is gone and who comes next.
    sentence: String,
    /// What it is about, in a few words.
    about: Option<String>,
    /// Who comes next, and how long that takes.
    awaited: Option<&'static str>,
    gone: Vec<GoneRow>,
    tone: Tone,
    is_over: bool,
    /// Nobody is left who could tell of it.
    nobody_left: bool,
    waits: bool,
    /// Somebody may have it who did not say yet what became of it.
    handed_out: bool,
    /// What the signed bytes say, line by line; whether it stands below the one before, as ids and keys do.
    lines: Vec<(bool, String)>,
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
            KeyUse::OrderPasskey => {
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
    /// Who told it, where it was not the node itself.
    by: Option<&'static str>,
    node: String,
    name: Option<String>,
    at: String,
    ago: String,
    refused: Option<RefusedBy>,
}

/// Why somebody refused it.
struct RefusedBy {
    tone: Tone,
    /// That it did, in a word.
    word: &'static str,
    code: &'static str,
    why: &'static str,
    cure: &'static str,
}

impl RefusedBy {
    /// That a later order took its place is no fault of anybody's.
    fn new(code: OrderCode) -> Self {
        let (tone, word) = if code.is_overtaken() { (Tone::Calm, "replaced") } else { (Tone::Bad, "refused") };
        Self { tone, word, code: code.as_str(), why: order_refused(code), cure: code.cure() }
    }
}

/// A node that was removed before it carried it out.
struct GoneRow {
    node: String,
    name: Option<String>,
    at: String,
    ago: String,
}

impl GoneRow {
    fn new(gone: &GoneNode, now: UnixTime) -> Self {
        Self {
            node: gone.node_id.to_string(),
            name: gone.hostname.as_ref().map(ToString::to_string),
            at: gone.removed_at.map(|at| at.to_string()).unwrap_or_default(),
            ago: gone.removed_at.map_or_else(|| NOTHING.to_owned(), |at| ago(now, at)),
        }
    }
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
    /// What machines are called.
    pub(crate) names: &'a BTreeMap<NodeId, Hostname>,
}

impl Order {
    /// The document.
    pub(crate) fn new(frame: Frame, facts: &OrderFacts<'_>) -> Self {
        let (now, OrderFacts { line, read, roster, names }) = (frame.now, facts);
        let hostname = |id: &NodeId| names.get(id).map(ToString::to_string);
        let name = |id: &OwnerId| {
            let owner = roster.and_then(|roster| roster.owners.iter().find(|owner| owner.id == *id));
            owner.map_or_else(|| format!("{id}, who is not in the roster"), |owner| owner.name.to_string())
        };
        let outcome = |(teller, outcome): (Actor, &Outcome)| OutcomeRow {
            by: match teller {
                Actor::Node => None,
                Actor::Worker | Actor::Controller => Some(teller.as_str()),
            },
            node: outcome.node_id.to_string(),
            name: hostname(&outcome.node_id),
            at: outcome.at.to_string(),
            ago: ago(now, outcome.at),
            refused: outcome.refused.filter(|code| !code.is_repeat()).map(RefusedBy::new),
        };
        let left = match read.intent().terms {
            Terms::Once { not_after, .. } => Some(left(now, not_after)),
            Terms::State { .. } => None,
        };
        let page = roster.filter(|roster| roster.page_kinds.contains(&line.kind));
        Self {
            code: line.code.to_string(),
            kind: line.kind.title(),
            word: line.kind.as_str(),
            state: line.state.words(),
            sentence: sentence(line),
            about: line.about.as_ref().map(|about| shown(about.as_str())),
            awaited: line.awaited(),
            gone: line.gone.iter().map(|gone| GoneRow::new(gone, now)).collect(),
            tone: tone(line.state),
            is_over: line.state.is_over(),
            nobody_left: line.state == DraftState::NobodyLeft,
            waits: line.state == DraftState::Drafted,
            handed_out: line.handed_out,
            lines: read.words().into_iter().map(|line| (line.starts_with("  "), line)).collect(),
            names: read.intent().nodes.iter().filter_map(hostname).collect(),
            signers: line.signers.iter().map(name).collect(),
            by: actor(line.drafted_by.as_str()),
            at: line.at.to_string(),
            ago: ago(now, line.at),
            left: left.filter(|_| !line.state.is_over()),
            outcomes: line.told().map(outcome).collect(),
            here: roster.and_then(|roster| SignHere::new(&frame, line, roster)),
            page: page.and_then(|roster| roster.page_origin.as_ref()).map(ToString::to_string),
            two: roster.is_some_and(|roster| roster.policy.rule(line.kind) == Rule::TwoOwners),
            frame,
        }
    }
}
