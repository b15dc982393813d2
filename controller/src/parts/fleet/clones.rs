//! Whether a heartbeat comes from the one holder of its identity (design.md I8): one table, [`decide`].
//!
//! An agent is one process after another on one machine, and each waits for an answer before it asks again. So what one
//! holder sends is in one order, and the challenge that each report is signed over tells it: a report over an older
//! challenge than one that was heard already was merely late. That is why neither a lost answer, a retried call nor a
//! process that was killed with a request under way freezes anything, and two machines in turn do.

use std::collections::VecDeque;
use std::net::IpAddr;

use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::{BootId, StartId};
use lucia_proto::base::limits::{FORMER_STARTS_MAX, HOLDERS_MAX, KNOWN_STARTS_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{FrozenRow, Holder, KeptRow};
use lucia_proto::node::enrollment::Lineage;
use lucia_proto::node::heartbeat::HeartbeatFields;

/// Chain values remembered that were given and then passed over.
const DROPPED_MAX: usize = 4;
/// Heard starts that are remembered with where they were.
const HEARD_MAX: usize = 4;

/// What a proven heartbeat tells of who sent it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim<'a> {
    pub(super) start: Option<&'a StartId>,
    /// Its predecessors, newest first.
    pub(super) former: &'a [StartId],
    pub(super) chain: Option<Digest>,
    pub(super) boot: Option<&'a BootId>,
    pub(super) from: IpAddr,
    /// Grows with the time at which its challenge was issued.
    pub(super) order: u128,
}

impl<'a> Claim<'a> {
    pub(super) fn of(heartbeat: &'a HeartbeatFields, from: IpAddr, order: u128) -> Self {
        Self {
            start: heartbeat.start_id.as_ref(),
            former: &heartbeat.former_starts,
            chain: heartbeat.chain,
            boot: heartbeat.boot_id.as_ref(),
            from,
            order,
        }
    }

    fn holder(&self, first_seen_at: UnixTime, now: UnixTime) -> Holder {
        Holder {
            start_id: self.start.cloned(),
            boot_id: self.boot.cloned(),
            address: self.from,
            first_seen_at,
            last_seen_at: Some(now),
            memory_lost: false,
        }
    }

    /// Whether it remembers nothing: it names no start before its own, and no value it was given.
    fn remembers_nothing(&self) -> bool {
        self.former.is_empty() && self.chain.is_none()
    }
}

/// What the present start said and was given: in memory alone. A controller that was started anew believes the first
/// value it hears, since the last ones it gave may not have reached any disk.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// Order of the first challenge this start was heard over; 0 for one that was heard before the controller started.
    first: u128,
    /// Order of the last one.
    last: u128,
    /// The value it said last and the one it was given for it; nothing before it is heard.
    turn: Option<(Option<Digest>, Option<Digest>)>,
    /// Values it was given and did not use when it spoke again: its answer was lost, so nobody else has them either.
    dropped: VecDeque<Digest>,
}

/// What shows that two hold one identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// A start speaks after one that came after it.
    Superseded,
    /// A start that does not come after the present one: two came from one predecessor, or a former state was restored.
    TwoStarts,
    /// The present start says a value that it used up or should never have got.
    StaleChain,
    /// No start is told any more.
    NoStart,
}

/// What a heartbeat is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Of an agent that never told a start.
    Silent,
    /// The first start that is heard.
    Fresh,
    /// The present start in its turn.
    Present,
    /// A start that comes after the present one.
    Successor,
    /// Sent before something that was heard already.
    Late,
    /// Of a holder that a person decided against.
    Refused,
    /// Of an identity that is frozen already.
    Held,
    /// Of an identity that has two holders.
    Frozen(Evidence),
}

/// The table. It knows no time: which of two comes first is told by their challenges.
pub(super) fn decide(lineage: Option<&Lineage>, thread: &Thread, told: &Claim<'_>) -> Verdict {
    let Some(lineage) = lineage.filter(|lineage| lineage.frozen_at.is_some() || !lineage.heard.is_empty()) else {
        return if told.start.is_some() { Verdict::Fresh } else { Verdict::Silent };
    };
    if lineage.frozen_at.is_some() {
        return Verdict::Held;
    }
    let Some(start) = told.start else { return Verdict::Frozen(Evidence::NoStart) };
    let itself = place(lineage, start);
    // The newest of its predecessors that is known here tells whose it is.
    match (itself, itself.or_else(|| told.former.iter().find_map(|former| place(lineage, former)))) {
        (_, Some(Place::Refused)) => Verdict::Refused,
        (Some(_), Some(Place::Present)) => thread.decide(told),
        (None, Some(Place::Present)) => Verdict::Successor,
        (Some(_), Some(Place::Superseded)) if told.order < thread.first => Verdict::Late,
        (Some(_), Some(Place::Superseded)) => Verdict::Frozen(Evidence::Superseded),
        (None, None) if is_loss(lineage, thread, told) => Verdict::Successor,
        (None, Some(Place::Superseded)) | (_, None) => Verdict::Frozen(Evidence::TwoStarts),
    }
}

/// Whether a start that nobody knows is the present machine without its memory: an agent that lost `starts.json` names no
/// start before its own. That is believed within one boot, and only after all that the present start said: if that one
/// speaks again, both run, and its next heartbeat freezes the identity. Once somebody decided between two holders it is
/// believed no longer: the one that was refused knows the boot id too.
fn is_loss(lineage: &Lineage, thread: &Thread, told: &Claim<'_>) -> bool {
    let boot = lineage.heard.first().and_then(|present| present.boot_id.as_ref());
    let undisputed = lineage.kept_at.is_none();
    undisputed && told.remembers_nothing() && boot.is_some() && told.boot == boot && told.order > thread.last
}

/// Where a start stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Present,
    Refused,
    Superseded,
}

fn place(lineage: &Lineage, start: &StartId) -> Option<Place> {
    let present = lineage.heard.first().and_then(|holder| holder.start_id.as_ref());
    if present == Some(start) {
        Some(Place::Present)
    } else if lineage.refused.contains(start) {
        Some(Place::Refused)
    } else if lineage.superseded.contains(start) {
        Some(Place::Superseded)
    } else {
        None
    }
}

/// Whether the start is one that nothing here is known of yet.
pub(super) fn is_new(lineage: Option<&Lineage>, told: &Claim<'_>) -> bool {
    told.start.is_some_and(|start| lineage.is_none_or(|lineage| place(lineage, start).is_none()))
}

impl Thread {
    fn decide(&self, told: &Claim<'_>) -> Verdict {
        let Some((said, given)) = self.turn else { return Verdict::Present };
        if told.chain.is_some_and(|chain| self.dropped.contains(&chain)) {
            return Verdict::Frozen(Evidence::StaleChain);
        }
        if told.order < self.last {
            return Verdict::Late;
        }
        if told.chain == said || (told.chain.is_some() && told.chain == given) {
            Verdict::Present
        } else {
            Verdict::Frozen(Evidence::StaleChain)
        }
    }

    fn begin(&mut self, told: &Claim<'_>, fresh: Option<Digest>) {
        let turn = Some((told.chain, fresh));
        *self = Self { first: told.order, last: told.order, turn, dropped: VecDeque::new() };
    }

    fn go_on(&mut self, told: &Claim<'_>, fresh: Option<Digest>) {
        if let Some((said, Some(given))) = self.turn
            && told.chain == said
        {
            self.dropped.truncate(DROPPED_MAX - 1);
            self.dropped.push_front(given);
        }
        self.last = told.order;
        self.turn = Some((told.chain, fresh));
    }
}

/// What a heartbeat brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) verdict: Verdict,
    /// What the reply says of the chain.
    pub(super) chain: Option<Digest>,
    /// Whether the reply says that the identity is frozen.
    pub(super) frozen: bool,
}

/// Takes a heartbeat in: decides, and notes what follows. `fresh` is a new random value for the chain.
pub(super) fn hear(
    lineage: &mut Option<Lineage>,
    thread: &mut Thread,
    told: &Claim<'_>,
    fresh: Option<Digest>,
    now: UnixTime,
) -> Heard {
    let verdict = decide(lineage.as_ref(), thread, told);
    let heard = |chain, frozen| Heard { verdict, chain, frozen };
    match (verdict, lineage.as_mut()) {
        (Verdict::Fresh, _) => {
            let former = lineage.take().unwrap_or_else(nothing);
            let superseded = told.former.to_vec();
            *lineage = Some(Lineage { heard: vec![told.holder(now, now)], superseded, ..former });
            thread.begin(told, fresh);
            heard(fresh, false)
        }
        (Verdict::Present, Some(lineage)) => {
            if let Some(present) = lineage.heard.first_mut() {
                *present = told.holder(present.first_seen_at, now);
            }
            thread.go_on(told, fresh);
            heard(fresh, false)
        }
        (Verdict::Successor, Some(lineage)) => {
            let known = lineage.heard.iter().filter_map(|holder| holder.start_id.clone());
            lineage.superseded = newest(told.former.iter().cloned().chain(known).chain(lineage.superseded.clone()));
            lineage.heard.insert(0, told.holder(now, now));
            lineage.heard.truncate(HEARD_MAX);
            thread.begin(told, fresh);
            heard(fresh, false)
        }
        (Verdict::Refused, Some(lineage)) => {
            let since = lineage.last_refused.as_ref().filter(|last| last.start_id.as_ref() == told.start);
            lineage.last_refused = Some(told.holder(since.map_or(now, |last| last.first_seen_at), now));
            lineage.refused = newest(told.start.cloned().into_iter().chain(lineage.refused.clone()));
            heard(None, true)
        }
        (Verdict::Held, Some(lineage)) => {
            attribute(&mut lineage.holders, told, now);
            heard(None, true)
        }
        (Verdict::Frozen(_), Some(lineage)) => {
            let known = lineage.heard.iter().find(|holder| holder.start_id.as_ref() == told.start);
            let memory_lost = known.is_none() && told.remembers_nothing();
            let speaker = told.holder(known.map_or(now, |holder| holder.first_seen_at), now);
            let speaker = Holder { memory_lost, ..speaker };
            lineage.holders = lineage.heard.first().cloned().into_iter().chain([speaker]).collect();
            lineage.frozen_at = Some(now);
            *thread = Thread::default();
            heard(None, true)
        }
        (Verdict::Silent | Verdict::Late, _) | (_, None) => heard(None, false),
    }
}

const fn nothing() -> Lineage {
    Lineage {
        heard: Vec::new(),
        superseded: Vec::new(),
        refused: Vec::new(),
        last_refused: None,
        kept_at: None,
        frozen_at: None,
        holders: Vec::new(),
    }
}

/// Each once, the first ones.
fn newest(starts: impl Iterator<Item = StartId>) -> Vec<StartId> {
    let mut kept: Vec<StartId> = Vec::new();
    for start in starts {
        if kept.len() < KNOWN_STARTS_MAX && !kept.contains(&start) {
            kept.push(start);
        }
    }
    kept
}

/// Notes which holder of a frozen identity spoke.
fn attribute(holders: &mut Vec<Holder>, told: &Claim<'_>, now: UnixTime) {
    let same = |holder: &Holder| holder.start_id.as_ref() == told.start;
    // Copies of one memory say one start: then the address tells them apart, if anything does.
    let at = holders.iter().position(|holder| same(holder) && holder.address == told.from);
    let at = at.or_else(|| holders.iter().position(same));
    // A holder that was started anew names its former start, and the newest one names it best.
    let comes_after = |former: &StartId| holders.iter().position(|holder| holder.start_id.as_ref() == Some(former));
    let at = at.or_else(|| told.former.iter().find_map(comes_after));
    if let Some(at) = at
        && let Some(holder) = holders.get_mut(at)
    {
        *holder = Holder { memory_lost: holder.memory_lost, ..told.holder(holder.first_seen_at, now) };
    } else if holders.len() < HOLDERS_MAX {
        holders.push(told.holder(now, now));
    }
}

/// The two holders that showed that an identity is frozen, as the journal has them.
pub(super) fn pair(lineage: &Lineage) -> Vec<Holder> {
    lineage
        .holders
        .iter()
        .take(2)
        .map(|holder| Holder { last_seen_at: None, memory_lost: false, ..holder.clone() })
        .collect()
}

/// Why no holder can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unkept {
    /// It is not frozen.
    NotFrozen,
    /// No holder has this start.
    NoSuch,
    /// Two holders have it.
    Twice,
}

/// The decision for the holder of this start, to be written to the journal and then followed.
pub(super) fn keep(lineage: Option<&Lineage>, start: &StartId, now: UnixTime) -> Result<KeptRow, Unkept> {
    let lineage = lineage.filter(|lineage| lineage.frozen_at.is_some()).ok_or(Unkept::NotFrozen)?;
    let is_kept = |holder: &&Holder| holder.start_id.as_ref() == Some(start);
    let mut kept = lineage.holders.iter().filter(is_kept);
    let holder = match (kept.next(), kept.next()) {
        (None, _) => return Err(Unkept::NoSuch),
        (Some(_), Some(_)) => return Err(Unkept::Twice),
        (Some(holder), None) => Holder { last_seen_at: None, memory_lost: false, ..holder.clone() },
    };
    let others = lineage.holders.iter().filter(|holder| !is_kept(holder)).filter_map(|holder| holder.start_id.clone());
    let mut refused = newest(others.chain(lineage.refused.clone()).filter(|refused| refused != start));
    refused.truncate(FORMER_STARTS_MAX);
    Ok(KeptRow { at: now, holder, refused })
}

/// Follows a decision.
pub(super) fn follow(lineage: &mut Option<Lineage>, thread: &mut Thread, kept: &KeptRow) {
    let former = lineage.take().unwrap_or_else(nothing);
    let start = kept.holder.start_id.as_ref();
    let chosen = former.holders.iter().find(|holder| holder.start_id.as_ref() == start).unwrap_or(&kept.holder);
    let refused = kept.refused.iter().chain(&former.refused).filter(|refused| Some(*refused) != start);
    let refused = newest(refused.cloned());
    let heard = former.heard.iter().filter_map(|holder| holder.start_id.as_ref());
    let superseded = heard.chain(&former.superseded).filter(|old| Some(*old) != start && !refused.contains(*old));
    *lineage = Some(Lineage {
        heard: vec![chosen.clone()],
        superseded: newest(superseded.cloned()),
        last_refused: former.holders.iter().find(|holder| holder.start_id.as_ref() != start).cloned(),
        refused,
        kept_at: Some(kept.at),
        ..nothing()
    });
    *thread = Thread::default();
}

/// Brings a record and the journal together at the controller's start: what the journal has was decided; what the
/// record alone has is true as well, since records are written later, and has to be written: then this says true.
pub(super) fn settle(lineage: &mut Option<Lineage>, frozen: Option<&FrozenRow>, kept: Option<&KeptRow>) -> bool {
    if let Some(kept) = kept
        && lineage.as_ref().and_then(|lineage| lineage.kept_at) != Some(kept.at)
    {
        follow(lineage, &mut Thread::default(), kept);
    }
    let known = lineage.as_ref().and_then(|lineage| lineage.frozen_at);
    match frozen {
        Some(row) if known.is_none() => {
            let former = lineage.take().unwrap_or_else(nothing);
            let holders = row.holders.clone();
            *lineage = Some(Lineage { frozen_at: Some(row.at), holders, ..former });
            false
        }
        Some(_) => false,
        None => known.is_some(),
    }
}

#[cfg(test)]
mod tests;
