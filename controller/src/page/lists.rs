//! The other documents: audit, the discovery window, passkeys, signing in, and what went wrong.

use std::fmt::Write as _;

use askama::Template;
use lucia_proto::audit::{AuditEntry, AuditVia};
use lucia_proto::host_api::OnboardingView;
use lucia_proto::sign_in::{PasskeyView, SessionView};
use lucia_proto::text::{counted, shown};

use super::people::SessionRow;
use super::words::{ago, left};
use super::{Frame, Tone};

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
    what: &'static str,
    who: String,
    node: Option<String>,
    order: Option<String>,
    result: String,
    tone: Tone,
}

/// Who did it, from where, and whether a session of the page was enough for it.
fn who(entry: &AuditEntry) -> String {
    let mut words = entry.actor.to_string();
    if let Some(from) = entry.from {
        _ = write!(words, " from {from}");
    }
    if entry.via == Some(AuditVia::Session) {
        words.push_str(", in a session of the page");
    }
    words
}

impl Audit {
    /// The document: the newest come first on it.
    pub(crate) fn new(frame: Frame, part: &AuditPart) -> Self {
        let now = frame.now;
        let row = |entry: &AuditEntry| {
            let refused = match (entry.refused, entry.intent_refused) {
                (Some(code), _) => Some(code.as_str()),
                (None, Some(code)) => Some(code.as_str()),
                (None, None) => None,
            };
            AuditRow {
                sequence: entry.sequence,
                at: entry.at.to_string(),
                ago: ago(now, entry.at),
                what: entry.action.as_str(),
                who: who(entry),
                node: entry.node.as_ref().map(ToString::to_string),
                order: entry.intent.map(|intent| intent.code().to_string()),
                result: match (refused, entry.more) {
                    (Some(code), Some(more)) => {
                        format!("{code}, and {} more of that minute", counted(more, "call"))
                    }
                    (Some(code), None) => code.to_owned(),
                    (None, _) => "done".to_owned(),
                },
                tone: if refused.is_some() { Tone::Bad } else { Tone::Calm },
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

impl Passkeys {
    /// The document.
    pub(crate) fn new(frame: Frame, rp_id: &str, passkeys: &[PasskeyView], sessions: &[SessionView]) -> Self {
        let now = frame.now;
        let passkey = |passkey: &PasskeyView| PasskeyRow {
            code: passkey.code.to_string(),
            label: shown(passkey.label.as_str()),
            at: ago(now, passkey.added_at),
        };
        Self {
            rp_id: rp_id.to_owned(),
            passkeys: passkeys.iter().map(passkey).collect(),
            sessions: sessions.iter().map(|session| SessionRow::new(session, &frame)).collect(),
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
