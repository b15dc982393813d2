//! A node: its last hour, who it is, what is wrong with it, and what may be decided about it.

use askama::Template;
use lucia_people::agents::AgentLine;
use lucia_people::host_api::{EventLine, NodeView};
use lucia_people::why::{Removed, Why, restored};
use lucia_people::words::{actor, event_named, order_refused};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::RENEW_UNDER;
use lucia_proto::base::text::{bytes, shown};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::Holder;
use lucia_proto::orders::{Body, CloneDecision, Decision, ReleaseLapse, RemoveIdentity};

use super::chart::{Chart, charts};
use super::servers::state;
use super::words::{NOTHING, ago, left, print_rows, span};
use super::{Frame, Tone};
use crate::parts::CertificateFacts;

/// The document.
#[derive(Template)]
#[template(path = "server.html")]
pub(crate) struct Server {
    frame: Frame,
    id: String,
    print: Vec<[String; 2]>,
    code: String,
    state: &'static str,
    tone: Tone,
    facts: Vec<(&'static str, String)>,
    /// When it was last heard, and how long ago that is: the browser counts on.
    heard: Option<(UnixTime, String)>,
    certificate: Vec<(&'static str, String)>,
    charts: Vec<Chart>,
    holders: Vec<HolderRow>,
    refused: Option<HolderRow>,
    frozen: Option<String>,
    /// What its holders most likely are.
    likely: Option<String>,
    findings: Vec<String>,
    /// Orders it is about to be handed, and that in words.
    pending: Option<String>,
    orders: Vec<RefusedRow>,
    events: Vec<EventRow>,
    /// What its machine calls itself, and the name it had while a rename is under way.
    rename: Option<Rename>,
    acts: Vec<OrderButton>,
    split: Option<OrderButton>,
}

/// All that is shown of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerFacts<'a> {
    /// What the calls say of it.
    pub(crate) view: &'a NodeView,
    /// What is wrong with it.
    pub(crate) why: &'a Why,
    /// The newest events of it, newest first.
    pub(crate) events: &'a [EventLine],
    /// Its certificate.
    pub(crate) certificate: Option<&'a CertificateFacts>,
    /// Its agent, once it was heard.
    pub(crate) agent: Option<&'a AgentLine>,
}

/// A button that drafts an order about one machine.
#[derive(Clone, Debug)]
pub(super) struct OrderButton {
    /// What is on it.
    pub(super) label: &'static str,
    /// What is ordered.
    pub(super) kind: &'static str,
    /// For which machine.
    pub(super) node: String,
    /// The body as it is hashed and sent.
    pub(super) body: String,
    /// What the order will do.
    pub(super) words: String,
}

impl OrderButton {
    /// Nothing for a body that cannot be written, which none of ours is.
    pub(super) fn new(label: &'static str, node: &NodeId, body: &Body, words: String) -> Option<Self> {
        let kind = body.kind().as_str();
        Some(Self { label, kind, node: node.to_string(), body: body.to_text().ok()?, words })
    }
}

/// Another name of a node.
struct Rename {
    to: String,
    words: String,
    label: String,
}

/// Somebody who speaks for the node.
struct HolderRow {
    start: Option<String>,
    boot: String,
    address: String,
    first: (UnixTime, String),
    last: Option<(UnixTime, String)>,
    /// The order that lets it go on and freezes every other.
    keep: Option<OrderButton>,
}

/// An order for it that was refused.
struct RefusedRow {
    code: String,
    kind: &'static str,
    ago: String,
    refused: &'static str,
    words: &'static str,
    cure: &'static str,
}

/// One event.
struct EventRow {
    at: String,
    ago: String,
    kind: String,
    /// As the journal has it.
    label: String,
    actor: String,
}

impl EventRow {
    fn new(event: &EventLine, now: UnixTime) -> Self {
        Self {
            at: event.at.to_string(),
            ago: ago(now, event.at),
            kind: event_named(event.kind.as_str()),
            label: shown(event.kind.as_str()),
            actor: actor(event.actor.as_str()),
        }
    }
}

impl HolderRow {
    fn new(holder: &Holder, now: UnixTime, keep: Option<OrderButton>) -> Self {
        Self {
            start: holder.start_id.as_ref().map(ToString::to_string),
            boot: holder.boot_id.as_ref().map_or_else(|| NOTHING.to_owned(), ToString::to_string),
            address: holder.address.to_string(),
            first: (holder.first_seen_at, ago(now, holder.first_seen_at)),
            last: holder.last_seen_at.map(|at| (at, ago(now, at))),
            keep,
        }
    }
}

impl Server {
    /// The document.
    pub(crate) fn new(frame: Frame, facts: &ServerFacts<'_>) -> Self {
        let (now, ServerFacts { view, why, events, certificate, agent }) = (frame.now, *facts);
        let line = &view.node;
        let (state, tone) = state(line);
        let drafts = frame.drafting.is_some();
        let holder = |holder: &Holder| {
            let keep = || {
                let start = holder.start_id.clone()?;
                let hostname = line.certified_name().clone();
                let at = holder.address;
                let words = format!("The holder with start {start}, at {at}, goes on; every other is frozen for good.");
                let body = CloneDecision { hostname, decision: Decision::Keep, start_id: Some(start) };
                OrderButton::new("Draft: keep this one", &line.node_id, &Body::CloneDecision(body), words)
            };
            HolderRow::new(holder, now, if drafts && why.frozen { keep() } else { None })
        };
        let held = view.frozen.as_ref();
        let holders = match held {
            Some(frozen) => frozen.holders.iter().map(holder).collect(),
            None => view.holder.iter().map(holder).collect(),
        };
        let refused = |order: &lucia_people::why::RefusedOrder| RefusedRow {
            code: order.code.to_string(),
            kind: order.kind.title(),
            ago: ago(now, order.at),
            refused: order.refused.as_str(),
            words: order_refused(order.refused),
            cure: order.refused.cure(),
        };
        Self {
            id: line.node_id.to_string(),
            print: print_rows(&view.fingerprint),
            code: line.verification_code.to_string(),
            state,
            tone,
            facts: about(view, why, agent, now),
            heard: line.last_seen_at.map(|at| (at, ago(now, at))),
            certificate: renewals(view, certificate, now),
            charts: charts(&view.samples, now),
            holders,
            refused: view.last_refused.as_ref().map(|holder| HolderRow::new(holder, now, None)),
            likely: held.and_then(|frozen| restored(&frozen.holders)),
            frozen: held.map(|frozen| ago(now, frozen.at)),
            findings: why.findings.iter().map(ToString::to_string).collect(),
            pending: why.pending(),
            orders: why.refused.iter().map(refused).collect(),
            events: events.iter().map(|event| EventRow::new(event, now)).collect(),
            rename: rename(view),
            acts: if drafts { acts(view, now) } else { Vec::new() },
            split: split(view).filter(|_| drafts && why.frozen),
            frame,
        }
    }
}

fn about(view: &NodeView, why: &Why, agent: Option<&AgentLine>, now: UnixTime) -> Vec<(&'static str, String)> {
    let line = &view.node;
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
    let mut facts = vec![
        ("Address", or_nothing(line.address.map(|address| address.to_string()))),
        ("Orders", why.orders.to_string()),
        ("System", or_nothing(view.os_version.as_ref().map(|text| shown(text.as_str())))),
        ("Up for", or_nothing(view.uptime_seconds.map(|secs| span(std::time::Duration::from_secs(secs))))),
        ("Installation", view.task_id.to_string()),
    ];
    if let Some(report) = &view.directory {
        let said = report.message.as_ref().map(|text| format!(": {}", shown(text.as_str()))).unwrap_or_default();
        facts.push(("Directory", format!("{:?}{said}", report.state)));
    }
    if let Some(agent) = agent {
        facts.push(("Agent", shown(&agent.version_words())));
        facts.extend(agent.obstacles().into_iter().map(|obstacle| ("Not carried out", obstacle)));
    }
    for gpu in &view.gpus {
        facts.push(("GPU", format!("{}, {}", shown(gpu.model.as_str()), bytes(gpu.memory_bytes))));
    }
    for rename in &view.renames {
        let (names, actor) = (&rename.names, actor(rename.actor.as_str()));
        facts.push(("Renamed", format!("from {} to {}, {} by {actor}", names.from, names.to, ago(now, rename.at))));
    }
    facts
}

/// Its certificate, and when it renews that.
fn renewals(view: &NodeView, certificate: Option<&CertificateFacts>, now: UnixTime) -> Vec<(&'static str, String)> {
    let Some(until) = view.node.certificate_expires_at else { return Vec::new() };
    let mut facts = vec![(
        "Ends",
        if until <= now {
            format!("{until}, lapsed {}", ago(now, until))
        } else {
            format!("{until}, {} left", left(now, until))
        },
    )];
    let renews = UnixTime::from_secs(until.secs().saturating_sub(RENEW_UNDER.as_secs()));
    let due = if renews <= now { "due now".to_owned() } else { format!("in {}", left(now, renews)) };
    facts.push(("Renews by itself", format!("from {renews} on, {due}")));
    if let Some(certificate) = certificate {
        facts.insert(0, ("Issued", format!("{}, {}", certificate.from, ago(now, certificate.from))));
        facts.push(("Number", certificate.serial.clone()));
        facts.push(("SHA-256", certificate.sha256.to_string()));
    }
    facts
}

fn rename(view: &NodeView) -> Option<Rename> {
    let line = &view.node;
    if let Some(former) = &line.former_hostname {
        return Some(Rename {
            to: former.to_string(),
            words: format!(
                "The rename from {former} to {} is not complete; above stands what it waits for.",
                line.hostname
            ),
            label: format!("Undo the rename: {former}"),
        });
    }
    line.new_hostname.as_ref().map(|new| Rename {
        to: new.to_string(),
        words: format!("Its machine calls itself {new}. If that was meant, give it that name here too."),
        label: format!("Rename it to {new}"),
    })
}

/// A node that is no more.
#[derive(Template)]
#[template(path = "removed.html")]
pub(crate) struct Gone {
    frame: Frame,
    what: String,
    awaited: String,
    comes_back: String,
    command: Option<String>,
    events: Vec<EventRow>,
}

impl Gone {
    /// The document; `events` are the newest of it, newest first.
    pub(crate) fn new(frame: Frame, removed: &Removed, events: &[EventLine]) -> Self {
        let now = frame.now;
        let events = events.iter().map(|event| EventRow::new(event, now)).collect();
        Self {
            what: removed.what(),
            awaited: removed.awaited(),
            comes_back: removed.comes_back(),
            command: removed.command(),
            events,
            frame,
        }
    }
}

/// Orders about this node that may be drafted now.
fn acts(view: &NodeView, now: UnixTime) -> Vec<OrderButton> {
    let line = &view.node;
    let lapsed = line.certificate_expires_at.filter(|until| *until <= now);
    let release = lapsed.and_then(|ended_at| {
        let body = Body::ReleaseLapse(ReleaseLapse {
            fingerprint: view.fingerprint,
            hostname: line.certified_name().clone(),
            ended_at,
            former_address: line.address,
            // The controller hears of a lapsed node no more: where it calls from now nobody here knows.
            address: None,
            boot_id: None,
        });
        let words = "The worker lets this key renew once more. Sign it only if you know where that machine was: whoever has \
                     its disk has its key.";
        OrderButton::new("Draft: let it renew", &line.node_id, &body, words.to_owned())
    });
    let body = Body::RemoveIdentity(RemoveIdentity { hostname: line.certified_name().clone() });
    let words = "The node wipes its Lucia state and is a plain machine again, and its key is barred. Its system and its data \
                 stay as they are.";
    let remove = OrderButton::new("Draft: remove its identity", &line.node_id, &body, words.to_owned());
    release.into_iter().chain(remove).collect()
}

/// The order that lets no holder go on.
fn split(view: &NodeView) -> Option<OrderButton> {
    let hostname = view.node.certified_name().clone();
    let body = Body::CloneDecision(CloneDecision { hostname, decision: Decision::Split, start_id: None });
    let words = "No holder goes on: the key is barred for good, and each machine that is to be a node again needs \
                 lucia-node-agent rekey and a new approval.";
    OrderButton::new("Draft: keep none", &view.node.node_id, &body, words.to_owned())
}
