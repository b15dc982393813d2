//! Which controller is spoken to, and as whom: named contexts in `luciactl.toml`.
//!
//! ```toml
//! current = "home"
//!
//! [contexts.home]
//! controller = "https://controller.lucia.home.arpa"
//! root = "home/root.pem"
//! name = "alice"
//! key = "home/owner.key"
//!
//! [contexts.here]
//! socket = "/run/lucia/controller.sock"
//! ```
//!
//! Paths are relative to the file. Whoever writes it decides which root is believed, so nobody else may.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use lucia_proto::base::text::shown;
use lucia_proto::checked_text;
use lucia_proto::orders::owner::{OwnerName, PageOrigin};
use serde::{Deserialize, Serialize};

use crate::files::{self, FileError};
use crate::problem::{CONFIG, USAGE, problems};

/// The controller's socket, where nothing else was said.
const SOCKET: &str = "/run/lucia/controller.sock";
/// The file of the contexts: some hundred of them.
const CONFIG_MAX: u64 = 64 * 1024;

checked_text! {
    /// What a context is called, and the directory of its files.
    ContextName, BadContextName, "a context's name: a-z or 0-9 first, then up to 63 of a-z, 0-9, _, . and -",
    |text| {
        text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-'))
            && text.len() <= 64
    }
}

problems! {
    /// Why no context can be used.
    pub(crate) enum ContextError {
        File(error: FileError) = error.code(), CONFIG, ["the contexts cannot be used: {error}"], ["{}", error.cure()];
        Malformed(file: String, why: String) = "context_invalid", CONFIG, ["{file}: {why}"],
            ["mend it, or move it away and run luciactl login again"];
        Neither(file: String, name: ContextName) = "context_invalid", CONFIG,
            ["{file}: context {name} has to have either socket, or all of controller, root, name and key"],
            ["mend it, or luciactl context remove {name}"];
        Unknown(name: ContextName) = "", USAGE, ["there is no context {name}"],
            ["luciactl context list shows those there are, luciactl login makes one"];
        NoneInUse = "", USAGE, ["no context is in use"], ["luciactl context use NAME chooses one, luciactl login makes one"];
        NoHome = "", CONFIG, ["neither XDG_CONFIG_HOME nor HOME says where your files are"], ["give --config FILE"];
        Taken(name: ContextName) = "context_taken", USAGE,
            ["context {name} is another controller's, another root's or another owner's"],
            ["give this one a name of its own with --context NAME, or luciactl context remove {name}"];
        Write(why: String) = "", CONFIG, ["the contexts cannot be written down: {why}"];
    }
}

/// Which controller, and as whom.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The controller's socket; /run/lucia/controller.sock where there is no context.
    #[arg(long, global = true, help_heading = "With every command", value_name = "PATH", conflicts_with = "context")]
    pub(crate) socket: Option<PathBuf>,
    /// The context to use this time.
    #[arg(long, global = true, help_heading = "With every command", value_name = "NAME")]
    pub(crate) context: Option<ContextName>,
    /// The file of the contexts.
    #[arg(long, global = true, help_heading = "With every command", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Takes the passphrase of the owner key from this file's first line and does not ask; /dev/fd/3 is a descriptor.
    #[arg(long, global = true, help_heading = "With every command", value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
}

/// One context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// The operator, on the controller's own host.
    Socket(PathBuf),
    /// An owner, anywhere.
    Owner(OwnerContext),
}

/// What an owner's context has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerContext {
    /// Where the controller is.
    pub(crate) controller: PageOrigin,
    /// The root that is believed, and no other.
    pub(crate) root: PathBuf,
    /// Who.
    pub(crate) name: OwnerName,
    /// Whose key.
    pub(crate) key: PathBuf,
}

/// One context as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) socket: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) controller: Option<PageOrigin>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) root: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<OwnerName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<PathBuf>,
}

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Contexts {
    /// The one in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<ContextName>,
    /// All of them.
    #[serde(default)]
    pub(crate) contexts: BTreeMap<ContextName, Entry>,
}

/// The file of the contexts, and where it lies.
#[derive(Debug)]
pub(crate) struct Config {
    path: PathBuf,
    pub(crate) contexts: Contexts,
}

impl Config {
    /// Reads the file that `place` and the environment name. One that is not there has no contexts.
    ///
    /// # Errors
    /// When it is there and cannot be trusted or read.
    pub(crate) fn load(place: &Place) -> Result<Self, ContextError> {
        let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let asked = place.config.clone().or_else(|| from("LUCIACTL_CONFIG").map(PathBuf::from));
        let path = asked.or_else(|| usual(from("XDG_CONFIG_HOME"), from("HOME"))).ok_or(ContextError::NoHome)?;
        Self::read(path)
    }

    fn read(path: PathBuf) -> Result<Self, ContextError> {
        let Some(text) = files::find(&path, CONFIG_MAX).map_err(ContextError::File)? else {
            return Ok(Self { path, contexts: Contexts::default() });
        };
        if let Some(parent) = parent(&path) {
            files::checked_directory(parent).map_err(ContextError::File)?;
        }
        let contexts: Contexts = toml::from_str(&text)
            .map_err(|error| ContextError::Malformed(files::name(&path), shown(error.message())))?;
        Ok(Self { path, contexts })
    }

    /// The directory of a context's files.
    pub(crate) fn directory(&self, name: &ContextName) -> PathBuf {
        self.beside(Path::new(name.as_str()))
    }

    /// The directory of the file itself.
    pub(crate) fn home(&self) -> &Path {
        parent(&self.path).unwrap_or_else(|| Path::new("."))
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn beside(&self, path: &Path) -> PathBuf {
        self.home().join(path)
    }

    /// The context of this name.
    pub(crate) fn get(&self, name: &ContextName) -> Result<Context, ContextError> {
        let entry = self.contexts.contexts.get(name).ok_or_else(|| ContextError::Unknown(name.clone()))?.clone();
        let Entry { socket, controller, root, name: owner, key } = entry;
        match (socket, controller, root, owner, key) {
            (Some(socket), None, None, None, None) => Ok(Context::Socket(self.beside(&socket))),
            (None, Some(controller), Some(root), Some(name), Some(key)) => {
                Ok(Context::Owner(OwnerContext { controller, root: self.beside(&root), name, key: self.beside(&key) }))
            }
            _ => Err(ContextError::Neither(files::name(&self.path), name.clone())),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn save(&self) -> Result<(), ContextError> {
        let text = toml::to_string(&self.contexts).map_err(|error| ContextError::Write(error.to_string()))?;
        files::directory(self.home()).map_err(ContextError::File)?;
        files::replace(&self.path, &text).map_err(ContextError::File)
    }
}

/// What `place` asks for: the socket it names, the context it names, the one in use, or the socket as ever.
pub(crate) fn chosen(place: &Place) -> Result<(Option<ContextName>, Context), ContextError> {
    if let Some(socket) = &place.socket {
        return Ok((None, Context::Socket(socket.clone())));
    }
    let config = match Config::load(place) {
        // Nobody's files are needed to speak to the socket.
        Err(ContextError::NoHome) if place.context.is_none() => return Ok((None, Context::Socket(SOCKET.into()))),
        config => config?,
    };
    match place.context.as_ref().or(config.contexts.current.as_ref()) {
        Some(name) => Ok((Some(name.clone()), config.get(name)?)),
        None => Ok((None, Context::Socket(SOCKET.into()))),
    }
}

/// `$XDG_CONFIG_HOME/lucia/luciactl.toml`, or below `~/.config`. A path that is not absolute does not count.
fn usual(xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let config = xdg.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".config")))?;
    Some(config.join("lucia/luciactl.toml"))
}

/// The directory a file is in; nothing for a bare name.
fn parent(path: &Path) -> Option<&Path> {
    path.parent().filter(|parent| !parent.as_os_str().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: LC-1
    #[test]
    fn the_file_is_where_the_environment_says() {
        for (xdg, home, want) in [
            (Some("/x"), Some("/h"), Some("/x/lucia/luciactl.toml")),
            (None, Some("/h"), Some("/h/.config/lucia/luciactl.toml")),
            (Some("x"), Some("/h"), Some("/h/.config/lucia/luciactl.toml")),
            (Some("x"), Some("h"), None),
            (None, None, None),
        ] {
            assert_eq!(usual(xdg.map(Into::into), home.map(Into::into)), want.map(PathBuf::from), "{xdg:?} {home:?}");
        }
    }

    // spec: LC-1
    #[test]
    fn a_context_is_a_socket_or_an_owners_and_nothing_between() {
        let owner = r#"controller = "https://controller.test:8443"
            root = "home/root.pem"
            name = "alice"
            key = "/keys/alice""#;
        let config = |entry: &str| {
            let contexts = toml::from_str(&format!("[contexts.home]\n{entry}\n")).map_err(|_| ())?;
            let config = Config { path: "/etc/me/luciactl.toml".into(), contexts };
            config.get(&"home".parse().unwrap()).map_err(|_| ())
        };
        assert_eq!(config(r#"socket = "/run/s""#), Ok(Context::Socket("/run/s".into())));
        let Ok(Context::Owner(read)) = config(owner) else { panic!("an owner's") };
        assert_eq!((read.root, read.key), ("/etc/me/home/root.pem".into(), "/keys/alice".into()));
        for member in ["controller", "root", "name", "key"] {
            let without: Vec<&str> = owner.lines().filter(|line| !line.trim().starts_with(member)).collect();
            assert_eq!(config(&without.join("\n")), Err(()), "{member}");
        }
        for bad in [
            "",
            &format!("{owner}\nsocket = \"/run/s\""),
            &format!("{owner}\nverify = false"),
            &owner.replace("https", "http"),
            &owner.replace(":8443", ":8443/path"),
            &owner.replace("alice\"\n", "Alice\"\n"),
        ] {
            assert_eq!(config(bad), Err(()), "{bad}");
        }
        for name in ["", ".", "..", "a/b", ".a", "-a", "A", &"a".repeat(65)] {
            assert!(name.parse::<ContextName>().is_err(), "{name}");
        }
    }
}
