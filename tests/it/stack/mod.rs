//! Groups H, J, S and C of threats.md through the whole stack: the built controller and worker, over TLS on loopback.
//!
//! Each row is refused with its code, and every file of controller and worker is afterwards what it was before, byte for
//! byte. `cargo test -p lucia-tests` alone builds no programs: without them the tables are counted as skipped.

mod certificates;
mod edge;
mod hostile;
mod json;
mod proofs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use lucia_proto::base::code::{Code, ErrorBody};
use lucia_proto::base::ids::{NodeId, TaskId};
use lucia_proto::calls::{Caller, Endpoint};
use lucia_proto::node::challenge::{Challenge, signed_text};
use lucia_proto::node::report::{DeviceCall, HeaderProof, NodeCall, PROOF_HEADER, Proof};
use lucia_proto::pki::key::NodeKey;
use lucia_tests::programs::{CONTROLLER_NAME, Running, Site};
use lucia_tests::sim::{SimNode, Target};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::second::{programs, skip};

/// Both programs, and two nodes that are in the fleet.
struct Stack {
    site: Site,
    target: Target,
    worker: Running,
    controller: Running,
    nodes: Vec<SimNode>,
    task: TaskId,
    /// The last heartbeat of the first.
    beat: String,
}

/// What somebody is answered.
#[derive(Debug)]
struct Reply {
    status: u16,
    headers: hyper::HeaderMap,
    body: Bytes,
}

impl Reply {
    fn code(&self) -> Option<Code> {
        serde_json::from_slice::<ErrorBody>(&self.body).ok().map(|body| body.error.code)
    }
}

impl Stack {
    /// Nothing where the programs are not built; the skip is counted then.
    async fn up(name: &str) -> Option<Self> {
        let Some(bin) = programs() else {
            skip(name, "no built programs beside this test; `make test` builds them first");
            return None;
        };
        let site = Site::lay(&bin, name, 64, "journal").unwrap();
        let (worker, controller) = site.up().await.unwrap();
        open_window(&site);
        let target = Target::new(site.address, CONTROLLER_NAME, &site.root_pem().unwrap()).unwrap();
        let mut nodes = Vec::new();
        let mut tasks = Vec::new();
        for number in 1..=2 {
            let (node, task) = join(&site, &target, number).await;
            nodes.push(node);
            tasks.push(task);
        }
        let beat = serde_json::to_string(&nodes[0].report().unwrap()).unwrap();
        let mut stack = Self { site, target, worker, controller, nodes, task: tasks.swap_remove(0), beat };
        stack.restart().await;
        Some(stack)
    }

    /// Ends both and starts them again: what was only in memory is on the disk then.
    async fn restart(&mut self) {
        self.controller.end();
        self.worker.end();
        (self.worker, self.controller) = self.site.up().await.unwrap();
        // The worker answers what it finds, for the last time in this story.
        tokio::time::timeout(Duration::from_secs(20), async {
            while self.files() != {
                tokio::time::sleep(Duration::from_millis(700)).await;
                self.files()
            } {}
        })
        .await
        .unwrap();
    }

    fn id(&self) -> &NodeId {
        &self.nodes[0].id
    }

    /// Every file of both, but what tells the time, what is locked, and where the journal stood when the worker looked.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        for dir in ["controller", "worker"] {
            walk(&self.site.dir.path().join(dir), &mut files);
        }
        files
    }

    /// Panics with the names of files that are not what they were.
    #[track_caller]
    fn is_unchanged(&self, before: &BTreeMap<PathBuf, Vec<u8>>) {
        let now = self.files();
        let names = before.keys().chain(now.keys()).filter(|name| before.get(*name) != now.get(*name));
        let text = |files: &BTreeMap<PathBuf, Vec<u8>>, name: &Path| {
            files.get(name).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        let changed: Vec<_> = names.map(|name| (name, text(before, name), text(&now, name))).collect();
        assert!(changed.is_empty(), "{changed:#?}\n{}", self.said());
    }

    /// A stranger with a connection of its own.
    async fn stranger(&self) -> Stranger {
        Stranger { target: self.target.clone(), sender: self.target.connect().await.unwrap() }
    }

    /// The first node's own key.
    fn key(&self) -> &NodeKey {
        &self.nodes[0].key
    }

    fn certificate(&self) -> String {
        self.nodes[0].certificate_pem.clone().unwrap()
    }

    /// A report, signed by this key over this challenge.
    fn prove(&self, key: &NodeKey, challenge: &Challenge, report: &str) -> Proof {
        let text = signed_text(&challenge.challenge_id, &challenge.nonce, report);
        Proof {
            challenge_id: challenge.challenge_id.clone(),
            report_json: report.to_owned(),
            signature: key.sign(&text).to_text(),
        }
    }

    /// The node is still heard: whatever was refused did it no harm.
    async fn is_well(&mut self) {
        let answer = self.nodes[0].heartbeat().await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(_) => {
                self.nodes[0].reconnect().await.unwrap();
                self.nodes[0].heartbeat().await.unwrap()
            }
        };
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    }

    /// What both said, for a test that fails.
    fn said(&self) -> String {
        format!("worker: {}\ncontroller: {}", self.worker.said(), self.controller.said())
    }
}

/// It is closed after each start.
fn open_window(site: &Site) {
    site.ctl(&["window", "open", "--minutes", "30"]).unwrap();
}

async fn join(site: &Site, target: &Target, number: u32) -> (SimNode, TaskId) {
    let (mut node, task) = approved(site, target, number).await;
    for _ in 0..100 {
        if node.enroll(&task).await.unwrap() {
            assert_eq!(node.heartbeat().await.unwrap().status, 200);
            return (node, task);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no certificate")
}

/// A machine that was approved and installed, and has not asked for a certificate.
async fn approved(site: &Site, target: &Target, number: u32) -> (SimNode, TaskId) {
    let mut node = SimNode::connect(target, number).await.unwrap();
    node.discover().await.unwrap();
    let fingerprint = node.key.public().fingerprint();
    let (shown, whole) = (fingerprint.verification_code().to_string(), fingerprint.to_string());
    let hostname = node.hostname.to_string();
    let approval = ["approve", &shown, "--fingerprint", &whole, "--hostname", &hostname, "--disk", "sim-disk", "--yes"];
    site.ctl(&approval).unwrap();
    let task = node.install().await.unwrap();
    (node, task)
}

pub(crate) fn walk(dir: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type().unwrap().is_dir() {
            walk(&path, files);
        } else if name != "enrollment-worker.json" && name != "ledger.head" && !name.contains("lease") {
            // It may be replaced in this moment; then it differs anyway.
            let bytes = std::fs::read(&path).unwrap_or_default();
            files.insert(path, if name == "ledger.jsonl" { decisions(&bytes) } else { bytes });
        }
    }
}

/// The ledger's lines without those that a look at the journal leaves minutes later, and so without their numbers.
fn decisions(ledger: &[u8]) -> Vec<u8> {
    let lines = String::from_utf8_lossy(ledger);
    let lines = lines.lines().filter_map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).ok()?;
        let members = line.as_object_mut()?;
        members.retain(|name, _| name != "seq" && name != "prev");
        (members["kind"] != "journalSeen").then(|| format!("{line}\n"))
    });
    lines.collect::<String>().into_bytes()
}

/// How long an answer may take: longer than any deadline of the controller's.
const PATIENCE: Duration = Duration::from_secs(60);

/// Somebody who can say anything.
struct Stranger {
    target: Target,
    sender: SendRequest<Full<Bytes>>,
}

impl Stranger {
    async fn send(&mut self, request: hyper::Request<Full<Bytes>>) -> Reply {
        if self.sender.ready().await.is_err() {
            self.sender = self.target.connect().await.unwrap();
        }
        // A body beyond the limit is not read to its end: then the answer may be lost with the connection.
        let answer = tokio::time::timeout(PATIENCE, self.sender.send_request(request)).await;
        let Ok(answer) = answer.expect("an answer within a minute") else {
            return Reply { status: 0, headers: hyper::HeaderMap::new(), body: Bytes::new() };
        };
        let (head, body) = answer.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect()).await.expect("a whole answer within a minute");
        Reply { status: head.status.as_u16(), headers: head.headers, body: body.unwrap().to_bytes() }
    }

    async fn get(&mut self, path: &str, proof: Option<String>) -> Reply {
        let mut request = hyper::Request::get(path).header("host", CONTROLLER_NAME);
        if let Some(proof) = proof {
            request = request.header(PROOF_HEADER, proof);
        }
        self.send(request.body(Full::default()).unwrap()).await
    }

    async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> Reply {
        let request = hyper::Request::post(path).header("host", CONTROLLER_NAME);
        self.send(request.header("content-type", "application/json").body(Full::new(body.into())).unwrap()).await
    }

    async fn challenge(&mut self, id: &NodeId) -> Challenge {
        let reply = self.get(&Endpoint::NodeChallenge.path_for(id), None).await;
        serde_json::from_slice(&reply.body).unwrap()
    }

    /// A proof, in the form that this call takes it.
    async fn show(&mut self, call: Endpoint, id: &NodeId, certificate_pem: &str, proof: Proof) -> Reply {
        let path = call.path_for(id);
        let body = match (call.method(), call.caller()) {
            ("GET", _) => return self.get(&path, Some(HeaderProof { certificate_pem: None, proof }.to_header())).await,
            (_, Caller::Node) => serde_json::to_vec(&NodeCall { certificate_pem: certificate_pem.to_owned(), proof }),
            _ => serde_json::to_vec(&DeviceCall { proof }),
        };
        self.post(&path, body.unwrap()).await
    }
}

/// Bytes over a new TLS connection; all that comes back until it ends or nothing comes for a while.
async fn raw(target: &Target, bytes: &[u8]) -> Vec<u8> {
    let mut stream = target.secure().await.unwrap();
    // It may be refused before all of it is sent.
    let _ = stream.write_all(bytes).await;
    let mut said = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut said)).await;
    said
}
