//! `worker.toml`: what the administrator of the worker's host decided.
//!
//! [`Settings`] is the text, checked; [`Config`] is what it means on this machine, with users and groups looked up.
//! Nothing in it can be changed by the controller.

mod ca;
mod directory;

use std::path::{Path, PathBuf};
use std::time::Duration;

use lucia_daemon::log::LogFormat;
use lucia_proto::orders::OrderPolicy;
use lucia_proto::pki::endpoint_names::{EndpointName, EndpointNameError, EndpointNames};
use nix::unistd::{Group, User};
use serde::Deserialize;
use thiserror::Error;

pub use crate::names::{BadNames, Reserved};
pub use ca::{BadCa, CaKind, CaSettings, StepCaConfig};
pub use directory::{BadDirectory, DirectoryConfig, DirectoryKind, DirectorySettings, ServerConfig};

/// Where the settings are unless `--config` says otherwise.
pub const DEFAULT_PATH: &str = "/etc/lucia/worker.toml";

/// The settings as shipped: every one of them commented out, showing its default.
pub const DEFAULT_FILE: &str = include_str!("../worker.toml");

/// What lets a new node into the ledger (design.md W1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Admission {
    /// `admit CODE --fingerprint HEX` on this host.
    Operator,
    /// A grant in the controller's journal is enough.
    Journal,
    /// An owner's signed order; the operator's `admit` as well, since who has a shell here has the ledger.
    Owner,
}

impl Admission {
    /// As the settings write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Journal => "journal",
            Self::Owner => "owner",
        }
    }
}

/// The largest number of anything in an hour: as many are remembered.
pub const HOURLY_MAX: usize = 16_384;
/// Longest `max-lapse`: ten years.
const LAPSE_DAYS_MAX: usize = 3653;

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
    /// What lets a new node in. Not said: an owner, once the roster has one, and the operator until then.
    pub admission: Option<Admission>,
    /// What is asked of owners' orders here, besides what the roster asks.
    pub intent_policy: OrderPolicy,
    /// Names no node may have, besides the built-in ones.
    pub reserved_names: Vec<String>,
    /// Patterns of names no new node may have, besides the built-in ones.
    pub denied_names: Vec<String>,
    /// Whether `denied-names` stands in the place of the built-in patterns.
    pub replace_defaults: bool,
    /// Nodes that the journal alone may let in within an hour.
    pub new_nodes_per_hour: usize,
    /// Leaves signed within an hour.
    pub certificates_per_hour: usize,
    /// Days after its certificate's end within which a node renews by itself.
    pub max_lapse: u16,
    /// How log lines look.
    pub log: LogFormat,
    /// Who signs certificates.
    pub ca: CaSettings,
    /// The directory of accounts.
    pub directory: DirectorySettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            state_dir: "/var/lib/lucia/worker".into(),
            controller_state: "/var/lib/lucia/controller".into(),
            controller_user: NameOrId::Name("lucia-controller".to_owned()),
            group: NameOrId::Name("lucia-enrollment".to_owned()),
            endpoint_names: Vec::new(),
            admission: None,
            intent_policy: OrderPolicy::allow_all(),
            reserved_names: Vec::new(),
            denied_names: Vec::new(),
            replace_defaults: false,
            new_nodes_per_hour: 30,
            certificates_per_hour: 1000,
            max_lapse: 30,
            log: LogFormat::default(),
            ca: CaSettings::default(),
            directory: DirectorySettings::default(),
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
    /// A list of names that cannot be used.
    #[error("the names no node may have cannot be used; correct the value that is named")]
    Names(#[source] BadNames),
    /// The CA's section cannot be used.
    #[error("the CA cannot be used; correct the value that is named")]
    Ca(#[source] BadCa),
    /// The directory's section cannot be used.
    #[error("the directory cannot be used; correct the value that is named")]
    Directory(#[source] BadDirectory),
    /// A number out of its range.
    #[error("{key} = {value} is out of range; write a number from 1 to {max}")]
    Range {
        /// Which setting.
        key: &'static str,
        /// Its value.
        value: usize,
        /// The largest one.
        max: usize,
    },
}

/// How much is signed in an hour, whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes let in by the journal alone.
    pub new_nodes: usize,
    /// Leaves signed.
    pub certificates: usize,
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
    /// What lets a new node in, as far as the settings say: [`Config::admission`].
    pub admission: Option<Admission>,
    /// What is asked of owners' orders here, besides what the roster asks.
    pub intent_policy: OrderPolicy,
    /// Names no node may have.
    pub reserved: Reserved,
    /// How much is signed in an hour.
    pub limits: Limits,
    /// How long after its certificate's end a node renews by itself.
    pub max_lapse: Duration,
    /// How log lines look.
    pub log: LogFormat,
    /// step-ca, where the worker does not sign itself.
    pub step_ca: Option<StepCaConfig>,
    /// The directory of accounts, where there is one.
    pub directory: Option<DirectoryConfig>,
    /// What may be signed for its server.
    pub directory_server: Option<ServerConfig>,
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
        let max_lapse = usize::from(self.max_lapse);
        for (key, value, max) in [
            ("new-nodes-per-hour", self.new_nodes_per_hour, HOURLY_MAX),
            ("certificates-per-hour", self.certificates_per_hour, HOURLY_MAX),
            ("max-lapse", max_lapse, LAPSE_DAYS_MAX),
        ] {
            if !(1..=max).contains(&value) {
                return Err(ConfigError::Range { key, value, max });
            }
        }
        let endpoint_names = endpoint_names(&self.endpoint_names)?;
        let directory_server = self.directory.server().map_err(ConfigError::Directory)?;
        let step_ca = self.ca.resolve().map_err(ConfigError::Ca)?;
        let directory = self.directory.resolve().map_err(ConfigError::Directory)?;
        let host = directory.as_ref().and_then(|directory| EndpointName::parse(directory.uri.host()).ok());
        // Who trusts names must not take a node for one of the servers that worker and nodes go to.
        let signed = endpoint_names.iter().chain(directory_server.as_ref().map(|server| &server.names));
        let asked = host.iter().chain(step_ca.as_ref().map(|ca| &ca.host));
        let servers = signed.flat_map(EndpointNames::iter).chain(asked);
        let (reserved, denied) = (&self.reserved_names, &self.denied_names);
        Ok(Config {
            controller_uid: self.controller_user.user("controller-user")?,
            group: self.group.group("group")?,
            reserved: Reserved::new(reserved, servers, denied, self.replace_defaults).map_err(ConfigError::Names)?,
            limits: Limits { new_nodes: self.new_nodes_per_hour, certificates: self.certificates_per_hour },
            max_lapse: Duration::from_secs(u64::from(self.max_lapse) * 24 * 3600),
            directory_server,
            endpoint_names,
            admission: self.admission,
            intent_policy: self.intent_policy,
            state_dir: self.state_dir,
            controller_state: self.controller_state,
            log: self.log,
            step_ca,
            directory,
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
    /// What lets a new node in: what the settings say, else an owner where the roster has one.
    #[must_use]
    pub fn admission(&self, has_owner: bool) -> Admission {
        self.admission.unwrap_or(if has_owner { Admission::Owner } else { Admission::Operator })
    }

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
            .filter(|line| !line.starts_with([' ', '#']) && (line.contains(" = ") || line.starts_with('[')))
            .flat_map(|line| [line, "\n"])
            .collect();
        assert_eq!(shown.lines().count(), 26, "{shown}");
        assert_eq!(Settings::parse(&shown).unwrap(), Settings::default());
    }

    // spec: WK-11
    #[test]
    fn settings_that_cannot_be_used_are_refused_by_name() {
        for (text, want) in [
            ("polling = 3", "polling"),
            ("admission = \"anybody\"", "anybody"),
            ("[intent-policy]\nexecute = \"allow\"", "intent-policy"),
            ("[intent-policy]\nadmit = \"yes\"", "yes"),
            ("state-dir = \"var\"", "state-dir"),
            ("controller-user = \"nobody-of-this-name\"", "controller-user"),
            ("controller-user = 0\ngroup = \"no-such-group\"", "group"),
            ("endpoint-names = [\"a\", \"a\"]", "endpoint-names"),
            ("endpoint-names = [\"Upper\"]", "Upper"),
            ("controller-user = 0\ngroup = 0\nreserved-names = [\"a b\"]", "reserved-names"),
            ("state_dir = \"/a\"", "state_dir"),
            ("controller-user = 0\ngroup = 0\n[directory]\nnames = [\"Upper\"]", "Upper"),
            ("controller-user = 0\ngroup = 0\n[directory]\ncertificate-days = 398", "certificate-days"),
            ("controller-user = 0\ngroup = 0\ndenied-names = [\"a.b\"]", "denied-names"),
            ("controller-user = 0\ngroup = 0\nmax-lapse = 0", "max-lapse"),
            ("controller-user = 0\ngroup = 0\nnew-nodes-per-hour = 0", "new-nodes-per-hour"),
            ("controller-user = 0\ngroup = 0\ncertificates-per-hour = 20000", "certificates-per-hour"),
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
                    endpoint-names = [\"lucia-main.example\", \"192.0.2.1\"]\n\
                    [directory]\nnames = [\"accounts.example\"]\nkind = \"ldap\"\nuri = \"ldaps://people.example:1636\"\n\
                    [ca]\nkind = \"step-ca\"\nurl = \"https://signer:9000\"\nprovisioner = \"nodes\"";
        let config = Settings::parse(text).unwrap().resolve().unwrap();
        let own = ["nas", "printer", "lucia-main", "accounts", "people", "signer"];
        for name in ["controller", "ca", "ldap", "worker"].iter().chain(&own) {
            assert!(config.reserved.holds(&name.parse().unwrap()), "{name}");
        }
        assert!(!config.reserved.holds(&"n1".parse().unwrap()));
        // What is not asked is no server: the values beside `kind = "none"` and `"embedded"` are not looked at.
        let off = text.replace("\"ldap\"", "\"none\"").replace("\"step-ca\"", "\"embedded\"");
        let config = Settings::parse(&off).unwrap().resolve().unwrap();
        assert!(["people", "signer"].iter().all(|name| !config.reserved.holds(&name.parse().unwrap())));
    }
}
