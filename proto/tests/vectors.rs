//! Golden bytes: each message that crosses a process boundary, as it was first written. Each is read and written back
//! to the same bytes, so that a program of today understands, and is understood by, one of that day. A vector never
//! changes; a new form of a message gets a new one.

#![expect(
    clippy::unwrap_used,
    reason = "two helpers outside a test function; a vector that does not parse is the failure"
)]

use lucia_proto::base::code::ErrorBody;
use lucia_proto::base::json;
use lucia_proto::base::pem;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::Journal;
use lucia_proto::files::worker_status::WorkerStatus;
use lucia_proto::node::answer::{Answer, AnswerExpectation, SignedAnswer};
use lucia_proto::node::challenge::{Challenge, NextChallenge, signed_text};
use lucia_proto::node::enrollment::{
    EndpointAnswer, EndpointRequest, EnrollmentAnswerFile, EnrollmentRequest, IdentityRecord, Removal, agrees,
    request_hash,
};
use lucia_proto::node::first_contact;
use lucia_proto::node::heartbeat::{Heartbeat, HeartbeatReply};
use lucia_proto::node::report::{
    BodyProof, DeviceCall, Discover, DiscoverCall, EnrollRequest, GrantRequest, HeaderProof, NodeCall, Progress, Proof,
    Purpose, Question,
};
use lucia_proto::pki::bundle::{Bundle, SignedBundle};
use lucia_proto::pki::chain::Root;
use lucia_proto::pki::key::NodePublicKey;

/// 2026-11-29T20:00:00Z, when the vectors play.
const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);
const MAX: usize = 1 << 20;
const DEPTH: usize = 24;

macro_rules! vector {
    ($file:literal) => {
        include_str!(concat!("../../tests/vectors/", $file))
    };
}

macro_rules! round_trips {
    ($($file:literal: $type:ty,)*) => {
        // spec: GB-1
        #[test]
        fn every_message_reads_and_writes_its_golden_bytes() {
            $({
                let text = vector!($file);
                let value: $type = json::from_str(text, MAX, DEPTH).unwrap_or_else(|error| panic!("{}: {error}", $file));
                assert_eq!(json::to_string(&value).unwrap(), text, "{}", $file);
            })*
        }

        /// A vector that no test reads protects nothing. What a controller before this version replied is read by the agent.
        #[test]
        fn every_vector_is_read() {
            let listed = [$($file,)* "next-challenge-header.txt", "header-proof-header.txt", "signed-text.txt", "SHA256SUMS", "README.md",
                "heartbeat-reply-keys.json"];
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors");
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                // A folder belongs to the test that reads it.
                if entry.file_type().unwrap().is_file() {
                    let name = entry.file_name().into_string().unwrap();
                    assert!(listed.contains(&name.as_str()), "{name}");
                }
            }
        }
    };
}

round_trips! {
    "accepted.json": first_contact::Accepted,
    "answer-directory.json": Answer,
    "answer.json": Answer,
    "body-proof.json": BodyProof,
    "bundle.json": Bundle,
    "challenge.json": Challenge,
    "device-call.json": DeviceCall,
    "device-state-new.json": first_contact::DeviceState,
    "device-state-report.json": Question,
    "device-state.json": first_contact::DeviceState,
    "discover-call.json": DiscoverCall,
    "discover-report-running.json": Discover,
    "discover-report.json": Discover,
    "discovered.json": first_contact::Discovered,
    "endpoint-answer-failed.json": EndpointAnswer,
    "endpoint-answer.json": EndpointAnswer,
    "endpoint-request.json": EndpointRequest,
    "enroll-report.json": EnrollRequest,
    "enrollment-answer-failed.json": EnrollmentAnswerFile,
    "enrollment-answer.json": EnrollmentAnswerFile,
    "enrollment-request.json": EnrollmentRequest,
    "error.json": ErrorBody,
    "grant-join.json": first_contact::Grant,
    "grant-report-join.json": GrantRequest,
    "grant-report.json": GrantRequest,
    "grant.json": first_contact::Grant,
    "header-proof.json": HeaderProof,
    "heartbeat-clone.json": Heartbeat,
    "heartbeat-directory.json": Heartbeat,
    "heartbeat-full.json": Heartbeat,
    "heartbeat-minimal.json": Heartbeat,
    "heartbeat-renamed.json": Heartbeat,
    "heartbeat-reply-chain.json": HeartbeatReply,
    "heartbeat-reply-frozen.json": HeartbeatReply,
    "heartbeat-reply-renamed.json": HeartbeatReply,
    "heartbeat-reply.json": HeartbeatReply,
    "identity-record-frozen.json": IdentityRecord,
    "identity-record-memory-lost.json": IdentityRecord,
    "identity-record-new.json": IdentityRecord,
    "identity-record.json": IdentityRecord,
    "installation-join.json": first_contact::Installation,
    "installation-report.json": Question,
    "installation.json": first_contact::Installation,
    "journal-empty.json": Journal,
    "journal-frozen.json": Journal,
    "journal-join.json": Journal,
    "journal-renamed-names.json": Journal,
    "journal-renamed.json": Journal,
    "journal.json": Journal,
    "next-challenge.json": NextChallenge,
    "node-call.json": NodeCall,
    "pending.json": first_contact::Pending,
    "progress-report.json": Progress,
    "removal.json": Removal,
    "renew-report.json": EnrollRequest,
    "signed-answer.json": SignedAnswer,
    "signed-bundle.json": SignedBundle,
    "worker-status.json": WorkerStatus,
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> T {
    json::from_str(text, MAX, DEPTH).unwrap()
}

fn key() -> NodePublicKey {
    NodePublicKey::from_pem(&read::<DiscoverCall>(vector!("discover-call.json")).public_key_pem).unwrap()
}

// spec: GB-2
#[test]
fn header_forms_are_golden_too() {
    let next: NextChallenge = read(vector!("next-challenge.json"));
    assert_eq!(next.to_header(), vector!("next-challenge-header.txt"));
    assert_eq!(NextChallenge::from_header(vector!("next-challenge-header.txt")).unwrap(), next);
    let proof: HeaderProof = read(vector!("header-proof.json"));
    assert_eq!(proof.to_header(), vector!("header-proof-header.txt"));
    assert_eq!(HeaderProof::from_header(vector!("header-proof-header.txt").as_bytes()).unwrap(), proof);
}

// spec: GB-3
#[test]
fn the_signed_text_and_its_signatures_are_golden() {
    let challenge: Challenge = read(vector!("challenge.json"));
    let (key, id) = (key(), key().fingerprint().node_id());
    let call: NodeCall = read(vector!("node-call.json"));
    let text = signed_text(&challenge.challenge_id, &challenge.nonce, &call.proof.report_json);
    assert_eq!(text, vector!("signed-text.txt").as_bytes());
    assert_eq!(call.proof.report_json, vector!("heartbeat-full.json"));
    call.proof.verify::<Heartbeat>(&challenge.nonce, &key, &id, Purpose::Heartbeat).unwrap();
    let call: DeviceCall = read(vector!("device-call.json"));
    assert_eq!(call.proof.report_json, vector!("grant-report.json"));
    call.proof.verify::<GrantRequest>(&challenge.nonce, &key, &id, Purpose::Grant).unwrap();
    let call: HeaderProof = read(vector!("header-proof.json"));
    assert_eq!(call.proof.report_json, vector!("device-state-report.json"));
    call.proof.verify::<Question>(&challenge.nonce, &key, &id, Purpose::DeviceState).unwrap();
    let DiscoverCall { challenge_id, report_json, signature, .. } = read(vector!("discover-call.json"));
    assert_eq!(report_json, vector!("discover-report.json"));
    let proof = Proof { challenge_id, report_json, signature };
    proof.verify::<Discover>(&challenge.nonce, &key, &id, Purpose::Discover).unwrap();
}

// spec: GB-4 (threats.md J-8)
#[test]
fn the_same_value_in_other_bytes_is_not_what_was_signed() {
    let challenge: Challenge = read(vector!("challenge.json"));
    let (key, id) = (key(), key().fingerprint().node_id());
    let call: DeviceCall = read(vector!("device-call.json"));
    for (from, to) in [
        (",\"", ", \""),
        ("\"grant\"", "\"gr\\u0061nt\""),
        ("{\"nodeId\"", "{ \"nodeId\""),
        (
            "\"inventoryRevision\":1,\"diskId\":\"virtio-QM00001\"",
            "\"diskId\":\"virtio-QM00001\",\"inventoryRevision\":1",
        ),
    ] {
        let mut proof = call.proof.clone();
        proof.report_json = proof.report_json.replacen(from, to, 1);
        assert_eq!(read::<GrantRequest>(&proof.report_json), read::<GrantRequest>(&call.proof.report_json));
        assert_ne!(proof.report_json, call.proof.report_json);
        assert!(proof.verify::<GrantRequest>(&challenge.nonce, &key, &id, Purpose::Grant).is_err(), "{to}");
    }
}

// spec: EN-20
#[test]
fn the_golden_files_tell_one_story() {
    let journal = Journal::from_bytes(vector!("journal.json").as_bytes()).unwrap();
    assert_eq!(journal.to_bytes().unwrap(), vector!("journal.json").as_bytes());
    assert_eq!(Journal::from_bytes(vector!("journal-empty.json").as_bytes()), Ok(Journal::empty()));
    let frozen = Journal::from_bytes(vector!("journal-frozen.json").as_bytes()).unwrap();
    assert_eq!(frozen.to_bytes().unwrap(), vector!("journal-frozen.json").as_bytes());
    let renamed = Journal::from_bytes(vector!("journal-renamed.json").as_bytes()).unwrap();
    assert_eq!(renamed.to_bytes().unwrap(), vector!("journal-renamed.json").as_bytes());
    let named = Journal::from_bytes(vector!("journal-renamed-names.json").as_bytes()).unwrap();
    assert_eq!(named.to_bytes().unwrap(), vector!("journal-renamed-names.json").as_bytes());
    assert!(named.events.last().unwrap().names.is_some() && renamed.events.last().unwrap().names.is_none());
    let request: EnrollmentRequest = read(vector!("enrollment-request.json"));
    assert_eq!(agrees(&request, &journal, NOW), Ok(()));
    let file: EnrollmentAnswerFile = read(vector!("enrollment-answer.json"));
    assert_eq!(file.request_hash, request_hash(vector!("enrollment-request.json").as_bytes()));
    let signed = file.answer.unwrap();
    let csr = pem::one(request.csr_pem.as_str(), "CERTIFICATE REQUEST", MAX).unwrap();
    let answer: Answer = read(vector!("answer.json"));
    let accepted = signed.accept(&AnswerExpectation {
        root: &Root::from_pem(&answer.ca_pem).unwrap(),
        node_id: &request.node_id,
        task_id: Some(&request.task_id),
        hostname: &request.hostname,
        fingerprint: &request.public_key_fingerprint,
        csr_sha256: &lucia_proto::base::digest::Digest::of(&csr),
        now: NOW,
        current_bundle: None,
    });
    assert!(accepted.is_ok(), "{:?}", accepted.err());
}
