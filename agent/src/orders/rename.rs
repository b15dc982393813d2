//! `rename`: this node takes the name once the controller tells it, if its machine calls itself so (`managed/names`).

use lucia_proto::orders::RenameNode;

use super::carry::{Act, Carry, Facts, NotDone};

impl Carry for RenameNode {
    fn plan(&self, facts: &Facts<'_>) -> Result<Option<Act>, NotDone> {
        // By then the certificate may be under either name.
        if ![&self.hostname, &self.new_hostname].contains(&facts.hostname) {
            return Err(NotDone::OtherNode(self.hostname.clone()));
        }
        if facts.machine != Some(&self.new_hostname) {
            return Err(NotDone::MachineName(self.new_hostname.clone()));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lucia_proto::base::names::Hostname;
    use lucia_proto::base::time::UnixTime;

    use super::*;

    // spec: OR-443
    #[test]
    fn the_machine_has_to_call_itself_so_whichever_name_its_certificate_has() {
        let name = |text: &str| text.parse::<Hostname>().unwrap();
        let order = RenameNode { hostname: name("old"), new_hostname: name("new") };
        for (hostname, machine, want) in [
            ("old", Some("new"), "Ok(None)"),
            ("new", Some("new"), "Ok(None)"),
            ("old", Some("old"), "Err(MachineName"),
            ("old", None, "Err(MachineName"),
            ("other", Some("new"), "Err(OtherNode"),
        ] {
            let (hostname, machine) = (name(hostname), machine.map(name));
            let (since_boot, now) = (Duration::ZERO, UnixTime::EPOCH);
            let machine = machine.as_ref();
            let facts = Facts { hostname: &hostname, machine, start_id: None, former_starts: &[], since_boot, now };
            let found = format!("{:?}", order.plan(&facts));
            assert!(found.starts_with(want), "{hostname} {machine:?}: {found}");
        }
    }
}
