//! Certificates and requests as their parts, each of which a test may replace by anything.

use crate::base::der::{
    BASIC_CONSTRAINTS, BIT_STRING, BOOLEAN, CLIENT_AUTH, CONTEXT_0, EXTENDED_KEY_USAGE, EXTENSION_REQUEST, INTEGER,
    KEY_USAGE, OID, SEQUENCE, SET, SUBJECT_ALT_NAME, UTF8_STRING, bit_string, common_name, constructed,
    ecdsa_with_sha256, extension, sequence, tlv,
};
use crate::base::pem;
use crate::base::time::UnixTime;
use crate::pki::general_names::one_dns;
use crate::pki::key::{NodeKey, NodePublicKey};

/// `[3]` constructed: a certificate's extensions.
const CONTEXT_3: u8 = 0xa3;
const UTC_TIME: u8 = 0x17;

/// A certificate before it is signed: every field is a whole DER value.
#[derive(Clone, Debug)]
pub struct CertificateSpec {
    /// `[0]` with the version, or nothing.
    pub version: Vec<u8>,
    /// INTEGER.
    pub serial: Vec<u8>,
    /// The algorithm inside the signed part.
    pub algorithm: Vec<u8>,
    /// The algorithm beside the signature.
    pub outer_algorithm: Vec<u8>,
    /// Name.
    pub issuer: Vec<u8>,
    /// SEQUENCE of two times.
    pub validity: Vec<u8>,
    /// Name.
    pub subject: Vec<u8>,
    /// SubjectPublicKeyInfo.
    pub key: Vec<u8>,
    /// What stands between key and extensions.
    pub unique_ids: Vec<u8>,
    /// Extension values, in order.
    pub extensions: Vec<Vec<u8>>,
}

impl CertificateSpec {
    /// Everything but the extensions.
    #[must_use]
    pub fn new(issuer: &str, subject: &str, key: &NodePublicKey, from: UnixTime, to: UnixTime) -> Self {
        Self {
            version: constructed(CONTEXT_0, &[&tlv(INTEGER, &[2])]),
            serial: tlv(INTEGER, &[0x11, 0x22, 0x33]),
            algorithm: ecdsa_with_sha256(),
            outer_algorithm: ecdsa_with_sha256(),
            issuer: common_name(UTF8_STRING, issuer),
            validity: validity(from, to),
            subject: common_name(UTF8_STRING, subject),
            key: key.der().to_vec(),
            unique_ids: Vec::new(),
            extensions: Vec::new(),
        }
    }

    /// A node's leaf as it must be.
    #[must_use]
    pub fn leaf(issuer: &str, cn: &str, dns: &str, key: &NodePublicKey, from: UnixTime, to: UnixTime) -> Self {
        let mut spec = Self::new(issuer, cn, key, from, to);
        spec.extensions = vec![
            extension(KEY_USAGE, true, &tlv(BIT_STRING, &[7, 0x80])),
            extension(EXTENDED_KEY_USAGE, false, &usages(&[CLIENT_AUTH])),
            extension(SUBJECT_ALT_NAME, false, &one_dns(dns)),
        ];
        spec
    }

    /// An authority as it must be.
    #[must_use]
    pub fn authority(issuer: &str, subject: &str, key: &NodePublicKey, from: UnixTime, to: UnixTime) -> Self {
        let mut spec = Self::new(issuer, subject, key, from, to);
        spec.extensions = vec![
            extension(BASIC_CONSTRAINTS, true, &basic_constraints(None)),
            extension(KEY_USAGE, true, &tlv(BIT_STRING, &[1, 0x06])),
        ];
        spec
    }

    /// Replaces the extension with this OID, or adds it.
    pub(crate) fn replace(&mut self, oid: &[u8], with: Option<Vec<u8>>) {
        let head = tlv(OID, oid);
        self.extensions.retain(|one| !one.windows(head.len()).any(|window| window == head));
        self.extensions.extend(with);
    }

    /// The certificate, DER.
    #[must_use]
    pub fn sign(&self, issuer_key: &NodeKey) -> Vec<u8> {
        let extensions = match self.extensions.is_empty() {
            true => Vec::new(),
            false => constructed(CONTEXT_3, &[&tlv(SEQUENCE, &self.extensions.concat())]),
        };
        let tbs = sequence(&[
            &self.version,
            &self.serial,
            &self.algorithm,
            &self.issuer,
            &self.validity,
            &self.subject,
            &self.key,
            &self.unique_ids,
            &extensions,
        ]);
        let signature = issuer_key.sign_der(&tbs);
        sequence(&[&tbs, &self.outer_algorithm, &bit_string(&signature)])
    }
}

/// A request before it is signed: every field is a whole DER value.
#[derive(Clone, Debug)]
pub struct CsrSpec {
    /// INTEGER.
    pub version: Vec<u8>,
    /// Name.
    pub subject: Vec<u8>,
    /// SubjectPublicKeyInfo.
    pub key: Vec<u8>,
    /// `[0]` with the attributes.
    pub attributes: Vec<u8>,
    /// The algorithm beside the signature.
    pub algorithm: Vec<u8>,
}

impl CsrSpec {
    /// A node's request as it must be.
    #[must_use]
    pub fn new(cn: &str, dns: &str, key: &NodePublicKey) -> Self {
        Self {
            version: tlv(INTEGER, &[0]),
            subject: common_name(UTF8_STRING, cn),
            key: key.der().to_vec(),
            attributes: attributes(&[request(&[extension(SUBJECT_ALT_NAME, false, &one_dns(dns))])]),
            algorithm: ecdsa_with_sha256(),
        }
    }

    /// The part that is signed.
    #[must_use]
    pub fn info(&self) -> Vec<u8> {
        sequence(&[&self.version, &self.subject, &self.key, &self.attributes])
    }

    /// The request, DER.
    #[must_use]
    pub fn sign(&self, key: &NodeKey) -> Vec<u8> {
        sequence(&[&self.info(), &self.algorithm, &bit_string(&key.sign_der(&self.info()))])
    }
}

/// `[0]` with these attributes.
pub(super) fn attributes(attributes: &[Vec<u8>]) -> Vec<u8> {
    tlv(CONTEXT_0, &attributes.concat())
}

/// An extensionRequest attribute with these extensions.
pub(super) fn request(extensions: &[Vec<u8>]) -> Vec<u8> {
    let extensions = tlv(SEQUENCE, &extensions.concat());
    sequence(&[&tlv(OID, EXTENSION_REQUEST), &constructed(SET, &[&extensions])])
}

/// CA true, with a path length or without.
pub(super) fn basic_constraints(path_length: Option<u8>) -> Vec<u8> {
    let length = path_length.map(|length| tlv(INTEGER, &[length])).unwrap_or_default();
    sequence(&[&tlv(BOOLEAN, &[0xff]), &length])
}

/// The value of an extKeyUsage extension.
pub(super) fn usages(oids: &[&[u8]]) -> Vec<u8> {
    tlv(SEQUENCE, &oids.iter().flat_map(|oid| tlv(OID, oid)).collect::<Vec<_>>())
}

/// Two UTCTimes.
pub(super) fn validity(from: UnixTime, to: UnixTime) -> Vec<u8> {
    sequence(&[&tlv(UTC_TIME, utc(from).as_bytes()), &tlv(UTC_TIME, utc(to).as_bytes())])
}

/// `YYMMDDHHMMSSZ`.
pub(super) fn utc(at: UnixTime) -> String {
    let digits: String = at.to_string().chars().filter(char::is_ascii_alphanumeric).filter(|c| *c != 'T').collect();
    digits.get(2..).unwrap_or_default().to_owned()
}

/// Certificates as one PEM text.
pub(super) fn chain_pem(chain: &[&[u8]]) -> String {
    chain.iter().map(|der| pem::encode(der, crate::pki::x509::LABEL)).collect()
}
