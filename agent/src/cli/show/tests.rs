use lucia_proto::time::UnixTime;

use super::*;
use crate::host::run::Run;
use crate::host::status::{Doing, Refusal};

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
    assert_eq!(why(facts(&status)), "Healthy: last heartbeat accepted 12 s ago.");
    status.clock_offset_seconds = Some(-400);
    assert!(why(facts(&status)).contains("6 min ahead of the controller's"));
    status.clock_offset_seconds = Some(5);
    status.refusals.push(Refusal {
        at: UnixTime::EPOCH,
        since: Some(UnixTime::EPOCH),
        call: "heartbeat".into(),
        reason: None,
        what: "something other than the controller answered (HTTP 502)".into(),
        cure: "look for a proxy".into(),
    });
    let text = why(facts(&status));
    assert!(text.starts_with("heartbeat is held up since 1970-01-01T00:00:00Z: "), "{text}");
    assert!(text.contains("something other than the controller answered") && text.contains("look for a proxy"));
    assert!(!text.contains("clock") && !text.contains('\n') && text.ends_with('.'));
    let frozen = Status { frozen: true, ..heard() };
    let text = why(facts(&frozen));
    assert!(text.starts_with("This identity is frozen: ") && text.contains("luciactl clone split"), "{text}");
    assert!(shown(facts(&frozen)).contains("the identity is frozen"));
    let waiting = Status { doing: Doing::AwaitingCertificate, ..Status::default() };
    assert_eq!(why(facts(&waiting)), "Waiting for certificate.");
}

/// Whatever kind of row: its value begins where all others do.
#[track_caller]
fn assert_in_one_column(text: &str) {
    let value = |line: &str| line.find("  ").map(|end| line.len() - line[end..].trim_start().len());
    let columns: std::collections::BTreeSet<_> = text.lines().map(value).collect();
    assert_eq!(columns.len(), 1, "{text}");
}

// spec: AO-18
// spec: AO-41
// spec: AO-101
#[test]
fn status_and_why_say_who_may_order_and_what_became_of_it() {
    use lucia_proto::intent::{IntentCode, IntentId, IntentKind};

    let at = UnixTime::from_secs(1_795_982_400);
    let seen = |text: &str, refused| OrderSeen {
        code: IntentId::of(text).code(),
        kind: Some(IntentKind::SshKey),
        at,
        refused,
    };
    let mut owners = OwnersStatus {
        roster_version: 5,
        believed: true,
        owners: vec!["alice".parse().unwrap(), "bob".parse().unwrap()],
        decide: true,
        answered_at: Some(at),
        taken_until: Some(at.plus(Duration::from_secs(24 * 3600))),
        rules: vec![(IntentKind::SshKey, Rule::Allow), (IntentKind::RemoveIdentity, Rule::TwoOwners)],
        policy_refused: None,
        orders: vec![seen("a", None), seen("b", Some(IntentCode::NoFreshness))],
    };
    let status = |owners: &OwnersStatus| Status {
        owners: Some(owners.clone()),
        clock_offset_seconds: Some(-10),
        ssh_unsigned: 2,
        ..heard()
    };
    let now = at.plus(Duration::from_secs(3 * 3600 + 130));
    let text = shown(seen_at(&status(&owners), now));
    for part in [
        "5; owners alice, bob",
        "owners alone",
        "of 2 accounts, from before owners decided",
        "3 h 2 min ago",
        "ssh-key allow, remove-identity two-owners",
        &format!("{} ssh-key at {at}: carried out", IntentId::of("a").code()),
        &format!("{} ssh-key at {at}: refused, no_freshness; to cure it: wait", IntentId::of("b").code()),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_in_one_column(&text);
    let text = why(facts(&status(&owners)));
    assert!(text.starts_with("Healthy") && text.contains("the last order was not carried out"), "{text}");
    owners.orders.pop();
    assert!(!why(facts(&status(&owners))).contains("order was"));
    // The day is over, by the controller's clock.
    let until = owners.taken_until.unwrap();
    assert!(shown(seen_at(&status(&owners), now)).contains(&format!("orders are taken until {until}")));
    for (offset, over) in [(-10, false), (0, true), (3600, true), (-3600, false)] {
        let late = Status { clock_offset_seconds: Some(offset), ..status(&owners) };
        let (why, table) = (why(seen_at(&late, until)), shown(seen_at(&late, until)));
        assert_eq!((why.contains("too long ago"), table.contains("too long ago")), (over, over), "{offset}: {why}");
    }
    (owners.policy_refused, owners.answered_at) = (Some("it is\u{1b}[2J a link".into()), None);
    let text = shown(seen_at(&status(&owners), now));
    assert!(text.contains("everything is forbidden") && !text.contains('\u{1b}'), "{text}");
    assert!(text.contains("not known since the start"), "{text}");
    assert!(why(facts(&status(&owners))).contains("not known since the start"));
    let json = lucia_proto::json::to_string(&OwnersStatus { answered_at: Some(at), ..owners.clone() }).unwrap();
    assert!(json.contains("\"answeredAt\"") && json.contains("\"takenUntil\""), "{json}");
    owners.believed = false;
    assert!(shown(seen_at(&status(&owners), now)).contains("no worker of the bundle signed"));
    owners.roster_version = 0;
    assert!(shown(seen_at(&status(&owners), now)).contains("nobody can order anything"));
    for doing in [Doing::Stopped, Doing::Removed] {
        let ended = Status { doing, ..Status::default() };
        assert!(why(facts(&ended)).contains("lucia-node-agent"), "{doing:?}");
    }
}

#[test]
fn the_table_leaves_out_what_is_not_known() {
    let text = shown(facts(&Status::default()));
    assert_eq!(text, "health             Starting\nstate              starting\n");
}
