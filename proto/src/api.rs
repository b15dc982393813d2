//! The one table of endpoints, and the bodies that are neither a proof nor a file.
//!
//! The controller builds its router from [`Endpoint::ALL`], the agent and `luciactl` take their paths
//! from it, and a test asks every row of every actor.

use serde::{Deserialize, Serialize};

use crate::base::ids::{NodeId, RequestId, TaskId};
use crate::base::limits::{BODY_MAX, DISCOVER_BODY_MAX, HOST_BODY_MAX};
use crate::base::names::{DiskId, Hostname};
use crate::base::time::UnixTime;
use crate::node::phase::DevicePhase;
use crate::pki::key::VerificationCode;

/// Who may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Anyone who reaches the port: the answer tells nothing.
    Anyone,
    /// Anyone, while the discovery window is open.
    WindowOpen,
    /// A device of the journal, by proof.
    Device,
    /// A managed node, by proof and certificate.
    Node,
    /// The operator: root or the controller's user, over the Unix socket.
    Operator,
}

/// A table of endpoints: an enum with a row each, and the columns as functions.
#[macro_export]
macro_rules! endpoints {
    (
        $(#[$about:meta])* $table:ident, called by $by:ty;
        $($(#[$meta:meta])* $name:ident: $method:literal $path:literal, $max:expr, $caller:expr;)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $table {
            $($(#[$meta])* $name,)*
        }

        impl $table {
            /// Every row.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The HTTP method.
            #[must_use]
            pub const fn method(self) -> &'static str {
                match self { $(Self::$name => $method,)* }
            }

            /// The path, with `{id}` or `{code}` where one stands.
            #[must_use]
            pub const fn path(self) -> &'static str {
                match self { $(Self::$name => $path,)* }
            }

            /// Longest body in bytes: 0 takes none.
            #[must_use]
            pub const fn body_max(self) -> usize {
                match self { $(Self::$name => $max,)* }
            }

            /// Who may call.
            #[must_use]
            pub const fn caller(self) -> $by {
                match self { $(Self::$name => $caller,)* }
            }
        }
    };
}

use Caller::{Anyone, Device, Node, Operator, WindowOpen};

endpoints! {
    /// Every call there is.
    Endpoint, called by Caller;

    /// A challenge for first contact.
    BootChallenge: "GET" "/api/boot/challenge", 0, WindowOpen;
    /// First contact.
    Discover: "POST" "/api/boot/discover", DISCOVER_BODY_MAX, WindowOpen;
    /// A challenge for one device.
    DeviceChallenge: "GET" "/api/boot/devices/{id}/challenge", 0, Anyone;
    /// What became of the device.
    DeviceState: "GET" "/api/boot/devices/{id}", 0, Device;
    /// What the device may install.
    Installation: "GET" "/api/boot/devices/{id}/installation", 0, Device;
    /// The one-time permission to install.
    Grant: "POST" "/api/boot/devices/{id}/grant", BODY_MAX, Device;
    /// How far the installer is.
    Progress: "POST" "/api/boot/devices/{id}/progress", BODY_MAX, Device;
    /// The first certificate.
    Enroll: "POST" "/api/boot/devices/{id}/enroll", BODY_MAX, Device;
    /// A challenge for one node.
    NodeChallenge: "GET" "/api/nodes/{id}/challenge", 0, Anyone;
    /// A node is alive.
    Heartbeat: "POST" "/api/nodes/{id}/heartbeat", BODY_MAX, Node;
    /// The next certificate; the only call a lapsed leaf may make.
    Renew: "POST" "/api/nodes/{id}/renew", BODY_MAX, Node;
    /// Window, devices and tasks.
    Onboarding: "GET" "/api/host/onboarding", 0, Operator;
    /// Opens the discovery window.
    OpenWindow: "POST" "/api/host/onboarding/window", HOST_BODY_MAX, Operator;
    /// Closes the discovery window.
    CloseWindow: "DELETE" "/api/host/onboarding/window", 0, Operator;
    /// Approves an installation.
    Approve: "POST" "/api/host/devices/{id}/approve-install", HOST_BODY_MAX, Operator;
    /// Rejects a discovered device.
    Reject: "POST" "/api/host/devices/{id}/reject", 0, Operator;
    /// Takes a rejected or failed device off the list.
    Dismiss: "POST" "/api/host/devices/{id}/dismiss", 0, Operator;
    /// Puts a rejected device back on the list.
    Restore: "POST" "/api/host/devices/{id}/restore", 0, Operator;
    /// The controller itself: version, start, certificate, what it counted.
    Status: "GET" "/api/host/status", 0, Operator;
    /// Nodes by name, a line each, after `?after=HOSTNAME`, at most 1000 an answer.
    Nodes: "GET" "/api/host/nodes", 0, Operator;
    /// One node with the last hour of samples.
    Node: "GET" "/api/host/nodes/{id}", 0, Operator;
    /// Removes a node or device for good.
    Remove: "DELETE" "/api/host/nodes/{id}", 0, Operator;
    /// Gives a node the name that its machine calls itself by.
    Rename: "POST" "/api/host/nodes/{id}/rename", HOST_BODY_MAX, Operator;
    /// Keeps one holder of a frozen identity.
    KeepClone: "POST" "/api/host/nodes/{id}/clone/keep", HOST_BODY_MAX, Operator;
    /// Keeps none: removes a frozen identity for good.
    SplitClone: "POST" "/api/host/nodes/{id}/clone/split", 0, Operator;
    /// Events, after `?after=N`, at most 500 an answer.
    Events: "GET" "/api/host/events", 0, Operator;
}

impl Endpoint {
    /// The path with `id` in its place.
    #[must_use]
    pub fn path_for(self, id: &NodeId) -> String {
        self.path().replace("{id}", id.as_str())
    }
}

/// Answer to a discovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Discovered {
    /// The device.
    pub device_id: NodeId,
    /// What people compare.
    pub verification_code: VerificationCode,
    /// Until when it may be approved.
    pub expires_at: UnixTime,
}

/// Answer to `device-state`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DeviceState {
    /// The device.
    pub device_id: NodeId,
    /// Where it stands.
    pub phase: DevicePhase,
    /// What people compare.
    pub verification_code: VerificationCode,
    /// Rises with every change of the inventory but addresses.
    pub inventory_revision: u32,
    /// Until when it may be approved.
    pub expires_at: UnixTime,
    /// The approved name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    /// The approved installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// What the controller wants people to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Answer to `installation`: what was approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Installation {
    /// The device.
    pub device_id: NodeId,
    /// The inventory that was approved.
    pub inventory_revision: u32,
    /// The approved installation.
    pub task_id: TaskId,
    /// Until when a grant may be asked for.
    pub authority_expires_at: UnixTime,
    /// Whether one may be asked for now.
    pub can_request_installation_grant: bool,
    /// The approved name.
    pub hostname: Hostname,
    /// The disk that will be erased; absent where a running machine joins, and none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_id: Option<DiskId>,
}

/// Answer to `grant`: the one-time permission to install.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Grant {
    /// The approved installation.
    pub task_id: TaskId,
    /// The device.
    pub device_id: NodeId,
    /// The request it answers.
    pub request_id: RequestId,
    /// The approved name.
    pub hostname: Hostname,
    /// The disk that may be erased; absent where a running machine joins, and none may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_id: Option<DiskId>,
    /// The inventory that was approved.
    pub inventory_revision: u32,
    /// Until when the installation may begin.
    pub expires_at: UnixTime,
    /// Until when it must have asked for its certificate.
    pub progress_expires_at: UnixTime,
}

/// Answer to `progress`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Accepted {
    /// Always true: a refusal is an error.
    pub accepted: bool,
}

/// Answer 202 to `enroll` and `renew`: the worker has not answered yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Pending {
    /// `Pending`.
    pub state: PendingState,
}

/// The one value of [`Pending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PendingState {
    /// Ask again.
    Pending,
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: HT-1
    #[test]
    fn no_two_rows_share_method_and_path_and_only_posts_take_bodies() {
        let mut seen = std::collections::BTreeSet::new();
        for row in Endpoint::ALL {
            assert!(seen.insert((row.method(), row.path())), "{row:?}");
            assert!(row.method() == "POST" || row.body_max() == 0, "{row:?}");
            assert!(row.path().starts_with("/api/"), "{row:?}");
        }
    }

    #[test]
    fn ids_take_their_place() {
        let id: NodeId = "0123456789abcdef0123456789abcdef".parse().unwrap();
        assert_eq!(Endpoint::Heartbeat.path_for(&id), format!("/api/nodes/{id}/heartbeat"));
    }
}
