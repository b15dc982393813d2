//! Where the controller is and how it is recognised: `/etc/lucia/agent.toml` (agent/agent.toml is the commented
//! default).

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use lucia_proto::certificate::CertificateError;
use lucia_proto::chain;
use lucia_proto::names::DnsName;
use serde::Deserialize;
use thiserror::Error;

use crate::host::root::Root;

/// Longest settings file and longest root file.
const MAX: u64 = 64 * 1024;
/// Where the root lies unless the settings say otherwise.
pub const DEFAULT_ROOT_FILE: &str = "/etc/lucia/root.pem";

/// The settings cannot be used. Every text names the file and the cure.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file is missing or unreadable.
    #[error("cannot read {path}; it comes with the installer medium or from `stage-managed`")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Not the settings' form.
    #[error("{path}: {message}")]
    Form {
        /// Which file.
        path: PathBuf,
        /// Where and what.
        message: String,
    },
    /// A value that cannot be used.
    #[error("{path}: {setting}: {rule}")]
    Value {
        /// Which file.
        path: PathBuf,
        /// Which setting.
        setting: &'static str,
        /// What it must be.
        rule: String,
    },
    /// The root is none.
    #[error(
        "{path} is not the root certificate of your fleet; take it from the worker (`root.pem`), not from the controller"
    )]
    Root {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: CertificateError,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    controller_url: String,
    controller_name: String,
    #[serde(default = "default_root_file")]
    root_file: PathBuf,
}

fn default_root_file() -> PathBuf {
    PathBuf::from(DEFAULT_ROOT_FILE)
}

/// The settings, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Host name or address to connect to.
    pub host: String,
    /// Port to connect to.
    pub port: u16,
    /// The name its certificate must have.
    pub name: DnsName,
    /// Where the root lies.
    pub root_file: PathBuf,
}

/// Settings and root, read.
#[derive(Clone, Debug)]
pub struct Trust {
    /// The settings.
    pub config: Config,
    /// The root of the fleet; everything the agent believes hangs on it.
    pub root: chain::Root,
}

impl Config {
    /// Reads the text of the settings; `path` is for messages.
    ///
    /// # Errors
    /// [`ConfigError::Form`] or [`ConfigError::Value`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let raw: Raw = toml::from_str(text).map_err(|error| ConfigError::Form {
            path: path.to_owned(),
            message: error.to_string().trim().to_owned(),
        })?;
        let value = |setting, rule: String| ConfigError::Value { path: path.to_owned(), setting, rule };
        let (host, port) = split_url(&raw.controller_url)
            .ok_or_else(|| value("controller-url", "https://HOST:PORT without a path".to_owned()))?;
        let name = raw
            .controller_name
            .parse()
            .map_err(|rule: lucia_proto::names::BadDnsName| value("controller-name", rule.to_string()))?;
        if !raw.root_file.is_absolute() {
            return Err(value("root-file", "an absolute path".to_owned()));
        }
        Ok(Self { host, port, name, root_file: raw.root_file })
    }

    /// The settings as text, as `stage-managed` writes them.
    #[must_use]
    pub fn to_text(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!(
            "# Written by `lucia-node-agent stage-managed`.\ncontroller-url = \"https://{host}:{}\"\n\
             controller-name = \"{}\"\nroot-file = \"{}\"\n",
            self.port,
            self.name,
            self.root_file.display()
        )
    }

    /// Where the controller is, for messages.
    #[must_use]
    pub fn controller(&self) -> String {
        format!("{} port {} as {}", self.host, self.port, self.name)
    }
}

impl Trust {
    /// Reads settings and root of this machine.
    ///
    /// # Errors
    /// Any [`ConfigError`].
    pub fn load(root: &Root) -> Result<Self, ConfigError> {
        let path = root.config();
        let config = Config::parse(&read(&path)?, &path)?;
        let path = root.join(&config.root_file.to_string_lossy());
        let pem = read(&path)?;
        let root = chain::Root::from_pem(&pem).map_err(|source| ConfigError::Root { path, source })?;
        Ok(Self { config, root })
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(MAX).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Host and port of `https://host:port`, with or without a slash at its end. IPv6 addresses stand in brackets.
fn split_url(url: &str) -> Option<(String, u16)> {
    let authority = url.strip_prefix("https://")?;
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    let (host, port) = authority.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let host = match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner?.parse::<std::net::Ipv6Addr>().ok()?.to_string(),
        None => host.to_owned(),
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':');
    (!host.is_empty() && host.bytes().all(plain)).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("agent.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn the_shipped_file_is_a_right_one() {
        let config = parse(include_str!("../../agent.toml")).unwrap();
        assert_eq!(config.root_file, Path::new(DEFAULT_ROOT_FILE));
        assert_eq!(parse(&config.to_text()), Ok(config));
    }

    #[test]
    fn urls() {
        for (url, want) in [
            ("https://10.0.0.1:8443", Some(("10.0.0.1", 8443))),
            ("https://controller.lucia.home.arpa:443/", Some(("controller.lucia.home.arpa", 443))),
            ("https://[fd00::1]:8443", Some(("fd00::1", 8443))),
            ("http://10.0.0.1:8443", None),
            ("https://10.0.0.1", None),
            ("https://10.0.0.1:0", None),
            ("https://10.0.0.1:8443/api", None),
            ("https://user@10.0.0.1:8443", None),
            ("https://:8443", None),
            ("https://[fd00::1:8443", None),
        ] {
            assert_eq!(split_url(url), want.map(|(host, port)| (host.to_owned(), port)), "{url}");
        }
    }

    #[test]
    fn strange_settings_are_refused_by_name() {
        let good = "controller-url = \"https://c:1\"\ncontroller-name = \"c\"\n";
        assert!(parse(good).is_ok());
        for (text, word) in [
            (format!("{good}retries = 3\n"), "retries"),
            (good.replace("https", "http"), "controller-url"),
            (good.replace("\"c\"", "\"*.c\""), "controller-name"),
            (format!("{good}root-file = \"root.pem\"\n"), "root-file"),
            ("controller-url = \"https://c:1\"\n".to_owned(), "controller-name"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(word) && error.contains("agent.toml"), "{error}");
        }
    }
}
