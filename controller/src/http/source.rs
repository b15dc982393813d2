//! Whose call it is, by address (design.md I4, threats.md H-9, B-36).

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;

use crate::config::Network;

/// The one forwarded header that is read.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The caller's address: the peer's own, unless the peer is a listed proxy; then the rightmost forwarded one that is
/// not a listed proxy itself. An IPv4-mapped address is IPv4.
///
/// `None` when a listed proxy sends something that is no address where one is needed: guessing would bind a challenge
/// to an address that its caller does not have.
pub(super) fn of(peer: IpAddr, headers: &HeaderMap, proxies: &[Network]) -> Option<IpAddr> {
    let listed = |address: IpAddr| proxies.iter().any(|network| network.contains(address));
    let mut source = peer.to_canonical();
    if !listed(source) {
        return Some(source);
    }
    for line in headers.get_all(FORWARDED_FOR).iter().rev() {
        for entry in line.to_str().ok()?.rsplit(',') {
            source = address(entry.trim())?;
            if !listed(source) {
                return Some(source);
            }
        }
    }
    // Only proxies: the leftmost of them is as far as anyone vouches.
    Some(source)
}

/// `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1` or `[2001:db8::1]:4711`, without a zone.
fn address(text: &str) -> Option<IpAddr> {
    let address = text.parse::<IpAddr>().or_else(|_| text.parse::<SocketAddr>().map(|socket| socket.ip())).ok()?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(peer: &str, forwarded: &[&str], want: Option<&str>) {
        let proxies = ["10.0.0.1".parse().unwrap(), "10.0.1.0/24".parse().unwrap()];
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append(FORWARDED_FOR, line.parse().unwrap());
        }
        let got = of(peer.parse().unwrap(), &headers, &proxies);
        assert_eq!(got, want.map(|text| text.parse().unwrap()), "{peer} {forwarded:?}");
    }

    // spec: HT-9
    #[test]
    fn h_9_a_forwarded_address_counts_from_listed_proxies_only_and_from_the_right() {
        check("192.0.2.9", &["192.0.2.1"], Some("192.0.2.9"));
        check("10.0.0.1", &[], Some("10.0.0.1"));
        check("10.0.0.1", &["192.0.2.1"], Some("192.0.2.1"));
        check("::ffff:10.0.0.1", &["192.0.2.1"], Some("192.0.2.1"));
        check("10.0.0.1", &["198.51.100.7, 192.0.2.1"], Some("192.0.2.1"));
        check("10.0.0.1", &["198.51.100.7", "192.0.2.1"], Some("192.0.2.1"));
        check("10.0.0.1", &["192.0.2.1, 10.0.1.7"], Some("192.0.2.1"));
        check("10.0.0.1", &["192.0.2.1", "10.0.1.7 ,10.0.1.8"], Some("192.0.2.1"));
        check("10.0.0.1", &["10.0.1.7"], Some("10.0.1.7"));
        check("10.0.0.1", &["::ffff:192.0.2.1"], Some("192.0.2.1"));
        check("10.0.0.1", &["192.0.2.1:4711"], Some("192.0.2.1"));
        check("10.0.0.1", &["[2001:db8::1]:4711"], Some("2001:db8::1"));
        check("10.0.0.1", &["192.0.2.1, garbage"], None);
        check("10.0.0.1", &["192.0.2.1,"], None);
        check("10.0.0.1", &["fe80::1%eth0"], None);
        check("10.0.0.1", &["garbage, 192.0.2.1"], Some("192.0.2.1"));
    }
}
