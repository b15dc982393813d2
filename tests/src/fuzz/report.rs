//! Everything that travels between agent and controller: reports, the envelopes around them, the replies.

use std::fmt::Debug;

use lucia_proto::base::code::ErrorBody;
use lucia_proto::base::limits::{ANSWER_MAX, BODY_MAX, DISCOVER_BODY_MAX, REPORT_MIN};
use lucia_proto::node::challenge::{Challenge, ChallengeId, NextChallenge, Nonce, signed_text};
use lucia_proto::node::first_contact::{Accepted, DeviceState, Discovered, Grant, Installation, Pending};
use lucia_proto::node::heartbeat::{Heartbeat, HeartbeatReply};
use lucia_proto::node::report::{
    BodyProof, DeviceCall, Discover, DiscoverCall, EnrollRequest, GrantRequest, HeaderProof, NodeCall, Progress, Proof,
    Purpose, Question, Report,
};

use super::{NODE, twice};

pub(super) fn run(input: &[u8]) {
    report::<Heartbeat>(input);
    report::<Discover>(input);
    report::<EnrollRequest>(input);
    report::<Progress>(input);
    report::<GrantRequest>(input);
    report::<Question>(input);
    report::<BodyProof>(input);

    twice::<NodeCall>(input, BODY_MAX);
    twice::<DeviceCall>(input, BODY_MAX);
    twice::<DiscoverCall>(input, DISCOVER_BODY_MAX);
    if let Ok(proof) = HeaderProof::from_header(input) {
        assert_eq!(HeaderProof::from_header(proof.to_header().as_bytes()).unwrap(), proof);
    }

    twice::<HeartbeatReply>(input, ANSWER_MAX);
    twice::<Challenge>(input, ANSWER_MAX);
    twice::<Discovered>(input, ANSWER_MAX);
    twice::<DeviceState>(input, ANSWER_MAX);
    twice::<Installation>(input, ANSWER_MAX);
    twice::<Grant>(input, ANSWER_MAX);
    twice::<Accepted>(input, ANSWER_MAX);
    twice::<Pending>(input, ANSWER_MAX);
    twice::<ErrorBody>(input, ANSWER_MAX);
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(next) = NextChallenge::from_header(text)
    {
        assert_eq!(NextChallenge::from_header(&next.to_header()).unwrap(), next);
        let (id, nonce) = (&next.challenge_id, &next.nonce);
        // The three line ends that frame what is signed are the only ones.
        let framed = signed_text(id, nonce, "");
        assert_eq!(framed.iter().filter(|byte| **byte == b'\n').count(), 3, "{framed:?}");
    }
}

/// A report, and the same signed: it is believed exactly for its own node and purpose.
fn report<T: Report + PartialEq + Debug>(input: &[u8]) {
    let Some(report) = twice::<T>(input, T::MAX) else { return };
    if input.len() < REPORT_MIN {
        return;
    }
    let nonce = Nonce::from_bytes(&[7; 32]);
    let challenge_id = ChallengeId::from_parts(1_800_000_000_000, 7);
    let report_json = String::from_utf8(input.to_vec()).unwrap();
    let signature = NODE.key.sign(&signed_text(&challenge_id, &nonce, &report_json)).to_text();
    let proof = Proof { challenge_id, report_json, signature };
    let other = &NODE.node_id;
    for purpose in [
        Purpose::Discover,
        Purpose::DeviceState,
        Purpose::Installation,
        Purpose::Grant,
        Purpose::Progress,
        Purpose::Enroll,
        Purpose::Heartbeat,
        Purpose::Renew,
    ] {
        let right = report.purpose() == purpose && T::PURPOSES.contains(&purpose);
        let verified = proof.verify::<T>(&nonce, NODE.key.public(), report.node_id(), purpose);
        assert_eq!(verified.is_ok(), right, "{purpose:?}: {verified:?}");
        if report.node_id() != other {
            assert!(proof.verify::<T>(&nonce, NODE.key.public(), other, purpose).is_err(), "another node's");
        }
    }
}
