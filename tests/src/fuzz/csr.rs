//! Certificate requests: what is accepted is the template, by the eyes of another reader.

use std::sync::LazyLock;

use lucia_proto::base::pem;
use lucia_proto::pki::csr::{self, CheckedCsr};
use lucia_proto::pki::endpoint_names::{EndpointName, EndpointNames};
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::key;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer as _;

use super::NODE;
use super::der::{element, pem as to_pem, sign_again};

const LABEL: &str = "CERTIFICATE REQUEST";
/// The endpoint's key.
static NINE: LazyLock<NodeKey> = LazyLock::new(|| key(9));
static NAMES: LazyLock<EndpointNames> = LazyLock::new(|| {
    let names = ["controller.test", "127.0.0.1"].map(|name| EndpointName::parse(name).unwrap());
    EndpointNames::new(names.to_vec()).unwrap()
});

pub(super) fn run(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input)
        && text.contains("-----")
    {
        judge(text);
        // What the text holds, signed again.
        if let Ok(der) = pem::one(text, LABEL, usize::MAX) {
            requests(&der);
        }
    }
    requests(input);
}

fn requests(der: &[u8]) {
    judge(&to_pem(der, LABEL));
    for signer in [&NODE.key, &*NINE] {
        if let Some(signed) = sign_again(der, signer) {
            judge(&to_pem(&signed, LABEL));
        }
    }
}

fn judge(text: &str) {
    if let Ok(checked) = csr::check(text, &NODE.node_id, &NODE.hostname, &NODE.fingerprint) {
        assert_eq!(checked.public_key(), NODE.key.public());
        let names = [GeneralName::DNSName(NODE.hostname.as_str())];
        is_template(&checked, NODE.node_id.as_str(), &names, &NODE.csr());
    }
    if let Ok(checked) = csr::endpoint_check(text, &NAMES) {
        let asked = checked.csr();
        // Only a key of ours signs here.
        let signer = [&NODE.key, &*NINE].into_iter().find(|key| key.public() == asked.public_key());
        let general = [GeneralName::DNSName("controller.test"), GeneralName::IPAddress(&[127, 0, 0, 1])];
        let built = signer.map(|key| csr::endpoint_build(&NAMES, key)).unwrap();
        is_template(asked, "controller.test", &general, &built);
    }
}

fn is_template(checked: &CheckedCsr, common_name: &str, names: &[GeneralName<'_>], built: &str) {
    // The signature may be another one of the same key; every byte before it may not.
    let built = pem::one(built, LABEL, usize::MAX).unwrap();
    let info = |der| element(element(der).unwrap().content).unwrap().whole.to_vec();
    assert_eq!(info(checked.der()), info(&built));

    let (rest, other) = X509CertificationRequest::from_der(checked.der()).unwrap();
    assert!(rest.is_empty());
    let subject: Vec<_> = other.certification_request_info.subject.iter_attributes().collect();
    assert_eq!(subject.len(), 1);
    assert_eq!(subject[0].as_str().unwrap(), common_name);
    assert_eq!(other.certification_request_info.iter_attributes().count(), 1);
    let extensions: Vec<_> = other.requested_extensions().unwrap().collect();
    assert_eq!(extensions.len(), 1);
    let ParsedExtension::SubjectAlternativeName(found) = extensions[0] else { panic!("{extensions:?}") };
    assert_eq!(found.general_names, names);
    assert_eq!(other.certification_request_info.subject_pki.raw, checked.public_key().der());
}
