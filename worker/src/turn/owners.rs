//! The owners' part of a turn: what the fleet's trust is now is published, nodes are told how late it is, and orders for
//! the worker are carried out (design.md O2 to O4).

use std::collections::BTreeSet;

use lucia_durable::FileName;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::json;
use lucia_proto::base::limits::{ORDER_LIFETIME_MAX, SIGNED_PAYLOAD_MAX};
use lucia_proto::base::text::shown;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::{BUNDLE_FILE, FreshnessFile, OrderAnswerFile, OwnerFile, ROSTER_FILE};
use lucia_proto::orders::freshness::FreshnessRequest;
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::orders::{Body, OrderCode, OrderHead, OrderId, SignedOrder};
use tracing::{info, warn};

use super::error::TurnError;
use super::pass::Pass;
use super::places::OwnerFiles;
use super::summary::Summary;
use super::worker::Worker;
use crate::files::file;
use crate::home::{Home, Identity};
use crate::ledger::{By, Entry, OrderEffect, OrderedBy, Transaction};
use crate::orders::kept::{Open, OrderStore};
use crate::orders::{self, Acted, Facts, Judged};
use crate::owner_queue::{OwnerQueue, file_name};
use crate::{answers, chain, roster};

/// The roster in force, as ledger and file agree on it.
pub(super) fn current(
    home: &Home,
    identity: &Identity,
    transaction: &Transaction<'_>,
) -> Result<Option<VerifiedRoster>, TurnError> {
    roster::current(&home.dir, identity, transaction).map_err(TurnError::Roster)
}

/// What was told of an order before.
fn said(owners: &OwnerQueue, name: &FileName) -> Option<OrderAnswerFile> {
    owners.ours(name, OrderAnswerFile::MAX).and_then(|bytes| OrderAnswerFile::from_bytes(&bytes).ok())
}

impl Worker {
    /// The owners' queue, and what of it has its turn. Whatever is wrong with it holds up no certificate.
    pub(super) fn owners(&mut self, summary: &mut Summary) -> Option<(OwnerQueue, OwnerFiles)> {
        let opened = OwnerQueue::open(&self.config).and_then(|queue| {
            let scan = queue.as_ref().map(OwnerQueue::scan).transpose()?;
            Ok(queue.zip(scan))
        });
        let (queue, scan) = match opened {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.no_owners();
                return None;
            }
            Err(error) => {
                self.problem(summary, "owners' queue", &chain(&error));
                return None;
            }
        };
        self.troubles.settle("owners' queue");
        if queue.is_whole() {
            self.troubles.settle("owners");
        } else {
            self.no_owners();
        }
        for name in &scan.strange {
            if self.remarks.is_new(&format!("owners {name}"), "strange") {
                warn!(file = %name, "ignored in owner-requests: no program of ours writes such a file");
            }
        }
        if !scan.complete {
            self.problem(summary, "owner-requests", "owner-requests holds over 65536 files; find out what writes them");
        }
        let looked = self.places.next(&scan);
        Some((queue, looked))
    }

    /// Says once that the controller does not know of owners; it is nothing that is wrong.
    fn no_owners(&mut self) {
        if self.troubles.is_new("owners", "none") {
            info!(
                "the controller has no owner-requests directory: it is older than owners, who cannot order through it"
            );
        }
    }
}

impl Pass<'_> {
    /// Carries out orders. They rest on ledger and roster alone: a journal that is damaged or withheld stops no owner.
    pub(super) fn orders(
        &mut self,
        owners: &OwnerQueue,
        looked: &OwnerFiles,
        summary: &mut Summary,
    ) -> Result<(), TurnError> {
        let Some(in_force) = self.roster else {
            if !looked.intents.is_empty() && self.remarks.is_new("orders", "no roster") {
                warn!("orders are ignored: nobody is an owner yet; see `owner pending`");
            }
            return Ok(());
        };
        let before = OrderStore::read(&self.home.dir).map_err(TurnError::Orders)?;
        let mut kept = before.clone().unwrap_or_else(|| {
            warn!("intents.json is missing; every order that was signed before now is refused");
            OrderStore::begin(self.now)
        });
        for open in std::mem::take(&mut kept.open) {
            self.complete(owners, in_force, open, &mut kept, summary)?;
        }
        for id in &looked.intents {
            self.one(owners, in_force, *id, &mut kept, summary)?;
        }
        // Before any line of these orders: who is killed in between finds them in it.
        if before.as_ref() != Some(&kept) {
            kept.store(&self.home.dir).map_err(TurnError::Orders)?;
        }
        Ok(())
    }

    /// An order that was remembered in an earlier turn: the ledger has its line, or gets it now.
    fn complete(
        &mut self,
        owners: &OwnerQueue,
        in_force: &VerifiedRoster,
        open: Open,
        kept: &mut OrderStore,
        summary: &mut Summary,
    ) -> Result<(), TurnError> {
        let id = open.signed.id();
        if self.transaction.records().ordered_at(&id).is_some() {
            return Ok(());
        }
        let Ok(intent) = OrderHead::parse(&open.signed.intent_json) else { return Ok(()) };
        let Ok(body) = Body::parse(intent.kind, &open.signed.body) else { return Ok(()) };
        if let Err(refusal) = orders::still_ordered(&open.signed, &self.facts(in_force)) {
            // It is remembered and was not carried out: whoever brings it again is not to hear that it was.
            kept.memory.note_refused(id, &intent, refusal.code());
            let Some(node) = intent.nodes.first() else { return Ok(()) };
            return self.told(owners, id, node, Some((refusal.code(), &chain(&refusal))), summary);
        }
        match orders::act(&intent, &body, &self.facts(in_force), self.now) {
            Ok(acted) => {
                let by = OrderedBy { intent: id, signers: open.signers.clone() };
                kept.open.push(open);
                self.carry_out(owners, acted, by, summary)
            }
            Err(obstacle) => {
                kept.memory.note_refused(id, &intent, OrderCode::NotPossible);
                let Some(node) = intent.nodes.first() else { return Ok(()) };
                self.told(owners, id, node, Some((OrderCode::NotPossible, &chain(&obstacle))), summary)
            }
        }
    }

    /// One file of the queue.
    fn one(
        &mut self,
        owners: &OwnerQueue,
        in_force: &VerifiedRoster,
        id: OrderId,
        kept: &mut OrderStore,
        summary: &mut Summary,
    ) -> Result<(), TurnError> {
        let of = OwnerFile::OrderHead(id);
        let Some(signed) = self.read(owners, &of, SignedOrder::from_bytes) else { return Ok(()) };
        let intent = OrderHead::parse(&signed.intent_json).map_err(|error| chain(&error));
        let intent = intent.and_then(|intent| match signed.id() == id {
            true => Ok(intent),
            false => Err("it is another order than the one it is called after".to_owned()),
        });
        let (intent, node) = match intent.map(|intent| (intent.nodes.first().cloned(), intent)) {
            Ok((Some(node), intent)) => (intent, node),
            Ok((None, _)) => return Ok(()),
            Err(text) => {
                self.ignored(&of, &text);
                return Ok(());
            }
        };
        if self.transaction.records().ordered_at(&id).is_some() {
            return self.told(owners, id, &node, None, summary);
        }
        match orders::judge(&signed, &intent, &self.facts(in_force), &kept.memory, self.now) {
            Judged::Take { order, memory, acted } => {
                let signers = order.signers().to_vec();
                kept.memory = memory;
                kept.open.push(Open { signed, signers: signers.clone() });
                self.carry_out(owners, acted, OrderedBy { intent: id, signers }, summary)
            }
            Judged::Refuse { code, text, memory } => {
                kept.memory = memory.unwrap_or_else(|| kept.memory.clone());
                self.told(owners, id, &node, Some((code, &text)), summary)
            }
            // What stood in its way the first time is what people read, if that lies there still.
            Judged::Again(code, text) => match said(owners, &file_name(&of)) {
                Some(said) if said.outcome.refused == Some(code) => Ok(()),
                Some(_) | None => self.told(owners, id, &node, Some((code, &text)), summary),
            },
        }
    }

    fn facts<'a>(&'a self, roster: &'a VerifiedRoster) -> Facts<'a> {
        Facts {
            config: self.config,
            records: self.transaction.records(),
            roster,
            bundle_version: self.identity.bundle.bundle().version,
        }
    }

    /// Adds the order's line, and drafts what follows from it.
    fn carry_out(
        &mut self,
        owners: &OwnerQueue,
        Acted { mut node, renamed, effect: act }: Acted,
        by: OrderedBy,
        summary: &mut Summary,
    ) -> Result<(), TurnError> {
        let (id, node_id) = (by.intent, node.node_id.clone());
        info!(intent = %id, node = %node_id, hostname = %node.hostname, ?act, "an owner's order is carried out");
        // What is left of a node whose key is barred goes in this turn.
        match &act {
            OrderEffect::Bar => self.drafts.gone.push(node_id.clone()),
            OrderEffect::Admit { replaces: Some(former) } => self.drafts.gone.push(former.clone()),
            OrderEffect::Admit { replaces: None } | OrderEffect::Release { .. } | OrderEffect::Note => {}
        }
        if let Some(new) = renamed {
            // Cut off after this line, the order is judged again, and finds the name given.
            self.add(Entry::Renamed { node: node.clone(), new: new.clone(), by: By::Owner })?;
            node.hostname = new;
        }
        self.add(Entry::Ordered { node, by, act })?;
        summary.ordered += 1;
        self.told(owners, id, &node_id, None, summary)
    }

    /// Drafts what became of an order, unless that was told.
    fn told(
        &mut self,
        owners: &OwnerQueue,
        id: OrderId,
        node: &NodeId,
        refused: Option<(OrderCode, &str)>,
        summary: &mut Summary,
    ) -> Result<(), TurnError> {
        let name = file_name(&OwnerFile::OrderHead(id));
        if self.drafts.owner_answers.iter().any(|(drafted, _)| *drafted == name) {
            return Ok(());
        }
        let before = said(owners, &name);
        let at = self.transaction.records().ordered_at(&id).unwrap_or(self.now);
        let (code, text) = refused.map_or((None, ""), |(code, text)| (Some(code), text));
        let file = answers::intent_file(id, node.clone(), at, code, text);
        // The same order come again says nothing about what became of it the first time; and when a refusal was told is
        // no news.
        let stands = before.is_some_and(|said| {
            code.is_some_and(OrderCode::is_repeat) || (said.outcome.refused == code && said.message == file.message)
        });
        if stands {
            return Ok(());
        }
        if let Some(code) = code {
            summary.orders_refused += 1;
            if self.remarks.is_new(name.as_str(), code.as_str()) {
                warn!(intent = %id, node = %node, code = code.as_str(), "an order is refused: {}", shown(text));
            }
        }
        self.draft_owner(owners, name, file.to_bytes().map_err(TurnError::Json)?);
        Ok(())
    }

    /// Answers nodes that ask how late it is, and publishes bundle and roster.
    pub(super) fn told_nodes(&mut self, owners: &OwnerQueue, looked: &OwnerFiles) -> Result<(), TurnError> {
        let bundle = json::to_string(self.identity.bundle.signed()).map_err(TurnError::Json)?.into_bytes();
        self.publish(owners, BUNDLE_FILE, bundle);
        if let Some(in_force) = self.roster {
            self.publish(owners, ROSTER_FILE, roster::bytes(in_force).map_err(TurnError::Roster)?);
        }
        for node in &looked.questions {
            self.question(owners, node)?;
        }
        match owners.orphans() {
            Ok(orphans) => self.drafts.owner_gone = orphans,
            Err(error) => self.owner_remark("owner-responses", &chain(&error)),
        }
        let drafted: BTreeSet<&FileName> = self.drafts.owner_answers.iter().map(|(name, _)| name).collect();
        self.drafts.owner_gone.retain(|name| !drafted.contains(name));
        Ok(())
    }

    fn publish(&mut self, owners: &OwnerQueue, name: &str, bytes: Vec<u8>) {
        let name = file(name);
        if owners.ours(&name, 2 * SIGNED_PAYLOAD_MAX).as_ref() != Some(&bytes) {
            self.draft_owner(owners, name, bytes);
        }
    }

    /// One question. Who was never let in gets no answer; who is suspended does, since it may go on. Who was barred does for
    /// as long as the order that barred it may live: it takes no order without knowing how late it is.
    fn question(&mut self, owners: &OwnerQueue, node: &NodeId) -> Result<(), TurnError> {
        let of = OwnerFile::Freshness(node.clone());
        let Some(asked) = self.read(owners, &of, FreshnessRequest::from_bytes) else { return Ok(()) };
        let hears = |barred_at: UnixTime| self.now.since(barred_at) <= ORDER_LIFETIME_MAX;
        let known = self.transaction.records().node(node).filter(|record| record.barred_at.is_none_or(hears));
        if asked.node_id != *node || known.is_none() {
            self.ignored(&of, "it is not a question of a node of the ledger that it is called after");
            return Ok(());
        }
        let name = file_name(&of);
        let said = owners.ours(&name, FreshnessFile::MAX).and_then(|bytes| FreshnessFile::from_bytes(&bytes).ok());
        if said.is_some_and(|said| said.nonce == asked.nonce) {
            return Ok(());
        }
        let version = self.roster.map_or(0, VerifiedRoster::version);
        let answer = answers::freshness_file(self.identity, version, &asked, self.now).map_err(TurnError::Freshness)?;
        self.draft_owner(owners, name, answer.to_bytes().map_err(TurnError::Json)?);
        Ok(())
    }

    /// A file of the queue, if it is one.
    pub(super) fn read<T>(
        &mut self,
        owners: &OwnerQueue,
        of: &OwnerFile,
        parse: impl FnOnce(&[u8]) -> Result<T, json::JsonError>,
    ) -> Option<T> {
        let bytes = owners.request(of).map_err(|error| chain(&error)).transpose()?;
        match bytes.and_then(|bytes| parse(&bytes).map_err(|error| chain(&error))) {
            Ok(read) => Some(read),
            Err(text) => {
                self.ignored(of, &text);
                None
            }
        }
    }

    fn ignored(&mut self, of: &OwnerFile, text: &str) {
        self.owner_remark(&of.name(), &format!("ignored: {text}"));
    }

    pub(super) fn owner_remark(&mut self, about: &str, text: &str) {
        if self.remarks.is_new(about, text) {
            warn!(file = about, "{text}");
        }
    }

    pub(super) fn draft_owner(&mut self, owners: &OwnerQueue, name: FileName, bytes: Vec<u8>) {
        if owners.is_blocked(&name) {
            self.owner_remark(name.as_str(), "a directory lies in the place of this answer; remove it");
            return;
        }
        self.drafts.owner_answers.push((name, bytes));
    }
}
