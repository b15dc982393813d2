//! What the nodes of an order are called, by the worker's own signed list (design.md O8). The controller only carries it.
//!
//! The words under an order have nodes by their ids. Names stand beside them while a list of the last 24 hours is believed;
//! else a person says which machine each id is, by its code: an old list could still map a name to a key that was stolen.
//!
//! A name that was typed counts for a node where that list has it, or where the order has the very name, which worker and
//! node compare. The controller found the node by it, and it may have found another.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use lucia_daemon::clock;
use lucia_people::calls::PeopleCall;
use lucia_people::owner_api::NamesView;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::json;
use lucia_proto::base::limits::{JSON_DEPTH_MAX, LIST_ENTRIES_MAX};
use lucia_proto::base::names::Hostname;
use lucia_proto::base::text::{chain, shown};
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::ReadDraft;
use lucia_proto::orders::lists::{ListError, Names};
use lucia_proto::pki::key::VerificationCode;
use serde::{Deserialize, Serialize};

use crate::call::CallError;
use crate::client::{Client, Me};
use crate::files::{self, FileError, Turn};
use crate::problem::{FAILED, Failure, USAGE, problems};
use crate::roster::{self, RosterProblem};
use crate::table;
use crate::tell::{AskError, note, typed, write_beside};
use crate::text::wrapped;

/// The mark of the list that was believed last, beside the key.
const NOTE: &str = "names";
/// The nodes that stood in an order that was signed here, beside it.
const SEEN: &str = "nodes-seen";
/// That file at its longest: 35 bytes a node.
const SEEN_MAX: u64 = 2 * 1024 * 1024;

problems! {
    /// Why no names are shown.
    enum NoNames {
        None = "", FAILED, ["the controller has no list of names from the worker"];
        NoBundle = "", FAILED, ["it came without the bundle that says who signs it"];
        Bundle(why: RosterProblem) = "", FAILED, ["{why}"], ["{}", why.cure()];
        List(why: ListError) = "", FAILED, ["{}", shown(&chain(why))];
        Old(time: UnixTime) = "", FAILED, ["it is of {time}, which is not within 24 h of this machine's clock"];
    }
}

problems! {
    /// Why an order is not signed.
    pub(crate) enum NodesProblem {
        NobodyKnows(node: NodeId) = "code_needed", USAGE,
            ["nothing was signed: no name is believed for {node}, so somebody has to type its code"],
            ["Run it on a terminal, without --yes. See why the worker's list is not there or old: lucia-enrollment-worker status"];
        OtherCode(node: NodeId, typed: String) = "code_mismatch", FAILED,
            ["nothing was signed: {} is not the code of node {node}; it is another machine than the one you mean", shown(typed)];
        OtherName(typed: String, node: NodeId, signed: Hostname) = "name_mismatch", USAGE,
            ["nothing was signed: the order is for {signed} ({node}), and no believed list of the worker calls that node {}.", shown(typed)],
            ["If it is the one you mean, use its present name {signed}"];
        ControllersWord(typed: String, node: NodeId) = "name_unverified", USAGE,
            ["nothing was signed: that {} is node {node} is the controller's word alone, the worker's list does not say so.", shown(typed)],
            ["Name it by its id or its code, as its own screen shows it; or run it on a terminal, without --yes, and type its code"];
        BadNote(file: String) = "", FAILED, ["{file} is no note of nodes"], ["remove it if nobody but you can have changed it"];
        Note(error: FileError) = "", FAILED, ["the nodes that were seen cannot be noted: {error}"], ["{}", error.cure()];
    }
}

/// A node as it was typed, and the one that was found by it among what the controller says there is.
#[derive(Debug)]
pub(crate) struct Meant {
    /// Name, id or code.
    pub(crate) typed: String,
    /// What was found.
    pub(crate) node: NodeId,
}

impl Meant {
    pub(crate) fn new(typed: &str, node: &NodeId) -> Self {
        Self { typed: typed.to_owned(), node: node.clone() }
    }

    /// Whether what was typed tells by itself that it is this node: it is its id, or its code.
    fn is_its_own_word(&self) -> bool {
        self.node.as_str() == self.typed || has_code(&self.node, &self.typed)
    }
}

/// A node's id and its code begin with the same digits of its key's fingerprint.
fn has_code(node: &NodeId, text: &str) -> bool {
    let code = text.trim().parse::<VerificationCode>().ok();
    code.is_some_and(|code| node.as_str().starts_with(&code.as_str().replace('-', "")))
}

/// Nodes that stood in an order that was signed here.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    nodes: BTreeSet<NodeId>,
}

/// The worker's list, if it is believed and recent.
async fn list(client: &Client, me: &Me) -> Result<Result<Names, NoNames>, Failure> {
    let view: NamesView = match client.call(PeopleCall::Names, &"").await {
        Ok(view) => view,
        // A controller of before these lists.
        Err(error) if error.code() == Some(Code::NotFound) => return Ok(Err(NoNames::None)),
        Err(error @ CallError::Strange(_)) => {
            note(&format!("The controller's list of names cannot be read: {error}"));
            return Ok(Err(NoNames::None));
        }
        Err(error) => return Err(error.into()),
    };
    Ok(believed(&view, me))
}

fn believed(view: &NamesView, me: &Me) -> Result<Names, NoNames> {
    let signed = view.names.as_ref().ok_or(NoNames::None)?;
    let bundle = view.bundle.as_ref().ok_or(NoNames::NoBundle)?;
    let bundle = roster::newest_bundle(bundle, me).map_err(NoNames::Bundle)?;
    let names = signed.verify(&bundle, &me.fleet()).map_err(NoNames::List)?;
    let mut stale = None;
    let noted = roster::advance(&roster::note(me, NOTE), None, names.taken(), |held| {
        names.supersedes(held, &bundle).map_err(|error| {
            let text = chain(&error);
            stale = Some(error);
            RosterProblem::Strange(text)
        })
    });
    match (stale, noted) {
        (Some(error), _) => Err(NoNames::List(error)),
        (None, Err(error)) => Err(NoNames::Bundle(error)),
        (None, Ok(())) if !names.is_fresh(clock::now()) => Err(NoNames::Old(names.list().time)),
        (None, Ok(())) => Ok(names),
    }
}

/// The nodes that an order is about. The machine that it admits is none yet: its fingerprint is what is compared.
fn nodes<'a>(read: &'a ReadDraft<'_>) -> &'a [NodeId] {
    if read.body().new_key().is_some() { &[] } else { &read.intent().nodes }
}

/// Says under an order what its nodes are called; has the code of each typed that no believed name says anything about, and
/// whatever else shows that a node is the one that was meant.
pub(crate) async fn tell(
    client: &Client,
    me: &Me,
    read: &ReadDraft<'_>,
    meant: &[Meant],
    yes: bool,
) -> Result<(), Failure> {
    let nodes = nodes(read);
    let by_name: Vec<_> = meant.iter().filter(|meant| !meant.is_its_own_word()).collect();
    if nodes.is_empty() && by_name.is_empty() {
        return Ok(());
    }
    let (names, seen) = (list(client, me).await?, seen(me)?);
    let named = |id: &NodeId| names.as_ref().ok().and_then(|names| names.get(id)).map(|node| &node.hostname);
    if !nodes.is_empty() {
        write_beside(&lines(nodes, &names, &seen, signed_name(read)))?;
    }
    for id in nodes.iter().filter(|id| named(id).is_none()) {
        code_typed(id, yes, || NodesProblem::NobodyKnows(id.clone()))?;
    }
    for Meant { typed, node } in by_name {
        if named(node).is_some_and(|name| name.as_str() == typed) {
            continue;
        }
        match signed_name(read) {
            Some(signed) if signed.as_str() == typed => {}
            Some(signed) => name_typed(typed, node, signed, yes)?,
            // Its code was just typed.
            None if nodes.contains(node) && named(node).is_none() => {}
            None => code_typed(node, yes, || NodesProblem::ControllersWord(typed.clone(), node.clone()))?,
        }
    }
    Ok(())
}

/// The name that an order calls its node by. That of an admission is the new node's, not that of the one it replaces.
fn signed_name<'a>(read: &'a ReadDraft<'_>) -> Option<&'a Hostname> {
    if read.body().new_key().is_some() { None } else { read.body().hostname() }
}

/// Has a node's code typed.
fn code_typed(node: &NodeId, yes: bool, nobody: impl FnOnce() -> NodesProblem) -> Result<(), Failure> {
    let question = format!("The code of the machine that node {node} is, from its own screen: ");
    let text = typed(&question, yes)?.ok_or_else(nobody)?;
    if has_code(node, &text) {
        return Ok(());
    }
    Err(NodesProblem::OtherCode(node.clone(), text.trim().to_owned()).into())
}

/// Has the name typed that is signed, where another one was typed before.
fn name_typed(said: &str, node: &NodeId, signed: &Hostname, yes: bool) -> Result<(), Failure> {
    let sentence = format!(
        "You typed {}. The order is for {signed} ({node}), and no believed list of the worker calls that node {}.",
        shown(said),
        shown(said)
    );
    let question = format!("{}\nType {signed} to go on: ", wrapped(&sentence, table::beside()));
    let other = || NodesProblem::OtherName(said.to_owned(), node.clone(), signed.clone());
    let text = typed(&question, yes)?.ok_or_else(other)?;
    if text.trim_end_matches(['\r', '\n']) == signed.as_str() { Ok(()) } else { Err(AskError::NotConfirmed.into()) }
}

/// What the last question says besides, where an order calls a node otherwise than it was typed.
pub(crate) fn otherwise(read: &ReadDraft<'_>, meant: &[Meant]) -> Option<String> {
    let signed = signed_name(read)?;
    let other = meant.iter().find(|meant| !meant.is_its_own_word() && meant.typed != signed.as_str())?;
    Some(format!("You typed {}; the order is for {signed} ({}).", shown(&other.typed), other.node))
}

/// The lines under an order. `signed` is the name that stands in it, where one does.
fn lines(
    nodes: &[NodeId],
    names: &Result<Names, NoNames>,
    seen: &BTreeSet<NodeId>,
    signed: Option<&Hostname>,
) -> Vec<String> {
    let mut lines = vec![match names {
        Ok(names) => format!("Nodes, as the worker named them at {}:", names.list().time),
        Err(why) => format!("WARNING: names cannot be shown ({why}). Nodes:"),
    }];
    for id in nodes {
        let mut line = format!("  {id}");
        match names.as_ref().map(|names| names.get(id).map(|node| &node.hostname)) {
            Ok(Some(name)) => {
                let _ = write!(line, "  {name}");
                if signed.is_some_and(|signed| signed != name) {
                    line.push_str("  WARNING: the order calls it otherwise");
                }
            }
            Ok(None) => line.push_str("  WARNING: the worker's list does not have it"),
            Err(_) => {}
        }
        if !seen.contains(id) {
            line.push_str("  (first seen: no order for it was signed here before)");
        }
        lines.push(line);
    }
    lines
}

fn file(me: &Me) -> PathBuf {
    roster::note(me, SEEN)
}

fn seen(me: &Me) -> Result<BTreeSet<NodeId>, NodesProblem> {
    let file = file(me);
    let Some(text) = files::find(&file, SEEN_MAX).map_err(NodesProblem::Note)? else { return Ok(BTreeSet::new()) };
    let most = usize::try_from(SEEN_MAX).unwrap_or(usize::MAX);
    let bad = |_| NodesProblem::BadNote(files::name(&file));
    json::from_str::<Seen>(&text, most, JSON_DEPTH_MAX).map(|seen| seen.nodes).map_err(bad)
}

/// Remembers the nodes of an order that was signed. What cannot be remembered is shown as new the next time.
pub(crate) fn remember(me: &Me, read: &ReadDraft<'_>) {
    if let Err(error) = try_remember(me, nodes(read)) {
        note(&error.to_string());
    }
}

fn try_remember(me: &Me, nodes: &[NodeId]) -> Result<(), NodesProblem> {
    let is_known = |known: &BTreeSet<NodeId>| nodes.iter().all(|id| known.contains(id));
    if is_known(&seen(me)?) {
        return Ok(());
    }
    let turn = Turn::beside(&file(me)).map_err(NodesProblem::Note)?;
    let mut known = seen(me)?;
    known.extend(nodes.iter().cloned());
    if known.len() > LIST_ENTRIES_MAX {
        // More than a fleet ever has: they begin anew, and are shown as new.
        known = nodes.iter().cloned().collect();
    }
    let bad = |_| NodesProblem::BadNote(files::name(&file(me)));
    let text = json::to_string(&Seen { nodes: known }).map_err(bad)?;
    turn.replace(&file(me), &text).map_err(NodesProblem::Note)
}
