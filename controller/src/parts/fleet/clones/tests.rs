use super::*;

const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

fn start(number: u8) -> StartId {
    StartId::from_random([number; 16])
}

fn starts(numbers: &[u8]) -> Vec<StartId> {
    numbers.iter().copied().map(start).collect()
}

fn value(number: u64) -> Digest {
    Digest::of(&number.to_be_bytes())
}

fn address(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, number])
}

fn holder(number: u8) -> Holder {
    Holder {
        start_id: Some(start(number)),
        boot_id: None,
        address: address(number),
        first_seen_at: NOW,
        last_seen_at: None,
        memory_lost: false,
    }
}

/// Present start 5, heard over challenges 100 to 200, after 4 and 3; 9 was decided against.
fn known() -> (Lineage, Thread) {
    let lineage =
        Lineage { heard: vec![holder(5), holder(4)], superseded: starts(&[4, 3]), refused: starts(&[9]), ..nothing() };
    let thread = Thread {
        first: 100,
        last: 200,
        turn: Some((Some(value(1)), Some(value(2)))),
        dropped: VecDeque::from([value(7)]),
    };
    (lineage, thread)
}

/// What is told by nobody in particular.
fn told<'a>(start: Option<&'a StartId>, former: &'a [StartId], chain: Option<Digest>, order: u128) -> Claim<'a> {
    Claim { start, former, chain, boot: None, from: address(1), order }
}

// spec: CL-1
#[test]
fn the_table_of_the_decision() {
    use Evidence::{NoStart, StaleChain, Superseded, TwoStarts};
    use Verdict::{Frozen, Late, Present, Refused, Successor};
    let (lineage, thread) = known();
    // start | former | chain | order of its challenge | verdict
    type Row = (Option<u8>, &'static [u8], Option<u64>, u128, Verdict);
    let rows: &[Row] = &[
        // The present start: what it was given, what it said when the answer was lost, and nothing else.
        (Some(5), &[4, 3], Some(2), 201, Present),
        (Some(5), &[4, 3], Some(1), 201, Present),
        (Some(5), &[4, 3], Some(2), 200, Present),
        (Some(5), &[4, 3], Some(3), 201, Frozen(StaleChain)),
        (Some(5), &[4, 3], None, 201, Frozen(StaleChain)),
        // A report that was under way when a later one was heard tells nothing.
        (Some(5), &[4, 3], Some(3), 199, Late),
        (Some(5), &[4, 3], None, 150, Late),
        // A value that was passed over was never received by whoever passed it over.
        (Some(5), &[4, 3], Some(7), 201, Frozen(StaleChain)),
        (Some(5), &[4, 3], Some(7), 199, Frozen(StaleChain)),
        // What comes after the present start, however many starts lie between.
        (Some(6), &[5, 4, 3], None, 201, Successor),
        (Some(6), &[8, 7, 5, 4], None, 201, Successor),
        (Some(6), &[5, 9], None, 201, Successor),
        // A superseded start.
        (Some(4), &[3], Some(9), 201, Frozen(Superseded)),
        (Some(4), &[3], Some(9), 100, Frozen(Superseded)),
        (Some(4), &[3], Some(9), 99, Late),
        (Some(3), &[], None, 201, Frozen(Superseded)),
        // Another start from one predecessor; a state that was restored; a state nobody knows.
        (Some(6), &[4, 3], None, 201, Frozen(TwoStarts)),
        (Some(6), &[3], None, 201, Frozen(TwoStarts)),
        (Some(6), &[4, 5], None, 201, Frozen(TwoStarts)),
        (Some(6), &[8, 7], None, 201, Frozen(TwoStarts)),
        // It names no predecessor and no boot: nothing tells that it is the present one's machine.
        (Some(6), &[], None, 201, Frozen(TwoStarts)),
        // One that was decided against, and what comes after it.
        (Some(9), &[4], None, 201, Refused),
        (Some(6), &[9, 5, 4], None, 201, Refused),
        (Some(6), &[8, 9, 4], None, 201, Refused),
        // Whoever told a start tells one.
        (None, &[], None, 201, Frozen(NoStart)),
    ];
    for (at, (own, former, chain, order, want)) in rows.iter().enumerate() {
        let (own, former) = (own.map(start), starts(former));
        let told = told(own.as_ref(), &former, chain.map(value), *order);
        assert_eq!(decide(Some(&lineage), &thread, &told), *want, "row {at}");
    }
    // Nobody known yet.
    let own = start(1);
    assert_eq!(decide(None, &thread, &told(None, &[], None, 1)), Verdict::Silent);
    assert_eq!(decide(None, &thread, &told(Some(&own), &starts(&[2]), Some(value(1)), 1)), Verdict::Fresh);
    // Nobody is told from anybody while it is frozen.
    let frozen = Lineage { frozen_at: Some(NOW), ..lineage.clone() };
    for own in [None, Some(start(5)), Some(start(4)), Some(start(9)), Some(start(77))] {
        assert_eq!(decide(Some(&frozen), &thread, &told(own.as_ref(), &[], None, 999)), Verdict::Held);
    }
    // A controller that was started anew gave values that nobody wrote down.
    let anew = Thread::default();
    let own = start(5);
    for chain in [None, Some(value(1)), Some(value(99))] {
        assert_eq!(decide(Some(&lineage), &anew, &told(Some(&own), &[], chain, 1)), Present);
    }
    let own = start(4);
    assert_eq!(decide(Some(&lineage), &anew, &told(Some(&own), &[], None, 1)), Frozen(Superseded));
}

/// `starts.json` was lost: the machine says so, in that it names no start before its own.
// spec: CL-280
#[test]
fn a_start_that_lost_its_memory_is_believed_within_one_boot_and_nowhere_else() {
    use Evidence::TwoStarts;
    use Verdict::{Frozen, Held, Refused, Successor};
    let (mut lineage, thread) = known();
    let boot = |digit: char| -> BootId {
        format!("{}-0000-4000-8000-000000000000", digit.to_string().repeat(8)).parse().unwrap()
    };
    let (here, there) = (boot('a'), boot('b'));
    lineage.heard[0].boot_id = Some(here.clone());
    let own = start(6);
    let lost = Claim { boot: Some(&here), ..told(Some(&own), &[], None, 201) };
    let former = starts(&[8]);
    // what is told | verdict
    let rows = [
        (lost, Successor),
        (Claim { from: address(77), ..lost }, Successor),
        // A copy runs in a boot of its own, or does not say which.
        (Claim { boot: Some(&there), ..lost }, Frozen(TwoStarts)),
        (Claim { boot: None, ..lost }, Frozen(TwoStarts)),
        // One that remembers something else lost nothing.
        (Claim { former: &former, ..lost }, Frozen(TwoStarts)),
        (Claim { chain: Some(value(2)), ..lost }, Frozen(TwoStarts)),
        // The present one was heard over a later challenge: both run.
        (Claim { order: 200, ..lost }, Frozen(TwoStarts)),
    ];
    for (at, (told, want)) in rows.iter().enumerate() {
        assert_eq!(decide(Some(&lineage), &thread, told), *want, "row {at}");
        assert_eq!(
            decide(Some(&lineage), &Thread::default(), &Claim { order: 1, ..*told }),
            if at == 6 { Successor } else { *want },
            "row {at}, after a restart of the controller"
        );
    }
    // What was decided holds, and the holder before it told no boot.
    let own = start(9);
    assert_eq!(decide(Some(&lineage), &thread, &Claim { start: Some(&own), ..lost }), Refused);
    let frozen = Lineage { frozen_at: Some(NOW), ..lineage.clone() };
    assert_eq!(decide(Some(&frozen), &thread, &lost), Held);
    lineage.heard[0].boot_id = None;
    assert_eq!(decide(Some(&lineage), &thread, &lost), Frozen(TwoStarts));
}

/// Whoever claims a loss in the name of a machine that runs is shown with its next heartbeat, as with any copy.
// spec: CL-281
#[test]
fn a_claimed_loss_gains_nothing_beside_the_machine_itself() {
    let boot: BootId = "aaaaaaaa-0000-4000-8000-000000000000".parse().unwrap();
    let (mut lineage, mut thread) = (None, Thread::default());
    let (own, other) = (start(1), start(2));
    let say = |start, from, order, chain| Claim {
        boot: Some(&boot),
        from: address(from),
        ..told(Some(start), &[], chain, order)
    };
    let first = hear(&mut lineage, &mut thread, &say(&own, 1, 1, None), Some(value(1)), NOW);
    let lost = hear(&mut lineage, &mut thread, &say(&other, 2, 2, None), Some(value(2)), NOW);
    assert_eq!((lost.verdict, lost.frozen), (Verdict::Successor, false));
    let heard = hear(&mut lineage, &mut thread, &say(&own, 1, 3, first.chain), Some(value(3)), NOW);
    assert_eq!((heard.verdict, heard.frozen), (Verdict::Frozen(Evidence::Superseded), true));
    assert_eq!(lineage.unwrap().holders.len(), 2);
}

// spec: CL-283
#[test]
fn after_a_decision_no_claimed_loss_brings_the_refused_one_back() {
    let boot: BootId = "aaaaaaaa-0000-4000-8000-000000000000".parse().unwrap();
    let (mut lineage, mut thread) = (None, Thread::default());
    let say = |start, order| Claim { boot: Some(&boot), ..told(Some(start), &[], None, order) };
    let (own, thief) = (start(1), start(2));
    hear(&mut lineage, &mut thread, &say(&own, 1), Some(value(1)), NOW);
    hear(&mut lineage, &mut thread, &say(&thief, 2), Some(value(2)), NOW);
    assert!(hear(&mut lineage, &mut thread, &say(&own, 3), Some(value(3)), NOW).frozen);
    let kept = keep(lineage.as_ref(), &own, NOW).unwrap();
    follow(&mut lineage, &mut thread, &kept);
    let back = hear(&mut lineage, &mut thread, &say(&start(3), 4), Some(value(4)), NOW);
    assert_eq!((back.verdict, back.frozen), (Verdict::Frozen(Evidence::TwoStarts), true));
}

/// What is shown of it says which it is: a memory that was lost, or two that remember.
// spec: CL-282
#[test]
fn a_freeze_says_whether_a_memory_was_lost() {
    for (former, lost) in [(starts(&[]), true), (starts(&[8]), false)] {
        let (lineage, mut thread) = known();
        let (mut lineage, own) = (Some(lineage), start(6));
        assert!(hear(&mut lineage, &mut thread, &told(Some(&own), &former, None, 201), None, NOW).frozen);
        let lineage = lineage.unwrap();
        let shown: Vec<_> = lineage.holders.iter().map(|holder| holder.memory_lost).collect();
        assert_eq!(shown, [false, lost]);
        assert!(pair(&lineage).iter().all(|holder| !holder.memory_lost), "the journal is as it was");
        // Heard again while it is frozen, it is still the one that lost it.
        let mut lineage = Some(lineage);
        hear(&mut lineage, &mut thread, &told(Some(&own), &former, None, 202), None, NOW);
        assert_eq!(lineage.unwrap().holders[1].memory_lost, lost);
    }
}

/// A controller as far as starts go.
struct Site {
    lineage: Option<Lineage>,
    thread: Thread,
    /// What is on its disk.
    written: Option<Lineage>,
    given: u64,
    order: u128,
}

/// An agent as far as starts go: `lucia_agent::identity::starts`, told again.
#[derive(Clone)]
struct Agent {
    start: u64,
    former: Vec<u64>,
    answered: bool,
    chain: Option<Digest>,
    from: IpAddr,
}

/// A report on its way.
struct Sent {
    start: StartId,
    former: Vec<StartId>,
    chain: Option<Digest>,
    from: IpAddr,
    order: u128,
}

fn long(number: u64) -> StartId {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    StartId::from_random(bytes)
}

impl Site {
    fn new() -> Self {
        Self { lineage: None, thread: Thread::default(), written: None, given: 0, order: 0 }
    }

    fn hear(&mut self, sent: &Sent) -> Heard {
        self.given += 1;
        let Sent { start, former, chain, from, order } = sent;
        let told = Claim { start: Some(start), former, chain: *chain, boot: None, from: *from, order: *order };
        hear(&mut self.lineage, &mut self.thread, &told, Some(value(self.given)), NOW)
    }

    fn restart(&mut self) {
        self.lineage.clone_from(&self.written);
        self.thread = Thread::default();
    }
}

impl Agent {
    fn new(from: u8) -> Self {
        Self { start: 1, former: Vec::new(), answered: false, chain: None, from: address(from) }
    }

    fn restart(&mut self, next: &mut u64) {
        self.chain = None;
        if self.answered {
            *next += 1;
            self.former.insert(0, self.start);
            self.former.truncate(8);
            self.start = *next;
            self.answered = false;
        }
    }

    fn send(&self, site: &mut Site) -> Sent {
        site.order += 1;
        Sent {
            start: long(self.start),
            former: self.former.iter().copied().map(long).collect(),
            chain: self.chain,
            from: self.from,
            order: site.order,
        }
    }

    /// `durable`: whether the disk took it.
    fn answered(&mut self, heard: &Heard, durable: bool) {
        self.answered |= durable;
        if self.answered && heard.chain.is_some() {
            self.chain = heard.chain;
        }
    }
}

/// One heartbeat and its answer.
fn beat(site: &mut Site, agent: &mut Agent) -> Heard {
    let sent = agent.send(site);
    let heard = site.hear(&sent);
    agent.answered(&heard, true);
    heard
}

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

/// Whatever happens to one machine and its controller: reboots, crashes before and after the disk took a start, lost
/// requests and answers, requests that arrive after later ones, new addresses, controllers that forget what they had not
/// written. Three thousand heartbeats for each of a hundred lives.
// spec: CL-2
#[test]
fn nothing_that_happens_to_one_machine_freezes_it() {
    for seed in 0..100 {
        let mut draw = Draw(seed);
        let (mut site, mut agent, mut next, mut written_at) = (Site::new(), Agent::new(1), 1, 1);
        let mut late: Vec<Sent> = Vec::new();
        for turn in 0..3_000 {
            // A challenge is good for two minutes: what is under way longer arrives for nothing.
            late.retain(|sent| sent.order + 5 > site.order);
            let sent = agent.send(&mut site);
            let fate = draw.below(100);
            let heard = match fate {
                // It never arrives.
                0..5 => None,
                // It arrives after whatever is sent meanwhile.
                5..10 => {
                    late.push(sent);
                    None
                }
                _ => Some(site.hear(&sent)),
            };
            assert!(heard.is_none_or(|heard| !heard.frozen), "seed {seed}, turn {turn}: {heard:?}");
            match (heard, fate) {
                // The answer is lost.
                (Some(_), 10..15) | (None, _) => {}
                // The disk is full when it comes.
                (Some(heard), 15..18) => agent.answered(&heard, false),
                (Some(heard), _) => agent.answered(&heard, true),
            }
            match draw.below(100) {
                0..10 => {
                    agent.restart(&mut next);
                    // The record is written within minutes: no machine is started eight times meanwhile.
                    if heard.is_some() && next > written_at + 5 {
                        written_at = next;
                        site.written.clone_from(&site.lineage);
                    }
                }
                10..13 => agent.from = address(u8::try_from(draw.below(200)).unwrap()),
                13..23 if heard.is_some() => {
                    written_at = next;
                    site.written.clone_from(&site.lineage);
                }
                // Its key for challenges dies with it, and so does everything under way.
                23..25 => {
                    site.restart();
                    late.clear();
                }
                25..40 if !late.is_empty() => {
                    let at = usize::try_from(draw.below(u64::try_from(late.len()).unwrap())).unwrap();
                    let heard = site.hear(&late.swap_remove(at));
                    assert!(!heard.frozen, "seed {seed}, turn {turn}: late: {heard:?}");
                }
                _ => {}
            }
        }
        assert!(next > 100, "{next} starts only");
    }
}

/// A machine and a copy of its state, or of its memory, each asking in its own time: frozen after two heartbeats of
/// each at most.
// spec: CL-3
#[test]
fn two_machines_with_one_state_are_frozen_within_two_heartbeats() {
    for seed in 0..500 {
        let mut draw = Draw(seed);
        let (mut site, mut one, mut next) = (Site::new(), Agent::new(1), 1);
        for _ in 0..=draw.below(5) {
            beat(&mut site, &mut one);
            if draw.below(3) == 0 {
                one.restart(&mut next);
            }
        }
        let mut two = Agent { from: address(2), ..one.clone() };
        // A copy of the memory goes on, a copy of the disk is started.
        if draw.below(2) == 0 {
            two.restart(&mut next);
        }
        let (mut beats, mut challenges) = ([0, 0], [site.order + 1, site.order + 2]);
        site.order += 2;
        let frozen = loop {
            let who = usize::try_from(draw.below(2)).unwrap();
            // No machine is heard thrice before the other is heard once.
            let who = if beats[who] > beats[1 - who] { 1 - who } else { who };
            let agent = if who == 0 { &mut one } else { &mut two };
            let sent = Sent { order: challenges[who], ..agent.send(&mut site) };
            let heard = site.hear(&sent);
            agent.answered(&heard, true);
            site.order += 1;
            challenges[who] = site.order;
            beats[who] += 1;
            if heard.frozen {
                break true;
            }
            if beats.iter().all(|beats| *beats > 2) {
                break false;
            }
        };
        assert!(frozen, "seed {seed}: not after {beats:?}");
        let held = site.lineage.as_ref().unwrap();
        assert_eq!(held.holders.len(), 2);
        // Both are told so, and shown.
        for agent in [&mut one, &mut two] {
            let heard = beat(&mut site, agent);
            assert_eq!((heard.frozen, heard.chain), (true, None));
        }
        let seen: Vec<_> = site.lineage.as_ref().unwrap().holders.iter().map(|holder| holder.address).collect();
        assert!(seen.contains(&address(1)) && seen.contains(&address(2)), "seed {seed}: {seen:?}");
    }
}

// spec: CL-4
#[test]
fn a_restored_state_is_frozen() {
    let (mut site, mut agent, mut next) = (Site::new(), Agent::new(1), 1);
    assert!(!beat(&mut site, &mut agent).frozen);
    let snapshot = agent.clone();
    for _ in 0..3 {
        agent.restart(&mut next);
        assert!(!beat(&mut site, &mut agent).frozen);
    }
    let mut restored = snapshot;
    restored.restart(&mut next);
    assert!(beat(&mut site, &mut restored).frozen);
}

/// The one that stays goes on, whichever it is; the other is told so for good, whatever it restarts as; nobody is frozen
/// again by it.
// spec: CL-5
#[test]
fn a_decision_holds_for_both_holders_and_their_later_starts() {
    for keep_first in [true, false] {
        let (mut site, mut one, mut next) = (Site::new(), Agent::new(1), 1);
        beat(&mut site, &mut one);
        let mut two = Agent { from: address(2), ..one.clone() };
        two.restart(&mut next);
        beat(&mut site, &mut two);
        assert!(beat(&mut site, &mut one).frozen);
        // Restarted while it is frozen, a holder stays the one it was.
        two.restart(&mut next);
        assert!(beat(&mut site, &mut two).frozen);
        assert_eq!(site.lineage.as_ref().unwrap().holders.len(), 2);

        let stays = long(if keep_first { one.start } else { two.start });
        assert_eq!(keep(site.lineage.as_ref(), &start(77), NOW), Err(Unkept::NoSuch));
        let kept = keep(site.lineage.as_ref(), &stays, NOW).unwrap();
        follow(&mut site.lineage, &mut site.thread, &kept);
        assert_eq!(keep(site.lineage.as_ref(), &stays, NOW), Err(Unkept::NotFrozen));
        for turn in 0..40 {
            let (kept, other) = if keep_first { (&mut one, &mut two) } else { (&mut two, &mut one) };
            for _ in 0..3 {
                let heard = beat(&mut site, kept);
                assert!(!heard.frozen && heard.chain.is_some(), "keep first {keep_first}, turn {turn}: {heard:?}");
                let heard = beat(&mut site, other);
                assert_eq!(heard.verdict, Verdict::Refused, "keep first {keep_first}, turn {turn}");
                assert!(heard.frozen && heard.chain.is_none());
            }
            one.restart(&mut next);
            two.restart(&mut next);
        }
        let refused = site.lineage.unwrap().last_refused.unwrap();
        assert_eq!(refused.address, address(if keep_first { 2 } else { 1 }));
    }
}

#[test]
fn two_holders_of_one_start_cannot_be_told_apart_by_it() {
    let lineage = Lineage { frozen_at: Some(NOW), holders: vec![holder(5), holder(5)], ..nothing() };
    assert_eq!(keep(Some(&lineage), &start(5), NOW), Err(Unkept::Twice));
    let mut holders = lineage.holders;
    holders[1].address = address(2);
    // Started anew, the second one has a start of its own.
    let (own, former) = (start(6), starts(&[5]));
    attribute(&mut holders, &Claim { from: address(5), ..told(Some(&own), &former, None, 1) }, NOW);
    assert_eq!(holders.iter().filter(|holder| holder.start_id == Some(start(5))).count(), 1);
    for number in 10..20 {
        let own = start(number);
        attribute(&mut holders, &told(Some(&own), &[], None, 1), NOW);
    }
    assert_eq!(holders.len(), HOLDERS_MAX);
}

/// A crash between any two writes of freezing and deciding: what the journal has holds, and what a record alone has is
/// written.
// spec: CL-6
#[test]
fn journal_and_record_agree_after_any_crash() {
    let frozen = FrozenRow { at: NOW, holders: vec![holder(5), holder(6)] };
    let (calm, _) = known();
    let held = Lineage { frozen_at: Some(NOW), holders: frozen.holders.clone(), ..calm.clone() };
    let kept = keep(Some(&held), &start(6), NOW).unwrap();
    let mut decided = Some(held.clone());
    follow(&mut decided, &mut Thread::default(), &kept);
    let after = decided.clone().unwrap();
    assert_eq!((after.heard[0].start_id.clone(), after.refused[0].clone()), (Some(start(6)), start(5)));
    // record | frozen in the journal | decided in the journal | frozen then, to be written
    for (at, (record, row, decision, is_frozen, to_write)) in [
        (Some(calm.clone()), None, None, false, false),
        (None, None, None, false, false),
        (Some(held.clone()), Some(&frozen), None, true, false),
        (Some(calm.clone()), Some(&frozen), None, true, false),
        (None, Some(&frozen), None, true, false),
        (Some(held.clone()), None, None, true, true),
        (Some(held), None, Some(&kept), false, false),
        (Some(calm), None, Some(&kept), false, false),
        (None, None, Some(&kept), false, false),
        (decided.clone(), None, Some(&kept), false, false),
        (decided.clone(), Some(&frozen), Some(&kept), true, false),
        (decided.map(|lineage| Lineage { frozen_at: Some(NOW), ..lineage }), None, Some(&kept), true, true),
    ]
    .into_iter()
    .enumerate()
    {
        let mut lineage = record;
        assert_eq!(settle(&mut lineage, row, decision), to_write, "case {at}");
        assert_eq!(lineage.as_ref().is_some_and(|lineage| lineage.frozen_at.is_some()), is_frozen, "case {at}");
        if decision.is_some() && !is_frozen {
            let lineage = lineage.unwrap();
            assert_eq!(lineage.heard[0].start_id, Some(start(6)), "case {at}");
            assert!(lineage.refused.contains(&start(5)), "case {at}");
        }
    }
}
