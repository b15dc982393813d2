//! What each document shows: asked of the controller at one moment, for whoever looks.

use std::collections::{BTreeMap, BTreeSet};

use lucia_people::audit::AuditVia;
use lucia_people::host_api::{EVENTS_PER_ANSWER_MAX, EventLine, NodeLine};
use lucia_people::owner_api::{DraftLine, DraftState};
use lucia_people::sign_in::SessionView;
use lucia_people::why::Why;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::DRAFTS_MAX;
use lucia_proto::base::names::AccountName;
use lucia_proto::orders::owner::{PageOrigin, Role};
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::orders::{Body, OrderKind, Terms};
use lucia_proto::pki::key::VerificationCode;

use super::pages::Page;
use super::route::RouteTarget;
use crate::page::{
    Audit, AuditPart, Device, Drafting, Frame, GivenKeys, Gone, Keys, Order, OrderFacts, OrderedKeys, Orders, Owners,
    PageError, Passkeys, Server, ServerFacts, Servers, SignIn, Who, Window, render,
};
use crate::parts::{By, InSession, Parts};
use crate::refusal::{Refusal, chain};

/// Events of one server that its document shows.
const EVENTS_OF_ONE: usize = 20;
/// Entries of the audit on one document.
const ENTRIES_SHOWN: u64 = 100;

/// A document that somebody asked for.
pub(super) struct DocumentCall {
    pub(super) page: Page,
    pub(super) target: RouteTarget,
    pub(super) session: Option<InSession>,
    pub(super) token: Option<String>,
    pub(super) origin: PageOrigin,
}

fn not_there() -> Refusal {
    Refusal::new(Code::NotFound, "There is nothing at this path.")
}

impl DocumentCall {
    pub(super) fn who(&self) -> Option<Who> {
        self.session.as_ref().map(|session| Who { name: session.name.clone(), role: session.role })
    }

    fn by(&self) -> Option<By> {
        let session = self.session.as_ref()?;
        // Only whose it is decides here; where it came from is for changes.
        let from = std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        Some(By::Owner { id: session.id.clone(), name: session.name.clone(), from, via: AuditVia::Session })
    }

    /// Where orders may be drafted: by an owner, in a fleet with a roster.
    fn drafting(&self, parts: &Parts) -> Option<Drafting> {
        let session = self.session.as_ref().filter(|session| session.role >= Role::Owner)?;
        let roster = parts.people.verified_roster();
        let here = roster
            .as_deref()
            .map(VerifiedRoster::roster)
            .filter(|roster| roster.page_origin.as_ref() == Some(&self.origin));
        let page_kinds = here.map(|roster| roster.page_kinds.to_vec()).unwrap_or_default();
        Some(Drafting { fleet: parts.verifier.fleet(), owner: session.id.clone(), page_kinds })
    }

    fn id(&self) -> Result<&NodeId, Refusal> {
        self.target.id.as_ref().ok_or_else(not_there)
    }

    /// What stands after `name=` in the query; nothing without one.
    fn query<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let Some(query) = &self.target.query else { return Ok(None) };
        let value = query.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).map(Some).ok_or_else(not_there)
    }

    fn sessions(&self, parts: &Parts) -> Vec<SessionView> {
        self.by().map(|by| parts.people.sessions(&by, self.token.as_deref()).sessions).unwrap_or_default()
    }

    /// The document, as text.
    ///
    /// # Errors
    /// Where there is no such thing; `busy` for a template of ours that cannot be filled in.
    pub(super) fn document(&self, parts: &Parts) -> Result<String, Refusal> {
        // Before anything is looked at: what happens meanwhile is told to who watches.
        let sequence = parts.journal.events(u64::MAX, 1).last_sequence;
        let frame = |title: &str| {
            let frame = Frame::new(title, self.page.path(), self.who(), parts.clock.now());
            frame.drafting(self.drafting(parts)).after(sequence)
        };
        let text = match self.page {
            Page::Servers => render(&Servers::new(frame("Servers"), &parts.enrollment.onboarding(), &parts.servers())),
            // A machine becomes a node, and a node is removed, while somebody looks at it: whatever it is now is shown.
            Page::Server | Page::Device => {
                let id = self.id()?;
                if let Some(removed) = parts.orders.removed(id) {
                    let document = Gone::new(frame(&removed.name()), &removed, &newest_of(parts, id));
                    return written(render(&document));
                }
                let onboarding = parts.enrollment.onboarding();
                if let Some(device) = onboarding.devices.iter().find(|device| device.device_id == *id) {
                    let title = match &device.task {
                        Some(task) => task.hostname.to_string(),
                        None => format!("Machine {}", device.verification_code),
                    };
                    return written(render(&Device::new(frame(&title), device, admission(parts, id)?.as_ref())));
                }
                let unknown = |refusal: Refusal| {
                    let words = "This machine does not wait for a decision.";
                    if matches!(self.page, Page::Device) { Refusal::new(Code::DeviceNotFound, words) } else { refusal }
                };
                let view = parts.node(id).map_err(unknown)?;
                let why = Why::of(&view, &parts.orders.drafts(None)?.drafts);
                let (events, certificate) = (newest_of(parts, id), parts.fleet.certificate_of(id));
                let agent = parts.fleet.agent_of(id);
                let (certificate, agent) = (certificate.as_ref(), agent.as_ref());
                let facts = ServerFacts { view: &view, why: &why, events: &events, certificate, agent };
                render(&Server::new(frame(view.node.hostname.as_str()), &facts))
            }
            Page::Orders => {
                let after: Option<VerificationCode> = self.query("after")?;
                let drafts = parts.orders.drafts(after.as_ref())?.drafts;
                let more = match drafts.last() {
                    Some(last) => !parts.orders.drafts(Some(&last.code))?.drafts.is_empty(),
                    None => false,
                };
                render(&Orders::new(frame("Orders"), (&drafts, &parts.journal.names()), after.is_none(), more))
            }
            Page::Order => {
                let code = self.target.code.as_ref().ok_or_else(not_there)?;
                let view = parts.orders.draft(code)?;
                let line = line_of(parts, code)?;
                let read = view.draft.read();
                let read =
                    read.map_err(|error| Refusal::logged(Code::NotFound, "It cannot be read.", chain(&error)))?;
                let roster = parts.people.verified_roster();
                let roster = roster.as_deref().map(VerifiedRoster::roster);
                let names = parts.journal.names();
                let facts = OrderFacts { line: &line, read: &read, roster, names: &names };
                render(&Order::new(frame(&format!("Order {code}")), &facts))
            }
            Page::Keys => {
                let nodes = parts.nodes().nodes;
                render(&Keys::new(frame("SSH keys"), &ordered_keys(parts, &nodes)?, &nodes))
            }
            Page::Owners => {
                let roster = parts.people.verified_roster();
                let roster = roster.as_deref().map(VerifiedRoster::roster);
                let (applicants, sessions) = (parts.people.applicants(), self.sessions(parts));
                let tokens = self.by().map(|by| parts.people.tokens(&by).tokens).unwrap_or_default();
                render(&Owners::new(frame("Owners"), roster, &applicants, (&sessions, &tokens)))
            }
            Page::Audit => {
                let last = parts.audit.entries(u64::MAX, 1)?.last_sequence;
                let before = self.query("before")?.map_or(last, |before: u64| before.saturating_sub(1).min(last));
                let from = before.saturating_sub(ENTRIES_SHOWN);
                let limit = usize::try_from(before - from).unwrap_or(0);
                let entries = parts.audit.entries(from, limit)?.entries;
                let part = AuditPart { entries, last };
                let audit = Audit::new(frame("Audit"), &part, &parts.journal.names());
                render(&audit.linking(|order| parts.orders.has_draft(order)))
            }
            Page::Window => render(&Window::new(frame("Discovery window"), &parts.enrollment.onboarding())),
            Page::SignIn => render(&SignIn::new(frame("Sign in"), self.origin.rp_id())),
            Page::Passkeys => {
                let passkeys = self.by().map(|by| parts.people.passkeys(&by).passkeys).unwrap_or_default();
                let sessions = self.sessions(parts);
                let asked: Option<VerificationCode> = self.query("asked")?;
                let asked = asked.map(|code| parts.people.asked_passkey(&code));
                let document = Passkeys::new(frame("Passkeys"), self.origin.rp_id(), (&passkeys, &sessions), asked);
                render(&document.waiting(parts.people.waiting_passkeys()))
            }
            // Answered before.
            Page::File(_) => return Err(not_there()),
        };
        written(text)
    }
}

fn written(text: Result<String, PageError>) -> Result<String, Refusal> {
    text.map_err(|error| Refusal::logged(Code::Busy, "The page cannot be written.", chain(&error)))
}

/// Every order there is, newest first, one answer's worth at a time until `see` has seen enough.
fn orders(parts: &Parts, mut see: impl FnMut(DraftLine) -> bool) -> Result<(), Refusal> {
    let mut after = None;
    // One answer may have a single order: one for very many nodes.
    for _ in 0..=DRAFTS_MAX {
        let drafts = parts.orders.drafts(after.as_ref())?.drafts;
        let Some(last) = drafts.last().map(|line| line.code.clone()) else { return Ok(()) };
        for line in drafts {
            if !see(line) {
                return Ok(());
            }
        }
        after = Some(last);
    }
    Ok(())
}

/// Where the order of this code stands.
fn line_of(parts: &Parts, code: &VerificationCode) -> Result<DraftLine, Refusal> {
    let mut found = None;
    orders(parts, |line| {
        let is_it = line.code == *code;
        found = is_it.then_some(line);
        !is_it
    })?;
    found.ok_or_else(|| Refusal::new(Code::DraftNotFound, format!("There is no draft {code}.")))
}

/// The newest order that admits this machine, unless nothing comes of it any more.
fn admission(parts: &Parts, id: &NodeId) -> Result<Option<DraftLine>, Refusal> {
    let mut found = None;
    orders(parts, |line| {
        let counts = match line.state {
            DraftState::Drafted | DraftState::Signed | DraftState::Done => true,
            DraftState::Refused | DraftState::Replaced | DraftState::NobodyLeft | DraftState::Expired => false,
        };
        let is_its = || {
            let view = parts.orders.draft(&line.code).ok()?;
            let read = view.draft.read().ok()?;
            Some(read.intent().nodes.contains(id))
        };
        let is_it = counts && line.kind == OrderKind::Admit && is_its().unwrap_or(false);
        found = is_it.then_some(line);
        !is_it
    })?;
    Ok(found)
}

/// What was ordered about the keys of each account, by account.
fn ordered_keys(parts: &Parts, nodes: &[NodeLine]) -> Result<Vec<OrderedKeys>, Refusal> {
    let there: BTreeSet<&NodeId> = nodes.iter().map(|node| &node.node_id).collect();
    let mut lines = Vec::new();
    orders(parts, |line| {
        if line.kind == OrderKind::SshKey {
            lines.push(line);
        }
        true
    })?;
    let mut accounts: BTreeMap<AccountName, OrderedKeys> = BTreeMap::new();
    for line in lines {
        // It may have been thrown away since.
        let Ok(view) = parts.orders.draft(&line.code) else { continue };
        let Ok(read) = view.draft.read() else { continue };
        let (Body::SshKey(keys), Terms::State { revision, .. }) = (read.body(), &read.intent().terms) else { continue };
        let account = keys.account.clone();
        let row =
            accounts.entry(account.clone()).or_insert(OrderedKeys { account, given: None, waiting: None, next: 1 });
        if !line.signers.is_empty() {
            row.next = row.next.max(revision.saturating_add(1));
        }
        match line.state {
            DraftState::Drafted => _ = row.waiting.get_or_insert(line.code),
            DraftState::Expired => {}
            DraftState::NobodyLeft if line.signers.is_empty() => {}
            DraftState::Signed
            | DraftState::Done
            | DraftState::Refused
            | DraftState::Replaced
            | DraftState::NobodyLeft => {
                if row.given.as_ref().is_none_or(|given| given.revision < *revision) {
                    row.given = Some(GivenKeys {
                        keys: keys.clone(),
                        nodes: read.intent().nodes.len(),
                        gone: read.intent().nodes.iter().filter(|node| !there.contains(node)).count(),
                        revision: *revision,
                        code: line.code,
                        state: line.state,
                    });
                }
            }
        }
    }
    Ok(accounts.into_values().filter(|row| row.given.is_some() || row.waiting.is_some()).collect())
}

/// The newest events of one machine, newest first.
fn newest_of(parts: &Parts, id: &NodeId) -> Vec<EventLine> {
    let last = parts.journal.events(u64::MAX, 1).last_sequence;
    let most = u64::try_from(EVENTS_PER_ANSWER_MAX).unwrap_or(u64::MAX);
    let mut events = parts.journal.events(last.saturating_sub(most), EVENTS_PER_ANSWER_MAX).events;
    events.reverse();
    events.retain(|event| event.device_id.as_ref() == Some(id));
    events.truncate(EVENTS_OF_ONE);
    events
}
