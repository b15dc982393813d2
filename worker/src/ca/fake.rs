//! A CA for tests that answers what was scripted, in its order, and refuses everything else.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::*;
use crate::ca::issuing::server_leaf;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use std::time::Duration;

/// One question that is expected, and its answer.
pub(crate) struct Scripted {
    pub(crate) about: String,
    pub(crate) answer: Result<PemChain, CaError>,
}

/// What is left of the script. The test keeps one end of it.
pub(crate) type Script = Arc<Mutex<VecDeque<Scripted>>>;

/// The CA.
pub(crate) struct FakeCa {
    issuing: Issuing,
    script: Script,
}

impl FakeCa {
    pub(crate) fn new(issuing: &Issuing) -> (Self, Script) {
        let script = Script::default();
        (Self { issuing: issuing.clone(), script: Arc::clone(&script) }, script)
    }

    fn next(&self, about: &str) -> Result<PemChain, CaError> {
        let next = self.script.lock().unwrap().pop_front();
        let Some(Scripted { about: expected, answer }) = next else {
            panic!("the CA was asked about {about}, which was not scripted")
        };
        assert_eq!(about, expected, "the CA was asked about another one than was scripted");
        answer
    }
}

impl Ca for FakeCa {
    fn sign_node(&self, _: &CheckedCsr, _: &Hostname, node_id: &NodeId, _: UnixTime) -> Result<PemChain, CaError> {
        self.next(node_id.as_str())
    }

    fn sign_server(&self, csr: &ServerCsr, lifetime: Duration, now: UnixTime) -> Result<ServerLeaf, CaError> {
        server_leaf(&self.next(&csr.names().first().to_string())?, csr, &self.issuing, lifetime, now)
    }

    fn not_after(&self) -> UnixTime {
        self.issuing.not_after
    }

    fn issuing(&self) -> &Issuing {
        &self.issuing
    }

    fn health(&self) -> Result<String, CaError> {
        Ok("scripted".to_owned())
    }

    fn trust(&self) -> Trust {
        Trust::Foreign
    }
}
