//! What a node is told of the directory: where it is, and the reader it may bind as (managed-nodes.md "Enrollment").
//!
//! Grammars are far narrower than LDAP's, so that no value of ours ever needs quoting: not in a DN, a search filter,
//! an `olcAccess` rule or `sssd.conf` (threats.md D-1 to D-3).

use crate::base::ids::NodeId;
use crate::checked_text;
use crate::pki::endpoint_names::EndpointName;
use crate::pki::sealed::Sealed;

/// Longest distinguished name: protects files and directory from nonsense.
const DN_MAX: usize = 256;
/// Most parts of one.
const DN_PARTS_MAX: usize = 16;
/// Longest group name (threats.md D-1).
const GROUP_NAME_MAX: usize = 32;
/// Under which readers live, below the base.
pub const SERVICES: &str = "ou=Services";

checked_text! {
    /// Where the directory is: `ldaps://` with a lower-case DNS name or an IPv4 address, and a port other than 636.
    LdapUri, BadLdapUri,
    "an ldaps:// URI: a lower-case DNS name or an IPv4 address, at most a port, nothing after it",
    |text| text.strip_prefix("ldaps://").is_some_and(|rest| {
        let (host, port) = rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port)));
        let host = match host.parse::<EndpointName>() {
            Ok(EndpointName::Dns(_)) => true,
            Ok(EndpointName::Ip(address)) => address.is_ipv4(),
            Err(_) => false,
        };
        // One text for one place: no leading zeros, and the default is not written.
        let port = port.is_none_or(|port| {
            port.parse::<u16>().is_ok_and(|number| number != 0 && number != 636 && number.to_string() == port)
        });
        host && port
    })
}

checked_text! {
    /// A distinguished name: `attribute=value` parts joined by single commas, without any escape.
    Dn, BadDn,
    "a distinguished name: attribute=value parts joined by commas; letters, digits, . _ - and inner spaces in values",
    |text| text.len() <= DN_MAX
        && text.split(',').count() <= DN_PARTS_MAX
        && text.split(',').all(is_dn_part)
}

fn is_dn_part(part: &str) -> bool {
    let Some((attribute, value)) = part.split_once('=') else { return false };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._- ".contains(&b);
    attribute.starts_with(|c: char| c.is_ascii_alphabetic())
        && attribute.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !value.is_empty()
        && !value.starts_with(' ')
        && !value.ends_with(' ')
        && value.bytes().all(plain)
}

checked_text! {
    /// The group of the owners: `cn=<group>` and what it lies under; the name is one that Linux takes for a group.
    GroupDn, BadGroupDn,
    "the DN of a group: cn=NAME,... with a NAME of a-z or _ first, then up to 31 of a-z, 0-9, _ and -",
    |text| text.parse::<Dn>().is_ok()
        && text.strip_prefix("cn=").and_then(|rest| rest.split_once(',')).is_some_and(|(name, _)| is_group_name(name))
}

fn is_group_name(name: &str) -> bool {
    name.len() <= GROUP_NAME_MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

impl LdapUri {
    /// The name or address in it: what the directory's certificate must be for.
    #[must_use]
    pub fn host(&self) -> &str {
        let rest = self.as_str().strip_prefix("ldaps://").unwrap_or_default();
        rest.split(':').next().unwrap_or_default()
    }

    /// Its port; that of ldaps where it names none.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.as_str().rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(636)
    }
}

impl Dn {
    /// Whether this lies below `base`, compared as directories do: without regard to case.
    #[must_use]
    pub fn is_below(&self, base: &Self) -> bool {
        let (own, base) = (self.as_str().to_ascii_lowercase(), base.as_str().to_ascii_lowercase());
        own.strip_suffix(&base).is_some_and(|rest| rest.ends_with(','))
    }

    /// `<part>,<this>`; nothing where that is no name or too long a one.
    #[must_use]
    pub fn below(&self, part: &str) -> Option<Self> {
        format!("{part},{self}").parse().ok()
    }
}

impl GroupDn {
    /// The group's name, as `getent group` takes it.
    #[must_use]
    pub fn group_name(&self) -> &str {
        let rest = self.as_str().strip_prefix("cn=").unwrap_or_default();
        rest.split(',').next().unwrap_or_default()
    }

    /// Whether it lies below `base`.
    #[must_use]
    pub fn is_below(&self, base: &Dn) -> bool {
        self.as_str().parse::<Dn>().is_ok_and(|dn| dn.is_below(base))
    }
}

/// The reader of a node: `uid=node-<32 hex>,ou=Services,<base>`; nothing where the base leaves no room for it.
#[must_use]
pub fn reader_dn(node_id: &NodeId, base: &Dn) -> Option<Dn> {
    base.below(&format!("uid=node-{node_id},{SERVICES}"))
}

/// The directory in an answer. On the wire its members stand among the answer's own, all of them or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryAccess {
    /// `ldapUri`: where it is.
    pub uri: LdapUri,
    /// `ldapBaseDn`: what the node searches under.
    pub base_dn: Dn,
    /// `ldapBindDn`: this node's reader.
    pub bind_dn: Dn,
    /// `ldapBindPasswordSealed`: its password, sealed to the node's key.
    pub bind_password: Sealed,
    /// `ownerGroupDn`: who may log in.
    pub owner_group: GroupDn,
}

impl DirectoryAccess {
    /// The first member that is not right for this node: none where all are.
    #[must_use]
    pub fn wrong_for(&self, node_id: &NodeId) -> Option<&'static str> {
        if reader_dn(node_id, &self.base_dn).as_ref() != Some(&self.bind_dn) {
            return Some("ldapBindDn");
        }
        (!self.owner_group.is_below(&self.base_dn)).then_some("ownerGroupDn")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::TestNode;

    // spec: DR-1
    #[test]
    fn uris() {
        for (text, ok) in [
            ("ldaps://directory.lucia.home.arpa", true),
            ("ldaps://localhost:16636", true),
            ("ldaps://192.0.2.7:1636", true),
            ("ldap://directory", false),
            ("LDAPS://directory", false),
            ("ldapi:///", false),
            ("ldaps://", false),
            ("ldaps://a:", false),
            ("ldaps://a:0", false),
            ("ldaps://a:636", false),
            ("ldaps://a:0637", false),
            ("ldaps://a:65536", false),
            ("ldaps://a/", false),
            ("ldaps://a?b", false),
            ("ldaps://u@a", false),
            ("ldaps://A", false),
            ("ldaps://a,ldaps://b", false),
            ("ldaps://a ldap://b", false),
            ("ldaps://a\n[domain/evil]", false),
            ("ldaps://[2001:db8::7]", false),
        ] {
            assert_eq!(text.parse::<LdapUri>().is_ok(), ok, "{text:?}");
        }
        assert_eq!("ldaps://a.b:1636".parse::<LdapUri>().unwrap().host(), "a.b");
        assert_eq!("ldaps://a.b".parse::<LdapUri>().unwrap().host(), "a.b");
    }

    // spec: DR-2
    #[test]
    fn distinguished_names() {
        for (text, ok) in [
            ("dc=lucia,dc=home,dc=arpa", true),
            ("o=Lucia Nodes", true),
            ("", false),
            ("lucia", false),
            ("dc=", false),
            ("=a", false),
            ("dc=a,", false),
            ("dc=a, dc=b", false),
            ("dc=a ", false),
            ("dc= a", false),
            ("dc=*", false),
            ("dc=a)(uid=*", false),
            ("dc=\\2a", false),
            ("dc=a\0", false),
            ("dc=a\n", false),
            ("dc=a+cn=b", false),
            ("dc=\"a\"", false),
            ("dc=#41", false),
            ("dc=a;dc=b", false),
            ("dc=ä", false),
            ("1c=a", false),
        ] {
            assert_eq!(text.parse::<Dn>().is_ok(), ok, "{text:?}");
        }
        assert!(format!("dc={}", "a".repeat(300)).parse::<Dn>().is_err());
        assert!(["dc=a"; 17].join(",").parse::<Dn>().is_err());
        let base: Dn = "dc=a,dc=b".parse().unwrap();
        for (text, below) in
            [("ou=x,dc=a,dc=b", true), ("ou=x,DC=A,dc=b", true), ("dc=a,dc=b", false), ("xdc=a,dc=b", false)]
        {
            assert_eq!(text.parse::<Dn>().unwrap().is_below(&base), below, "{text}");
        }
    }

    // spec: DR-3
    #[test]
    fn groups_of_owners() {
        let group = |name: &str| format!("cn={name},ou=Groups,dc=a").parse::<GroupDn>();
        assert_eq!(group("lucia-owners").unwrap().group_name(), "lucia-owners");
        let long = "a".repeat(300);
        for bad in ["*", ")(uid=*", "a,ou=x\\", "\\2a", "a\0", "a ", " a", "Owners", "-a", "1a", "", long.as_str()] {
            assert!(group(bad).is_err(), "{bad:?}");
        }
        assert!("ou=Groups,dc=a".parse::<GroupDn>().is_err());
        assert!("cn=lucia-owners".parse::<GroupDn>().is_err());
    }

    // spec: DR-4
    #[test]
    fn a_reader_is_this_nodes_own() {
        let node = TestNode::new(7);
        let base: Dn = "dc=lucia,dc=home,dc=arpa".parse().unwrap();
        let dn = reader_dn(&node.node_id, &base).unwrap();
        assert_eq!(dn.as_str(), format!("uid=node-{},ou=Services,dc=lucia,dc=home,dc=arpa", node.node_id));
        let deep: Dn = format!("dc={}", "a".repeat(240)).parse().unwrap();
        assert_eq!(reader_dn(&node.node_id, &deep), None);
    }
}
