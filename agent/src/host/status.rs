//! What the agent waits for, in a file that `status` and `why` read.
//!
//! Two copies. The one under `/run` has everything as it is now. The one in the private directory outlives a
//! reboot and is written only when something but a counter changed, so that a heartbeat never waits for a disk.

use std::collections::BTreeSet;
use std::path::Path;

use lucia_durable::{DirRules, FileName, FileRules, Loaded, PrivateDir};
use lucia_proto::base::ids::{NodeId, StartId};
use lucia_proto::base::json;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::text::counted;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::heartbeat::DirectoryReport;
use lucia_proto::orders::owner::OwnerName;
use lucia_proto::orders::{OrderCode, OrderKind, Rule};
use lucia_proto::pki::key::VerificationCode;
use serde::{Deserialize, Serialize};

use super::root::Root;
use super::run::{End, Run};
use super::state::{State, StateFile};

/// Longest status file.
const MAX: usize = 16 * 1024;

/// What the agent is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// Nothing has been said yet.
    #[default]
    Starting,
    /// In the installer: discovered, waits for a person.
    AwaitingApproval,
    /// In the installer: the grant is there.
    Granted,
    /// May become a node as it runs.
    Joining,
    /// In the installer: the system is on the disk.
    Staged,
    /// Asks for its first certificate.
    AwaitingCertificate,
    /// Has a certificate that no heartbeat was accepted with yet.
    Certified,
    /// Has a certificate, and waits for the directory before its first heartbeat ever.
    AwaitingDirectory,
    /// Has a certificate and heartbeats.
    Heartbeating,
    /// Its certificate is over: renews, and nothing else.
    Lapsed,
    /// Has a new key that nobody has seen yet.
    Rekeyed,
    /// An owner decided that another machine goes on as this node, or none.
    Stopped,
    /// An owner removed the identity.
    Removed,
}

/// What a frozen identity is, and who decides.
pub const FROZEN: &str = "this identity is frozen: another machine speaks as this node, so it gets no new orders or keys \
     while what it has goes on; compare the start of `lucia-node-agent status` here with `luciactl node` on the \
     controller, then decide there: `luciactl clone keep` or `luciactl clone split`";

/// As [`FROZEN`], on a machine whose present start names none before it.
pub const FROZEN_WITHOUT_MEMORY: &str = "this identity is frozen: this machine remembers no earlier start (starts.json was lost, or it \
     is a copy without it), and it speaks from another boot than the one the controller heard last; it gets no new orders or \
     keys while what it has goes on. If no other machine has this identity, keep the start that `lucia-node-agent status` shows \
     here: `luciactl clone keep`; if one may have it: `luciactl clone split`";

/// What kind of thing holds a call up, where that decides what counts of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// This machine's clock: by it a certificate is not valid now.
    Clock,
    /// The controller refuses the identity, and says to nobody why.
    Identity,
    /// The worker refuses, and its host shows why.
    Worker,
}

/// The last refusal of one call, until that call succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Refusal {
    /// When, by the agent's own clock.
    pub at: UnixTime,
    /// Since when it is so, likewise; absent in what an older agent wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<UnixTime>,
    /// What was asked: `enroll`, `heartbeat`, ...
    pub call: String,
    /// Of which kind it is, where that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What was answered, in one line.
    pub what: String,
    /// What cures it, in one line.
    pub cure: String,
}

/// A machine that calls itself otherwise than the fleet does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OtherName {
    /// What `/etc/hostname` says, shortened.
    pub machine: String,
    /// The name of its certificate.
    pub fleet: Hostname,
    /// The name the controller has approved instead, if another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<Hostname>,
    /// What becomes of it.
    pub standing: OwnersStanding,
}

/// What becomes of the name that a machine gives itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnersStanding {
    /// Nothing: no node can have it.
    Invalid,
    /// The controller was told, and an operator decides.
    Reported,
    /// It is approved, and its certificate is waited for.
    Approved,
}

impl OtherName {
    /// What is so, and what cures it.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { machine, fleet, approved, standing } = self;
        let known = approved.as_ref().unwrap_or(fleet);
        let goes_on = format!("the node goes on as {fleet}");
        match standing {
            OwnersStanding::Invalid => format!(
                "/etc/hostname says {machine:?}, which no node can be called, and {goes_on}; write {known} there, or another \
                 name of a-z, 0-9 and -"
            ),
            OwnersStanding::Reported => format!(
                "this machine calls itself {machine}, the fleet knows it as {known}, and {goes_on}; if the new name is meant, on \
                 the controller's host: luciactl rename {known} {machine}; else write {known} into /etc/hostname"
            ),
            OwnersStanding::Approved => format!(
                "this machine was given the name {machine}, and {goes_on} until its certificate for {machine} is there. On the \
                 worker's host: lucia-enrollment-worker rename {fleet} {machine} (the worker does it by itself where its \
                 admission is \"journal\")"
            ),
        }
    }
}

/// Orders that are shown.
pub const ORDERS_SHOWN: usize = 16;

/// An order, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OrderSeen {
    /// What people type to sign it.
    pub code: VerificationCode,
    /// Of which kind; absent where that cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<OrderKind>,
    /// When, by the agent's own clock.
    pub at: UnixTime,
    /// Why it was refused; absent when it was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<OrderCode>,
}

/// Who may order, how late it is for orders, and the last of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OwnersStatus {
    /// The newest roster; 0 where there was none ever.
    pub roster_version: u64,
    /// Whether it is there, and a worker of the bundle signed it.
    pub believed: bool,
    /// Who may order.
    pub owners: Vec<OwnerName>,
    /// Always true: the agent before this version reads it.
    pub decide: bool,
    /// The worker's time when it last said how late it is; absent where it has not since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<UnixTime>,
    /// The worker's time from which on no order is taken, unless it answers again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_until: Option<UnixTime>,
    /// What is asked of each kind that a node carries out: the stricter of its own policy and the roster's.
    pub rules: Vec<(OrderKind, Rule)>,
    /// Why the policy of this machine cannot be read, so that everything is forbidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_refused: Option<String>,
    /// The last orders, oldest first.
    pub orders: Vec<OrderSeen>,
}

/// All that `status` shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Status {
    /// What the agent is doing.
    pub doing: Doing,
    /// This node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// What people compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_code: Option<VerificationCode>,
    /// The approved name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    /// What the machine calls itself, where the fleet has another name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_name: Option<OtherName>,
    /// Where the controller is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// Last second of the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_until: Option<UnixTime>,
    /// When the last heartbeat was accepted, by the controller's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat: Option<UnixTime>,
    /// This start, as the last accepted heartbeat told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_id: Option<StartId>,
    /// Whether the controller holds the identity frozen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
    /// Whether this start names none before it: the first one, or one whose memory was lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_start: bool,
    /// How the node stands to the fleet's directory; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<DirectoryReport>,
    /// Accounts whose SSH keys are on the disk as owners signed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_accounts: Option<u64>,
    /// Accounts that no order names and that keep their keys because orders were lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ssh_unsigned: u64,
    /// Accounts whose keys were removed because no owner's order gave them; never in the lasting copy, which the agent
    /// before this version reads.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ssh_removed: BTreeSet<String>,
    /// Who may order, and what was ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owners: Option<OwnersStatus>,
    /// Heartbeats accepted since the agent started.
    #[serde(default)]
    pub heartbeats: u64,
    /// The controller's clock less this machine's, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset_seconds: Option<i64>,
    /// What was refused, at most once a call, in the order of the calls' names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refusal>,
    /// The run of the daemon that wrote this; never in the lasting copy, which so tells of no boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// How the last run ended, until a later one has a heartbeat accepted; never in the lasting copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<End>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A clock difference that changed by less is noise.
const CLOCK_NOISE: u64 = 60;

/// What was answered, without the details that are others each time (an address, a time): the two outermost causes.
#[must_use]
pub fn gist(what: &str) -> &str {
    what.match_indices(": ").nth(1).and_then(|(at, _)| what.get(..at)).unwrap_or(what)
}

impl Status {
    /// What of it outlives a reboot.
    fn lasting(&self) -> Self {
        Self { run: None, ended: None, ssh_removed: BTreeSet::new(), ..self.clone() }
    }

    /// Whether `other` differs in more than what changes at each heartbeat or try.
    fn differs_for_long(&self, other: &Self) -> bool {
        let lasting = |status: &Self| {
            let mut status = status.lasting();
            status.last_heartbeat = None;
            status.heartbeats = 0;
            status.clock_offset_seconds = None;
            // Whoever sends orders that are refused writes nothing to the disk.
            if let Some(owners) = &mut status.owners {
                owners.orders.retain(|order| order.refused.is_none());
            }
            for refusal in &mut status.refusals {
                refusal.at = UnixTime::EPOCH;
                refusal.what.truncate(gist(&refusal.what).len());
            }
            status
        };
        let clock = match (self.clock_offset_seconds, other.clock_offset_seconds) {
            (Some(one), Some(two)) => one.abs_diff(two) > CLOCK_NOISE,
            (one, two) => one.is_some() != two.is_some(),
        };
        clock || lasting(self) != lasting(other)
    }

    /// What a frozen identity is on this machine.
    #[must_use]
    pub const fn frozen_words(&self) -> &'static str {
        if self.first_start { FROZEN_WITHOUT_MEMORY } else { FROZEN }
    }

    /// One line about what the agent waits for.
    #[must_use]
    pub fn line(&self) -> String {
        let line = match self.doing {
            Doing::Starting => "starting",
            Doing::AwaitingApproval => "waiting for an operator to approve this machine",
            Doing::Granted => "may install; the installer goes on",
            Doing::Joining => "approved; run `lucia-node-agent rekey --finish`",
            Doing::Staged => "installed; waiting for the reboot into the installed system",
            Doing::AwaitingCertificate => "waiting for certificate",
            Doing::Certified => "has its certificate; the first heartbeat is on its way",
            Doing::AwaitingDirectory => "certified; waiting for the directory before the first heartbeat",
            Doing::Heartbeating if self.frozen => {
                return format!("{} accepted; the identity is frozen", counted(self.heartbeats, "heartbeat"));
            }
            Doing::Heartbeating => return format!("{} accepted", counted(self.heartbeats, "heartbeat")),
            Doing::Stopped => {
                "stopped for good: an owner decided that another machine goes on as this node, or none; to make this one a node \
                 of its own: `lucia-node-agent rekey`, or install it anew"
            }
            Doing::Removed => "removed by an owner; `lucia-node-agent discover` begins anew",
            Doing::Lapsed => "certificate is over; waiting for a new one",
            Doing::Rekeyed => {
                "has a new key; run `lucia-node-agent discover`, have this machine approved, then `lucia-node-agent \
                 wait-install` and `lucia-node-agent rekey --finish`"
            }
        };
        line.to_owned()
    }
}

/// Writes the status where it belongs, and only what changed.
#[derive(Debug)]
pub struct StatusFile {
    runtime: Option<PrivateDir>,
    /// What the hot copy says.
    written: Status,
    /// What the lasting copy says.
    lasting: Status,
}

impl StatusFile {
    /// The status files of this machine. Without a directory under `/run` only the lasting copy is written.
    #[must_use]
    pub fn new(root: &Root) -> Self {
        if let Some(parent) = root.runtime().parent() {
            // Without it there is no hot copy, and the log says so.
            let _ = std::fs::create_dir_all(parent);
        }
        let runtime = PrivateDir::create(&root.runtime(), DirRules::private());
        let runtime = runtime.inspect_err(|error| tracing::warn!("{}", super::chain(error))).ok();
        Self { runtime, written: Status::default(), lasting: Status::default() }
    }

    /// Writes `status`. A failure is logged: the daemon goes on without telling.
    pub fn write(&mut self, state: &State, status: &Status) {
        if *status == self.written {
            return;
        }
        self.write_hot(status);
        if status.differs_for_long(&self.lasting) {
            if let Err(error) = state.replace_json(StateFile::Status, &status.lasting()) {
                tracing::warn!("{}", super::chain(&error));
            }
            self.lasting = status.clone();
        }
        self.written = status.clone();
    }
}

impl StatusFile {
    /// Notes in the hot copy alone how a run ended: its lease is gone by then.
    pub fn note_end(&self, status: Option<Status>, end: End) {
        self.write_hot(&Status { ended: Some(end), ..status.unwrap_or_default() });
    }

    fn write_hot(&self, status: &Status) {
        let Ok(text) = json::to_string(status) else { return };
        if let Some(dir) = &self.runtime
            && let Ok(name) = FileName::new(StateFile::Status.as_str())
            && let Err(error) = dir.replace(&name, text.as_bytes(), 0o600)
        {
            tracing::warn!("{}", super::chain(&error));
        }
    }
}

/// The status as it is now, or as it was before the last reboot; nothing when the agent never ran.
///
/// # Errors
/// One line when it is there but cannot be read.
pub fn read(root: &Root) -> Result<Option<Status>, String> {
    Ok(find(root)?.map(|(status, _)| status))
}

/// [`read`], and whether it is the copy of this boot's `/run`.
///
/// # Errors
/// As [`read`].
pub fn find(root: &Root) -> Result<Option<(Status, bool)>, String> {
    let hot = |path: &Path| -> Option<Vec<u8>> {
        let dir = PrivateDir::open(path, DirRules::private()).ok()?;
        let name = FileName::new(StateFile::Status.as_str()).ok()?;
        match dir.read(&name, MAX.try_into().unwrap_or(u64::MAX), FileRules::private()) {
            Ok(Loaded::Found(bytes)) => Some(bytes),
            _ => None,
        }
    };
    let (bytes, is_hot) = match hot(&root.runtime()) {
        Some(bytes) => (Some(bytes), true),
        None if !root.state().exists() => (None, false),
        None => {
            let lasting = State::open(root).and_then(|state| state.read(StateFile::Status));
            (lasting.map_err(|e| super::chain(&e))?, false)
        }
    };
    let Some(bytes) = bytes else { return Ok(None) };
    let status = json::from_slice(&bytes, MAX, lucia_proto::base::limits::JSON_DEPTH_MAX);
    let status = status.map(|status| Some((status, is_hot)));
    status.map_err(|error| format!("the agent's status file cannot be read: {error}; the agent rewrites it"))
}

/// The last start of this identity that was answered, as the lasting copy has it: a second memory beside `starts.json`.
#[must_use]
pub fn last_start(state: &State) -> Option<StartId> {
    state.read_json::<Status>(StateFile::Status).ok()??.start_id
}

/// Whether an owner removed the identity, and nothing began anew since. Words for people, no proof of anything.
#[must_use]
pub fn was_removed(state: &State) -> bool {
    let status = state.read_json::<Status>(StateFile::Status);
    status.is_ok_and(|status| status.is_some_and(|status| status.doing == Doing::Removed))
}

#[cfg(test)]
mod tests;
