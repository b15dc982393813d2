//! Settings: what the file says ([`Config::parse`]), checked once, with nothing optional left in it.

mod network;

use std::net::SocketAddr;
use std::path::PathBuf;

use lucia_daemon::log::LogFormat;
use lucia_proto::base::limits::{DEVICES_DEFAULT, TASKS_DEFAULT};
use lucia_proto::files::journal::inventory_room;
use lucia_proto::orders::owner::PageOrigin;
use lucia_proto::pki::endpoint_names::{EndpointName, EndpointNames};
use serde::Deserialize;
use thiserror::Error;

pub use network::{BadNetwork, Network};

/// Where the settings are unless told otherwise.
pub const DEFAULT_FILE: &str = "/etc/lucia/controller.toml";

/// The settings of one controller. `controller.toml` beside this crate says what each is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Address and port of the TLS endpoint.
    pub listen: SocketAddr,
    /// The names nodes may call this controller by; the first one is its own.
    pub names: EndpointNames,
    /// Where the page is as browsers see it; `None`: what [`Config::page_origin`] makes of name and port.
    pub page: Option<PageOrigin>,
    /// Directory of everything that survives a restart.
    pub state_dir: PathBuf,
    /// The private root, PEM.
    pub root_file: PathBuf,
    /// The operator's Unix socket.
    pub socket: PathBuf,
    /// Group, by name or number, that shares the journal and the queue with the worker; `None` leaves groups alone.
    pub group: Option<String>,
    /// User, by name or number, whose answers in the queue count; `None` takes the answers of the controller's own user.
    pub worker_user: Option<String>,
    /// What a challenge does with the caller's address.
    pub source_binding: SourceBinding,
    /// Peers whose forwarded header is believed.
    pub trusted_proxies: Vec<Network>,
    /// Where devices and nodes may call from.
    pub allowed_networks: Vec<Network>,
    /// Most rows of the journal.
    pub limits: Limits,
    /// Most connections.
    pub connections: Connections,
    /// Loopback address of metrics and health; `None` without.
    pub metrics: Option<SocketAddr>,
    /// How the log looks.
    pub log: Log,
}

/// What a challenge does with the address it was asked from (design.md I4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceBinding {
    /// It can only be used from there.
    Strict,
    /// It can be used from anywhere; a changed address of a node is logged.
    Log,
    /// It can be used from anywhere.
    Off,
}

/// Most rows of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Limits {
    /// Devices, nodes among them.
    pub devices: usize,
    /// Installation tasks, ended ones among them.
    pub tasks: usize,
}

/// Most connections of the TLS endpoint (design.md T1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Connections {
    /// In all.
    pub max: usize,
    /// From one address.
    pub per_source: usize,
    /// Of `max`, how many only addresses may take that proved a node lately.
    pub reserved: usize,
}

/// How the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Log {
    /// For people or for programs.
    pub format: LogFormat,
    /// The least urgent entries that are written.
    pub level: LogLevel,
}

/// How urgent an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// What stops the program or loses something.
    Error,
    /// Refusals, and what an operator should look at.
    Warn,
    /// What happened.
    Info,
    /// Each call.
    Debug,
}

impl From<LogLevel> for tracing::Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
        }
    }
}

/// Why the settings are refused.
#[derive(Debug, Error)]
pub enum BadConfig {
    /// Not TOML, a setting that does not exist, or a value of the wrong kind.
    #[error("the settings cannot be read")]
    Toml(#[source] toml::de::Error),
    /// A setting has a value that cannot work.
    #[error("{setting} {rule}")]
    Setting {
        /// Its name in the file.
        setting: &'static str,
        /// What it must be.
        rule: String,
    },
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    #[serde(default = "default_listen")]
    listen: SocketAddr,
    names: Vec<String>,
    #[serde(default)]
    page_origin: String,
    #[serde(default = "default_state_dir")]
    state_dir: PathBuf,
    #[serde(default = "default_root_file")]
    root_file: PathBuf,
    #[serde(default = "default_socket")]
    socket: PathBuf,
    #[serde(default = "default_group")]
    group: String,
    #[serde(default = "default_worker_user")]
    worker_user: String,
    #[serde(default = "default_source_binding")]
    source_binding: SourceBinding,
    #[serde(default)]
    trusted_proxies: Vec<String>,
    #[serde(default = "default_allowed_networks")]
    allowed_networks: Vec<String>,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    connections: Connections,
    #[serde(default)]
    metrics: RawMetrics,
    #[serde(default)]
    log: Log,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct RawMetrics {
    listen: String,
}

impl Config {
    /// Reads settings.
    ///
    /// # Errors
    /// Not TOML, an unknown setting, or a value that cannot work; the message names the setting.
    pub fn parse(text: &str) -> Result<Self, BadConfig> {
        let raw: Raw = toml::from_str(text).map_err(BadConfig::Toml)?;
        let names = raw
            .names
            .iter()
            .map(|name| EndpointName::parse(name))
            .collect::<Result<Vec<_>, _>>()
            .and_then(EndpointNames::new)
            .map_err(|error| BadConfig::Setting { setting: "names", rule: format!("is refused: {error}") })?;
        for (setting, path) in [("state-dir", &raw.state_dir), ("root-file", &raw.root_file), ("socket", &raw.socket)] {
            if !path.is_absolute() {
                return wrong(setting, "must be an absolute path");
            }
        }
        let Limits { devices, tasks } = raw.limits;
        if devices == 0 || devices > DEVICES_MAX {
            return wrong("limits.devices", "must be 1 to 6000");
        }
        if tasks < devices || tasks > TASKS_MAX {
            return wrong("limits.tasks", "must be at least limits.devices and at most 8192");
        }
        if inventory_room(devices, tasks).is_none() {
            let most = (1..devices).rev().find(|fewer| inventory_room(*fewer, *fewer).is_some()).unwrap_or_default();
            return wrong(
                "limits",
                &format!(
                    "devices = {devices} and tasks = {tasks} can outgrow the journal's 48 MiB, and no change could be written \
                     then; set limits.tasks nearer to limits.devices, and limits.devices to at most {most}"
                ),
            );
        }
        let Connections { max, per_source, reserved } = raw.connections;
        if max == 0 || per_source == 0 || per_source > max || reserved >= max {
            return wrong("connections", "must keep 1 <= per-source <= max and reserved < max");
        }
        Ok(Self {
            listen: raw.listen,
            names,
            page: page(&raw.page_origin)?,
            state_dir: raw.state_dir,
            root_file: raw.root_file,
            socket: raw.socket,
            group: Some(raw.group).filter(|name| !name.is_empty()),
            worker_user: Some(raw.worker_user).filter(|name| !name.is_empty()),
            source_binding: raw.source_binding,
            trusted_proxies: networks("trusted-proxies", &raw.trusted_proxies)?,
            allowed_networks: networks("allowed-networks", &raw.allowed_networks)?,
            limits: raw.limits,
            connections: raw.connections,
            metrics: metrics(&raw.metrics.listen)?,
            log: raw.log,
        })
    }

    /// Where the page is: as the settings say, else at the first of the names that is a DNS name. Nothing where there is
    /// none: a passkey is of a name, never of an address.
    #[must_use]
    pub fn page_origin(&self) -> Option<PageOrigin> {
        if self.page.is_some() {
            return self.page.clone();
        }
        let port = match self.listen.port() {
            443 => String::new(),
            port => format!(":{port}"),
        };
        let dns = |name: &EndpointName| match name {
            EndpointName::Dns(name) => format!("https://{name}{port}").parse().ok(),
            EndpointName::Ip(_) => None,
        };
        self.names.iter().find_map(dns)
    }
}

fn page(text: &str) -> Result<Option<PageOrigin>, BadConfig> {
    if text.is_empty() {
        return Ok(None);
    }
    let refused = |error| BadConfig::Setting { setting: "page-origin", rule: format!("must be empty, or {error}") };
    text.parse().map(Some).map_err(refused)
}

/// Whoever reaches that port reads it, so only this machine may.
fn metrics(text: &str) -> Result<Option<SocketAddr>, BadConfig> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().to_canonical().is_loopback() => Ok(Some(address)),
        _ => wrong(
            "metrics.listen",
            "must be empty, or a loopback address with a port, such as \"127.0.0.1:9464\"; for a scraper on another \
             machine put a proxy in front that asks who comes",
        ),
    }
}

fn networks(setting: &'static str, texts: &[String]) -> Result<Vec<Network>, BadConfig> {
    texts
        .iter()
        .map(|text| text.parse::<Network>())
        .collect::<Result<_, _>>()
        .map_err(|error| BadConfig::Setting { setting, rule: format!("is refused: {error}") })
}

fn wrong<T>(setting: &'static str, rule: &str) -> Result<T, BadConfig> {
    Err(BadConfig::Setting { setting, rule: rule.to_owned() })
}

impl Default for Limits {
    fn default() -> Self {
        Self { devices: DEVICES_DEFAULT, tasks: TASKS_DEFAULT }
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self { max: 2048, per_source: 64, reserved: 512 }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: LogLevel::Info }
    }
}

fn default_listen() -> SocketAddr {
    SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 8443))
}

fn default_state_dir() -> PathBuf {
    PathBuf::from("/var/lib/lucia/controller")
}

fn default_root_file() -> PathBuf {
    PathBuf::from("/etc/lucia/root.pem")
}

fn default_socket() -> PathBuf {
    PathBuf::from("/run/lucia/controller.sock")
}

fn default_group() -> String {
    "lucia-enrollment".to_owned()
}

fn default_worker_user() -> String {
    "lucia-worker".to_owned()
}

const fn default_source_binding() -> SourceBinding {
    SourceBinding::Strict
}

/// Private networks of both protocols and the machine itself: a controller on the open internet discovers nobody
/// unless told so.
fn default_allowed_networks() -> Vec<String> {
    ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "fc00::/7", "fe80::/10", "::1/128"]
        .map(str::to_owned)
        .to_vec()
}

/// Most devices anyone may ask for; whether the journal holds them depends on the tasks as well.
const DEVICES_MAX: usize = 6000;
/// Tasks are small; twice as many as devices, as in the defaults.
const TASKS_MAX: usize = 8192;

#[cfg(test)]
mod tests;
