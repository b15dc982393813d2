//! The `[ca]` section of `worker.toml` (design.md W2).

use lucia_proto::pki::endpoint_names::EndpointName;
use serde::Deserialize;
use thiserror::Error;

/// Where step-ca listens unless the URL says otherwise.
const DEFAULT_PORT: &str = "443";
/// Longest name of a provisioner.
const PROVISIONER_MAX: usize = 128;

/// Who signs certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaKind {
    /// The worker itself, with the issuing CA that `init` made.
    #[default]
    Embedded,
    /// step-ca, asked over HTTPS.
    StepCa,
}

/// The section as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct CaSettings {
    /// Which kind.
    pub kind: CaKind,
    /// Where step-ca is; must be set with `kind = "step-ca"`.
    pub url: String,
    /// Its JWK provisioner; must be set with `kind = "step-ca"`.
    pub provisioner: String,
}

/// step-ca as the worker asks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepCaConfig {
    /// What its certificate must name.
    pub host: EndpointName,
    /// Its port.
    pub port: u16,
    /// Its JWK provisioner.
    pub provisioner: String,
}

/// A value of the section cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("[ca] {key} = {value:?} is not {expected}")]
pub struct BadCa {
    /// Which setting.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What it must be.
    pub expected: &'static str,
}

impl CaSettings {
    /// Checks the section; nothing with `kind = "embedded"`, whose other values are not looked at.
    ///
    /// # Errors
    /// [`BadCa`].
    pub fn resolve(self) -> Result<Option<StepCaConfig>, BadCa> {
        if self.kind == CaKind::Embedded {
            return Ok(None);
        }
        let Some((host, port)) = parse(&self.url) else {
            let expected = "an address of step-ca like https://ca.example.net:9000, without a path";
            return Err(BadCa { key: "url", value: self.url.chars().take(256).collect(), expected });
        };
        let named = !self.provisioner.is_empty() && self.provisioner.len() <= PROVISIONER_MAX;
        if !named || self.provisioner.chars().any(char::is_control) {
            let value = self.provisioner.chars().take(PROVISIONER_MAX).collect();
            return Err(BadCa { key: "provisioner", value, expected: "the name of a JWK provisioner of step-ca" });
        }
        Ok(Some(StepCaConfig { host, port, provisioner: self.provisioner }))
    }
}

impl StepCaConfig {
    /// `host:port`, as a URL has it.
    #[must_use]
    pub fn authority(&self) -> String {
        match &self.host {
            EndpointName::Ip(std::net::IpAddr::V6(address)) => format!("[{address}]:{}", self.port),
            host => format!("{host}:{}", self.port),
        }
    }
}

/// Host and port of an `https` URL that has nothing else.
fn parse(url: &str) -> Option<(EndpointName, u16)> {
    let rest = url.strip_prefix("https://")?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, port.strip_prefix(':').or_else(|| port.is_empty().then_some(DEFAULT_PORT))?)
        }
        None => rest.split_once(':').unwrap_or((rest, DEFAULT_PORT)),
    };
    let is_plain = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = if is_plain { port.parse::<u16>().ok()? } else { return None };
    EndpointName::parse(host).ok().filter(|_| port > 0).map(|host| (host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> Result<Option<StepCaConfig>, String> {
        let settings: CaSettings = toml::from_str(text).map_err(|error| error.to_string())?;
        settings.resolve().map_err(|error| error.to_string())
    }

    // spec: WK-63
    #[test]
    fn step_ca_is_asked_for_and_whole() {
        assert_eq!(section(""), Ok(None));
        assert_eq!(section("kind = \"embedded\"\nurl = \"x\""), Ok(None));
        for (url, want) in [
            ("https://ca.example", Some("ca.example:443")),
            ("https://ca.example:9000/", Some("ca.example:9000")),
            ("https://192.0.2.7:9000", Some("192.0.2.7:9000")),
            ("https://[2001:db8::7]", Some("[2001:db8::7]:443")),
            ("https://[2001:db8::7]:9000", Some("[2001:db8::7]:9000")),
            ("http://ca.example", None),
            ("https://ca.example/1.0", None),
            ("https://ca.example:0", None),
            ("https://ca.example:+9", None),
            ("https://ca.example:", None),
            ("https://user@ca.example", None),
            ("https://[::1", None),
            ("https://", None),
            ("", None),
        ] {
            let found = section(&format!("kind = \"step-ca\"\nurl = {url:?}\nprovisioner = \"nodes\""));
            assert_eq!(found.map(|ca| ca.map(|ca| ca.authority())).ok().flatten().as_deref(), want, "{url}");
        }
        for (more, want) in [
            ("", "url"),
            ("url = \"https://ca\"", "provisioner"),
            ("url = \"https://ca\"\nprovisioner = \"a\\nb\"", "provisioner"),
            ("url = \"https://ca\"\nkey = \"x\"", "key"),
        ] {
            let refused = section(&format!("kind = \"step-ca\"\n{more}")).unwrap_err();
            assert!(refused.contains(want), "{more}: {refused}");
        }
    }
}
