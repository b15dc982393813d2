//! Leaves and chains: what is believed is a leaf of its node, by the eyes of another reader.

use lucia_proto::base::limits::{CHAIN_CERTIFICATES_MAX, LEAF_LIFETIME_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::certificate::{CheckedLeaf, Leaf};
use lucia_proto::pki::chain::{self, Root, Usage};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

use super::der::{elements, pem, sign_again};
use super::{CA, NODE, NOW, ROOT};

const LABEL: &str = "CERTIFICATE";

/// The bytes are certificates one after the other, or PEM.
pub(super) fn run(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input)
        && text.contains("-----")
    {
        judge(text);
        if let Ok(root) = Root::from_pem(text) {
            assert_eq!(Root::from_pem(&root.pem()).unwrap(), root);
        }
        return;
    }
    let chain: Vec<Vec<u8>> = elements(input).into_iter().map(<[u8]>::to_vec).collect();
    judge(&text(&chain));
    // The same, signed by who should have.
    let mut signed = chain;
    for (at, key) in [&CA.issuing_key, &CA.root_key].into_iter().enumerate() {
        if let Some(certificate) = signed.get_mut(at)
            && let Some(again) = sign_again(certificate, key)
        {
            *certificate = again;
            judge(&text(&signed));
        }
    }
    // The leaf alone, under the issuing CA as it is.
    if let Some(leaf) = signed.first()
        && let Some(leaf) = sign_again(leaf, &CA.issuing_key)
    {
        judge(&text(&[leaf, CA.issuing_der.clone()]));
    }
}

fn text(chain: &[Vec<u8>]) -> String {
    chain.iter().map(|der| pem(der, LABEL)).collect()
}

fn judge(text: &str) {
    let Ok(parsed) = Leaf::parse(text) else { return };
    let Ok(leaf) = parsed.check(&NODE.rules()) else { return };
    assert_eq!(Leaf::parse(&leaf.pem()).unwrap().check(&NODE.rules()).unwrap(), leaf);
    let der = first_der(&leaf);
    // A leaf may follow every rule and carry no signature at all: that is for the chain to refuse.
    let other = X509Certificate::from_der(&der);
    if let Ok((rest, other)) = &other {
        assert!(rest.is_empty());
        is_leaf_of_node(&leaf, other);
    }
    let roots = std::slice::from_ref(&*ROOT);
    if let Ok(chain) = chain::verify(&leaf, roots, NOW, Usage::Client) {
        assert!(other.is_ok(), "{other:?}");
        assert!(leaf.not_before() <= NOW && NOW <= chain.not_after() && chain.not_after() <= leaf.not_after());
        let count = leaf.pem().matches("-----BEGIN").count();
        assert!((2..=CHAIN_CERTIFICATES_MAX).contains(&count), "{count} certificates");
        // It ends when it says.
        let after = chain.not_after().plus(std::time::Duration::from_secs(1));
        assert!(chain::verify(&leaf, roots, after, Usage::Client).is_err());
    }
    if chain::verify(&leaf, roots, NOW, Usage::Server).is_ok() {
        let (_, other) = other.unwrap();
        assert!(other.extended_key_usage().unwrap().unwrap().value.server_auth);
    }
}

fn first_der(leaf: &CheckedLeaf) -> Vec<u8> {
    let text = leaf.pem();
    let end = text.match_indices("-----END CERTIFICATE-----\n").next().unwrap();
    lucia_proto::base::pem::one(&text[..end.0 + end.1.len()], LABEL, usize::MAX).unwrap()
}

fn is_leaf_of_node(leaf: &CheckedLeaf, other: &X509Certificate<'_>) {
    let subject: Vec<_> = other.subject().iter_attributes().collect();
    assert_eq!(subject.len(), 1);
    assert_eq!(subject[0].as_str().unwrap(), NODE.node_id.as_str());
    let names = other.subject_alternative_name().unwrap().unwrap();
    assert_eq!(names.value.general_names, [GeneralName::DNSName(NODE.hostname.as_str())]);
    assert_eq!(other.public_key().raw, NODE.key.public().der());
    assert!(!other.is_ca(), "an authority");
    let usage = other.extended_key_usage().unwrap().unwrap();
    assert!(usage.value.client_auth && !usage.value.any, "{usage:?}");
    if let Some(usage) = other.key_usage().unwrap() {
        assert!(usage.value.digital_signature() && !usage.value.key_cert_sign(), "{usage:?}");
    }
    let [from, to] = [other.validity().not_before, other.validity().not_after]
        .map(|at| UnixTime::from_secs(u64::try_from(at.timestamp()).unwrap()));
    assert_eq!((from, to), (leaf.not_before(), leaf.not_after()));
    assert!(from <= to && to.since(from) <= LEAF_LIFETIME_MAX, "{from} to {to}");
    let mut oids: Vec<_> = other.extensions().iter().map(|extension| extension.oid.to_id_string()).collect();
    oids.sort();
    assert!(oids.windows(2).all(|pair| pair[0] != pair[1]), "an extension twice: {oids:?}");
}
