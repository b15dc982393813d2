//! What is left of a journal that stopped the start, and the one way to bring a generation back.

use std::path::PathBuf;

use lucia_durable::{FileName, Lease, LeaseError, Marker, PrivateDir, ReadError, RuleBreach, WriteError};
use lucia_proto::files::journal::{Journal, JournalError};
use thiserror::Error;

use super::journal_file::{ENTRIES_MAX, JournalFileError, MARKER, Names, read};
use super::layout::{Layout, LayoutError, SHARED_FILE};
use crate::config::Config;
use crate::refusal::chain;

/// What `doctor` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether a controller would start on this journal.
    pub healthy: bool,
    /// What was looked at, in reading order.
    pub findings: Vec<Finding>,
    /// What to do, a sentence each; empty when healthy.
    pub cures: Vec<String>,
}

/// One file of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where it is or should be.
    pub path: PathBuf,
    /// How it is.
    pub health: Health,
}

/// How a file of the journal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Whole: generation, devices and tasks in it.
    Whole {
        /// Which change wrote it.
        generation: u64,
        /// Devices and nodes in it.
        devices: usize,
        /// Tasks in it.
        tasks: usize,
    },
    /// Not there.
    Missing,
    /// There, and not read for its mode, its owner, a second name, or what the system said: the reason has the cure, and
    /// what is in it may be whole.
    Refused(String),
    /// There and not usable, with the reason.
    Damaged(String),
    /// A lease: what it says.
    Lease(String),
}

/// Which file to bring back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// `state.json` as it is: one that was copied here, without its lease, on purpose.
    Current,
    /// `state.json.1`, the journal before its last change.
    First,
    /// `state.json.2`.
    Second,
    /// `state.json.3`.
    Third,
}

impl Generation {
    /// 0 is the current one, 1 to 3 are the former ones.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Current),
            1 => Some(Self::First),
            2 => Some(Self::Second),
            3 => Some(Self::Third),
            _ => None,
        }
    }

    fn file(self, names: &Names) -> &FileName {
        let [first, second, third] = &names.former;
        match self {
            Self::Current => &names.state,
            Self::First => first,
            Self::Second => second,
            Self::Third => third,
        }
    }
}

/// Why nothing can be looked at or restored.
#[derive(Debug, Error)]
pub enum DoctorError {
    /// The directory.
    #[error(
        "the journal's directory cannot be used; run this as the controller's user \
         (runuser -u lucia-controller -- lucia-controller doctor)"
    )]
    Layout(#[source] LayoutError),
    /// A controller runs on it, or the lease is not usable.
    #[error("the journal's lease is not to be had")]
    Lease(#[source] LeaseError),
    /// The chosen generation is not there.
    #[error("{path} is not there")]
    Missing {
        /// Which file.
        path: PathBuf,
    },
    /// The chosen generation is not whole either.
    #[error("the chosen generation cannot be restored")]
    NotWhole(#[source] JournalFileError),
    /// It could not be put in place.
    #[error("the journal cannot be written")]
    Write(#[source] WriteError),
    /// It could not be put in JSON.
    #[error("the journal cannot be put in JSON")]
    Json(#[source] JournalError),
}

/// Looks at the journal without changing anything; a running controller does not mind.
///
/// # Errors
/// The directory cannot be opened at all.
pub fn doctor(config: &Config) -> Result<Report, DoctorError> {
    let dir = Layout::onboarding(config).map_err(DoctorError::Layout)?;
    let names = Names::new().map_err(DoctorError::Layout)?;
    let look = |file: &FileName| Finding { path: dir.path_of(file), health: health(&dir, file) };
    let state = look(&names.state);
    let former: Vec<Finding> = names.former.iter().map(look).collect();
    let marker = Lease::look(&dir, &names.lease, MARKER);
    let whole = matches!(state.health, Health::Whole { .. });
    let there = state.health != Health::Missing;
    let mut cures = Vec::new();
    let healthy = match &marker {
        Err(error) => {
            cures.push(chain(error));
            false
        }
        Ok(Marker::Absent) if there => {
            cures.push(
                "the lease is missing, so this journal came from elsewhere: if it is the right one, take it over with \
                 `lucia-controller doctor --restore 0`"
                    .to_owned(),
            );
            false
        }
        Ok(Marker::Absent | Marker::Starting) => whole || !there,
        Ok(Marker::Present) => whole,
    };
    if let Health::Refused(reason) = &state.health {
        cures.push(format!(
            "{reason}; nothing has to be restored for that: then look again with `lucia-controller doctor`"
        ));
    } else if !whole && (there || matches!(marker, Ok(Marker::Present))) {
        let whole = |(finding, _): &(&Finding, _)| matches!(finding.health, Health::Whole { .. });
        let mut refused = former.iter().filter_map(|finding| match &finding.health {
            Health::Refused(reason) => Some(reason),
            _ => None,
        });
        match (former.iter().zip(1..).find(whole), refused.next()) {
            (Some((_, number)), _) => cures.push(format!(
                "stop the controller, then `lucia-controller doctor --restore {number}`; changes made since are lost, and \
                 the enrollment worker will ask its operator to accept the older journal"
            )),
            (None, Some(reason)) => {
                cures.push(format!("{reason}; then look again with `lucia-controller doctor`: it may be whole"));
            }
            (None, None) => cures.push("no generation is whole: restore the directory from a backup".to_owned()),
        }
    }
    let lease = match marker {
        Ok(Marker::Absent) => Health::Missing,
        Ok(Marker::Starting) => Health::Lease("a first start that did not get through".to_owned()),
        Ok(Marker::Present) => Health::Lease("in order".to_owned()),
        Err(error) => Health::Damaged(chain(&error)),
    };
    let lease = Finding { path: dir.path_of(&names.lease), health: lease };
    let findings = [state].into_iter().chain(former).chain([lease]).collect();
    Ok(Report { healthy, findings, cures })
}

fn health(dir: &PrivateDir, file: &FileName) -> Health {
    match read(dir, file) {
        Ok(None) => Health::Missing,
        Ok(Some(Journal { generation, devices, tasks, .. })) => {
            Health::Whole { generation, devices: devices.len(), tasks: tasks.len() }
        }
        Err(JournalFileError::Read(error)) if may_be_whole(&error) => Health::Refused(chain(&error)),
        Err(error) => Health::Damaged(chain(&error)),
    }
}

/// Whether the file itself may be in order: it is a file, and its bytes were not looked at.
const fn may_be_whole(error: &ReadError) -> bool {
    match error {
        ReadError::Refused { breach, .. } => !matches!(breach, RuleBreach::Kind { .. }),
        // A later version wrote it: that version reads it.
        ReadError::Failed { .. } | ReadError::Newer { .. } => true,
        _ => false,
    }
}

/// Makes `generation` the journal, with no controller running. The journal that was there stays as
/// `state.json.before-restore`, be it whole or not.
///
/// # Errors
/// A controller runs; the generation is not whole; the disk. Nothing is changed then.
pub fn restore(config: &Config, generation: Generation) -> Result<(), DoctorError> {
    let dir = Layout::onboarding(config).map_err(DoctorError::Layout)?;
    let names = Names::new().map_err(DoctorError::Layout)?;
    let mut lease =
        Lease::take(&dir, &names.lease, MARKER, "lucia-controller doctor --restore").map_err(DoctorError::Lease)?;
    dir.remove_leftovers(ENTRIES_MAX).map_err(DoctorError::Write)?;
    let file = generation.file(&names);
    let journal = read(&dir, file)
        .map_err(DoctorError::NotWhole)?
        .ok_or_else(|| DoctorError::Missing { path: dir.path_of(file) })?;
    if generation != Generation::Current {
        let bytes = journal.to_bytes().map_err(DoctorError::Json)?;
        let max = u64::try_from(lucia_proto::base::limits::JOURNAL_MAX).unwrap_or(u64::MAX);
        // One that cannot even be read as bytes (another's, too large) is left to the message of the write.
        if let Ok(lucia_durable::Loaded::Found(former)) = dir.read(&names.state, max, super::journal_file::rules()) {
            let kept = super::layout::name("state.json.before-restore").map_err(DoctorError::Layout)?;
            dir.replace(&kept, &former, SHARED_FILE).map_err(DoctorError::Write)?;
        }
        dir.replace(&names.state, &bytes, SHARED_FILE).map_err(DoctorError::Write)?;
    }
    lease.confirm(&dir).map_err(DoctorError::Lease)
}
