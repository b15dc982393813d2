//! A machine on its way from nobody to node, over the wire.

use lucia_people::calls::PeopleCall;
use std::time::Duration;

use lucia_daemon::clock::SystemClock;
use lucia_proto::base::bounded::Version;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::{NodeId, RequestId};
use lucia_proto::base::json;
use lucia_proto::base::time::Clock as _;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::challenge::{Challenge, NextChallenge};
use lucia_proto::node::enrollment::{EnrollmentAnswerFile, EnrollmentRequest};
use lucia_proto::node::first_contact::{Discovered, Grant};
use lucia_proto::node::heartbeat::Heartbeat;
use lucia_proto::node::inventory::HardwareInventory;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::report::{
    DeviceCall, Discover, DiscoverCall, EnrollRequest, GrantRequest, HeaderProof, NodeCall, PROOF_HEADER, Progress,
    Proof, Purpose, Question, Report,
};
use lucia_proto::test_support::TestNode;

use crate::site::{Answer, Site, request};
use crate::slow::wait_until;

pub(crate) struct Machine {
    pub(crate) node: TestNode,
    pub(crate) certificate: String,
    number: u8,
}

impl Machine {
    pub(crate) fn new(number: u8) -> Self {
        Self { node: TestNode::new(number), certificate: String::new(), number }
    }

    /// A node that has sent its first heartbeat.
    pub(crate) fn managed(site: &Site, number: u8) -> Self {
        let mut machine = Self::new(number);
        assert_eq!(site.order("POST", "/api/host/onboarding/window", r#"{"minutes":60}"#).status, 200);
        let _: Discovered = machine.discover(site).read();
        let form = format!(r#"{{"hostname":"{}","diskId":"disk0","confirmation":"ERASE"}}"#, machine.node.hostname);
        assert_eq!(site.order("POST", &PeopleCall::Approve.path_for(machine.id()), &form).status, 200);
        let grant: Grant = machine.grant(site).read();
        machine.node.task_id = grant.task_id;
        assert_eq!(machine.progress(site, DevicePhase::Installing).status, 200);
        assert_eq!(machine.progress(site, DevicePhase::AwaitingEnrollment).status, 200);
        site.worker_is_there();
        assert_eq!(machine.enroll(site).status, 202);
        machine.worker_answers(site);
        let answer = machine.enroll(site);
        assert_eq!(answer.status, 200, "{answer:?}");
        machine.certificate = site.ca.issue(&machine.node, site.now());
        let answer = machine.heartbeat(site);
        assert_eq!(answer.status, 200, "{answer:?}");
        // Ten proofs a second are taken, and a fast machine has just spent most of them: the test gets a fresh second.
        let spent = SystemClock.since_boot();
        wait_until("the second after the enrolment", || {
            SystemClock.since_boot() >= spent + Duration::from_millis(1001)
        });
        machine
    }

    pub(crate) fn id(&self) -> &NodeId {
        &self.node.node_id
    }

    fn worker_answers(&self, site: &Site) {
        let bytes = std::fs::read(site.file(&format!("nodes/enrollment-requests/{}.json", self.id()))).unwrap();
        let request = EnrollmentRequest::from_bytes(&bytes).unwrap();
        let file = EnrollmentAnswerFile {
            schema_version: Version,
            node_id: request.node_id,
            task_id: request.task_id,
            request_hash: Digest::of(&bytes),
            success: true,
            message: "".parse().unwrap(),
            checked_at: site.now(),
            answer: Some(site.ca.sign_answer(&site.ca.answer(&self.node, site.now()))),
        };
        site.put(&format!("nodes/enrollment-responses/{}.json", self.id()), &file.to_bytes().unwrap());
    }

    pub(crate) fn challenge(&self, site: &Site) -> Challenge {
        site.send(&request("GET", &Endpoint::NodeChallenge.path_for(self.id()), &[], "")).read()
    }

    pub(crate) fn sign<T: Report>(&self, site: &Site, report: &T) -> Proof {
        Proof::sign(report, &self.challenge(site), &self.node.key).unwrap()
    }

    pub(crate) fn discover(&self, site: &Site) -> Answer {
        let challenge = site.send(&request("GET", Endpoint::BootChallenge.path(), &[], "")).read();
        let report =
            Discover { node_id: self.id().clone(), purpose: Purpose::Discover, inventory: inventory(), running: false };
        let proof = Proof::sign(&report, &challenge, &self.node.key).unwrap();
        let call = DiscoverCall {
            challenge_id: proof.challenge_id,
            public_key_pem: self.node.key.public().to_pem(),
            report_json: proof.report_json,
            signature: proof.signature,
        };
        site.send(&request("POST", Endpoint::Discover.path(), &[], &json::to_string(&call).unwrap()))
    }

    pub(crate) fn question(&self, site: &Site, endpoint: Endpoint, purpose: Purpose) -> Answer {
        let proof = self.sign(site, &Question { node_id: self.id().clone(), purpose });
        let header = HeaderProof { certificate_pem: None, proof }.to_header();
        site.send(&request("GET", &endpoint.path_for(self.id()), &[(PROOF_HEADER, &header)], ""))
    }

    fn device_call<T: Report>(&self, site: &Site, endpoint: Endpoint, report: &T) -> Answer {
        let call = DeviceCall { proof: self.sign(site, report) };
        site.send(&request("POST", &endpoint.path_for(self.id()), &[], &json::to_string(&call).unwrap()))
    }

    pub(crate) fn grant(&self, site: &Site) -> Answer {
        let report = GrantRequest {
            node_id: self.id().clone(),
            purpose: Purpose::Grant,
            request_id: RequestId::from_random([self.number; 16]),
            inventory_revision: 1,
            disk_id: Some("disk0".parse().unwrap()),
        };
        self.device_call(site, Endpoint::Grant, &report)
    }

    pub(crate) fn progress(&self, site: &Site, phase: DevicePhase) -> Answer {
        let (node_id, purpose) = (self.id().clone(), Purpose::Progress);
        self.device_call(site, Endpoint::Progress, &Progress { node_id, purpose, phase, message: "on".to_owned() })
    }

    pub(crate) fn enroll_request(&self, purpose: Purpose) -> EnrollRequest {
        let (node_id, task_id) = (self.id().clone(), self.node.task_id.clone());
        EnrollRequest { node_id, purpose, task_id, csr_pem: self.node.csr() }
    }

    pub(crate) fn enroll(&self, site: &Site) -> Answer {
        self.device_call(site, Endpoint::Enroll, &self.enroll_request(Purpose::Enroll))
    }

    pub(crate) fn renew(&self, site: &Site) -> Answer {
        self.node_call(site, Endpoint::Renew, self.sign(site, &self.enroll_request(Purpose::Renew)))
    }

    pub(crate) fn beat(&self) -> Heartbeat {
        let text = format!(
            r#"{{"nodeId":"{}","purpose":"heartbeat","hostname":"{}","osVersion":"Debian GNU/Linux 13","uptimeSeconds":60,
            "loadAverage":0.5,"memoryTotalBytes":1024,"memoryAvailableBytes":512}}"#,
            self.id(),
            self.node.hostname
        );
        json::from_str(&text, 4096, 4).unwrap()
    }

    pub(crate) fn node_call(&self, site: &Site, endpoint: Endpoint, proof: Proof) -> Answer {
        site.send(&self.node_request(endpoint, proof))
    }

    pub(crate) fn node_request(&self, endpoint: Endpoint, proof: Proof) -> Vec<u8> {
        let call = NodeCall { certificate_pem: self.certificate.clone(), proof };
        request("POST", &endpoint.path_for(self.id()), &[], &json::to_string(&call).unwrap())
    }

    pub(crate) fn heartbeat(&self, site: &Site) -> Answer {
        self.node_call(site, Endpoint::Heartbeat, self.sign(site, &self.beat()))
    }
}

/// The challenge that came with an answer.
pub(crate) fn next(answer: &Answer) -> NextChallenge {
    NextChallenge::from_header(answer.header("lucia-challenge").expect("a next challenge")).unwrap()
}

pub(crate) fn inventory() -> HardwareInventory {
    let text = r#"{"architecture":"x86_64","bootMode":"Uefi","logicalCpuCount":4,"memoryBytes":1073741824,
        "interfaces":[{"name":"eth0","macAddress":"52:54:00:12:34:56","addresses":["192.0.2.10"]}],
        "disks":[{"id":"disk0","path":"/dev/vda","sizeBytes":1000000,"isRemovable":false,"isReadOnly":false}]}"#;
    json::from_str(text, 4096, 8).unwrap()
}
