//! `worker.toml`: what the administrator of the worker's host decided.
//!
//! [`Settings`] is the text, checked; [`Config`] is what it means on this machine, with users and groups looked up.
//! Nothing in it can be changed by the controller.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lucia_proto::endpoint_names::{EndpointName, EndpointNameError, EndpointNames};
use lucia_proto::names::{DnsName, Hostname};
use nix::unistd::{Group, User};
use serde::Deserialize;
use thiserror::Error;

/// Where the settings are unless `--config` says otherwise.
pub const DEFAULT_PATH: &str = "/etc/lucia/worker.toml";

/// The settings as shipped: every one of them commented out, showing its default.
pub const DEFAULT_FILE: &str = include_str!("../worker.toml");

/// Names no node may ever have, whatever the journal says (threats.md C-7). A site adds to them, never takes away.
const BUILT_IN_RESERVED: [&str; 9] =
    ["ca", "controller", "directory", "enrollment", "ldap", "localhost", "lucia", "step-ca", "worker"];

/// What lets a new node into the ledger (design.md W1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Admission {
    /// `admit CODE --fingerprint HEX` on this host.
    #[default]
    Operator,
    /// A grant in the controller's journal is enough.
    Journal,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// A user or group: its name, or its number.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum NameOrId {
    /// `1000`.
    Id(u32),
    /// `"lucia-controller"`, or `"1000"`.
    Name(String),
}

/// The file, read strictly: unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Settings {
    /// The worker's own directory, 0700.
    pub state_dir: PathBuf,
    /// The controller's state directory, which has `onboarding` and `nodes` in it.
    pub controller_state: PathBuf,
    /// Who must own what the worker reads there.
    pub controller_user: NameOrId,
    /// The group both share.
    pub group: NameOrId,
    /// Names the worker signs for the controller's endpoint, and no others.
    pub endpoint_names: Vec<String>,
    /// What lets a new node in.
    pub admission: Admission,
    /// Names no node may have, besides the built-in ones.
    pub reserved_names: Vec<String>,
    /// How log lines look.
    pub log: LogFormat,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            state_dir: "/var/lib/lucia/worker".into(),
            controller_state: "/var/lib/lucia/controller".into(),
            controller_user: NameOrId::Name("lucia-controller".to_owned()),
            group: NameOrId::Name("lucia-enrollment".to_owned()),
            endpoint_names: Vec::new(),
            admission: Admission::default(),
            reserved_names: Vec::new(),
            log: LogFormat::default(),
        }
    }
}

/// Why the settings cannot be used. All of them mean exit code 78.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}; copy the shipped worker.toml there, or name another file with --config")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value of the wrong kind.
    #[error("the settings are not readable; correct the line that is named")]
    Syntax(#[source] Box<toml::de::Error>),
    /// A path that is not absolute.
    #[error("{key} = {path:?} is not an absolute path; write it from / on")]
    Relative {
        /// Which setting.
        key: &'static str,
        /// Its value.
        path: PathBuf,
    },
    /// A user or group that this machine does not know.
    #[error(
        "{key} = {name:?} is no {what} of this machine; make it (systemd-sysusers does after an installation), or correct it"
    )]
    Unknown {
        /// Which setting.
        key: &'static str,
        /// Its value.
        name: String,
        /// `user` or `group`.
        what: &'static str,
    },
    /// A wrong name for the endpoint.
    #[error("endpoint-names cannot be used; correct the name that is named")]
    Endpoint(#[source] EndpointNameError),
    /// A reserved name that no node could have anyway, so it would protect nothing.
    #[error("reserved-names: {name:?} is not a DNS name; write it in letters, digits and -, as nodes would use it")]
    Reserved {
        /// The value.
        name: String,
    },
}

/// Names the worker refuses for nodes even when the journal agrees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved(BTreeSet<String>);

impl Reserved {
    /// The built-in names, the site's, and the first label of each name of the endpoint.
    ///
    /// # Errors
    /// [`ConfigError::Reserved`].
    pub fn new(site: &[String], endpoint: Option<&EndpointNames>) -> Result<Self, ConfigError> {
        let mut names: BTreeSet<String> = BUILT_IN_RESERVED.into_iter().map(str::to_owned).collect();
        for name in site {
            let lower = name.to_ascii_lowercase();
            let checked: DnsName = lower.parse().map_err(|_| ConfigError::Reserved { name: name.clone() })?;
            names.insert(first_label(&checked));
        }
        for name in endpoint.into_iter().flat_map(EndpointNames::iter) {
            if let EndpointName::Dns(name) = name {
                names.insert(first_label(name));
            }
        }
        Ok(Self(names))
    }

    /// Whether no node may have this name.
    #[must_use]
    pub fn holds(&self, name: &Hostname) -> bool {
        self.0.contains(name.as_str())
    }
}

fn first_label(name: &DnsName) -> String {
    name.as_str().split('.').next().unwrap_or_default().to_owned()
}

/// The settings as they are on this machine.
#[derive(Clone, Debug)]
pub struct Config {
    /// The worker's own directory.
    pub state_dir: PathBuf,
    /// The controller's state directory.
    pub controller_state: PathBuf,
    /// Who must own what the worker reads there.
    pub controller_uid: u32,
    /// The group both share.
    pub group: u32,
    /// Names the worker signs for the controller's endpoint.
    pub endpoint_names: Option<EndpointNames>,
    /// What lets a new node in.
    pub admission: Admission,
    /// Names no node may have.
    pub reserved: Reserved,
    /// How log lines look.
    pub log: LogFormat,
}

impl Settings {
    /// Reads the text of a settings file.
    ///
    /// # Errors
    /// [`ConfigError::Syntax`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| ConfigError::Syntax(Box::new(error)))
    }

    /// Checks every value and looks users and groups up.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn resolve(self) -> Result<Config, ConfigError> {
        for (key, path) in [("state-dir", &self.state_dir), ("controller-state", &self.controller_state)] {
            if !path.is_absolute() {
                return Err(ConfigError::Relative { key, path: path.clone() });
            }
        }
        let endpoint_names = endpoint_names(&self.endpoint_names)?;
        Ok(Config {
            controller_uid: self.controller_user.user("controller-user")?,
            group: self.group.group("group")?,
            reserved: Reserved::new(&self.reserved_names, endpoint_names.as_ref())?,
            endpoint_names,
            admission: self.admission,
            state_dir: self.state_dir,
            controller_state: self.controller_state,
            log: self.log,
        })
    }
}

/// The endpoint's names; none when the list is empty.
///
/// # Errors
/// [`ConfigError::Endpoint`].
pub fn endpoint_names(texts: &[String]) -> Result<Option<EndpointNames>, ConfigError> {
    if texts.is_empty() {
        return Ok(None);
    }
    let names = texts.iter().map(|text| EndpointName::parse(text)).collect::<Result<Vec<_>, _>>();
    names.and_then(EndpointNames::new).map(Some).map_err(ConfigError::Endpoint)
}

impl Config {
    /// Reads and resolves a settings file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Settings::parse(&text)?.resolve()
    }
}

impl NameOrId {
    fn id(&self) -> Result<u32, &str> {
        match self {
            Self::Id(id) => Ok(*id),
            Self::Name(name) => name.parse().map_err(|_| name.as_str()),
        }
    }

    fn user(&self, key: &'static str) -> Result<u32, ConfigError> {
        self.id().or_else(|name| match User::from_name(name) {
            Ok(Some(user)) => Ok(user.uid.as_raw()),
            _ => Err(ConfigError::Unknown { key, name: name.to_owned(), what: "user" }),
        })
    }

    fn group(&self, key: &'static str) -> Result<u32, ConfigError> {
        self.id().or_else(|name| match Group::from_name(name) {
            Ok(Some(group)) => Ok(group.gid.as_raw()),
            _ => Err(ConfigError::Unknown { key, name: name.to_owned(), what: "group" }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: WK-10
    #[test]
    fn the_shipped_file_shows_every_default() {
        assert_eq!(Settings::parse(DEFAULT_FILE).unwrap(), Settings::default());
        let shown: String = DEFAULT_FILE
            .lines()
            .filter_map(|line| line.strip_prefix("#"))
            .filter(|line| !line.starts_with([' ', '#']) && line.contains(" = "))
            .flat_map(|line| [line, "\n"])
            .collect();
        assert_eq!(shown.lines().count(), 8, "{shown}");
        assert_eq!(Settings::parse(&shown).unwrap(), Settings::default());
    }

    // spec: WK-11
    #[test]
    fn settings_that_cannot_be_used_are_refused_by_name() {
        for (text, want) in [
            ("polling = 3", "polling"),
            ("admission = \"owner\"", "owner"),
            ("state-dir = \"var\"", "state-dir"),
            ("controller-user = \"nobody-of-this-name\"", "controller-user"),
            ("controller-user = 0\ngroup = \"no-such-group\"", "group"),
            ("endpoint-names = [\"a\", \"a\"]", "listed twice"),
            ("endpoint-names = [\"Upper\"]", "Upper"),
            ("controller-user = 0\ngroup = 0\nreserved-names = [\"a b\"]", "reserved-names"),
            ("state_dir = \"/a\"", "state_dir"),
        ] {
            let error = Settings::parse(text).and_then(Settings::resolve).expect_err(text);
            let shown = crate::chain(&error);
            assert!(shown.contains(want), "{text}: {shown}");
        }
    }

    // spec: WK-12
    #[test]
    fn reserved_names_can_only_grow() {
        let text = "controller-user = \"0\"\ngroup = 0\nreserved-names = [\"NAS\", \"printer.example\"]\n\
                    endpoint-names = [\"lucia-main.example\", \"192.0.2.1\"]";
        let config = Settings::parse(text).unwrap().resolve().unwrap();
        for name in ["controller", "ca", "ldap", "worker", "nas", "printer", "lucia-main"] {
            assert!(config.reserved.holds(&name.parse().unwrap()), "{name}");
        }
        assert!(!config.reserved.holds(&"n1".parse().unwrap()));
    }
}
