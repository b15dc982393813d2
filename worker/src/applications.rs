//! Who asks to become an owner: what the controller passed on, checked as far as it can be. Whether it is that person's
//! key, a person on this host decides (design.md O3).

use lucia_proto::base::bounded::Version;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::json::JsonError;
use lucia_proto::base::limits::APPLICATION_LIFETIME;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::{ApplicationFile, OwnerFile, RejectionFile};
use lucia_proto::orders::application::{self, Application};
use lucia_proto::orders::owner::{self, KeyUse, Owner, OwnerId, OwnerKey, OwnerName, Role};
use lucia_proto::orders::roster::Roster;
use lucia_proto::pki::key::{Fingerprint, KeyError, VerificationCode};
use serde::Serialize;
use thiserror::Error;

use crate::chain;
use crate::config::Config;
use crate::owner_queue::{OwnerQueue, file_name};
use crate::queue::ANSWER_MODE;

/// Applications looked at: no controller of ours passes on more than 16.
const LOOKED_AT: usize = 256;
/// The controller's clock may be ahead by this much.
const AHEAD: std::time::Duration = std::time::Duration::from_secs(5 * 60);

/// Somebody who asks to become an owner, and has the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Applicant {
    /// What a person compares; made from the key here.
    pub code: VerificationCode,
    /// What they want to be called.
    pub name: OwnerName,
    /// Who it would be.
    pub owner: OwnerId,
    /// Until when it counts.
    pub expires_at: UnixTime,
    /// Not shown: pasted from here it would compare the controller's word with itself.
    #[serde(skip)]
    pub fingerprint: Fingerprint,
    /// There where it is a passkey for orders: whose it is to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passkey_of: Option<OwnerId>,
    /// The file that asks.
    #[serde(skip)]
    pub file: Digest,
    /// As it came: whether an owner confirmed a passkey is looked up in the roster.
    #[serde(skip)]
    pub application: Application,
}

/// What lies in the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Applications {
    /// Those that could be approved.
    pub open: Vec<Applicant>,
    /// What is wrong, one sentence each, with the cure.
    pub problems: Vec<String>,
}

/// Why an application is none.
#[derive(Debug, Error)]
pub enum ApplicationError {
    /// Not such a file.
    #[error("it is no application; ask anew: luciactl login")]
    Json(#[source] JsonError),
    /// Whoever asks does not have the key.
    #[error("its key did not sign it; ask anew: luciactl login")]
    Key(#[source] KeyError),
    /// It is for another fleet, or of another time.
    #[error("it does not ask here and now")]
    Elsewhere(#[source] application::ApplicationError),
    /// It is called after another key.
    #[error("it is not that of the key it is called after")]
    OtherKey,
    /// Its time is over.
    #[error("it ran out at {0}; ask anew: luciactl login")]
    Expired(UnixTime),
    /// It would count for longer than any of ours.
    #[error("it counts until {0}, which is over an hour ahead; compare the clocks of controller and worker")]
    TooFarAhead(UnixTime),
}

/// Checks one file.
///
/// # Errors
/// What is wrong with it.
pub fn judge(file_of: &OwnerId, bytes: &[u8], fleet: &Digest, now: UnixTime) -> Result<Applicant, ApplicationError> {
    let ApplicationFile { application, expires_at, .. } =
        ApplicationFile::from_bytes(bytes).map_err(ApplicationError::Json)?;
    let key = if application.passkey.is_some() { application.key() } else { application.verify() };
    let key = key.map_err(ApplicationError::Key)?;
    let fingerprint = key.fingerprint();
    if OwnerId::of(&fingerprint) != *file_of {
        return Err(ApplicationError::OtherKey);
    }
    application.is_for(fleet, now).map_err(ApplicationError::Elsewhere)?;
    if expires_at <= now {
        return Err(ApplicationError::Expired(expires_at));
    }
    if expires_at > now.plus(APPLICATION_LIFETIME + AHEAD) {
        return Err(ApplicationError::TooFarAhead(expires_at));
    }
    Ok(Applicant {
        code: owner::code(&key),
        name: application.name.clone(),
        owner: file_of.clone(),
        expires_at,
        fingerprint,
        file: Digest::of(bytes),
        passkey_of: application.passkey.as_ref().map(|passkey| passkey.owner.clone()),
        application,
    })
}

/// Looks at the queue of this fleet.
#[must_use]
pub fn applications(config: &Config, fleet: &Digest, now: UnixTime) -> Applications {
    let mut found = Applications::default();
    let queue = match OwnerQueue::open(config) {
        Ok(Some(queue)) if queue.is_whole() => queue,
        Ok(_) => {
            let text = "the controller has no owner-requests directory: it is older than owners. Bring it to this \
                        worker's version, then: systemd-tmpfiles --create";
            found.problems.push(text.to_owned());
            return found;
        }
        Err(error) => {
            found.problems.push(chain(&error));
            return found;
        }
    };
    let mut names = match queue.scan() {
        Ok(scan) => scan.applications,
        Err(error) => {
            found.problems.push(chain(&error));
            return found;
        }
    };
    if let Some(more) = names.len().checked_sub(LOOKED_AT).filter(|more| *more > 0) {
        found.problems.push(format!("{more} more applications are not looked at; find out what fills the queue"));
        names.truncate(LOOKED_AT);
    }
    for owner in names {
        let of = OwnerFile::Application(owner.clone());
        let judged = match queue.request(&of) {
            Ok(None) => continue,
            Ok(Some(bytes)) => judge(&owner, &bytes, fleet, now).map_err(|error| chain(&error)),
            Err(error) => Err(chain(&error)),
        };
        match judged {
            // The controller has not dropped it yet.
            Ok(applicant) if is_rejected(&queue, &of, &applicant) => {}
            Ok(applicant) => found.open.push(applicant),
            Err(text) => found.problems.push(format!("{} is ignored: {text}", of.name())),
        }
    }
    found
}

fn is_rejected(queue: &OwnerQueue, of: &OwnerFile, applicant: &Applicant) -> bool {
    let answer = queue.ours(&file_name(of), RejectionFile::MAX);
    let answer = answer.and_then(|bytes| RejectionFile::from_bytes(&bytes).ok());
    answer.is_some_and(|answer| answer.application == applicant.file)
}

/// Tells the controller that somebody on this host rejected an application: it drops it.
///
/// # Errors
/// Why the answer is not written.
pub fn reject(config: &Config, applicant: &Applicant) -> Result<(), String> {
    let queue = OwnerQueue::open(config).map_err(|error| chain(&error))?;
    let Some(queue) = queue else { return Err("the controller has no owner-requests directory".to_owned()) };
    let answer = RejectionFile { schema_version: Version, application: applicant.file };
    let bytes = answer.to_bytes().map_err(|error| chain(&error))?;
    let name = file_name(&OwnerFile::Application(applicant.owner.clone()));
    queue.responses.replace(&name, &bytes, ANSWER_MODE).map_err(|error| chain(&error))
}

impl Applicant {
    /// As the roster would have them.
    #[must_use]
    pub fn entry(&self, role: Role) -> Owner {
        Owner { id: self.owner.clone(), name: self.name.clone(), role, keys: vec![self.key()] }
    }

    /// The key, as the roster would have it.
    #[must_use]
    pub fn key(&self) -> OwnerKey {
        let credential_id = self.application.passkey.as_ref().map(|passkey| passkey.credential_id.clone());
        let key_use = if credential_id.is_some() { KeyUse::OrderPasskey } else { KeyUse::OwnerKey };
        // In the one form that a roster is compared in.
        let public_key_pem =
            self.application.key().map_or_else(|_| self.application.public_key_pem.clone(), |key| key.to_pem());
        OwnerKey { key_use, public_key_pem, credential_id }
    }
}

/// Somebody of the roster who stands in an applicant's way: the same name, id or key.
#[must_use]
pub fn taken<'a>(applicant: &Applicant, roster: Option<&'a Roster>) -> Option<&'a Owner> {
    roster?.owners.iter().find(|owner| owner.name == applicant.name || owner.id == applicant.owner)
}

/// A node that has this key: a key is for one use.
#[must_use]
pub fn node_of(applicant: &Applicant) -> NodeId {
    applicant.fingerprint.node_id()
}
