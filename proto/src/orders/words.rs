//! What a person reads before signing: lines made from the signed bytes and from nothing else.
//!
//! No line holds a character that moves a cursor, hides or reorders text. Two orders that differ have different lines:
//! whatever is signed is written out in full, and nothing is cut.

use super::body::{Body, Decision, LabelledKey, SshKeys};
use super::{OrderHead, OrderId, Terms};
use crate::base::bounded::{KeyLabel, Label};
use crate::base::text::{counted, is_printable, shown};

/// Keys that [`about`] names; the others are counted.
const KEYS_NAMED: usize = 3;
/// Characters of a key's label there.
const LABEL_CHARS: usize = 20;

/// What an order is about, in a few words that tell it from its neighbours in a list: `alice: +laptop`, `demo-2`. `before`
/// is the order about the account's keys that was given before this one, if it is known; an empty one before the first.
/// It is cut where it is long: what is signed is read in [`words`].
#[must_use]
pub fn about(body: &Body, before: Option<&SshKeys>) -> Option<Label> {
    Label::fitted(&match body {
        Body::Admit(body) if body.replaces.is_some() => format!("{}, in the place of another", body.hostname),
        Body::Admit(body) => body.hostname.to_string(),
        Body::SshKey(body) => format!("{}: {}", body.account, changes(body, before)),
        Body::ReleaseLapse(body) => body.hostname.to_string(),
        Body::CloneDecision(body) => match body.decision {
            Decision::Keep => format!("{}: one holder stays", body.hostname),
            Decision::Split => format!("{}: no holder stays", body.hostname),
        },
        Body::RemoveIdentity(body) => body.hostname.to_string(),
    })
}

/// Which keys come and go; which there are, where nobody knows what was before.
fn changes(body: &SshKeys, before: Option<&SshKeys>) -> String {
    let mut named: Vec<String> = match before {
        Some(before) => {
            let of = |sign: char, keys: &[LabelledKey], others: &[LabelledKey]| -> Vec<String> {
                let other = keys.iter().filter(|key| !others.contains(key));
                other.map(|key| format!("{sign}{}", short(&key.label))).collect()
            };
            [of('+', &body.keys, &before.keys), of('-', &before.keys, &body.keys)].concat()
        }
        None => body.keys.iter().map(|key| short(&key.label)).collect(),
    };
    let more = named.len().saturating_sub(KEYS_NAMED);
    named.truncate(KEYS_NAMED);
    match (named.is_empty(), more, before) {
        (true, _, Some(_)) => "the same keys".to_owned(),
        (true, _, None) => "no keys".to_owned(),
        (false, 0, _) => named.join(", "),
        (false, more, _) => format!("{} and {more} more", named.join(", ")),
    }
}

/// A label, cut, and in quotes where it could be taken for more than one.
fn short(label: &KeyLabel) -> String {
    let is_long = label.as_str().chars().count() > LABEL_CHARS;
    let kept = if is_long { LABEL_CHARS - 1 } else { LABEL_CHARS };
    let mut text: String = label.as_str().chars().take(kept).collect();
    let is_plain = text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '@' | '-'));
    if is_long {
        text.push('…');
    }
    if is_plain { text } else { format!("\"{}\"", shown(&text).replace('"', "'")) }
}

/// Text of several lines, each marked: `| ` before a line that is shown as it is, `! ` before one in which characters
/// were made visible as `\u{..}`, backslashes among them, so that no two texts look alike. Every line end is a line, so
/// nothing of the text is left out.
#[must_use]
pub fn visible(text: &str) -> Vec<String> {
    let line = |line: &str| {
        if is_printable(line) { format!("| {line}") } else { format!("! {}", shown(&line.replace('\\', "\\u{5c}"))) }
    };
    text.split('\n').map(line).collect()
}

/// The lines for a person who is about to sign.
#[must_use]
pub fn words(intent_json: &str, intent: &OrderHead, body: &Body) -> Vec<String> {
    let mut lines = vec![format!("Order {} ({})", OrderId::of(intent_json).code(), intent.kind.as_str())];
    act(&mut lines, body);
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

fn act(lines: &mut Vec<String>, body: &Body) {
    match body {
        Body::Admit(body) => {
            lines.push(format!("Makes the machine with this key a node called {}:", body.hostname));
            lines.push(format!("  {}", body.fingerprint));
            match &body.replaces {
                Some(node) => lines
                    .push(format!("Takes the name {} from node {node}, whose key is barred for good", body.hostname)),
                None => lines.push("Takes the name from nobody".to_owned()),
            }
        }
        Body::SshKey(body) if body.keys.is_empty() => {
            lines.push(format!("Takes all SSH keys from account {}", body.account));
        }
        Body::SshKey(body) => {
            let count = u64::try_from(body.keys.len()).unwrap_or(u64::MAX);
            lines.push(format!(
                "Lets whoever holds {} log in as {}, and no other:",
                counted(count, "SSH key"),
                body.account
            ));
            for LabelledKey { label, key } in &body.keys {
                lines.push(format!("  {} {}", key.key().fingerprint(), shown(label.as_str())));
                lines.extend(visible(&key.key().to_string()));
            }
        }
        Body::ReleaseLapse(body) => {
            lines.push(format!("Lets {} renew, whose last certificate ended at {}", body.hostname, body.ended_at));
            lines.push(format!("  {}", body.fingerprint));
            lines.push(format!("  called from {} before", told(body.former_address.as_ref())));
            lines.push(format!("  calls from {} now", told(body.address.as_ref())));
            lines.push(format!("  boot {}", told(body.boot_id.as_ref())));
        }
        Body::CloneDecision(body) => {
            lines.push(format!("Decides about {}, whose identity was seen twice", body.hostname));
            lines.push(match (body.decision, &body.start_id) {
                (Decision::Keep, start) => {
                    format!("The holder with start {} goes on; every other is frozen for good", told(start.as_ref()))
                }
                (Decision::Split, _) => "No holder goes on: the key is barred for good".to_owned(),
            });
        }
        Body::RemoveIdentity(body) => {
            lines.push(format!(
                "Ends {}: it wipes what it has of the fleet and is a plain machine again",
                body.hostname
            ));
        }
    }
}

/// What somebody told, or that nobody did.
fn told<T: std::fmt::Display>(value: Option<&T>) -> String {
    value.map_or_else(|| "an unknown one".to_owned(), ToString::to_string)
}
