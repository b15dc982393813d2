//! One truth about a machine: what the worker refused, what settles by itself, what is frozen.

use super::*;

/// A machine whose request the worker refused for good while its admission waits to be signed.
// spec: PG-341
#[test]
fn what_the_worker_refused_for_good_is_said_and_not_to_sign_an_order() {
    let mut device = approved();
    device.phase = lucia_proto::node::phase::DevicePhase::AwaitingEnrollment;
    let task = device.task.as_mut().unwrap();
    task.enrollment_pending_since = Some(time(NOW - 600));
    let text = "hostname: web-1 is reserved by the worker's settings";
    let line = draft_line(DraftState::Drafted);
    let document = |device: &DeviceView| render(&Device::new(frame("/devices/{id}"), device, Some(&line))).unwrap();
    let sign = format!("luciactl sign {}", line.code);
    assert!(document(&device).contains(&sign));
    device.task.as_mut().unwrap().refused = lucia_people::host_api::Message::fitted(text);
    let refused = document(&device);
    assert!(refused.contains("web-1 is reserved") && !refused.contains(&sign), "{refused}");
}

/// Its first half minute: it has a certificate and is still to be heard, then heard and still to ask for the time.
// spec: PG-342
#[test]
fn a_new_node_wants_no_look_in_its_first_half_minute() {
    let mut row = row();
    row.line.certificate_expires_at = Some(time(NOW).plus(lucia_proto::base::limits::LEAF_LIFETIME));
    (row.line.state, row.line.last_seen_at, row.orders) = (SnapshotState::AwaitingHeartbeat, None, None);
    let asks: lucia_people::host_api::OrdersHeld =
        read(r#"{"bundleVersion":1,"rosterVersion":4,"rosterNewest":5,"asks":true}"#);
    for (state, orders) in [(SnapshotState::AwaitingHeartbeat, None), (SnapshotState::Online, Some(asks))] {
        (row.line.state, row.orders) = (state, orders);
        let at = |secs| cells(&row, time(NOW + secs));
        assert_eq!((at(30).look.as_str(), at(30).tone == Tone::Bad), ("", false), "{state:?}");
        assert_ne!(at(90).look, "", "{state:?}");
    }
}

// spec: PG-344
#[test]
fn the_numbers_of_a_node_that_is_not_heard_are_marked_in_the_list() {
    let document = |state: SnapshotState| {
        let mut row = row();
        row.line.state = state;
        render(&Servers::new(frame("/"), &onboarding(vec![]), &[row])).unwrap()
    };
    assert!(document(SnapshotState::Stale).contains(" class=silent>"));
    assert!(!document(SnapshotState::Online).contains("class=silent"));
}
