//! The value of a subjectAltName extension (RFC 5280, 4.2.1.6), always written whole and compared whole.

use std::net::IpAddr;

use crate::base::der::{DNS_NAME, IP_ADDRESS, SEQUENCE, tlv};
use crate::pki::endpoint_names::EndpointName;

/// One dNSName.
pub(crate) fn one_dns(name: &str) -> Vec<u8> {
    tlv(SEQUENCE, &tlv(DNS_NAME, name.as_bytes()))
}

/// These names, in this order.
pub(crate) fn of<'a>(names: impl Iterator<Item = &'a EndpointName>) -> Vec<u8> {
    let one = |name: &EndpointName| match name {
        EndpointName::Dns(name) => tlv(DNS_NAME, name.as_str().as_bytes()),
        EndpointName::Ip(IpAddr::V4(address)) => tlv(IP_ADDRESS, &address.octets()),
        EndpointName::Ip(IpAddr::V6(address)) => tlv(IP_ADDRESS, &address.octets()),
    };
    tlv(SEQUENCE, &names.flat_map(one).collect::<Vec<_>>())
}
