//! What a server of the site asks for: the controller's endpoint by its strict template, and a directory server by a
//! request that an operator made with a tool of his own.
//!
//! From an operator's request only the key and the names are taken; the certificate is put together here. So what its
//! tool adds could do no harm, and is refused all the same: who asks for more would wonder where it went.

use std::net::IpAddr;

use lucia_proto::base::limits::CSR_PEM_MAX;
use lucia_proto::base::pem::{self, PemError};
use lucia_proto::pki::csr::CheckedEndpointCsr;
use lucia_proto::pki::endpoint_names::{EndpointName, EndpointNameError, EndpointNames};
use lucia_proto::pki::key::NodePublicKey;
use thiserror::Error;
use x509_cert::attr::Attribute;
use x509_cert::der::asn1::{PrintableStringRef, Utf8StringRef};
use x509_cert::der::{Decode as _, Encode as _};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name;
use x509_cert::request::{CertReq, ExtensionReq};

/// Label of a request.
pub(super) const LABEL: &str = "CERTIFICATE REQUEST";
/// `commonName`.
const COMMON_NAME: &str = "2.5.4.3";
/// `extensionRequest`.
const EXTENSION_REQUEST: &str = "1.2.840.113549.1.9.14";
/// `subjectAltName`.
const SUBJECT_ALT_NAME: &str = "2.5.29.17";

/// A server's request: its key signed it, and its names are among those the settings allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCsr {
    pem: String,
    key: NodePublicKey,
    names: EndpointNames,
}

/// Why an operator's request is refused.
#[derive(Debug, Error)]
pub enum ServerCsrError {
    /// Not one PEM block.
    #[error("the request is not one PEM block of type {LABEL}")]
    Pem(#[source] PemError),
    /// Not DER.
    #[error("the request is not a PKCS #10 request in DER")]
    Der(#[source] x509_cert::der::Error),
    /// Another kind of key.
    #[error("the request's key is not on P-256; make another one, `sign-directory --help` shows how")]
    Key,
    /// Something besides one common name.
    #[error("the request's subject is more than a common name; leave the rest out, `sign-directory --help` shows how")]
    Subject,
    /// A common name that is none of the names.
    #[error("the request's common name is none of its subjectAltNames; make them agree")]
    CommonName,
    /// An attribute or extension besides the names.
    #[error("the request asks for {oid} besides its names, which no certificate of this fleet has; leave it out")]
    More {
        /// The object identifier.
        oid: String,
    },
    /// No names.
    #[error("the request has no subjectAltName; add one, `sign-directory --help` shows how")]
    NoNames,
    /// A name of a kind that no server here has, or a list of names that is none.
    #[error("the request's names cannot be used")]
    Names(#[source] EndpointNameError),
    /// A name of another kind than DNS name and address.
    #[error("the request has a name that is neither a DNS name nor an address")]
    NameKind,
    /// A name that the settings do not allow.
    #[error("the request is for {name}, which is not among [directory] names in worker.toml; correct one of the two")]
    NotOurs {
        /// The name.
        name: EndpointName,
    },
    /// The key did not sign it.
    #[error("the request's own signature does not verify (ECDSA with SHA-256)")]
    Signature,
}

impl ServerCsr {
    /// Reads an operator's request: one common name or none, subjectAltNames out of `allowed`, nothing else.
    ///
    /// # Errors
    /// [`ServerCsrError`], the first part that is not so.
    pub fn read(text: &str, allowed: &EndpointNames) -> Result<Self, ServerCsrError> {
        let der = pem::one(text, LABEL, CSR_PEM_MAX).map_err(ServerCsrError::Pem)?;
        let CertReq { info, signature, .. } = CertReq::from_der(&der).map_err(ServerCsrError::Der)?;
        let key = info.public_key.to_der().ok().and_then(|der| NodePublicKey::from_der(&der).ok());
        let key = key.ok_or(ServerCsrError::Key)?;
        let common_name = common_name(&info.subject)?;
        let mut names = names(info.attributes.iter())?;
        if let Some(name) = names.iter().find(|name| !allowed.iter().any(|known| known == *name)) {
            return Err(ServerCsrError::NotOurs { name: name.clone() });
        }
        if let Some(text) = common_name {
            let at = names.iter().position(|name| name.to_string() == text).ok_or(ServerCsrError::CommonName)?;
            names.swap(0, at);
        }
        let signed = info.to_der().map_err(ServerCsrError::Der)?;
        let signature = signature.as_bytes().ok_or(ServerCsrError::Signature)?;
        key.verify_der(&signed, signature).map_err(|_| ServerCsrError::Signature)?;
        let names = EndpointNames::new(names).map_err(ServerCsrError::Names)?;
        Ok(Self { pem: text.to_owned(), key, names })
    }

    /// The request, PEM.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The server's key.
    #[must_use]
    pub fn key(&self) -> &NodePublicKey {
        &self.key
    }

    /// Whether the value of a subjectAltName extension has exactly its names, in whatever order.
    pub(super) fn are_names(&self, value: &[u8]) -> bool {
        let Ok(found) = SubjectAltName::from_der(value) else { return false };
        let found = found.0.iter().map(name).collect::<Result<std::collections::BTreeSet<_>, _>>();
        found.is_ok_and(|found| found.iter().eq(self.names.iter().collect::<std::collections::BTreeSet<_>>()))
    }

    /// What it is called by; the first is the common name.
    #[must_use]
    pub fn names(&self) -> &EndpointNames {
        &self.names
    }
}

impl From<CheckedEndpointCsr> for ServerCsr {
    fn from(csr: CheckedEndpointCsr) -> Self {
        let (pem, key) = (pem::encode(csr.csr().der(), LABEL), csr.csr().public_key().clone());
        Self { pem, key, names: csr.names().clone() }
    }
}

/// The one common name; nothing where the subject is empty.
fn common_name(subject: &Name) -> Result<Option<String>, ServerCsrError> {
    let mut parts = subject.iter();
    let Some(part) = parts.next() else { return Ok(None) };
    if parts.next().is_some() || part.oid.to_string() != COMMON_NAME {
        return Err(ServerCsrError::Subject);
    }
    let utf8 = part.value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_owned());
    let text = utf8.or_else(|_| part.value.decode_as::<PrintableStringRef<'_>>().map(|text| text.as_str().to_owned()));
    text.map(Some).map_err(|_| ServerCsrError::Subject)
}

/// The names of the one extension there may be.
fn names<'a>(attributes: impl Iterator<Item = &'a Attribute>) -> Result<Vec<EndpointName>, ServerCsrError> {
    let mut extensions: Vec<Extension> = Vec::new();
    for attribute in attributes {
        if attribute.oid.to_string() != EXTENSION_REQUEST {
            return Err(ServerCsrError::More { oid: attribute.oid.to_string() });
        }
        for value in attribute.values.iter() {
            let request = value.to_der().and_then(|der| ExtensionReq::from_der(&der)).map_err(ServerCsrError::Der)?;
            extensions.extend(request.0);
        }
    }
    if let Some(more) = extensions.iter().find(|extension| extension.extn_id.to_string() != SUBJECT_ALT_NAME) {
        return Err(ServerCsrError::More { oid: more.extn_id.to_string() });
    }
    let [extension] = extensions.as_slice() else { return Err(ServerCsrError::NoNames) };
    let found = SubjectAltName::from_der(extension.extn_value.as_bytes()).map_err(ServerCsrError::Der)?;
    found.0.iter().map(name).collect()
}

fn name(name: &GeneralName) -> Result<EndpointName, ServerCsrError> {
    match name {
        GeneralName::DnsName(text) => match EndpointName::parse(text.as_str()).map_err(ServerCsrError::Names)? {
            name @ EndpointName::Dns(_) => Ok(name),
            EndpointName::Ip(_) => Err(ServerCsrError::NameKind),
        },
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
            let address = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
            address.map(EndpointName::Ip).map_err(|_| ServerCsrError::NameKind)
        }
        _ => Err(ServerCsrError::NameKind),
    }
}

#[cfg(test)]
mod tests {
    use lucia_proto::pki::csr::endpoint_build;
    use lucia_proto::test_support::key;
    use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};

    use super::*;

    /// By `openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=directory.example
    /// -addext subjectAltName=DNS:directory.example,IP:192.0.2.7`, OpenSSL 3.0.19.
    const OPENSSL: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIIBDDCBswIBADAcMRowGAYDVQQDDBFkaXJlY3RvcnkuZXhhbXBsZTBZMBMGByqG
SM49AgEGCCqGSM49AwEHA0IABO3L0NYoQpGB5PiHA4MTgGSqLTiGLWDEiAImP09/
pLcXAziZMIXp71r6dmPrcL2A34dW819wp1Cg7zo49dSzo2CgNTAzBgkqhkiG9w0B
CQ4xJjAkMCIGA1UdEQQbMBmCEWRpcmVjdG9yeS5leGFtcGxlhwTAAAIHMAoGCCqG
SM49BAMCA0gAMEUCIQDje8Nf3UKfjMM5v3cqAY/j2PY+Oq8uDS+jvs8w+IWNagIg
F5OSHUeKjqZUrVhBKkpRc3KXPNvJY8xShj8/Z8+lSnY=
-----END CERTIFICATE REQUEST-----
";

    fn list(texts: &[&str]) -> EndpointNames {
        EndpointNames::new(texts.iter().map(|text| EndpointName::parse(text).unwrap()).collect()).unwrap()
    }

    fn made(change: impl FnOnce(&mut CertificateParams)) -> String {
        let mut params = CertificateParams::new(vec!["directory.example".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        change(&mut params);
        params.serialize_request(&KeyPair::from_pem(&key(7).to_pem().unwrap()).unwrap()).unwrap().pem().unwrap()
    }

    // spec: LD-20
    #[test]
    fn requests_of_common_tools_are_read() {
        let allowed = list(&["directory.example", "192.0.2.7", "spare.example"]);
        let csr = ServerCsr::read(OPENSSL, &allowed).unwrap();
        assert_eq!(csr.names(), &list(&["directory.example", "192.0.2.7"]));
        let of_template = endpoint_build(&list(&["spare.example", "directory.example"]), &key(7));
        let csr = ServerCsr::read(&of_template, &allowed).unwrap();
        assert_eq!((csr.names().first().to_string().as_str(), csr.key()), ("spare.example", key(7).public()));
        let bare = made(|_| {}).replace("\r\n", "\n");
        assert_eq!(ServerCsr::read(&bare, &allowed).unwrap().names(), &list(&["directory.example"]));
    }

    // spec: LD-20
    #[test]
    fn what_is_not_a_key_and_allowed_names_is_refused_by_name() {
        let allowed = list(&["directory.example"]);
        let refused = |text: &str, allowed: &EndpointNames, want: &str| {
            let error = ServerCsr::read(&text.replace("\r\n", "\n"), allowed).expect_err(want);
            let shown = format!("{error:?} {}", crate::chain(&error));
            assert!(shown.contains(want), "{want}: {shown}");
        };
        refused(OPENSSL, &allowed, "192.0.2.7");
        refused(OPENSSL, &list(&["other.example"]), "directory.example");
        refused("-----BEGIN CERTIFICATE-----\n", &allowed, "Pem(");
        refused(&OPENSSL.replace("GLWDEiAImP09/", "GLWDEiAImP09+"), &allowed, "P-256");
        refused(
            &OPENSSL.replace("F5OSHUeKjqZ", "F5OSHUeKjqY"),
            &list(&["directory.example", "192.0.2.7"]),
            "Signature",
        );
        refused(&made(|params| params.subject_alt_names.clear()), &allowed, "NoNames");
        let usage = |params: &mut CertificateParams| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        };
        refused(&made(usage), &allowed, "2.5.29.37");
        refused(&made(|params| params.distinguished_name.push(DnType::CommonName, "n1")), &allowed, "CommonName");
        refused(&made(|params| params.distinguished_name.push(DnType::OrganizationName, "x")), &allowed, "Subject");
        let node = rcgen::SanType::DnsName("n1".try_into().unwrap());
        refused(&made(|params| params.subject_alt_names.push(node)), &allowed, "n1");
        let mail = rcgen::SanType::Rfc822Name("a@b".try_into().unwrap());
        refused(&made(|params| params.subject_alt_names.push(mail)), &allowed, "NameKind");
        let twice = rcgen::SanType::DnsName("directory.example".try_into().unwrap());
        refused(&made(|params| params.subject_alt_names.push(twice)), &allowed, "Names(");
        let rsa = "-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n";
        refused(rsa, &allowed, "Der(");
    }
}
