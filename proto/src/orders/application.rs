//! How a key asks for a place in the roster, and a passkey for a place beside its owner's key.

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::base::limits::APPLICATION_CLOCK;
use crate::base::time::UnixTime;
use crate::orders::owner::{CredentialId, KeyUse, OwnerId, OwnerName, Role};
use crate::orders::roster::VerifiedRoster;
use crate::pki::key::{Fingerprint, KeyError, NodeKey, NodePublicKey, Signature};

/// First line of what somebody signs who asks to become an owner.
const APPLICATION_HEAD: &str = "lucia-owner-application-v2";
/// First line of what an owner signs who asks for a passkey for orders.
const PASSKEY_HEAD: &str = "lucia-owner-passkey-v1";

/// Body of the call `apply`: a key asks for a place in the roster. Whether it gets one is decided on the worker's
/// host, by the code that both ends make from the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Application {
    /// What people call whoever asks.
    pub name: OwnerName,
    /// The owner key, one PEM block.
    pub public_key_pem: String,
    /// SHA-256 of the root of the fleet that is asked: nobody shows it to another.
    pub fleet: Digest,
    /// When it was signed, by the clock of whoever asks: nobody shows it again years later.
    pub asked_at: UnixTime,
    /// P1363, 64 bytes in 88 base64 characters, over head, name, fingerprint, fleet and time: whoever asks has the key, and
    /// asks for this. Of a passkey it is the signature of an owner key of the person whose it is to be.
    pub signature: String,
    /// There where the key is a passkey for orders, of somebody who is an owner already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passkey: Option<OrdersPasskey>,
}

/// Whose passkey for orders a key is to be, and by whose word. It is for nothing else: a passkey for signing in stands in
/// no roster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OrdersPasskey {
    /// The owner.
    pub owner: OwnerId,
    /// By which of the owner's keys that is confirmed.
    pub confirmed_by: Fingerprint,
    /// By which a browser finds it again.
    pub credential_id: CredentialId,
}

/// Why an application is none here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplicationError {
    /// A key is none, or the signature is not its own.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A passkey for orders is an owner's, and this one's owner is not in the roster, or not by that name and key.
    #[error("no owner of the roster confirmed the passkey by an owner key")]
    NoOwner,
    /// It is for another fleet.
    #[error(
        "it is for the fleet of root {0} and not for this one; ask with this fleet's root: luciactl login --root FILE"
    )]
    OtherFleet(Digest),
    /// It is too old, or of a clock that is days off.
    #[error(
        "it was signed at {asked_at}, days from {now}; ask anew (luciactl login), and if that was just now set the clock of \
         that machine"
    )]
    OtherTime {
        /// When it was signed, as it says.
        asked_at: UnixTime,
        /// What it is now.
        now: UnixTime,
    },
}

impl Application {
    /// Asks with `key`.
    #[must_use]
    pub fn sign(name: OwnerName, fleet: Digest, asked_at: UnixTime, key: &NodeKey) -> Self {
        let public_key_pem = key.public().to_pem();
        let unsigned = Self { name, public_key_pem, fleet, asked_at, signature: String::new(), passkey: None };
        let signature = key.sign(&unsigned.text(&key.public().fingerprint())).to_text();
        Self { signature, ..unsigned }
    }

    /// Asks for a passkey of `owner`'s for orders, with an owner key of theirs.
    #[must_use]
    pub fn confirm(
        (owner, name): (OwnerId, OwnerName),
        (fleet, asked_at): (Digest, UnixTime),
        (passkey, credential_id): (&NodePublicKey, CredentialId),
        key: &NodeKey,
    ) -> Self {
        let public_key_pem = passkey.to_pem();
        let part = OrdersPasskey { owner, confirmed_by: key.public().fingerprint(), credential_id };
        let unsigned = Self { name, public_key_pem, fleet, asked_at, signature: String::new(), passkey: None };
        let signature = key.sign(&unsigned.passkey_text(&part, &passkey.fingerprint())).to_text();
        Self { signature, passkey: Some(part), ..unsigned }
    }

    /// The key that asks, whoever has it.
    ///
    /// # Errors
    /// When it is none.
    pub fn key(&self) -> Result<NodePublicKey, KeyError> {
        NodePublicKey::from_pem(&self.public_key_pem)
    }

    /// The key, if whoever asks may: has it, or for a passkey is an owner of this roster who confirmed it.
    ///
    /// # Errors
    /// When they may not.
    pub fn verify_in(&self, roster: Option<&VerifiedRoster>) -> Result<NodePublicKey, ApplicationError> {
        let Some(part) = &self.passkey else { return Ok(self.verify()?) };
        let key = self.key()?;
        let roster = roster.ok_or(ApplicationError::NoOwner)?;
        let owner = roster.owner(&part.owner).filter(|owner| owner.name == self.name && owner.role == Role::Owner);
        let owner = owner.ok_or(ApplicationError::NoOwner)?;
        let by = roster.key(&owner.id, &part.confirmed_by, KeyUse::OwnerKey).ok_or(ApplicationError::NoOwner)?;
        if self.fleet != roster.roster().fleet {
            return Err(ApplicationError::OtherFleet(self.fleet));
        }
        by.verify(&self.passkey_text(part, &key.fingerprint()), &Signature::from_text(&self.signature)?)?;
        Ok(key)
    }

    /// The key, if whoever asks has it.
    ///
    /// # Errors
    /// When it is no key, or the signature is not its own.
    pub fn verify(&self) -> Result<NodePublicKey, KeyError> {
        let key = self.key()?;
        if self.passkey.is_some() {
            return Err(KeyError::Mismatch);
        }
        let signature = Signature::from_text(&self.signature)?;
        key.verify(&self.text(&key.fingerprint()), &signature)?;
        Ok(key)
    }

    /// Whether this fleet is asked, and about now: a person's clock may be two days off.
    ///
    /// # Errors
    /// Why it is not.
    pub fn is_for(&self, fleet: &Digest, now: UnixTime) -> Result<(), ApplicationError> {
        if self.fleet != *fleet {
            return Err(ApplicationError::OtherFleet(self.fleet));
        }
        if self.asked_at < now.minus(APPLICATION_CLOCK) || self.asked_at > now.plus(APPLICATION_CLOCK) {
            return Err(ApplicationError::OtherTime { asked_at: self.asked_at, now });
        }
        Ok(())
    }

    /// Whether it asks for what another does: it may have been signed at another time.
    #[must_use]
    pub fn asks_as(&self, other: &Self) -> bool {
        (&self.name, &self.public_key_pem, &self.fleet, &self.passkey)
            == (&other.name, &other.public_key_pem, &other.fleet, &other.passkey)
    }

    /// What an owner key signs for a passkey; it is of this owner, and neither key nor credential can be another's.
    fn passkey_text(&self, part: &OrdersPasskey, passkey: &Fingerprint) -> Vec<u8> {
        let id = Digest::of(part.credential_id.as_bytes()).to_string();
        let (key, fleet, time) = (passkey.to_string(), self.fleet.to_string(), self.asked_at.to_string());
        let parts = [PASSKEY_HEAD, part.owner.as_str(), self.name.as_str(), &key, &id, &fleet, &time];
        parts.join("\n").into_bytes()
    }

    fn text(&self, key: &Fingerprint) -> Vec<u8> {
        let (key, fleet, time) = (key.to_string(), self.fleet.to_string(), self.asked_at.to_string());
        [APPLICATION_HEAD, self.name.as_str(), &key, &fleet, &time].join("\n").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::json;
    use crate::base::limits::HOST_BODY_MAX;
    use crate::test_support::{OrderWorld, TestOwner, key};

    // spec: OW-4
    #[test]
    fn who_asks_to_become_an_owner_has_the_key() {
        let (fleet, now) = (Digest::of(b"root"), UnixTime::from_secs(1_795_982_400));
        let asked = Application::sign("alice".parse().unwrap(), fleet, now, &key(7));
        assert_eq!(asked.verify().as_ref(), Ok(key(7).public()));
        let with = |change: &dyn Fn(&mut Application)| {
            let mut other = asked.clone();
            change(&mut other);
            other.verify()
        };
        assert_eq!(with(&|asked| asked.name = "mallory".parse().unwrap()), Err(KeyError::Mismatch));
        assert_eq!(with(&|asked| asked.public_key_pem = key(8).public().to_pem()), Err(KeyError::Mismatch));
        assert_eq!(with(&|asked| asked.fleet = Digest::of(b"another root")), Err(KeyError::Mismatch));
        assert_eq!(with(&|asked| asked.asked_at = now.plus(Duration::from_secs(1))), Err(KeyError::Mismatch));
        assert_eq!(with(&|asked| asked.signature.push('=')), Err(KeyError::NotSignature));
        assert!(with(&|asked| asked.public_key_pem.clear()).is_err());
    }

    // spec: OW-60
    #[test]
    fn it_is_asked_of_one_fleet_and_for_days_alone() {
        let (fleet, now) = (Digest::of(b"root"), UnixTime::from_secs(1_795_982_400));
        let at = |asked_at| Application::sign("alice".parse().unwrap(), fleet, asked_at, &key(7));
        let second = Duration::from_secs(1);
        for good in [now, now.minus(APPLICATION_CLOCK), now.plus(APPLICATION_CLOCK)] {
            assert_eq!(at(good).is_for(&fleet, now), Ok(()));
        }
        for asked_at in [now.minus(APPLICATION_CLOCK + second), now.plus(APPLICATION_CLOCK + second)] {
            assert_eq!(at(asked_at).is_for(&fleet, now), Err(ApplicationError::OtherTime { asked_at, now }));
        }
        let other = Digest::of(b"another root");
        assert_eq!(at(now).is_for(&other, now), Err(ApplicationError::OtherFleet(fleet)));
        assert!(at(now).asks_as(&at(now.plus(second))));
        let renamed = Application::sign("alicia".parse().unwrap(), fleet, now, &key(7));
        assert!(!at(now).asks_as(&renamed));
    }

    // spec: OW-41
    #[test]
    fn a_passkey_for_orders_is_an_owners_who_confirmed_it_with_an_owner_key() {
        let world = OrderWorld::new(UnixTime::from_secs(1_795_982_400));
        let (alice, passkey) = (&world.alice, key(77));
        let id = || CredentialId::from_bytes(vec![7; 20]).unwrap();
        let name = |of: &TestOwner| of.name.parse::<OwnerName>().unwrap();
        let now = UnixTime::from_secs(1_795_982_400);
        let confirm = |of: &TestOwner, fleet: &Digest, by: &NodeKey| {
            Application::confirm((of.id.clone(), name(of)), (*fleet, now), (passkey.public(), id()), by)
        };
        let good = confirm(alice, &world.fleet, &alice.key);
        assert_eq!(good.verify_in(Some(&world.roster)).unwrap(), *passkey.public());
        assert!(good.verify().is_err());
        assert!(good.verify_in(None).is_err());
        let text = json::to_string(&good).unwrap();
        assert_eq!(json::from_str::<Application>(&text, HOST_BODY_MAX, 8).unwrap(), good);
        let with = |change: &dyn Fn(&mut Application, &mut OrdersPasskey)| {
            let (mut other, mut part) = (good.clone(), good.passkey.clone().unwrap());
            change(&mut other, &mut part);
            Application { passkey: Some(part), ..other }
        };
        let another = key(78);
        for (what, forged) in [
            ("a viewer's", confirm(&world.victor, &world.fleet, &world.victor.key)),
            ("a stranger's", confirm(&world.mallory, &world.fleet, &world.mallory.key)),
            ("alice's, by bob", confirm(alice, &world.fleet, &world.bob.key)),
            ("by her other passkey", confirm(alice, &world.fleet, &alice.passkey)),
            ("by itself", confirm(alice, &world.fleet, &passkey)),
            ("another fleet's", confirm(alice, &Digest::ZERO, &alice.key)),
            ("another name", with(&|asked, _| asked.name = "bob".parse().unwrap())),
            ("another owner", with(&|_, part| part.owner = world.bob.id.clone())),
            ("another key", with(&|asked, _| asked.public_key_pem = another.public().to_pem())),
            ("another id", with(&|_, part| part.credential_id = CredentialId::from_bytes(vec![8]).unwrap())),
            ("another time", with(&|asked, _| asked.asked_at = now.plus(Duration::from_secs(1)))),
            ("no signature", with(&|asked, _| asked.signature.clear())),
        ] {
            assert!(forged.verify_in(Some(&world.roster)).is_err(), "{what}");
        }
        // What its owner signed for it is no application of a key of its own.
        let bare = Application { passkey: None, ..good.clone() };
        assert!(bare.verify().is_err() && bare.verify_in(Some(&world.roster)).is_err());
    }
}
