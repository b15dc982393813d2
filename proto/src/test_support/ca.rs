//! A root, an issuing CA and a worker with fixed keys, and a node to issue for.

use std::time::Duration;

use super::key;
use super::spec::{CertificateSpec, chain_pem};
use crate::base::digest::Digest;
use crate::base::extensions::Extensions;
use crate::base::ids::{NodeId, TaskId};
use crate::base::limits::{LEAF_BACKDATE, LEAF_LIFETIME};
use crate::base::names::Hostname;
use crate::base::pem;
use crate::base::time::UnixTime;
use crate::node::answer::{ANSWER_SCHEMA_VERSION, Answer, SignedAnswer};
use crate::pki::bundle::{Bundle, SignedBundle};
use crate::pki::certificate::LeafRules;
use crate::pki::chain::Root;
use crate::pki::csr;
use crate::pki::key::{Fingerprint, NodeKey};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// A node with a fixed key.
#[derive(Debug)]
pub struct TestNode {
    /// Its key.
    pub key: NodeKey,
    /// Its id, from the key.
    pub node_id: NodeId,
    /// Its fingerprint, from the key.
    pub fingerprint: Fingerprint,
    /// Its name.
    pub hostname: Hostname,
    /// Its installation.
    pub task_id: TaskId,
}

impl TestNode {
    /// The node of [`key`]`(number)`, called `n<number>`.
    #[must_use]
    pub fn new(number: u8) -> Self {
        let key = key(number);
        let fingerprint = key.public().fingerprint();
        Self {
            node_id: fingerprint.node_id(),
            fingerprint,
            hostname: format!("n{number}").parse().unwrap_or_else(|_| unreachable!("a letter and digits")),
            task_id: TaskId::from_random([number; 16]),
            key,
        }
    }

    /// What its leaf is compared with.
    #[must_use]
    pub fn rules(&self) -> LeafRules<'_> {
        LeafRules { node_id: &self.node_id, hostname: &self.hostname, fingerprint: &self.fingerprint }
    }

    /// Its request, PEM.
    #[must_use]
    pub fn csr(&self) -> String {
        csr::build(&self.node_id, &self.hostname, &self.key)
    }

    /// SHA-256 of its request's DER.
    #[must_use]
    pub fn csr_sha256(&self) -> Digest {
        Digest::of(&pem::one(&self.csr(), csr::LABEL, usize::MAX).unwrap_or_default())
    }
}

/// A root, an issuing CA signed by it, and a worker.
#[derive(Debug)]
pub struct TestCa {
    /// The root's key.
    pub root_key: NodeKey,
    /// The issuing CA's key.
    pub issuing_key: NodeKey,
    /// The key that signs answers.
    pub worker_key: NodeKey,
    /// The root, DER.
    pub root_der: Vec<u8>,
    /// The issuing CA, DER.
    pub issuing_der: Vec<u8>,
}

impl TestCa {
    /// The issuing CA's common name.
    pub const ISSUING: &'static str = "Test Issuing CA";
    /// The root's common name.
    pub const ROOT: &'static str = "Test Root";

    /// A CA that began an hour before `now`: a root of ten years, an issuing CA of one.
    #[must_use]
    pub fn new(now: UnixTime) -> Self {
        Self::with_keys(now, 201)
    }

    /// Another CA of the same names, with the keys of `first_key` and the next two.
    #[must_use]
    pub fn with_keys(now: UnixTime, first_key: u8) -> Self {
        let [root_key, issuing_key, worker_key] = [0, 1, 2].map(|at| key(first_key.saturating_add(at)));
        let from = now.minus(Duration::from_secs(3600));
        let root = CertificateSpec::authority(Self::ROOT, Self::ROOT, root_key.public(), from, from.plus(YEAR * 10));
        let issuing =
            CertificateSpec::authority(Self::ROOT, Self::ISSUING, issuing_key.public(), from, from.plus(YEAR));
        Self { root_der: root.sign(&root_key), issuing_der: issuing.sign(&root_key), root_key, issuing_key, worker_key }
    }

    /// The root, checked.
    #[must_use]
    pub fn root(&self) -> Root {
        Root::from_pem(&self.root_pem()).unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// The root, PEM.
    #[must_use]
    pub fn root_pem(&self) -> String {
        chain_pem(&[&self.root_der])
    }

    /// The issuing CA, PEM.
    #[must_use]
    pub fn issuing_pem(&self) -> String {
        chain_pem(&[&self.issuing_der])
    }

    /// The leaf of a node as issued at `now`, to be changed before it is signed.
    #[must_use]
    pub fn leaf_spec(&self, node: &TestNode, now: UnixTime) -> CertificateSpec {
        let (cn, dns) = (node.node_id.as_str(), node.hostname.as_str());
        let from = now.minus(LEAF_BACKDATE);
        CertificateSpec::leaf(Self::ISSUING, cn, dns, node.key.public(), from, now.plus(LEAF_LIFETIME))
    }

    /// Leaf and issuing CA, PEM, of a node, as issued at `now`.
    #[must_use]
    pub fn issue(&self, node: &TestNode, now: UnixTime) -> String {
        self.finish(&self.leaf_spec(node, now))
    }

    /// Signs any leaf and adds the issuing CA, PEM.
    #[must_use]
    pub fn finish(&self, spec: &CertificateSpec) -> String {
        chain_pem(&[&spec.sign(&self.issuing_key), &self.issuing_der])
    }

    /// A bundle with this issuing CA and worker.
    #[must_use]
    pub fn bundle(&self, version: u64, now: UnixTime) -> Bundle {
        let issuing = Digest::of(&self.issuing_der);
        Bundle {
            version,
            issued: now,
            issuing_cas: vec![self.issuing_pem()],
            limits: [(issuing, Vec::new())].into(),
            workers: vec![self.worker_key.public().to_pem()],
            release_keys: Vec::new(),
            extensions: Extensions::default(),
        }
    }

    /// The same, signed by the root.
    #[must_use]
    pub fn signed_bundle(&self, version: u64, now: UnixTime) -> SignedBundle {
        SignedBundle::sign(&self.bundle(version, now), &self.root_key).unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// What the worker answers this node at `now`, to be changed before it is signed.
    #[must_use]
    pub fn answer(&self, node: &TestNode, now: UnixTime) -> Answer {
        Answer {
            schema_version: ANSWER_SCHEMA_VERSION,
            node_id: node.node_id.clone(),
            task_id: node.task_id.clone(),
            csr_sha256: node.csr_sha256(),
            hostname: node.hostname.clone(),
            certificate_pem: self.issue(node, now),
            ca_pem: self.root_pem(),
            issued_at: now,
            bundle: self.signed_bundle(1, now),
            directory: None,
            roster: None,
        }
    }

    /// Any answer, signed by the worker.
    #[must_use]
    pub fn sign_answer(&self, answer: &Answer) -> SignedAnswer {
        SignedAnswer::sign(answer, &self.worker_key).unwrap_or_else(|error| unreachable!("{error}"))
    }
}
