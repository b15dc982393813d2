//! `stage-managed`: puts the agent, its settings, its key and its orders onto the system that was just installed.
//!
//! Everything can be done again: a second run, after a crash or not, ends in the same files. `installed.json` comes
//! last, so that a half staged system has an agent that refuses to start rather than one that starts without a key.

use lucia_durable::crash_point;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::first_contact::{Accepted, Grant};
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::report::{Progress, Purpose};
use lucia_proto::pki::key::NodeKey;
use thiserror::Error;

use super::target::InstallTarget;
use super::{Installation, device_state};
use crate::client::Client;
use crate::client::config::{DEFAULT_ROOT_FILE, STAGED_PROXY_CA, Trust};
use crate::client::transport::Transport;
use crate::host::boot::{BootId, MachineId};
use crate::host::failed::{Failed, OrFailed as _};
use crate::host::random;
use crate::host::root::AGENT_BINARY;
use crate::host::state::State;
use crate::identity::installed::InstalledFacts;
use crate::identity::key;
use crate::owners::policy;

/// The unit, as it is shipped.
pub const UNIT: &str = include_str!("../../../systemd/lucia-node-agent.service");
/// The agent's directories, as they are shipped.
pub const TMPFILES: &str = include_str!("../../../systemd/lucia-agent.tmpfiles");
/// Longest text of a progress report.
const MESSAGE_MAX: usize = 400;

const UNTOLD: &str = "the controller did not take the progress report";
const UNWRITTEN: &str = "the target's private directory cannot be written";
const NO_MACHINE_ID: &str = "the target's /etc/machine-id is none and not empty; empty the file";

/// The system was not staged.
#[derive(Debug, Error)]
pub enum StageError {
    /// There is no grant.
    #[error("there is no grant; run `lucia-node-agent wait-install` first")]
    NoGrant,
    /// The grant was given in another boot.
    #[error("the grant was given in another boot of the installer; discover this machine and approve it again")]
    OtherBoot,
    /// The machine was approved as it runs.
    #[error(
        "this machine was approved to join as it runs, with no installation; run `lucia-node-agent rekey --finish`"
    )]
    Joins,
    /// Another node's key is there.
    #[error("the target has another node's key; take the disk that was approved, or empty it first")]
    OtherKey,
    /// The target's owner has decided already.
    #[error(
        "the target has another /etc/lucia/agent-policy.toml, which staging does not replace; remove it there, or change it \
         with `lucia-node-agent policy` once the system runs"
    )]
    OtherPolicy,
    /// Something else.
    #[error(transparent)]
    Failed(#[from] Failed),
    /// The controller has other ideas.
    #[error("the controller says that this machine is {0:?}; discover it and approve it again")]
    Phase(DevicePhase),
}

/// What goes into the target beside the grant.
#[derive(Clone, Copy, Debug)]
pub struct Staged<'a> {
    /// Settings and root.
    pub trust: &'a Trust,
    /// This machine's key.
    pub key: &'a NodeKey,
    /// The installer's boot.
    pub boot: &'a BootId,
    /// The agent's own program.
    pub program: &'a [u8],
}

/// The grant that this boot of the installer was given.
///
/// # Errors
/// [`StageError::NoGrant`], [`StageError::OtherBoot`].
pub fn granted(state: &State, boot: &BootId) -> Result<Grant, StageError> {
    let kept = Installation::read(state).or_failed("the grant cannot be read")?.ok_or(StageError::NoGrant)?;
    let other_boot = kept.boot_id != *boot;
    let grant = kept.grant.ok_or(StageError::NoGrant)?;
    // A system that runs is the same after a reboot.
    if other_boot && grant.disk_id.is_some() { Err(StageError::OtherBoot) } else { Ok(grant) }
}

/// Tells the controller, stages, tells it again; a failure while writing is reported as `Failed`.
///
/// # Errors
/// Any [`StageError`].
pub async fn stage_and_report<T: Transport>(
    client: &mut Client<T>,
    target: &InstallTarget,
    grant: &Grant,
    staged: Staged<'_>,
) -> Result<InstalledFacts, StageError> {
    if grant.disk_id.is_none() {
        return Err(StageError::Joins);
    }
    reporting(client, || stage(target, grant, staged)).await
}

/// Tells the controller, does the work that ends an installation, tells it again; a failure is reported as `Failed`.
///
/// # Errors
/// Any [`StageError`].
pub async fn reporting<T: Transport>(
    client: &mut Client<T>,
    work: impl FnOnce() -> Result<InstalledFacts, StageError>,
) -> Result<InstalledFacts, StageError> {
    let phase = device_state(client).await.or_failed(UNTOLD)?.phase;
    match phase {
        DevicePhase::Approved | DevicePhase::Installing => {
            report(client, DevicePhase::Installing, "staging the agent").await?;
        }
        // A former run came to its end, and its answer was lost.
        DevicePhase::AwaitingEnrollment => {}
        phase => return Err(StageError::Phase(phase)),
    }
    match work() {
        Ok(facts) => {
            report(client, DevicePhase::AwaitingEnrollment, "staged; rebooting into the installed system").await?;
            Ok(facts)
        }
        Err(error) => {
            let message: String = crate::host::chain(&error).chars().take(MESSAGE_MAX).collect();
            // The error itself matters more than whether the controller heard of it.
            if let Err(unheard) = report(client, DevicePhase::Failed, &message).await {
                tracing::warn!("{}", crate::host::chain(&unheard));
            }
            Err(error)
        }
    }
}

async fn report<T: Transport>(client: &mut Client<T>, phase: DevicePhase, message: &str) -> Result<(), StageError> {
    let node_id = client.node_id().clone();
    let message = lucia_proto::base::text::shown(message);
    let progress = Progress { node_id, purpose: Purpose::Progress, phase, message };
    let answer = client.call(Endpoint::Progress, &progress, None).await.or_failed(UNTOLD)?;
    // Whoever answers something else is not the controller, and it was not told.
    let Accepted { .. } = answer.json().or_failed(UNTOLD)?;
    Ok(())
}

/// Lays what owners may order the node to do: `given`, or each kind of this version. A file that is there already stays, so
/// that a second staging never allows more.
///
/// # Errors
/// [`StageError::OtherPolicy`] for one that is there and is not `given`.
pub fn lay_policy(target: &InstallTarget, given: Option<&str>) -> Result<(), StageError> {
    match target.read("etc/lucia", policy::NAME)? {
        None => {
            let text = given.map_or_else(policy::edit::default_text, str::to_owned);
            Ok(target.put("etc/lucia", policy::NAME, text.as_bytes(), 0o644)?)
        }
        Some(found) if given.is_some_and(|given| found != given.as_bytes()) => Err(StageError::OtherPolicy),
        Some(_) => Ok(()),
    }
}

/// Writes everything but the policy, durably.
///
/// # Errors
/// [`StageError`] of the first file that could not be written; a second run goes on from there.
pub fn stage(target: &InstallTarget, grant: &Grant, staged: Staged<'_>) -> Result<InstalledFacts, StageError> {
    target.put("usr/lib/lucia/agent", "lucia-node-agent", staged.program, 0o755)?;
    // So that a person on the node can say `lucia-node-agent why`.
    target.link("usr/bin", "lucia-node-agent", AGENT_BINARY)?;
    target.put("usr/lib/systemd/system", "lucia-node-agent.service", UNIT.as_bytes(), 0o644)?;
    target.put("usr/lib/tmpfiles.d", "lucia-agent.conf", TMPFILES.as_bytes(), 0o644)?;
    let mut config = staged.trust.config.clone();
    config.root_file = DEFAULT_ROOT_FILE.into();
    if let Some(ca) = config.proxy.as_mut().and_then(|proxy| proxy.ca.as_mut()) {
        ca.file = STAGED_PROXY_CA.into();
        target.put("etc/lucia", "proxy-ca.pem", ca.pem.as_bytes(), 0o644)?;
    }
    target.put("etc/lucia", "root.pem", staged.trust.root.pem().as_bytes(), 0o644)?;
    target.put("etc/lucia", "agent.toml", config.to_text().as_bytes(), 0o644)?;
    target.put("etc", "hostname", format!("{}\n", grant.hostname).as_bytes(), 0o644)?;
    let machine_id = machine_id(target)?;

    let mut state = State::take(target.private_dir("var/lib/lucia/agent")?, "stage-managed").or_failed(UNWRITTEN)?;
    match key::find(&state).or_failed(UNWRITTEN)? {
        None => key::store(&mut state, staged.key).or_failed(UNWRITTEN)?,
        Some(found) if found.public() == staged.key.public() => state.confirm_key().or_failed(UNWRITTEN)?,
        Some(_) => return Err(StageError::OtherKey),
    }
    crash_point!("agent/key-staged", state.path()).map_err(Failed::from)?;
    target.link(
        "etc/systemd/system/multi-user.target.wants",
        "lucia-node-agent.service",
        "/usr/lib/systemd/system/lucia-node-agent.service",
    )?;
    let facts = InstalledFacts {
        node_id: staged.key.public().fingerprint().node_id(),
        task_id: grant.task_id.clone(),
        hostname: grant.hostname.clone(),
        install_boot_id: Some(staged.boot.clone()),
        machine_id,
    };
    facts.write(&state).or_failed(UNWRITTEN)?;
    crash_point!("agent/staged", state.path()).map_err(Failed::from)?;
    Ok(facts)
}

/// The target's machine id, made if it has none yet: installers leave the file empty or `uninitialized`.
fn machine_id(target: &InstallTarget) -> Result<MachineId, StageError> {
    let found = target.read("etc", "machine-id")?.unwrap_or_default();
    let text = std::str::from_utf8(&found).or_failed(NO_MACHINE_ID)?.trim();
    if !matches!(text, "" | "uninitialized") {
        return Ok(text.parse().or_failed(NO_MACHINE_ID)?);
    }
    let id = MachineId::from_random(*random::bytes().or_failed("no machine id can be made")?);
    target.put("etc", "machine-id", format!("{id}\n").as_bytes(), 0o444)?;
    Ok(id)
}
