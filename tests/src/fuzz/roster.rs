//! The roster that a worker signs, whatever it says.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use lucia_proto::base::limits::{ANSWER_MAX, OWNERS_MAX};
use lucia_proto::orders::owner::{KeyUse, Role};
use lucia_proto::orders::roster::{SignedRoster, TakenRoster, VerifiedRoster, accept};
use lucia_proto::pki::key::NodePublicKey;
use serde_json::Value;

use super::intent::WORLD;
use super::twice;

/// The one that is held.
static HELD: LazyLock<TakenRoster> = LazyLock::new(|| WORLD.roster.taken());

/// The bytes are the payload, or the whole with its signature.
pub(super) fn run(input: &[u8]) {
    if let Some(signed) = twice::<SignedRoster>(input, ANSWER_MAX) {
        judge(&signed);
        judge(&by_worker(signed.parts().payload()));
        let nobodys = WORLD.mallory.key.sign_der(&[b"lucia-roster-v1\n", signed.parts().payload()].concat());
        let nobodys = SignedRoster::from_parts(signed.parts().payload().to_vec(), nobodys);
        assert!(nobodys.verify(&WORLD.bundle, &WORLD.fleet).is_err(), "of no worker, and believed");
    }
    judge(&by_worker(input));
}

fn by_worker(payload: &[u8]) -> SignedRoster {
    let signature = WORLD.ca.worker_key.sign_der(&[b"lucia-roster-v1\n", payload].concat());
    SignedRoster::from_parts(payload.to_vec(), signature)
}

fn judge(signed: &SignedRoster) {
    let Ok(roster) = signed.verify(&WORLD.bundle, &WORLD.fleet) else { return };
    let value: Value = serde_json::from_slice(signed.parts().payload()).unwrap();
    assert_eq!(value["version"].as_u64(), Some(roster.version()));
    assert!(roster.version() > 0);
    assert_eq!(value["fleet"].as_str(), Some(WORLD.fleet.to_string().as_str()));
    let owners = value["owners"].as_array().unwrap();
    assert!(owners.len() <= OWNERS_MAX);
    let mut seen = BTreeSet::new();
    let mut orders = false;
    for (owner, known) in owners.iter().zip(&roster.roster().owners) {
        assert_eq!(owner["id"].as_str(), Some(known.id.as_str()));
        assert!(seen.insert(owner["id"].to_string()) && seen.insert(format!("name {}", owner["name"])));
        orders |= owner["role"] == "owner";
        assert_eq!(owner["role"] == "owner", known.role == Role::Owner);
        for key in owner["keys"].as_array().unwrap() {
            let print = NodePublicKey::from_pem(key["publicKeyPem"].as_str().unwrap()).unwrap().fingerprint();
            assert!(seen.insert(print.to_string()), "a key of two");
            let is_owners = key["use"] == "owner-key";
            assert_eq!(roster.key(&known.id, &print, KeyUse::OwnerKey).is_some(), is_owners);
            assert_eq!(roster.key(&known.id, &print, KeyUse::OrderPasskey).is_some(), !is_owners);
            assert_eq!(roster.caller(&print).map(|(owner, _)| &owner.id), is_owners.then_some(&known.id));
        }
    }
    assert_eq!(roster.has_owner(), orders);
    for kind in lucia_proto::orders::OrderKind::ALL {
        let named = value["pageKinds"].as_array().is_some_and(|kinds| kinds.iter().any(|one| one == kind.as_str()));
        assert_eq!(roster.page_origin(*kind).is_some(), named, "{kind:?}");
    }
    rises(&roster);
}

/// It only rises, and one version is one roster.
fn rises(roster: &VerifiedRoster) {
    let same = roster.mark() == HELD.mark();
    let taken = accept(Some(&HELD), roster.clone(), &WORLD.bundle).is_ok();
    assert_eq!(taken, same || roster.version() > HELD.mark().version, "version {}", roster.version());
}
