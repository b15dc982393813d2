//! Requests that must be refused: threats.md C-1 to C-6 and C-8.

use super::hostile::Hostile;
use super::spec::{CsrSpec, attributes, request, usages};
use super::{TestNode, key};
use crate::base::der::{
    BASIC_CONSTRAINTS, BIT_STRING, BOOLEAN, COMMON_NAME, DNS_NAME, EXTENDED_KEY_USAGE, INTEGER, KEY_USAGE, OID,
    PRINTABLE_STRING, SEQUENCE, SERVER_AUTH, SET, SUBJECT_ALT_NAME, UTF8_STRING, bit_string, common_name, constructed,
    ecdsa_with_sha256, extension, sequence, tlv,
};
use crate::base::pem;
use crate::pki::csr::LABEL;
use crate::pki::general_names::one_dns;

const T61_STRING: u8 = 0x14;
const BMP_STRING: u8 = 0x1e;
const IA5_STRING: u8 = 0x16;
const NULL: u8 = 0x05;
/// 2.5.4.10
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
/// 1.2.840.113549.1.9.1
const EMAIL_ADDRESS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x01];
/// 1.2.840.113549.1.9.7
const CHALLENGE_PASSWORD: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x07];
/// 1.3.6.1.4.1.99999.1
const UNKNOWN: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x86, 0x8d, 0x1f, 0x01];
/// 1.2.840.10045.4.3.3
const ECDSA_WITH_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03];

/// Requests that no program may take for this node, each with the field it is refused for.
#[must_use]
pub fn hostile_csrs(node: &TestNode) -> Vec<Hostile> {
    let mut out = texts(node);
    out.extend(encodings(node));
    out.extend(subjects(node));
    out.extend(names(node));
    out.extend(attribute_sets(node));
    out.extend(keys(node));
    out
}

fn good(node: &TestNode) -> CsrSpec {
    CsrSpec::new(node.node_id.as_str(), node.hostname.as_str(), node.key.public())
}

fn hostile(name: &'static str, field: &'static str, der: &[u8]) -> Hostile {
    Hostile { name, field, pem: pem::encode(der, LABEL) }
}

/// The good request with one part changed, rightly signed.
fn changed(node: &TestNode, name: &'static str, field: &'static str, change: impl FnOnce(&mut CsrSpec)) -> Hostile {
    let mut spec = good(node);
    change(&mut spec);
    hostile(name, field, &spec.sign(&node.key))
}

fn texts(node: &TestNode) -> Vec<Hostile> {
    let block = node.csr();
    [
        ("C-1 empty", String::new()),
        ("C-1 not PEM", "certificate, please".to_owned()),
        ("C-1 wrong label", block.replace("CERTIFICATE REQUEST", "CERTIFICATE")),
        ("C-1 old label", block.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST")),
        ("C-1 two blocks", block.repeat(2)),
        ("C-1 text before", format!("subject=/CN=x\n{block}")),
        ("C-1 text after", format!("{block}trailer\n")),
        ("C-1 CRLF", block.replace('\n', "\r\n")),
        ("C-1 one megabyte", format!("{block}{}", "A".repeat(1 << 20))),
        ("C-1 one megabyte of line ends", format!("{block}{}", "\n".repeat(1 << 20))),
        ("C-1 headers", block.replacen("-----\n", "-----\nProc-Type: 4,ENCRYPTED\n\n", 1)),
        ("C-1 DER", "0\u{81}\u{2}".to_owned()),
    ]
    .into_iter()
    .map(|(name, pem)| Hostile { name, field: "pem", pem })
    .collect()
}

fn encodings(node: &TestNode) -> Vec<Hostile> {
    let spec = good(node);
    let der = spec.sign(&node.key);
    let info = spec.info();
    let content = crate::base::der::content(SEQUENCE, &der).unwrap_or_default();
    let [.., high, low] = content.len().to_be_bytes();
    let signature = |bytes: &[u8]| sequence(&[&info, &ecdsa_with_sha256(), &tlv(BIT_STRING, bytes)]);
    let signed = [&[0_u8], node.key.sign_der(&info).as_slice()].concat();
    let mut flipped = signed.clone();
    if let Some(last) = flipped.last_mut() {
        *last ^= 1;
    }
    let mut unused_bit = signed.clone();
    if let Some(first) = unused_bit.first_mut() {
        *first = 1;
    }
    vec![
        hostile("C-2 no bytes", "pem", &[]),
        hostile("C-2 trailing DER", "der", &[der.as_slice(), &[NULL, 0]].concat()),
        hostile("C-2 cut", "der", der.get(..der.len().saturating_sub(1)).unwrap_or_default()),
        hostile("C-2 long length", "der", &[&[SEQUENCE, 0x83, 0, high, low], content].concat()),
        hostile("C-2 indefinite length", "der", &[&[SEQUENCE, 0x80], content, &[0, 0]].concat()),
        hostile("C-2 a SET outside", "structure", &[&[SET], der.get(1..).unwrap_or_default()].concat()),
        hostile("C-2 a SET inside", "structure", &{
            let set = [&[SET], info.get(1..).unwrap_or_default()].concat();
            sequence(&[&set, &ecdsa_with_sha256(), &bit_string(&node.key.sign_der(&set))])
        }),
        hostile("C-2 four parts", "structure", &sequence(&[content, &[NULL, 0]])),
        changed(node, "C-2 negative version", "version", |spec| spec.version = tlv(INTEGER, &[0xff])),
        changed(node, "C-2 version 1", "version", |spec| spec.version = tlv(INTEGER, &[1])),
        changed(node, "C-2 version in two bytes", "version", |spec| spec.version = tlv(INTEGER, &[0, 0])),
        changed(node, "C-2 no attributes", "structure", |spec| spec.attributes = Vec::new()),
        changed(node, "C-2 algorithm with NULL", "signatureAlgorithm", |spec| {
            spec.algorithm = sequence(&[&tlv(OID, crate::base::der::ECDSA_WITH_SHA256), &[NULL, 0]]);
        }),
        changed(node, "C-2 SHA-384 named", "signatureAlgorithm", |spec| {
            spec.algorithm = sequence(&[&tlv(OID, ECDSA_WITH_SHA384)]);
        }),
        hostile("C-2 signature changed", "signature", &signature(&flipped)),
        hostile("C-2 signature by another key", "signature", &spec.sign(&key(99))),
        hostile(
            "C-2 signature over something else",
            "signature",
            &signature(&[&[0], &*node.key.sign_der(b"x")].concat()),
        ),
        hostile("C-2 signature with an unused bit", "signature", &signature(&unused_bit)),
        hostile("C-2 signature empty", "signature", &signature(&[])),
        hostile("C-2 signature of no bytes", "signature", &signature(&[0])),
        hostile("C-2 signature with trailing bytes", "signature", &signature(&[&*signed, &[0]].concat())),
        hostile(
            "C-2 signature as OCTET STRING",
            "signature",
            &sequence(&[&info, &ecdsa_with_sha256(), &tlv(4, &signed)]),
        ),
        hostile("C-2 r = s = 0", "signature", &signature(&[0, 0x30, 6, 2, 1, 0, 2, 1, 0])),
    ]
}

fn attribute(oid: &[u8], tag: u8, text: &[u8]) -> Vec<u8> {
    sequence(&[&tlv(OID, oid), &tlv(tag, text)])
}

fn rdn(pairs: &[&[u8]]) -> Vec<u8> {
    constructed(SET, pairs)
}

fn subjects(node: &TestNode) -> Vec<Hostile> {
    let id = node.node_id.as_str();
    let cn = attribute(COMMON_NAME, UTF8_STRING, id.as_bytes());
    let other = attribute(COMMON_NAME, UTF8_STRING, b"admin");
    let organization = attribute(ORGANIZATION, UTF8_STRING, b"Lucia");
    let email = attribute(EMAIL_ADDRESS, IA5_STRING, b"a@b");
    let wide: Vec<u8> = id.encode_utf16().flat_map(u16::to_be_bytes).collect();
    [
        ("C-3 empty subject", sequence(&[])),
        ("C-3 two common names", sequence(&[&rdn(&[&cn]), &rdn(&[&other])])),
        ("C-3 the same common name twice", sequence(&[&rdn(&[&cn]), &rdn(&[&cn])])),
        ("C-3 two common names in one RDN", sequence(&[&rdn(&[&other, &cn])])),
        ("C-3 organization in the RDN", sequence(&[&rdn(&[&cn, &organization])])),
        ("C-3 extra organization", sequence(&[&rdn(&[&organization]), &rdn(&[&cn])])),
        ("C-3 extra e-mail", sequence(&[&rdn(&[&cn]), &rdn(&[&email])])),
        ("C-3 PrintableString", common_name(PRINTABLE_STRING, id)),
        ("C-3 T61String", common_name(T61_STRING, id)),
        ("C-3 BMPString", sequence(&[&rdn(&[&attribute(COMMON_NAME, BMP_STRING, &wide)])])),
        ("C-3 NUL", common_name(UTF8_STRING, &format!("{id}\0"))),
        ("C-3 upper case", common_name(UTF8_STRING, &id.to_uppercase())),
        ("C-3 space before", common_name(UTF8_STRING, &format!(" {id}"))),
        ("C-3 space after", common_name(UTF8_STRING, &format!("{id} "))),
        ("C-3 dot after", common_name(UTF8_STRING, &format!("{id}."))),
        ("C-3 another node", common_name(UTF8_STRING, TestNode::new(98).node_id.as_str())),
        ("C-3 hostname", common_name(UTF8_STRING, node.hostname.as_str())),
        ("C-3 organization alone", sequence(&[&rdn(&[&attribute(ORGANIZATION, UTF8_STRING, id.as_bytes())])])),
    ]
    .into_iter()
    .map(|(name, subject)| changed(node, name, "subject", |spec| spec.subject = subject))
    .collect()
}

fn dns(text: &str) -> Vec<u8> {
    tlv(DNS_NAME, text.as_bytes())
}

fn names(node: &TestNode) -> Vec<Hostile> {
    let host = node.hostname.as_str();
    let with = |tag: u8, value: &[u8]| vec![dns(host), tlv(tag, value)];
    let other_name = [tlv(OID, UNKNOWN), constructed(0xa0, &[&tlv(UTF8_STRING, b"x")])].concat();
    let directory = common_name(UTF8_STRING, "admin");
    let long = format!("{}{}", "a.".repeat(126), "aa");
    [
        ("C-4 no name", vec![]),
        ("C-4 two names", vec![dns(host), dns("other")]),
        ("C-4 the same name twice", vec![dns(host), dns(host)]),
        ("C-4 another name", vec![dns("other")]),
        ("C-4 wildcard", vec![dns("*")]),
        ("C-4 upper case and a dot", vec![dns("H1.Example.")]),
        ("C-4 upper case", vec![dns(&host.to_uppercase())]),
        ("C-4 dot after", vec![dns(&format!("{host}."))]),
        ("C-4 leading dot", vec![dns(&format!(".{host}"))]),
        ("C-4 address as a name", vec![dns("192.0.2.1")]),
        ("C-4 underscore", vec![dns("n_1")]),
        ("C-4 254 bytes", vec![dns(&long)]),
        ("C-4 punycode", vec![dns("xn--n-1ga")]),
        ("C-4 letters beyond ASCII", vec![dns("nö")]),
        ("C-4 NUL", vec![dns(&format!("{host}\0"))]),
        ("C-4 empty name", vec![dns("")]),
        ("C-5 URI", with(0x86, b"spiffe://a/b")),
        ("C-5 address", with(0x87, &[192, 0, 2, 1])),
        ("C-5 e-mail", with(0x81, b"a@b")),
        ("C-5 other name", with(0xa0, &other_name)),
        ("C-5 directory name", with(0xa4, &directory)),
        ("C-5 registered id", with(0x88, UNKNOWN)),
        ("C-5 URI alone", vec![tlv(0x86, b"spiffe://a/b")]),
    ]
    .into_iter()
    .map(|(name, names)| {
        let san = extension(SUBJECT_ALT_NAME, false, &tlv(SEQUENCE, &names.concat()));
        changed(node, name, "subjectAltName", |spec| spec.attributes = attributes(&[request(&[san])]))
    })
    .collect()
}

fn attribute_sets(node: &TestNode) -> Vec<Hostile> {
    let san = extension(SUBJECT_ALT_NAME, false, &one_dns(node.hostname.as_str()));
    let critical_san = extension(SUBJECT_ALT_NAME, true, &one_dns(node.hostname.as_str()));
    let explicit_false =
        sequence(&[&tlv(OID, SUBJECT_ALT_NAME), &tlv(BOOLEAN, &[0]), &tlv(4, &one_dns(node.hostname.as_str()))]);
    let password = sequence(&[&tlv(OID, CHALLENGE_PASSWORD), &rdn(&[&tlv(UTF8_STRING, b"secret")])]);
    let with = |extra: Vec<u8>| attributes(&[request(&[san.clone(), extra])]);
    let right = request(std::slice::from_ref(&san));
    let ca = extension(BASIC_CONSTRAINTS, true, &super::spec::basic_constraints(None));
    let (one, two) = (tlv(SEQUENCE, &san), tlv(SEQUENCE, &san));
    let two_values = sequence(&[&tlv(OID, crate::base::der::EXTENSION_REQUEST), &rdn(&[&one, &two])]);
    let no_values = sequence(&[&tlv(OID, crate::base::der::EXTENSION_REQUEST), &rdn(&[])]);
    [
        ("C-4 critical subjectAltName", "subjectAltName", attributes(&[request(&[critical_san])])),
        ("C-2 default written out", "subjectAltName", attributes(&[request(&[explicit_false])])),
        ("C-4 no extension", "extensions", attributes(&[request(&[])])),
        ("C-4 no attribute", "attributes", attributes(&[])),
        (
            "C-6 another extension instead of the name",
            "extensions",
            attributes(&[request(&[extension(KEY_USAGE, true, &tlv(BIT_STRING, &[7, 0x80]))])]),
        ),
        ("C-6 CA", "extensions", with(ca)),
        ("C-6 keyCertSign", "extensions", with(extension(KEY_USAGE, true, &tlv(BIT_STRING, &[2, 0x04])))),
        ("C-6 serverAuth", "extensions", with(extension(EXTENDED_KEY_USAGE, false, &usages(&[SERVER_AUTH])))),
        ("C-6 unknown critical", "extensions", with(extension(UNKNOWN, true, &[NULL, 0]))),
        ("C-6 unknown", "extensions", with(extension(UNKNOWN, false, &[NULL, 0]))),
        ("C-6 duplicate subjectAltName", "extensions", with(san.clone())),
        ("C-6 challengePassword", "attributes", attributes(&[password.clone(), right.clone()])),
        ("C-6 challengePassword alone", "attributes", attributes(&[password])),
        ("C-6 two extensionRequests", "attributes", attributes(&[right.clone(), right.clone()])),
        ("C-6 two values", "extensions", attributes(&[two_values])),
        ("C-6 no value", "extensions", attributes(&[no_values])),
        ("C-6 attributes in a SET", "attributes", tlv(SET, &right)),
    ]
    .into_iter()
    .map(|(name, field, attributes)| changed(node, name, field, |spec| spec.attributes = attributes))
    .collect()
}

fn keys(node: &TestNode) -> Vec<Hostile> {
    let mut another = good(node);
    another.key = key(99).public().der().to_vec();
    let mut out = vec![hostile("C-8 another key", "subjectPublicKey", &another.sign(&key(99)))];
    out.extend(
        wrong_keys(node.key.public().der())
            .into_iter()
            .map(|(name, spki)| changed(node, name, "subjectPublicKey", |spec| spec.key = spki)),
    );
    out
}

/// Keys that are not P-256 in its one form, made from one that is (threats.md S-10, C-8).
pub(super) fn wrong_keys(spki: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let point = spki.get(26..).unwrap_or_default();
    let x = point.get(1..33).unwrap_or_default();
    let ec = tlv(OID, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01]);
    let p256 = tlv(OID, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]);
    let p384 = tlv(OID, &[0x2b, 0x81, 0x04, 0x00, 0x22]);
    let rsa = sequence(&[&tlv(OID, &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01]), &[NULL, 0]]);
    let modulus = sequence(&[&tlv(INTEGER, &[0x5a; 64]), &tlv(INTEGER, &[1, 0, 1])]);
    let key = |algorithm: &[u8], bytes: &[u8]| sequence(&[algorithm, &bit_string(bytes)]);
    let named = |curve: &[u8]| sequence(&[&ec, curve]);
    let mut off_curve = point.to_vec();
    if let Some(last) = off_curve.last_mut() {
        *last ^= 1;
    }
    vec![
        ("C-8 compressed point", key(&named(&p256), &[&[2], x].concat())),
        ("C-8 point off the curve", key(&named(&p256), &off_curve)),
        ("C-8 point at infinity", key(&named(&p256), &[0])),
        ("C-8 explicit parameters", key(&named(&sequence(&[&tlv(INTEGER, &[1])])), point)),
        ("C-8 P-384", key(&named(&p384), &[4; 97])),
        ("C-8 P-256 named P-384", key(&named(&p384), point)),
        ("C-8 RSA of 512 bits", key(&rsa, &modulus)),
        ("C-8 no parameters", key(&sequence(&[&ec]), point)),
    ]
}
