//! `wait-install`: waits until a person approved, then takes the one grant.

use lucia_durable::crash_point;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::RequestId;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::first_contact;
use lucia_proto::node::first_contact::{DeviceState, Grant};
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::report::{GrantRequest, Purpose, Question};
use thiserror::Error;

use super::{Installation, device_state};
use crate::client::retry::{Backoff, Pace};
use crate::client::transport::Transport;
use crate::client::{CallError, Client, cure};
use crate::host::boot::BootId;
use crate::host::failed::{Failed, OrFailed as _};
use crate::host::random;
use crate::host::state::State;
use crate::identity::running::is_running;

/// Time between two questions while a person thinks.
const ASK_EVERY: Pace =
    Pace { base: std::time::Duration::from_secs(5), cap: std::time::Duration::from_secs(5), jitter: false };

const UNKEPT: &str = "the grant cannot be kept";

/// There will be no grant.
#[derive(Debug, Error)]
pub enum WaitError {
    /// A person said no.
    #[error("this machine was rejected; `luciactl restore` on the controller puts it back on the list")]
    Rejected,
    /// It cannot be installed as it stands.
    #[error("this machine is {phase:?}{}; {advice}", .message.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Ended {
        /// Where it stands.
        phase: DevicePhase,
        /// The controller's words.
        message: Option<String>,
        /// What cures it.
        advice: &'static str,
    },
    /// The controller refuses for good.
    #[error("the controller gives no grant; {cure}")]
    Refused {
        /// What cures it.
        cure: &'static str,
        /// Its refusal.
        #[source]
        source: CallError,
    },
    /// The grant is for something else than was asked.
    #[error("the controller's grant is for another {0} than was asked for, and is not used")]
    Mismatch(&'static str),
    /// Something else.
    #[error(transparent)]
    Failed(#[from] Failed),
}

/// Waits for the approval and takes the grant. Each change is told to `say` in one line.
///
/// # Errors
/// Any [`WaitError`]; lost answers and a controller that is away are waited for.
pub async fn wait_install<T: Transport>(
    client: &mut Client<T>,
    state: &State,
    boot: &BootId,
    backoff: &mut Backoff,
    mut say: impl FnMut(&str),
) -> Result<Grant, WaitError> {
    let mut said = String::new();
    loop {
        let (line, pause) = match step(client, state, boot).await {
            Ok(WaitStep::Granted(grant)) => return Ok(*grant),
            Ok(WaitStep::Waiting(line)) => {
                backoff.reset();
                (line.to_owned(), backoff.next(ASK_EVERY, None))
            }
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Call(error)) => {
                let line = format!("{}; {}", crate::host::chain(&error), cure::of(&error));
                (line, backoff.next(Pace::after(&error), error.retry_after()))
            }
        };
        if line != said {
            say(&line);
            said = line;
        }
        tokio::time::sleep(pause).await;
    }
}

enum WaitStep {
    Waiting(&'static str),
    Granted(Box<Grant>),
}

enum Failure {
    /// Tried again.
    Call(CallError),
    Final(WaitError),
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Self {
        Self::Final(failed.into())
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error.code() {
            // Waiting changes nothing about these.
            Some(
                Code::NodeIdentityInvalid
                | Code::ApprovalMismatch
                | Code::GrantConsumed
                | Code::RequestReused
                | Code::EnrollmentExpired
                | Code::DiscoveryExpired,
            ) => Self::Final(WaitError::Refused { cure: wait_cure(&error), source: error }),
            _ => Self::Call(error),
        }
    }
}

const fn wait_cure(error: &CallError) -> &'static str {
    match error {
        CallError::Refused { code: Code::NodeIdentityInvalid, .. } => {
            "it does not know this machine: run `lucia-node-agent discover` first"
        }
        error => cure::of(error),
    }
}

async fn step<T: Transport>(client: &mut Client<T>, state: &State, boot: &BootId) -> Result<WaitStep, Failure> {
    let DeviceState { phase, message, expires_at, .. } = device_state(client).await?;
    let ended = |advice| Err(Failure::Final(WaitError::Ended { phase, message, advice }));
    match phase {
        DevicePhase::Discovered if client.server_now().is_some_and(|now| now > expires_at) => {
            ended("its discovery is over; run `lucia-node-agent discover` again")
        }
        DevicePhase::Discovered => Ok(WaitStep::Waiting("waiting for an operator to approve this machine")),
        DevicePhase::Approved | DevicePhase::Installing => match take_grant(client, state, boot).await? {
            Some(grant) => Ok(WaitStep::Granted(Box::new(grant))),
            None => Ok(WaitStep::Waiting("approved; waiting for the grant")),
        },
        DevicePhase::AwaitingEnrollment if is_running(state).unwrap_or(false) => {
            ended("it was approved and is ready already: run `systemctl start lucia-node-agent`")
        }
        DevicePhase::AwaitingEnrollment => ended("it was installed already: reboot it into the installed system"),
        DevicePhase::Managed => ended("it is a node already; remove the node first if it is to be installed anew"),
        DevicePhase::Failed => ended("run `lucia-node-agent discover` again and approve it anew"),
        DevicePhase::Rejected => Err(Failure::Final(WaitError::Rejected)),
    }
}

/// The grant, from the file if it is there, else from the controller under the request id of the file.
async fn take_grant<T: Transport>(
    client: &mut Client<T>,
    state: &State,
    boot: &BootId,
) -> Result<Option<Grant>, Failure> {
    let question = Question { node_id: client.node_id().clone(), purpose: Purpose::Installation };
    let approved: first_contact::Installation = client.call(Endpoint::Installation, &question, None).await?.json()?;
    let kept = Installation::read(state).or_failed(UNKEPT)?;
    // A system that runs is the same after a reboot.
    let here = |kept: &Installation| kept.boot_id == *boot || approved.disk_id.is_none();
    let kept = kept.filter(|kept| kept.task_id == approved.task_id && here(kept));
    let mut kept = match kept {
        Some(Installation { grant: Some(grant), .. }) => return Ok(Some(grant)),
        Some(kept) => kept,
        None if !approved.can_request_installation_grant => return Ok(None),
        None => {
            let request_id = RequestId::from_random(*random::bytes().map_err(Failed::from)?);
            let kept = Installation { task_id: approved.task_id, request_id, boot_id: boot.clone(), grant: None };
            // Written before it is sent: after a crash the same question gets the same answer.
            kept.write(state).or_failed(UNKEPT)?;
            kept
        }
    };
    let request = GrantRequest {
        node_id: client.node_id().clone(),
        purpose: Purpose::Grant,
        request_id: kept.request_id.clone(),
        inventory_revision: approved.inventory_revision,
        disk_id: approved.disk_id,
    };
    let grant: Grant = client.call(Endpoint::Grant, &request, None).await?.json()?;
    for (field, same) in [
        ("device", grant.device_id == request.node_id),
        ("task", grant.task_id == kept.task_id),
        ("request", grant.request_id == request.request_id),
        ("inventory", grant.inventory_revision == request.inventory_revision),
        ("disk", grant.disk_id == request.disk_id),
        ("hostname", grant.hostname == approved.hostname),
    ] {
        if !same {
            return Err(Failure::Final(WaitError::Mismatch(field)));
        }
    }
    crash_point!("agent/granted", state.path()).map_err(Failed::from)?;
    kept.grant = Some(grant.clone());
    kept.write(state).or_failed(UNKEPT)?;
    Ok(Some(grant))
}
