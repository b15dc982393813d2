//! The other documents: audit, the discovery window, passkeys, signing in, and what went wrong.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use askama::Template;
use lucia_people::audit::{AuditActor, AuditEntry, AuditVia};
use lucia_people::host_api::OnboardingView;
use lucia_people::sign_in::{PasskeyView, SessionView};
use lucia_people::words::{call_refused, order_refused};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::text::{counted, shown};
use lucia_proto::orders::OrderId;

use super::people::SessionRow;
use super::words::{ago, clock, left};
use super::{Frame, Tone};
use crate::parts::{AskedPasskey, WaitingPasskey};

/// Who changed or ordered what.
#[derive(Template)]
#[template(path = "audit.html")]
pub(crate) struct Audit {
    frame: Frame,
    entries: Vec<AuditRow>,
    /// The number under which older ones are.
    older: Option<u64>,
    is_first: bool,
    last: u64,
}

/// A part of the audit, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct AuditPart {
    /// The entries.
    pub(crate) entries: Vec<AuditEntry>,
    /// The number of the newest that there is.
    pub(crate) last: u64,
}

struct AuditRow {
    sequence: u64,
    at: String,
    ago: String,
    /// Day and time of day.
    clock: String,
    what: &'static str,
    /// The word for it in the file.
    action: &'static str,
    who: String,
    node: Option<AboutNode>,
    order: Option<AboutOrder>,
    token: Option<String>,
    result: String,
    /// The code of a refusal.
    code: &'static str,
    tone: Tone,
}

/// The machine that an entry is about.
struct AboutNode {
    id: String,
    name: Option<String>,
}

/// The order that an entry is about.
struct AboutOrder {
    id: OrderId,
    code: String,
    /// It is still kept, so that its document can be read.
    is_there: bool,
}

/// Who did it, from where, and whether a session of the page was enough for it.
fn who(entry: &AuditEntry, names: &BTreeMap<NodeId, Hostname>) -> String {
    let mut words = match &entry.actor {
        AuditActor::Node(id) => names.get(id).map_or_else(|| entry.actor.to_string(), ToString::to_string),
        AuditActor::Operator(_)
        | AuditActor::Owner(..)
        | AuditActor::Applicant(..)
        | AuditActor::Worker
        | AuditActor::Controller => entry.actor.to_string(),
    };
    if let Some(from) = entry.from {
        _ = write!(words, " from {from}");
    }
    if entry.via == Some(AuditVia::Session) {
        words.push_str(", in a session of the page");
    }
    words
}

impl Audit {
    /// The document: the newest come first on it. `names` are what machines are called.
    pub(crate) fn new(frame: Frame, part: &AuditPart, names: &BTreeMap<NodeId, Hostname>) -> Self {
        let now = frame.now;
        let row = |entry: &AuditEntry| {
            let refused = match (entry.refused, entry.intent_refused) {
                (Some(code), _) => Some((code.as_str(), call_refused(code))),
                (None, Some(code)) => Some((code.as_str(), order_refused(code))),
                (None, None) => None,
            };
            // What came before, or was overtaken, is nobody's fault.
            let is_calm = entry.intent_refused.is_some_and(|code| code.is_repeat() || code.is_overtaken());
            let name = |id: &NodeId| AboutNode { id: id.to_string(), name: names.get(id).map(ToString::to_string) };
            AuditRow {
                sequence: entry.sequence,
                at: entry.at.to_string(),
                ago: ago(now, entry.at),
                clock: clock(entry.at),
                what: entry.action.words(),
                action: entry.action.word(),
                who: who(entry, names),
                node: entry.node.as_ref().map(name),
                order: entry.intent.map(|id| AboutOrder { id, code: id.code().to_string(), is_there: false }),
                token: entry.token.as_ref().map(ToString::to_string),
                result: match (refused, entry.more) {
                    (Some((_, words)), Some(more)) => {
                        format!("refused: {words}, and {} more of that minute", counted(more, "call"))
                    }
                    (Some((_, words)), None) if is_calm => words.to_owned(),
                    (Some((_, words)), None) => format!("refused: {words}"),
                    (None, _) => "done".to_owned(),
                },
                code: refused.map_or("", |(code, _)| code),
                tone: if refused.is_some() && !is_calm { Tone::Bad } else { Tone::Calm },
            }
        };
        let first = part.entries.first().map_or(0, |entry| entry.sequence);
        Self {
            older: Some(first).filter(|first| *first > 1),
            is_first: part.entries.last().is_none_or(|entry| entry.sequence == part.last),
            last: part.last,
            entries: part.entries.iter().rev().map(row).collect(),
            frame,
        }
    }

    /// The same, with links to the orders that are still kept.
    pub(crate) fn linking(mut self, is_there: impl Fn(&OrderId) -> bool) -> Self {
        for order in self.entries.iter_mut().filter_map(|row| row.order.as_mut()) {
            order.is_there = is_there(&order.id);
        }
        self
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
    /// Those of anybody that wait to be confirmed, for an owner to dismiss.
    waiting: Vec<WaitingPasskey>,
    sessions: Vec<SessionRow>,
    /// What became of the one that was asked about. Its code is never shown from an address: that could be anybody's.
    asked: Option<(&'static str, &'static str)>,
}

struct PasskeyRow {
    code: String,
    label: String,
    at: String,
}

impl Passkeys {
    /// The document.
    pub(crate) fn new(
        frame: Frame,
        rp_id: &str,
        (passkeys, sessions): (&[PasskeyView], &[SessionView]),
        asked: Option<AskedPasskey>,
    ) -> Self {
        let now = frame.now;
        let asked = asked.map(|asked| match asked {
            AskedPasskey::Waits => ("waits", "It waits to be confirmed."),
            AskedPasskey::Confirmed => ("confirmed", "Confirmed."),
            AskedPasskey::Gone => {
                ("gone", "It waits no more: an hour went by, or the controller was restarted. Make another one.")
            }
        });
        let passkey = |passkey: &PasskeyView| PasskeyRow {
            code: passkey.code.to_string(),
            label: shown(passkey.label.as_str()),
            at: ago(now, passkey.added_at),
        };
        Self {
            rp_id: rp_id.to_owned(),
            passkeys: passkeys.iter().map(passkey).collect(),
            waiting: Vec::new(),
            sessions: sessions.iter().map(|session| SessionRow::new(session, &frame)).collect(),
            asked,
            frame,
        }
    }

    /// With those that wait to be confirmed.
    pub(crate) fn waiting(self, waiting: Vec<WaitingPasskey>) -> Self {
        Self { waiting, ..self }
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
