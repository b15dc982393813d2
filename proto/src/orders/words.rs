//! What a person reads before signing: lines made from the signed bytes and from nothing else.
//!
//! No line holds a character that moves a cursor, hides or reorders text. Two orders that differ have different lines:
//! whatever is signed is written out in full, and nothing is cut.

use super::Body;
use super::head::{OrderHead, OrderId, Terms};
use crate::base::text::counted;

/// The lines for a person who is about to sign.
#[must_use]
pub fn words(intent_json: &str, intent: &OrderHead, body: &Body) -> Vec<String> {
    let mut lines = vec![format!("Order {} ({})", OrderId::of(intent_json).code(), intent.kind.as_str())];
    body.words(&mut lines);
    lines.push(format!("By owner {}", intent.owner));
    lines.push(format!("Fleet of root {}", intent.fleet));
    lines.push(format!("For {}:", counted(u64::try_from(intent.nodes.len()).unwrap_or(u64::MAX), "node")));
    lines.extend(intent.nodes.iter().map(|node| format!("  {node}")));
    match &intent.terms {
        Terms::Once { not_after, nonce } => {
            lines.push(format!("Once, from {} until {not_after}", intent.issued_at));
            lines.push(format!("Nonce {nonce}"));
        }
        Terms::State { subject, revision } => {
            lines.push(format!("From {} on, until a later revision", intent.issued_at));
            lines.push(format!("Revision {revision} of {subject}"));
        }
    }
    lines
}
