//! What a node's leaf must be (`managed-nodes.md`, "Why the proofs look like this"; design.md W2).
//!
//! Controller, worker and agent apply the same rules: whoever holds a [`CheckedLeaf`] knows that its subject, its
//! one DNS name, its key, its lifetime and its usages are those of one node. That it also chains to the root is
//! [`crate::pki::chain`]'s to prove.

use crate::base::der::{
    BASIC_CONSTRAINTS, BIT_STRING, CLIENT_AUTH, EXTENDED_KEY_USAGE, KEY_USAGE, OID, PRINTABLE_STRING, SEQUENCE,
    SERVER_AUTH, SUBJECT_ALT_NAME, UTF8_STRING, common_name, content, parts, tlv,
};
use crate::base::digest::Digest;
use crate::base::ids::NodeId;
use crate::base::limits::{CHAIN_CERTIFICATES_MAX, CHAIN_PEM_MAX, LEAF_LIFETIME_MAX};
use crate::base::names::Hostname;
use crate::base::pem;
use crate::base::time::UnixTime;
use crate::pki::general_names;
use crate::pki::key::{Fingerprint, NodePublicKey};
use crate::pki::x509::{LABEL, Parsed};

pub use crate::pki::certificate_error::CertificateError;

/// What a leaf is compared with: the record of one node.
#[derive(Clone, Copy, Debug)]
pub struct LeafRules<'a> {
    /// Must be the one common name.
    pub node_id: &'a NodeId,
    /// Must be the one DNS name.
    pub hostname: &'a Hostname,
    /// Must be the fingerprint of the leaf's key.
    pub fingerprint: &'a Fingerprint,
}

/// A chain as it arrived: 1 to 4 certificates in canonical DER, the leaf first. Nothing in it is trusted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    leaf: Parsed,
    issuers: Vec<Parsed>,
}

impl Leaf {
    /// Reads a chain in PEM: the leaf, then its intermediates. Its size and count are decided before parsing.
    ///
    /// # Errors
    /// Over a limit, not strict PEM, not canonical DER.
    pub fn parse(pem_chain: &str) -> Result<Self, CertificateError> {
        let blocks =
            pem::many(pem_chain, LABEL, CHAIN_PEM_MAX, CHAIN_CERTIFICATES_MAX).map_err(CertificateError::Pem)?;
        let mut read = blocks.into_iter().enumerate().map(|(index, der)| Parsed::read(der, index));
        let leaf = read.next().unwrap_or(Err(CertificateError::NotCanonical { index: 0 }))?;
        Ok(Self { leaf, issuers: read.collect::<Result<_, _>>()? })
    }

    /// Applies every rule of a node's leaf.
    ///
    /// # Errors
    /// [`CertificateError::Field`] naming the first part that breaks a rule.
    pub fn check(self, rules: &LeafRules<'_>) -> Result<CheckedLeaf, CertificateError> {
        let leaf = &self.leaf;
        leaf.check_common()?;
        let public_key = leaf.key()?;
        if public_key.fingerprint() != *rules.fingerprint {
            return Err(leaf.wrong("subjectPublicKey"));
        }
        // step-ca writes names as PrintableString where it can, our own CA as UTF8String.
        let subject = leaf.subject();
        if ![UTF8_STRING, PRINTABLE_STRING].into_iter().any(|tag| subject == common_name(tag, rules.node_id.as_str())) {
            return Err(leaf.wrong("subject"));
        }
        let value = |oid| leaf.extension(oid).map(|extension| extension.extn_value.as_bytes());
        if value(SUBJECT_ALT_NAME) != Some(&general_names::one_dns(rules.hostname.as_str())) {
            return Err(leaf.wrong("subjectAltName"));
        }
        // CA is false where the extension says nothing, and false is never written in DER.
        if value(BASIC_CONSTRAINTS).is_some_and(|value| value != tlv(SEQUENCE, &[])) {
            return Err(leaf.wrong("basicConstraints"));
        }
        if value(KEY_USAGE) != Some(&DIGITAL_SIGNATURE_ONLY) {
            return Err(leaf.wrong("keyUsage"));
        }
        let server_auth = usages(value(EXTENDED_KEY_USAGE)).ok_or_else(|| leaf.wrong("extKeyUsage"))?;
        if leaf.not_after().since(leaf.not_before()) > LEAF_LIFETIME_MAX {
            return Err(leaf.wrong("validity"));
        }
        Ok(CheckedLeaf { public_key, server_auth, chain: self })
    }
}

/// A BIT STRING with bit 0 set and no other.
const DIGITAL_SIGNATURE_ONLY: [u8; 4] = [BIT_STRING, 0x02, 0x07, 0x80];

/// Whether serverAuth is there besides clientAuth; nothing when the usages are not those of a node.
fn usages(value: Option<&[u8]>) -> Option<bool> {
    let usages = parts(value.filter(|value| value.first() == Some(&SEQUENCE))?).ok()?;
    let oids: Vec<&[u8]> = usages.into_iter().map(|usage| content(OID, usage)).collect::<Option<_>>()?;
    match oids.as_slice() {
        [CLIENT_AUTH] => Some(false),
        [CLIENT_AUTH, SERVER_AUTH] | [SERVER_AUTH, CLIENT_AUTH] => Some(true),
        _ => None,
    }
}

/// A leaf that keeps every rule for the node it was checked against. Only [`Leaf::check`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedLeaf {
    chain: Leaf,
    public_key: NodePublicKey,
    server_auth: bool,
}

impl CheckedLeaf {
    /// First second it is valid.
    #[must_use]
    pub fn not_before(&self) -> UnixTime {
        self.chain.leaf.not_before()
    }

    /// Last second it is valid.
    #[must_use]
    pub fn not_after(&self) -> UnixTime {
        self.chain.leaf.not_after()
    }

    /// Serial number in lower-case hex, two digits a byte.
    #[must_use]
    pub fn serial(&self) -> String {
        self.chain.leaf.serial().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The key it names: the node's recorded one.
    #[must_use]
    pub fn public_key(&self) -> &NodePublicKey {
        &self.public_key
    }

    /// SHA-256 of the leaf's DER.
    #[must_use]
    pub fn sha256(&self) -> Digest {
        Digest::of(self.chain.leaf.der())
    }

    /// The chain in PEM, as it arrived.
    #[must_use]
    pub fn pem(&self) -> String {
        std::iter::once(&self.chain.leaf).chain(&self.chain.issuers).map(|one| pem::encode(one.der(), LABEL)).collect()
    }

    pub(crate) fn leaf(&self) -> &Parsed {
        &self.chain.leaf
    }

    pub(crate) fn issuers(&self) -> &[Parsed] {
        &self.chain.issuers
    }

    pub(crate) fn has_server_auth(&self) -> bool {
        self.server_auth
    }
}

#[cfg(test)]
mod tests;
