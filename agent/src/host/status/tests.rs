use super::*;
use crate::host::scratch::Scratch;

// spec: AG-4
#[test]
fn a_heartbeat_does_not_touch_the_disk_and_a_refusal_does() {
    let scratch = Scratch::new();
    let root = scratch.root();
    let state = State::hold(&root, "test").unwrap();
    assert_eq!(read(&root), Ok(None));
    let mut file = StatusFile::new(&root);
    let mut status = Status { doing: Doing::Heartbeating, heartbeats: 1, ..Status::default() };
    file.write(&state, &status);
    let lasting = || state.read(StateFile::Status).unwrap().unwrap();
    let first = lasting();
    status.heartbeats = 2;
    status.last_heartbeat = Some(UnixTime::from_secs(5));
    file.write(&state, &status);
    assert_eq!(lasting(), first);
    assert_eq!(read(&root), Ok(Some(status.clone())));
    let refusal = |at, detail: &str| Refusal {
        since: None,
        at: UnixTime::from_secs(at),
        call: "heartbeat".into(),
        reason: None,
        what: format!("outer: inner: {detail}"),
        cure: "nothing".into(),
    };
    status.refusals = vec![refusal(9, "10.0.0.1")];
    file.write(&state, &status);
    let second = lasting();
    assert_ne!(second, first);
    for at in 10..40_u32 {
        status.refusals = vec![refusal(at.into(), &at.to_string())];
        status.clock_offset_seconds = Some(59 + i64::from(at % 3));
        file.write(&state, &status);
    }
    // The first clock difference was written, and none of the details after it.
    let third = lasting();
    assert!(String::from_utf8(third).unwrap().contains("inner: 10\""));
    assert_eq!(read(&root), Ok(Some(status)));
    // After a reboot the lasting copy speaks.
    std::fs::remove_dir_all(root.runtime()).unwrap();
    let after = read(&root).unwrap().unwrap();
    assert_eq!(gist(&after.refusals[0].what), "outer: inner");
}

// spec: AO-2
#[test]
fn an_order_that_is_refused_does_not_touch_the_disk_and_one_that_is_carried_out_does() {
    use lucia_proto::orders::OrderId;

    let scratch = Scratch::new();
    let root = scratch.root();
    let state = State::hold(&root, "test").unwrap();
    let mut file = StatusFile::new(&root);
    let mut status = Status { owners: Some(OwnersStatus::default()), ..Status::default() };
    file.write(&state, &status);
    let lasting = || state.read(StateFile::Status).unwrap().unwrap();
    let first = lasting();
    let seen = |refused| OrderSeen { code: OrderId::of("a").code(), kind: None, at: UnixTime::EPOCH, refused };
    status.owners.as_mut().unwrap().orders.push(seen(Some(OrderCode::Malformed)));
    file.write(&state, &status);
    assert!(lasting() == first);
    assert_eq!(read(&root), Ok(Some(status.clone())), "it is shown all the same");
    status.owners.as_mut().unwrap().orders.push(seen(None));
    file.write(&state, &status);
    assert!(lasting() != first);
}
