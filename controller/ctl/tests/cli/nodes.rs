//! Nodes: two holders of one identity, names, and what happened to them.

use expect_test::expect_file;
use lucia_people::host_api::NodeView;
use lucia_proto::base::json;

use crate::{FINGERPRINT, Fake, ID, NEW, NODE, OLD, nodes, onboarding, said};

fn holder(start: &str, last: u8) -> String {
    format!(
        r#"{{"startId":"{start}","bootId":"0f0f0f0f-0000-4000-8000-{last:012}","address":"192.0.2.{last}",
        "firstSeenAt":"2026-11-29T19:5{last}:00Z"}}"#
    )
}

fn node(more: &str) -> String {
    let text = format!(
        r#"{{"serverTime":"2026-11-29T20:00:00Z","node":{NODE},"fingerprint":"{FINGERPRINT}",
        "taskId":"00000000-0000-4000-8000-000000000000","samples":[]{more}}}"#
    );
    json::from_str::<NodeView>(&text, 1 << 20, 24).unwrap();
    text
}

fn frozen() -> String {
    let holders = [holder(OLD, 1), holder(NEW, 2)].join(",");
    node(&format!(r#","frozen":{{"at":"2026-11-29T19:59:00Z","holders":[{holders}]}}"#))
}

// spec: CT-40
#[test]
fn a_decision_about_clones_is_asked_for_and_only_where_there_is_one() {
    let keep = ["clone", "keep", "web-1", "--start", NEW];
    let list = || (200, nodes(NODE));
    let other = OLD.replace('a', "c");
    for (args, answers, code, asked, says) in [
        (
            [&keep[..], &["--yes"]].concat(),
            vec![list(), (200, frozen()), (200, node(""))],
            0,
            format!(r#"POST /api/host/nodes/{ID}/clone/keep {{"startId":"{NEW}"}}"#),
            "web-1",
        ),
        (
            vec!["clone", "split", "web-1", "--yes"],
            vec![list(), (200, frozen()), (200, onboarding(false, &[]))],
            0,
            format!("POST /api/host/nodes/{ID}/clone/split"),
            "",
        ),
        (keep.to_vec(), vec![list(), (200, frozen())], 64, format!("GET /api/host/nodes/{ID}"), "--yes"),
        (
            vec!["clone", "split", "web-1"],
            vec![list(), (200, frozen())],
            64,
            format!("GET /api/host/nodes/{ID}"),
            "--yes",
        ),
        (
            [&keep[..], &["--yes", "--json"]].concat(),
            vec![list(), (200, node(""))],
            1,
            format!("GET /api/host/nodes/{ID}"),
            r#""not_frozen""#,
        ),
        (
            vec!["clone", "keep", "web-1", "--start", &other, "--yes", "--json"],
            vec![list(), (200, frozen())],
            1,
            format!("GET /api/host/nodes/{ID}"),
            r#""not_found""#,
        ),
        (vec!["clone", "keep", "web-1", "--start", "x", "--yes"], vec![], 64, String::new(), "--start"),
    ] {
        let fake = Fake::new(answers);
        let output = fake.run(&args);
        assert_eq!(output.status.code(), Some(code), "{args:?} {}", said(&output));
        assert!(said(&output).contains(says), "{args:?} {}", said(&output));
        assert_eq!(fake.asked().pop().unwrap_or_default(), asked, "{args:?}");
    }
}

// spec: NN-341
#[test]
fn both_names_of_a_node_that_is_renamed_mean_it() {
    let renamed = NODE.replace(r#""state""#, r#""formerHostname":"n1","renameStep":"worker","state""#);
    for name in ["web-1", "n1"] {
        let view = node("").replace(r#""state""#, r#""formerHostname":"n1","renameStep":"worker","state""#);
        let output = Fake::new(vec![(200, nodes(&renamed)), (200, view)]).run(&["node", name]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", said(&output));
        assert!(said(&output).contains("lucia-enrollment-worker rename n1 web-1"), "{name}: {}", said(&output));
    }
}

// spec: CT-41
#[test]
fn both_holders_are_shown() {
    let output = Fake::new(vec![(200, nodes(NODE)), (200, frozen())]).run(&["node", "web-1"]);
    let shown = said(&output);
    let event = format!(
        r#"{{"sequence":1,"at":"2026-11-29T19:59:00Z","kind":"IdentityFrozen","actor":"controller","deviceId":"{ID}",
        "holders":[{},{}]}}"#,
        holder(OLD, 1),
        holder(NEW, 2)
    );
    let events = format!(r#"{{"events":[{event}],"lastSequence":1}}"#);
    let told = said(&Fake::new(vec![(200, events), (200, nodes(NODE))]).run(&["events"]));
    for text in [&shown, &told] {
        for (start, last) in [(OLD, "1"), (NEW, "2")] {
            let boot = format!("0f0f0f0f-0000-4000-8000-{:0>12}", last);
            for part in [start, &boot, &format!("192.0.2.{last}"), &format!("2026-11-29T19:5{last}:00Z")] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }
    assert!(shown.contains("luciactl clone keep web-1 --start") && shown.contains("luciactl clone split web-1"));
}

// spec: NN-30, LC-94, LC-104
#[test]
fn a_rename_is_shown_with_both_names() {
    let names = r#""names":{"from":"n1","to":"web-1"}"#;
    let event = format!(
        r#"{{"sequence":8,"at":"2026-11-29T19:00:00Z","kind":"Renamed","actor":"operator:1000","deviceId":"{ID}",{names}}}"#
    );
    // One of before there were names in it is shown as it was.
    let old = event.replace(&format!(",{names}"), "").replace(":8,", ":7,");
    let events = format!(r#"{{"events":[{old},{event}],"lastSequence":8}}"#);
    let told = said(&Fake::new(vec![(200, events.clone()), (200, nodes(NODE))]).run(&["events"]));
    assert!(told.contains("web-1  n1 -> web-1\n"), "{told}");
    let mut shown = told;
    // Of what was removed the name it had.
    let removal = event.replace("Renamed", "DeviceRemoved").replace(names, r#""hostname":"old-1""#);
    let removal = (200, format!(r#"{{"events":[{removal}],"lastSequence":8}}"#));
    let told = said(&Fake::new(vec![(200, events.clone()), (200, nodes("")), removal]).run(&["events"]));
    assert!(told.contains("  old-1  n1 -> web-1\n") && !told.contains("1a2b-3c4d-5e6f"), "{told}");
    // Ids where they are asked for; of what is no node and was not removed the code.
    let none = (200, r#"{"events":[],"lastSequence":8}"#.to_owned());
    let told = said(&Fake::new(vec![(200, events), (200, nodes("")), none]).run(&["events", "-o", "wide"]));
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[1].ends_with(ID) && lines[2].contains("1a2b-3c4d-5e6f"), "{told}");
    shown.push_str(&format!("\n{told}"));
    expect_file!["snapshots/events.txt"].assert_eq(&shown);
    let more = format!(r#","renames":[{{"at":"2026-11-29T19:00:00Z","actor":"operator:1000",{names}}}]"#);
    let shown = said(&Fake::new(vec![(200, nodes(NODE)), (200, node(&more))]).run(&["node", "web-1"]));
    let is_renamed =
        |line: &str| ["2026-11-29T19:00:00Z", "n1", "web-1", "1000"].iter().all(|part| line.contains(part));
    assert!(shown.lines().any(is_renamed), "{shown}");
}
