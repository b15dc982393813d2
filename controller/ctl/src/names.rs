//! What people call the nodes that events and audit have by their ids.

use std::collections::BTreeMap;

use lucia_people::host_api::{EVENTS_PER_ANSWER_MAX, EventsView};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::EVENTS_MAX;
use lucia_proto::base::names::Hostname;
use lucia_proto::pki::key::VerificationCode;

use crate::call::CallError;
use crate::client::Client;

/// Every removal that the controller's events still tell of, the oldest first, with the name of who was removed.
pub(crate) async fn removals(client: &Client) -> Result<Vec<(NodeId, Option<Hostname>)>, CallError> {
    let mut removals = Vec::new();
    let mut after = 0;
    // One more than there can be answers: somebody may write while this reads.
    for _ in 0..=EVENTS_MAX.div_ceil(EVENTS_PER_ANSWER_MAX) {
        let view: EventsView = client.events(after, false).await?;
        let newest = view.events.last().map(|event| event.sequence);
        let removed = view.events.into_iter().filter(|event| event.kind.as_str() == "DeviceRemoved");
        removals.extend(removed.filter_map(|event| Some((event.device_id?, event.hostname))));
        match newest {
            Some(newest) if newest > after && newest < view.last_sequence => after = newest,
            Some(_) | None => break,
        }
    }
    Ok(removals)
}

/// The hostnames there are, as the controller has them now, and those of nodes that were removed.
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
        if self.asked && !follow {
            return;
        }
        let Some(first) = ids.find(|id| !self.known.contains_key(*id)) else { return };
        // Who is removed while somebody looks on was known before.
        let removals_too = !self.asked;
        self.asked = true;
        if let Ok(view) = client.nodes().await {
            self.known.extend(view.nodes.into_iter().map(|node| (node.node_id, node.hostname.to_string())));
        }
        if removals_too
            && !(self.known.contains_key(first) && ids.all(|id| self.known.contains_key(id)))
            && let Ok(removals) = removals(client).await
        {
            let named = removals.into_iter().filter_map(|(id, name)| Some((id, name?)));
            named.for_each(|(id, name)| _ = self.known.entry(id).or_insert_with(|| name.to_string()));
        }
    }

    /// The hostname, or the last one; of what never was a node the verification code.
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
