//! The controller's audit, as far as it was seen.

use lucia_proto::base::digest::Digest;
use lucia_proto::files::audit_chain::AuditChain;
use lucia_proto::files::owner_queue::OwnerFile;

use super::{NOW, Story};
use crate::audit::{AuditWentBack, next};
use crate::fixture::secs;

const HOUR: u64 = 3600;

impl Story {
    fn anchored(&self) -> Vec<u64> {
        self.ledger().anchors().iter().map(|seen| seen.chain.entries).collect()
    }
}

// spec: OA-41
#[test]
fn once_an_hour_the_ledger_has_how_far_the_audit_reaches_and_no_less_than_before() {
    let story = Story::new("");
    let turn = |at: u64| story.turn(NOW.plus(secs(at))).problems;
    turn(0);
    assert!(story.anchored().is_empty(), "nobody said anything");
    story.controller.audit_head(0, "");
    turn(0);
    assert!(story.anchored().is_empty(), "of nothing there is nothing to cut off");
    story.controller.audit_head(7, "seven");
    assert!(turn(0).is_empty());
    // The same again, and news too early.
    turn(2 * HOUR);
    assert_eq!(story.anchored(), [7]);
    story.controller.audit_head(9, "nine");
    turn(2 * HOUR);
    story.controller.audit_head(12, "twelve");
    turn(3 * HOUR - 1);
    assert_eq!(story.anchored(), [7, 9]);
    turn(3 * HOUR);
    assert_eq!(story.anchored(), [7, 9, 12]);
    let last = story.ledger().anchors().last().unwrap();
    assert_eq!((last.chain.head, last.at, last.accepted), (Digest::of(b"twelve"), NOW.plus(secs(3 * HOUR)), false));
    // One that went back, and one that was rewritten, are told of and not taken, whenever that is.
    for (entries, line, is_rewritten) in [(11, "eleven", false), (12, "another", true)] {
        story.controller.audit_head(entries, line);
        let says = AuditChain { entries, head: Digest::of(line.as_bytes()) };
        let why = next(&story.ledger(), says, NOW).unwrap_err();
        assert_eq!(matches!(why, AuditWentBack::Other { .. }), is_rewritten, "{why:?}");
        let said = crate::chain(&why);
        assert!(said.contains("audit accept"), "{said}");
        for at in [3 * HOUR + 5, 30 * HOUR] {
            assert!(turn(at).contains(&said));
        }
        assert!(crate::status::status(&story.config(), NOW).acts.contains(&said));
    }
    // What is no such file is none, and holds up nothing.
    for bytes in [&b"{}"[..], b"", br#"{"schemaVersion":1,"chain":{"entries":99,"head":"00"}}"#, &[b' '; 2000]] {
        story.controller.put_owner(&OwnerFile::AuditHead, bytes);
        assert!(turn(40 * HOUR).is_empty());
    }
    assert_eq!(story.anchored(), [7, 9, 12]);
    story.controller.audit_head(13, "thirteen");
    assert!(turn(40 * HOUR).is_empty());
    assert_eq!(story.anchored(), [7, 9, 12, 13]);
}

// spec: OA-41
#[test]
fn a_crash_at_each_step_anchors_once() {
    let prepared = Story::new("");
    prepared.controller.audit_head(7, "seven");
    prepared.turn(NOW);
    prepared.controller.audit_head(8, "eight");
    let later = NOW.plus(secs(HOUR));
    let steps = prepared.steps(later).len();
    assert!(steps > 5, "{steps}");
    for nth in 0..steps {
        let story = prepared.dies_at(nth, later);
        assert!(story.turn(later).problems.is_empty(), "{nth}");
        assert_eq!(story.anchored(), [7, 8], "{nth}");
        let want = AuditChain { entries: 8, head: Digest::of(b"eight") };
        assert_eq!(story.ledger().anchors().last().unwrap().chain, want, "{nth}");
    }
}
