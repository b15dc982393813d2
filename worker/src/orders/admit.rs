//! `admit`: lets a node in, under a name that is free or becomes so.

use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::{Admit, OrderHead};

use super::carry::{Acted, Carry, Facts, Obstacle, named};
use crate::decide::{self, Refusal};
use crate::ledger::{NodeNames, OrderEffect};

impl Carry for Admit {
    fn act(&self, head: &OrderHead, facts: &Facts<'_>, now: UnixTime) -> Result<Acted, Obstacle> {
        let (node, Self { fingerprint, hostname, replaces }) = (named(head)?, self.clone());
        if let Some(known) = facts.records.node(node) {
            let name = known.names.hostname.clone();
            return match (known.barred_at, known.suspended) {
                (Some(_), _) => Err(Obstacle::Barred { name }),
                (None, Some(_)) => Err(Obstacle::Suspended { name }),
                (None, None) if name != hostname => Err(Obstacle::OtherName { name }),
                // The operator was first.
                (None, None) => Ok((known.names.clone(), OrderEffect::Note).into()),
            };
        }
        if facts.records.is_full() {
            return Err(Obstacle::Name(Refusal::Full));
        }
        decide::free(facts.config, facts.records, node, &hostname, replaces.as_ref(), now).map_err(Obstacle::Name)?;
        Ok((NodeNames { node_id: node.clone(), fingerprint, hostname }, OrderEffect::Admit { replaces }).into())
    }
}
