//! A certificate in canonical DER, and the rules that leaves and authorities share.

use x509_cert::Certificate;
use x509_cert::certificate::Version;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::Extension;

use crate::base::der::{
    BASIC_CONSTRAINTS, BIT_STRING, BOOLEAN, EXTENDED_KEY_USAGE, INTEGER, KEY_USAGE, NAME_CONSTRAINTS, SUBJECT_ALT_NAME,
    content, ecdsa_with_sha256, parts,
};
use crate::base::time::UnixTime;
use crate::pki::certificate_error::CertificateError;
use crate::pki::key::NodePublicKey;

/// The label of a certificate's PEM block.
pub(crate) const LABEL: &str = "CERTIFICATE";
/// Longest serial number (RFC 5280, 4.1.2.2).
const SERIAL_MAX: usize = 20;
/// keyCertSign in the first byte of a keyUsage value.
const KEY_CERT_SIGN: u8 = 0x04;

/// Extensions whose meaning is checked somewhere on the way, so that they may be critical.
const UNDERSTOOD: [&[u8]; 5] = [BASIC_CONSTRAINTS, KEY_USAGE, EXTENDED_KEY_USAGE, NAME_CONSTRAINTS, SUBJECT_ALT_NAME];

/// A certificate whose encoding is the only one it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    der: Vec<u8>,
    certificate: Certificate,
    /// Place in the chain it came in, for errors: 0 is the leaf.
    index: usize,
}

impl Parsed {
    pub(crate) fn read(der: Vec<u8>, index: usize) -> Result<Self, CertificateError> {
        let bad = |source| CertificateError::Der { index, source };
        let certificate = Certificate::from_der(&der).map_err(bad)?;
        if certificate.to_der().map_err(bad)? != der {
            return Err(CertificateError::NotCanonical { index });
        }
        Ok(Self { der, certificate, index })
    }

    pub(crate) fn der(&self) -> &[u8] {
        &self.der
    }

    /// An error about a part of this certificate.
    pub(crate) fn wrong(&self, field: &'static str) -> CertificateError {
        CertificateError::Field { index: self.index, field }
    }

    /// The key, when it is P-256 in its one accepted form.
    pub(crate) fn key(&self) -> Result<NodePublicKey, CertificateError> {
        let der = self.tbs().subject_public_key_info().to_der().unwrap_or_default();
        NodePublicKey::from_der(&der).map_err(|_| self.wrong("subjectPublicKey"))
    }

    /// Subject, DER.
    pub(crate) fn subject(&self) -> Vec<u8> {
        self.tbs().subject().to_der().unwrap_or_default()
    }

    /// Issuer, DER.
    pub(crate) fn issuer(&self) -> Vec<u8> {
        self.tbs().issuer().to_der().unwrap_or_default()
    }

    pub(crate) fn not_before(&self) -> UnixTime {
        UnixTime::from_secs(self.tbs().validity().not_before.to_unix_duration().as_secs())
    }

    pub(crate) fn not_after(&self) -> UnixTime {
        UnixTime::from_secs(self.tbs().validity().not_after.to_unix_duration().as_secs())
    }

    /// The serial number as its content bytes, most significant first.
    pub(crate) fn serial(&self) -> &[u8] {
        self.tbs().serial_number().as_bytes()
    }

    /// The value of an extension. Meaningful after [`Self::check_common`], which refuses repeated ones.
    pub(crate) fn extension(&self, oid: &[u8]) -> Option<&Extension> {
        self.extensions().iter().find(|extension| extension.extn_id.as_bytes() == oid)
    }

    /// What every certificate here must be: v3, ecdsa-with-SHA256, a positive serial number, a validity that is
    /// not backwards, no extension twice, none critical that nobody looks at.
    pub(crate) fn check_common(&self) -> Result<(), CertificateError> {
        let tbs = self.tbs();
        if tbs.version() != Version::V3 {
            return Err(self.wrong("version"));
        }
        let algorithm = ecdsa_with_sha256();
        for found in [tbs.signature(), self.certificate.signature_algorithm()] {
            if found.to_der().ok().as_ref() != Some(&algorithm) {
                return Err(self.wrong("signatureAlgorithm"));
            }
        }
        let serial = self.serial();
        let negative = serial.first().is_none_or(|byte| byte & 0x80 != 0);
        if negative || serial.len() > SERIAL_MAX || serial.iter().all(|byte| *byte == 0) {
            return Err(self.wrong("serialNumber"));
        }
        if self.not_after() < self.not_before() {
            return Err(self.wrong("validity"));
        }
        if tbs.issuer_unique_id().is_some() || tbs.subject_unique_id().is_some() {
            return Err(self.wrong("uniqueID"));
        }
        let extensions = self.extensions();
        for (at, extension) in extensions.iter().enumerate() {
            let oid = extension.extn_id.as_bytes();
            if extensions.iter().take(at).any(|earlier| earlier.extn_id.as_bytes() == oid) {
                return Err(self.wrong("extensions"));
            }
            if extension.critical && !UNDERSTOOD.contains(&oid) {
                return Err(self.wrong("critical extension"));
            }
        }
        Ok(())
    }

    /// What an authority must be besides: basicConstraints critical with CA true, keyUsage with keyCertSign.
    ///
    /// Gives its path length, where it has one.
    pub(crate) fn check_authority(&self) -> Result<Option<u8>, CertificateError> {
        self.check_common()?;
        self.key()?;
        let usage = self.extension(KEY_USAGE).and_then(|usage| content(BIT_STRING, usage.extn_value.as_bytes()));
        if !matches!(usage, Some([_, first, ..]) if first & KEY_CERT_SIGN != 0) {
            return Err(self.wrong("keyUsage"));
        }
        // RFC 5280, 4.2.1.10: constraints that constrain nothing are not to be issued; webpki lets them pass.
        let constraints = self.extension(NAME_CONSTRAINTS).map(|found| parts(found.extn_value.as_bytes()));
        if matches!(constraints, Some(Ok(subtrees)) if subtrees.is_empty()) {
            return Err(self.wrong("nameConstraints"));
        }
        let wrong = || self.wrong("basicConstraints");
        let constraints = self.extension(BASIC_CONSTRAINTS).filter(|found| found.critical).ok_or_else(wrong)?;
        let parts = parts(constraints.extn_value.as_bytes()).map_err(|_| wrong())?;
        let is_ca = parts.first().and_then(|flag| content(BOOLEAN, flag)) == Some(&[0xff]);
        match parts.get(1..) {
            Some([]) if is_ca => Ok(None),
            Some([length]) if is_ca => match content(INTEGER, length) {
                Some([length @ 0..=0x7f]) => Ok(Some(*length)),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }

    /// Whether the holder of `issuer`'s key signed this certificate, and it says so by name.
    pub(crate) fn is_signed_by(&self, issuer: &Self) -> bool {
        let (Some(signature), Ok(tbs), Ok(key)) =
            (self.certificate.signature().as_bytes(), self.tbs().to_der(), issuer.key())
        else {
            return false;
        };
        self.issuer() == issuer.subject() && key.verify_der(&tbs, signature).is_ok()
    }

    fn tbs(&self) -> &x509_cert::TbsCertificate {
        self.certificate.tbs_certificate()
    }

    fn extensions(&self) -> &[Extension] {
        self.tbs().extensions().map(Vec::as_slice).unwrap_or_default()
    }
}
