//! Tables of calls, and the one of those that machines and nodes make.
//!
//! A row is complete: what it takes and answers, who may call, and how long a body may be. The controller routes by the rows,
//! the agent and `luciactl` take their paths from them, and tests ask every row of every actor. People's calls are a table of
//! their own in `lucia_people::calls`.

use crate::base::code::Code;
use crate::base::limits::{BODY_MAX, DISCOVER_BODY_MAX};
use crate::node::{answer, challenge, first_contact, heartbeat, report};

/// One call; `W` says who may make it.
#[derive(Clone, Copy, Debug)]
pub struct Row<W> {
    /// The HTTP method.
    pub method: &'static str,
    /// The path, with `{id}` or `{code}` where one stands.
    pub path: &'static str,
    /// What may follow the path.
    pub query: &'static [Query],
    /// Who may call.
    pub who: W,
    /// Longest body in bytes: 0 takes none.
    pub body_max: usize,
    /// Why it may be refused, beyond what any call may be refused for.
    pub refuses: &'static [Code],
    /// What it is for.
    pub words: &'static str,
}

/// One value of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// `after`: what has a higher number.
    AfterNumber,
    /// `after`: those of a later name.
    AfterName,
    /// `after`: those older than the one of this code.
    AfterCode,
    /// `limit`: as many at most, up to this, of which the second is what it is without one.
    Limit(usize, usize),
    /// `wait`: seconds to wait for the first one, up to this.
    Wait(u64),
}

/// What a call takes and answers.
pub trait Call {
    /// The body, `()` where there is none.
    type Request;
    /// The answer.
    type Answer;
    /// The longest body.
    const BODY_MAX: usize;
}

/// A table of calls: an enum with a row each, and in `on` a type each, which is a [`Call`].
#[macro_export]
macro_rules! calls {
    (
        $(#[$about:meta])* $table:ident by $by:ty;
        $($(#[doc = $doc:literal])* $name:ident: $method:literal $path:literal $(? $query:expr)?, $who:expr, $max:expr, $request:ty => $answer:ty $(, $refuses:expr)?;)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $table {
            $($(#[doc = $doc])* $name,)*
        }

        impl $table {
            /// Every row.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What there is to know of it.
            #[must_use]
            pub const fn row(self) -> $crate::calls::Row<$by> {
                match self {
                    $(Self::$name => {
                        let query: &[$crate::calls::Query] = &[];
                        $(let _ = query; let query: &[$crate::calls::Query] = &$query;)?
                        let refuses: &[$crate::base::code::Code] = &[];
                        $(let _ = refuses; let refuses: &[$crate::base::code::Code] = &$refuses;)?
                        let words = concat!($($doc),*);
                        $crate::calls::Row { method: $method, path: $path, query, who: $who, body_max: $max, refuses, words }
                    })*
                }
            }

            /// The HTTP method.
            #[must_use]
            pub const fn method(self) -> &'static str {
                self.row().method
            }

            /// The path, with `{id}` or `{code}` where one stands.
            #[must_use]
            pub const fn path(self) -> &'static str {
                self.row().path
            }

            /// The path with this id or code in its place.
            #[must_use]
            pub fn path_for(self, at: &impl ToString) -> String {
                self.path().replace("{id}", &at.to_string()).replace("{code}", &at.to_string())
            }

            /// Longest body in bytes: 0 takes none.
            #[must_use]
            pub const fn body_max(self) -> usize {
                self.row().body_max
            }

            /// Who may call.
            #[must_use]
            pub const fn caller(self) -> $by {
                self.row().who
            }

            /// The types of body and answer as the row names them, `()` where there is none.
            #[must_use]
            pub const fn types(self) -> (&'static str, &'static str) {
                match self { $(Self::$name => (stringify!($request), stringify!($answer)),)* }
            }
        }

        /// What each call takes and answers.
        pub mod on {
            use super::*;

            $(
                $(#[doc = $doc])*
                #[derive(Clone, Copy, Debug)]
                pub struct $name;

                impl $crate::calls::Call for $name {
                    type Request = $request;
                    type Answer = $answer;
                    const BODY_MAX: usize = $max;
                }
            )*
        }
    };
}

/// Who may make a call of machines.
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
}

use Caller::{Anyone, Device, Node, WindowOpen};

calls! {
    /// Every call of machines and nodes.
    Endpoint by Caller;

    /// A challenge for first contact.
    BootChallenge: "GET" "/api/boot/challenge", WindowOpen, 0, () => challenge::Challenge;
    /// First contact.
    Discover: "POST" "/api/boot/discover", WindowOpen, DISCOVER_BODY_MAX, report::DiscoverCall => first_contact::Discovered;
    /// A challenge for one device.
    DeviceChallenge: "GET" "/api/boot/devices/{id}/challenge", Anyone, 0, () => challenge::Challenge;
    /// What became of the device.
    DeviceState: "GET" "/api/boot/devices/{id}", Device, 0, () => first_contact::DeviceState;
    /// What the device may install.
    Installation: "GET" "/api/boot/devices/{id}/installation", Device, 0, () => first_contact::Installation;
    /// The one-time permission to install.
    Grant: "POST" "/api/boot/devices/{id}/grant", Device, BODY_MAX, report::DeviceCall => first_contact::Grant;
    /// How far the installer is.
    Progress: "POST" "/api/boot/devices/{id}/progress", Device, BODY_MAX, report::DeviceCall => first_contact::Accepted;
    /// The first certificate; 202 until the worker has answered.
    Enroll: "POST" "/api/boot/devices/{id}/enroll", Device, BODY_MAX, report::DeviceCall => answer::SignedAnswer;
    /// A challenge for one node.
    NodeChallenge: "GET" "/api/nodes/{id}/challenge", Anyone, 0, () => challenge::Challenge;
    /// A node is alive.
    Heartbeat: "POST" "/api/nodes/{id}/heartbeat", Node, BODY_MAX, report::NodeCall => heartbeat::HeartbeatReply;
    /// The next certificate, 202 until the worker has answered; the only call a lapsed leaf may make.
    Renew: "POST" "/api/nodes/{id}/renew", Node, BODY_MAX, report::NodeCall => answer::SignedAnswer;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::NodeId;

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
