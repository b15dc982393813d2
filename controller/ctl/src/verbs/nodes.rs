//! Nodes: all of them, one as it lives, and what is done to one.

use lucia_people::agents::{AgentLine, Obstacle};
use lucia_people::calls::PeopleCall;
use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use lucia_people::host_api::{self, NodeLine, NodeView, NodesView, RenameForm, Sample};
use lucia_people::why::{Renaming, restored};
use lucia_people::words;
use lucia_proto::base::ids::{NodeId, StartId};
use lucia_proto::base::names::Hostname;
use lucia_proto::base::text::{bytes, shown, span};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{Holder, NewName};
use lucia_proto::node::heartbeat::DirectoryState;
use lucia_proto::node::state::SnapshotState;
use lucia_proto::orders::{self, Body, OrderKind, RemoveIdentity, RenameNode};

use super::hour::hour;
use super::onboarding;
use crate::find::{FindError, Looked, about, find, find_node, find_to_look};
use crate::nodes_named::Meant;
use crate::problem::{FAILED, Failure, problems};
use crate::session::Session;
use crate::table::{Screen, Tone, paint, plain, table};
use crate::tell::{Out, ask, in_json, note, write};
use crate::text::{compared, left, line, wrapped};
use crate::{order, roster, sign};

problems! {
    /// Why a node is not let renew.
    pub(crate) enum LapseError {
        NoNode(text: String) = "", FAILED, ["nothing was ordered: no node is {}", shown(text)], ["luciactl nodes shows those there are"];
        NotLapsed(name: Hostname, until: UnixTime) = "", FAILED,
            ["nothing was ordered: the certificate of {name} has not lapsed; it renews by itself until {until}"];
        NoCertificate(name: Hostname) = "no_certificate", FAILED,
            ["nothing was ordered: the controller knows of no certificate of {name}"], ["luciactl why {name} says more"];
    }
}

/// Shows every node.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  luciactl nodes\n  luciactl nodes -o wide")]
pub(crate) struct Nodes;

pub(super) async fn list(session: &Session, _: Nodes) -> Result<(), Failure> {
    let view = session.client.nodes().await?;
    session.out.say(&view, || nodes(&view, session.out.screen))
}

/// Shows one node with its last hour, once or as it lives.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  luciactl node web-1\n  luciactl node web-1 --watch")]
pub(crate) struct Node {
    /// Its hostname, node id or verification code.
    node: String,
    /// Goes on showing it, the last hour in a line for each measure.
    #[arg(long, short)]
    watch: bool,
    /// Seconds between two looks.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600), requires = "watch")]
    every: u64,
}

pub(super) async fn show(session: &Session, asked: Node) -> Result<(), Failure> {
    let (client, out) = (&session.client, session.out);
    match find_to_look(client, &asked.node).await? {
        Looked::Device(device, now) => out.say(&device, || onboarding::no_node(&device, now, out.screen)),
        Looked::Node(id) if asked.watch => loop {
            watch(out, &about(client, &id).await?)?;
            tokio::time::sleep(Duration::from_secs(asked.every)).await;
        },
        Looked::Node(id) => say(out, &client.call(PeopleCall::Node, &id).await?),
    }
}

/// Gives a node the name that its machine calls itself by; the same key gets a certificate for it.
///
/// A machine whose /etc/hostname was changed goes on under the name it had, and `nodes` shows both. As an owner this signs
/// the order, by which worker, controller and node rename it. As the operator, or where the node's agent takes no such order,
/// somebody says so on the worker's host as well: lucia-enrollment-worker rename NODE NAME. Until the node is heard under the
/// new name, every command takes either. The name before, given while the rename is under way, takes it back.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  luciactl rename web-1 web-2")]
pub(crate) struct Rename {
    /// Its hostname, node id or verification code.
    node: String,
    /// What its machine calls itself.
    name: Hostname,
    /// Does not ask before the order is signed.
    #[arg(long)]
    yes: bool,
}

pub(super) async fn rename(session: &Session, asked: Rename) -> Result<(), Failure> {
    let (client, node) = (&session.client, asked.node.as_str());
    if let Some(me) = client.me()
        && let roster = roster::signer(client, me, &[]).await?
        && let Some(found) = find_node(client, node).await?
        && takes_renames(&client.agents().await?, &found.node_id)
    {
        roster::may_order(&roster, OrderKind::Rename)?;
        let (id, hostname) = (&found.node_id, found.certified_name().clone());
        let sentence = format!("This renames {hostname} ({id}) to {}.", asked.name);
        let body = Body::Rename(RenameNode { hostname, new_hostname: asked.name });
        let draft = order::once(me, id.clone(), &body)?;
        return sign::order(session, me, &draft, &[Meant::new(node, id)], &sentence, asked.yes).await;
    }
    let (id, _) = find(client, node).await?;
    say(session.out, &client.post(PeopleCall::Rename, &id, &RenameForm { hostname: asked.name }).await?)
}

/// Whether this node's agent carries the order out; one of 0.1 does not.
fn takes_renames(agents: &[AgentLine], node: &NodeId) -> bool {
    let agent = agents.iter().find(|agent| agent.node_id == *node);
    agent.is_some_and(|agent| matches!(agent.obstacle(OrderKind::Rename), None | Some(Obstacle::TwoOwners)))
}

/// Removes a node or device for good: its key is refused from then on.
///
/// As an owner this signs the order: the node wipes what it has of the fleet and is a plain machine again.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  luciactl remove web-1")]
pub(crate) struct Remove {
    /// Its hostname, node id or verification code.
    node: String,
    /// Does not ask.
    #[arg(long)]
    yes: bool,
}

pub(super) async fn remove(session: &Session, asked: Remove) -> Result<(), Failure> {
    let (client, node) = (&session.client, asked.node.as_str());
    let sentence =
        |name: &str, id: &NodeId| format!("This removes {name} ({id}) for good; its key is refused from then on.");
    // What is no node yet holds nothing that could be wiped: there the call is enough.
    if let Some(me) = client.me()
        && let roster = roster::signer(client, me, &[]).await?
        && let Some(found) = find_node(client, node).await?
    {
        roster::may_order(&roster, OrderKind::RemoveIdentity)?;
        let (id, name) = (&found.node_id, found.certified_name());
        let draft = order::once(me, id.clone(), &Body::RemoveIdentity(RemoveIdentity { hostname: name.clone() }))?;
        let meant = [Meant::new(node, id)];
        return sign::order(session, me, &draft, &meant, &sentence(name.as_str(), id), asked.yes).await;
    }
    let (id, name) = find(client, node).await?;
    ask(&sentence(&name, &id), &name, asked.yes)?;
    let view = client.call(PeopleCall::Remove, &id).await?;
    note(&format!(
        "{name} is removed here. Whether its key is barred for good is decided on the worker's host: \
         lucia-enrollment-worker confirm-removals shows it, if it was a node."
    ));
    onboarding::say(session.out, &view)
}

/// Signs that a node may renew whose certificate ended too long ago.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  luciactl release-lapse web-1")]
pub(crate) struct ReleaseLapse {
    /// Its hostname, node id or verification code.
    node: String,
    /// Does not ask.
    #[arg(long)]
    yes: bool,
}

pub(super) async fn release(session: &Session, asked: ReleaseLapse) -> Result<(), Failure> {
    let (client, me) = (&session.client, session.owner("to release a lapsed node from here")?);
    roster::signer(client, me, &[OrderKind::ReleaseLapse]).await?;
    let id = find_node(client, &asked.node).await?.ok_or_else(|| LapseError::NoNode(asked.node.clone()))?.node_id;
    let view = about(client, &id).await?;
    let draft = order::once(me, id.clone(), &Body::ReleaseLapse(lapsed(&view)?))?;
    sign::order(session, me, &draft, &[Meant::new(&asked.node, &id)], &released(&view), asked.yes).await
}

/// Lets a node renew whose certificate ended before `view.server_time`.
fn lapsed(view: &NodeView) -> Result<orders::ReleaseLapse, Failure> {
    let node = &view.node;
    let ended_at = node.certificate_expires_at.ok_or_else(|| LapseError::NoCertificate(node.hostname.clone()))?;
    if view.server_time < ended_at {
        return Err(LapseError::NotLapsed(node.hostname.clone(), ended_at).into());
    }
    if view.fingerprint.node_id() != node.node_id {
        return Err(FindError::OtherNode.into());
    }
    // The controller hears of a lapsed node no more: where it calls from now, and since which boot, nobody here knows.
    Ok(orders::ReleaseLapse {
        fingerprint: view.fingerprint,
        hostname: node.certified_name().clone(),
        ended_at,
        former_address: node.address,
        address: None,
        boot_id: None,
    })
}

/// One as it lives: the terminal shows it anew each time, anything else one after the other.
fn watch(out: Out, view: &NodeView) -> Result<(), Failure> {
    let text = if out.json {
        format!("{}\n", in_json(view)?)
    } else {
        let (clear, end) = if out.screen.terminal { ("\u{1b}[H\u{1b}[2J", "") } else { ("", "\n") };
        format!("{clear}{}{end}", wrapped(&live(view, out.screen), out.screen.width))
    };
    Ok(write(text.as_bytes())?)
}

pub(super) fn say(out: Out, view: &NodeView) -> Result<(), Failure> {
    out.say(view, || node(view, out.screen))
}

fn nodes(view: &NodesView, screen: Screen) -> String {
    if view.nodes.is_empty() {
        return "No nodes yet. luciactl onboarding shows the devices that could become one.\n".to_owned();
    }
    let now = view.server_time;
    let rows: Vec<_> = view
        .nodes
        .iter()
        .map(|node| {
            vec![
                plain(node.names()),
                state(node),
                plain(
                    node.last_seen_at.map_or_else(|| "never".to_owned(), |at| format!("{} ago", span(now.since(at)))),
                ),
                plain(node.address.map_or_else(|| "-".to_owned(), |address| address.to_string())),
                certificate(node, now),
                plain(node.verification_code.as_str()),
                plain(&node.node_id),
            ]
        })
        .collect();
    table(&["HOSTNAME", "STATE", "LAST SEEN", "ADDRESS", "CERTIFICATE", "CODE", "NODE"], &rows, screen)
}

/// A frozen node is first of all that; then whether its users can log in.
pub(super) fn state(node: &NodeLine) -> (String, Tone) {
    if node.frozen {
        return (format!("{:?}, frozen", node.state), Tone::Bad);
    }
    match node.directory {
        Some(DirectoryState::Failed) => (format!("{:?}, directory failed", node.state), Tone::Bad),
        Some(DirectoryState::Waiting) => (format!("{:?}, directory waits", node.state), Tone::Attention),
        Some(DirectoryState::Ready) | None => (format!("{:?}", node.state), state_tone(node.state)),
    }
}

const fn state_tone(state: SnapshotState) -> Tone {
    match state {
        SnapshotState::AwaitingHeartbeat => Tone::Attention,
        SnapshotState::Online => Tone::Good,
        SnapshotState::Stale | SnapshotState::Barred => Tone::Bad,
    }
}

pub(super) fn certificate(node: &NodeLine, now: UnixTime) -> (String, Tone) {
    match node.certificate_expires_at {
        None => ("none".to_owned(), Tone::Attention),
        Some(until) if until <= now => ("lapsed".to_owned(), Tone::Bad),
        Some(until) => (left(now, until), Tone::Plain),
    }
}

fn node(view: &NodeView, screen: Screen) -> String {
    let mut out = head(view, screen);
    let samples = &view.samples;
    if samples.is_empty() {
        out.push_str("No samples of the last hour.\n");
        return out;
    }
    out.push_str(&hour(view, screen));
    out.push('\n');
    // Most nodes have no GPU, and a line is only so wide.
    let gpu = samples.iter().any(|sample| sample.gpu_percent.is_some() || sample.gpu_temperature_celsius.is_some());
    let mut heads = vec!["AT", "LOAD", "CPU", "TEMPERATURE"];
    if gpu {
        heads.extend(["GPU", "GPU TEMP"]);
    }
    heads.extend(["MEMORY FREE", "STORAGE FREE"]);
    let rows: Vec<_> = samples.iter().map(|one| sample(one, gpu)).collect();
    out.push_str(&table(&heads, &rows, screen));
    out
}

/// `node --watch`: who it is, how it stands, and its last hour.
fn live(view: &NodeView, screen: Screen) -> String {
    let mut out = head(view, screen);
    if view.samples.is_empty() {
        out.push_str("No samples of the last hour.\n");
    }
    out.push_str(&hour(view, screen));
    let _ = writeln!(out, "{}", paint(&format!("  at {}", view.server_time), Tone::Plain, screen));
    out
}

/// Who it is and how it stands, without its last hour.
fn head(view: &NodeView, screen: Screen) -> String {
    let now = view.server_time;
    let mut out = String::new();
    let NodeView { node, fingerprint, task_id, os_version, uptime_seconds, directory, .. } = view;
    let (text, tone) = state(node);
    let _ = writeln!(out, "{}  {}", node.hostname, paint(&text, tone, screen));
    renaming(&mut out, node);
    for host_api::Rename { at, actor, names } in &view.renames {
        let NewName { from, to } = names;
        line(&mut out, "renamed", &format!("{at}, from {from} to {to}, by {}", words::actor(actor.as_str())));
    }
    line(&mut out, "node", node.node_id.as_str());
    compared(&mut out, "fingerprint", fingerprint);
    line(&mut out, "task", &format!("{task_id}, its installation"));
    if let Some(address) = node.address {
        line(&mut out, "address", &address.to_string());
    }
    match node.last_seen_at {
        Some(at) => line(&mut out, "last seen", &format!("{at}, {} ago", span(now.since(at)))),
        None => line(&mut out, "last seen", "never: its first heartbeat is still to come"),
    }
    let (text, tone) = certificate(node, now);
    let until = node.certificate_expires_at.map(|until| format!(", until {until}")).unwrap_or_default();
    line(&mut out, "certificate", &format!("{}{until}", paint(&text, tone, screen)));
    if let Some(version) = os_version {
        line(&mut out, "system", &shown(version.as_str()));
    }
    if let Some(seconds) = uptime_seconds {
        line(&mut out, "up", &span(Duration::from_secs(*seconds)));
    }
    if let Some(report) = directory {
        let (text, tone) = match report.state {
            DirectoryState::Ready => ("ready", Tone::Good),
            DirectoryState::Waiting => ("waiting", Tone::Attention),
            DirectoryState::Failed => ("failed", Tone::Bad),
        };
        let why = report.message.as_ref().map(|why| format!(": {}", shown(why.as_str()))).unwrap_or_default();
        line(&mut out, "directory", &format!("{}{why}", paint(text, tone, screen)));
    }
    for gpu in &view.gpus {
        let (model, uuid) = (shown(gpu.model.as_str()), gpu.uuid.as_str());
        line(&mut out, "gpu", &format!("{model}, {}, {uuid}", bytes(gpu.memory_bytes)));
    }
    clones(&mut out, view);
    out.push('\n');
    out
}

/// What stands between a node and its other name.
fn renaming(out: &mut String, node: &NodeLine) {
    let now = &node.hostname;
    if let Some(renaming) = Renaming::of(node) {
        line(out, "old name", &format!("{}; {renaming}", renaming.from));
    } else if let Some(new) = &node.new_hostname {
        line(out, "new name", &format!("{new}, as the machine says; if that was meant: luciactl rename {now} {new}"));
    }
}

/// One holder in one line.
pub(super) fn holder(holder: &Holder) -> String {
    let start = holder.start_id.as_ref().map_or("not told", StartId::as_str);
    let boot = holder.boot_id.as_ref().map_or("not told", |boot| boot.as_str());
    let last = holder.last_seen_at.map(|at| format!(", last {at}")).unwrap_or_default();
    let lost = if holder.memory_lost { ", remembers no earlier start" } else { "" };
    format!("start {start}  {}  boot {boot}  first seen {}{last}{lost}", holder.address, holder.first_seen_at)
}

/// What `node` says of clones.
pub(super) fn clones(out: &mut String, view: &NodeView) {
    if let Some(frozen) = &view.frozen {
        line(out, "frozen", &format!("since {}: two machines hold this identity", frozen.at));
        for who in &frozen.holders {
            line(out, "held by", &holder(who));
        }
        if let Some(likely) = restored(&frozen.holders) {
            line(out, "likely", &likely);
        }
        let name = &view.node.hostname;
        line(out, "next", "on the console of each machine run `lucia-node-agent status`, and compare its start; then");
        let _ =
            writeln!(out, "{:15}luciactl clone keep {name} --start ID   if you know the other one is no danger", "");
        let _ = writeln!(out, "{:15}luciactl clone split {name}             if you do not", "");
    } else if let Some(present) = &view.holder {
        line(out, "held by", &holder(present));
    }
    if let Some(kept) = &view.kept {
        line(out, "kept", &format!("at {}: {}", kept.at, holder(&kept.holder)));
    }
    if let Some(refused) = &view.last_refused {
        line(out, "refused", &holder(refused));
    }
}

fn sample(sample: &Sample, gpu: bool) -> Vec<(String, Tone)> {
    let number = |value: Option<f64>, unit: &str| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.1}{unit}"));
    let free = |available: u64, total: u64| format!("{} of {}", bytes(available), bytes(total));
    let storage = match (sample.storage_available_bytes, sample.storage_total_bytes) {
        (Some(available), Some(total)) => free(available, total),
        (_, _) => "-".to_owned(),
    };
    let mut cells = vec![
        sample.at.to_string(),
        number(sample.load_average, ""),
        number(sample.cpu_percent, " %"),
        number(sample.cpu_temperature_celsius, " °C"),
    ];
    if gpu {
        cells.extend([number(sample.gpu_percent, " %"), number(sample.gpu_temperature_celsius, " °C")]);
    }
    cells.extend([free(sample.memory_available_bytes, sample.memory_total_bytes), storage]);
    cells.into_iter().map(plain).collect()
}

/// What `release-lapse` is about to do.
fn released(view: &NodeView) -> String {
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
