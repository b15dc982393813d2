//! The roster as an owner's machine believes it: signed by a worker that the pinned root's bundle names, and none older
//! than the newest that was seen here.

use lucia_proto::bundle::BundleError;
use lucia_proto::chain::Root;
use lucia_proto::json;
use lucia_proto::limits::{JSON_DEPTH_MAX, ROSTER_PAYLOAD_MAX};
use lucia_proto::owner_api::{OwnerEndpoint, RosterView};
use lucia_proto::roster::{self, Roster, RosterError, RosterMark, VerifiedRoster};
use lucia_proto::text::{chain, shown};
use thiserror::Error;

use crate::client::{Client, Me};
use crate::failure::Failure;
use crate::files::{self, FileError, Secret};

/// The note of a version and a hash.
const MARK_MAX: u64 = 256;
/// What it is called, beside the key.
const NOTE: &str = "roster";

/// Why the roster is not believed.
#[derive(Debug, Error)]
pub(crate) enum RosterProblem {
    /// There is none.
    #[error("the fleet has no roster yet: the first owner is approved on the worker's host (luciactl login)")]
    None,
    /// It cannot be checked.
    #[error("the controller sent its roster without the bundle, so it cannot be checked; bring it to this version")]
    NoBundle,
    /// The root did not sign the bundle.
    #[error("the roster is not believed: {}; the controller lies, or this context has another fleet's root", chain(.0))]
    Bundle(BundleError),
    /// No worker signed the roster.
    #[error("the roster is not believed: {}; somebody changed it, or withholds a newer one", shown(&chain(.0)))]
    Roster(RosterError),
    /// What was seen before.
    #[error("the newest roster that was seen cannot be noted: {0}")]
    Mark(FileError),
    /// The note is none.
    #[error("{0} is no note of a roster; remove it if nobody but you can have changed it")]
    BadMark(String),
    /// It is none.
    #[error("the roster is not understood ({0}); is luciactl of the same version?")]
    Strange(String),
}

/// Asks for it, and believes what [`newest`] does.
pub(crate) async fn ask(client: &Client, me: &Me) -> Result<VerifiedRoster, Failure> {
    let view: RosterView = client.look(OwnerEndpoint::Roster, None).await?;
    Ok(newest(&view, me)?)
}

/// Finds out whom the roster has with this key, if that is not known. Whoever is not in it hears so by what they do next.
pub(crate) async fn settle(client: &Client) {
    if let Some(me) = client.me().filter(|me| me.is_waiting()) {
        let _ = ask(client, me).await;
    }
}

/// Checks it, and that it is not older than one that was seen; then notes it.
pub(crate) fn newest(view: &RosterView, me: &Me) -> Result<VerifiedRoster, RosterProblem> {
    let held = mark(me)?;
    let roster = roster::accept(held.as_ref(), checked(view, &me.root)?).map_err(RosterProblem::Roster)?;
    if held != Some(roster.mark()) {
        let text = json::to_string(&roster.mark()).map_err(|error| RosterProblem::Strange(error.to_string()))?;
        files::replace(&me.note(NOTE), &text).map_err(RosterProblem::Mark)?;
    }
    if let Some((owner, _)) = roster.caller(&me.key.public().fingerprint()) {
        me.note_owner(&owner.id).map_err(RosterProblem::Mark)?;
    }
    Ok(roster)
}

fn mark(me: &Me) -> Result<Option<RosterMark>, RosterProblem> {
    let file = me.note(NOTE);
    let text = match files::read(&file, MARK_MAX, Secret::Yes) {
        Ok(text) => text,
        Err(error) if error.is_missing() => return Ok(None),
        Err(error) => return Err(RosterProblem::Mark(error)),
    };
    let most = usize::try_from(MARK_MAX).unwrap_or(usize::MAX);
    let bad = |_| RosterProblem::BadMark(shown(&file.to_string_lossy()));
    json::from_str(&text, most, JSON_DEPTH_MAX).map(Some).map_err(bad)
}

/// Checks it.
fn checked(view: &RosterView, root: &Root) -> Result<VerifiedRoster, RosterProblem> {
    let signed = view.roster.as_ref().ok_or(RosterProblem::None)?;
    let bundle = view.bundle.as_ref().ok_or(RosterProblem::NoBundle)?;
    let bundle = bundle.verify(root).map_err(RosterProblem::Bundle)?;
    signed.verify(&bundle, &root.sha256()).map_err(RosterProblem::Roster)
}

/// Reads it where there is no root to check it by: on the controller's own host.
pub(crate) fn unchecked(view: &RosterView) -> Result<Roster, RosterProblem> {
    let signed = view.roster.as_ref().ok_or(RosterProblem::None)?;
    json::from_slice(signed.parts().payload(), ROSTER_PAYLOAD_MAX, JSON_DEPTH_MAX)
        .map_err(|error| RosterProblem::Strange(shown(&error.to_string())))
}
