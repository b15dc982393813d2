use super::*;
use crate::host::status::{FROZEN, FROZEN_WITHOUT_MEMORY, OwnersStatus};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);
const SINCE_BOOT: u64 = 100_000;

fn boot(digit: char) -> BootId {
    format!("{}-0000-4000-8000-000000000000", digit.to_string().repeat(8)).parse().unwrap()
}

fn facts<'a>(status: &'a Status, holder: Option<&'a str>, boot: &'a BootId) -> Facts<'a> {
    let since_boot = Duration::from_secs(SINCE_BOOT);
    Facts { status: Some(status), hot: true, holder, boot: Some(boot), since_boot, now: NOW }
}

/// A daemon of boot `a` that began long ago and was heard 12 s ago.
fn well() -> Status {
    let run = Run { boot_id: boot('a'), began: 10, heartbeat: Some(SINCE_BOOT - 12) };
    Status { doing: Doing::Heartbeating, heartbeats: 3, run: Some(run), ..Status::default() }
}

fn refusal(call: &str, reason: Option<Reason>) -> Refusal {
    let (what, cure) = (format!("{call} was refused"), format!("cure of {call}"));
    Refusal { at: NOW, since: Some(NOW), call: call.to_owned(), reason, what, cure }
}

fn end(began: u64, exit: Option<u8>) -> End {
    End { boot_id: boot('a'), began, at: Some(SINCE_BOOT - 3), exit, what: "it said so".into(), times: 2 }
}

/// What counts of several: each line before all below it.
const ORDER: [Cause; 20] = [
    Cause::Removed,
    Cause::Stopped,
    Cause::NeverStarted,
    Cause::Onboarding,
    Cause::NotRunning,
    Cause::Restarting,
    Cause::Clock,
    Cause::CertificateEnded,
    Cause::Enrollment,
    Cause::Heartbeat,
    Cause::Silent,
    Cause::Frozen,
    Cause::Renewal,
    Cause::HeldUp,
    Cause::Waiting,
    Cause::Directory,
    Cause::OtherName,
    Cause::WorkerTime,
    Cause::ClockSkew,
    Cause::Healthy,
];

// spec: AG-282
#[test]
fn of_any_two_causes_one_counts_whatever_order_they_come_in() {
    for (at, one) in ORDER.iter().enumerate() {
        for (to, two) in ORDER.iter().enumerate() {
            let want = ORDER[at.min(to)];
            assert_eq!(first(&[*one, *two]), want, "{one:?} and {two:?}");
        }
    }
    assert_eq!(first(&[]), Cause::Healthy);
}

/// Makes a cause so, beside whatever else is so.
fn befall(status: &mut Status, cause: Cause) {
    let refuse = |status: &mut Status, call, reason| {
        status.refusals.retain(|last: &Refusal| last.call != call);
        status.refusals.push(refusal(call, reason));
    };
    match cause {
        Cause::Restarting => {
            status.run = Some(Run { boot_id: boot('a'), began: SINCE_BOOT - 1, heartbeat: Some(SINCE_BOOT - 12) });
            status.ended = Some(end(SINCE_BOOT - 8, Some(1)));
        }
        Cause::Clock => refuse(status, "directory", Some(Reason::Clock)),
        Cause::CertificateEnded => status.certificate_until = Some(NOW.minus(Duration::from_secs(1))),
        Cause::Enrollment => refuse(status, "enroll", None),
        Cause::Heartbeat => refuse(status, "heartbeat", Some(Reason::Identity)),
        Cause::Silent => {
            if let Some(run) = &mut status.run {
                run.heartbeat = Some(SINCE_BOOT - 91);
            }
        }
        Cause::Frozen => status.frozen = true,
        Cause::Renewal => refuse(status, "renew", Some(Reason::Worker)),
        Cause::HeldUp => refuse(status, "keys", None),
        Cause::Directory => {
            let message = "sssd".parse().ok();
            status.directory =
                Some(lucia_proto::node::heartbeat::DirectoryReport { state: DirectoryState::Failed, message });
        }
        Cause::OtherName => {
            let (fleet, standing) = ("web-1".parse().unwrap(), crate::host::status::OwnersStanding::Invalid);
            status.other_name = Some(OtherName { machine: "Web".into(), fleet, approved: None, standing });
        }
        Cause::WorkerTime => status.owners = Some(OwnersStatus { roster_version: 1, ..OwnersStatus::default() }),
        Cause::ClockSkew => status.clock_offset_seconds = Some(31),
        other => panic!("{other:?} is not made so beside others"),
    }
}

// spec: AG-282
#[test]
fn of_any_two_things_that_are_so_the_first_is_shown() {
    use Cause::{
        CertificateEnded, Clock, ClockSkew, Directory, Enrollment, Frozen, Heartbeat, HeldUp, OtherName, Renewal,
        Restarting, Silent, WorkerTime,
    };
    let all = [
        Restarting,
        Clock,
        CertificateEnded,
        Enrollment,
        Heartbeat,
        Silent,
        Frozen,
        Renewal,
        HeldUp,
        Directory,
        OtherName,
        WorkerTime,
        ClockSkew,
    ];
    let boot = boot('a');
    for (at, one) in all.into_iter().enumerate() {
        for two in &all[at..] {
            for turned in [false, true] {
                let mut status = well();
                let (former, later) = if turned { (*two, one) } else { (one, *two) };
                befall(&mut status, former);
                befall(&mut status, later);
                let health = facts(&status, Some(DAEMON), &boot).health();
                assert_eq!(health.cause, one, "{one:?} and {two:?}: {}", health.message);
                assert!(!health.healthy && !health.message.is_empty(), "{one:?}");
                // The daemon that does not run comes before all of it.
                let health = facts(&status, None, &boot).health();
                assert_eq!((health.cause, health.healthy), (Cause::NotRunning, false), "{one:?} and {two:?}");
            }
        }
    }
    let health = facts(&well(), Some(DAEMON), &boot).health();
    assert_eq!((health.cause, health.healthy, health.heartbeat_age_seconds), (Cause::Healthy, true, Some(12)));
}

// spec: AG-282
#[test]
fn a_run_that_just_began_may_still_ask_for_the_workers_time() {
    let boot = boot('a');
    for (began, healthy) in [(SINCE_BOOT - 119, true), (SINCE_BOOT - 120, false)] {
        let mut status = well();
        befall(&mut status, Cause::WorkerTime);
        status.run = Some(Run { boot_id: boot.clone(), began, heartbeat: Some(SINCE_BOOT - 12) });
        assert_eq!(facts(&status, Some(DAEMON), &boot).health().healthy, healthy, "{began}");
    }
}

/// A node that was suspended for long: its heartbeats were refused with the identity, and its certificate has ended since.
// spec: AG-283
#[test]
fn an_ended_certificate_makes_its_renewal_count_and_no_cure_gives_the_key_away() {
    let boot = boot('a');
    for doing in [Doing::Lapsed, Doing::Heartbeating] {
        for renewal in [None, Some(refusal("renew", Some(Reason::Worker)))] {
            let mut status = Status {
                doing,
                certificate_until: Some(NOW.minus(Duration::from_secs(40 * 86_400))),
                hostname: Some("web-1".parse().unwrap()),
                refusals: vec![Refusal {
                    cure: "lucia-node-agent rekey".into(),
                    ..refusal("heartbeat", Some(Reason::Identity))
                }],
                ..well()
            };
            status.refusals.extend(renewal);
            let facts = facts(&status, Some(DAEMON), &boot);
            let health = facts.health();
            assert_eq!(health.cause, Cause::CertificateEnded);
            let cure = health.cure.unwrap();
            assert!(cure.contains("release-lapse web-1") && !cure.contains("rekey"), "{cure}");
            assert!(refusals(&status, true).iter().all(|last| last.call != "heartbeat"), "nor does the table show it");
        }
    }
    // What is answered to the renewal itself counts.
    let refusals = vec![refusal("renew", None), refusal("heartbeat", None)];
    let status = Status { doing: Doing::Lapsed, refusals, ..well() };
    assert_eq!(facts(&status, Some(DAEMON), &boot).health().cure, Some(refusal("renew", None).cure));
}

// spec: CL-282
#[test]
fn a_frozen_machine_says_whether_its_memory_was_lost() {
    let boot = boot('a');
    for (first_start, words) in [(true, FROZEN_WITHOUT_MEMORY), (false, FROZEN)] {
        let status = Status { frozen: true, first_start, ..well() };
        let health = facts(&status, Some(DAEMON), &boot).health();
        assert_eq!((health.cause, health.message), (Cause::Frozen, upper(words)));
        assert_eq!(words.contains("starts.json"), first_start);
        assert!(words.contains("luciactl clone keep") && words.contains("luciactl clone split"));
    }
}

// spec: AG-284
#[test]
fn a_clock_that_was_put_back_is_what_is_blamed() {
    let boot = boot('a');
    let mut status = well();
    let mut last = refusal("heartbeat", Some(Reason::Clock));
    let to_come = NOW.plus(Duration::from_secs(86_400));
    last.since = Some(to_come);
    status.refusals = vec![last, refusal("directory", None)];
    for (offset, says) in [(Some(3 * 86_400), "3 d 0 h behind".to_owned()), (None, NOW.to_string())] {
        status.clock_offset_seconds = offset;
        let health = facts(&status, Some(DAEMON), &boot).health();
        assert_eq!(health.cause, Cause::Clock);
        assert!(health.message.contains(&says), "{}", health.message);
        assert!(!health.message.contains(&to_come.to_string()), "{}", health.message);
        assert!(health.cure.unwrap().contains("timedatectl"));
    }
    // Nothing failed for it yet.
    let status = Status { clock_offset_seconds: Some(-400), ..well() };
    let health = facts(&status, Some(DAEMON), &boot).health();
    assert_eq!((health.cause, health.healthy), (Cause::ClockSkew, false));
    assert!(health.message.contains("6 min ahead"), "{}", health.message);
}

// spec: AG-281
#[test]
fn a_daemon_that_does_not_run_says_how_it_ended() {
    let (here, other) = (boot('a'), boot('b'));
    let with = |ended| Status { ended, ..well() };
    // The exit that counts as this run's, whether it ran in this boot, and what the message has of both.
    type Exited = Option<Option<u8>>;
    let rows: [(Status, &BootId, Exited, bool, &[&str]); 6] = [
        (with(Some(end(10, Some(0)))), &here, Some(Some(0)), true, &["3 s"]),
        (with(Some(end(10, Some(13)))), &here, Some(Some(13)), true, &["13", "3 s", "2 times", "it said so"]),
        (with(Some(end(10, None))), &here, Some(None), true, &["2 times", "it said so"]),
        (with(None), &here, None, true, &[]),
        // The end of an earlier run: this one left no word.
        (with(Some(end(5, Some(0)))), &here, None, true, &[]),
        (with(Some(end(10, Some(0)))), &other, None, false, &[]),
    ];
    for (nth, (status, boot, exited, ran, parts)) in rows.iter().enumerate() {
        let facts = facts(status, None, boot);
        assert_eq!((facts.ended().map(|end| end.exit), facts.run().is_some()), (*exited, *ran), "{nth}");
        let health = facts.health();
        assert_eq!((health.cause, health.running), (Cause::NotRunning, false), "{nth}");
        assert!(parts.iter().all(|part| health.message.contains(part)), "{nth}: {}", health.message);
        assert!(*ran || !health.message.contains("it said so"), "{nth}: {}", health.message);
        // Whoever was killed or crashed has no words but those in the log.
        let cure = health.cure.unwrap();
        let without_a_word = matches!((exited, ran), (Some(None), _) | (None, true));
        assert_eq!(cure.contains("journalctl -u lucia-node-agent"), without_a_word, "{nth}: {cure}");
        assert!(cure.contains("systemctl start lucia-node-agent"), "{nth}: {cure}");
        // Another verb that holds the directory is no daemon.
        assert_eq!(Facts { holder: Some("discover"), ..facts }.health().cause, Cause::NotRunning);
    }
    let status = well();
    let health = facts(&status, None, &here).health();
    assert!(health.heartbeat_age_seconds == Some(12) && health.message.contains("12 s"), "{}", health.message);
    // The copy that outlives a reboot.
    let status = Status { run: None, ..well() };
    let (hot, cold) = (facts(&status, None, &here), Facts { hot: false, ..facts(&status, None, &here) });
    assert_eq!((hot.health().cause, cold.health().cause), (Cause::NotRunning, Cause::NotRunning));
    assert_ne!(hot.health().message, cold.health().message);
    for (doing, cause) in [
        (Doing::Removed, Cause::Removed),
        (Doing::Stopped, Cause::Stopped),
        (Doing::Granted, Cause::Onboarding),
        (Doing::Rekeyed, Cause::Onboarding),
        (Doing::AwaitingCertificate, Cause::NotRunning),
    ] {
        let status = Status { doing, ended: Some(end(10, Some(15))), ..well() };
        assert_eq!(facts(&status, None, &here).health().cause, cause, "{doing:?}");
    }
    let nothing = Facts { status: None, hot: false, ..facts(&status, None, &here) };
    assert_eq!(nothing.health().cause, Cause::NeverStarted);
}
