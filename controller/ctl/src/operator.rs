//! What the operator's routes do, whoever calls them: devices, nodes, events.

use std::fmt::Write as _;
use std::time::Duration;

use lucia_people::host_api::{
    ApproveForm, DeviceView, ERASE, EventsView, KeepForm, NodeLine, NodeView, OnboardingView,
};
use lucia_proto::api::Endpoint;
use lucia_proto::base::ids::{NodeId, StartId};
use lucia_proto::base::names::{DiskId, Hostname};
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::orders::OrderKind;
use lucia_proto::pki::key::{Fingerprint, VerificationCode};

use crate::args::{Approve, Events};
use crate::client::Client;
use crate::failure::Failure;
use crate::names::{self, Names};
use crate::nodes_named::Meant;
use crate::order::OrderError;
use crate::tell::{Out, ask, fingerprint, in_json, note, write};
use crate::wrap::wrapped;
use crate::{order, roster, show, sign};

/// The device of this code.
pub(crate) async fn device(client: &Client, code: VerificationCode) -> Result<DeviceView, Failure> {
    of_code(client.call(Endpoint::Onboarding, None).await?, code)
}

fn of_code(view: OnboardingView, code: VerificationCode) -> Result<DeviceView, Failure> {
    let found = view.devices.into_iter().find(|device| device.verification_code == code);
    found.ok_or(Failure::NoDevice(code))
}

/// Whether the controller has the key that the machine's own screen shows.
pub(crate) fn same_key(device: &DeviceView, given: &Fingerprint) -> Result<(), Failure> {
    if device.fingerprint == *given {
        return Ok(());
    }
    Err(Failure::OtherFingerprint { given: *given, found: device.fingerprint })
}

pub(crate) async fn change(
    client: &Client,
    endpoint: Endpoint,
    code: VerificationCode,
) -> Result<OnboardingView, Failure> {
    let device = device(client, code).await?;
    Ok(client.call(endpoint, Some(&device.device_id)).await?)
}

/// Whether the controller would take the approval, as far as its own views tell: an order is shown only then.
async fn may_be_approved(
    client: &Client,
    device: &DeviceView,
    now: UnixTime,
    args: &Approve,
    replaces: Option<&NodeId>,
) -> Result<(), Failure> {
    let refuse = |why: String| Err(Failure::NotApproved(why));
    let code = &device.verification_code;
    if device.phase != DevicePhase::Discovered {
        return refuse(format!(
            "{code} is {:?} and waits for no approval; luciactl onboarding shows what is next",
            device.phase
        ));
    }
    if device.expires_at <= now {
        return refuse(format!(
            "the discovery of {code} is over; start the installer on it again while the window is open"
        ));
    }
    let fits = |id: &DiskId| {
        let disk = device.inventory.disk(id);
        disk.is_some_and(|disk| !disk.is_removable && !disk.is_read_only && disk.size_bytes > 0)
    };
    match &args.disk {
        None if device.running => {}
        Some(_) if device.running => {
            return refuse(format!(
                "{code} runs an installed system and joins as it is, so no disk of it is erased; leave --disk out"
            ));
        }
        Some(disk) if fits(disk) => {}
        Some(disk) => {
            return refuse(format!(
                "{code} has no disk {disk} that can be erased; luciactl onboarding shows its disks"
            ));
        }
        None => {
            return refuse(format!(
                "{code} runs an installer, which erases a disk: name it with --disk; luciactl onboarding shows its disks"
            ));
        }
    }
    // The operator's call signs and shows no order, so the controller's own word is soon enough.
    if client.me().is_some() {
        let name = args.hostname.as_str();
        let nodes = client.nodes().await?.nodes;
        let taken = nodes.iter().find(|node| node.is_called(name) && Some(&node.node_id) != replaces);
        if let Some(node) = taken.filter(|node| node.node_id != device.device_id) {
            return refuse(format!(
                "{name} is the name of node {}; choose another, or add --replaces {}",
                node.node_id,
                node.names()
            ));
        }
    }
    Ok(())
}

/// Approves an installation; as an owner, with the order that admits its machine.
pub(crate) async fn approve(client: &Client, args: Approve) -> Result<OnboardingView, Failure> {
    if let Some(me) = client.me() {
        roster::signer(client, me, &[OrderKind::Admit]).await?;
    }
    let seen: OnboardingView = client.call(Endpoint::Onboarding, None).await?;
    let now = seen.server_time;
    let device = of_code(seen, args.code.clone())?;
    let fingerprint = fingerprint(args.fingerprint, args.yes)?;
    same_key(&device, &fingerprint)?;
    let replaces = match &args.replaces {
        Some(text) => Some(former(client, text).await?),
        None => None,
    };
    let (replaces, removed) = replaces.unzip();
    may_be_approved(client, &device, now, &args, replaces.as_ref()).await?;
    let draft = client.me().map(|me| order::admit(me, fingerprint, args.hostname.clone(), replaces.clone()));
    let draft = draft.transpose()?;
    if let (Some(me), Some(draft)) = (client.me(), &draft) {
        let meant = args.replaces.as_deref().zip(replaces.as_ref()).map(|(text, id)| Meant::new(text, id));
        sign::tell(client, me, draft, meant.as_slice(), args.yes).await?;
    }
    let ended = |failure: Failure| if draft.is_some() { failure.unsigned() } else { failure };
    if !args.yes && args.erase.is_none() {
        let (code, name) = (&device.verification_code, &args.hostname);
        let mut sentence = match &args.disk {
            Some(disk) => format!("This erases disk {disk} of {code} and installs {name} on it."),
            None => format!("This makes the running machine {code} the node {name}; nothing on it is erased."),
        };
        if let Some(removed) = &removed {
            let _ = write!(sentence, "\n{removed}");
        }
        if draft.is_some() {
            sentence.push_str("\nAnd it signs the order above.");
        }
        let word = if args.disk.is_some() { ERASE } else { args.hostname.as_str() };
        ask(&sentence, word).map_err(ended)?;
    }
    let confirmation = args.disk.as_ref().map(|_| ERASE.to_owned());
    let form = ApproveForm { hostname: args.hostname, disk_id: args.disk, confirmation, replaces };
    let view = client.post(Endpoint::Approve, Some(&device.device_id), &form).await;
    let view = view.map_err(|error| ended(error.into()))?;
    if let (Some(me), Some(draft)) = (client.me(), &draft) {
        // What was approved waits for this order, so whoever reads why it failed reads how to give it.
        let given = sign::give(client, me, draft).await.inspect_err(|failure| {
            if failure.is_signed() {
                note("The installation is approved, and waits for the order that admits the machine.");
            } else {
                note("The installation is approved, the order that admits the machine was not given. Give it with");
                note(&format!("  luciactl admit {} --fingerprint {}", device.verification_code, fingerprint));
            }
        })?;
        note(&sign::given(draft, &given));
    }
    Ok(view)
}

/// The node whose place a device takes, and what becomes of it in words. One that was removed before still has its name at
/// the worker: it is found among the controller's events, or else by its id.
pub(crate) async fn former(client: &Client, text: &str) -> Result<(NodeId, String), Failure> {
    match find(client, text).await {
        Ok((id, name)) => {
            let view = client.nodes().await?;
            let line = view.nodes.iter().find(|node| node.node_id == id);
            let sentence = show::replacing(&id, &name, line, view.server_time);
            Ok((id, sentence))
        }
        Err(Failure::NoNode(text)) => {
            let removed = removed(client, &text).await?.or_else(|| text.parse().ok());
            let id = removed.ok_or_else(|| Failure::NoNode(text.clone()))?;
            let sentence = format!("It takes the place of {text} ({id}), which was removed.");
            Ok((id, sentence))
        }
        Err(failure) => Err(failure),
    }
}

/// What there is to know of a node, which is the one that was asked for.
pub(crate) async fn about(client: &Client, id: &NodeId) -> Result<NodeView, Failure> {
    let view: NodeView = client.call(Endpoint::Node, Some(id)).await?;
    if view.node.node_id == *id { Ok(view) } else { Err(OrderError::OtherNode.into()) }
}

/// A frozen node, its name, and what its holders are. An owner has to be one who may decide about it.
async fn frozen(client: &Client, node: &str) -> Result<(NodeId, String, NodeView), Failure> {
    if let Some(me) = client.me() {
        roster::signer(client, me, &[OrderKind::CloneDecision]).await?;
    }
    let (id, name) = find(client, node).await?;
    let view = about(client, &id).await?;
    if view.frozen.is_none() {
        return Err(Failure::NotFrozen(name));
    }
    Ok((id, name, view))
}

/// Decides for one holder, by the call itself or by an owner's order.
pub(crate) async fn keep(client: &Client, out: Out, node: &str, start: StartId, yes: bool) -> Result<(), Failure> {
    let (id, name, view) = frozen(client, node).await?;
    if !view.frozen.iter().flat_map(|frozen| &frozen.holders).any(|holder| holder.start_id.as_ref() == Some(&start)) {
        return Err(Failure::NoHolder { node: name, start });
    }
    if let Some(me) = client.me() {
        let draft = order::decide(me, &view, Some(start.clone()))?;
        let meant = [Meant::new(node, &id)];
        return sign::order(client, me, out, &draft, &meant, &show::keeping(&view, &start), yes).await;
    }
    if !yes {
        ask(&show::keeping(&view, &start), &name)?;
    }
    let view = client.post(Endpoint::KeepClone, Some(&id), &KeepForm { start_id: start }).await?;
    out.say(&view, || show::node(&view, out.screen))
}

/// Decides against every holder, in the same two ways.
pub(crate) async fn split(client: &Client, out: Out, node: &str, yes: bool) -> Result<(), Failure> {
    let (id, name, view) = frozen(client, node).await?;
    if let Some(me) = client.me() {
        let draft = order::decide(me, &view, None)?;
        return sign::order(client, me, out, &draft, &[Meant::new(node, &id)], &show::splitting(&view), yes).await;
    }
    if !yes {
        ask(&show::splitting(&view), &name)?;
    }
    out.onboarding(&client.call(Endpoint::SplitClone, Some(&id)).await?)
}

/// Removes a node or device for good: a node by an order, where an owner asks.
pub(crate) async fn remove(client: &Client, out: Out, node: &str, yes: bool) -> Result<(), Failure> {
    let sentence =
        |name: &str, id: &NodeId| format!("This removes {name} ({id}) for good; its key is refused from then on.");
    // What is no node yet holds nothing that could be wiped: there the call is enough.
    if let Some(me) = client.me()
        && let roster = roster::signer(client, me, &[]).await?
        && let Some(found) = find_node(client, node).await?
    {
        roster::may_order(&roster, OrderKind::RemoveIdentity)?;
        let (id, name) = (&found.node_id, found.certified_name());
        let draft = order::remove(me, id.clone(), name.clone())?;
        let meant = [Meant::new(node, id)];
        return sign::order(client, me, out, &draft, &meant, &sentence(name.as_str(), id), yes).await;
    }
    let (id, name) = find(client, node).await?;
    if !yes {
        ask(&sentence(&name, &id), &name)?;
    }
    let view = client.call(Endpoint::Remove, Some(&id)).await?;
    note(&format!(
        "{name} is removed here. Whether its key is barred for good is decided on the worker's host: \
         lucia-enrollment-worker confirm-removals shows it, if it was a node."
    ));
    out.onboarding(&view)
}

/// A node by hostname, id or code.
pub(crate) async fn find_node(client: &Client, text: &str) -> Result<Option<NodeLine>, Failure> {
    let view = client.nodes().await?;
    Ok(view.nodes.into_iter().find(|node| is_named(node, text)))
}

/// Whether this is what `text` names.
pub(crate) fn is_named(node: &NodeLine, text: &str) -> bool {
    node.is_called(text)
        || node.node_id.as_str() == text
        || text.parse().is_ok_and(|code: VerificationCode| code == node.verification_code)
}

/// A node or device by hostname, id or code: its id, and the name to confirm it by.
pub(crate) async fn find(client: &Client, text: &str) -> Result<(NodeId, String), Failure> {
    if let Some(node) = find_node(client, text).await? {
        return Ok((node.node_id, node.hostname.to_string()));
    }
    let (device, _) = find_device(client, text).await?.ok_or_else(|| Failure::NoNode(text.to_owned()))?;
    let code = device.verification_code.as_str().to_owned();
    Ok((device.device_id, code))
}

/// A device by the hostname it is to have, id or code, and the controller's time.
async fn find_device(client: &Client, text: &str) -> Result<Option<(DeviceView, UnixTime)>, Failure> {
    let code = text.parse::<VerificationCode>().ok();
    let view: OnboardingView = client.call(Endpoint::Onboarding, None).await?;
    let is_it = |device: &DeviceView| {
        device.task.as_ref().is_some_and(|task| task.hostname.as_str() == text)
            || device.device_id.as_str() == text
            || Some(&device.verification_code) == code.as_ref()
    };
    let now = view.server_time;
    Ok(view.devices.into_iter().find(is_it).map(|device| (device, now)))
}

/// What somebody wants to look at.
pub(crate) enum Looked {
    /// A node, or one that was removed: of that the controller says in its refusal what became.
    Node(NodeId),
    /// A machine that is no node yet, and the controller's time.
    Device(Box<DeviceView>, UnixTime),
}

/// What is called so, to be looked at alone.
pub(crate) async fn find_to_look(client: &Client, text: &str) -> Result<Looked, Failure> {
    if let Some(node) = find_node(client, text).await? {
        return Ok(Looked::Node(node.node_id));
    }
    if let Some((device, now)) = find_device(client, text).await? {
        return Ok(match device.phase {
            // It became one between the two calls.
            DevicePhase::Managed => Looked::Node(device.device_id),
            DevicePhase::Discovered
            | DevicePhase::Approved
            | DevicePhase::Installing
            | DevicePhase::AwaitingEnrollment
            | DevicePhase::Failed
            | DevicePhase::Rejected => Looked::Device(Box::new(device), now),
        });
    }
    let removed = removed(client, text).await?;
    removed.map(Looked::Node).ok_or_else(|| Failure::NoNode(text.to_owned()))
}

/// The node that had this name, id or code when it was removed, as far as the controller's events tell.
async fn removed(client: &Client, text: &str) -> Result<Option<NodeId>, Failure> {
    let code = text.parse::<VerificationCode>().ok().map(|code| code.as_str().replace('-', ""));
    let is_it = |id: &NodeId, name: Option<&Hostname>| {
        name.is_some_and(|name| name.as_str() == text)
            || id.as_str() == text
            || code.as_ref().is_some_and(|code| id.as_str().starts_with(code))
    };
    let removals = names::removals(client).await?;
    Ok(removals.into_iter().rev().find(|(id, name)| is_it(id, name.as_ref())).map(|(id, _)| id))
}

/// A node as it lives: the terminal shows it anew each time, anything else one after the other.
pub(crate) async fn watch(client: &Client, out: Out, id: &NodeId, every: u64) -> Result<(), Failure> {
    loop {
        let view = about(client, id).await?;
        if out.json {
            write(format!("{}\n", in_json(&view)?).as_bytes())?;
        } else {
            let (clear, end) = if out.screen.terminal { ("\u{1b}[H\u{1b}[2J", "") } else { ("", "\n") };
            let text = wrapped(&show::live(&view, out.screen), out.screen.width);
            write(format!("{clear}{text}{end}").as_bytes())?;
        }
        tokio::time::sleep(Duration::from_secs(every)).await;
    }
}

pub(crate) async fn events(client: &Client, out: Out, wanted: &Events) -> Result<(), Failure> {
    let mut after = wanted.after;
    let (mut names, mut list) = (Names::default(), show::Happened::events(out.wide));
    loop {
        let view: EventsView = client.events(after, wanted.follow).await?;
        if out.json {
            for event in &view.events {
                write(format!("{}\n", in_json(event)?).as_bytes())?;
            }
        } else {
            let ids = view.events.iter().filter_map(|event| event.device_id.as_ref());
            names.learn(client, ids, wanted.follow).await;
            let text = list.more_events(&view.events, &names, out.screen);
            write(wrapped(&text, out.screen.width).as_bytes())?;
        }
        after = view.events.last().map_or(after, |event| event.sequence);
        let caught_up = after >= view.last_sequence || view.events.is_empty();
        if caught_up {
            write(list.cut().as_bytes())?;
        }
        if !wanted.follow && caught_up {
            if after == 0 && !out.json {
                write(b"No events yet.\n")?;
            }
            return Ok(());
        }
    }
}
