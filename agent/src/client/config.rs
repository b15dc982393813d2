//! Where the controller is and how it is recognised: `/etc/lucia/agent.toml` (agent/agent.toml is the commented
//! default).

use std::fmt::{Display, Write as _};
use std::path::{Path, PathBuf};

use lucia_proto::base::names::DnsName;
use lucia_proto::pki::chain;
use serde::Deserialize;

use super::proxy::{Proxy, ProxyCa, authority, certificates};
use crate::host;
use crate::host::failed::{Failed, OrFailed as _};
use crate::host::root::Root;

/// Longest settings file and longest root file.
const MAX: u64 = 64 * 1024;
/// Where the root lies unless the settings say otherwise.
pub const DEFAULT_ROOT_FILE: &str = "/etc/lucia/root.pem";
/// Where a proxy's CA lies on a node that was staged.
pub const STAGED_PROXY_CA: &str = "/etc/lucia/proxy-ca.pem";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    controller_url: String,
    controller_name: String,
    #[serde(default = "default_root_file")]
    root_file: PathBuf,
    proxy: Option<RawProxy>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawProxy {
    url: String,
    ca_file: Option<PathBuf>,
}

impl RawProxy {
    /// The proxy, or the setting at fault and what it must be.
    fn checked(self) -> Result<Proxy, (&'static str, &'static str)> {
        let Self { url, ca_file } = self;
        if url.contains('@') {
            return Err((
                "proxy.url",
                "without user and password: everybody may read this file, and the agent keeps no password; let the proxy \
                 admit this machine by its address",
            ));
        }
        let form = ("proxy.url", "http://HOST:PORT or https://HOST:PORT without a path");
        match (split_url(&url, "http://"), split_url(&url, "https://"), ca_file) {
            (Some((host, port)), _, None) => Ok(Proxy { host, port, ca: None }),
            (Some(_), _, Some(_)) => Err(("proxy.ca-file", "absent for an http:// proxy, which proves nothing by it")),
            (_, Some((host, port)), Some(file)) if file.is_absolute() => {
                if rustls::pki_types::ServerName::try_from(host.as_str()).is_err() {
                    return Err(form);
                }
                Ok(Proxy { host, port, ca: Some(ProxyCa { file, pem: String::new() }) })
            }
            (_, Some(_), _) => Err(("proxy.ca-file", "an absolute path: the CA that vouches for an https:// proxy")),
            (None, None, _) => Err(form),
        }
    }
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
    /// What all calls go through; nothing where they go straight.
    pub proxy: Option<Proxy>,
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
    /// [`Failed`], with the file, the setting and what it must be.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Failed> {
        let raw: Raw = toml::from_str(text)
            .map_err(|error| Failed::new(format!("{}: {}", path.display(), error.to_string().trim())))?;
        let (host, port) = split_url(&raw.controller_url, "https://")
            .ok_or_else(|| refused(path, "controller-url", "https://HOST:PORT without a path"))?;
        let name = raw.controller_name.parse::<DnsName>();
        let name = name.map_err(|rule| refused(path, "controller-name", rule))?;
        if !raw.root_file.is_absolute() {
            return Err(refused(path, "root-file", "an absolute path"));
        }
        let proxy = raw.proxy.map(RawProxy::checked).transpose();
        let proxy = proxy.map_err(|(setting, rule)| refused(path, setting, rule))?;
        Ok(Self { host, port, name, root_file: raw.root_file, proxy })
    }

    /// The settings as text, as `stage-managed` writes them.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "# Written by `lucia-node-agent stage-managed`.\ncontroller-url = \"https://{}\"\n\
             controller-name = \"{}\"\nroot-file = \"{}\"\n",
            authority(&self.host, self.port),
            self.name,
            self.root_file.display()
        );
        if let Some(proxy) = &self.proxy {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n[proxy]\nurl = \"{}\"\n", proxy.url());
            if let Some(ca) = &proxy.ca {
                let _ = writeln!(text, "ca-file = \"{}\"", ca.file.display());
            }
        }
        text
    }

    /// Where the controller is, for messages.
    #[must_use]
    pub fn controller(&self) -> String {
        let way = self.proxy.as_ref().map(|proxy| format!(" through the proxy {}", proxy.url())).unwrap_or_default();
        format!("{} port {} as {}{way}", self.host, self.port, self.name)
    }
}

impl Trust {
    /// Reads settings and root of this machine.
    ///
    /// # Errors
    /// [`Failed`]; every text names the file and the cure.
    pub fn load(root: &Root) -> Result<Self, Failed> {
        let path = root.config();
        let mut config = Config::parse(&read(&path)?, &path)?;
        if let Some(ca) = config.proxy.as_mut().and_then(|proxy| proxy.ca.as_mut()) {
            let path = root.join(&ca.file.to_string_lossy());
            ca.pem = read(&path)?;
            certificates(&ca.pem).map_err(|rule| refused(&path, "proxy.ca-file", rule))?;
        }
        let path = root.join(&config.root_file.to_string_lossy());
        let pem = read(&path)?;
        let root = chain::Root::from_pem(&pem).or_failed(format!(
            "{} is not the root certificate of your fleet; take it from the worker (`root.pem`), not from the controller",
            path.display()
        ))?;
        Ok(Self { config, root })
    }
}

fn read(path: &Path) -> Result<String, Failed> {
    let text = host::read_text(path, MAX);
    text.or_failed(format!(
        "cannot read {}; it comes with the installer medium or from `stage-managed`",
        path.display()
    ))
}

/// A value that cannot be used: where it stands, and what it must be.
fn refused(path: &Path, setting: &str, rule: impl Display) -> Failed {
    Failed::new(format!("{}: {setting}: {rule}", path.display()))
}

/// Host and port of `https://host:port` (or another scheme), with or without a slash at its end. IPv6 addresses stand in brackets.
fn split_url(url: &str, scheme: &str) -> Option<(String, u16)> {
    let authority = url.strip_prefix(scheme)?;
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
            assert_eq!(split_url(url, "https://"), want.map(|(host, port)| (host.to_owned(), port)), "{url}");
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

    // spec: AG-80
    #[test]
    fn a_proxy_is_named_with_its_ca_and_without_any_password() {
        let good = "controller-url = \"https://[fd00::1]:1\"\ncontroller-name = \"c\"\n[proxy]\n";
        for (text, url, ca) in [
            ("url = \"http://proxy:3128\"", "http://proxy:3128", None),
            ("url = \"http://[fd00::9]:3128/\"", "http://[fd00::9]:3128", None),
            ("url = \"https://p.example:443\"\nca-file = \"/etc/p.pem\"", "https://p.example:443", Some("/etc/p.pem")),
            ("url = \"https://10.0.0.9:443\"\nca-file = \"/etc/p.pem\"", "https://10.0.0.9:443", Some("/etc/p.pem")),
        ] {
            let config = parse(&format!("{good}{text}\n")).unwrap();
            let proxy = config.proxy.as_ref().unwrap();
            assert_eq!((proxy.url().as_str(), proxy.ca.as_ref().and_then(|ca| ca.file.to_str())), (url, ca));
            assert_eq!(parse(&config.to_text()), Ok(config.clone()), "as it is staged");
            assert!(config.controller().ends_with(&format!(" {url}")));
        }
        for (text, word) in [
            ("", "url"),
            ("url = \"http://u:secret@proxy:3128\"", "proxy.url"),
            ("url = \"http://u@proxy:3128\"", "proxy.url"),
            ("url = \"proxy:3128\"", "proxy.url"),
            ("url = \"socks5://proxy:3128\"", "proxy.url"),
            ("url = \"http://proxy\"", "proxy.url"),
            ("url = \"http://proxy:3128/x\"", "proxy.url"),
            ("url = \"http://proxy:3128\"\nca-file = \"/etc/p.pem\"", "proxy.ca-file"),
            ("url = \"https://proxy:3128\"", "proxy.ca-file"),
            ("url = \"https://proxy:3128\"\nca-file = \"p.pem\"", "proxy.ca-file"),
            ("url = \"http://proxy:3128\"\nuser = \"u\"", "user"),
        ] {
            let error = parse(&format!("{good}{text}\n")).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
        // A password is told from any other url that is no proxy's.
        let refused = |url: &str| parse(&format!("{good}url = \"{url}\"\n")).unwrap_err();
        assert_ne!(refused("http://u@proxy:3128"), refused("http://proxy"));
        assert_eq!(refused("http://u@proxy:3128"), refused("http://u:secret@proxy:3128"));
    }
}
