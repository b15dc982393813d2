//! What the lines of the ledger add up to.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::LIST_ENTRIES_MAX;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::Journal;
use lucia_proto::orders::OrderId;
use lucia_proto::orders::roster::RosterMark;
use lucia_proto::pki::key::Fingerprint;

use super::audited::Anchors;
use super::people::People;
use super::{By, Entry, Mark, NodeNames, OrderEffect, OrderedBy, Recent};

/// A node that was released from its lapse renews within this time, or it needs another act.
const RELEASE_LASTS: Duration = Duration::from_secs(24 * 3600);

/// What is known of a node that was ever let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Id, key and name.
    pub names: NodeNames,
    /// When it was let in.
    pub admitted_at: UnixTime,
    /// By whom.
    pub by: By,
    /// Since when it gets nothing more, and whether barring its key waits for `confirm-removals`.
    pub suspended: Option<(UnixTime, bool)>,
    /// When its key was barred.
    pub barred_at: Option<UnixTime>,
    /// When nothing was left of it but this record.
    pub removed_at: Option<UnixTime>,
    /// Who was to get its name.
    pub successor: Option<NodeId>,
    /// Serial number and last second of its newest leaf.
    pub leaf: Option<(String, UnixTime)>,
    /// Where it was when it got that leaf, as the journal said.
    pub address: Option<IpAddr>,
    /// Leaves signed so far.
    pub issued: u64,
    /// When it was released from its lapse, and the leaf that had lapsed.
    released: Option<(UnixTime, String)>,
    /// When a person last decided about it.
    acted_at: Option<UnixTime>,
}

/// How often what is limited happened of late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Nodes let in or renamed by the journal alone.
    pub admissions: Recent,
    /// Leaves signed.
    pub leaves: Recent,
    /// Keys barred by the journal alone.
    pub barrings: Recent,
    /// Certificates signed for the endpoint.
    pub endpoint: Recent,
    /// Marks of the journal.
    pub marks: Recent,
}

/// The ledger, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    lines: u64,
    last_at: Option<UnixTime>,
    root: Option<Digest>,
    nodes: BTreeMap<NodeId, NodeRecord>,
    names: BTreeMap<Hostname, NodeId>,
    /// Names that a rename left behind: whose, and the last second of the leaves they had under them.
    former: BTreeMap<Hostname, (NodeId, UnixTime)>,
    orphans: BTreeMap<NodeId, (String, UnixTime)>,
    endpoint: Option<(String, UnixTime)>,
    directory: Option<UnixTime>,
    mark: Option<Mark>,
    acceptances: u64,
    torn: Option<(u64, UnixTime)>,
    people: People,
    anchors: Anchors,
    /// Orders that were carried out, and when.
    orders: BTreeMap<OrderId, UnixTime>,
    rates: Rates,
}

impl NodeRecord {
    /// Whether it was released from the lapse of its newest leaf, a short while ago.
    #[must_use]
    pub fn is_released(&self, now: UnixTime) -> bool {
        self.released.as_ref().is_some_and(|(at, released)| {
            now.since(*at) <= RELEASE_LASTS && self.leaf.as_ref().is_some_and(|(serial, _)| serial == released)
        })
    }

    /// Whether a person decided about it at or after this time: what was refused before may be right now.
    #[must_use]
    pub fn acted_since(&self, at: UnixTime) -> bool {
        self.acted_at.is_some_and(|acted| acted >= at)
    }
}

impl Records {
    /// How many lines it has.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// When its last line was written.
    #[must_use]
    pub fn last_at(&self) -> Option<UnixTime> {
        self.last_at
    }

    /// SHA-256 of the root the fleet began with.
    #[must_use]
    pub fn root(&self) -> Option<Digest> {
        self.root
    }

    /// A node that was ever let in.
    #[must_use]
    pub fn node(&self, id: &NodeId) -> Option<&NodeRecord> {
        self.nodes.get(id)
    }

    /// All nodes ever let in, by id.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeRecord> {
        self.nodes.values()
    }

    /// Who has a name. A removed node keeps its name: it moves to another key only by an act at the worker.
    #[must_use]
    pub fn owner_of(&self, name: &Hostname) -> Option<&NodeRecord> {
        self.names.get(name).and_then(|id| self.nodes.get(id))
    }

    /// The node that a person means by this id or name. A renamed node has both names until nobody else may have the one
    /// before.
    #[must_use]
    pub fn called(&self, text: &str) -> Option<&NodeRecord> {
        let name = text.parse::<Hostname>().ok();
        let named = name.as_ref().and_then(|name| self.names.get(name).or_else(|| Some(&self.former.get(name)?.0)));
        let id = text.parse::<NodeId>().ok();
        named.or(id.as_ref()).and_then(|id| self.nodes.get(id))
    }

    /// The node that had this name until it was renamed and has a leaf under it to this second, if that is still to come.
    #[must_use]
    pub fn former_owner_of(&self, name: &Hostname, now: UnixTime) -> Option<(&NodeId, UnixTime)> {
        self.former.get(name).filter(|(_, until)| now <= *until).map(|(id, until)| (id, *until))
    }

    /// Serial number and last second of the endpoint's newest certificate.
    #[must_use]
    pub fn endpoint(&self) -> Option<&(String, UnixTime)> {
        self.endpoint.as_ref()
    }

    /// Last second of the newest certificate signed for a directory server.
    #[must_use]
    pub fn directory_not_after(&self) -> Option<UnixTime> {
        self.directory
    }

    /// Serial number and last second of a node's leaf that was signed and not handed out.
    #[must_use]
    pub fn orphan(&self, id: &NodeId) -> Option<&(String, UnixTime)> {
        self.orphans.get(id)
    }

    /// How many of those are live.
    #[must_use]
    pub fn orphans(&self, now: UnixTime) -> usize {
        self.orphans.values().filter(|(_, not_after)| *not_after >= now).count()
    }

    /// Whether a key was barred once, whatever id or name it comes with.
    #[must_use]
    pub fn is_barred(&self, fingerprint: &Fingerprint) -> bool {
        self.node(&fingerprint.node_id()).is_some_and(|node| node.barred_at.is_some())
    }

    /// Whether no further node is let in: the lists that this worker signs have no room for its key, and a key that has no
    /// room there could not be barred.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.nodes.len() >= LIST_ENTRIES_MAX
    }

    /// Nodes that this journal has and whose keys are barred.
    pub fn barred_of<'a>(&'a self, journal: &'a Journal) -> impl Iterator<Item = &'a NodeRecord> {
        let known = journal.devices.iter().filter_map(|device| self.node(&device.device_id));
        known.filter(|record| record.barred_at.is_some())
    }

    /// Where the journal stood when it was last seen or accepted.
    #[must_use]
    pub fn mark(&self) -> Option<&Mark> {
        self.mark.as_ref()
    }

    /// How far the controller's audit was seen.
    #[must_use]
    pub fn anchors(&self) -> &Anchors {
        &self.anchors
    }

    /// How often the journal was accepted.
    #[must_use]
    pub fn acceptances(&self) -> u64 {
        self.acceptances
    }

    /// How many torn last lines were dropped, and when the last of them.
    #[must_use]
    pub fn torn(&self) -> Option<(u64, UnixTime)> {
        self.torn
    }

    /// Which roster is in force; none before the first owner was approved.
    #[must_use]
    pub fn roster(&self) -> Option<&RosterMark> {
        self.people.roster()
    }

    /// Whether the roster has anybody who may order.
    #[must_use]
    pub fn has_owner(&self) -> bool {
        self.people.has_owner()
    }

    /// Whether this key was somebody's of the roster, and was removed from it.
    #[must_use]
    pub fn has_left(&self, key: &Fingerprint) -> bool {
        self.people.has_left(key)
    }

    /// When an owner's order was carried out here, if it was.
    #[must_use]
    pub fn ordered_at(&self, intent: &OrderId) -> Option<UnixTime> {
        self.orders.get(intent).copied()
    }

    /// How often what is limited happened of late.
    #[must_use]
    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// Adds one entry, unless it contradicts what is known.
    pub(super) fn apply(&mut self, at: UnixTime, entry: &Entry) -> Result<(), &'static str> {
        if (self.lines == 0) != matches!(entry, Entry::Initialised { .. }) {
            return Err("the first line, and no other, begins the fleet");
        }
        match entry {
            Entry::Initialised { root } => self.root = Some(*root),
            Entry::Admitted { node, by } => self.admit(at, node, *by)?,
            Entry::Issued { node, serial, not_after, address } => self.issue(at, node, serial, *not_after, *address)?,
            Entry::Orphaned { node, serial, not_after } => {
                if node.fingerprint.node_id() != node.node_id {
                    return Err("a node id that is not its key's");
                }
                self.orphans.insert(node.node_id.clone(), (serial.clone(), *not_after));
            }
            Entry::EndpointIssued { serial, not_after } => {
                self.endpoint = Some((serial.clone(), *not_after));
                self.rates.endpoint.push(at);
            }
            Entry::DirectoryIssued { not_after, .. } => self.directory = Some(*not_after),
            Entry::Suspended { node, held } => {
                let record = self.not_barred(node)?;
                if record.suspended.is_some() {
                    return Err("a node is suspended twice");
                }
                record.suspended = Some((at, *held));
            }
            Entry::Resumed { node } => {
                let record = self.not_barred(node)?;
                record.suspended.take().ok_or("a node goes on that was not suspended")?;
                record.acted_at = Some(at);
            }
            Entry::Barred { node, by } => {
                self.not_barred(node)?.barred_at = Some(at);
                if *by == By::Journal {
                    self.rates.barrings.push(at);
                }
            }
            Entry::Removed { node } => {
                let record = self.known(node)?;
                if record.removed_at.replace(at).is_some() {
                    return Err("a node is removed twice");
                }
                // Before there was a line of its own for it, this one said both.
                record.barred_at.get_or_insert(at);
            }
            Entry::Renamed { node, new, by } => self.rename(at, node, new, *by)?,
            Entry::Replaced { node, successor } => self.replace(at, node, successor)?,
            Entry::LapseReleased { node, serial } => self.release(at, node, serial)?,
            Entry::OwnerApproved { owner, role, key, roster, .. } => {
                self.people.enter(owner, *role, *key, roster)?;
            }
            Entry::OwnerRemoved { owner, roster, .. } => self.people.leave(owner, roster)?,
            Entry::OwnerKeyAdded { owner, key, roster, .. } => self.people.add_key(owner, *key, roster)?,
            Entry::OwnerKeyRemoved { owner, key, roster, .. } => self.people.drop_key(owner, *key, roster)?,
            Entry::RosterChanged { roster } => self.people.change(roster)?,
            Entry::Ordered { node, by, act } => self.order(at, node, by, act)?,
            Entry::JournalSeen(mark) => {
                if self.mark.is_some_and(|known| mark.generation < known.generation) {
                    return Err("a journal that went back");
                }
                self.mark = Some(*mark);
                self.rates.marks.push(at);
            }
            Entry::JournalAccepted(mark) => {
                self.mark = Some(*mark);
                self.acceptances += 1;
            }
            Entry::AuditAnchored(chain) => self.anchors.see(at, *chain)?,
            Entry::AuditAccepted(chain) => self.anchors.accept(at, *chain),
            Entry::TornLineDropped { .. } => self.torn = Some((self.torn.map_or(0, |(count, _)| count) + 1, at)),
        }
        self.lines += 1;
        self.last_at = Some(at);
        Ok(())
    }

    fn order(&mut self, at: UnixTime, node: &NodeNames, by: &OrderedBy, act: &OrderEffect) -> Result<(), &'static str> {
        if self.orders.contains_key(&by.intent) {
            return Err("an order is carried out twice");
        }
        match act {
            OrderEffect::Admit { replaces: None } => self.admit(at, node, By::Owner)?,
            OrderEffect::Admit { replaces: Some(id) } => {
                // All that could be wrong with the new node comes first: a line is applied whole or not at all.
                self.is_new(at, node)?;
                let before = self.nodes.get(id).map(|record| record.names.clone());
                let before = before.filter(|before| before.hostname == node.hostname);
                self.replace(at, &before.ok_or("a name is taken from a node that does not have it")?, &node.node_id)?;
                self.admit(at, node, By::Owner)?;
            }
            OrderEffect::Release { serial } => self.release(at, node, serial)?,
            OrderEffect::Bar => {
                let record = self.not_barred(node)?;
                (record.barred_at, record.acted_at) = (Some(at), Some(at));
            }
            OrderEffect::Note => drop(self.known(node)?),
        }
        self.orders.insert(by.intent, at);
        Ok(())
    }

    fn release(&mut self, at: UnixTime, node: &NodeNames, serial: &str) -> Result<(), &'static str> {
        let record = self.not_barred(node)?;
        if record.leaf.as_ref().is_none_or(|(newest, _)| newest != serial) {
            return Err("a lapse of another certificate than the newest");
        }
        (record.released, record.acted_at) = (Some((at, serial.to_owned())), Some(at));
        Ok(())
    }

    /// Whether a node can be let in but for who has its name.
    fn is_new(&self, at: UnixTime, names: &NodeNames) -> Result<(), &'static str> {
        if names.fingerprint.node_id() != names.node_id {
            return Err("a node id that is not its key's");
        }
        if self.nodes.contains_key(&names.node_id) {
            return Err("a node is let in twice");
        }
        if self.former_owner_of(&names.hostname, at).is_some() {
            return Err("a name that another node has a certificate under");
        }
        Ok(())
    }

    fn admit(&mut self, at: UnixTime, names: &NodeNames, by: By) -> Result<(), &'static str> {
        self.is_new(at, names)?;
        if self.owner_of(&names.hostname).is_some_and(|owner| owner.successor.as_ref() != Some(&names.node_id)) {
            return Err("a name is given twice");
        }
        self.former.remove(&names.hostname);
        self.names.insert(names.hostname.clone(), names.node_id.clone());
        let acted_at = match by {
            By::Operator | By::Owner => Some(at),
            By::Journal => {
                self.rates.admissions.push(at);
                None
            }
        };
        let record = NodeRecord {
            names: names.clone(),
            admitted_at: at,
            by,
            suspended: None,
            barred_at: None,
            removed_at: None,
            successor: None,
            leaf: None,
            address: None,
            issued: 0,
            released: None,
            acted_at,
        };
        self.nodes.insert(names.node_id.clone(), record);
        Ok(())
    }

    fn issue(
        &mut self,
        at: UnixTime,
        node: &NodeNames,
        serial: &str,
        not_after: UnixTime,
        address: Option<IpAddr>,
    ) -> Result<(), &'static str> {
        let record = self.not_barred(node)?;
        if record.suspended.is_some() {
            return Err("a certificate for a suspended node");
        }
        record.leaf = Some((serial.to_owned(), not_after));
        record.address = address;
        record.issued += 1;
        self.orphans.remove(&node.node_id);
        self.rates.leaves.push(at);
        Ok(())
    }

    fn rename(&mut self, at: UnixTime, node: &NodeNames, new: &Hostname, by: By) -> Result<(), &'static str> {
        if self.owner_of(new).is_some() {
            return Err("a name is given twice");
        }
        if self.former_owner_of(new, at).is_some_and(|(owner, _)| *owner != node.node_id) {
            return Err("a name that another node has a certificate under");
        }
        let record = self.not_barred(node)?;
        if record.suspended.is_some() {
            return Err("a suspended node gets another name");
        }
        let until = record.leaf.as_ref().map(|(_, not_after)| *not_after);
        record.names.hostname = new.clone();
        record.acted_at = if by == By::Operator { Some(at) } else { record.acted_at };
        self.names.remove(&node.hostname);
        self.names.insert(new.clone(), node.node_id.clone());
        self.former.retain(|_, (_, until)| at <= *until);
        if let Some(until) = until {
            // It may have had this name before, with a leaf that ends later.
            let held = self.former.entry(node.hostname.clone()).or_insert_with(|| (node.node_id.clone(), until));
            held.1 = held.1.max(until);
        }
        if by == By::Journal {
            self.rates.admissions.push(at);
        }
        Ok(())
    }

    fn replace(&mut self, at: UnixTime, node: &NodeNames, successor: &NodeId) -> Result<(), &'static str> {
        if *successor == node.node_id || self.nodes.contains_key(successor) {
            return Err("a name goes to a node that is known already");
        }
        if self.names.get(&node.hostname) != Some(&node.node_id) {
            return Err("a name is given away by a node that does not have it");
        }
        let record = self.known(node)?;
        record.barred_at.get_or_insert(at);
        record.successor = Some(successor.clone());
        Ok(())
    }

    fn not_barred(&mut self, names: &NodeNames) -> Result<&mut NodeRecord, &'static str> {
        let record = self.known(names)?;
        if record.barred_at.is_some() {
            return Err("a node whose key is barred");
        }
        Ok(record)
    }

    fn known(&mut self, names: &NodeNames) -> Result<&mut NodeRecord, &'static str> {
        match self.nodes.get_mut(&names.node_id) {
            Some(record) if record.names == *names => Ok(record),
            Some(_) => Err("a node changes its key or name"),
            None => Err("a node that was never let in"),
        }
    }
}

#[cfg(test)]
impl Records {
    /// Adds an entry that must fit: for tests of what rests on the ledger.
    pub(crate) fn apply_in_test(&mut self, at: UnixTime, entry: &Entry) {
        self.apply(at, entry).unwrap();
    }
}
