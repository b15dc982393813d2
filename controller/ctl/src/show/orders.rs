//! Orders in lists: where each stands, and what those said who carried it out or refused it.

use std::fmt::Write as _;

use lucia_people::host_api::NodeView;
use lucia_people::owner_api::{DraftLine, DraftState, DraftsView};
use lucia_people::words;
use lucia_proto::base::text::{counted, shown};
use lucia_proto::files::owner_queue::Outcome;
use lucia_proto::orders::OrderCode;
use lucia_proto::orders::owner::OwnerId;

use super::{line, span};
use crate::names::Names;
use crate::roster::OwnerNames;
use crate::table::{Tone, table};
use crate::tell::Out;

/// What people call whom a list of orders has by their ids.
#[derive(Debug, Default)]
pub(crate) struct Called {
    pub(crate) owners: OwnerNames,
    pub(crate) nodes: Names,
}

/// Whether a draft waits for a signature.
pub(crate) const fn waits(state: DraftState) -> bool {
    match state {
        DraftState::Drafted => true,
        DraftState::Signed
        | DraftState::Done
        | DraftState::Refused
        | DraftState::Replaced
        | DraftState::NobodyLeft
        | DraftState::Expired => false,
    }
}

/// `drafts`, and under the table what went wrong with which.
pub(crate) fn drafts(view: &DraftsView, names: &Called, out: Out) -> String {
    if view.drafts.is_empty() {
        return "No orders yet. luciactl admit, keys, clone, remove and release-lapse make one, and so does the page.\n"
            .to_owned();
    }
    let mut text = list(view, names, out);
    if view.drafts.iter().any(|draft| draft.handed_out) {
        text.push_str("\nWhat was handed out cannot be called back: whoever has it may still carry it out.\n");
    }
    for draft in &view.drafts {
        if let Some(awaited) = draft.awaited() {
            let _ = writeln!(text, "\n{}  {awaited}", draft.code);
        }
        if !draft.gone.is_empty() || draft.state == DraftState::Replaced {
            let _ = writeln!(text, "\n{}  {}", draft.code, draft.words());
        }
        for outcome in &draft.outcomes {
            let Some(code) = refusal(outcome) else { continue };
            let _ = write!(
                text,
                "\n{}  refused by or for {} at {}: {} ({})",
                draft.code,
                names.nodes.of(&outcome.node_id),
                outcome.at,
                words::order_refused(code),
                code.as_str()
            );
            let _ = writeln!(text, "\n{:16}{}", "", code.cure());
        }
    }
    text
}

/// Why somebody did not do it; that it came twice, or that a later one holds, is no refusal.
fn refusal(outcome: &Outcome) -> Option<OrderCode> {
    outcome.refused.filter(|code| !code.is_repeat() && !code.is_overtaken())
}

/// `sign --list`.
pub(crate) fn waiting(view: &DraftsView, names: &Called, out: Out) -> String {
    if view.drafts.is_empty() {
        return "No order waits for a signature. luciactl drafts shows those that were given.\n".to_owned();
    }
    let mut text = list(view, names, out);
    text.push_str("\nRead one whole before you sign it: luciactl sign CODE\n");
    text
}

/// The whole ids are for programs, and for whoever wants all of it.
const IDS: [&str; 2] = ["OWNER", "ORDER"];

fn list(view: &DraftsView, names: &Called, out: Out) -> String {
    let mut heading = vec!["CODE", "KIND", "ABOUT", "STATE", "CARRIED OUT BY", "SIGNED BY", "AGE", "DRAFTED BY"];
    heading.extend(IDS.iter().filter(|_| out.wide));
    let row = |draft| {
        let mut cells = row(view, names, draft);
        cells.truncate(heading.len());
        cells
    };
    let rows: Vec<_> = view.drafts.iter().map(row).collect();
    table(&heading, &rows, out.screen)
}

fn row(view: &DraftsView, names: &Called, draft: &DraftLine) -> Vec<(String, Tone)> {
    let plain = |text: String| (text, Tone::Plain);
    let (state, tone) = match draft.state {
        DraftState::Drafted => ("waits for a signature", Tone::Attention),
        DraftState::Signed if draft.handed_out => ("handed out", Tone::Plain),
        DraftState::Signed => ("signed", Tone::Plain),
        DraftState::Done => ("carried out", Tone::Good),
        DraftState::Refused => ("refused", Tone::Bad),
        DraftState::Replaced => ("replaced", Tone::Plain),
        DraftState::NobodyLeft => ("nobody left", Tone::Attention),
        DraftState::Expired => ("expired", Tone::Attention),
    };
    // Of who is in the roster no more an id's beginning tells people apart in a list; the order itself has it whole.
    let short = |id: &OwnerId| {
        let name = names.owners.get(id).map(ToString::to_string);
        name.unwrap_or_else(|| id.as_str().chars().take(8).collect())
    };
    let signers: Vec<String> = draft.signers.iter().map(short).collect();
    vec![
        plain(draft.code.to_string()),
        plain(draft.kind.as_str().to_owned()),
        plain(draft.about.as_ref().map_or_else(|| "-".to_owned(), |about| about.as_str().to_owned())),
        (state.to_owned(), tone),
        plain(draft.told_words(|node| names.nodes.of(node)).unwrap_or_else(|| "-".to_owned())),
        plain(if signers.is_empty() { "nobody".to_owned() } else { signers.join(" ") }),
        plain(span(view.server_time.since(draft.at))),
        plain(words::actor(draft.drafted_by.as_str())),
        plain(draft.owner.to_string()),
        plain(draft.intent.to_string()),
    ]
}

/// Why `drop` would be refused, as far as the list tells.
pub(crate) fn kept(line: &DraftLine) -> Option<&'static str> {
    match (line.state, line.handed_out) {
        (DraftState::Done, _) => Some("was carried out already; another order undoes what it did"),
        (DraftState::Signed, true) => {
            Some("was handed out and cannot be called back: luciactl drafts shows what becomes of it")
        }
        (
            DraftState::Drafted
            | DraftState::Signed
            | DraftState::Refused
            | DraftState::Replaced
            | DraftState::NobodyLeft
            | DraftState::Expired,
            _,
        ) => None,
    }
}

/// What `drop` is about to do.
pub(crate) fn dropping(line: &DraftLine) -> String {
    let signers = u64::try_from(line.signers.len()).unwrap_or(u64::MAX);
    let signed = match signers {
        0 => "signed by nobody".to_owned(),
        signers => format!("signed by {}", counted(signers, "owner")),
    };
    let what = match (line.state, line.handed_out) {
        (DraftState::Drafted, _) => "It waits for a signature, and can be signed no more.",
        (DraftState::Signed, true) => "It was handed out, and is not called back by this.",
        (DraftState::Signed, false) => "It is an order by now, and whoever was not handed it is not any more.",
        (
            DraftState::Done
            | DraftState::Refused
            | DraftState::Replaced
            | DraftState::NobodyLeft
            | DraftState::Expired,
            _,
        ) => "It is over; what became of it is in the audit alone from then on.",
    };
    format!(
        "This throws away the order {} ({}), drafted by {} at {}, {signed}. {what}",
        line.code,
        line.kind.as_str(),
        words::actor(line.drafted_by.as_str()),
        line.at
    )
}

/// What `release-lapse` is about to do.
pub(crate) fn released(view: &NodeView) -> String {
    let node = &view.node;
    let mut out = String::new();
    line(&mut out, "node", &format!("{} ({})", node.certified_name(), node.node_id));
    if let Some(ended) = node.certificate_expires_at {
        line(&mut out, "gone for", &span(view.server_time.since(ended)));
    }
    if let Some(address) = node.address {
        line(&mut out, "last from", &address.to_string());
    }
    if let Some(version) = &view.os_version {
        line(&mut out, "system", &shown(version.as_str()));
    }
    out.push_str("Sign it only if you know where that machine was: whoever has its disk has its key.");
    out
}
