//! From the raw bytes of method and path to a row of the table, or to nothing.
//!
//! There is one spelling of each path. Nothing is decoded, cleaned or folded: what is not the one spelling is not
//! there, and looks exactly like what was never there (threats.md H-8, B-35).

use lucia_proto::api::{Caller, Endpoint};
use lucia_proto::code::Code;
use lucia_proto::ids::NodeId;

use super::error::ApiError;

/// Through which door a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// TLS: devices and nodes.
    Network,
    /// The Unix socket: the operator.
    Operator,
}

/// The row that answers a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The row.
    pub(super) endpoint: Endpoint,
    /// The id in the path, where the row has one.
    pub(super) id: Option<NodeId>,
}

impl Target {
    /// The id in the path.
    ///
    /// # Errors
    /// `not_found` on rows without one, which [`find`] never gives to a call that asks.
    pub(super) fn id(&self) -> Result<&NodeId, ApiError> {
        self.id.as_ref().ok_or_else(|| ApiError::new(Code::NotFound, "there is nothing at this path"))
    }
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
    const fn has(self, endpoint: Endpoint) -> bool {
        match endpoint.caller() {
            Caller::Anyone | Caller::WindowOpen | Caller::Device | Caller::Node => matches!(self, Self::Network),
            Caller::Operator => matches!(self, Self::Operator),
        }
    }
}

/// Finds the row. `path` is the request's path as it came, without the query.
pub(super) fn find(side: Side, method: &str, path: &str) -> Result<Target, NoRoute> {
    let mut methods = Vec::new();
    for endpoint in Endpoint::ALL.iter().copied().filter(|endpoint| side.has(*endpoint)) {
        let Some(target) = matches(endpoint, path) else { continue };
        if endpoint.method() == method {
            return Ok(target);
        }
        methods.push(endpoint.method());
    }
    Err(if methods.is_empty() { NoRoute::Path } else { NoRoute::Method(methods) })
}

fn matches(endpoint: Endpoint, path: &str) -> Option<Target> {
    let Some((before, after)) = endpoint.path().split_once("{id}") else {
        return (endpoint.path() == path).then_some(Target { endpoint, id: None });
    };
    let id = path.strip_prefix(before)?.strip_suffix(after)?;
    Some(Target { endpoint, id: Some(id.parse().ok()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    // spec: HT-1
    #[test]
    fn every_row_is_found_on_its_own_side_and_not_on_the_other() {
        let id: NodeId = ID.parse().unwrap();
        for endpoint in Endpoint::ALL.iter().copied() {
            let (side, other) = match endpoint.caller() {
                Caller::Operator => (Side::Operator, Side::Network),
                _ => (Side::Network, Side::Operator),
            };
            let path = endpoint.path_for(&id);
            let want = Target { endpoint, id: endpoint.path().contains("{id}").then(|| id.clone()) };
            assert_eq!(find(side, endpoint.method(), &path), Ok(want));
            assert_eq!(find(other, endpoint.method(), &path), Err(NoRoute::Path), "{endpoint:?}");
            assert!(matches!(find(side, "PATCH", &path), Err(NoRoute::Method(_))), "{endpoint:?}");
        }
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
            "/".to_owned(),
            String::new(),
            "*".to_owned(),
        ] {
            assert_eq!(find(Side::Network, "GET", &path), Err(NoRoute::Path), "{path:?}");
        }
        assert!(find(Side::Network, "GET", &format!("/api/nodes/{ID}/challenge")).is_ok());
        assert!(matches!(find(Side::Network, "get", &format!("/api/nodes/{ID}/challenge")), Err(NoRoute::Method(_))));
    }
}
