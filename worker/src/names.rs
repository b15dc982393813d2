//! Names no node may have, whatever the journal says (threats.md C-7, design.md W5): some by the letter, some by pattern.

use std::collections::BTreeSet;

use lucia_proto::base::names::{DnsName, Hostname};
use lucia_proto::pki::endpoint_names::EndpointName;
use thiserror::Error;

/// Names of the fleet's own services. A site adds to them, never takes away.
const BUILT_IN: [&str; 9] =
    ["ca", "controller", "directory", "enrollment", "ldap", "localhost", "lucia", "step-ca", "worker"];

/// Patterns of names that look like the fleet's own services. A site may replace these, in so many words.
const BUILT_IN_PATTERNS: [&str; 6] =
    ["ca-*", "controller-*", "ldap-*", "localhost*", "lucia-controller*", "lucia-worker*"];

/// Longest pattern: a name has no more.
const PATTERN_MAX: usize = 63;

/// Why a list of names cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadNames {
    /// A reserved name that no node could have anyway, so it would protect nothing.
    #[error("reserved-names: {name:?} is not a DNS name; write it in letters, digits and -, as nodes would use it")]
    Reserved {
        /// The value.
        name: String,
    },
    /// A pattern that is none, so it would protect nothing.
    #[error(
        "denied-names: {pattern:?} is no pattern; write 1 to 63 letters, digits, -, * (any text) and ? (any one sign)"
    )]
    Pattern {
        /// The value.
        pattern: String,
    },
}

/// Names the worker refuses for nodes even when the journal agrees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    names: BTreeSet<String>,
    patterns: Vec<Pattern>,
}

/// A name with `*` for any text and `?` for any one character.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern(Vec<u8>);

impl Reserved {
    /// The built-in names, the site's, and the first label of each name of the fleet's own servers; the built-in patterns, unless
    /// the site replaces them, and the site's.
    ///
    /// # Errors
    /// [`BadNames`].
    pub fn new<'a>(
        site: &[String],
        servers: impl IntoIterator<Item = &'a EndpointName>,
        denied: &[String],
        replace_defaults: bool,
    ) -> Result<Self, BadNames> {
        let mut names: BTreeSet<String> = BUILT_IN.into_iter().map(str::to_owned).collect();
        for name in site {
            let lower = name.to_ascii_lowercase();
            let checked: DnsName = lower.parse().map_err(|_| BadNames::Reserved { name: name.clone() })?;
            names.insert(first_label(&checked));
        }
        names.extend(servers.into_iter().filter_map(label));
        let built_in = BUILT_IN_PATTERNS.into_iter().filter(|_| !replace_defaults);
        let patterns = built_in.chain(denied.iter().map(String::as_str)).map(Pattern::new).collect::<Result<_, _>>()?;
        Ok(Self { names, patterns })
    }

    /// Whether no node may have this name.
    #[must_use]
    pub fn holds(&self, name: &Hostname) -> bool {
        self.names.contains(name.as_str())
    }

    /// Whether no new node may have this name. Who has it already keeps it when a pattern is added.
    #[must_use]
    pub fn denies(&self, name: &Hostname) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(name.as_str().as_bytes()))
    }
}

impl Pattern {
    fn new(text: &str) -> Result<Self, BadNames> {
        let lower = text.to_ascii_lowercase().into_bytes();
        let is_sign = |b: &u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'*' | b'?');
        // One that matches every name is a slip of the pen, and would stop the fleet.
        let is_some = lower.iter().any(|b| *b != b'*' && *b != b'?');
        if lower.is_empty() || lower.len() > PATTERN_MAX || !lower.iter().all(is_sign) || !is_some {
            return Err(BadNames::Pattern { pattern: text.to_owned() });
        }
        Ok(Self(lower))
    }

    /// Whether the whole name matches. One pass: only the last `*` is ever gone back to.
    fn matches(&self, name: &[u8]) -> bool {
        let (mut at, mut read) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while let Some(byte) = name.get(read) {
            match self.0.get(at) {
                Some(b'*') => {
                    star = Some((at, read));
                    at += 1;
                }
                Some(sign) if *sign == b'?' || sign == byte => (at, read) = (at + 1, read + 1),
                _ => match star {
                    // The `*` takes one more.
                    Some((star_at, taken)) => {
                        star = Some((star_at, taken + 1));
                        (at, read) = (star_at + 1, taken + 1);
                    }
                    None => return false,
                },
            }
        }
        self.0.iter().skip(at).all(|sign| *sign == b'*')
    }
}

/// The name that a node would have to be called by this name; none where it is an address.
#[must_use]
pub fn label(name: &EndpointName) -> Option<String> {
    match name {
        EndpointName::Dns(name) => Some(first_label(name)),
        EndpointName::Ip(_) => None,
    }
}

fn first_label(name: &DnsName) -> String {
    name.as_str().split('.').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: WK-13
    #[test]
    fn patterns_match_the_whole_name_in_lower_case() {
        for (pattern, yes, no) in [
            ("db", &["db"][..], &["db1", "adb", "d"][..]),
            ("DB-*", &["db-", "db-1", "db-a-b"], &["db", "xdb-1"]),
            ("*-ca", &["my-ca", "a-ca-ca"], &["my-cab", "ca"]),
            ("n?", &["n1", "nx"], &["n", "n12"]),
            ("a*b*c", &["abc", "axbxc", "abbcc"], &["acb", "ab"]),
            ("*a*a", &["aa", "xaya", "aaa"], &["a", "aab"]),
        ] {
            let pattern = Pattern::new(pattern).unwrap();
            assert!(yes.iter().all(|name| pattern.matches(name.as_bytes())), "{pattern:?} {yes:?}");
            assert!(!no.iter().any(|name| pattern.matches(name.as_bytes())), "{pattern:?} {no:?}");
        }
        let long = Pattern::new("*a*a*a*a*a*a*a*a*a*a*a*a*b").unwrap();
        assert!(!long.matches(&[b'a'; 63]), "and at once");
    }

    // spec: WK-13
    #[test]
    fn a_pattern_that_is_none_is_refused_and_defaults_go_only_when_told() {
        for bad in ["", "*", "?*", "a.b", "a b", "[a-z]", "ä", "a\n", &"a".repeat(64)] {
            let refused = Reserved::new(&[], None, &[bad.to_owned()], false).unwrap_err();
            assert_eq!(refused, BadNames::Pattern { pattern: bad.to_owned() });
        }
        let denied = |name: &str, own: &[&str], replace| {
            let own: Vec<String> = own.iter().map(|text| (*text).to_owned()).collect();
            let reserved = Reserved::new(&[], None, &own, replace).unwrap();
            reserved.denies(&name.parse().unwrap())
        };
        assert!(denied("ldap-2", &[], false) && denied("ldap-2", &["db-*"], false) && denied("db-2", &["DB-*"], false));
        assert!(!denied("ldap-2", &[], true) && denied("db-2", &["db-*"], true) && !denied("n1", &["db-*"], false));
    }
}
