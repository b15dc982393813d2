//! The bundle that the root signs, and the answer that the worker signs: signed by the right key whatever they say.

use std::sync::LazyLock;

use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::{ANSWER_MAX, BUNDLE_ENTRIES_MAX};
use lucia_proto::node::answer::{AnswerExpectation, SignedAnswer};
use lucia_proto::pki::bundle::{SignedBundle, VerifiedBundle, accept};
use lucia_proto::pki::key::NodePublicKey;
use serde_json::Value;

use super::{CA, NODE, NOW, ROOT, twice};

/// The bundle that is known already.
static KNOWN: LazyLock<VerifiedBundle> = LazyLock::new(|| CA.signed_bundle(5, NOW).verify(&ROOT).unwrap());
/// What the node asked.
static CSR: LazyLock<Digest> = LazyLock::new(|| NODE.csr_sha256());

/// The bytes are the payload, or the whole with its signature.
pub(super) fn run(input: &[u8]) {
    if let Some(signed) = twice::<SignedBundle>(input, ANSWER_MAX) {
        bundle(&signed);
        answer(&SignedAnswer::from_parts(signed.parts().payload().to_vec(), signed.parts().signature().to_vec()));
    }
    bundle(&SignedBundle::from_parts(input.to_vec(), CA.root_key.sign_der(input)));
    let text = [b"lucia-answer-v1\n", input].concat();
    answer(&SignedAnswer::from_parts(input.to_vec(), CA.worker_key.sign_der(&text)));
}

fn bundle(signed: &SignedBundle) {
    let Ok(verified) = signed.verify(&ROOT) else { return };
    let value: Value = serde_json::from_slice(signed.parts().payload()).unwrap();
    assert!(verified.bundle().version > 0);
    assert_eq!(value["version"].as_u64(), Some(verified.bundle().version));
    let list = |name: &str| value[name].as_array().cloned().unwrap_or_default();
    let is = |name: &str, keys: &[NodePublicKey]| {
        assert_eq!(list(name).len(), keys.len(), "{name}");
        for (text, key) in list(name).iter().zip(keys) {
            assert_eq!(&NodePublicKey::from_pem(text.as_str().unwrap()).unwrap(), key);
            assert!(keys.len() <= BUNDLE_ENTRIES_MAX);
        }
    };
    is("workers", verified.workers());
    is("release_keys", verified.release_keys());
    assert_eq!(list("issuing_cas").len(), verified.issuing_cas().count());
    for (text, der) in list("issuing_cas").iter().zip(verified.issuing_cas()) {
        assert_eq!(lucia_proto::base::pem::one(text.as_str().unwrap(), "CERTIFICATE", usize::MAX).unwrap(), der);
        assert_ne!(der, CA.root_der, "the root itself");
    }
    versions(&verified);
    // The same, read from its own bytes.
    let text = serde_json::to_vec(signed).unwrap();
    if text.len() <= ANSWER_MAX {
        assert_eq!(twice::<SignedBundle>(&text, ANSWER_MAX).as_ref(), Some(signed));
    }
}

/// A version only rises.
fn versions(verified: &VerifiedBundle) {
    let taken = accept(Some(&KNOWN), verified.clone()).is_ok();
    let version = verified.bundle().version;
    assert_eq!(taken, version > 5 || (version == 5 && *verified == *KNOWN), "version {version}");
}

fn answer(signed: &SignedAnswer) {
    let csr_sha256 = *CSR;
    let Ok(accepted) = signed.accept(&AnswerExpectation {
        root: &ROOT,
        node_id: &NODE.node_id,
        task_id: Some(&NODE.task_id),
        hostname: &NODE.hostname,
        fingerprint: &NODE.fingerprint,
        csr_sha256: &csr_sha256,
        now: NOW,
        current_bundle: None,
    }) else {
        return;
    };
    let value: Value = serde_json::from_slice(signed.parts().payload()).unwrap();
    for (field, want) in [
        ("nodeId", NODE.node_id.as_str()),
        ("taskId", NODE.task_id.as_str()),
        ("hostname", NODE.hostname.as_str()),
        ("csrSha256", csr_sha256.to_string().as_str()),
        ("certificatePem", accepted.leaf().pem().as_str()),
    ] {
        assert_eq!(value[field].as_str(), Some(want), "{field}");
    }
    assert_eq!(value["schemaVersion"].as_u64(), Some(1));
    let directory = ["ldapUri", "ldapBaseDn", "ldapBindDn", "ldapBindPasswordSealed", "ownerGroupDn"];
    let there = directory.iter().filter(|name| !value[**name].is_null()).count();
    assert!(there == 0 || there == directory.len(), "half a directory");
    assert_eq!(accepted.chain().leaf_sha256(), accepted.leaf().sha256());
    assert_eq!(accepted.bundle().signed(), &accepted.answer().bundle);
}
