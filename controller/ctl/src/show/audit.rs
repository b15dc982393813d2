//! Lines of the audit, and what a check of it found.

use std::fmt::Write as _;

use lucia_proto::audit::{AuditChain, AuditEntry, AuditVia};
use lucia_proto::text::counted;

/// One line: who, from where, what, about whom, and what came of it.
pub(crate) fn audit(entry: &AuditEntry) -> String {
    let AuditEntry {
        sequence, at, actor, from, via, action, node, intent, refused, intent_refused, token, more, ..
    } = entry;
    let mut out = format!("{sequence:>6}  {at}  {:<22}  {actor}", action.as_str());
    if let Some(from) = from {
        let _ = write!(out, "  from {from}");
    }
    if *via == Some(AuditVia::Session) {
        out.push_str("  in a session of the page");
    }
    if let Some(node) = node {
        let _ = write!(out, "  node {node}");
    }
    if let Some(intent) = intent {
        let _ = write!(out, "  order {}", intent.code());
    }
    if let Some(token) = token {
        let _ = write!(out, "  token {token}");
    }
    if let Some(code) = refused {
        let _ = write!(out, "  refused: {}", code.as_str());
    }
    if let Some(code) = intent_refused {
        let _ = write!(out, "  refused: {}", code.as_str());
    }
    if let Some(more) = more {
        let _ = write!(out, "  and {} more of this minute, this the last", counted(*more, "refused call"));
    }
    out
}

/// `audit verify`.
pub(crate) fn verified(chain: &AuditChain, anchor: Option<&AuditChain>) -> String {
    let mut out = format!("{}, each following from the one before.\n", counted(chain.entries, "line"));
    let _ = match anchor {
        Some(anchor) => writeln!(out, "Up to line {} it is what was known before.", anchor.entries),
        None => writeln!(
            out,
            "Nothing was known of it before: what is missing at its end, or was written anew, is not seen."
        ),
    };
    let _ = writeln!(out, "Anchor for the next time: {}:{}", chain.entries, chain.head);
    out
}
