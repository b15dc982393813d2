//! Each part on its own directory and the parts before it, and nothing else.

use std::sync::Arc;

use lucia_people::host_api::Minutes;
use lucia_proto::base::acts::Act;
use lucia_proto::base::time::{Clock, ManualClock, UnixTime};
use lucia_proto::test_support::TestCa;

use super::bench::{Scratch, config};
use crate::bridge::owners::OwnerQueue;
use crate::bridge::queue::Queue;
use crate::parts::{
    Audit, AuditedChange, By, Challenges, Enrollment, Fleet, Keeper, Orders, People, Verifier, read_root,
};
use crate::store::audit_log::AuditLog;
use crate::store::drafts::DraftFiles;
use crate::store::journal_file::JournalFile;
use crate::store::layout::Layout;
use crate::store::records::Records;

// spec: PA-400
#[test]
fn each_part_opens_and_answers_with_only_the_parts_before_it() {
    let scratch = Scratch::new();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(UnixTime::from_secs(1_795_982_400)));
    std::fs::write(scratch.path().join("root.pem"), TestCa::new(clock.now()).root_pem()).unwrap();
    let config = config(scratch.path(), "");
    let layout = Layout::open(&config).unwrap();
    let challenges = Arc::new(Challenges::new(&[7; 32], config.source_binding, Arc::clone(&clock)));
    let verifier = Arc::new(Verifier::new(read_root(&config.root_file).unwrap()).unwrap());

    let (file, journal) = JournalFile::open(layout.onboarding).unwrap();
    let journal = Arc::new(Keeper::new(file, journal));
    assert!(journal.is_ours() && journal.writes());

    let owner_queue = Arc::new(OwnerQueue::new(layout.owner_requests, layout.owner_responses));
    let log = AuditLog::open(layout.audit, clock.now()).unwrap();
    let audit = Arc::new(Audit::new(Arc::clone(&clock), Arc::clone(&journal), Arc::clone(&owner_queue), log));
    let act = AuditedChange::new(Act::WindowClosed, None);
    audit.audited(&By::Operator(0), &act, || Ok(())).unwrap();
    assert_eq!(audit.size().0, 1);

    let below = (Arc::clone(&clock), Arc::clone(&challenges), Arc::clone(&verifier), Arc::clone(&journal));
    let fleet = Arc::new(Fleet::open(below.clone(), Records::new(layout.identities)).unwrap());
    assert_eq!(fleet.lines(clock.now()), []);

    let dir = Arc::new(layout.orders);
    let people = People::open(
        (Arc::clone(&clock), challenges, Arc::clone(&verifier)),
        (Arc::clone(&audit), Arc::clone(&fleet)),
        (Arc::clone(&owner_queue), Arc::clone(&dir)),
        (layout.passkeys, layout.tokens),
    );
    let people = Arc::new(people.unwrap());
    people.tick();
    assert!(people.verified_roster().is_none());

    let queue = Queue::new(layout.requests, layout.removals, layout.responses);
    let settings = (config.names.clone(), config.limits);
    let enrollment = Arc::new(Enrollment::open(below, Arc::clone(&fleet), settings, queue).unwrap());
    enrollment.open_window(Minutes::new(5).unwrap(), "operator:0").unwrap();
    assert!(enrollment.onboarding().window_expires_at.is_some());

    let parts = (audit, fleet, people, enrollment);
    let orders = Orders::open((clock, verifier, journal), parts, owner_queue, DraftFiles::new(dir)).unwrap();
    orders.tick();
    assert_eq!(orders.drafts(None).unwrap().drafts, []);
}
