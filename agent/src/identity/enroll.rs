//! One try to get a certificate: the first one, or the next one with the same key and the same CSR.

use lucia_proto::base::time::UnixTime;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::answer::SignedAnswer;
use lucia_proto::node::first_contact::Pending;
use lucia_proto::node::report::{EnrollRequest, Purpose};
use thiserror::Error;

use super::Identity;
use super::accept::AcceptError;
use crate::client::transport::Transport;
use crate::client::{CallError, Client};
use crate::host::state::State;

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There is a new certificate.
    Accepted,
    /// The worker has not answered yet; the same question is asked again.
    Pending,
}

/// A try that gave nothing.
#[derive(Debug, Error)]
pub enum EnrollError {
    /// The call failed.
    #[error("no certificate was had")]
    Call(#[source] CallError),
    /// The answer is not taken.
    #[error("a certificate was offered")]
    Accept(#[source] AcceptError),
}

/// Asks for a certificate: by the device's key alone while there is none, else as the node, lapsed or not.
///
/// # Errors
/// Any [`EnrollError`]; the identity is then as before.
pub async fn turn<T: Transport>(
    client: &mut Client<T>,
    identity: &mut Identity,
    state: &State,
) -> Result<Turn, EnrollError> {
    let certificate = identity.certificate().cloned();
    let (call, purpose) = match certificate {
        None => (Endpoint::Enroll, Purpose::Enroll),
        Some(_) => (Endpoint::Renew, Purpose::Renew),
    };
    let report = EnrollRequest {
        node_id: identity.node_id().clone(),
        purpose,
        task_id: identity.task_id().clone(),
        csr_pem: identity.csr_pem().to_owned(),
    };
    let chain = certificate.as_ref().map(|certificate| certificate.pem.as_str());
    let answer = client.call(call, &report, chain).await.map_err(EnrollError::Call)?;
    if answer.is_pending() {
        let Pending { .. } = answer.json().map_err(EnrollError::Call)?;
        return Ok(Turn::Pending);
    }
    let signed: SignedAnswer = answer.json().map_err(EnrollError::Call)?;
    // No call succeeds without a challenge, and each challenge tells the controller's time. Were it otherwise, a time
    // at which no certificate is valid refuses the answer.
    let now = client.server_now().unwrap_or(UnixTime::EPOCH);
    identity.accept(state, &signed, now).map_err(EnrollError::Accept)?;
    Ok(Turn::Accepted)
}
