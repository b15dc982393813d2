//! One change of the directory's two files, step by step, and the way back.
//!
//! | step | where it fails |
//! |---|---|
//! | both files are looked at; a foreign one is left as it is | nothing was changed |
//! | the directory itself lets the reader bind and shows it the owners' group | nothing was changed |
//! | the drop-in is written, `sshd -t` and `sshd -T` are asked | the former drop-in comes back; sshd was never told |
//! | sssd.conf is written and sssd restarted | both former files come back, sssd is restarted with its own |
//! | sssd answers with the owners' group | as before |
//! | sshd is told to read its files | as before, and sshd is told again |
//! | `directory.json` says that it worked | it is done once more by the next start |
//!
//! What comes back is what last worked, from `directory.json`, so a crash between any two steps loses nothing: the next
//! turn goes the same way from what it finds.

use std::time::Duration;

use lucia_durable::{Crashed, crash_point};
use lucia_proto::node::directory::{GroupDn, LdapUri};
use thiserror::Error;
use tokio::time::sleep;
use zeroize::Zeroizing;

use super::files::{self, FilesError, Found, SetUpFile, Wanted};
use super::ldap::{Directory, LdapError, Reader};
use super::sshd;
use crate::host::root::Root;
use crate::host::state::{State, StateError};
use crate::units::{Program, Runner, ServiceAct, UnitError};

/// Pauses between questions to an sssd that has just started: it connects to the directory meanwhile.
const PATIENCE: [u64; 6] = [0, 1, 2, 4, 8, 8];
/// Most of a program's words that a message repeats.
const WORDS_MAX: usize = 200;

/// Where a change is made, and by whom.
#[derive(Clone, Copy)]
pub struct Ground<'a, R, D> {
    /// Stands for `/`.
    pub root: &'a Root,
    /// The agent's private directory.
    pub state: &'a State,
    /// Runs programs.
    pub runner: &'a R,
    /// Asks the directory.
    pub directory: &'a D,
}

/// A change did not come about.
#[derive(Debug, Error)]
pub enum ChangeError {
    /// A file.
    #[error("the directory's files cannot be brought up to date")]
    Files(#[from] FilesError),
    /// A program was not run or a service not told.
    #[error("what is needed for the directory cannot be run")]
    Unit(#[from] UnitError),
    /// sshd does not take its configuration.
    #[error("sshd refuses its configuration ({0})")]
    Sshd(String),
    /// sshd reads another `AuthorizedKeysFile` first.
    #[error("sshd does not go by /etc/ssh/sshd_config.d/{}", sshd::NAME)]
    NotInForce,
    /// The directory itself.
    #[error("the directory at {0} does not serve this node")]
    Directory(LdapUri, #[source] LdapError),
    /// Somebody chose other places for keys.
    #[error("sshd has an AuthorizedKeysFile of its own ({0}), which the drop-in would take away")]
    Chosen(String),
    /// sshd lets people in without asking PAM.
    #[error("sshd has UsePAM no, so that nobody would ask sssd whether a directory user may log in")]
    NoPam,
    /// sssd does not know the group.
    #[error("sssd does not answer with the group {group} ({said})")]
    Silent {
        /// Which group.
        group: String,
        /// What getent said.
        said: String,
    },
    /// It works, but that cannot be noted.
    #[error("the directory works, but that cannot be noted")]
    Keep(#[from] StateError),
    /// What was there did not come back either.
    #[error("{why}; and what was there before could not be brought back")]
    NotRestored {
        /// The first failure, in one line.
        why: String,
        /// What cures that.
        cure: String,
        /// What failed on the way back.
        #[source]
        source: Box<ChangeError>,
    },
    /// A test stopped the program.
    #[error("stopped while the directory was set up; only tests do this")]
    Crashed(#[from] Crashed),
}

impl ChangeError {
    /// What cures it, in one line.
    #[must_use]
    pub fn cure(&self) -> String {
        let cure = match self {
            Self::Files(error) => return error.cure(),
            Self::Unit(UnitError::Job { .. }) => {
                "see `systemctl status sssd ssh` and /var/log/sssd on this node; it is tried again"
            }
            Self::Unit(_) => "see that dbus and systemd answer (`systemctl status dbus`); it is tried again",
            Self::Sshd { .. } => {
                "run `sshd -t` on this node and correct what it names in /etc/ssh; the former drop-in is back, and it is \
                 tried again"
            }
            Self::NotInForce => {
                return format!(
                    "see that /etc/ssh/sshd_config begins with `Include /etc/ssh/sshd_config.d/*.conf` and that nothing before \
                 {} sets AuthorizedKeysFile; it is tried again",
                    sshd::NAME
                );
            }
            Self::Directory(_, LdapError::Bind { .. } | LdapError::Group { .. }) => {
                "run `lucia-enrollment-worker status` and `prepare-directory --check` on the worker's host; sssd goes on with \
                 what it has, and it is tried again"
            }
            Self::Directory { .. } => {
                "see that the directory's server runs, that this node reaches it, and that its certificate is for that name \
                 and chains to the fleet's root; sssd goes on with what it has, and it is tried again"
            }
            Self::Chosen { .. } => {
                return format!(
                    "in /etc/ssh/sshd_config and its drop-ins, take the line out, or make it the one that {} would have: \
                 `{}`; nothing was changed, and it is tried again",
                    sshd::NAME,
                    sshd::DROP_IN.lines().last().unwrap_or_default()
                );
            }
            Self::NoPam => {
                "set `UsePAM yes` in /etc/ssh/sshd_config, as Debian does; nothing is open meanwhile, and it \
                 is tried again"
            }
            Self::Silent { .. } => {
                "see that this node reaches the directory's server and that /etc/nsswitch.conf and /var/log/sssd are in \
                 order; local accounts log in as before, and it is tried again"
            }
            Self::Keep(_) => "free space on the disk of /var/lib/lucia; it is tried again",
            Self::NotRestored { cure, .. } => return cure.clone(),
            Self::Crashed(_) => "nothing",
        };
        cure.to_owned()
    }

    /// Whether nobody knows what the private directory holds now.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        matches!(self, Self::Keep(error) if error.is_doubtful())
    }
}

/// Which of the two services a step is for.
#[derive(Clone, Copy, Default)]
struct Todo {
    sssd: bool,
    sshd: bool,
}

impl<R: Runner, D: Directory> Ground<'_, R, D> {
    /// Brings both files to what is wanted and proves that it works: with a reader, that the directory lets it read, and
    /// that sssd knows the owners' group. Says whether anything was changed.
    ///
    /// # Errors
    /// [`ChangeError`]; what was there before is there again, unless it says otherwise.
    pub async fn apply(&self, wanted: &Wanted, reader: Option<&Reader>) -> Result<bool, ChangeError> {
        let owners = reader.map(|reader| &reader.access.owner_group);
        let kept = files::kept(self.state);
        let found = [self.find(SetUpFile::Sssd, wanted)?, self.find(SetUpFile::Sshd, wanted)?];
        let worked = kept.clone().or_else(|| (*wanted == Wanted::default()).then(Wanted::default));
        // What is on the disk may be of a start that died before it was proven.
        let stands = |found: &Found, file| {
            found.is(wanted.text(file)) && worked.as_ref().is_some_and(|worked| worked.text(file) == wanted.text(file))
        };
        let [sssd, sshd] = &found;
        let todo = Todo { sssd: !stands(sssd, SetUpFile::Sssd), sshd: !stands(sshd, SetUpFile::Sshd) };
        if let Some(reader) = reader {
            self.ask(reader).await?;
        }
        if !todo.sssd && !todo.sshd {
            // Another drop-in, or an edited sshd_config, may have come before ours since.
            self.check_in_force(wanted).await?;
            self.answers(owners).await?;
            return Ok(false);
        }
        let former = kept.unwrap_or_else(|| before(sssd, sshd, wanted));
        let mut told = Todo::default();
        let Err(error) = self.forward(wanted, owners, todo, &mut told).await else { return Ok(true) };
        if matches!(error, ChangeError::Crashed(_) | ChangeError::Keep(_)) {
            return Err(error);
        }
        match self.back(&former, told).await {
            Ok(()) => Err(error),
            Err(source) => Err(ChangeError::NotRestored {
                why: crate::host::chain(&error),
                cure: error.cure(),
                source: Box::new(source),
            }),
        }
    }

    /// Asks the directory itself, and nobody else, whether it serves this node.
    ///
    /// # Errors
    /// [`ChangeError::Directory`].
    pub async fn ask(&self, reader: &Reader) -> Result<(), ChangeError> {
        let read = self.directory.read(reader).await;
        read.map_err(|source| ChangeError::Directory(reader.access.uri.clone(), source))
    }

    /// What is there of a file. Where nothing is wanted, what is not the agent's is none of its business.
    fn find(&self, file: SetUpFile, wanted: &Wanted) -> Result<Found, FilesError> {
        match files::find(self.root, file) {
            Ok(Found::Foreign) if wanted.text(file).is_some() => Err(FilesError::Foreign(file)),
            Ok(Found::Foreign) | Err(_) if wanted.text(file).is_none() => Ok(Found::Missing),
            found => found,
        }
    }

    async fn forward(
        &self,
        wanted: &Wanted,
        owners: Option<&GroupDn>,
        todo: Todo,
        told: &mut Todo,
    ) -> Result<(), ChangeError> {
        if todo.sshd {
            self.check_chosen(wanted).await?;
            self.put(SetUpFile::Sshd, wanted)?;
            crash_point!("agent/directory-sshd", self.state.path())?;
            self.check_sshd(wanted).await?;
        }
        if todo.sssd {
            self.put(SetUpFile::Sssd, wanted)?;
            crash_point!("agent/directory-sssd", self.state.path())?;
            told.sssd = true;
            self.runner.act(ServiceAct::RestartSssd).await?;
        }
        self.answers(owners).await?;
        if todo.sshd {
            told.sshd = true;
            self.runner.act(ServiceAct::ReloadSshd).await?;
        }
        crash_point!("agent/directory-works", self.state.path())?;
        Ok(files::keep(self.state, wanted)?)
    }

    /// Writes or removes a file, unless it is as it should be.
    fn put(&self, file: SetUpFile, wanted: &Wanted) -> Result<(), FilesError> {
        if self.find(file, wanted)?.is(wanted.text(file)) {
            return Ok(());
        }
        files::put(self.root, file, wanted.text(file))
    }

    /// Brings back what was there. A service is told only if it was told of the change.
    async fn back(&self, former: &Wanted, told: Todo) -> Result<(), ChangeError> {
        for file in SetUpFile::ALL {
            self.put(file, former)?;
        }
        crash_point!("agent/directory-back", self.state.path())?;
        if told.sssd {
            self.runner.act(ServiceAct::RestartSssd).await?;
        }
        if told.sshd {
            self.check_sshd(former).await?;
            self.runner.act(ServiceAct::ReloadSshd).await?;
        }
        Ok(())
    }

    /// Whether sshd would start, and would look for keys where the agent puts them.
    async fn check_sshd(&self, wanted: &Wanted) -> Result<(), ChangeError> {
        let checked = self.runner.run(&Program::CheckSshd).await?;
        if !checked.succeeded() {
            return Err(ChangeError::Sshd(words(checked.last_line())));
        }
        self.check_in_force(wanted).await
    }

    /// Whether sshd goes by the drop-in, where there is to be one.
    async fn check_in_force(&self, wanted: &Wanted) -> Result<(), ChangeError> {
        if wanted.sshd.is_none() {
            return Ok(());
        }
        let shown = self.shown().await?;
        if !sshd::asks_pam(&shown) {
            return Err(ChangeError::NoPam);
        }
        if sshd::is_in_force(&shown) { Ok(()) } else { Err(ChangeError::NotInForce) }
    }

    /// Whether the first drop-in would take away what somebody chose.
    async fn check_chosen(&self, wanted: &Wanted) -> Result<(), ChangeError> {
        if wanted.sshd.is_none() || self.find(SetUpFile::Sshd, wanted)? != Found::Missing {
            return Ok(());
        }
        let shown = self.shown().await?;
        match sshd::chosen(&shown) {
            Some(value) => Err(ChangeError::Chosen(words(value))),
            None => Ok(()),
        }
    }

    /// What sshd's configuration comes to.
    async fn shown(&self) -> Result<String, ChangeError> {
        let shown = self.runner.run(&Program::ShowSshd).await?;
        if shown.succeeded() { Ok(shown.output) } else { Err(ChangeError::Sshd(words(shown.last_line()))) }
    }

    /// Whether sssd answers with the group.
    async fn answers(&self, owners: Option<&GroupDn>) -> Result<(), ChangeError> {
        let Some(owners) = owners else { return Ok(()) };
        let mut said = String::new();
        for pause in PATIENCE {
            sleep(Duration::from_secs(pause)).await;
            let ended = self.runner.run(&Program::LookUpGroup(owners.clone())).await?;
            let line = format!("{}:", owners.group_name());
            if ended.succeeded() && ended.output.lines().any(|found| found.starts_with(&line)) {
                return Ok(());
            }
            said = match ended.code {
                Some(2) => "it knows no such group".to_owned(),
                _ => words(ended.last_line()),
            };
        }
        Err(ChangeError::Silent { group: owners.group_name().to_owned(), said })
    }
}

/// What was there before anything ever worked: what is found, unless a start before this one wrote it and died.
fn before(sssd: &Found, sshd: &Found, wanted: &Wanted) -> Wanted {
    let text = |found: &Found, file| found.ours().filter(|text| wanted.text(file) != Some(text)).map(str::to_owned);
    Wanted { sssd: text(sssd, SetUpFile::Sssd).map(Zeroizing::new), sshd: text(sshd, SetUpFile::Sshd) }
}

fn words(said: &str) -> String {
    lucia_proto::base::text::shown(&said.chars().take(WORDS_MAX).collect::<String>())
}

#[cfg(test)]
mod tests;
