//! The calls under `/api/boot`: from a machine nobody knows to one that has its certificate.

use std::net::IpAddr;

use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::{CHAIN_PEM_MAX, PUBLIC_KEY_PEM_MAX};
use lucia_proto::node::challenge::{Challenge, Scope};
use lucia_proto::node::first_contact::{Accepted, DeviceState, Discovered, Grant, Installation};
use lucia_proto::node::report::{
    DeviceCall, Discover, DiscoverCall, EnrollRequest, GrantRequest, HeaderProof, Progress, Proof, Purpose, Question,
    Verified,
};
use lucia_proto::pki::key::NodePublicKey;

use super::{Enrolled, Enrollment};
use crate::lock::lock;
use crate::parts::challenges::Whose;
use crate::parts::fleet::{check_form, refused_proof};
use crate::parts::journal::{self, Discovery};
use crate::refusal::Refusal;
use crate::source::Source;

impl Enrollment {
    /// Whether a first contact from this address can be answered at all, whatever machine it is of: before anything of it
    /// is read.
    ///
    /// # Errors
    /// `admission_closed`, `registry_full`.
    pub fn may_discover(&self, from: IpAddr) -> Result<(), Refusal> {
        self.window_is_open()?;
        journal::may_appear(&self.journal.read(), from.to_canonical(), self.limits.devices, self.clock.now())
    }

    /// A challenge for first contact.
    ///
    /// # Errors
    /// `admission_closed`.
    pub fn boot_challenge(&self, from: IpAddr) -> Result<Challenge, Refusal> {
        self.window_is_open()?;
        Ok(self.challenges.issue(&Scope::Boot, from).challenge())
    }

    /// First contact. The same key and inventory get the same answer.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn discover(&self, call: DiscoverCall, from: IpAddr) -> Result<Discovered, Refusal> {
        self.window_is_open()?;
        if call.public_key_pem.len() > PUBLIC_KEY_PEM_MAX {
            return Err(Refusal::new(Code::BadKey, format!("publicKeyPem: over {PUBLIC_KEY_PEM_MAX} characters.")));
        }
        let proof = Proof { challenge_id: call.challenge_id, report_json: call.report_json, signature: call.signature };
        check_form::<Discover>(&proof)?;
        let nonce = self.challenges.open(&proof.challenge_id, &Scope::Boot, from)?;
        let key = NodePublicKey::from_pem(&call.public_key_pem)
            .map_err(|error| Refusal::new(Code::BadKey, format!("publicKeyPem: {error}.")))?;
        let id = key.fingerprint().node_id();
        self.verifier.count();
        let verified: Verified<Discover> =
            proof.verify(&nonce, &key, &id, Purpose::Discover).map_err(|error| refused_proof(&id, &error))?;
        let is_known = self.fleet.is_there(&id);
        let whose = if is_known { Whose::Device(&id) } else { Whose::Stranger(Source::of(from)) };
        self.challenges.accept(&proof.challenge_id, whose)?;
        let now = self.clock.now();
        let Discover { inventory, running, .. } = verified.into_report();
        let limits = self.limits;
        let known = self.journal.read();
        let is_new = known.device(&id).is_some_and(|known| known.inventory != inventory || known.running != running);
        if is_new && !lock(&self.changes).take(&id, self.clock.since_boot()) {
            return Err(Refusal::new(
                Code::TooManyRequests,
                "This machine reported another inventory within the last minute; it may do so again a minute after that.",
            ));
        }
        let answer = self.journal.change(|journal| {
            journal::discover(journal, Discovery { key: &key, inventory, running, address: from, limits }, now)
        })?;
        self.fleet.add(key);
        self.fleet.follow_journal();
        Ok(answer)
    }

    /// What became of a device.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn device_state(&self, id: &NodeId, header: &HeaderProof, from: IpAddr) -> Result<DeviceState, Refusal> {
        self.fleet.device_call::<Question>(id, Purpose::DeviceState, header_proof(header)?, from)?;
        let journal = self.journal.read();
        let device = journal.device(id).ok_or_else(|| Refusal::identity(format!("device {id} was removed")))?;
        Ok(DeviceState {
            device_id: id.clone(),
            phase: device.phase,
            verification_code: device.verification_code.clone(),
            inventory_revision: device.inventory_revision,
            expires_at: device.expires_at,
            hostname: device.hostname.clone(),
            task_id: device.task_id.clone(),
            message: device.message.as_ref().map(ToString::to_string),
        })
    }

    /// What a device may install.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn installation(&self, id: &NodeId, header: &HeaderProof, from: IpAddr) -> Result<Installation, Refusal> {
        self.fleet.device_call::<Question>(id, Purpose::Installation, header_proof(header)?, from)?;
        journal::installation(&self.journal.read(), id, self.clock.now())
    }

    /// The one-time permission to install.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn grant(&self, id: &NodeId, call: &DeviceCall, from: IpAddr) -> Result<Grant, Refusal> {
        let request = self.fleet.device_call::<GrantRequest>(id, Purpose::Grant, &call.proof, from)?;
        let now = self.clock.now();
        self.journal.change(|journal| journal::grant(journal, &request, now))
    }

    /// How far the installer is.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn progress(&self, id: &NodeId, call: &DeviceCall, from: IpAddr) -> Result<Accepted, Refusal> {
        let report = self.fleet.device_call::<Progress>(id, Purpose::Progress, &call.proof, from)?;
        let now = self.clock.now();
        self.journal.change(|journal| journal::progress(journal, &report, now))?;
        Ok(Accepted { accepted: true })
    }

    /// The first certificate.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn enroll(&self, id: &NodeId, call: &DeviceCall, from: IpAddr) -> Result<Enrolled, Refusal> {
        let request = self.fleet.device_call::<EnrollRequest>(id, Purpose::Enroll, &call.proof, from)?;
        self.enrolment(id, &request)
    }
}

/// A proof in a header. A certificate beside it is not asked for here and not looked at.
fn header_proof(header: &HeaderProof) -> Result<&Proof, Refusal> {
    if header.certificate_pem.as_ref().is_some_and(|pem| pem.len() > CHAIN_PEM_MAX) {
        return Err(Refusal::new(Code::InvalidBody, format!("certificatePem: over {CHAIN_PEM_MAX} characters.")));
    }
    Ok(&header.proof)
}
