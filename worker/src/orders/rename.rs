//! `rename`: the ledger has the node under its new name, which is free and not reserved.

use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::{OrderHead, RenameNode};

use super::carry::{Acted, Carry, Facts, Obstacle, known};
use crate::decide;
use crate::ledger::OrderEffect;

impl Carry for RenameNode {
    fn act(&self, head: &OrderHead, facts: &Facts<'_>, now: UnixTime) -> Result<Acted, Obstacle> {
        let known = known(head, facts)?;
        let (node, name) = (known.names.clone(), known.names.hostname.clone());
        match (known.barred_at, known.suspended) {
            (Some(_), _) => return Err(Obstacle::Barred { name }),
            (None, Some(_)) => return Err(Obstacle::Suspended { name }),
            (None, None) => {}
        }
        if name == self.new_hostname {
            return Ok((node, OrderEffect::Note).into());
        }
        if name != self.hostname {
            return Err(Obstacle::OtherName { name });
        }
        decide::free(facts.config, facts.records, &node.node_id, &self.new_hostname, None, now)
            .map_err(Obstacle::Name)?;
        Ok(Acted { node, renamed: Some(self.new_hostname.clone()), effect: OrderEffect::Note })
    }
}

#[cfg(test)]
mod tests {
    use lucia_proto::base::digest::Digest;
    use lucia_proto::orders::OrderKind;
    use lucia_proto::test_support::{OrderWorld, TestNode};

    use super::*;
    use crate::config::{NameOrId, Settings};
    use crate::ledger::{By, Entry, NodeNames, Records};

    const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

    fn names(node: &TestNode) -> NodeNames {
        NodeNames { node_id: node.node_id.clone(), fingerprint: node.fingerprint, hostname: node.hostname.clone() }
    }

    /// What the order does in a ledger with these lines after the admission of its node and of another one.
    fn outcome(new: &str, lines: &[Entry]) -> String {
        let world = OrderWorld::new(NOW);
        let mut records = Records::default();
        let admitted = |node: &TestNode| Entry::Admitted { node: names(node), by: By::Owner };
        let begun = [Entry::Initialised { root: Digest::ZERO }, admitted(&world.node), admitted(&world.other)];
        begun.iter().chain(lines).for_each(|line| records.apply_in_test(NOW, line));
        let own = Settings { controller_user: NameOrId::Id(0), group: NameOrId::Id(0), ..Settings::default() };
        let config = Settings { denied_names: vec!["db-*".to_owned()], ..own }.resolve().unwrap();
        let (roster, bundle_version) = (&world.roster, 3);
        let facts = Facts { config: &config, records: &records, roster, bundle_version };
        let body = RenameNode { hostname: world.node.hostname.clone(), new_hostname: new.parse().unwrap() };
        let acted = body.act(&world.intent(OrderKind::Rename), &facts, NOW);
        acted.map_or_else(|error| format!("{error:?}"), |acted| format!("{:?} {:?}", acted.renamed, acted.effect))
    }

    // spec: OA-440
    #[test]
    fn the_ledger_has_the_last_word_about_a_name() {
        let node = || names(&OrderWorld::new(NOW).node);
        let other = OrderWorld::new(NOW).other.hostname.to_string();
        let renamed = |new: &str| Entry::Renamed { node: node(), new: new.parse().unwrap(), by: By::Operator };
        for (new, lines, want) in [
            ("web", vec![], "Some(Hostname(\"web\")) Note"),
            // The operator was first, or a crash came between its line and the order's.
            ("web", vec![renamed("web")], "None Note"),
            ("web", vec![renamed("mail")], "OtherName"),
            (&*other, vec![], "Name(NameTaken"),
            ("db-1", vec![], "Name(Reserved"),
            ("controller", vec![], "Name(Reserved"),
            ("web", vec![Entry::Barred { node: node(), by: By::Operator }], "Barred"),
            ("web", vec![Entry::Suspended { node: node(), held: true }], "Suspended"),
        ] {
            let found = outcome(new, &lines);
            assert!(found.starts_with(want), "{new}: {found}, not {want}");
        }
    }
}
