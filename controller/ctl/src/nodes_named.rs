//! What the nodes of an order are called, by the worker's own signed list (design.md O8). The controller only carries it.
//!
//! The words under an order have nodes by their ids. Names stand beside them while a list of the last 24 hours is believed;
//! else a person says which machine each id is, by its code: an old list could still map a name to a key that was stolen.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use lucia_proto::code::Code;
use lucia_proto::ids::NodeId;
use lucia_proto::intent::{Body, ReadDraft};
use lucia_proto::json;
use lucia_proto::key::VerificationCode;
use lucia_proto::limits::{JSON_DEPTH_MAX, LIST_ENTRIES_MAX};
use lucia_proto::lists::{ListError, Names};
use lucia_proto::names::Hostname;
use lucia_proto::owner_api::{NamesView, OwnerEndpoint};
use lucia_proto::text::{chain, shown};
use lucia_proto::time::UnixTime;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::client::{CallError, Client, Me};
use crate::clock;
use crate::failure::Failure;
use crate::files::{self, FileError, Secret, Turn};
use crate::roster::{self, RosterProblem};
use crate::tell::{note, typed, write_beside};

/// The mark of the list that was believed last, beside the key.
const NOTE: &str = "names";
/// The nodes that stood in an order that was signed here, beside it.
const SEEN: &str = "nodes-seen";
/// That file at its longest: 35 bytes a node.
const SEEN_MAX: u64 = 2 * 1024 * 1024;

/// Why no names are shown.
#[derive(Debug, Error)]
enum NoNames {
    #[error("the controller has no list of names from the worker")]
    None,
    #[error("it came without the bundle that says who signs it")]
    NoBundle,
    #[error("{0}")]
    Bundle(RosterProblem),
    #[error("{}", shown(&chain(.0)))]
    List(ListError),
    #[error("it is of {0}, which is not within 24 h of this machine's clock")]
    Old(UnixTime),
}

/// Why an order is not signed.
#[derive(Debug, Error)]
pub(crate) enum NodesProblem {
    /// Nobody is there to say which machines these are.
    #[error(
        "nothing was signed: no name is believed for {}, so somebody has to type its code: run it on a terminal, without \
         --yes. See why the worker's list is not there or old: lucia-enrollment-worker status", .0
    )]
    NobodyKnows(NodeId),
    /// The code of another machine.
    #[error("nothing was signed: {} is not the code of node {}; it is another machine than the one you mean", shown(.typed), .node)]
    OtherCode {
        /// The node.
        node: NodeId,
        /// As typed.
        typed: String,
    },
    /// The note is none.
    #[error("{0} is no note of nodes; remove it if nobody but you can have changed it")]
    BadNote(String),
    /// It cannot be read or written.
    #[error("the nodes that were seen cannot be noted: {0}")]
    Note(FileError),
}

/// Nodes that stood in an order that was signed here.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    nodes: BTreeSet<NodeId>,
}

/// The worker's list, if it is believed and recent.
async fn list(client: &Client, me: &Me) -> Result<Result<Names, NoNames>, Failure> {
    let view: NamesView = match client.look(OwnerEndpoint::Names, None).await {
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
    match read.body() {
        Body::Admit(_) => &[],
        Body::SshKey(_) | Body::ReleaseLapse(_) | Body::CloneDecision(_) | Body::RemoveIdentity(_) => {
            &read.intent().nodes
        }
    }
}

/// Says under an order what its nodes are called; has the code of each typed that no believed name says anything about.
pub(crate) async fn tell(client: &Client, me: &Me, read: &ReadDraft<'_>, yes: bool) -> Result<(), Failure> {
    let nodes = nodes(read);
    if nodes.is_empty() {
        return Ok(());
    }
    let (names, seen) = (list(client, me).await?, seen(me)?);
    let named = |id: &NodeId| names.as_ref().ok().and_then(|names| names.get(id)).map(|node| &node.hostname);
    write_beside(&lines(nodes, &names, &seen, read.body().hostname()))?;
    for id in nodes.iter().filter(|id| named(id).is_none()) {
        let Some(text) = typed(&format!("The code of the machine that node {id} is, from its own screen: "), yes)?
        else {
            return Err(NodesProblem::NobodyKnows(id.clone()).into());
        };
        // A node's id and its code begin with the same digits of its key's fingerprint.
        let code = text.trim().parse::<VerificationCode>().ok();
        if code.is_none_or(|code| !id.as_str().starts_with(&code.as_str().replace('-', ""))) {
            return Err(NodesProblem::OtherCode { node: id.clone(), typed: text.trim().to_owned() }.into());
        }
    }
    Ok(())
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
    let text = match files::read(&file, SEEN_MAX, Secret::Yes) {
        Ok(text) => text,
        Err(error) if error.is_missing() => return Ok(BTreeSet::new()),
        Err(error) => return Err(NodesProblem::Note(error)),
    };
    let most = usize::try_from(SEEN_MAX).unwrap_or(usize::MAX);
    let bad = |_| NodesProblem::BadNote(shown(&file.to_string_lossy()));
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
    let bad = |_| NodesProblem::BadNote(shown(&file(me).to_string_lossy()));
    let text = json::to_string(&Seen { nodes: known }).map_err(bad)?;
    turn.replace(&file(me), &text).map_err(NodesProblem::Note)
}
