//! The `[directory]` section of `worker.toml` (design.md W3).

use std::time::Duration;

use lucia_proto::base::ids::NodeId;
use lucia_proto::node::directory::{Dn, GroupDn, LdapUri, reader_dn};
use lucia_proto::pki::endpoint_names::{EndpointName, EndpointNames};
use serde::Deserialize;
use thiserror::Error;

/// The base of the reference, which a site replaces by its own.
const DEFAULT_BASE: &str = "dc=lucia,dc=home,dc=arpa";

/// Longest life of a directory server's certificate: what browsers and other clients of today still take.
const CERTIFICATE_DAYS_MAX: u16 = 397;

/// What kind of directory there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectoryKind {
    /// None: nodes know local accounts alone.
    #[default]
    None,
    /// OpenLDAP over ldaps.
    Ldap,
}

/// The section as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct DirectorySettings {
    /// Which kind.
    pub kind: DirectoryKind,
    /// Where it is; must be set with `kind = "ldap"`.
    pub uri: String,
    /// What everything lies under.
    pub base_dn: String,
    /// As whom the worker binds.
    pub bind_dn: String,
    /// Who may log in to nodes.
    pub owner_group: String,
    /// Names that `sign-directory` signs for the directory's server, and no others.
    pub names: Vec<String>,
    /// For how many days.
    pub certificate_days: u16,
}

impl Default for DirectorySettings {
    fn default() -> Self {
        Self {
            kind: DirectoryKind::default(),
            uri: String::new(),
            base_dn: DEFAULT_BASE.to_owned(),
            bind_dn: format!("cn=admin,{DEFAULT_BASE}"),
            owner_group: format!("cn=lucia-owners,ou=Groups,{DEFAULT_BASE}"),
            names: Vec::new(),
            certificate_days: 90,
        }
    }
}

/// A directory as the worker uses it and nodes are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryConfig {
    /// Where it is.
    pub uri: LdapUri,
    /// What everything lies under.
    pub base_dn: Dn,
    /// As whom the worker binds.
    pub bind_dn: Dn,
    /// Who may log in to nodes.
    pub owner_group: GroupDn,
}

/// What may be signed for the directory's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// What it may be called by.
    pub names: EndpointNames,
    /// How long one certificate lasts.
    pub lifetime: Duration,
}

/// A value of the section cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("[directory] {key} = {value:?} is not {expected}")]
pub struct BadDirectory {
    /// Which setting.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What it must be.
    pub expected: String,
}

impl DirectorySettings {
    /// What may be signed for the directory's server; nothing while no name is given. Whatever the kind: a server needs
    /// its certificate before there is a directory.
    ///
    /// # Errors
    /// [`BadDirectory`].
    pub fn server(&self) -> Result<Option<ServerConfig>, BadDirectory> {
        let days = self.certificate_days;
        if !(1..=CERTIFICATE_DAYS_MAX).contains(&days) {
            let expected = format!("a number from 1 to {CERTIFICATE_DAYS_MAX}");
            return Err(BadDirectory { key: "certificate-days", value: days.to_string(), expected });
        }
        if self.names.is_empty() {
            return Ok(None);
        }
        let names = self.names.iter().map(|text| EndpointName::parse(text)).collect::<Result<Vec<_>, _>>();
        let names = names.and_then(EndpointNames::new).map_err(|error| BadDirectory {
            key: "names",
            value: self.names.join(" ").chars().take(256).collect(),
            expected: format!("a list of different names of servers: {error}"),
        })?;
        Ok(Some(ServerConfig { names, lifetime: Duration::from_secs(u64::from(days) * 24 * 3600) }))
    }

    /// Checks the section; nothing with `kind = "none"`, whose other values are not looked at.
    ///
    /// # Errors
    /// [`BadDirectory`].
    pub fn resolve(self) -> Result<Option<DirectoryConfig>, BadDirectory> {
        if self.kind == DirectoryKind::None {
            return Ok(None);
        }
        let base_dn: Dn = read("base-dn", &self.base_dn)?;
        let owner_group: GroupDn = read("owner-group", &self.owner_group)?;
        let below =
            |key, value: &str| BadDirectory { key, value: value.to_owned(), expected: format!("below {base_dn}") };
        if !owner_group.is_below(&base_dn) {
            return Err(below("owner-group", &self.owner_group));
        }
        // Any id is as long as another: what this base leaves room for is known before the first node.
        let any: Option<NodeId> = "0".repeat(32).parse().ok();
        if any.and_then(|id| reader_dn(&id, &base_dn)).is_none() {
            let expected = "short enough for uid=node-<32 hex>,ou=Services before it".to_owned();
            return Err(BadDirectory { key: "base-dn", value: self.base_dn, expected });
        }
        let (uri, bind_dn) = (read("uri", &self.uri)?, read("bind-dn", &self.bind_dn)?);
        Ok(Some(DirectoryConfig { uri, base_dn, bind_dn, owner_group }))
    }
}

fn read<T: std::str::FromStr<Err: std::fmt::Display>>(key: &'static str, value: &str) -> Result<T, BadDirectory> {
    value.parse().map_err(|error: T::Err| BadDirectory {
        key,
        value: value.chars().take(256).collect(),
        expected: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> Result<Option<DirectoryConfig>, String> {
        let settings: DirectorySettings = toml::from_str(text).map_err(|error| error.to_string())?;
        settings.resolve().map_err(|error| error.to_string())
    }

    // spec: LD-1
    #[test]
    fn a_directory_is_asked_for_and_whole() {
        assert_eq!(section(""), Ok(None));
        assert_eq!(section("kind = \"none\"\nuri = \"ldap://x\""), Ok(None));
        let found = section("kind = \"ldap\"\nuri = \"ldaps://localhost:1636\"").unwrap().unwrap();
        assert_eq!(found.bind_dn.as_str(), "cn=admin,dc=lucia,dc=home,dc=arpa");
        assert_eq!(found.owner_group.group_name(), "lucia-owners");
        for (more, want) in [
            ("", "uri"),
            ("uri = \"ldap://directory\"", "ldaps://"),
            ("uri = \"ldaps://d\"\nbase-dn = \"dc=*\"", "base-dn"),
            ("uri = \"ldaps://d\"\nbase-dn = \"dc=other\"", "dc=other"),
            ("uri = \"ldaps://d\"\nbind-dn = \"\"", "bind-dn"),
            ("uri = \"ldaps://d\"\nstarttls = true", "starttls"),
            ("uri = \"ldaps://d\"\nowner-group = \"ou=x\"", "owner-group"),
        ] {
            let refused = section(&format!("kind = \"ldap\"\n{more}")).unwrap_err();
            assert!(refused.contains(want), "{more}: {refused}");
        }
        let long = format!("dc={}", "a".repeat(220));
        let text = format!("kind = \"ldap\"\nuri = \"ldaps://d\"\nbase-dn = \"{long}\"\nowner-group = \"cn=o,{long}\"");
        assert!(section(&text).unwrap_err().contains("base-dn"));
    }
}
