//! Which bundle and roster this controller holds: what the worker published, checked as a node checks it.
//!
//! The controller has the root, so it believes a bundle as nodes do and a roster because a worker of that bundle signed
//! it. Neither goes back: the mark of the last roster is on disk before the roster counts.

use std::sync::Arc;

use lucia_proto::base::digest::Digest;
use lucia_proto::base::json::{self, JsonError};
use lucia_proto::base::limits::{JSON_DEPTH_MAX, QUEUE_FILE_MAX};
use lucia_proto::orders::lists::SignedBarred;
use lucia_proto::orders::roster::{self, RosterError, SignedRoster, TakenRoster, VerifiedRoster};
use lucia_proto::pki::bundle::{self, BundleError, SignedBundle, VerifiedBundle};
use lucia_proto::pki::chain::Root;
use thiserror::Error;

/// Why what the worker published is not taken.
#[derive(Debug, Error)]
pub(super) enum TrustError {
    /// A file is none of its kind.
    #[error("{file} in owner-responses is malformed")]
    Json {
        /// Which file.
        file: &'static str,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// The bundle is not the root's, or goes back.
    #[error("bundle.json in owner-responses is refused")]
    Bundle(#[source] BundleError),
    /// The roster is not a worker's, another fleet's, or goes back.
    #[error("roster.json in owner-responses is refused")]
    Roster(#[source] RosterError),
}

/// A bundle, and the roster that one of its workers signed.
#[derive(Clone, Debug)]
pub(crate) struct Trust {
    pub(crate) bundle: Arc<VerifiedBundle>,
    /// Absent while the fleet has none.
    pub(crate) roster: Option<Arc<VerifiedRoster>>,
}

/// What was last looked at of the worker's files.
#[derive(Debug, Default)]
pub(super) struct FilesRead {
    /// The bytes of bundle and roster: the same ones are not verified twice.
    pub(super) files: Option<(Option<Digest>, Option<Digest>)>,
    pub(super) mark: Option<TakenRoster>,
    /// What was said about them last, so that it is said once.
    pub(super) said: String,
}

/// What was last looked at.
#[derive(Debug, Default)]
pub(super) struct ListsRead {
    /// The same bytes are not verified twice with the same bundle.
    pub(super) barred: Option<(Digest, u64)>,
    pub(super) names: Option<(Digest, u64)>,
    /// The list of barred keys that was held before the start, until one is verified, and the version of the bundle that
    /// it was last verified with in vain.
    pub(super) kept: Option<(SignedBarred, Option<u64>)>,
    /// What was said about them last, so that it is said once.
    pub(super) said: String,
}

impl Trust {
    /// Whether it is this very one, and not only as good.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let roster = |trust: &Self| trust.roster.as_ref().map(Arc::as_ptr);
        Arc::ptr_eq(&self.bundle, &other.bundle) && roster(self) == roster(other)
    }
}

/// What there is after these files. One that is refused leaves what was held of it; the reasons are for the log.
pub(super) fn next(
    held: Option<&Trust>,
    mark: Option<&TakenRoster>,
    root: &Root,
    bundle: Option<&[u8]>,
    roster: Option<&[u8]>,
) -> (Option<Trust>, Vec<TrustError>) {
    let mut refused = Vec::new();
    let held_bundle = held.map(|held| &held.bundle);
    let bundle = match bundle.map(|bytes| take_bundle(held_bundle.map(AsRef::as_ref), root, bytes)) {
        Some(Ok(bundle)) => Some(Arc::new(bundle)),
        Some(Err(error)) => {
            refused.push(error);
            held_bundle.cloned()
        }
        None => held_bundle.cloned(),
    };
    let Some(bundle) = bundle else { return (None, refused) };
    let held_roster = || held.and_then(|held| held.roster.clone());
    let roster = match roster.map(|bytes| take_roster(mark, &bundle, &root.sha256(), bytes)) {
        Some(Ok(roster)) => Some(Arc::new(roster)),
        Some(Err(error)) => {
            refused.push(error);
            held_roster()
        }
        None => held_roster(),
    };
    (Some(Trust { bundle, roster }), refused)
}

fn take_bundle(held: Option<&VerifiedBundle>, root: &Root, bytes: &[u8]) -> Result<VerifiedBundle, TrustError> {
    let signed: SignedBundle = json::from_slice(bytes, QUEUE_FILE_MAX, JSON_DEPTH_MAX)
        .map_err(|source| TrustError::Json { file: "bundle.json", source })?;
    let verified = signed.verify(root).map_err(TrustError::Bundle)?;
    bundle::accept(held, verified).map_err(TrustError::Bundle)
}

fn take_roster(
    mark: Option<&TakenRoster>,
    bundle: &VerifiedBundle,
    fleet: &Digest,
    bytes: &[u8],
) -> Result<VerifiedRoster, TrustError> {
    let signed: SignedRoster = json::from_slice(bytes, QUEUE_FILE_MAX, JSON_DEPTH_MAX)
        .map_err(|source| TrustError::Json { file: "roster.json", source })?;
    let verified = signed.verify(bundle, fleet).map_err(TrustError::Roster)?;
    roster::accept(mark, verified, bundle).map_err(TrustError::Roster)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucia_proto::base::time::UnixTime;
    use lucia_proto::test_support::{OrderWorld, TestCa};

    const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

    fn text<T: serde::Serialize>(value: &T) -> Vec<u8> {
        json::to_string(value).unwrap().into_bytes()
    }

    // spec: CO-2
    #[test]
    fn only_the_fleets_own_roster_is_held_and_it_never_goes_back() {
        let mut world = OrderWorld::new(NOW);
        let root = world.ca.root();
        let bundle = text(world.bundle.signed());
        let fifth = text(world.roster.signed());
        let mark = world.roster.taken();
        let (trust, refused) = next(None, None, &root, Some(&bundle), Some(&fifth));
        let trust = trust.unwrap();
        assert!(refused.is_empty() && trust.roster.as_ref().unwrap().version() == 5);
        world.change_roster(|_| ());
        let (sixth, older) = (text(world.roster.signed()), world.roster.taken());
        world.change_roster(|roster| {
            roster.version = 5;
            roster.owners.truncate(1);
        });
        let another = text(world.roster.signed());
        let foreign = TestCa::with_keys(NOW, 101);
        let forged = text(&SignedRoster::sign(world.roster.roster(), &foreign.worker_key).unwrap());
        let version = |held: Option<&Trust>, mark, bundle: &[u8], roster: &[u8]| {
            let (trust, refused) = next(held, mark, &root, Some(bundle), Some(roster));
            (trust.and_then(|trust| Some(trust.roster?.version())), refused.len())
        };
        assert_eq!(version(Some(&trust), Some(&mark), &bundle, &sixth), (Some(6), 0));
        for (name, held, mark, roster) in [
            ("older", Some(&trust), Some(&older), &fifth),
            ("another of the same version", Some(&trust), Some(&mark), &another),
            ("of another worker", Some(&trust), Some(&mark), &forged),
            ("half a file", Some(&trust), Some(&mark), &fifth[..fifth.len() / 2].to_vec()),
        ] {
            assert_eq!(version(held, mark, &bundle, roster), (Some(5), 1), "{name}");
            // After a restart it is the mark alone that remembers.
            assert_eq!(version(None, mark, &bundle, roster), (None, 1), "{name}");
        }
        let second = text(&world.ca.signed_bundle(2, NOW));
        assert_eq!(version(Some(&trust), Some(&mark), &second, &fifth), (Some(5), 1), "an older bundle");
        let theirs = text(&foreign.signed_bundle(9, NOW));
        assert_eq!(version(Some(&trust), Some(&mark), &theirs, &fifth), (Some(5), 1), "another root's bundle");
        assert_eq!(version(None, None, &theirs, &fifth), (None, 1), "and nothing else");
        // Files that went missing take nothing away.
        let (same, refused) = next(Some(&trust), Some(&mark), &root, None, None);
        assert!(refused.is_empty() && same.unwrap().roster.unwrap().version() == 5);
    }

    /// threats.md W: a worker's stolen key, with which somebody signed a version that no honest roster ever reaches.
    // spec: CO-90
    #[test]
    fn with_the_bundle_that_retires_a_worker_its_version_binds_no_more_also_after_a_restart() {
        let mut world = OrderWorld::new(NOW);
        let root = world.ca.root();
        let honest = world.roster.roster().clone();
        world.change_roster(|roster| roster.version = 1 << 53);
        let (far, taken) = (text(world.roster.signed()), world.roster.taken());
        let third = text(world.bundle.signed());
        let held = next(None, None, &root, Some(&third), Some(&far)).0.unwrap();
        let fresh = lucia_proto::test_support::key(98);
        let mut bundle = world.ca.bundle(4, NOW);
        bundle.workers = vec![fresh.public().to_pem()];
        let fourth = text(&SignedBundle::sign(&bundle, &world.ca.root_key).unwrap());
        let anew = text(&SignedRoster::sign(&honest, &fresh).unwrap());
        let before = text(&SignedRoster::sign(&honest, &world.ca.worker_key).unwrap());
        for held in [Some(&held), None] {
            assert_eq!(next(held, Some(&taken), &root, Some(&third), Some(&before)).1.len(), 1, "its key counts still");
            let (trust, refused) = next(held, Some(&taken), &root, Some(&fourth), Some(&anew));
            let trust = trust.unwrap();
            assert!(refused.is_empty() && trust.roster.as_ref().unwrap().version() == 5, "{refused:?}");
            // Whoever puts both files of before back gains nothing by a restart.
            let taken = trust.roster.as_ref().unwrap().taken();
            for (bundle, roster) in [(&third, &far), (&third, &before), (&fourth, &far)] {
                let (trust, refused) = next(None, Some(&taken), &root, Some(bundle), Some(roster));
                assert!(trust.unwrap().roster.is_none() && refused.len() == 1);
            }
        }
    }
}
