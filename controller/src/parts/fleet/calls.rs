//! Proof of who calls: its key, the purpose, a certificate where it has one, and a challenge that is used up by it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::CHAIN_PEM_MAX;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::challenge::Scope;
use lucia_proto::node::report::{EnrollRequest, NodeCall, Proof, Purpose, Report, Verified};

use super::Fleet;
use super::nodes::{Known, Lapsed, Under};
use crate::parts::challenges::Whose;
use crate::refusal::Refusal;

/// How far the clock may be behind the last event before it counts as not set.
const CLOCK_SLACK: Duration = Duration::from_secs(2 * 86_400);

/// The node is not to blame, and is to come back soon.
fn clock_is_behind(now: UnixTime) -> Refusal {
    let log =
        format!("the clock says {now}, days before the last event in the journal; see that it is set (timedatectl)");
    Refusal::logged(Code::Busy, "The controller's clock is not set yet.", log)
}

impl Fleet {
    /// Proof of a node: its key, this purpose, its certificate, a challenge used up by it.
    pub(super) fn node_call<T: Report>(
        &self,
        id: &NodeId,
        purpose: Purpose,
        call: &NodeCall,
        lapsed: Lapsed,
        from: IpAddr,
        now: UnixTime,
    ) -> Result<(Arc<Known>, Verified<T>, Under), Refusal> {
        if call.certificate_pem.len() > CHAIN_PEM_MAX {
            return Err(Refusal::new(Code::InvalidBody, format!("certificatePem: over {CHAIN_PEM_MAX} characters.")));
        }
        check_form::<T>(&call.proof)?;
        let scope = Scope::Node(id.clone());
        let nonce = self.challenges.open(&call.proof.challenge_id, &scope, from)?;
        let (known, verified) = self.nodes.prove((id, self.refuses(id)), purpose, &call.proof, &nonce)?;
        let under = match self.nodes.certificate(&known, &call.certificate_pem, lapsed, now) {
            Ok(under) => under,
            Err(_) if self.is_behind(now) => return Err(clock_is_behind(now)),
            Err(refusal) => return Err(refusal),
        };
        self.challenges.accept(&call.proof.challenge_id, Whose::Device(id))?;
        Ok((known, verified, under))
    }

    /// What a node says that asks for its next certificate: the only call that a lapsed one may make.
    pub(crate) fn renewal(
        &self,
        id: &NodeId,
        call: &NodeCall,
        from: IpAddr,
    ) -> Result<Verified<EnrollRequest>, Refusal> {
        let (_, request, _) = self.node_call(id, Purpose::Renew, call, Lapsed::Taken, from, self.clock.now())?;
        Ok(request)
    }

    /// Proof of a device: its key, this purpose, a challenge used up by it.
    pub(crate) fn device_call<T: Report>(
        &self,
        id: &NodeId,
        purpose: Purpose,
        proof: &Proof,
        from: IpAddr,
    ) -> Result<Verified<T>, Refusal> {
        check_form::<T>(proof)?;
        let scope = Scope::Node(id.clone());
        let nonce = self.challenges.open(&proof.challenge_id, &scope, from)?;
        // One that waits for a decision hears that it waits; it gets nothing more.
        let refused = purpose != Purpose::DeviceState && self.refuses(id);
        let (_, verified) = self.nodes.prove((id, refused), purpose, proof, &nonce)?;
        self.challenges.accept(&proof.challenge_id, Whose::Device(id))?;
        Ok(verified)
    }

    /// Whether the clock is days behind what this controller wrote itself, as at a start before the time is set: no
    /// certificate is judged by it then (threats.md F-8).
    fn is_behind(&self, now: UnixTime) -> bool {
        self.journal.read().events.iter().map(|event| event.at).max().is_some_and(|last| now < last.minus(CLOCK_SLACK))
    }
}

/// Lengths and alphabets, before any challenge or key is looked at.
pub(crate) fn check_form<T: Report>(proof: &Proof) -> Result<(), Refusal> {
    proof.check_form::<T>().map(drop).map_err(|error| Refusal::new(Code::InvalidBody, format!("proof: {error}.")))
}
