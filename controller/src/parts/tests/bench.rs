//! A controller on a scratch directory, machines that talk to it, and a worker that answers its queue.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lucia_people::host_api::{ApproveForm, Minutes};
use lucia_proto::base::bounded::{Text, Version};
use lucia_proto::base::code::Code;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::{NodeId, RequestId, TaskId};
use lucia_proto::base::json;
use lucia_proto::base::time::{Clock, ManualClock, UnixTime};
use lucia_proto::files::worker_status::WorkerStatus;
use lucia_proto::node::answer::SignedAnswer;
use lucia_proto::node::challenge::{Challenge, Scope};
use lucia_proto::node::enrollment::{EnrollmentAnswerFile, EnrollmentRequest};
use lucia_proto::node::first_contact::{Accepted, DeviceState, Discovered, Grant, Installation};
use lucia_proto::node::heartbeat::Heartbeat;
use lucia_proto::node::inventory::HardwareInventory;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::report::{
    DeviceCall, Discover, DiscoverCall, EnrollRequest, GrantRequest, HeaderProof, NodeCall, Progress, Proof, Purpose,
    Question, Report,
};
use lucia_proto::test_support::{TestCa, TestNode};

use crate::config::Config;
use crate::parts::{Enrolled, OpenError, Parts, Refusal};

pub(crate) const OPERATOR: &str = "operator:0";
/// The words of a worker that refuses.
pub(crate) const WORKER_REFUSES: &str = "the name is reserved";

/// A directory for one test, gone at its end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        // In memory where that can be: these tests wait for the disk hundreds of times.
        let shm = Path::new("/dev/shm");
        let parent = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
        Self(nix::unistd::mkdtemp(&parent.join("lucia-controller-XXXXXX")).unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover directory in /tmp is no reason to fail a test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Everything around one controller.
pub(crate) struct World {
    pub(crate) scratch: Scratch,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ca: TestCa,
    pub(crate) config: Config,
    pub(crate) parts: Arc<Parts>,
}

/// A start with more settings than the defaults.
pub(crate) fn config(scratch: &Path, more: &str) -> Config {
    let text = format!(
        "names = [\"lucia.home.arpa\"]\nstate-dir = \"{0}/state\"\nroot-file = \"{0}/root.pem\"\nsocket = \"{0}/socket\"\n\
         group = \"\"\nworker-user = \"\"\n{more}",
        scratch.display()
    );
    Config::parse(&text).unwrap()
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    pub(crate) fn with(more: &str) -> Self {
        let scratch = Scratch::new();
        let clock = Arc::new(ManualClock::at(UnixTime::from_secs(1_795_982_400)));
        let ca = TestCa::new(clock.now());
        std::fs::write(scratch.path().join("root.pem"), ca.root_pem()).unwrap();
        let config = config(scratch.path(), more);
        let parts = Arc::new(start(&config, &clock, 7).unwrap());
        let world = Self { scratch, clock, ca, config, parts };
        world.worker_is_there();
        world
    }

    /// Another start on the same directory, with another secret.
    pub(crate) fn restart(self) -> Self {
        let Self { scratch, clock, ca, config, parts } = self;
        drop(parts);
        let parts = Arc::new(start(&config, &clock, 8).unwrap());
        Self { scratch, clock, ca, config, parts }
    }

    pub(crate) fn now(&self) -> UnixTime {
        self.clock.now()
    }

    pub(crate) fn advance(&self, secs: u64) {
        self.clock.advance(Duration::from_secs(secs));
    }

    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.scratch.path().join("state").join(path)
    }

    /// The journal's bytes: what a refusal must leave alone.
    pub(crate) fn journal(&self) -> Vec<u8> {
        std::fs::read(self.file("onboarding/state.json")).unwrap()
    }

    pub(crate) fn window(&self) {
        self.parts.enrollment.open_window(Minutes::new(60).unwrap(), OPERATOR).unwrap();
    }

    pub(crate) fn phase(&self, machine: &Machine) -> Option<DevicePhase> {
        self.parts.journal.read().device(&machine.node.node_id).map(|device| device.phase)
    }

    /// The worker writes its status.
    pub(crate) fn worker_is_there(&self) {
        let status = WorkerStatus { schema_version: Version, ready: true, checked_at: self.now() };
        let path = self.file("nodes/enrollment-responses/enrollment-worker.json");
        write(&path, &status.to_bytes().unwrap());
    }

    /// The worker answers the request of this node that lies in the queue; `None` answers with a refusal.
    pub(crate) fn worker_answers(&self, machine: &Machine, answer: Option<SignedAnswer>) {
        let bytes =
            std::fs::read(self.file(&format!("nodes/enrollment-requests/{}.json", machine.node.node_id))).unwrap();
        let request = EnrollmentRequest::from_bytes(&bytes).unwrap();
        let file = EnrollmentAnswerFile {
            schema_version: Version,
            node_id: request.node_id,
            task_id: request.task_id,
            request_hash: Digest::of(&bytes),
            success: answer.is_some(),
            message: if answer.is_some() { Text::default_empty() } else { WORKER_REFUSES.parse().unwrap() },
            checked_at: self.now(),
            answer,
        };
        let path = self.file(&format!("nodes/enrollment-responses/{}.json", machine.node.node_id));
        write(&path, &file.to_bytes().unwrap());
    }

    /// The worker's answer to this machine.
    pub(crate) fn signed_answer(&self, machine: &Machine) -> SignedAnswer {
        self.ca.sign_answer(&self.ca.answer(&machine.node, self.now()))
    }

    /// A machine that was seen, approved, installed and has its certificate; its first heartbeat is to come.
    pub(crate) fn certified(&self, number: u8) -> Machine {
        let mut machine = Machine::new(number);
        self.window();
        machine.discover(self).unwrap();
        machine.approve(self).unwrap();
        machine.grant(self).unwrap();
        machine.progress(self, DevicePhase::Installing).unwrap();
        machine.progress(self, DevicePhase::AwaitingEnrollment).unwrap();
        self.worker_is_there();
        assert_eq!(machine.enroll(self).unwrap(), Enrolled::Pending);
        let answer = self.signed_answer(&machine);
        self.worker_answers(&machine, Some(answer.clone()));
        assert_eq!(machine.enroll(self).unwrap(), Enrolled::Ready(answer));
        machine.certificate = self.ca.issue(&machine.node, self.now());
        machine
    }

    /// A managed node.
    pub(crate) fn node(&self, number: u8) -> Machine {
        let machine = self.certified(number);
        machine.heartbeat(self).unwrap();
        machine
    }
}

trait Empty {
    fn default_empty() -> Self;
}

impl<const MAX: usize> Empty for Text<0, MAX> {
    fn default_empty() -> Self {
        "".parse().unwrap()
    }
}

pub(crate) fn start(config: &Config, clock: &Arc<ManualClock>, secret: u8) -> Result<Parts, OpenError> {
    Parts::open(config, Arc::clone(clock) as Arc<dyn Clock>, [secret; 32])
}

/// As `rename` would leave it: 0640, whole.
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o640)).unwrap();
}

/// A machine and what it was told.
pub(crate) struct Machine {
    pub(crate) node: TestNode,
    pub(crate) inventory: HardwareInventory,
    pub(crate) running: bool,
    pub(crate) request_id: RequestId,
    pub(crate) revision: u32,
    pub(crate) certificate: String,
    pub(crate) from: IpAddr,
}

pub(crate) fn inventory(memory: u64) -> HardwareInventory {
    let text = format!(
        r#"{{"architecture":"x86_64","bootMode":"Uefi","logicalCpuCount":4,"memoryBytes":{memory},
        "interfaces":[{{"name":"eth0","macAddress":"52:54:00:12:34:56","addresses":["192.0.2.10"]}}],
        "disks":[{{"id":"disk0","path":"/dev/vda","sizeBytes":1000000,"isRemovable":false,"isReadOnly":false}},
        {{"id":"usb0","path":"/dev/sda","sizeBytes":1000000,"isRemovable":true,"isReadOnly":false}},
        {{"id":"rom0","path":"/dev/sr0","sizeBytes":1000000,"isRemovable":false,"isReadOnly":true}},
        {{"id":"empty0","path":"/dev/sr1","sizeBytes":0,"isRemovable":false,"isReadOnly":false}}]}}"#
    );
    json::from_str(&text, 4096, 8).unwrap()
}

impl Machine {
    pub(crate) fn new(number: u8) -> Self {
        Self {
            node: TestNode::new(number),
            inventory: inventory(1 << 30),
            running: false,
            request_id: RequestId::from_random([number; 16]),
            revision: 1,
            certificate: String::new(),
            from: "192.0.2.10".parse().unwrap(),
        }
    }

    pub(crate) fn id(&self) -> &NodeId {
        &self.node.node_id
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope::Node(self.id().clone())
    }

    pub(crate) fn challenge(&self, world: &World) -> Challenge {
        world.parts.challenges.issue(&self.scope(), self.from).challenge()
    }

    pub(crate) fn sign<T: Report>(&self, world: &World, report: &T) -> Proof {
        Proof::sign(report, &self.challenge(world), &self.node.key).unwrap()
    }

    pub(crate) fn discover_call(&self, challenge: &Challenge) -> DiscoverCall {
        let report = Discover {
            node_id: self.id().clone(),
            purpose: Purpose::Discover,
            inventory: self.inventory.clone(),
            running: self.running,
        };
        let proof = Proof::sign(&report, challenge, &self.node.key).unwrap();
        DiscoverCall {
            challenge_id: proof.challenge_id,
            public_key_pem: self.node.key.public().to_pem(),
            report_json: proof.report_json,
            signature: proof.signature,
        }
    }

    pub(crate) fn discover(&self, world: &World) -> Result<Discovered, Refusal> {
        let challenge = world.parts.challenges.issue(&Scope::Boot, self.from).challenge();
        world.parts.enrollment.discover(self.discover_call(&challenge), self.from)
    }

    pub(crate) fn form(&self) -> ApproveForm {
        ApproveForm {
            hostname: self.node.hostname.clone(),
            disk_id: Some("disk0".parse().unwrap()),
            confirmation: Some("ERASE".to_owned()),
            replaces: None,
        }
    }

    pub(crate) fn approve(&self, world: &World) -> Result<(), Refusal> {
        world.parts.enrollment.approve(self.id(), &self.form(), OPERATOR)
    }

    fn question(&self, world: &World, purpose: Purpose) -> HeaderProof {
        let proof = self.sign(world, &Question { node_id: self.id().clone(), purpose });
        HeaderProof { certificate_pem: None, proof }
    }

    pub(crate) fn state(&self, world: &World) -> Result<DeviceState, Refusal> {
        world.parts.enrollment.device_state(self.id(), &self.question(world, Purpose::DeviceState), self.from)
    }

    pub(crate) fn installation(&self, world: &World) -> Result<Installation, Refusal> {
        world.parts.enrollment.installation(self.id(), &self.question(world, Purpose::Installation), self.from)
    }

    pub(crate) fn grant_request(&self) -> GrantRequest {
        GrantRequest {
            node_id: self.id().clone(),
            purpose: Purpose::Grant,
            request_id: self.request_id.clone(),
            inventory_revision: self.revision,
            disk_id: Some("disk0".parse().unwrap()),
        }
    }

    pub(crate) fn grant_with(&self, world: &World, request: &GrantRequest) -> Result<Grant, Refusal> {
        world.parts.enrollment.grant(self.id(), &DeviceCall { proof: self.sign(world, request) }, self.from)
    }

    pub(crate) fn grant(&mut self, world: &World) -> Result<Grant, Refusal> {
        let grant = self.grant_with(world, &self.grant_request())?;
        self.node.task_id = grant.task_id.clone();
        Ok(grant)
    }

    pub(crate) fn progress(&self, world: &World, phase: DevicePhase) -> Result<Accepted, Refusal> {
        let message = format!("{phase:?}");
        let report = Progress { node_id: self.id().clone(), purpose: Purpose::Progress, phase, message };
        world.parts.enrollment.progress(self.id(), &DeviceCall { proof: self.sign(world, &report) }, self.from)
    }

    pub(crate) fn enroll_request(&self, purpose: Purpose) -> EnrollRequest {
        let task_id: TaskId = self.node.task_id.clone();
        EnrollRequest { node_id: self.id().clone(), purpose, task_id, csr_pem: self.node.csr() }
    }

    pub(crate) fn enroll_with(&self, world: &World, request: &EnrollRequest) -> Result<Enrolled, Refusal> {
        world.parts.enrollment.enroll(self.id(), &DeviceCall { proof: self.sign(world, request) }, self.from)
    }

    pub(crate) fn enroll(&self, world: &World) -> Result<Enrolled, Refusal> {
        self.enroll_with(world, &self.enroll_request(Purpose::Enroll))
    }

    pub(crate) fn renew(&self, world: &World) -> Result<Enrolled, Refusal> {
        let proof = self.sign(world, &self.enroll_request(Purpose::Renew));
        let call = NodeCall { certificate_pem: self.certificate.clone(), proof };
        world.parts.enrollment.renew(self.id(), &call, self.from)
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

    pub(crate) fn heartbeat_call(&self, challenge: &Challenge) -> NodeCall {
        self.call_with(&self.beat(), challenge)
    }

    pub(crate) fn call_with(&self, beat: &Heartbeat, challenge: &Challenge) -> NodeCall {
        let proof = Proof::sign(beat, challenge, &self.node.key).unwrap();
        NodeCall { certificate_pem: self.certificate.clone(), proof }
    }

    pub(crate) fn heartbeat(&self, world: &World) -> Result<(), Refusal> {
        let call = self.heartbeat_call(&self.challenge(world));
        world.parts.heartbeat(self.id(), &call, self.from).map(drop)
    }
}

/// The code of a refusal; nothing for an answer.
pub(crate) fn code<T>(answer: Result<T, Refusal>) -> Option<Code> {
    answer.err().map(|refusal| refusal.code)
}
