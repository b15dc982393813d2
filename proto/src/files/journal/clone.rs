//! Who holds one identity, when two do (design.md I8).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::base::ids::{BootId, StartId};
use crate::base::time::UnixTime;

/// Somebody who proves the identity, as far as one can be told from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Holder {
    /// The agent's start; absent for one that does not say it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_id: Option<StartId>,
    /// The machine's boot, if it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<BootId>,
    /// Where it last called from.
    pub address: IpAddr,
    /// When this start was first heard of.
    pub first_seen_at: UnixTime,
    /// When it was last heard from; absent in the journal, which is not written for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<UnixTime>,
    /// It names no start before its own, where one was heard: it lost its memory, or is another machine without one.
    /// Absent in the journal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub memory_lost: bool,
}

/// An identity that was seen twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FrozenRow {
    /// Since when.
    pub at: UnixTime,
    /// The two that showed it: first who was there, then who came.
    pub holders: Vec<Holder>,
}

/// What a person decided about a frozen identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct KeptRow {
    /// When.
    pub at: UnixTime,
    /// Who stays.
    pub holder: Holder,
    /// Starts that do not, newest first: at most 8. Theirs and what comes after them is told that it is frozen.
    pub refused: Vec<StartId>,
}
