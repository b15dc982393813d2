//! A hand that speaks the protocol without the agent: for those who have a key, a certificate or a recording, and bad
//! intentions.

use std::collections::BTreeMap;

use lucia_agent::client::transport::Request;
use lucia_proto::base::code::{Code, ErrorBody};
use lucia_proto::base::ids::NodeId;
use lucia_proto::calls::{Caller, Endpoint};
use lucia_proto::node::challenge::{Challenge, NEXT_CHALLENGE_HEADER, Scope, signed_text};
use lucia_proto::node::report::{DeviceCall, HeaderProof, NodeCall, Proof};
use lucia_proto::pki::key::NodeKey;
use serde::Serialize;

use super::{Machine, Raw, Wire, World};

/// An answer without what is different each time: the hour and the next challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Reply {
    fn of(raw: &Raw) -> Self {
        let mut headers: BTreeMap<String, String> = raw
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap().to_owned()))
            .collect();
        headers.remove("date");
        // That it is there counts, not what it says.
        headers.entry(NEXT_CHALLENGE_HEADER.to_ascii_lowercase()).and_modify(|value| "(a challenge)".clone_into(value));
        let body = String::from_utf8(raw.body().to_vec()).unwrap();
        Self { status: raw.status().as_u16(), headers, body }
    }

    /// The refusal in it.
    pub(crate) fn code(&self) -> Option<Code> {
        serde_json::from_str::<ErrorBody>(&self.body).ok().map(|body| body.error.code)
    }
}

/// Somebody with a key.
pub(crate) struct Hand {
    world: World,
    wire: Wire,
    key: NodeKey,
    /// Whose path is called.
    pub(crate) id: NodeId,
    /// The certificate that is shown.
    pub(crate) certificate_pem: String,
}

impl Hand {
    /// A hand inside this machine, with everything that is its own.
    pub(crate) fn in_machine(world: &World, machine: &Machine) -> Self {
        Self {
            world: world.clone(),
            wire: machine.connection(),
            key: machine.key(),
            id: machine.id(),
            certificate_pem: machine
                .file("certificate.pem")
                .map_or_else(String::new, |pem| String::from_utf8(pem).unwrap()),
        }
    }

    /// The same hand, signing with another key.
    pub(crate) fn with_key(mut self, key: NodeKey) -> Self {
        self.key = key;
        self
    }

    /// The same hand, calling as another node.
    pub(crate) fn calling(mut self, id: &NodeId) -> Self {
        self.id = id.clone();
        self
    }

    /// A fresh challenge of this node.
    pub(crate) fn challenge(&self) -> Challenge {
        self.challenge_of(&Scope::Node(self.id.clone()))
    }

    pub(crate) fn challenge_of(&self, scope: &Scope) -> Challenge {
        self.world.controller().challenges.issue(scope, self.wire.from()).challenge()
    }

    /// Any text, signed as a report.
    pub(crate) fn prove(&self, report: &str, challenge: &Challenge) -> Proof {
        let text = signed_text(&challenge.challenge_id, &challenge.nonce, report);
        Proof {
            challenge_id: challenge.challenge_id.clone(),
            report_json: report.to_owned(),
            signature: self.key.sign(&text).to_text(),
        }
    }

    /// The request that carries a proof to a call.
    pub(crate) fn carry(&self, call: Endpoint, proof: Proof) -> Request {
        match (call.method(), call.caller()) {
            ("GET", _) => Request {
                method: "GET",
                path: call.path_for(&self.id),
                proof: Some(HeaderProof { certificate_pem: None, proof }.to_header()),
                body: None,
            },
            (_, Caller::Node) => self.post(call, &NodeCall { certificate_pem: self.certificate_pem.clone(), proof }),
            _ => self.post(call, &DeviceCall { proof }),
        }
    }

    /// Any body to a call.
    pub(crate) fn post<T: Serialize>(&self, call: Endpoint, body: &T) -> Request {
        self.post_bytes(call, serde_json::to_vec(body).unwrap())
    }

    pub(crate) fn post_bytes(&self, call: Endpoint, body: Vec<u8>) -> Request {
        Request { method: "POST", path: call.path_for(&self.id), proof: None, body: Some(body) }
    }

    pub(crate) async fn send(&mut self, request: &Request) -> Reply {
        Reply::of(&self.wire.raw(request).await.unwrap())
    }

    /// A report, signed over a fresh challenge, to a call.
    pub(crate) async fn say(&mut self, call: Endpoint, report: &str) -> Reply {
        let proof = self.prove(report, &self.challenge());
        let request = self.carry(call, proof);
        self.send(&request).await
    }
}

impl World {
    /// The report of the last request of this call that a node sent.
    pub(crate) fn last_report(&self, call: Endpoint, id: &NodeId) -> String {
        let seen = self.seen();
        let last = seen.iter().rev().find(|seen| seen.call == call && seen.node == *id).expect("such a call");
        let body: serde_json::Value = serde_json::from_slice(last.request.body.as_ref().unwrap()).unwrap();
        body["proof"]["reportJson"].as_str().unwrap().to_owned()
    }
}
