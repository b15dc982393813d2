//! What is wrong with a node as far as a controller knows, and what cures it: one judgement, for `luciactl why` and for
//! the page, so that both say the same.

mod next;
mod readiness;
mod removed;
mod renaming;
mod restored;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::host_api::{NodeLine, NodeView, OrdersHeld, Sample};
use crate::owner_api::DraftLine;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::LEAF_LIFETIME;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::text::{shown, span};
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::heartbeat::{DirectoryReport, DirectoryState};
use lucia_proto::node::state::SnapshotState;
use lucia_proto::orders::{OrderCode, OrderKind};
use lucia_proto::pki::key::VerificationCode;

pub use next::Next;
pub use readiness::Readiness;
pub use removed::{KeyEnd, Machine, Removed};
pub use renaming::Renaming;
pub use restored::restored;

/// A node renews with six days left: with fewer than this something is in its way.
const CERTIFICATE_LOW: Duration = Duration::from_secs(5 * 24 * 3600);
/// After its first certificate a node has this long to be heard and to ask the worker for the time.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);
/// Memory and storage that are taken to this percent.
const NEARLY_FULL: u64 = 90;
/// A processor of this many degrees Celsius.
const HOT: f64 = 85.0;

/// Something that is not as it should be. Its text says what cures it.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// The worker bars its key, and the controller's journal is one of before its removal.
    Barred(Hostname),
    /// It has never been heard from.
    NeverHeard,
    /// It was heard from this long ago.
    NotHeard(Duration),
    /// It has no certificate yet.
    NoCertificate,
    /// Its certificate ended this long ago.
    Lapsed(Hostname, Duration),
    /// Its certificate should have been renewed and has this long left.
    NotRenewed(Duration),
    /// What it says of its directory, and whether that failed.
    Directory(Option<String>, bool),
    /// Its root file system is taken to this percent.
    StorageFull(u64),
    /// Its memory is.
    MemoryFull(u64),
    /// Its processor has this many degrees.
    Hot(f64),
    /// It takes no order now; why, with the cure.
    NoOrders(String),
    /// Its machine calls itself by the second name, and the fleet by the first.
    OtherName(Hostname, Hostname),
    /// It is being renamed.
    Renaming(Renaming),
    /// The worker refuses it a certificate, in these words.
    Refused(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Barred(name) => write!(
                f,
                "the worker bars its key, since it was removed: the controller was restored from an older copy and refuses \
                 every call of this node. Remove it here again: luciactl remove {name}"
            ),
            Self::NeverHeard => f.write_str("it was never heard from: start the machine and look at its console"),
            Self::NotHeard(ago) => write!(
                f,
                "it was last heard from {} ago: is it up, does it reach the controller, is its clock right?",
                span(*ago)
            ),
            Self::NoCertificate => {
                f.write_str("it has no certificate yet: lucia-enrollment-worker pending says what the worker waits for")
            }
            Self::Lapsed(name, ago) => write!(
                f,
                "its certificate ended {} ago: it renews by itself while the worker allows that, beyond it luciactl \
                 release-lapse {name}",
                span(*ago)
            ),
            Self::NotRenewed(left) => write!(
                f,
                "its certificate has {} left and was to be renewed before: lucia-enrollment-worker status says whether it \
                 can sign",
                span(*left)
            ),
            Self::Directory(Some(said), _) => write!(f, "its directory: {said}"),
            Self::Directory(None, _) => {
                f.write_str("its directory failed and it does not say why: lucia-node-agent why on its console does")
            }
            Self::StorageFull(percent) => {
                write!(f, "its storage is {percent} % full: free some before it cannot write what it has to keep")
            }
            Self::MemoryFull(percent) => write!(f, "its memory is {percent} % taken: see on it what takes so much"),
            Self::Hot(celsius) => write!(f, "its processor has {celsius:.0} °C: look at its fans and its load"),
            Self::NoOrders(why) => f.write_str(why),
            Self::OtherName(name, other) => write!(
                f,
                "its machine calls itself {other}: if that was meant luciactl rename {name} {other}, else write {name} back \
                 into its /etc/hostname"
            ),
            Self::Renaming(renaming) => renaming.fmt(f),
            Self::Refused(why) => write!(f, "the worker refuses its certificate: {why}"),
        }
    }
}

impl Finding {
    /// In a few words, for a list: each that is told in a sentence is told there too, so that both count the same.
    #[must_use]
    pub fn short(&self) -> String {
        match self {
            Self::Barred(_) => "removed, its key is barred".to_owned(),
            Self::NeverHeard => "never heard from".to_owned(),
            Self::NotHeard(ago) => format!("last heard {} ago", span(*ago)),
            Self::NoCertificate => "no certificate yet".to_owned(),
            Self::Lapsed(..) => "its certificate lapsed".to_owned(),
            Self::NotRenewed(left) => format!("its certificate ends in {}", span(*left)),
            Self::Directory(_, true) => "its directory failed".to_owned(),
            Self::Directory(_, false) => "its directory waits".to_owned(),
            Self::NoOrders(_) => "takes no orders now".to_owned(),
            Self::OtherName(_, other) => format!("it calls itself {other}: rename it"),
            Self::Renaming(renaming) => renaming.short(),
            Self::Refused(_) => "the worker refuses its certificate".to_owned(),
            Self::StorageFull(percent) => format!("storage {percent} % full"),
            Self::MemoryFull(percent) => format!("memory {percent} % full"),
            Self::Hot(celsius) => format!("{celsius:.0} °C"),
        }
    }
}

/// How much of `total` is taken, in percent.
#[must_use]
pub fn taken(total: u64, available: u64) -> Option<u64> {
    let used = total.saturating_sub(available);
    used.saturating_mul(100).checked_div(total)
}

/// What is wrong with a node of a list, the most urgent first. `sample` is its newest numbers.
#[must_use]
pub fn findings(
    node: &NodeLine,
    directory: Option<&DirectoryReport>,
    sample: Option<&Sample>,
    now: UnixTime,
) -> Vec<Finding> {
    let mut found = Vec::new();
    match (node.state, node.last_seen_at) {
        // Whatever else is wrong with it follows from that, and no other cure helps.
        (SnapshotState::Barred, _) => return vec![Finding::Barred(node.hostname.clone())],
        (SnapshotState::Online, _) => (),
        (SnapshotState::AwaitingHeartbeat, _) if settles(node, now) => (),
        (SnapshotState::AwaitingHeartbeat, _) | (SnapshotState::Stale, None) => found.push(Finding::NeverHeard),
        (SnapshotState::Stale, Some(at)) => found.push(Finding::NotHeard(now.since(at))),
    }
    // Of a rename its own finding says so.
    let refused = node.refused.as_ref().filter(|_| node.rename_step.is_none());
    found.extend(refused.map(|why| Finding::Refused(shown(why.as_str()))));
    match node.certificate_expires_at.filter(|_| refused.is_none()) {
        None if refused.is_some() => (),
        None => found.push(Finding::NoCertificate),
        Some(until) if until <= now => found.push(Finding::Lapsed(node.hostname.clone(), now.since(until))),
        Some(until) if until.since(now) < CERTIFICATE_LOW => found.push(Finding::NotRenewed(until.since(now))),
        Some(_) => (),
    }
    let failed = node.directory == Some(DirectoryState::Failed);
    let said = directory.and_then(|report| report.message.as_ref()).map(|message| shown(message.as_str()));
    if failed || said.is_some() {
        found.push(Finding::Directory(said, failed));
    }
    if let Some(sample) = sample {
        let full = |share: Option<u64>| share.filter(|share| *share >= NEARLY_FULL);
        let storage = sample.storage_total_bytes.zip(sample.storage_available_bytes);
        found.extend(full(storage.and_then(|(total, left)| taken(total, left))).map(Finding::StorageFull));
        found.extend(full(taken(sample.memory_total_bytes, sample.memory_available_bytes)).map(Finding::MemoryFull));
        found.extend(sample.cpu_temperature_celsius.filter(|celsius| *celsius >= HOT).map(Finding::Hot));
    }
    found
}

/// Whether it has its certificate for so short a time that nobody need look at what is still to come.
fn settles(node: &NodeLine, now: UnixTime) -> bool {
    node.certificate_expires_at.is_some_and(|until| now.plus(LEAF_LIFETIME) < until.plus(SETTLES_WITHIN))
}

/// An order for a node that somebody refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedOrder {
    /// Which order.
    pub code: VerificationCode,
    /// What was ordered.
    pub kind: OrderKind,
    /// When it was refused.
    pub at: UnixTime,
    /// Why; its cure goes with the code.
    pub refused: OrderCode,
}

/// What a controller has of a node, as far as somebody may have to look at it.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// As it stands in the list.
    pub node: &'a NodeLine,
    /// How it stands to its directory.
    pub directory: Option<&'a DirectoryReport>,
    /// Its newest numbers.
    pub sample: Option<&'a Sample>,
    /// How it stands to orders.
    pub orders: Option<&'a OrdersHeld>,
}

/// Everything that is not as it should be with one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// What is wrong with it, the most urgent first.
    pub findings: Vec<Finding>,
    /// Orders for it that were refused, as the drafts come.
    pub refused: Vec<RefusedOrder>,
    /// Its identity was seen twice, and nobody decided yet.
    pub frozen: bool,
    /// Whether it could take an order now.
    pub orders: Readiness,
    /// Orders that it is handed with its next heartbeats; none while its identity is frozen.
    pub waiting: Vec<VerificationCode>,
}

impl Why {
    /// Judges what the controller has of a node, and what became of these orders for it.
    #[must_use]
    pub fn of(view: &NodeView, drafts: &[DraftLine]) -> Self {
        let (node, orders) = (&view.node, view.orders.as_ref());
        let known = Known { node, directory: view.directory.as_ref(), sample: view.samples.last(), orders };
        let refused = refused_orders(drafts).remove(&node.node_id).unwrap_or_default();
        Self::judged(&known, refused, view.server_time)
    }

    /// The same of what a list has of it; `refused` are its own of [`refused_orders`].
    #[must_use]
    pub fn judged(known: &Known<'_>, refused: Vec<RefusedOrder>, now: UnixTime) -> Self {
        let node = known.node;
        let orders = Readiness::of(known.orders, node.frozen, now);
        // Of one that is not heard from anything else is wrong first.
        let wrong = orders.wrong().filter(|_| {
            (known.orders.is_some() || node.state == SnapshotState::Online)
                && !(orders.settles_by_itself() && settles(node, now))
        });
        let name = node.new_hostname.clone().map(|other| Finding::OtherName(node.hostname.clone(), other));
        let name = Renaming::of(node).map(Finding::Renaming).or(name);
        let found = findings(node, known.directory, known.sample, now);
        Self {
            findings: found.into_iter().chain(wrong.map(Finding::NoOrders)).chain(name).collect(),
            orders,
            waiting: known.orders.filter(|_| !node.frozen).map(|held| held.waiting.clone()).unwrap_or_default(),
            refused,
            frozen: node.frozen,
        }
    }

    /// What it is about to be told, though nothing is wrong.
    #[must_use]
    pub fn pending(&self) -> Option<String> {
        let codes: Vec<&str> = self.waiting.iter().map(VerificationCode::as_str).collect();
        match codes.as_slice() {
            [] => None,
            [code] => Some(format!(
                "order {code} goes out with its next heartbeat, and what became of it comes with the one after"
            )),
            codes => Some(format!("orders {} go out with its next heartbeats, one with each", codes.join(", "))),
        }
    }

    /// What wants a look, in a few words each and the most urgent first; empty when nothing is wrong.
    #[must_use]
    pub fn looks(&self) -> Vec<String> {
        let frozen = self.frozen.then(|| "its identity was seen twice: decide".to_owned());
        let refused = match self.refused.len() {
            0 => None,
            1 => Some("an order was refused".to_owned()),
            count => Some(format!("{count} orders were refused")),
        };
        frozen.into_iter().chain(self.findings.iter().map(Finding::short)).chain(refused).collect()
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_well(&self) -> bool {
        self.findings.is_empty() && self.refused.is_empty() && !self.frozen
    }
}

/// What was refused of these orders, by the node it was refused at or for. That one came twice is no refusal, and neither
/// is that a later one holds.
#[must_use]
pub fn refused_orders(drafts: &[DraftLine]) -> BTreeMap<NodeId, Vec<RefusedOrder>> {
    let mut orders: BTreeMap<NodeId, Vec<RefusedOrder>> = BTreeMap::new();
    for draft in drafts {
        for outcome in &draft.outcomes {
            let refused = outcome.refused.filter(|code| !code.is_repeat() && !code.is_overtaken());
            let Some(refused) = refused else { continue };
            let order = RefusedOrder { code: draft.code.clone(), kind: draft.kind, at: outcome.at, refused };
            orders.entry(outcome.node_id.clone()).or_default().push(order);
        }
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(more: &str, about: &str) -> NodeView {
        let text = format!(
            r#"{{"serverTime":"2026-11-29T20:00:00Z","node":{{"nodeId":"{id}","hostname":"web-1",
            "verificationCode":"1a2b-3c4d-5e6f"{more}}},"fingerprint":"{id}{id}",
            "taskId":"00000000-0000-4000-8000-000000000000",
            "orders":{{"bundleVersion":1,"rosterVersion":5,"rosterNewest":5,"asks":false}}{about}}}"#,
            id = "1a2b3c4d5e6f00000000000000000000",
        );
        lucia_proto::base::json::from_str(&text, 1 << 16, 24).unwrap()
    }

    const NO_SAMPLES: &str = r#","samples":[]"#;
    const WELL: &str =
        r#","state":"Online","lastSeenAt":"2026-11-29T19:59:50Z","certificateExpiresAt":"2026-12-06T20:00:00Z""#;

    // spec: PG-30
    #[test]
    fn each_finding_says_what_cures_it_and_has_a_short_form() {
        let online = r#","state":"Online","lastSeenAt":"2026-11-29T19:59:50Z""#;
        let full = r#","samples":[{"at":"2026-11-29T19:59:50Z","memoryTotalBytes":100,"memoryAvailableBytes":9,
            "storageTotalBytes":100,"storageAvailableBytes":10,"cpuTemperatureCelsius":85.4}]"#;
        let spare = r#","samples":[{"at":"2026-11-29T19:59:50Z","memoryTotalBytes":100,"memoryAvailableBytes":11,
            "storageTotalBytes":100,"storageAvailableBytes":11,"cpuTemperatureCelsius":84.9}]"#;
        let waiting = r#","samples":[],"directory":{"state":"Waiting","message":"sssd starts"}"#;
        let mut shown = String::new();
        for (more, about, says) in [
            (WELL.to_owned(), NO_SAMPLES, vec![]),
            (WELL.to_owned(), spare, vec![]),
            (
                format!(r#"{online},"certificateExpiresAt":"2026-12-04T19:59:59Z""#),
                NO_SAMPLES,
                vec!["lucia-enrollment-worker status"],
            ),
            (
                format!(r#"{online},"certificateExpiresAt":"2026-11-29T19:00:00Z""#),
                NO_SAMPLES,
                vec!["luciactl release-lapse web-1"],
            ),
            (online.to_owned(), NO_SAMPLES, vec!["lucia-enrollment-worker pending"]),
            (
                r#","state":"Stale","lastSeenAt":"2026-11-29T19:00:00Z","certificateExpiresAt":"2026-12-06T20:00:00Z""#
                    .to_owned(),
                NO_SAMPLES,
                vec!["1 h 0 min"],
            ),
            (
                r#","state":"AwaitingHeartbeat","certificateExpiresAt":"2026-12-06T19:58:59Z""#.to_owned(),
                NO_SAMPLES,
                vec![""],
            ),
            (WELL.to_owned(), full, vec!["90 %", "91 %", "85 °C"]),
            (WELL.to_owned(), waiting, vec!["sssd starts"]),
            (format!(r#"{WELL},"newHostname":"web-2""#), NO_SAMPLES, vec!["luciactl rename web-1 web-2"]),
            (format!(r#"{WELL},"directory":"Failed""#), NO_SAMPLES, vec!["lucia-node-agent why"]),
        ] {
            let why = Why::of(&view(&more, about), &[]);
            let told: Vec<String> = why.findings.iter().map(ToString::to_string).collect();
            assert_eq!(told.len(), says.len(), "{told:?}");
            assert!(told.iter().zip(&says).all(|(told, says)| told.contains(says)), "{told:?}");
            assert_eq!((why.is_well(), why.looks().len()), (says.is_empty(), says.len()));
            for (short, told) in why.looks().iter().zip(&told) {
                shown.push_str(&format!("{short}\n    {told}\n"));
            }
        }
        expect_test::expect_file!["snapshots/why.txt"].assert_eq(&shown);
    }

    // spec: PG-30, PG-96
    #[test]
    fn orders_that_this_node_refused_are_told_and_repeats_are_not() {
        let node = "1a2b3c4d5e6f00000000000000000000";
        let draft = |outcomes: &str| -> DraftLine {
            let text = format!(
                r#"{{"code":"1a2b-3c4d-5e6f","intent":"{node}{node}","kind":"ssh-key","owner":"{node}","signers":[],
                "state":"refused","at":"2026-11-29T19:00:00Z","draftedBy":"owner:alice","outcomes":[{outcomes}]}}"#
            );
            lucia_proto::base::json::from_str(&text, 4096, 8).unwrap()
        };
        let outcome =
            |node: &str, refused: &str| format!(r#"{{"nodeId":"{node}","at":"2026-11-29T19:30:00Z"{refused}}}"#);
        let other = "0".repeat(32);
        for (outcomes, refused) in [
            (outcome(node, r#","refused":"kind_forbidden""#), Some(OrderCode::KindForbidden)),
            (outcome(node, r#","refused":"already_done""#), None),
            (outcome(node, r#","refused":"older_revision""#), None),
            (outcome(node, ""), None),
            (outcome(&other, r#","refused":"kind_forbidden""#), None),
        ] {
            let why = Why::of(&view(WELL, NO_SAMPLES), &[draft(&outcomes)]);
            assert_eq!(why.refused.iter().map(|order| order.refused).next(), refused, "{outcomes}");
            assert_eq!((why.is_well(), why.looks().is_empty()), (refused.is_none(), refused.is_none()));
        }
        assert_eq!((taken(100, 25), taken(0, 0), taken(1, 2)), (Some(75), None, Some(0)));
        let mut frozen = view(WELL, NO_SAMPLES);
        frozen.node.frozen = true;
        assert!(!Why::of(&frozen, &[]).is_well());
        assert_eq!(Why::of(&frozen, &[]).looks().len(), 1);
    }

    // spec: PG-113
    #[test]
    fn an_order_that_is_about_to_go_out_is_told_and_nothing_is_wrong_for_that() {
        let mut view = view(WELL, NO_SAMPLES);
        assert_eq!(Why::of(&view, &[]).pending(), None);
        let held = view.orders.as_mut().unwrap();
        held.waiting = vec!["1a2b-3c4d-5e6f".parse().unwrap()];
        let why = Why::of(&view, &[]);
        assert!(why.is_well() && why.pending().unwrap().contains("1a2b-3c4d-5e6f"));
        view.orders.as_mut().unwrap().waiting.push("0a2b-3c4d-5e6f".parse().unwrap());
        assert!(Why::of(&view, &[]).pending().unwrap().contains("1a2b-3c4d-5e6f, 0a2b-3c4d-5e6f"));
        // A frozen one is told of the decision alone.
        view.node.frozen = true;
        assert_eq!(Why::of(&view, &[]).pending(), None);
    }

    // spec: PG-84
    #[test]
    fn one_that_takes_no_order_is_not_well_and_why_is_told_last() {
        let mut view = view(WELL, NO_SAMPLES);
        assert_eq!((Why::of(&view, &[]).orders, Why::of(&view, &[]).is_well()), (Readiness::Before, true));
        view.orders.as_mut().unwrap().asks = true;
        view.node.certificate_expires_at = None;
        let findings = Why::of(&view, &[]).findings;
        let [Finding::NoCertificate, Finding::NoOrders(why)] = findings.as_slice() else { panic!("{findings:?}") };
        assert_eq!(Some(why), Readiness::Asks.wrong().as_ref());
        // An agent that says nothing of orders, and one that says nothing at all.
        view.orders = None;
        assert_eq!(Why::of(&view, &[]).findings.len(), 2);
        view.node.state = SnapshotState::AwaitingHeartbeat;
        let findings = Why::of(&view, &[]).findings;
        assert_eq!(findings, [Finding::NeverHeard, Finding::NoCertificate]);
    }
}
