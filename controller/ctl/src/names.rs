//! What people call the nodes that events and audit have by their ids.

use std::collections::BTreeMap;

use lucia_proto::ids::NodeId;
use lucia_proto::key::VerificationCode;

use crate::client::Client;

/// The hostnames there are, as the controller has them now.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: BTreeMap<NodeId, String>,
    asked: bool,
}

impl Names {
    /// Asks for them when one of `ids` is not known: once, and again where somebody goes on looking. Names that cannot be had
    /// are no reason to show nothing.
    pub(crate) async fn learn<'a>(&mut self, client: &Client, ids: impl Iterator<Item = &'a NodeId>, follow: bool) {
        let mut ids = ids;
        if (self.asked && !follow) || ids.all(|id| self.known.contains_key(id)) {
            return;
        }
        self.asked = true;
        if let Ok(view) = client.nodes().await {
            self.known.extend(view.nodes.into_iter().map(|node| (node.node_id, node.hostname.to_string())));
        }
    }

    /// The hostname; of what is no node, or none any more, the verification code.
    pub(crate) fn of(&self, id: &NodeId) -> String {
        self.known.get(id).cloned().unwrap_or_else(|| {
            let code = id.as_str().get(..12).and_then(|text| text.parse::<VerificationCode>().ok());
            code.map_or_else(|| id.to_string(), |code| code.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_name_has_its_code() {
        let id: NodeId = "1a2b3c4d5e6f00000000000000000000".parse().unwrap();
        let mut names = Names::default();
        assert_eq!(names.of(&id), "1a2b-3c4d-5e6f");
        names.known.insert(id.clone(), "web-1".to_owned());
        assert_eq!(names.of(&id), "web-1");
    }
}
