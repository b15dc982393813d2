//! Names that reach a path, a certificate or a person: checked by grammar before anything else.

use crate::checked_text;

/// Longest DNS label (RFC 1035, section 2.3.4).
const LABEL_MAX: usize = 63;
/// Longest DNS name in text form (RFC 1035, section 2.3.4).
const DNS_NAME_MAX: usize = 253;
/// Longest disk id: the kernel's own names by id stay well under it.
const DISK_ID_MAX: usize = 256;

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    let inner = |b: &u8| matches!(b, b'a'..=b'z' | b'0'..=b'9');
    bytes.len() <= LABEL_MAX
        && inner(first)
        && inner(last)
        && bytes.iter().all(|b| inner(b) || *b == b'-')
        // Punycode shows one name and means another (threats.md B-16).
        && !text.starts_with("xn--")
}

checked_text! {
    /// A node's hostname: one lower-case DNS label that starts with a letter and is not `localhost`.
    /// Names reserved for the controller and the worker's services are the worker's to refuse.
    Hostname, BadHostname,
    "a hostname: 1 to 63 of a-z, 0-9 and -, starting with a letter, not ending with -, not localhost, not xn--",
    |text| is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase()) && text != "localhost"
}

checked_text! {
    /// The name in a controller's certificate: a lower-case DNS name of one or more labels.
    DnsName, BadDnsName, "a DNS name: lower-case labels joined by dots, at most 253 characters",
    |text| text.len() <= DNS_NAME_MAX && text.split('.').all(is_label)
}

checked_text! {
    /// An account whose SSH keys are delivered: never `root` and never the recovery account.
    AccountName, BadAccountName,
    "an account name: a-z or _ first, then up to 31 of a-z, 0-9, _, . and -; not root or lucia-recovery",
    |text| {
        let mut bytes = text.bytes();
        bytes.next().is_some_and(|b| matches!(b, b'a'..=b'z' | b'_'))
            && bytes.all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-'))
            && text.len() <= 32
            && !matches!(text, "root" | "lucia-recovery")
    }
}

checked_text! {
    /// Which disk an approval erases: the id of the inventory, as the machine reported it.
    DiskId, BadDiskId, "a disk id: 1 to 256 of A-Z, a-z, 0-9, . _ : + - and /, without ..",
    |text| {
        !text.is_empty()
            && text.len() <= DISK_ID_MAX
            && !text.contains("..")
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:+-/".contains(&b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn hostname(text: &str, ok: bool) {
        assert_eq!(text.parse::<Hostname>().is_ok(), ok, "{text:?}");
    }

    // spec: ID-2
    #[test]
    fn hostnames() {
        let long = "a".repeat(63);
        hostname("n1", true);
        hostname("web-01", true);
        hostname(&long, true);
        hostname(&format!("{long}a"), false);
        for bad in [
            "",
            "-a",
            "a-",
            "1a",
            "A",
            "a.b",
            "a_b",
            "localhost",
            "xn--bcher-kva",
            "a;reboot",
            "a b",
            "a\n",
            "ä",
            "a/b",
        ] {
            hostname(bad, false);
        }
    }

    #[test]
    fn dns_names() {
        for (text, ok) in [
            ("controller", true),
            ("controller.lucia.home.arpa", true),
            ("1.2", true),
            ("", false),
            (".a", false),
            ("a.", false),
            ("a..b", false),
            ("*.a", false),
            ("A.b", false),
            ("a.xn--b", false),
        ] {
            assert_eq!(text.parse::<DnsName>().is_ok(), ok, "{text:?}");
        }
        let long = ["a"; 127].join(".");
        assert!(long.parse::<DnsName>().is_ok());
        assert!(format!("{long}.a").parse::<DnsName>().is_err());
    }

    #[test]
    fn account_names_and_disk_ids() {
        for (text, ok) in [
            ("alice", true),
            ("_svc.x-1", true),
            ("root", false),
            ("lucia-recovery", false),
            ("../x", false),
            ("a/b", false),
            ("Alice", false),
            ("1a", false),
            ("", false),
        ] {
            assert_eq!(text.parse::<AccountName>().is_ok(), ok, "{text:?}");
        }
        assert!("a".repeat(32).parse::<AccountName>().is_ok());
        assert!("a".repeat(33).parse::<AccountName>().is_err());
        for (text, ok) in [
            ("wwn-0x5000c500a1b2c3d4", true),
            ("pci-0000:00:04.0", true),
            ("", false),
            ("../../dev/sda", false),
            ("a b", false),
            ("a\nb", false),
        ] {
            assert_eq!(text.parse::<DiskId>().is_ok(), ok, "{text:?}");
        }
    }
}
