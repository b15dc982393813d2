//! Who is in the roster, by which keys, and which roster that is (design.md O3).

use std::collections::{BTreeMap, BTreeSet};

use lucia_proto::orders::owner::{OwnerId, Role};
use lucia_proto::orders::roster::RosterMark;
use lucia_proto::pki::key::Fingerprint;

/// As the lines of the ledger add up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct People {
    roster: Option<RosterMark>,
    here: BTreeMap<OwnerId, (Role, BTreeSet<Fingerprint>)>,
    /// Keys of those who left, and keys that were taken away: none of them comes back.
    left: BTreeSet<Fingerprint>,
}

impl People {
    /// Which roster is in force.
    pub(super) const fn roster(&self) -> Option<&RosterMark> {
        self.roster.as_ref()
    }

    /// Whether anybody may order.
    pub(super) fn has_owner(&self) -> bool {
        self.here.values().any(|(role, _)| *role == Role::Owner)
    }

    /// Whether this key was somebody's of the roster, and is nobody's any more.
    pub(super) fn has_left(&self, key: &Fingerprint) -> bool {
        self.left.contains(key)
    }

    /// Another roster, whoever is in it.
    pub(super) fn change(&mut self, roster: &RosterMark) -> Result<(), &'static str> {
        if self.roster.as_ref().is_some_and(|known| roster.version <= known.version) {
            return Err("a roster whose version does not rise");
        }
        self.roster = Some(*roster);
        Ok(())
    }

    /// Somebody comes.
    pub(super) fn enter(
        &mut self,
        owner: &OwnerId,
        role: Role,
        key: Fingerprint,
        roster: &RosterMark,
    ) -> Result<(), &'static str> {
        self.change(roster)?;
        self.here.insert(owner.clone(), (role, BTreeSet::from([key])));
        Ok(())
    }

    /// Somebody goes, with every key.
    pub(super) fn leave(&mut self, owner: &OwnerId, roster: &RosterMark) -> Result<(), &'static str> {
        if !self.here.contains_key(owner) {
            return Err("somebody is removed who is not in the roster");
        }
        self.change(roster)?;
        self.left.extend(self.here.remove(owner).into_iter().flat_map(|(_, keys)| keys));
        Ok(())
    }

    /// Somebody has one key more.
    pub(super) fn add_key(
        &mut self,
        owner: &OwnerId,
        key: Fingerprint,
        roster: &RosterMark,
    ) -> Result<(), &'static str> {
        if self.left.contains(&key) || self.here.values().any(|(_, keys)| keys.contains(&key)) {
            return Err("a key is given that was somebody's before");
        }
        if !self.here.contains_key(owner) {
            return Err("a key is given to somebody who is not in the roster");
        }
        self.change(roster)?;
        if let Some((_, keys)) = self.here.get_mut(owner) {
            keys.insert(key);
        }
        Ok(())
    }

    /// Somebody has one key less, and at least one.
    pub(super) fn drop_key(
        &mut self,
        owner: &OwnerId,
        key: Fingerprint,
        roster: &RosterMark,
    ) -> Result<(), &'static str> {
        let has = |(_, keys): &(Role, BTreeSet<Fingerprint>)| keys.contains(&key) && keys.len() > 1;
        if !self.here.get(owner).is_some_and(has) {
            return Err("a key is taken away that is nobody's, or somebody's only one");
        }
        self.change(roster)?;
        if let Some((_, keys)) = self.here.get_mut(owner) {
            keys.remove(&key);
        }
        self.left.insert(key);
        Ok(())
    }
}
