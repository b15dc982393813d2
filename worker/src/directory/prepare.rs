//! `prepare-directory`: run once by the operator, it adds the two leading rules and the place where readers live.
//!
//! What was there is kept beside the ledger before anything is changed. Both rules go in by one change, which slapd does
//! whole or not at all; a second run finds them and changes nothing. Nothing is ever taken away.

use std::path::PathBuf;

use ldap3::Scope;
use lucia_durable::{PrivateDir, WriteError};
use lucia_proto::base::text::shown;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::directory::Dn;
use serde::Serialize;
use thiserror::Error;
use zeroize::Zeroizing;

use super::acl::{self, Drift, Plan};
use super::error::DirectoryError;
use super::ldap::{Asking, Ldap, Link, password};
use super::secrets;
use crate::config::DirectoryConfig;
use crate::files::file;

/// The password for cn=config, in the worker's own directory; it may be deleted once this ran.
pub const CONFIG_PASSWORD_FILE: &str = "directory-config.password";
/// Where Debian's slapd has its socket.
pub const SOCKET: &str = "/run/slapd/ldapi";
/// As whom cn=config is changed unless `--config-dn` says otherwise.
pub const CONFIG_DN: &str = "cn=config";

/// Who changes cn=config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admin {
    /// This one, with the password of [`CONFIG_PASSWORD_FILE`], over TLS.
    Password(Dn),
    /// Root, by slapd's socket on this host.
    Socket(PathBuf),
}

/// cn=config, as it is asked.
struct Config {
    link: Link,
    who: Option<(Dn, Zeroizing<String>)>,
}

impl Config {
    fn open(ldap: &Ldap, home: &PrivateDir, admin: &Admin) -> Result<Self, DirectoryError> {
        Ok(match admin {
            Admin::Password(dn) => {
                Self { link: ldap.link().clone(), who: Some((dn.clone(), password(home, CONFIG_PASSWORD_FILE)?)) }
            }
            Admin::Socket(path) => Self { link: Link::socket(path), who: None },
        })
    }

    fn ask<T>(&self, question: impl AsyncFnOnce(&mut Asking) -> Result<T, DirectoryError>) -> Result<T, PrepareError> {
        let who = self.who.as_ref().map(|(dn, secret)| (dn, secret));
        self.link.ask(who, question).map_err(PrepareError::Directory)
    }

    /// The database of this base.
    fn database(&self, base: &Dn) -> Result<Database, PrepareError> {
        let found = self.ask(async |asking| databases(asking, base).await)?;
        let who = || self.who.as_ref().map_or_else(|| "the user that asks".to_owned(), |(dn, _)| dn.to_string());
        // Whoever may not read it is told the same as where there is none: result code 32.
        let found = found.ok_or_else(|| PrepareError::NoConfig { uri: self.link.uri().to_owned(), who: who() })?;
        one(found, base)
    }
}

/// What was found and done, one sentence each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether the directory is prepared now.
    pub prepared: bool,
    /// In order.
    pub said: Vec<String>,
}

/// Why the directory was not prepared.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// It cannot be asked, or refused.
    #[error("the directory is not prepared")]
    Directory(#[source] DirectoryError),
    /// There is no cn=config for whoever asks.
    #[error(
        "{uri} shows no cn=config to {who}: slapd runs from a slapd.conf (`slaptest -f slapd.conf -F slapd.d` turns it into \
         one), or gives that account no right to it. Ask as whom olcDatabase={{0}}config has as olcRootDN (--config-dn), or as \
         root on slapd's own host (--ldapi)"
    )]
    NoConfig {
        /// Where it was asked.
        uri: String,
        /// As whom.
        who: String,
    },
    /// There is no one database for the base.
    #[error("cn=config has {count} databases with olcSuffix {base}; there must be one: correct base-dn in worker.toml")]
    Databases {
        /// How many.
        count: usize,
        /// The base.
        base: String,
    },
    /// Its rules are not as this program leaves or finds them.
    #[error("the directory's rules are not touched")]
    Drift(#[source] Drift),
    /// What was there could not be kept.
    #[error("the rules that are there could not be kept beside the ledger; nothing was changed")]
    Backup(#[source] WriteError),
    /// The database's entry went away in between.
    #[error(
        "{database} was there and is not any more; somebody else changes cn=config: see that it is whole, then run this again"
    )]
    Gone {
        /// The database's entry.
        database: String,
    },
    /// After the change something else is there than what was written.
    #[error(
        "the rules are not what was written; somebody else changes them: compare `olcAccess` of {database} with the copy \
         beside the ledger"
    )]
    Changed {
        /// The database's entry.
        database: String,
    },
}

/// What is kept of the rules before they are changed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredSecret<'a> {
    database: &'a str,
    kept_at: UnixTime,
    olc_access: &'a [String],
}

/// The database of the base, and its rules in their order.
struct Database {
    dn: String,
    rules: Vec<String>,
}

/// Prepares the directory, or with `check` only says what it would do.
///
/// # Errors
/// [`PrepareError`].
pub fn prepare(
    ldap: &Ldap,
    site: &DirectoryConfig,
    home: &PrivateDir,
    admin: &Admin,
    check: bool,
    now: UnixTime,
) -> Result<Report, PrepareError> {
    let config = Config::open(ldap, home, admin).map_err(PrepareError::Directory)?;
    let base = &site.base_dn;
    let before = config.database(base)?;
    let mut report = Report { prepared: true, ..Report::default() };
    match acl::plan(&before.rules, base).map_err(PrepareError::Drift)? {
        Plan::Nothing => report.say(format!("the two rules lead those of {}", before.dn)),
        Plan::Add(at, rules) if check => {
            report.prepared = false;
            report.say(format!("{} lacks the two leading rules; to be added:", before.dn));
            placed(at, &rules).iter().for_each(|rule| report.say(format!("  olcAccess: {rule}")));
        }
        Plan::Add(at, rules) => {
            let name = keep(home, &before, now)?;
            report.say(format!("the rules of {} are kept in {name}", before.dn));
            let values = placed(at, &rules);
            let add = async |asking: &mut Asking| asking.add_values(&before.dn, "olcAccess", &values).await;
            if !config.ask(add)? {
                return Err(PrepareError::Gone { database: before.dn });
            }
            let after = config.database(base)?;
            let mut rest = after.rules.clone();
            rest.drain(at.min(rest.len())..(at + rules.len()).min(rest.len()));
            let is_kept =
                rest.len() == before.rules.len() && rest.iter().zip(&before.rules).all(|(a, b)| acl::same(a, b));
            if !is_kept || acl::plan(&after.rules, base) != Ok(Plan::Nothing) {
                return Err(PrepareError::Changed { database: before.dn });
            }
            report.say(format!("two rules were added in front of those of {}", before.dn));
        }
    }
    place(ldap, site, check, &mut report).map_err(PrepareError::Directory)?;
    let told = secrets::told(ldap, base, &acl::denied(&before.rules, base)).map_err(PrepareError::Directory)?;
    told.into_iter().for_each(|note| report.say(note));
    Ok(report)
}

/// Values as cn=config takes them: each with its place.
fn placed(at: usize, rules: &[String]) -> Vec<String> {
    rules.iter().zip(at..).map(|(rule, place)| format!("{{{place}}}{rule}")).collect()
}

/// The databases of a base; nothing where there is no cn=config for whoever asks.
async fn databases(asking: &mut Asking, base: &Dn) -> Result<Option<Vec<(String, Vec<String>)>>, DirectoryError> {
    if !asking.any("cn=config", Scope::Base, "(objectClass=*)").await? {
        return Ok(None);
    }
    let wanted = ["olcSuffix", "olcAccess"];
    let found = asking.find("cn=config", Scope::Subtree, "(olcSuffix=*)", &wanted).await?;
    let of_base =
        found.iter().filter(|entry| entry.values("olcSuffix").iter().any(|s| s.eq_ignore_ascii_case(base.as_str())));
    Ok(Some(of_base.map(|entry| (entry.dn.clone(), entry.values("olcAccess").to_vec())).collect()))
}

fn one(found: Vec<(String, Vec<String>)>, base: &Dn) -> Result<Database, PrepareError> {
    let count = found.len();
    match <[_; 1]>::try_from(found) {
        Ok([(dn, values)]) => {
            let rules = acl::in_order(&values).map_err(PrepareError::Drift)?;
            Ok(Database { dn, rules })
        }
        Err(_) => Err(PrepareError::Databases { count, base: base.to_string() }),
    }
}

/// Keeps the rules under a name of this moment; an earlier copy stays.
fn keep(home: &PrivateDir, before: &Database, now: UnixTime) -> Result<String, PrepareError> {
    let name = format!("directory-acl-{}.json", now.secs());
    let kept = StoredSecret { database: &before.dn, kept_at: now, olc_access: &before.rules };
    let text = serde_json::to_string_pretty(&kept).unwrap_or_default();
    home.replace(&file(&name), text.as_bytes(), 0o600).map_err(PrepareError::Backup)?;
    Ok(home.path_of(&file(&name)).display().to_string())
}

/// The place of readers, and two looks at what is the site's own.
fn place(ldap: &Ldap, site: &DirectoryConfig, check: bool, report: &mut Report) -> Result<(), DirectoryError> {
    let services = ldap.services()?;
    let (is_there, has_group) = ldap.with(async |asking| {
        let mut has = async |dn: &str| {
            let found = asking.find(dn, Scope::Base, "(objectClass=*)", &["objectClass"]).await;
            found.map(|found| !found.is_empty())
        };
        Ok((has(services.as_str()).await?, has(site.owner_group.as_str()).await?))
    })?;
    if is_there {
        report.say(format!("{services} is there"));
    } else if check {
        report.prepared = false;
        report.say(format!("{services} is missing; to be added"));
    } else {
        ldap.with(async |asking| {
            let attributes = [("objectClass", vec!["organizationalUnit"]), ("ou", vec!["Services"])];
            asking.add(&services, &attributes).await
        })?;
        report.say(format!("{services} was added"));
    }
    if !has_group {
        report.say(format!("note: {} is missing; nodes wait for it before their first heartbeat", site.owner_group));
    }
    let seen = ldap.link().ask(None, async |asking| {
        asking.any(site.base_dn.as_str(), Scope::Subtree, "(objectClass=posixAccount)").await
    });
    // Whom slapd does not even let ask sees nothing.
    if seen.unwrap_or(false) {
        report.say(
            "note: anybody may read accounts without binding; that is the site's own rule, and left as it is"
                .to_owned(),
        );
    }
    Ok(())
}

impl Report {
    fn say(&mut self, sentence: String) {
        self.said.push(sentence);
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let lines = self.said.iter().map(|line| format!("{}\n", shown(line)));
        let last = if self.prepared {
            "the directory is prepared\n"
        } else {
            "run it without --check to prepare the directory\n"
        };
        lines.chain([last.to_owned()]).collect()
    }
}
