use expect_test::expect_file;
use lucia_proto::base::ids::StartId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::{OrderCode, OrderId, OrderKind};
use lucia_proto::pki::key::{Fingerprint, VerificationCode};

use super::*;
use crate::host::run::{End, Run};
use crate::host::status::{Doing, OwnersStanding, Reason, Refusal};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

/// A daemon that runs and was heard 12 s ago.
fn facts(status: &Status) -> Facts<'_> {
    seen_at(status, NOW)
}

fn seen_at(status: &Status, now: UnixTime) -> Facts<'_> {
    Facts {
        status: Some(status),
        hot: true,
        holder: Some("managed-run"),
        boot: status.run.as_ref().map(|run| &run.boot_id),
        since_boot: Duration::from_secs(5000),
        now,
    }
}

fn heard() -> Status {
    let boot_id = "11111111-1111-4111-8111-111111111111".parse().unwrap();
    let run = Some(Run { boot_id, began: 100, heartbeat: Some(4988) });
    Status { doing: Doing::Heartbeating, heartbeats: 3, run, ..Status::default() }
}

fn refusal(call: &str, reason: Option<Reason>) -> Refusal {
    let (what, cure) = (format!("why {call} failed"), format!("what cures {call}"));
    Refusal { at: NOW, since: Some(NOW), call: call.to_owned(), reason, what, cure }
}

fn why(facts: Facts<'_>) -> String {
    sentence(&facts, &facts.health())
}

fn shown(facts: Facts<'_>) -> String {
    table(&facts, &facts.health())
}

// spec: AG-10
#[test]
fn why_is_one_sentence_with_the_cure_and_the_clock() {
    let mut status = heard();
    assert!(why(facts(&status)).contains("12 s"));
    status.clock_offset_seconds = Some(-400);
    assert!(why(facts(&status)).contains("6 min ahead") && why(facts(&status)).contains("timedatectl"));
    status.clock_offset_seconds = Some(5);
    let last = refusal("heartbeat", None);
    status.refusals.push(last.clone());
    let text = why(facts(&status));
    for part in [&last.call, &last.what, &last.cure, &NOW.to_string()] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("timedatectl") && !text.contains('\n') && text.ends_with('.'));
    let frozen = Status { frozen: true, ..heard() };
    assert!(why(facts(&frozen)).contains("luciactl clone split") && shown(facts(&frozen)).contains("frozen"));
}

/// Each with what is said of it.
fn views(states: &[(&str, Facts<'_>)], view: fn(Facts<'_>) -> String) -> String {
    let said = states.iter().map(|(name, facts)| format!("## {name}\n{}\n\n", view(*facts).trim_end()));
    said.collect::<String>().trim_end().to_owned() + "\n"
}

#[test]
fn all_that_why_says() {
    let doing = |doing| Status { doing, ..Status::default() };
    let refused = |call: &str, reason| Status { refusals: vec![refusal(call, reason)], ..heard() };
    let ended = |exit: Option<u8>, times| {
        let boot_id = heard().run.unwrap().boot_id;
        let end = End { boot_id, began: 100, at: Some(4997), exit, what: "what it said last".into(), times };
        Status { ended: Some(end), ..heard() }
    };
    let other_name = |standing| {
        let fleet = "web-1".parse().unwrap();
        let approved = (standing == OwnersStanding::Approved).then(|| "web-2".parse().unwrap());
        let machine = if standing == OwnersStanding::Invalid { "Web 2" } else { "web-2" };
        Status { other_name: Some(OtherName { machine: machine.into(), fleet, approved, standing }), ..heard() }
    };
    let lapsed = |status: Status| Status {
        doing: Doing::Lapsed,
        certificate_until: Some(NOW.minus(Duration::from_secs(86_400))),
        hostname: Some("web-1".parse().unwrap()),
        ..status
    };
    let ordered = |owners: OwnersStatus| Status { owners: Some(owners), ..heard() };
    let message = "what the directory said".parse().ok();
    let directory = Some(DirectoryReport { state: DirectoryState::Failed, message });
    let restarted = Run { began: 4999, ..heard().run.unwrap() };
    let silent = Run { heartbeat: Some(4000), ..heard().run.unwrap() };
    // What is so while the daemon runs.
    let running = [
        ("healthy", heard()),
        ("healthy, the last order refused", ordered(owners())),
        ("clock skew", Status { clock_offset_seconds: Some(-400), ..heard() }),
        ("heartbeats are refused", refused("heartbeat", None)),
        (
            "heartbeats are refused, clock skew",
            Status { clock_offset_seconds: Some(400), ..refused("heartbeat", None) },
        ),
        ("calls fail for the clock", refused("heartbeat", Some(Reason::Clock))),
        ("the renewal is refused", refused("renew", Some(Reason::Worker))),
        ("no heartbeat is accepted", Status { run: Some(silent), ..heard() }),
        ("frozen", Status { frozen: true, ..heard() }),
        ("frozen, its memory lost", Status { frozen: true, first_start: true, ..heard() }),
        ("waits for its certificate", doing(Doing::AwaitingCertificate)),
        ("waits for its first heartbeat", doing(Doing::Certified)),
        ("waits for the directory", doing(Doing::AwaitingDirectory)),
        ("its certificate expired", lapsed(heard())),
        ("its certificate expired, the worker refuses", lapsed(refused("renew", Some(Reason::Worker)))),
        ("its certificate expired, the renewal fails", lapsed(refused("renew", None))),
        ("the directory failed", Status { directory, ..heard() }),
        ("its name is invalid", other_name(OwnersStanding::Invalid)),
        ("another name", other_name(OwnersStanding::Reported)),
        ("another name, approved", other_name(OwnersStanding::Approved)),
        ("the worker never answered", ordered(OwnersStatus { answered_at: None, ..owners() })),
        ("the worker answered long ago", ordered(OwnersStatus { taken_until: Some(NOW), ..owners() })),
        ("just restarted", Status { run: Some(restarted), ..ended(Some(1), 3) }),
    ];
    // And while it does not, ended or not begun.
    let ended = [
        ("stopped", ended(Some(0), 1)),
        ("ended for good", ended(Some(13), 1)),
        ("ended for a while", ended(Some(1), 2)),
        ("ended without a word", ended(None, 2)),
        ("killed", heard()),
        ("not since the boot", Status { run: None, ..heard() }),
        ("waits for approval", doing(Doing::AwaitingApproval)),
        ("may install", doing(Doing::Granted)),
        ("staged", doing(Doing::Staged)),
        ("has a new key", doing(Doing::Rekeyed)),
        ("an owner stopped it", doing(Doing::Stopped)),
        ("an owner removed it", doing(Doing::Removed)),
    ];
    let mut states: Vec<_> = running.iter().map(|(name, status)| (*name, facts(status))).collect();
    states.extend(ended.iter().map(|(name, status)| {
        let hot = *name != "not since the boot";
        (*name, Facts { holder: None, hot, ..facts(status) })
    }));
    states.push(("never started", Facts { status: None, holder: None, ..facts(&running[0].1) }));
    expect_file!["snapshots/why.txt"].assert_eq(&views(&states, why));
}

#[test]
fn all_that_status_shows() {
    let fingerprint: Fingerprint = "ab".repeat(32).parse().unwrap();
    let whole = Status {
        node_id: Some(fingerprint.node_id()),
        verification_code: Some(fingerprint.verification_code()),
        hostname: Some("web-1".parse().unwrap()),
        controller: Some("10.0.0.1 port 8443 as controller.lucia.home.arpa".into()),
        certificate_until: Some(NOW.plus(Duration::from_secs(6 * 86_400))),
        last_heartbeat: Some(NOW.minus(Duration::from_secs(12))),
        start_id: Some(StartId::from_random([8; 16])),
        directory: Some(DirectoryReport { state: DirectoryState::Ready, message: None }),
        ssh_accounts: Some(3),
        ssh_unsigned: 2,
        clock_offset_seconds: Some(-10),
        owners: Some(owners()),
        ..heard()
    };
    let refusals = vec![refusal("heartbeat", None), refusal("keys", None)];
    let frozen = Status { frozen: true, refusals, ..whole.clone() };
    let with = |change: fn(&mut OwnersStatus)| {
        let mut owners = owners();
        change(&mut owners);
        Status { owners: Some(owners), ..heard() }
    };
    let states = [
        ("healthy", whole),
        ("frozen, with refusals", frozen),
        (
            "the policy cannot be read",
            with(|owners| (owners.policy_refused, owners.rules) = (Some("why not".into()), Vec::new())),
        ),
        ("the worker never answered", with(|owners| owners.answered_at = None)),
        ("the roster is not believed", with(|owners| owners.believed = false)),
        ("without a roster", with(|owners| *owners = OwnersStatus::default())),
    ];
    let states: Vec<_> = states.iter().map(|(name, status)| (*name, facts(status))).collect();
    expect_file!["snapshots/status.txt"].assert_eq(&views(&states, shown));
}

/// Whatever kind of row: its value begins where all others do.
#[track_caller]
fn assert_in_one_column(text: &str) {
    let value = |line: &str| line.find("  ").map(|end| line.len() - line[end..].trim_start().len());
    let columns: std::collections::BTreeSet<_> = text.lines().map(value).collect();
    assert_eq!(columns.len(), 1, "{text}");
}

/// Two owners, and two orders: one carried out, one refused.
fn owners() -> OwnersStatus {
    let seen = |text: &str, refused| OrderSeen { code: code(text), kind: Some(OrderKind::SshKey), at: NOW, refused };
    OwnersStatus {
        roster_version: 5,
        believed: true,
        owners: vec!["alice".parse().unwrap(), "bob".parse().unwrap()],
        decide: true,
        answered_at: Some(NOW),
        taken_until: Some(NOW.plus(Duration::from_secs(24 * 3600))),
        rules: vec![(OrderKind::SshKey, Rule::Allow), (OrderKind::RemoveIdentity, Rule::TwoOwners)],
        policy_refused: None,
        orders: vec![seen("a", None), seen("b", Some(OrderCode::NoFreshness))],
    }
}

fn code(text: &str) -> VerificationCode {
    OrderId::of(text).code()
}

// spec: AO-18
// spec: AO-41
// spec: AO-101
// spec: AO-401, AO-402
#[test]
fn status_and_why_say_who_may_order_and_what_became_of_it() {
    let mut owners = owners();
    let status = |owners: &OwnersStatus| Status {
        owners: Some(owners.clone()),
        clock_offset_seconds: Some(-10),
        ssh_unsigned: 2,
        ssh_removed: ["bob", "carol"].map(str::to_owned).into(),
        ..heard()
    };
    let now = NOW.plus(Duration::from_secs(3 * 3600 + 130));
    let (done, refused) = (code("a").to_string(), code("b").to_string());
    let text = shown(seen_at(&status(&owners), now));
    for part in [
        "alice, bob",
        "2 accounts",
        "luciactl keys",
        "of bob, carol",
        "3 h 2 min",
        "ssh-key allow, remove-identity two-owners",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let row = |code: &str| text.lines().find(|line| line.contains(code)).unwrap();
    for (code, is_refused) in [(&done, false), (&refused, true)] {
        let row = row(code);
        assert!(row.contains("ssh-key") && row.contains(&NOW.to_string()), "{row}");
        assert_eq!(
            (row.contains("no_freshness"), row.contains(OrderCode::NoFreshness.cure())),
            (is_refused, is_refused)
        );
    }
    assert_in_one_column(&text);
    let newest = |owners: &OwnersStatus| (facts(&status(owners)).health().healthy, why(facts(&status(owners))));
    let (healthy, text) = newest(&owners);
    assert!(healthy && text.contains(&refused) && text.contains("no_freshness"), "{text}");
    assert!(text.contains("bob, carol") && text.contains("luciactl keys add"), "{text}");
    owners.orders.pop();
    let (healthy, text) = newest(&owners);
    assert!(healthy && !text.contains(&refused) && !text.contains(&done), "{text}");
    // The day is over, by the controller's clock.
    let worker = "lucia-enrollment-worker status";
    let until = owners.taken_until.unwrap();
    assert!(shown(seen_at(&status(&owners), now)).contains(&until.to_string()));
    for (offset, over) in [(-10, false), (0, true), (3600, true), (-3600, false)] {
        let late = Status { clock_offset_seconds: Some(offset), ..status(&owners) };
        let late = seen_at(&late, until);
        assert_eq!(late.causes().contains(&Cause::WorkerTime), over, "{offset}");
        let (why, table) = (why(late), shown(late));
        assert_eq!((why.contains(worker), table.contains(worker)), (over, over), "{offset}: {why}");
        assert_eq!(table.contains(&until.to_string()), !over, "{offset}: {table}");
    }
    let policy = "/etc/lucia/agent-policy.toml";
    assert!(!shown(seen_at(&status(&owners), now)).contains(policy));
    (owners.policy_refused, owners.answered_at) = (Some("it is\u{1b}[2J a link".into()), None);
    owners.rules.clear();
    let text = shown(seen_at(&status(&owners), now));
    assert!(text.contains(policy) && !text.contains("ssh-key allow") && !text.contains('\u{1b}'), "{text}");
    assert!(text.contains(worker), "{text}");
    assert_eq!(facts(&status(&owners)).health().cause, Cause::WorkerTime);
    assert!(why(facts(&status(&owners))).contains(worker));
    let json = lucia_proto::base::json::to_string(&OwnersStatus { answered_at: Some(NOW), ..owners.clone() }).unwrap();
    assert!(json.contains("\"answeredAt\"") && json.contains("\"takenUntil\""), "{json}");
    // A roster that nobody vouches for names no owner.
    owners.believed = false;
    let text = shown(seen_at(&status(&owners), now));
    let roster = |text: &str| text.lines().find(|line| line.starts_with("roster")).unwrap().to_owned();
    assert!(roster(&text).contains('5') && !text.contains("alice"), "{text}");
    owners.roster_version = 0;
    let text = shown(seen_at(&status(&owners), now));
    assert!(!roster(&text).contains('5') && !text.contains("alice"), "{text}");
    for doing in [Doing::Stopped, Doing::Removed] {
        let ended = Status { doing, ..Status::default() };
        assert!(why(facts(&ended)).contains("lucia-node-agent"), "{doing:?}");
    }
}

#[test]
fn the_table_leaves_out_what_is_not_known() {
    let text = shown(facts(&Status::default()));
    let names: Vec<_> = text.lines().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(names, ["health", "state"]);
}
