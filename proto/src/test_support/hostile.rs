//! Leaves, chains and answers that must be refused: threats.md C-9 and C-10.

use std::time::Duration;

use super::hostile_csr::wrong_keys;
use super::spec::{CertificateSpec, basic_constraints, chain_pem, usages, utc, validity};
use super::{TestCa, TestNode, key};
use crate::base::der::{
    BASIC_CONSTRAINTS, BIT_STRING, BOOLEAN, CLIENT_AUTH, DNS_NAME, EXTENDED_KEY_USAGE, IP_ADDRESS, KEY_USAGE,
    NAME_CONSTRAINTS, OCTET_STRING, OID, SEQUENCE, SERVER_AUTH, SUBJECT_ALT_NAME, UTF8_STRING, bit_string, common_name,
    constructed, extension, sequence, tlv,
};
use crate::base::ids::TaskId;
use crate::base::time::UnixTime;
use crate::node::answer::SignedAnswer;
use crate::pki::bundle::SignedBundle;
use crate::pki::certificate::{Leaf, LeafRules};
use crate::pki::chain::{self, Root, Usage};
use crate::pki::general_names::one_dns;

const HOUR: Duration = Duration::from_secs(3600);
const GENERALIZED_TIME: u8 = 0x18;
const NULL: u8 = 0x05;
/// 1.3.6.1.4.1.99999.1
const UNKNOWN: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x86, 0x8d, 0x1f, 0x01];
/// 1.3.6.1.5.5.7.3.3
const CODE_SIGNING: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x03];
/// 2.5.29.37.0
const ANY_USAGE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];

/// An input that must be refused, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hostile {
    /// threats.md id and case.
    pub name: &'static str,
    /// What `field()` of the error must say.
    pub field: &'static str,
    /// The input.
    pub pem: String,
}

/// What our own checks say to a chain: rules of the leaf, then the path to the root at `now`.
///
/// # Errors
/// What `field()` of the error says.
pub fn judge_leaf(pem: &str, rules: &LeafRules<'_>, root: &Root, now: UnixTime) -> Result<(), &'static str> {
    let leaf = Leaf::parse(pem).and_then(|leaf| leaf.check(rules)).map_err(|error| error.field())?;
    chain::verify(&leaf, std::slice::from_ref(root), now, Usage::Client).map_err(|error| error.field())?;
    Ok(())
}

/// Chains that no program may take for this node at `now`.
#[must_use]
pub fn hostile_leaves(ca: &TestCa, node: &TestNode, now: UnixTime) -> Vec<Hostile> {
    let mut out = texts(ca, node, now);
    out.extend(leaves(ca, node, now));
    out.extend(extensions(ca, node, now));
    out.extend(encodings(ca, node, now));
    out.extend(chains(ca, node, now));
    out.extend(authorities(ca, node, now));
    out
}

fn texts(ca: &TestCa, node: &TestNode, now: UnixTime) -> Vec<Hostile> {
    let pem = ca.issue(node, now);
    [
        ("C-1 empty", String::new()),
        ("C-1 wrong label", pem.replace("CERTIFICATE", "X509 CERTIFICATE")),
        ("C-1 text between", pem.replacen("-----\n-----", "-----\n0 s:CN = x\n-----", 1)),
        ("C-1 CRLF", pem.replace('\n', "\r\n")),
        ("C-1 one megabyte", format!("{pem}{}", "\n".repeat(1 << 20))),
        ("C-9 chain of five", format!("{pem}{}", ca.issuing_pem().repeat(3))),
    ]
    .into_iter()
    .map(|(name, pem)| Hostile { name, field: "pem", pem })
    .collect()
}

fn leaves(ca: &TestCa, node: &TestNode, now: UnixTime) -> Vec<Hostile> {
    let case = |name, field, change: &dyn Fn(&mut CertificateSpec)| {
        let mut spec = ca.leaf_spec(node, now);
        change(&mut spec);
        Hostile { name, field, pem: ca.finish(&spec) }
    };
    let (id, host) = (node.node_id.as_str(), node.hostname.as_str());
    let from = now.minus(HOUR);
    let subject = |text: &str| common_name(UTF8_STRING, text);
    let serial = |bytes: &[u8]| tlv(0x02, bytes);
    let parts =
        |names: &[&[u8]]| sequence(&names.iter().map(|name| name.get(2..).unwrap_or_default()).collect::<Vec<_>>());
    let mut out = vec![
        case("C-9 CN and SAN swapped", "subject", &|spec| {
            spec.subject = subject(host);
            spec.replace(SUBJECT_ALT_NAME, Some(extension(SUBJECT_ALT_NAME, false, &one_dns(id))));
        }),
        case("C-9 subject empty", "subject", &|spec| spec.subject = sequence(&[])),
        case("C-9 another node's CN", "subject", &|spec| spec.subject = subject(TestNode::new(98).node_id.as_str())),
        case("C-9 CN in upper case", "subject", &|spec| spec.subject = subject(&id.to_uppercase())),
        case("C-9 two CNs", "subject", &|spec| spec.subject = parts(&[&subject(id), &subject("admin")])),
        case("C-9 lifetime one second over 169 h", "validity", &|spec| {
            spec.validity = validity(from, from.plus(HOUR * 169 + Duration::from_secs(1)));
        }),
        case("C-9 lifetime 170 h", "validity", &|spec| spec.validity = validity(from, from.plus(HOUR * 170))),
        case("C-9 validity backwards", "validity", &|spec| spec.validity = validity(now, from)),
        case("C-9 not yet valid", "not yet valid", &|spec| {
            spec.validity = validity(now.plus(Duration::from_secs(1)), now.plus(HOUR));
        }),
        case("C-9 over", "expired", &|spec| spec.validity = validity(from, now.minus(Duration::from_secs(1)))),
        case("C-9 another key", "subjectPublicKey", &|spec| spec.key = key(99).public().der().to_vec()),
        case("C-9 version 1", "version", &|spec| spec.version = Vec::new()),
        case("C-9 version 2", "version", &|spec| spec.version = tlv(0xa0, &serial(&[1]))),
        case("C-9 serial 0", "serialNumber", &|spec| spec.serial = serial(&[0])),
        case("C-9 serial negative", "serialNumber", &|spec| spec.serial = serial(&[0x80, 1])),
        case("C-9 serial of 21 bytes", "serialNumber", &|spec| spec.serial = serial(&[1; 21])),
        case("C-9 issuer unique id", "uniqueID", &|spec| spec.unique_ids = tlv(0x81, &[0, 1])),
        case("C-9 subject unique id", "uniqueID", &|spec| spec.unique_ids = tlv(0x82, &[0, 1])),
        case("C-9 algorithms differ", "signatureAlgorithm", &|spec| {
            spec.algorithm = sequence(&[&tlv(OID, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03])]);
        }),
        case("C-9 outer algorithm with NULL", "signatureAlgorithm", &|spec| {
            spec.outer_algorithm = sequence(&[&tlv(OID, crate::base::der::ECDSA_WITH_SHA256), &[NULL, 0]]);
        }),
    ];
    out.extend(
        wrong_keys(node.key.public().der())
            .into_iter()
            .map(|(name, spki)| case(name, "subjectPublicKey", &|spec| spec.key.clone_from(&spki))),
    );
    out
}

fn extensions(ca: &TestCa, node: &TestNode, now: UnixTime) -> Vec<Hostile> {
    let case = |name, field, oid: &[u8], critical, value: Option<Vec<u8>>| {
        let mut spec = ca.leaf_spec(node, now);
        spec.replace(oid, value.map(|value| extension(oid, critical, &value)));
        Hostile { name, field, pem: ca.finish(&spec) }
    };
    let twice = |name, oid: &[u8], value: &[u8]| {
        let mut spec = ca.leaf_spec(node, now);
        spec.replace(oid, None);
        spec.extensions.extend([extension(oid, false, value), extension(oid, false, value)]);
        Hostile { name, field: "extensions", pem: ca.finish(&spec) }
    };
    let host = node.hostname.as_str();
    let dns = |names: &[&str]| {
        Some(tlv(SEQUENCE, &names.iter().flat_map(|name| tlv(DNS_NAME, name.as_bytes())).collect::<Vec<_>>()))
    };
    let with_address = sequence(&[&tlv(DNS_NAME, host.as_bytes()), &tlv(IP_ADDRESS, &[192, 0, 2, 1])]);
    let bits = |bytes: &[u8]| Some(tlv(BIT_STRING, bytes));
    let (san, ku, eku, bc) = (SUBJECT_ALT_NAME, KEY_USAGE, EXTENDED_KEY_USAGE, BASIC_CONSTRAINTS);
    vec![
        case("C-9 no SAN", "subjectAltName", san, false, None),
        case("C-9 another name", "subjectAltName", san, false, dns(&["other"])),
        case("C-9 two names", "subjectAltName", san, false, dns(&[host, "other"])),
        case("C-9 the name twice", "subjectAltName", san, false, dns(&[host, host])),
        case("C-9 wildcard", "subjectAltName", san, false, dns(&["*"])),
        case("C-9 name in upper case", "subjectAltName", san, false, dns(&[&host.to_uppercase()])),
        case("C-9 an address besides", "subjectAltName", san, false, Some(with_address)),
        case("C-9 SAN of no names", "subjectAltName", san, false, dns(&[])),
        case("C-9 CA", "basicConstraints", bc, true, Some(basic_constraints(None))),
        case("C-9 CA with path length", "basicConstraints", bc, true, Some(basic_constraints(Some(0)))),
        case("C-9 CA not critical", "basicConstraints", bc, false, Some(basic_constraints(None))),
        case("C-9 CA false written out", "basicConstraints", bc, true, Some(sequence(&[&tlv(BOOLEAN, &[0])]))),
        case("C-9 no keyUsage", "keyUsage", ku, true, None),
        case("C-9 keyCertSign", "keyUsage", ku, true, bits(&[2, 0x04])),
        case("C-9 digitalSignature and keyCertSign", "keyUsage", ku, true, bits(&[2, 0x84])),
        case("C-9 keyEncipherment besides", "keyUsage", ku, true, bits(&[5, 0xa0])),
        case("C-9 no usage bit", "keyUsage", ku, true, bits(&[0])),
        case("C-9 usage bits with zeros", "keyUsage", ku, true, bits(&[0, 0x80])),
        case("C-9 no EKU", "extKeyUsage", eku, false, None),
        case("C-9 empty EKU", "extKeyUsage", eku, false, Some(usages(&[]))),
        case("C-9 serverAuth alone", "extKeyUsage", eku, false, Some(usages(&[SERVER_AUTH]))),
        case("C-9 codeSigning besides", "extKeyUsage", eku, false, Some(usages(&[CLIENT_AUTH, CODE_SIGNING]))),
        case("C-9 clientAuth twice", "extKeyUsage", eku, false, Some(usages(&[CLIENT_AUTH, CLIENT_AUTH]))),
        case("C-9 any usage", "extKeyUsage", eku, false, Some(usages(&[ANY_USAGE]))),
        case("C-9 EKU as a SET", "extKeyUsage", eku, false, Some(tlv(0x31, &tlv(OID, CLIENT_AUTH)))),
        case("C-9 EKU of a string", "extKeyUsage", eku, false, Some(sequence(&[&tlv(UTF8_STRING, CLIENT_AUTH)]))),
        case(
            "C-9 EKU with trailing bytes",
            "extKeyUsage",
            eku,
            false,
            Some([usages(&[CLIENT_AUTH]), vec![0]].concat()),
        ),
        case("C-9 unknown critical extension", "critical extension", UNKNOWN, true, Some(vec![NULL, 0])),
        twice("C-9 SAN twice", san, &one_dns(host)),
        twice("C-9 EKU twice", eku, &usages(&[CLIENT_AUTH])),
        twice("C-9 unknown extension twice", UNKNOWN, &[NULL, 0]),
    ]
}

fn encodings(ca: &TestCa, node: &TestNode, now: UnixTime) -> Vec<Hostile> {
    let spec = ca.leaf_spec(node, now);
    let der = spec.sign(&ca.issuing_key);
    let content = crate::base::der::content(SEQUENCE, &der).unwrap_or_default();
    let [.., high, low] = content.len().to_be_bytes();
    let raw = |name, field, der: &[u8]| Hostile { name, field, pem: chain_pem(&[der, &ca.issuing_der]) };
    let mut generalized = spec.clone();
    let time = |at| tlv(GENERALIZED_TIME, format!("20{}", utc(at)).as_bytes());
    generalized.validity = sequence(&[&time(now), &time(now.plus(HOUR))]);
    let mut default_written = spec.clone();
    let san = sequence(&[
        &tlv(OID, SUBJECT_ALT_NAME),
        &tlv(BOOLEAN, &[0]),
        &tlv(OCTET_STRING, &one_dns(node.hostname.as_str())),
    ]);
    default_written.replace(SUBJECT_ALT_NAME, Some(san));
    let mut other_true = spec;
    let usage = tlv(OCTET_STRING, &tlv(BIT_STRING, &[7, 0x80]));
    other_true.replace(KEY_USAGE, Some(sequence(&[&tlv(OID, KEY_USAGE), &tlv(BOOLEAN, &[1]), &usage])));
    vec![
        raw("C-2 no bytes", "pem", &[]),
        raw("C-2 trailing DER", "der", &[der.as_slice(), &[NULL, 0]].concat()),
        raw("C-2 cut", "der", der.get(..der.len().saturating_sub(1)).unwrap_or_default()),
        raw("C-2 long length", "der", &[&[SEQUENCE, 0x83, 0, high, low], content].concat()),
        raw("C-2 indefinite length", "der", &[&[SEQUENCE, 0x80], content, &[0, 0]].concat()),
        raw("C-2 GeneralizedTime before 2050", "canonical", &generalized.sign(&ca.issuing_key)),
        raw("C-2 default written out", "canonical", &default_written.sign(&ca.issuing_key)),
        raw("C-2 true as 1", "der", &other_true.sign(&ca.issuing_key)),
    ]
}

fn chains(ca: &TestCa, node: &TestNode, now: UnixTime) -> Vec<Hostile> {
    let spec = ca.leaf_spec(node, now);
    let leaf = spec.sign(&ca.issuing_key);
    let other = TestCa::with_keys(now, 211);
    let other_leaf = spec.sign(&other.issuing_key);
    let mut self_signed = spec.clone();
    self_signed.issuer.clone_from(&spec.subject);
    let self_signed = self_signed.sign(&node.key);
    let mut by_root = spec.clone();
    by_root.issuer = common_name(UTF8_STRING, TestCa::ROOT);
    let by_root = by_root.sign(&ca.root_key);
    // Another node's leaf, used as if it could issue.
    let thief = TestNode::new(97);
    let thief_leaf = ca.leaf_spec(&thief, now).sign(&ca.issuing_key);
    let mut by_leaf = spec.clone();
    by_leaf.issuer = common_name(UTF8_STRING, thief.node_id.as_str());
    let by_leaf = by_leaf.sign(&thief.key);
    let mut wrong_signature = leaf.clone();
    if let Some(last) = wrong_signature.last_mut() {
        *last ^= 1;
    }
    let look_alikes: Vec<Vec<u8>> = (0..3).map(|at| TestCa::with_keys(now, 221 + 3 * at).issuing_der).collect();
    let mut crowd: Vec<&[u8]> = vec![&leaf];
    crowd.extend(look_alikes.iter().map(Vec::as_slice));
    let case = |name, field, chain: &[&[u8]]| Hostile { name, field, pem: chain_pem(chain) };
    vec![
        case("C-9 leaf alone", "too short", &[&leaf]),
        case("C-9 leaf twice", "issuer", &[&leaf, &leaf]),
        case("C-9 self-signed", "path", &[&self_signed, &ca.issuing_der]),
        case("C-9 self-signed, as its own issuer", "issuer", &[&self_signed, &self_signed]),
        case("C-9 signed by the root itself", "path length", &[&by_root, &ca.issuing_der]),
        case("C-9 leaf as issuer", "issuer", &[&by_leaf, &thief_leaf, &ca.issuing_der]),
        case("C-9 chain to another root", "path", &[&other_leaf, &other.issuing_der]),
        case("C-9 chain to another root, root included", "path", &[&other_leaf, &other.issuing_der, &other.root_der]),
        case("C-9 issuing CA of the right name, another key", "path", &[&other_leaf, &ca.issuing_der]),
        case("C-9 signature of the leaf changed", "path", &[&wrong_signature, &ca.issuing_der]),
        case("C-10 three look-alike authorities", "path", &crowd),
        case("C-9 issuing CA first", "subjectPublicKey", &[&ca.issuing_der, &leaf]),
    ]
}

fn authorities(ca: &TestCa, node: &TestNode, now: UnixTime) -> Vec<Hostile> {
    let from = now.minus(HOUR);
    let leaf = ca.leaf_spec(node, now).sign(&ca.issuing_key);
    let spec =
        CertificateSpec::authority(TestCa::ROOT, TestCa::ISSUING, ca.issuing_key.public(), from, from.plus(HOUR * 9));
    let case = |name, field, change: &dyn Fn(&mut CertificateSpec)| {
        let mut spec = spec.clone();
        change(&mut spec);
        Hostile { name, field, pem: chain_pem(&[&leaf, &spec.sign(&ca.root_key)]) }
    };
    let constraints = |kind: u8, name: &str| {
        let subtree = sequence(&[&tlv(DNS_NAME, name.as_bytes())]);
        extension(NAME_CONSTRAINTS, true, &sequence(&[&constructed(kind, &[&subtree])]))
    };
    // Two authorities below a first one that allows none.
    let middle_key = key(231);
    let mut middle = CertificateSpec::authority(TestCa::ROOT, "Middle", middle_key.public(), from, from.plus(HOUR * 9));
    middle.replace(BASIC_CONSTRAINTS, Some(extension(BASIC_CONSTRAINTS, true, &basic_constraints(Some(0)))));
    let mut below = spec.clone();
    below.issuer = common_name(UTF8_STRING, "Middle");
    let too_long = chain_pem(&[&leaf, &below.sign(&middle_key), &middle.sign(&ca.root_key)]);
    let mut wrong_signature = ca.issuing_der.clone();
    if let Some(last) = wrong_signature.last_mut() {
        *last ^= 1;
    }
    vec![
        Hostile { name: "C-10 path length", field: "path", pem: too_long },
        Hostile {
            name: "C-10 signature of the authority changed",
            field: "path",
            pem: chain_pem(&[&leaf, &wrong_signature]),
        },
        case("C-10 authority over", "expired", &|spec| {
            spec.validity = validity(from, now.minus(Duration::from_secs(1)));
        }),
        case("C-10 authority not yet valid", "not yet valid", &|spec| {
            spec.validity = validity(now.plus(Duration::from_secs(1)), now.plus(HOUR));
        }),
        case("C-10 name constraints to another name", "path", &|spec| {
            spec.extensions.push(constraints(0xa0, "other"));
        }),
        case("C-10 name constraints against this name", "path", &|spec| {
            spec.extensions.push(constraints(0xa1, node.hostname.as_str()));
        }),
        case("C-10 name constraints of no subtrees", "issuer", &|spec| {
            spec.extensions.push(extension(NAME_CONSTRAINTS, true, &sequence(&[])));
        }),
        case("C-10 authority for servers only", "path", &|spec| {
            spec.extensions.push(extension(EXTENDED_KEY_USAGE, false, &usages(&[SERVER_AUTH])));
        }),
        case("C-10 authority with empty EKU", "path", &|spec| {
            spec.extensions.push(extension(EXTENDED_KEY_USAGE, false, &usages(&[])));
        }),
        case("C-10 no basicConstraints", "issuer", &|spec| spec.replace(BASIC_CONSTRAINTS, None)),
        case("C-10 basicConstraints not critical", "issuer", &|spec| {
            spec.replace(BASIC_CONSTRAINTS, Some(extension(BASIC_CONSTRAINTS, false, &basic_constraints(None))));
        }),
        case("C-10 CA false", "issuer", &|spec| {
            spec.replace(BASIC_CONSTRAINTS, Some(extension(BASIC_CONSTRAINTS, true, &sequence(&[]))));
        }),
        case("C-10 negative path length", "issuer", &|spec| {
            spec.replace(BASIC_CONSTRAINTS, Some(extension(BASIC_CONSTRAINTS, true, &basic_constraints(Some(0xff)))));
        }),
        case("C-10 no keyUsage", "issuer", &|spec| spec.replace(KEY_USAGE, None)),
        case("C-10 keyUsage without keyCertSign", "issuer", &|spec| {
            spec.replace(KEY_USAGE, Some(extension(KEY_USAGE, true, &tlv(BIT_STRING, &[1, 0x02]))));
        }),
        case("C-10 keyUsage empty", "issuer", &|spec| {
            spec.replace(KEY_USAGE, Some(extension(KEY_USAGE, true, &tlv(BIT_STRING, &[0]))));
        }),
        case("C-10 unknown critical extension", "issuer", &|spec| {
            spec.extensions.push(extension(UNKNOWN, true, &[NULL, 0]));
        }),
        case("C-10 extension twice", "issuer", &|spec| {
            spec.extensions.extend([extension(UNKNOWN, false, &[NULL, 0]), extension(UNKNOWN, false, &[NULL, 0])]);
        }),
        case("C-10 version 1", "issuer", &|spec| {
            spec.version = Vec::new();
            spec.extensions.clear();
        }),
        case("C-10 authority with RSA", "issuer", &|spec| {
            let modulus = sequence(&[&tlv(0x02, &[0x5a; 256]), &tlv(0x02, &[1, 0, 1])]);
            let rsa = tlv(OID, &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01]);
            spec.key = sequence(&[&sequence(&[&rsa, &[NULL, 0]]), &bit_string(&modulus)]);
        }),
        case("C-10 authority of another name", "path", &|spec| spec.subject = common_name(UTF8_STRING, "Other CA")),
    ]
}

/// Answers that this node must refuse at `now`, with what `field()` of the error says. The second of each pair is the
/// name; expected are the node's own CSR, task, name and key, and no bundle yet.
#[must_use]
pub fn hostile_answers(ca: &TestCa, node: &TestNode, now: UnixTime) -> Vec<(&'static str, &'static str, SignedAnswer)> {
    let other_node = TestNode::new(98);
    let other = TestCa::with_keys(now, 211);
    let good = ca.answer(node, now);
    let case = |name, field, change: &dyn Fn(&mut crate::node::answer::Answer)| {
        let mut answer = good.clone();
        change(&mut answer);
        (name, field, ca.sign_answer(&answer))
    };
    let signed = ca.sign_answer(&good);
    let payload = signed.parts().payload().to_vec();
    let untagged = ca.worker_key.sign_der(&payload);
    let mut spaced = payload.clone();
    spaced.push(b' ');
    let bundle = |change: &dyn Fn(&mut crate::pki::bundle::Bundle)| {
        let mut bundle = ca.bundle(1, now);
        change(&mut bundle);
        SignedBundle::sign(&bundle, &ca.root_key).unwrap_or_else(|error| unreachable!("{error}"))
    };
    vec![
        ("EN not JSON", "payload", SignedAnswer::from_parts(b"{".to_vec(), untagged.clone())),
        ("EN empty", "payload", SignedAnswer::from_parts(Vec::new(), Vec::new())),
        ("EN signed without the tag", "signature", SignedAnswer::from_parts(payload.clone(), untagged)),
        ("EN not signed", "signature", SignedAnswer::from_parts(payload, Vec::new())),
        ("EN a space more", "signature", SignedAnswer::from_parts(spaced, signed.parts().signature().to_vec())),
        ("EN signed by another worker", "signature", other.sign_answer(&good)),
        (
            "EN another root's bundle",
            "bundle",
            ca.sign_answer(&crate::node::answer::Answer { bundle: other.signed_bundle(1, now), ..good.clone() }),
        ),
        case("EN all of another CA, but the worker", "bundle", &|answer| *answer = other.answer(node, now)),
        case("EN bundle version 0", "bundle", &|answer| answer.bundle = ca.signed_bundle(0, now)),
        case("EN bundle with a foreign CA", "bundle", &|answer| {
            answer.bundle = bundle(&|bundle| bundle.issuing_cas.push(other.issuing_pem()));
        }),
        case("EN bundle without workers", "signature", &|answer| {
            answer.bundle = bundle(&|bundle| bundle.workers.clear());
        }),
        case("EN schema version 2", "schemaVersion", &|answer| answer.schema_version = 2),
        case("EN another node", "nodeId", &|answer| answer.node_id = other_node.node_id.clone()),
        case("EN another task", "taskId", &|answer| answer.task_id = TaskId::from_random([1; 16])),
        case("EN another CSR", "csrSha256", &|answer| answer.csr_sha256 = other_node.csr_sha256()),
        case("EN another name", "hostname", &|answer| answer.hostname = other_node.hostname.clone()),
        case("EN another root", "caPem", &|answer| answer.ca_pem = other.root_pem()),
        case("EN issuing CA as root", "caPem", &|answer| answer.ca_pem = ca.issuing_pem()),
        case("EN no root", "caPem", &|answer| answer.ca_pem = String::new()),
        case("EN another node's leaf", "certificatePem", &|answer| answer.certificate_pem = ca.issue(&other_node, now)),
        case("EN no leaf", "certificatePem", &|answer| answer.certificate_pem = String::new()),
        case("EN chain to another root", "certificatePem", &|answer| answer.certificate_pem = other.issue(node, now)),
        case("EN leaf over", "certificatePem", &|answer| {
            answer.certificate_pem = ca.issue(node, now.minus(HOUR * 200));
        }),
        case("EN leaf of tomorrow", "certificatePem", &|answer| {
            answer.certificate_pem = ca.issue(node, now.plus(HOUR * 24));
        }),
    ]
}
