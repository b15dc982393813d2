//! What owners call besides the operator's routes of [`lucia_proto::api`]: how they are met, what they draft and sign.
//!
//! One table, as [`lucia_proto::calls::Endpoint`] is, which the controller joins to its own when it serves owners over TLS.

mod drafts;

use serde::{Deserialize, Serialize};

use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::lists::SignedNames;
use lucia_proto::orders::roster::SignedRoster;
use lucia_proto::pki::bundle::SignedBundle;
use lucia_proto::pki::key::VerificationCode;

pub use drafts::{DraftForm, DraftLine, DraftState, DraftView, DraftsView, GoneNode};

/// Answer to the call `Apply`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// What to compare on the worker's host; who asked computes it anew.
    pub verification_code: VerificationCode,
    /// Until when it waits there.
    pub expires_at: UnixTime,
}

/// Answer to the call `Roster`. Whoever reads it checks the signature, as a node does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RosterView {
    /// Absent while the fleet has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roster: Option<SignedRoster>,
    /// The bundle whose workers sign it; absent while the controller has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<SignedBundle>,
}

/// Answer to the call `Names`. Whoever reads it checks the signature: the controller only carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamesView {
    /// Absent while the worker has published none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<SignedNames>,
    /// The bundle whose workers sign it; absent while the controller has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<SignedBundle>,
}
