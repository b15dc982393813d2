//! Network interfaces: `/sys/class/net`, with the addresses that the caller knows.
//!
//! Only what has an Ethernet address counts, and what is made of hardware. Where nothing is (a container), the virtual
//! ones stand in.

use std::net::IpAddr;
use std::path::Path;

use lucia_proto::base::limits::{ADDRESSES_PER_INTERFACE_MAX, INTERFACES_MAX};
use lucia_proto::node::inventory::{Interface, InterfaceName, MacAddress};

use super::read;
use crate::host::root::Root;

/// ARPHRD_ETHER, the kernel's number for what has six bytes of address (WLAN has it too).
const ETHERNET: u32 = 1;

/// An address and the interface that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface, as the kernel names it.
    pub interface: String,
    /// The address.
    pub ip: IpAddr,
}

/// The addresses of the machine this process runs on, in its network namespace. The one question that no file answers.
#[must_use]
pub fn system_addresses() -> Vec<Address> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let address = |found: nix::ifaddrs::InterfaceAddress| {
        let storage = found.address?;
        let v4 = storage.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        let ip = v4.or_else(|| storage.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))?;
        Some(Address { interface: found.interface_name, ip })
    };
    interfaces.filter_map(address).collect()
}

pub(super) fn gather(root: &Root, addresses: &[Address]) -> Vec<Interface> {
    let net = root.join("sys/class/net");
    let found = read::names(&net, |name| name != "lo");
    let (real, imaginary): (Vec<_>, Vec<_>) = found.into_iter().partition(|name| !is_virtual(&net, name));
    let describe = |names: Vec<String>| {
        let described = names.iter().filter_map(|name| interface(&net, name, addresses));
        described.take(INTERFACES_MAX).collect::<Vec<_>>()
    };
    let interfaces = describe(real);
    if interfaces.is_empty() { describe(imaginary) } else { interfaces }
}

fn is_virtual(net: &Path, name: &str) -> bool {
    let target = std::fs::read_link(net.join(name));
    target.is_ok_and(|target| target.components().any(|part| part.as_os_str() == "virtual"))
}

fn interface(net: &Path, name: &str, addresses: &[Address]) -> Option<Interface> {
    let dir = net.join(name);
    if read::number::<u32>(&dir.join("type")) != Some(ETHERNET) {
        return None;
    }
    let mac = read::attribute(&dir.join("address"))?.to_ascii_lowercase();
    // Tunnels that every network namespace gets have this one.
    if mac == "00:00:00:00:00:00" {
        return None;
    }
    let name = name.parse::<InterfaceName>().ok()?;
    let mac_address = mac.parse::<MacAddress>().ok()?;
    let own = addresses.iter().filter(|address| address.interface == name.as_str());
    let mut own = own.map(|address| address.ip.to_canonical()).collect::<Vec<_>>();
    own.sort_by_key(|ip| (is_link_local(ip), *ip));
    own.dedup();
    own.truncate(ADDRESSES_PER_INTERFACE_MAX);
    Some(Interface { name, mac_address, addresses: own })
}

fn is_link_local(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;

    fn put(scratch: &Scratch, name: &str, kind: &str, mac: &str) {
        let parent = if name.starts_with('e') { "pci0000:00/0000:00:03.0" } else { "virtual" };
        let dir = format!("sys/devices/{parent}/net/{name}");
        scratch.put(&format!("{dir}/type"), kind);
        scratch.put(&format!("{dir}/address"), mac);
        std::fs::create_dir_all(scratch.root().join("sys/class/net")).unwrap();
        let link = scratch.root().join("sys/class/net").join(name);
        std::os::unix::fs::symlink(format!("../../devices/{parent}/net/{name}"), link).unwrap();
    }

    fn names(scratch: &Scratch) -> Vec<String> {
        gather(&scratch.root(), &[]).iter().map(|found| found.name.to_string()).collect()
    }

    // spec: AG-65
    #[test]
    fn hardware_counts_and_virtual_interfaces_only_stand_in() {
        let scratch = Scratch::new();
        assert!(names(&scratch).is_empty());
        put(&scratch, "lo", "772\n", "00:00:00:00:00:00\n");
        put(&scratch, "gretap0", "1\n", "00:00:00:00:00:00\n");
        put(&scratch, "tunl0", "768\n", "0.0.0.0\n");
        assert!(names(&scratch).is_empty());
        put(&scratch, "veth0", "1\n", "02:00:00:00:00:01\n");
        assert_eq!(names(&scratch), ["veth0"]);
        put(&scratch, "eib0", "32\n", "80:00:02:08:fe:80:00:00:00:00:00:00:f4:52:14:03:00:1b:b2:51\n");
        put(&scratch, "ebad", "1\n", "zz\n");
        put(&scratch, "e\u{202e}", "1\n", "02:00:00:00:00:03\n");
        assert_eq!(names(&scratch), ["veth0"]);
        put(&scratch, "eno1", "1\n", "02:00:00:00:00:0A\n");
        assert_eq!(names(&scratch), ["eno1"]);
        assert_eq!(gather(&scratch.root(), &[])[0].mac_address.as_str(), "02:00:00:00:00:0a");
    }

    // spec: AG-65
    #[test]
    fn addresses_are_each_once_reachable_first_and_bounded() {
        let scratch = Scratch::new();
        put(&scratch, "eno1", "1\n", "02:00:00:00:00:01\n");
        let on = |interface: &str, ip: &str| Address { interface: interface.into(), ip: ip.parse().unwrap() };
        let few = [
            on("eno1", "fe80::1"),
            on("eno1", "2001:db8::1"),
            on("eno1", "::ffff:192.0.2.7"),
            on("eno1", "192.0.2.7"),
            on("eno2", "192.0.2.8"),
        ];
        let found = gather(&scratch.root(), &few).remove(0).addresses;
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["192.0.2.7", "2001:db8::1", "fe80::1"]);
        let many = (0..99).map(|n| on("eno1", &format!("192.0.2.{n}"))).collect::<Vec<_>>();
        assert_eq!(gather(&scratch.root(), &many)[0].addresses.len(), ADDRESSES_PER_INTERFACE_MAX);
    }

    #[test]
    fn the_machine_knows_its_own_addresses() {
        assert!(system_addresses().iter().all(|address| !address.interface.is_empty()));
    }
}
