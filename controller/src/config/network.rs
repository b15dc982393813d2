//! An address range such as `10.0.0.0/8`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

/// A range of addresses of one protocol. An IPv4-mapped IPv6 address counts as IPv4 (design.md I4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    prefix: u8,
}

/// The text is not a range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not a network such as 10.0.0.0/8 or fd00::/8 whose address has no bits beyond the prefix")]
pub struct BadNetwork {
    text: String,
}

impl Network {
    /// Whether `address` lies in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => first == masked_v4(address, self.prefix),
            (IpAddr::V6(first), IpAddr::V6(address)) => first == masked_v6(address, self.prefix),
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = BadNetwork;

    /// `address/prefix`, or a single address. Bits beyond the prefix are refused: such a text means something else
    /// than it says.
    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let bad = || BadNetwork { text: text.chars().take(64).collect() };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| bad())?;
        let widest = if first.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => widest,
            Some(digits) if digits.len() <= 3 && digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().ok().filter(|prefix| *prefix <= widest).ok_or_else(bad)?
            }
            Some(_) => return Err(bad()),
        };
        let masked = match first {
            IpAddr::V4(first) => IpAddr::V4(masked_v4(first, prefix)),
            IpAddr::V6(first) => IpAddr::V6(masked_v6(first, prefix)),
        };
        if masked == first && first.to_canonical() == first { Ok(Self { first, prefix }) } else { Err(bad()) }
    }
}

fn masked_v4(address: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    Ipv4Addr::from_bits(address.to_bits() & mask)
}

fn masked_v6(address: Ipv6Addr, prefix: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
    Ipv6Addr::from_bits(address.to_bits() & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_says_what_it_means() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("fd00::/8", "fdff::1", "fc00::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("::1", "::1", "::2"),
        ] {
            let network: Network = text.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{text} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{text} {outside}");
        }
        for bad in
            ["", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/+8", "10.0.0.0/", "fd00::/129", "::ffff:10.0.0.0/104", "a"]
        {
            assert!(bad.parse::<Network>().is_err(), "{bad:?}");
        }
    }
}
