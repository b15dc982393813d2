//! The roster as an owner's machine believes it: signed by a worker that the pinned root's bundle names, and neither older
//! than the newest that was seen here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lucia_people::calls::PeopleCall;
use lucia_people::owner_api::RosterView;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::json;
use lucia_proto::base::limits::{JSON_DEPTH_MAX, ROSTER_PAYLOAD_MAX};
use lucia_proto::base::text::{chain, shown};
use lucia_proto::orders::owner::{OwnerId, OwnerName, Role};
use lucia_proto::orders::roster::{self, Roster, RosterError, TakenRoster, VerifiedRoster};
use lucia_proto::orders::{OrderKind, Rule};
use lucia_proto::pki::bundle::{BundleError, SignedBundle, VerifiedBundle};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::client::{Client, Me};
use crate::files::{self, FileError, Turn};
use crate::problem::{FAILED, Failure, problems};

/// The note of a version, a hash and who signed it: 230 bytes in truth.
const MARK_MAX: u64 = 512;
/// What it is called, beside the key, before the fleet. Without a fleet it is one of before there was one for each.
const NOTE: &str = "roster";
/// The same of the bundle.
const BUNDLE_NOTE: &str = "bundle";

problems! {
    /// Why the roster is not believed, or nobody signs by it.
    pub(crate) enum RosterProblem {
        None = "", FAILED, ["the fleet has no roster yet: the first owner is approved on the worker's host (luciactl login)"];
        NoBundle = "bundle_missing", FAILED, ["the controller sent its roster without the bundle, so it cannot be checked"],
            ["bring it to this version"];
        Bundle(why: BundleError) = "bundle_invalid", FAILED,
            ["the roster is not believed: {}; the controller lies, or this context has another fleet's root", chain(why)];
        OldBundle(why: BundleError, note: String) = old_bundle(why), FAILED,
            ["the roster is not believed: {why}. By a bundle of before, the key of a worker would count that was retired since."],
            ["Bring the controller the bundle in force (lucia-enrollment-worker status); if the fleet was set up anew from a \
              backup, remove {}", shown(note)];
        Roster(why: RosterError) = refused(why), FAILED,
            ["the roster is not believed: {}; somebody changed it, or withholds a newer one", shown(&chain(why))];
        Mark(error: FileError) = "", FAILED, ["the newest that was seen cannot be noted: {error}"], ["{}", error.cure()];
        BadMark(file: String) = "", FAILED, ["{file} is no note of a roster or bundle"],
            ["remove it if nobody but you can have changed it"];
        Strange(why: String) = "", FAILED, ["the roster is not understood ({why})"], ["is luciactl of the same version?"];
        NotIn = "not_in_roster", FAILED, ["nothing was done: the roster does not have this context's key."],
            ["Run luciactl login again and have it approved on the worker's host, or use another context (luciactl context list)"];
        Viewer(name: OwnerName) = "role_required", FAILED,
            ["nothing was done: {name} is a viewer by the roster, and orders are an owner's."],
            ["Ask an owner (luciactl owners), or whoever runs the worker to make you one"];
        Forbidden(kind: OrderKind) = "kind_forbidden", FAILED,
            ["nothing was done: by the fleet's policy nobody orders {}", kind.as_str()],
            ["on the worker's host: lucia-enrollment-worker roster policy set {}=allow", kind.as_str()];
    }
}

const fn old_bundle(why: &BundleError) -> &'static str {
    if matches!(why, BundleError::Conflict { .. }) { "bundle_conflict" } else { "bundle_older" }
}

const fn refused(why: &RosterError) -> &'static str {
    match why {
        RosterError::Signature => "roster_signature_invalid",
        RosterError::OtherFleet(_) => "other_fleet",
        RosterError::Older { .. } | RosterError::OlderBundle { .. } => "roster_older",
        RosterError::Conflict { .. } => "roster_conflict",
        _ => "roster_invalid",
    }
}

/// Asks for it, once in a run, and believes what [`newest`] does.
pub(crate) async fn ask(client: &Client, me: &Me) -> Result<VerifiedRoster, Failure> {
    if let Some(seen) = me.roster.get() {
        return Ok(seen.clone());
    }
    let view: RosterView = client.call(PeopleCall::Roster, &"").await?;
    let roster = newest(&view, me)?;
    Ok(me.roster.get_or_init(|| roster).clone())
}

/// What owners are called.
pub(crate) type OwnerNames = BTreeMap<OwnerId, OwnerName>;

/// What the owners of the roster are called, where one is asked about. Names that cannot be had, or are not believed, are no
/// reason to show nothing.
pub(crate) async fn names(client: &Client, of: impl Iterator<Item = &OwnerId>) -> OwnerNames {
    if of.count() == 0 {
        return OwnerNames::new();
    }
    let roster = match client.me() {
        Some(me) => ask(client, me).await.ok().map(|roster| roster.roster().clone()),
        None => {
            let view: Result<RosterView, _> = client.call(PeopleCall::Roster, &"").await;
            view.ok().and_then(|view| unchecked(&view).ok())
        }
    };
    let owners = roster.map(|roster| roster.owners).unwrap_or_default();
    owners.into_iter().map(|owner| (owner.id, owner.name)).collect()
}

/// The roster, if its policy and the place it gives this key let an order of each of `kinds` be signed. Asked before anything
/// is shown that is to be signed: who then says yes is not told afterwards that it was no use.
pub(crate) async fn signer(client: &Client, me: &Me, kinds: &[OrderKind]) -> Result<VerifiedRoster, Failure> {
    let roster = ask(client, me).await?;
    let (owner, _) = roster.caller(&me.key.public().fingerprint()).ok_or(RosterProblem::NotIn)?;
    match owner.role {
        Role::Owner => (),
        Role::Viewer => return Err(RosterProblem::Viewer(owner.name.clone()).into()),
    }
    for kind in kinds {
        may_order(&roster, *kind)?;
    }
    Ok(roster)
}

/// Whether the policy lets anybody order this.
pub(crate) fn may_order(roster: &VerifiedRoster, kind: OrderKind) -> Result<(), RosterProblem> {
    match roster.policy().rule(kind) {
        Rule::Allow | Rule::TwoOwners => Ok(()),
        Rule::Forbid => Err(RosterProblem::Forbidden(kind)),
    }
}

/// Finds out whom the roster has with this key, if that is not known. Whoever is not in it hears so by what they do next.
pub(crate) async fn settle(client: &Client) {
    if let Some(me) = client.me().filter(|me| me.is_waiting()) {
        let _ = ask(client, me).await;
    }
}

/// Checks it, and that neither it nor its bundle is older than one that was seen; then notes both.
pub(crate) fn newest(view: &RosterView, me: &Me) -> Result<VerifiedRoster, RosterProblem> {
    let signed = view.roster.as_ref().ok_or(RosterProblem::None)?;
    let bundle = view.bundle.as_ref().ok_or(RosterProblem::NoBundle)?;
    let bundle = newest_bundle(bundle, me)?;
    let roster = signed.verify(&bundle, &me.fleet()).map_err(RosterProblem::Roster)?;
    advance(&note(me, NOTE), Some(me.note(NOTE)), &roster.taken(), |held: Option<&TakenRoster>| {
        roster::accept(held, roster.clone(), &bundle).map(drop).map_err(RosterProblem::Roster)
    })?;
    if let Some((owner, _)) = roster.caller(&me.key.public().fingerprint()) {
        me.note_owner(&owner.id).map_err(RosterProblem::Mark)?;
    }
    Ok(roster)
}

/// Checks a bundle, and that it is not older than one that was seen; then notes it. The root signed it, so it counts
/// whatever comes with it.
pub(crate) fn newest_bundle(signed: &SignedBundle, me: &Me) -> Result<VerifiedBundle, RosterProblem> {
    let bundle = signed.verify(&me.root).map_err(RosterProblem::Bundle)?;
    let (file, offered) = (note(me, BUNDLE_NOTE), BundleMark::of(&bundle));
    advance(&file, None, &offered, |held| {
        let taken = held.map_or(Ok(()), |held| held.takes(&offered));
        taken.map_err(|why| RosterProblem::OldBundle(why, file.to_string_lossy().into_owned()))
    })?;
    Ok(bundle)
}

/// Which bundle the root signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct BundleMark {
    version: u64,
    /// Of its payload.
    sha256: Digest,
}

impl BundleMark {
    fn of(bundle: &VerifiedBundle) -> Self {
        Self { version: bundle.bundle().version, sha256: Digest::of(bundle.signed().parts().payload()) }
    }

    /// A higher version, or the very same bundle.
    fn takes(&self, offered: &Self) -> Result<(), BundleError> {
        if offered.version < self.version {
            Err(BundleError::Older { current: self.version, offered: offered.version })
        } else if offered.version == self.version && offered.sha256 != self.sha256 {
            Err(BundleError::Conflict { version: self.version })
        } else {
            Ok(())
        }
    }
}

/// Where a mark is: beside the key, one for each fleet, so that contexts of two fleets with one key do not meet.
pub(crate) fn note(me: &Me, what: &str) -> PathBuf {
    let fleet: String = me.fleet().to_string().chars().take(16).collect();
    me.note(&format!("{what}-{fleet}"))
}

/// Notes what is offered, if `accepts` takes it over what is noted. Of two runs at a time the second goes by what the first
/// noted, so a mark never goes back.
pub(crate) fn advance<M: Serialize + DeserializeOwned + PartialEq>(
    file: &Path,
    former: Option<PathBuf>,
    offered: &M,
    mut accepts: impl FnMut(Option<&M>) -> Result<(), RosterProblem>,
) -> Result<(), RosterProblem> {
    let held = |former: Option<PathBuf>| match (mark(file)?, former) {
        (None, Some(former)) => mark(&former),
        (held, _) => Ok(held),
    };
    let mut is_noted = |held: Option<M>| accepts(held.as_ref()).map(|()| held.as_ref() == Some(offered));
    // Most runs see nothing new, and wait for nobody.
    if is_noted(mark(file)?)? {
        return Ok(());
    }
    let turn = Turn::beside(file).map_err(RosterProblem::Mark)?;
    is_noted(held(former)?)?;
    let text = json::to_string(offered).map_err(|error| RosterProblem::Strange(error.to_string()))?;
    turn.replace(file, &text).map_err(RosterProblem::Mark)
}

fn mark<M: DeserializeOwned>(file: &Path) -> Result<Option<M>, RosterProblem> {
    let Some(text) = files::find(file, MARK_MAX).map_err(RosterProblem::Mark)? else { return Ok(None) };
    let most = usize::try_from(MARK_MAX).unwrap_or(usize::MAX);
    let bad = |_| RosterProblem::BadMark(files::name(file));
    json::from_str(&text, most, JSON_DEPTH_MAX).map(Some).map_err(bad)
}

/// Reads it where there is no root to check it by: on the controller's own host.
pub(crate) fn unchecked(view: &RosterView) -> Result<Roster, RosterProblem> {
    let signed = view.roster.as_ref().ok_or(RosterProblem::None)?;
    json::from_slice(signed.parts().payload(), ROSTER_PAYLOAD_MAX, JSON_DEPTH_MAX)
        .map_err(|error| RosterProblem::Strange(shown(&error.to_string())))
}
