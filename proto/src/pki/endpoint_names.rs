//! The names of the controller's endpoint, as configured at controller and worker alike (design.md W2).

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::base::der::{DNS_NAME, IP_ADDRESS, SEQUENCE, tlv};
use crate::base::limits::{ENDPOINT_NAME_MAX, ENDPOINT_NAMES_MAX};
use crate::base::names::DnsName;

/// One name a client may call the endpoint by. Text form: `lucia.example.net`, `192.0.2.7` or `2001:db8::7`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum EndpointName {
    /// A DNS name.
    Dns(DnsName),
    /// An address, which reaches the certificate as an iPAddress.
    Ip(IpAddr),
}

/// Why a name or a list of names was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointNameError {
    /// Neither an address nor a DNS name.
    #[error("{name:?} is neither an IP address nor a lower-case DNS name of at most {ENDPOINT_NAME_MAX} characters")]
    Name {
        /// What was given, cut to the longest name there may be.
        name: String,
    },
    /// No name at all, or too many.
    #[error("{count} endpoint names; there must be 1 to {ENDPOINT_NAMES_MAX}")]
    Count {
        /// How many there were.
        count: usize,
    },
    /// The same name twice.
    #[error("the endpoint name {name} is listed twice")]
    Repeated {
        /// The name.
        name: EndpointName,
    },
}

impl EndpointName {
    /// Reads the text form.
    ///
    /// # Errors
    /// [`EndpointNameError::Name`].
    pub fn parse(text: &str) -> Result<Self, EndpointNameError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Ip(address));
        }
        let refused = || EndpointNameError::Name { name: text.chars().take(ENDPOINT_NAME_MAX).collect() };
        // A last label of digits would be read as an address by some clients.
        let last = text.rsplit('.').next().unwrap_or_default();
        if text.len() > ENDPOINT_NAME_MAX || last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refused());
        }
        text.parse().map(Self::Dns).map_err(|_| refused())
    }
}

impl fmt::Display for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => name.fmt(f),
            Self::Ip(address) => address.fmt(f),
        }
    }
}

impl std::str::FromStr for EndpointName {
    type Err = EndpointNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl TryFrom<String> for EndpointName {
    type Error = EndpointNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<EndpointName> for String {
    fn from(name: EndpointName) -> Self {
        name.to_string()
    }
}

/// 1 to [`ENDPOINT_NAMES_MAX`] different names. The first is the one the certificate is called by; the order of
/// the others does not matter, so that two configurations need not agree on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<EndpointName>", into = "Vec<EndpointName>")]
pub struct EndpointNames {
    first: EndpointName,
    /// Sorted.
    others: Vec<EndpointName>,
}

impl EndpointNames {
    /// Checks the list.
    ///
    /// # Errors
    /// Empty, too long, or a name twice.
    pub fn new(names: Vec<EndpointName>) -> Result<Self, EndpointNameError> {
        let count = names.len();
        let mut names = names.into_iter();
        let first = match names.next() {
            Some(first) if count <= ENDPOINT_NAMES_MAX => first,
            _ => return Err(EndpointNameError::Count { count }),
        };
        let mut others: Vec<_> = names.collect();
        others.sort();
        let mut known = None;
        for name in &others {
            if *name == first || known == Some(name) {
                return Err(EndpointNameError::Repeated { name: name.clone() });
            }
            known = Some(name);
        }
        Ok(Self { first, others })
    }

    /// The name the certificate is called by.
    #[must_use]
    pub fn first(&self) -> &EndpointName {
        &self.first
    }

    /// All names, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = &EndpointName> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The value of a subjectAltName extension with these names and no others, DER.
    #[must_use]
    pub fn general_names(&self) -> Vec<u8> {
        let one = |name: &EndpointName| match name {
            EndpointName::Dns(name) => tlv(DNS_NAME, name.as_str().as_bytes()),
            EndpointName::Ip(IpAddr::V4(address)) => tlv(IP_ADDRESS, &address.octets()),
            EndpointName::Ip(IpAddr::V6(address)) => tlv(IP_ADDRESS, &address.octets()),
        };
        tlv(SEQUENCE, &self.iter().flat_map(one).collect::<Vec<_>>())
    }
}

impl TryFrom<Vec<EndpointName>> for EndpointNames {
    type Error = EndpointNameError;

    fn try_from(names: Vec<EndpointName>) -> Result<Self, Self::Error> {
        Self::new(names)
    }
}

impl From<EndpointNames> for Vec<EndpointName> {
    fn from(names: EndpointNames) -> Self {
        names.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses() {
        for (text, ok) in [
            ("lucia", true),
            ("lucia.home.arpa", true),
            ("192.0.2.7", true),
            ("2001:db8::7", true),
            ("", false),
            ("Lucia", false),
            ("*.home.arpa", false),
            ("lucia.", false),
            ("192.0.2.256", false),
            ("192.0.2", false),
            ("https://lucia", false),
            ("lucia:443", false),
            ("a\nb", false),
        ] {
            assert_eq!(EndpointName::parse(text).is_ok(), ok, "{text:?}");
        }
        assert!(EndpointName::parse(&format!("{}.b", "a".repeat(62))).is_ok());
        assert!(EndpointName::parse(&format!("{}.bc", "a".repeat(62))).is_err());
        assert_eq!(EndpointName::parse("2001:DB8:0::7").unwrap().to_string(), "2001:db8::7");
    }

    #[test]
    fn a_list_has_one_to_sixteen_different_names() {
        let list = |names: &[&str]| EndpointNames::new(names.iter().map(|name| name.parse().unwrap()).collect());
        assert_eq!(list(&[]), Err(EndpointNameError::Count { count: 0 }));
        let many: Vec<String> = (0..17).map(|at| format!("n{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(list(&many[..16]).is_ok());
        assert_eq!(list(&many), Err(EndpointNameError::Count { count: 17 }));
        for repeated in [&["a", "a"][..], &["a", "b", "c", "b"], &["a", "b", "a"]] {
            assert!(matches!(list(repeated), Err(EndpointNameError::Repeated { .. })), "{repeated:?}");
        }
        assert_eq!(list(&["a", "c", "b"]), list(&["a", "b", "c"]));
        assert_ne!(list(&["a", "b"]), list(&["b", "a"]));
    }
}
