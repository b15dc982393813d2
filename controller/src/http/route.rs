//! From the raw bytes of method and path to a row of the table, or to nothing.
//!
//! There is one spelling of each path. Nothing is decoded, cleaned or folded: what is not the one spelling is not
//! there, and looks exactly like what was never there (threats.md H-8, B-35).

use std::fmt;

use lucia_people::calls::{PeopleCall, Person, Who};
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::calls::{Caller, Endpoint};
use lucia_proto::node::challenge::Scope;
use lucia_proto::pki::key::VerificationCode;

use super::error::ApiError;
use super::pages::Page;

/// Through which door a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// TLS: devices, nodes and owners.
    Network,
    /// The Unix socket: the operator.
    Operator,
}

/// A row of one of the two tables, or a document of the page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    /// Of machines and nodes.
    Node(Endpoint),
    /// Of people.
    People(PeopleCall),
    /// A document or file of the page.
    Page(Page),
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(call) => call.fmt(f),
            Self::People(call) => call.fmt(f),
            Self::Page(page) => page.fmt(f),
        }
    }
}

impl Row {
    /// Every row of both tables, and every document.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let calls =
            Endpoint::ALL.iter().copied().map(Self::Node).chain(PeopleCall::ALL.iter().copied().map(Self::People));
        calls.chain(Page::all().map(Self::Page))
    }

    pub(super) const fn method(self) -> &'static str {
        match self {
            Self::Node(call) => call.method(),
            Self::People(call) => call.method(),
            Self::Page(_) => "GET",
        }
    }

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Node(call) => call.path(),
            Self::People(call) => call.path(),
            Self::Page(page) => page.path(),
        }
    }

    pub(super) const fn body_max(self) -> usize {
        match self {
            Self::Node(call) => call.body_max(),
            Self::People(call) => call.body_max(),
            Self::Page(_) => 0,
        }
    }

    /// Whether a query may follow the path.
    pub(super) const fn is_queried(self) -> bool {
        match self {
            Self::Node(call) => !call.row().query.is_empty(),
            Self::People(call) => !call.row().query.is_empty(),
            Self::Page(page) => matches!(page, Page::Audit | Page::Orders | Page::Passkeys),
        }
    }

    /// What it asks of somebody of the roster who calls it over the network; nothing for what others call there.
    pub(super) const fn person(self) -> Option<Person> {
        match self {
            Self::People(call) => call.person(),
            Self::Node(_) | Self::Page(_) => None,
        }
    }

    /// Whether a call is a signature over a challenge, so that its answer carries the next one (design.md I2).
    pub(super) const fn is_signed(self) -> bool {
        match self {
            Self::Node(call) => match call.caller() {
                Caller::Device | Caller::Node => true,
                Caller::WindowOpen => matches!(call, Endpoint::Discover),
                Caller::Anyone => false,
            },
            Self::People(_) | Self::Page(_) => self.person().is_some(),
        }
    }

    /// Whether an accepted call proves that its address is worth a place under a flood. A device proves nothing by being
    /// discovered: anybody may be, while the window is open; and nobody by asking to become an owner. A document shows what
    /// a session lets it; whoever has one calls rows that prove as much.
    pub(super) const fn proves(self) -> bool {
        match self {
            Self::Node(call) => match call.caller() {
                Caller::Node => true,
                Caller::Device => matches!(call, Endpoint::Enroll),
                Caller::Anyone | Caller::WindowOpen => false,
            },
            Self::People(_) | Self::Page(_) => self.person().is_some(),
        }
    }
}

/// The row that answers a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RouteTarget {
    /// The row.
    pub(super) row: Row,
    /// The id in the path, where the row has one.
    pub(super) id: Option<NodeId>,
    /// The draft's code in the path, where the row has one.
    pub(super) code: Option<VerificationCode>,
    /// The query, where the row takes one.
    pub(super) query: Option<String>,
}

impl RouteTarget {
    /// What the challenges of this call over the network are for.
    pub(super) fn scope(&self) -> Scope {
        match self.row {
            Row::People(_) | Row::Page(_) => Scope::Owner,
            Row::Node(_) => self.id.clone().map_or(Scope::Boot, Scope::Node),
        }
    }

    /// The id in the path.
    ///
    /// # Errors
    /// `not_found` on rows without one, which [`find`] never gives to a call that asks.
    pub(super) fn id(&self) -> Result<&NodeId, ApiError> {
        self.id.as_ref().ok_or_else(not_here)
    }

    /// The code in the path.
    ///
    /// # Errors
    /// As [`RouteTarget::id`].
    pub(super) fn code(&self) -> Result<&VerificationCode, ApiError> {
        self.code.as_ref().ok_or_else(not_here)
    }
}

fn not_here() -> ApiError {
    ApiError::new(Code::NotFound, "there is nothing at this path")
}

/// Why no row answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoRoute {
    /// The path is not there, on this side.
    Path,
    /// The path is there; these are its methods.
    Method(Vec<&'static str>),
}

impl Side {
    const fn has(self, row: Row) -> bool {
        let (network, operator) = match row {
            Row::Node(_) | Row::Page(_) => (true, false),
            Row::People(call) => match call.caller() {
                Who::Anyone => (true, false),
                Who::Everybody | Who::Person(_) => (true, true),
            },
        };
        match self {
            Self::Network => network,
            Self::Operator => operator,
        }
    }
}

/// What paths began with in the version before this one, and begin with now: the old ones answer for one release.
const FORMER: &[(&str, &str)] = &[("/api/host/intents", "/api/host/orders")];

/// Finds the row. `path` is the request's path as it came, without the query.
pub(super) fn find(side: Side, method: &str, path: &str) -> Result<RouteTarget, NoRoute> {
    let is_former =
        |(old, _): &&(&str, &str)| path.strip_prefix(old).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let now = FORMER.iter().find(is_former).map(|(old, new)| path.replacen(old, new, 1));
    let path = now.as_deref().unwrap_or(path);
    let mut methods = Vec::new();
    for row in Row::all().filter(|row| side.has(*row)) {
        let Some(target) = matches(row, path) else { continue };
        if row.method() == method {
            return Ok(target);
        }
        methods.push(row.method());
    }
    Err(if methods.is_empty() { NoRoute::Path } else { NoRoute::Method(methods) })
}

fn matches(row: Row, path: &str) -> Option<RouteTarget> {
    let mut target = RouteTarget { row, id: None, code: None, query: None };
    if let Some((before, after)) = row.path().split_once("{id}") {
        target.id = Some(path.strip_prefix(before)?.strip_suffix(after)?.parse().ok()?);
    } else if let Some((before, after)) = row.path().split_once("{code}") {
        let text = path.strip_prefix(before)?.strip_suffix(after)?;
        // A person may type a code in other letters; a path has one spelling.
        target.code = Some(text.parse::<VerificationCode>().ok().filter(|code| code.as_str() == text)?);
    } else if row.path() != path {
        return None;
    }
    Some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    // spec: HT-1
    #[test]
    fn every_row_is_found_on_its_own_sides_and_on_no_other() {
        let (id, code): (NodeId, VerificationCode) = (ID.parse().unwrap(), "1a2b-3c4d-5e6f".parse().unwrap());
        for row in Row::all() {
            let sides = match row {
                Row::People(call) => [true, call.caller() != Who::Anyone],
                Row::Node(_) | Row::Page(_) => [true, false],
            };
            let path = row.path().replace("{id}", ID).replace("{code}", code.as_str());
            let has = |part: &str| row.path().contains(part);
            let want = RouteTarget {
                row,
                id: has("{id}").then(|| id.clone()),
                code: has("{code}").then(|| code.clone()),
                query: None,
            };
            for (side, there) in [Side::Network, Side::Operator].into_iter().zip(sides) {
                let found = find(side, row.method(), &path);
                if there {
                    assert_eq!(found, Ok(want.clone()));
                    assert!(matches!(find(side, "PATCH", &path), Err(NoRoute::Method(_))), "{row:?}");
                } else {
                    let shared = Row::all().any(|other| other.path() == row.path() && side.has(other));
                    assert_eq!(found == Err(NoRoute::Path), !shared, "{row:?}");
                    assert!(found.is_err(), "{row:?}");
                }
            }
            // Over the network nothing of /api/host is anybody's but what people are met with.
            let met = matches!(row, Row::People(call) if call.caller() == Who::Anyone);
            assert_eq!(row.person().is_none(), met || !row.path().starts_with("/api/host/"), "{row:?}");
        }
        for path in ["/api/host/orders/1A2B-3C4D-5E6F", "/api/host/intents/1a2b3c4d5e6f", "/api/host/intents/"] {
            assert_eq!(find(Side::Network, "GET", path), Err(NoRoute::Path), "{path}");
        }
        // The paths of the version before this one lead to the same rows.
        for rest in ["", "/1a2b-3c4d-5e6f"] {
            let [old, new] =
                ["intents", "orders"].map(|of| find(Side::Network, "GET", &format!("/api/host/{of}{rest}")));
            assert!(new.is_ok() && old == new);
        }
        assert_eq!(find(Side::Network, "GET", "/api/host/intentsx"), Err(NoRoute::Path));
    }

    // spec: HT-10
    #[test]
    fn h_8_another_spelling_of_a_path_is_not_there() {
        for path in [
            "/api/nodes/0123456789ABCDEF0123456789abcdef/challenge".to_owned(),
            format!("/api/nodes/{ID}%00/challenge"),
            format!("/api/nodes/{ID}\0/challenge"),
            format!("/api/nodes/{ID}/challenge/"),
            format!("/api/nodes//{ID}/challenge"),
            format!("//api/nodes/{ID}/challenge"),
            format!("/api/nodes/%2e%2e/{ID}/challenge"),
            format!("/api/nodes/../nodes/{ID}/challenge"),
            format!("/api/nodes/{ID};a=b/challenge"),
            format!("/api/%6eodes/{ID}/challenge"),
            format!("/API/nodes/{ID}/challenge"),
            format!("/api/nodes/{ID}0/challenge"),
            "/api/nodes//challenge".to_owned(),
            "/api/nodes/challenge".to_owned(),
            "/api/nodes/{id}/challenge".to_owned(),
            "/x".to_owned(),
            String::new(),
            "*".to_owned(),
        ] {
            assert_eq!(find(Side::Network, "GET", &path), Err(NoRoute::Path), "{path:?}");
        }
        assert!(find(Side::Network, "GET", &format!("/api/nodes/{ID}/challenge")).is_ok());
        assert!(matches!(find(Side::Network, "get", &format!("/api/nodes/{ID}/challenge")), Err(NoRoute::Method(_))));
    }
}
