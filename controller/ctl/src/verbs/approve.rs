//! Letting a machine in: the approval of its installation, and the order that makes it a node.

use lucia_people::calls::PeopleCall;
use std::fmt::Write as _;

use clap::Args;
use lucia_people::host_api::{ApproveForm, DeviceView, ERASE, NodeLine, OnboardingView};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::{DiskId, Hostname};
use lucia_proto::base::text::span;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::state::SnapshotState;
use lucia_proto::orders::{self, Body, Draft, OrderKind};
use lucia_proto::pki::key::{Fingerprint, VerificationCode};

use super::onboarding::say;
use crate::client::{Client, Me};
use crate::find::{self, FindError, find, of_code};
use crate::fingerprint::{self, FingerprintError};
use crate::nodes_named::Meant;
use crate::problem::{FAILED, Failure, problems};
use crate::session::Session;
use crate::tell::{ask, note};
use crate::{order, roster, sign};

problems! {
    /// Why no machine is let in.
    pub(crate) enum ApproveError {
        NotDiscovered(code: VerificationCode, phase: DevicePhase) = "not_approved", FAILED,
            ["nothing was approved: {code} is {phase:?} and waits for no approval"], ["luciactl onboarding shows what is next"];
        Over(code: VerificationCode) = "not_approved", FAILED, ["nothing was approved: the discovery of {code} is over"],
            ["start the installer on it again while the window is open"];
        Runs(code: VerificationCode) = "not_approved", FAILED,
            ["nothing was approved: {code} runs an installed system and joins as it is, so no disk of it is erased"],
            ["leave --disk out"];
        NoDisk(code: VerificationCode, disk: DiskId) = "not_approved", FAILED,
            ["nothing was approved: {code} has no disk {disk} that can be erased"], ["luciactl onboarding shows its disks"];
        SayDisk(code: VerificationCode) = "not_approved", FAILED,
            ["nothing was approved: {code} runs an installer, which erases a disk"],
            ["name it with --disk; luciactl onboarding shows its disks"];
        NameTaken(name: Hostname, node: NodeId, names: String) = "not_approved", FAILED,
            ["nothing was approved: {name} is the name of node {node}"], ["choose another, or add --replaces {names}"];
        NoHostname(code: String) = "", FAILED, ["nothing was ordered: nobody approved a name for {code}"],
            ["say it with --hostname NAME, or luciactl approve it first"];
        OtherHostname(given: Hostname, approved: Hostname) = "hostname_mismatch", FAILED,
            ["nothing was ordered: {given} was said and {approved} approved"], ["say the approved name, or approve it anew"];
        SayHostname(name: Hostname) = "", FAILED, ["nothing was ordered: the controller says that {name} was approved"],
            ["with --yes say it yourself: --hostname {name}"];
        SayReplaces(node: NodeId) = "", FAILED,
            ["nothing was ordered: the controller says that the machine was approved in the place of {node}, whose key would be barred \
              for good"], ["if that is meant say it yourself: --replaces {node}"];
    }
}

/// Approves an installation: its disk will be erased.
///
/// As an owner this also signs the `admit` order, without which the machine gets no certificate.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  luciactl approve 1a2b-3c4d-5e6f --fingerprint HEX --hostname web-1 --disk ID
  luciactl approve 1a2b-3c4d-5e6f --fingerprint HEX --hostname web-1 --replaces web-1
  luciactl approve 1a2b-3c4d-5e6f --fingerprint \"FIRST ROW
    SECOND ROW\" --hostname web-1 --disk ID

CODE and HEX are read from the machine's own screen, ID from luciactl onboarding. The second is for a machine that runs
and has a new key: nothing is erased.
Without --fingerprint you are asked for its two rows.")]
pub(crate) struct Approve {
    /// The verification code, as the machine shows it.
    code: VerificationCode,
    /// The whole fingerprint as the machine's own screen shows it: a code alone can be imitated. Without it you are asked
    /// to type it.
    #[arg(long, value_name = "HEX", value_parser = fingerprint::parse)]
    fingerprint: Option<Fingerprint>,
    /// What the node will be called.
    #[arg(long, value_name = "NAME")]
    hostname: Hostname,
    /// The disk to erase, by the id that `onboarding` shows. Leave it out for a machine that runs, which joins as it is.
    #[arg(long, value_name = "ID")]
    disk: Option<DiskId>,
    /// The node that had this name, if this is its machine with a new key: it is removed in the same act, and nothing
    /// of it passes on. By hostname, node id or verification code, also one that was removed before.
    #[arg(long, value_name = "NODE")]
    replaces: Option<String>,
    /// Does not ask before the machine is approved, and its disk given to be erased.
    #[arg(long)]
    yes: bool,
    /// The same for a disk, said as the question wants it answered.
    #[arg(long, conflicts_with = "yes", requires = "disk", value_parser = ["ERASE"])]
    erase: Option<String>,
}

pub(super) async fn approve(session: &Session, asked: Approve) -> Result<(), Failure> {
    let client = &session.client;
    if let Some(me) = client.me() {
        roster::signer(client, me, &[OrderKind::Admit]).await?;
    }
    let seen: OnboardingView = client.call(PeopleCall::Onboarding, &"").await?;
    let now = seen.server_time;
    let device = of_code(seen, asked.code.clone())?;
    let fingerprint = fingerprint::typed(asked.fingerprint, asked.yes)?;
    same_key(&device, &fingerprint)?;
    let replaces = match &asked.replaces {
        Some(text) => Some(former(client, text).await?),
        None => None,
    };
    let (replaces, removed) = replaces.unzip();
    may_be_approved(client, &device, now, &asked, replaces.as_ref()).await?;
    let admission = client.me().map(|me| draft(me, fingerprint, asked.hostname.clone(), replaces.clone()));
    let admission = admission.transpose()?;
    if let (Some(me), Some(draft)) = (client.me(), &admission) {
        let meant = asked.replaces.as_deref().zip(replaces.as_ref()).map(|(text, id)| Meant::new(text, id));
        sign::tell(client, me, draft, meant.as_slice(), asked.yes).await?;
    }
    let ended = |failure: Failure| if admission.is_some() { failure.unsigned() } else { failure };
    let (code, name) = (&device.verification_code, &asked.hostname);
    let mut sentence = match &asked.disk {
        Some(disk) => format!("This erases disk {disk} of {code} and installs {name} on it."),
        None => format!("This makes the running machine {code} the node {name}; nothing on it is erased."),
    };
    if let Some(removed) = &removed {
        let _ = write!(sentence, "\n{removed}");
    }
    if admission.is_some() {
        sentence.push_str("\nAnd it signs the order above.");
    }
    let word = if asked.disk.is_some() { ERASE } else { asked.hostname.as_str() };
    ask(&sentence, word, asked.yes || asked.erase.is_some()).map_err(|error| ended(error.into()))?;
    let confirmation = asked.disk.as_ref().map(|_| ERASE.to_owned());
    let form = ApproveForm { hostname: asked.hostname, disk_id: asked.disk, confirmation, replaces };
    let view = client.post(PeopleCall::Approve, &device.device_id, &form).await;
    let view = view.map_err(|error| ended(error.into()))?;
    if let (Some(me), Some(draft)) = (client.me(), &admission) {
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
    say(session.out, &view)
}

/// Signs that a machine may become a node.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  luciactl admit 1a2b-3c4d-5e6f --fingerprint HEX")]
pub(crate) struct Admit {
    /// The verification code, as the machine shows it.
    code: VerificationCode,
    /// The whole fingerprint as the machine's own screen shows it. Without it you are asked to type it.
    #[arg(long, value_name = "HEX", value_parser = fingerprint::parse)]
    fingerprint: Option<Fingerprint>,
    /// The name it gets; the approved one, unless said. With --yes it has to be said.
    #[arg(long, value_name = "NAME")]
    hostname: Option<Hostname>,
    /// The node that had this name: its key is barred for good. By hostname, node id or verification code. Where the
    /// machine was approved in another's place, it has to be said.
    #[arg(long, value_name = "NODE")]
    replaces: Option<String>,
    /// Does not ask.
    #[arg(long)]
    yes: bool,
}

pub(super) async fn admit(session: &Session, asked: Admit) -> Result<(), Failure> {
    let (client, me) = (&session.client, session.owner("to admit a machine")?);
    roster::signer(client, me, &[OrderKind::Admit]).await?;
    let device = find::device(client, asked.code.clone()).await?;
    let fingerprint = fingerprint::typed(asked.fingerprint, asked.yes)?;
    same_key(&device, &fingerprint)?;
    let task = device.task.as_ref();
    let hostname = match (asked.hostname, task.map(|task| task.hostname.clone())) {
        (Some(given), Some(approved)) if given != approved => {
            return Err(ApproveError::OtherHostname(given, approved).into());
        }
        (Some(given), _) => given,
        // What nobody reads before it is signed must have been typed.
        (None, Some(approved)) if asked.yes => return Err(ApproveError::SayHostname(approved).into()),
        (None, Some(approved)) => approved,
        (None, None) => return Err(ApproveError::NoHostname(asked.code.to_string()).into()),
    };
    let replaces = match &asked.replaces {
        Some(text) => Some(former(client, text).await?.0),
        None => None,
    };
    // It bars a key for good: that is nothing to take over from an answer.
    if let Some(approved) = task.and_then(|task| task.replaces.clone())
        && replaces.as_ref() != Some(&approved)
    {
        return Err(ApproveError::SayReplaces(approved).into());
    }
    let meant = asked.replaces.as_deref().zip(replaces.as_ref()).map(|(text, id)| Meant::new(text, id));
    let draft = draft(me, fingerprint, hostname, replaces)?;
    let sentence = "Sign it only if the fingerprint was read from the machine's own screen.";
    sign::order(session, me, &draft, meant.as_slice(), sentence, asked.yes).await
}

/// Makes the machine with this key a node of this name.
fn draft(me: &Me, fingerprint: Fingerprint, hostname: Hostname, replaces: Option<NodeId>) -> Result<Draft, Failure> {
    order::once(me, fingerprint.node_id(), &Body::Admit(orders::Admit { fingerprint, hostname, replaces }))
}

/// Whether the controller has the key that the machine's own screen shows.
fn same_key(device: &DeviceView, given: &Fingerprint) -> Result<(), FingerprintError> {
    if device.fingerprint == *given { Ok(()) } else { Err(FingerprintError::Other(*given, device.fingerprint)) }
}

/// Whether the controller would take the approval, as far as its own views tell: an order is shown only then.
async fn may_be_approved(
    client: &Client,
    device: &DeviceView,
    now: UnixTime,
    approval: &Approve,
    replaces: Option<&NodeId>,
) -> Result<(), Failure> {
    let code = || device.verification_code.clone();
    let fits = |id: &DiskId| {
        let disk = device.inventory.disk(id);
        disk.is_some_and(|disk| !disk.is_removable && !disk.is_read_only && disk.size_bytes > 0)
    };
    let why = match (&approval.disk, device.running) {
        _ if device.phase != DevicePhase::Discovered => ApproveError::NotDiscovered(code(), device.phase),
        _ if device.expires_at <= now => ApproveError::Over(code()),
        (Some(_), true) => ApproveError::Runs(code()),
        (None, false) => ApproveError::SayDisk(code()),
        (Some(disk), false) if !fits(disk) => ApproveError::NoDisk(code(), disk.clone()),
        // The operator's call signs and shows no order, so the controller's own word is soon enough.
        _ if client.me().is_none() => return Ok(()),
        _ => {
            let (name, nodes) = (&approval.hostname, client.nodes().await?.nodes);
            let is_taken = |node: &&NodeLine| {
                node.is_called(name.as_str()) && Some(&node.node_id) != replaces && node.node_id != device.device_id
            };
            let Some(node) = nodes.iter().find(is_taken) else { return Ok(()) };
            ApproveError::NameTaken(name.clone(), node.node_id.clone(), node.names())
        }
    };
    Err(why.into())
}

/// The node whose place a device takes, and what becomes of it in words. One that was removed before still has its name at
/// the worker: it is found among the controller's events, or else by its id.
async fn former(client: &Client, text: &str) -> Result<(NodeId, String), Failure> {
    match find(client, text).await {
        Ok((id, name)) => {
            let view = client.nodes().await?;
            let line = view.nodes.iter().find(|node| node.node_id == id);
            let sentence = replacing(&id, &name, line, view.server_time);
            Ok((id, sentence))
        }
        Err(failure) if matches!(failure.as_a(), Some(FindError::NoNode(_))) => {
            let removed = find::removed(client, text).await?.or_else(|| text.parse().ok());
            let id = removed.ok_or(failure)?;
            let sentence = format!("It takes the place of {text} ({id}), which was removed.");
            Ok((id, sentence))
        }
        Err(failure) => Err(failure),
    }
}

/// What an approval with `--replaces` does to the node whose name it takes.
fn replacing(id: &NodeId, name: &str, node: Option<&NodeLine>, now: UnixTime) -> String {
    let mut out =
        format!("It takes the place of {name} ({id}), which is removed for good with this: its key is refused");
    out.push_str(match node.map(|node| node.state) {
        Some(SnapshotState::Online) => ", though it still runs",
        _ => "",
    });
    let last = node.and_then(|node| node.last_seen_at).map(|at| format!("last heard from {} ago", span(now.since(at))));
    let _ = write!(out, " ({}).", last.unwrap_or_else(|| "never heard from".to_owned()));
    out
}
