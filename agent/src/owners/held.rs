//! `roster.json`: the newest roster, and which one it was.

use lucia_proto::base::digest::Digest;
use lucia_proto::orders::roster::{self, RosterError, SignedRoster, TakenRoster, VerifiedRoster};
use lucia_proto::pki::bundle::VerifiedBundle;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::host::state::{State, StateError, StateFile};

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct StoredRoster {
    /// Stays when the roster itself cannot be believed any more; whether it counts then is for [`roster::accept`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<TakenRoster>,
    /// Always true: the agent before this version takes unsigned SSH keys where it is not.
    owned: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    roster: Option<SignedRoster>,
}

/// The roster held.
#[derive(Debug, Default)]
pub struct HeldRoster {
    kept: StoredRoster,
    /// The roster, if a worker of the bundle signed it.
    verified: Option<VerifiedRoster>,
}

impl HeldRoster {
    /// Reads it; nothing when there is none. A file that cannot be read is one of a node that had a roster, and so a record
    /// of orders: without one it was lost.
    #[must_use]
    pub fn load(state: &State) -> Option<Self> {
        let file = StateFile::Roster;
        let kept = state.read_json(file).unwrap_or_else(|error| {
            let why = crate::host::chain(&error);
            tracing::warn!("{} cannot be used; the next roster takes its place: {why}", file.as_str());
            Some(StoredRoster::default())
        });
        kept.map(|kept| Self { kept, verified: None })
    }

    /// What the file says.
    ///
    /// # Errors
    /// [`StateError::Form`].
    pub fn text(&self) -> Result<Zeroizing<String>, StateError> {
        StateFile::Roster.text(&self.kept)
    }

    /// The roster, if it can be believed now.
    #[must_use]
    pub const fn roster(&self) -> Option<&VerifiedRoster> {
        self.verified.as_ref()
    }

    /// The version held; 0 where none was ever.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.kept.mark.map_or(0, |taken| taken.mark().version)
    }

    /// Holds the roster on the disk against a bundle: one whose worker is gone is not believed, and its mark stays.
    pub fn verify(&mut self, bundle: &VerifiedBundle, fleet: &Digest) {
        let told = |error: &RosterError| tracing::warn!("the roster on disk is not believed: {error}");
        self.verified = self.kept.roster.as_ref().and_then(|signed| {
            let checked = signed.verify(bundle, fleet);
            let checked = checked.and_then(|held| roster::accept(self.kept.mark.as_ref(), held, bundle));
            checked.inspect_err(told).ok()
        });
    }

    /// What is held once this roster is, which was verified with this bundle; nothing when it is the one that is held.
    ///
    /// # Errors
    /// An older one, or another of the same version.
    pub fn with(&self, new: VerifiedRoster, bundle: &VerifiedBundle) -> Result<Option<Self>, RosterError> {
        let new = roster::accept(self.kept.mark.as_ref(), new, bundle)?;
        if self.verified.as_ref() == Some(&new) {
            return Ok(None);
        }
        let kept = StoredRoster { mark: Some(new.taken()), owned: true, roster: Some(new.signed().clone()) };
        Ok(Some(Self { kept, verified: Some(new) }))
    }
}
