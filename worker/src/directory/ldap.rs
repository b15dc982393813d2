//! OpenLDAP, over ldaps and nothing else: the certificate must chain to the fleet's root, which the nodes hold it
//! against as well, and be of exactly the name in the URI. Referrals are not followed, StartTLS is not spoken. The one
//! exception is slapd's own socket on this host, by which root changes its rules ([`Link::socket`]).
//!
//! Every question is a connection of its own with a time limit: a directory that was restarted, moved or replaced
//! leaves nothing stale behind.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ldap3::{
    LdapConnAsync, LdapConnSettings, LdapError, LdapResult, Mod, Scope, SearchEntry, SearchOptions, StdStream,
};
use lucia_daemon::reach::{Reach, Unreached};
use lucia_daemon::tls;
use lucia_durable::{DirRules, FileRules, Loaded, PrivateDir};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::text::shown;
use lucia_proto::node::directory::{Dn, LdapUri, SERVICES, reader_dn};
use lucia_proto::pki::chain::Root;
use nix::unistd::{Gid, Uid, getegid, geteuid, setegid, seteuid};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use zeroize::Zeroizing;

use super::contract::{Directory, Found};
use super::error::DirectoryError;
use super::password::Stored;
use crate::config::{Config, DirectoryConfig};
use crate::files::file;

/// The bind password, in the worker's own directory.
pub const PASSWORD_FILE: &str = "directory.password";
/// Longest password of the worker's own, in bytes.
const PASSWORD_MAX: u64 = 1024;
/// Until TCP and TLS are there.
const CONNECT: Duration = Duration::from_secs(4);
/// A question from its first packet to its last: see [`budget`](super::budget) for what that makes of a turn.
pub(super) const WHOLE: Duration = Duration::from_secs(6);

const TIME_LIMIT: u32 = 3;
const SIZE_LIMIT: u32 = 4;
const ADMIN_LIMIT: u32 = 11;
const NO_SUCH_OBJECT: u32 = 32;
const INVALID_CREDENTIALS: u32 = 49;
const ALREADY_EXISTS: u32 = 68;
const REFERRAL: u32 = 10;

/// An OpenLDAP server.
pub struct Ldap {
    site: DirectoryConfig,
    link: Link,
    home: PrivateDir,
}

/// How the server is reached.
#[derive(Clone)]
pub struct Link {
    /// For people, and for the library.
    uri: String,
    way: Way,
}

/// By what.
#[derive(Clone)]
enum Way {
    /// TLS that trusts the fleet's root alone.
    Tls { tls: Arc<ClientConfig>, host: String, port: u16 },
    /// A socket of this host: who connects is who asks.
    Socket(PathBuf),
}

/// One entry as it was found.
pub struct Entry {
    /// Its name.
    pub dn: String,
    attributes: BTreeMap<String, Vec<String>>,
}

impl Entry {
    /// Values of an attribute, in the server's order.
    #[must_use]
    pub fn values(&self, name: &str) -> &[String] {
        let found = self.attributes.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, values)| values.as_slice()).unwrap_or_default()
    }
}

impl Ldap {
    /// Makes ready to ask; connects to nothing yet.
    ///
    /// # Errors
    /// The root or the worker's own directory cannot be used.
    pub fn open(config: &Config, site: DirectoryConfig, root: &Root) -> Result<Self, DirectoryError> {
        let home = PrivateDir::open(&config.state_dir, DirRules::private()).map_err(DirectoryError::Dir)?;
        Ok(Self { link: Link::new(&site.uri, root)?, site, home })
    }

    /// Connects, binds, and looks whether readers have their place.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), DirectoryError> {
        let services = self.services()?;
        let found =
            self.with(async |ldap| ldap.find(services.as_str(), Scope::Base, "(objectClass=*)", &["ou"]).await)?;
        if found.is_empty() { Err(DirectoryError::NoPlace { dn: services.to_string() }) } else { Ok(()) }
    }

    /// How the server is reached, for questions of others than the worker.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Where readers live.
    ///
    /// # Errors
    /// The base leaves no room for it.
    pub fn services(&self) -> Result<Dn, DirectoryError> {
        self.site.base_dn.below(SERVICES).ok_or_else(|| self.no_place(SERVICES))
    }

    fn no_place(&self, part: &str) -> DirectoryError {
        DirectoryError::NoPlace { dn: format!("{part},{}", self.site.base_dn) }
    }

    fn reader(&self, node_id: &NodeId) -> Result<Dn, DirectoryError> {
        reader_dn(node_id, &self.site.base_dn).ok_or_else(|| self.no_place(SERVICES))
    }

    /// Asks as the worker.
    ///
    /// # Errors
    /// The password cannot be read, the server not be reached, or the question's own.
    pub fn with<T>(
        &self,
        question: impl AsyncFnOnce(&mut Asking) -> Result<T, DirectoryError>,
    ) -> Result<T, DirectoryError> {
        let password = password(&self.home, PASSWORD_FILE)?;
        self.link.ask(Some((&self.site.bind_dn, &password)), question)
    }
}

/// A password of the worker's own, from a file only it can read.
pub(super) fn password(home: &PrivateDir, name: &str) -> Result<Zeroizing<String>, DirectoryError> {
    let name = file(name);
    let none = || DirectoryError::Password { path: home.path_of(&name) };
    let bytes = match home.read(&name, PASSWORD_MAX, FileRules::private()).map_err(DirectoryError::Read)? {
        Loaded::Missing => return Err(none()),
        Loaded::Found(bytes) => Zeroizing::new(bytes),
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| none())?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    // An empty one would bind as nobody and succeed (RFC 4513, section 5.1.2).
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(none());
    }
    Ok(Zeroizing::new(text.to_owned()))
}

impl Link {
    /// A way to the server that trusts the fleet's root alone.
    ///
    /// # Errors
    /// [`DirectoryError::Tls`].
    pub fn new(uri: &LdapUri, root: &Root) -> Result<Self, DirectoryError> {
        let tls = tls::trusting(root).map(Arc::new).map_err(DirectoryError::Tls)?;
        let way = Way::Tls { tls, host: uri.host().to_owned(), port: uri.port() };
        Ok(Self { uri: uri.to_string(), way })
    }

    /// slapd's socket on this host, by SASL EXTERNAL: as whoever connects, which is root where this process may be it.
    /// Debian's slapd lets root, and nobody else, change cn=config so.
    #[must_use]
    pub fn socket(path: &Path) -> Self {
        Self { uri: format!("ldapi://{}", path.display()), way: Way::Socket(path.to_owned()) }
    }

    /// Where it leads, for people.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Connects, binds (as nobody where no one is given) and asks.
    ///
    /// # Errors
    /// The server cannot be reached, refuses the password, or the question's own.
    pub fn ask<T>(
        &self,
        who: Option<(&Dn, &Zeroizing<String>)>,
        question: impl AsyncFnOnce(&mut Asking) -> Result<T, DirectoryError>,
    ) -> Result<T, DirectoryError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(DirectoryError::Runtime)?;
        let whole = async {
            let (connection, ldap) = self.connect().await?;
            // Ends with the runtime; what it ends with shows in the answers.
            let _driver = tokio::spawn(connection.drive());
            let mut asking = Asking { ldap, link: self.clone() };
            match (who, &self.way) {
                (Some((dn, password)), _) => asking.bind(dn, password).await?,
                (None, Way::Socket(_)) => asking.bind_as_process().await?,
                (None, Way::Tls { .. }) => {}
            }
            question(&mut asking).await
        };
        // Made inside, where the runtime's clock is.
        let answer = runtime.block_on(async { tokio::time::timeout(WHOLE, whole).await });
        // A name that is still being looked up is not waited for.
        runtime.shutdown_background();
        answer.unwrap_or_else(|_| Err(DirectoryError::Slow { uri: self.uri.clone() }))
    }

    /// The library takes the stream: it would try one address after the other.
    async fn connect(&self) -> Result<(LdapConnAsync, ldap3::Ldap), DirectoryError> {
        let settings = LdapConnSettings::new().set_conn_timeout(CONNECT);
        match &self.way {
            Way::Socket(path) => {
                let settings = settings.set_std_stream(StdStream::Unix(self.socket_at(path)?));
                LdapConnAsync::with_settings(settings, "ldapi:///").await.map_err(|e| self.lost(e))
            }
            Way::Tls { tls, host, port } => {
                let secured = async |_, tcp: TcpStream| {
                    let settings = settings.clone().set_config(Arc::clone(tls));
                    let settings = settings.set_std_stream(StdStream::Tcp(tcp.into_std()?));
                    LdapConnAsync::with_settings(settings, &self.uri).await
                };
                let connected = Reach::new(host, *port).connect(CONNECT, secured).await;
                connected.map_err(|failure| match failure {
                    Unreached::Late => DirectoryError::Slow { uri: self.uri.clone() },
                    Unreached::Name(source) | Unreached::Closed { source, .. } => self.lost(LdapError::Io { source }),
                    Unreached::Unusable { error, .. } => self.lost(error),
                })
            }
        }
    }

    /// Connects to the socket, as root where this process began as root; it is the worker's user for all else.
    fn socket_at(&self, path: &Path) -> Result<UnixStream, DirectoryError> {
        let (user, group) = (geteuid(), getegid());
        // slapd knows root by both numbers.
        let (root, roots) = (Uid::from_raw(0), Gid::from_raw(0));
        let is_other = (user, group) != (root, roots);
        let is_root = is_other && seteuid(root).is_ok() && setegid(roots).is_ok();
        let connected = UnixStream::connect(path);
        if is_root {
            let back = setegid(group).and_then(|()| seteuid(user));
            back.map_err(|errno| DirectoryError::Socket { uri: self.uri.clone(), source: errno.into() })?;
        }
        connected.map_err(|source| DirectoryError::Socket { uri: self.uri.clone(), source })
    }

    fn lost(&self, error: LdapError) -> DirectoryError {
        let uri = self.uri.clone();
        match error {
            LdapError::Timeout { .. } => DirectoryError::Slow { uri },
            LdapError::Io { source } if matches!(self.way, Way::Socket(_)) => DirectoryError::Socket { uri, source },
            error => DirectoryError::Unreachable { uri, source: Box::new(error) },
        }
    }
}

/// A connection on which questions are asked.
pub struct Asking {
    ldap: ldap3::Ldap,
    link: Link,
}

impl Asking {
    async fn bind(&mut self, dn: &Dn, password: &str) -> Result<(), DirectoryError> {
        let result = self.ldap.simple_bind(dn.as_str(), password).await.map_err(|e| self.link.lost(e))?;
        if result.rc == INVALID_CREDENTIALS {
            return Err(DirectoryError::Bind { dn: dn.to_string() });
        }
        done("bind", &result)
    }

    async fn bind_as_process(&mut self) -> Result<(), DirectoryError> {
        let result = self.ldap.sasl_external_bind().await.map_err(|e| self.link.lost(e))?;
        done("bind as the user of this process", &result)
    }

    /// Entries below or at a place; none where the place itself is not there.
    ///
    /// # Errors
    /// The directory refused, or was lost.
    pub async fn find(
        &mut self,
        base: &str,
        scope: Scope,
        filter: &str,
        attributes: &[&str],
    ) -> Result<Vec<Entry>, DirectoryError> {
        let found = self.ldap.search(base, scope, filter, attributes.to_vec()).await.map_err(|e| self.link.lost(e))?;
        let ldap3::SearchResult(entries, result) = found;
        if result.rc == NO_SUCH_OBJECT {
            return Ok(Vec::new());
        }
        done("search", &result)?;
        if entries.iter().any(ldap3::ResultEntry::is_ref) {
            return Err(DirectoryError::Referral { what: "search" });
        }
        let read = |entry| {
            let SearchEntry { dn, attrs, .. } = SearchEntry::construct(entry);
            Entry { dn, attributes: attrs.into_iter().collect() }
        };
        Ok(entries.into_iter().map(read).collect())
    }

    /// Whether there is such an entry below or at a place. Wants no more than one, so that no limit of slapd's matters.
    ///
    /// # Errors
    /// As [`Asking::find`].
    pub async fn any(&mut self, base: &str, scope: Scope, filter: &str) -> Result<bool, DirectoryError> {
        let one = SearchOptions::new().sizelimit(1);
        let search = self.ldap.with_search_options(one).search(base, scope, filter, vec!["1.1"]);
        let ldap3::SearchResult(entries, result) = search.await.map_err(|e| self.link.lost(e))?;
        match result.rc {
            NO_SUCH_OBJECT => Ok(false),
            SIZE_LIMIT => Ok(true),
            _ => done("search", &result).map(|()| entries.iter().any(|entry| !entry.is_ref())),
        }
    }

    /// Adds an entry; says whether it was not there before.
    ///
    /// # Errors
    /// As [`Asking::find`].
    pub async fn add(&mut self, dn: &Dn, attributes: &[(&str, Vec<&str>)]) -> Result<bool, DirectoryError> {
        let attributes =
            attributes.iter().map(|(name, values)| (bytes(name), values.iter().map(|v| bytes(v)).collect()));
        let result = self.ldap.add(dn.as_str(), attributes.collect()).await.map_err(|e| self.link.lost(e))?;
        match result.rc {
            ALREADY_EXISTS => Ok(false),
            NO_SUCH_OBJECT => {
                let parent = dn.as_str().split_once(',').map_or("", |(_, parent)| parent);
                Err(DirectoryError::NoPlace { dn: parent.to_owned() })
            }
            _ => done("add an entry", &result).map(|()| true),
        }
    }

    /// Sets an attribute to exactly these values; says whether the entry is there.
    async fn set(&mut self, dn: &Dn, name: &str, values: &[&str]) -> Result<bool, DirectoryError> {
        let values = values.iter().map(|value| bytes(value)).collect();
        self.modify(dn.as_str(), vec![Mod::Replace(bytes(name), values)]).await
    }

    /// Adds values to an attribute, in this order and in one step; says whether the entry is there.
    ///
    /// # Errors
    /// The directory refused, or was lost.
    pub async fn add_values(&mut self, dn: &str, name: &str, values: &[String]) -> Result<bool, DirectoryError> {
        // A change for each value: a set of them has no order, and a rule's place moves the others.
        let one = |value: &String| Mod::Add(bytes(name), [bytes(value)].into());
        self.modify(dn, values.iter().map(one).collect()).await
    }

    async fn modify(&mut self, dn: &str, changes: Vec<Mod<Vec<u8>>>) -> Result<bool, DirectoryError> {
        let result = self.ldap.modify(dn, changes).await.map_err(|e| self.link.lost(e))?;
        if result.rc == NO_SUCH_OBJECT {
            return Ok(false);
        }
        done("change an entry", &result).map(|()| true)
    }

    /// Deletes an entry; none there is as good.
    ///
    /// # Errors
    /// As [`Asking::find`].
    pub async fn delete(&mut self, dn: &Dn) -> Result<(), DirectoryError> {
        let result = self.ldap.delete(dn.as_str()).await.map_err(|e| self.link.lost(e))?;
        if result.rc == NO_SUCH_OBJECT { Ok(()) } else { done("delete an entry", &result) }
    }
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn done(what: &'static str, result: &LdapResult) -> Result<(), DirectoryError> {
    match result {
        LdapResult { rc: REFERRAL, .. } => Err(DirectoryError::Referral { what }),
        LdapResult { refs, .. } if !refs.is_empty() => Err(DirectoryError::Referral { what }),
        LdapResult { rc: 0, .. } => Ok(()),
        LdapResult { rc: code @ (TIME_LIMIT | SIZE_LIMIT | ADMIN_LIMIT), .. } => {
            Err(DirectoryError::Limit { code: *code })
        }
        LdapResult { rc, text, .. } => {
            Err(DirectoryError::Refused { what, code: *rc, text: shown(text).chars().take(256).collect() })
        }
    }
}

impl Directory for Ldap {
    fn site(&self) -> Option<&DirectoryConfig> {
        Some(&self.site)
    }

    fn set_reader(&self, node_id: &NodeId, passwords: &[&Stored]) -> Result<(), DirectoryError> {
        let dn = self.reader(node_id)?;
        let uid = format!("node-{node_id}");
        let values: Vec<&str> = passwords.iter().map(|stored| stored.as_str()).collect();
        self.with(async |ldap| {
            if ldap.set(&dn, "userPassword", &values).await? {
                return Ok(());
            }
            let attributes = [
                ("objectClass", vec!["account", "simpleSecurityObject"]),
                ("uid", vec![uid.as_str()]),
                ("userPassword", values.clone()),
            ];
            // Made by somebody else since: then the change finds it.
            if !ldap.add(&dn, &attributes).await? && !ldap.set(&dn, "userPassword", &values).await? {
                return Err(DirectoryError::NoPlace { dn: dn.to_string() });
            }
            Ok(())
        })
    }

    fn delete_reader(&self, node_id: &NodeId) -> Result<(), DirectoryError> {
        let dn = self.reader(node_id)?;
        self.with(async |ldap| ldap.delete(&dn).await)
    }

    fn readers(&self, nodes: &[NodeId]) -> Result<Found, DirectoryError> {
        let names = nodes.iter().map(|node_id| Ok((node_id, self.reader(node_id)?)));
        let names = names.collect::<Result<Vec<_>, DirectoryError>>()?;
        self.with(async |ldap| {
            let mut found = Found::new();
            for (node_id, dn) in names {
                // By its own name: slapd gives 500 entries at most to whoever is not its rootdn, and this is one.
                let entries = ldap.find(dn.as_str(), Scope::Base, "(objectClass=*)", &["userPassword"]).await?;
                let values = entries.first().map(|entry| entry.values("userPassword").to_vec());
                found.extend(values.map(|values| (node_id.clone(), values)));
            }
            Ok(found)
        })
    }
}
