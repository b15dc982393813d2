//! Forms and views as they travel.

use super::*;
use lucia_proto::base::json;
use lucia_proto::base::limits::{HOST_BODY_MAX, JSON_DEPTH_MAX};

// spec: HT-2
#[test]
fn a_window_is_1_to_60_minutes() {
    for (text, want) in [
        (r#"{"minutes":1}"#, Some(60)),
        (r#"{"minutes":60}"#, Some(3600)),
        (r#"{"minutes":0}"#, None),
        (r#"{"minutes":61}"#, None),
        (r#"{"minutes":-1}"#, None),
        (r#"{"minutes":"5"}"#, None),
        (r#"{"minutes":5,"more":1}"#, None),
        ("[5]", None),
    ] {
        let got = json::from_str::<OpenWindow>(text, HOST_BODY_MAX, JSON_DEPTH_MAX);
        assert_eq!(got.ok().map(|form| form.minutes.duration().as_secs()), want, "{text}");
    }
    assert_eq!("15".parse::<Minutes>().map(Minutes::duration), Ok(Duration::from_secs(900)));
    assert_eq!("x".parse::<Minutes>(), Err(BadMinutes));
}

// spec: ST-5
#[test]
fn a_node_is_online_for_two_minutes_after_a_heartbeat() {
    let now = UnixTime::from_secs(10_000);
    let at = |ago| SnapshotState::of(Some(now.minus(Duration::from_secs(ago))), now);
    assert_eq!(SnapshotState::of(None, now), SnapshotState::AwaitingHeartbeat);
    assert_eq!(at(119), SnapshotState::Online);
    assert_eq!(at(120), SnapshotState::Stale);
}

#[test]
fn an_answer_is_the_shape_it_says() {
    let view = EventsView {
        events: vec![EventLine {
            sequence: 7,
            at: UnixTime::from_secs(0),
            kind: "AdmissionOpened".parse().unwrap(),
            actor: "operator".parse().unwrap(),
            device_id: None,
            task_id: None,
            holders: Vec::new(),
            names: None,
            hostname: None,
        }],
        last_sequence: 7,
    };
    let text = json::to_string(&view).unwrap();
    assert_eq!(
        text,
        r#"{"events":[{"sequence":7,"at":"1970-01-01T00:00:00Z","kind":"AdmissionOpened","actor":"operator"}],"lastSequence":7}"#
    );
    assert_eq!(json::from_str::<EventsView>(&text, HOST_BODY_MAX, JSON_DEPTH_MAX).unwrap(), view);
}
