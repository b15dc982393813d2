//! For the worker's tests: a controller as the worker sees it, which is a directory, in a scratch place gone at the end.

use std::cell::Cell;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::{PemText, Version};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::{NodeId, RequestId};
use lucia_proto::base::json;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::audit_chain::AuditChain;
use lucia_proto::files::journal::{DeviceRow, Event, GrantRow, Journal, TaskRow};
use lucia_proto::files::owner_queue::{ApplicationFile, AuditHeadFile, FreshnessFile, OrderAnswerFile, OwnerFile};
use lucia_proto::node::challenge::Nonce;
use lucia_proto::node::enrollment::{EnrollmentAnswerFile, EnrollmentRequest};
use lucia_proto::node::inventory::HardwareInventory;
use lucia_proto::node::phase::{DevicePhase, TaskPhase};
use lucia_proto::orders::application::Application;
use lucia_proto::orders::freshness::FreshnessRequest;
use lucia_proto::orders::{Admit, Body, Draft, OrderHead, OrderId, SignedOrder, Terms};
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::{TestNode, TestOwner};

/// A directory of one test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(nix::unistd::mkdtemp(&std::env::temp_dir().join("lucia-worker-XXXXXX")).unwrap())
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

/// The controller's state directory.
pub(crate) struct Controller {
    pub(crate) dir: PathBuf,
    pub(crate) journal: Journal,
    pub(crate) now: Cell<UnixTime>,
}

pub(crate) const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

impl Controller {
    /// Makes the directories, and a journal in which nothing happened.
    pub(crate) fn new(dir: &Path, now: UnixTime) -> Self {
        for sub in [
            "",
            "onboarding",
            "nodes",
            "nodes/enrollment-requests",
            "nodes/enrollment-responses",
            "nodes/removals",
            "nodes/owner-requests",
            "nodes/owner-responses",
        ] {
            let path = dir.join(sub);
            std::fs::create_dir(&path).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o2750)).unwrap();
        }
        let controller = Self { dir: dir.to_owned(), journal: Journal::empty(), now: Cell::new(now) };
        controller.write_journal();
        controller
    }

    /// The worker's settings, and its directory: root makes none, since it could not say whose it is.
    pub(crate) fn settings(&self, state_dir: &Path, more: &str) -> String {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state_dir).unwrap();
        let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
        format!(
            "state-dir = {state_dir:?}\ncontroller-state = {:?}\ncontroller-user = {uid}\ngroup = {gid}\n{more}\n",
            self.dir
        )
    }

    /// Puts a node that awaits enrolment into the journal and writes it.
    pub(crate) fn approve(&mut self, node: &TestNode) {
        let (device, task) = rows(node, self.now.get());
        self.journal.devices.push(device);
        self.journal.tasks.push(task);
        self.write_journal();
    }

    pub(crate) fn write_journal(&self) {
        self.put("onboarding/state.json", &self.journal.to_bytes().unwrap());
    }

    /// Something happens there: another generation, one more event.
    pub(crate) fn happen(&mut self) {
        self.say(Act::WindowExpired, None);
    }

    /// The same of this kind, about this node.
    pub(crate) fn say(&mut self, kind: Act, node: Option<&NodeId>) {
        let (at, actor, device_id) = (self.now.get(), "operator:1000".parse().unwrap(), node.cloned());
        self.journal.record(Event { device_id, ..Event::new(at, kind, actor) }).unwrap();
        self.journal.generation += 1;
        self.write_journal();
    }

    /// Takes a node's rows out of the journal, without a word and without writing it.
    pub(crate) fn forget(&mut self, id: &NodeId) {
        self.journal.devices.retain(|device| device.device_id != *id);
        self.journal.tasks.retain(|task| task.device_id != *id);
    }

    /// Removes a node as the controller does: the file first, then the journal.
    pub(crate) fn remove(&mut self, id: &NodeId) {
        self.put(&format!("nodes/removals/{id}.json"), format!(r#"{{"schemaVersion":1,"nodeId":"{id}"}}"#).as_bytes());
        self.forget(id);
        self.say(Act::Removed, Some(id));
    }

    /// Writes beside and renames, 0640, as the controller does.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.dir.join(name);
        let beside = path.with_file_name(".beside");
        std::fs::write(&beside, bytes).unwrap();
        std::fs::set_permissions(&beside, PermissionsExt::from_mode(0o640)).unwrap();
        std::fs::rename(&beside, &path).unwrap();
    }

    /// Asks for a node's certificate; gives the request.
    pub(crate) fn ask(&self, node: &TestNode) -> EnrollmentRequest {
        let request = request(node, self.now.get().plus(secs(600)));
        self.put_request(&request);
        request
    }

    pub(crate) fn put_request(&self, request: &EnrollmentRequest) {
        self.put(&format!("nodes/enrollment-requests/{}.json", request.node_id), &request.to_bytes().unwrap());
    }

    pub(crate) fn answer_path(&self, id: &NodeId) -> PathBuf {
        self.dir.join(format!("nodes/enrollment-responses/{id}.json"))
    }

    pub(crate) fn answer(&self, id: &NodeId) -> Option<EnrollmentAnswerFile> {
        let bytes = std::fs::read(self.answer_path(id)).ok()?;
        Some(EnrollmentAnswerFile::from_bytes(&bytes).unwrap())
    }
}

pub(crate) fn request(node: &TestNode, expires_at: UnixTime) -> EnrollmentRequest {
    EnrollmentRequest {
        schema_version: Version,
        node_id: node.node_id.clone(),
        task_id: node.task_id.clone(),
        hostname: node.hostname.clone(),
        public_key_fingerprint: node.fingerprint,
        csr_pem: PemText::try_from(node.csr()).unwrap(),
        expires_at,
    }
}

fn inventory() -> HardwareInventory {
    let text = r#"{"architecture":"x86_64","bootMode":"Uefi","logicalCpuCount":2,"memoryBytes":4294967296,
        "interfaces":[{"name":"eth0","macAddress":"52:54:00:12:34:56","addresses":["10.0.0.7"]}],"disks":[]}"#;
    json::from_str(text, 4096, 24).unwrap()
}

/// The rows of an approved node whose system is installed.
pub(crate) fn rows(node: &TestNode, now: UnixTime) -> (DeviceRow, TaskRow) {
    let request_bytes = *node.task_id.as_str().as_bytes().first_chunk::<16>().unwrap();
    let device = DeviceRow {
        device_id: node.node_id.clone(),
        fingerprint: node.fingerprint,
        public_key_pem: PemText::try_from(node.key.public().to_pem()).unwrap(),
        phase: DevicePhase::AwaitingEnrollment,
        hostname: Some(node.hostname.clone()),
        former_hostname: None,
        inventory_hash: inventory().inventory_hash(),
        inventory: inventory(),
        running: false,
        inventory_revision: 1,
        verification_code: node.fingerprint.verification_code(),
        discovered_at: now,
        expires_at: now.plus(secs(1800)),
        address: "10.0.0.7".parse().unwrap(),
        message: None,
        task_id: Some(node.task_id.clone()),
        frozen: None,
        kept: None,
    };
    let task = TaskRow {
        task_id: node.task_id.clone(),
        device_id: node.node_id.clone(),
        hostname: node.hostname.clone(),
        disk_id: Some("virtio-1".parse().unwrap()),
        fingerprint: node.fingerprint,
        inventory_hash: device.inventory_hash,
        inventory_revision: 1,
        phase: TaskPhase::AwaitingEnrollment,
        approved_at: now,
        authority_expires_at: now.plus(secs(900)),
        grant: Some(GrantRow {
            request_id: RequestId::from_random(request_bytes),
            granted_at: now,
            progress_expires_at: now.plus(secs(7200)),
        }),
        replaces: None,
    };
    (device, task)
}

/// What the controller passes on of owners, and finds of the worker's.
impl Controller {
    pub(crate) fn put_owner(&self, of: &OwnerFile, bytes: &[u8]) {
        self.put(&format!("nodes/owner-requests/{}", of.name()), bytes);
    }

    /// The fleet of the worker beside it.
    pub(crate) fn fleet(&self) -> Digest {
        let root = std::fs::read_to_string(self.dir.with_file_name("worker").join("ca/root.pem")).unwrap();
        lucia_proto::pki::chain::Root::from_pem(&root).unwrap().sha256()
    }

    /// What somebody signs who asks to become an owner.
    pub(crate) fn application(&self, name: &str, key: &NodeKey) -> Application {
        Application::sign(name.parse().unwrap(), self.fleet(), self.now.get(), key)
    }

    /// Somebody asks to become an owner.
    pub(crate) fn apply(&self, who: &TestOwner) {
        let application = self.application(who.name, &who.key);
        let asked =
            ApplicationFile { schema_version: Version, application, expires_at: self.now.get().plus(secs(3600)) };
        self.put_owner(&OwnerFile::Application(who.id.clone()), &asked.to_bytes().unwrap());
    }

    pub(crate) fn order(&self, signed: &SignedOrder) -> OrderId {
        self.put_owner(&OwnerFile::OrderHead(signed.id()), &signed.to_bytes().unwrap());
        signed.id()
    }

    /// A node asks how late it is.
    /// The controller says how far its audit reaches.
    pub(crate) fn audit_head(&self, entries: u64, last: &str) {
        let chain = AuditChain { entries, head: Digest::of(last.as_bytes()) };
        let file = AuditHeadFile { schema_version: Version, chain };
        self.put_owner(&OwnerFile::AuditHead, &file.to_bytes().unwrap());
    }

    pub(crate) fn question(&self, node_id: &NodeId, random: u8) -> FreshnessRequest {
        let asked = FreshnessRequest {
            schema_version: Version,
            node_id: node_id.clone(),
            nonce: Nonce::from_bytes(&[random; 32]),
        };
        self.put_owner(&OwnerFile::Freshness(node_id.clone()), &asked.to_bytes().unwrap());
        asked
    }

    fn owner_answer(&self, of: &OwnerFile) -> Option<Vec<u8>> {
        std::fs::read(self.dir.join("nodes/owner-responses").join(of.name())).ok()
    }

    pub(crate) fn outcome(&self, id: OrderId) -> Option<OrderAnswerFile> {
        let bytes = self.owner_answer(&OwnerFile::OrderHead(id))?;
        Some(OrderAnswerFile::from_bytes(&bytes).unwrap())
    }

    pub(crate) fn freshness(&self, node_id: &NodeId) -> Option<FreshnessFile> {
        let bytes = self.owner_answer(&OwnerFile::Freshness(node_id.clone()))?;
        Some(FreshnessFile::from_bytes(&bytes).unwrap())
    }
}

/// An order of `who` about one node, for an hour.
pub(crate) fn draft(who: &TestOwner, fleet: Digest, now: UnixTime, node: &NodeId, body: &Body, nonce: u8) -> Draft {
    let intent = OrderHead {
        kind: body.kind(),
        fleet,
        owner: who.id.clone(),
        nodes: vec![node.clone()],
        body_sha256: Digest::ZERO,
        issued_at: now,
        terms: Terms::Once { not_after: now.plus(secs(3600)), nonce: Nonce::from_bytes(&[nonce; 32]) },
    };
    Draft::new(intent, body).unwrap()
}

pub(crate) fn signed(draft: &Draft, by: &[&TestOwner]) -> SignedOrder {
    let signatures = by.iter().map(|who| who.sign(draft)).collect();
    SignedOrder { intent_json: draft.intent_json.clone(), body: draft.body.clone(), signatures }
}

/// Lets a node in, under the name it has.
pub(crate) fn admit_body(node: &TestNode, replaces: Option<NodeId>) -> Body {
    Body::Admit(Admit { fingerprint: node.fingerprint, hostname: node.hostname.clone(), replaces })
}
