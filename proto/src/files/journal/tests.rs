use std::time::Duration;

use super::*;
use crate::base::ids::StartId;
use crate::node::inventory::InventoryFields;
use crate::test_support::key;

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

fn inventory() -> HardwareInventory {
    let text = r#"{"architecture":"x86_64","bootMode":"Uefi","logicalCpuCount":2,"memoryBytes":4294967296,"interfaces":
        [{"name":"eth0","macAddress":"52:54:00:12:34:56","addresses":["10.0.0.7"]}],"disks":[]}"#;
    let fields: InventoryFields = json::from_str(text, 4096, JSON_DEPTH_MAX).unwrap();
    HardwareInventory::try_from(fields).unwrap()
}

fn device(number: u8, phase: DevicePhase) -> DeviceRow {
    let public = key(number);
    let fingerprint = public.public().fingerprint();
    DeviceRow {
        device_id: fingerprint.node_id(),
        fingerprint,
        public_key_pem: PemText::try_from(public.public().to_pem()).unwrap(),
        phase,
        hostname: None,
        former_hostname: None,
        inventory_hash: inventory().inventory_hash(),
        inventory: inventory(),
        running: false,
        inventory_revision: 1,
        verification_code: fingerprint.verification_code(),
        discovered_at: NOW,
        expires_at: NOW.plus(Duration::from_secs(1800)),
        address: "10.0.0.7".parse().unwrap(),
        message: None,
        task_id: None,
        frozen: None,
        kept: None,
    }
}

/// A device in a phase that needs a task, and the task.
pub(super) fn pair(number: u8, phase: DevicePhase, task_phase: TaskPhase) -> (DeviceRow, TaskRow) {
    let task_id = TaskId::from_random([number; 16]);
    let hostname: Hostname = format!("node-{number}").parse().unwrap();
    let device =
        DeviceRow { hostname: Some(hostname.clone()), task_id: Some(task_id.clone()), ..device(number, phase) };
    let grant = GrantRow {
        request_id: RequestId::from_random([number; 16]),
        granted_at: NOW,
        progress_expires_at: NOW.plus(Duration::from_secs(7200)),
    };
    let task = TaskRow {
        task_id,
        device_id: device.device_id.clone(),
        hostname,
        disk_id: Some("virtio-1".parse().unwrap()),
        fingerprint: device.fingerprint,
        inventory_hash: device.inventory_hash,
        inventory_revision: 1,
        phase: task_phase,
        approved_at: NOW,
        authority_expires_at: NOW.plus(Duration::from_secs(900)),
        grant: (task_phase != TaskPhase::Approved).then_some(grant),
        replaces: None,
    };
    (device, task)
}

fn event(journal: &mut Journal, kind: Act) {
    let actor = "operator:1000".parse().unwrap();
    journal.record(Event::new(NOW, kind, actor)).unwrap();
}

/// One device of each phase, and an ended task whose device is gone.
fn journal() -> Journal {
    let mut journal = Journal { generation: 7, ..Journal::empty() };
    journal.devices.push(device(1, DevicePhase::Discovered));
    journal.devices.push(device(2, DevicePhase::Rejected));
    for (number, phase, task_phase) in [
        (3, DevicePhase::Approved, TaskPhase::Approved),
        (4, DevicePhase::Approved, TaskPhase::GrantIssued),
        (5, DevicePhase::Installing, TaskPhase::Installing),
        (6, DevicePhase::AwaitingEnrollment, TaskPhase::AwaitingEnrollment),
        (7, DevicePhase::Managed, TaskPhase::Managed),
        (8, DevicePhase::Failed, TaskPhase::Failed),
    ] {
        let (device, task) = pair(number, phase, task_phase);
        journal.devices.push(device);
        journal.tasks.push(task);
    }
    journal.tasks.push(pair(9, DevicePhase::Failed, TaskPhase::Failed).1);
    event(&mut journal, Act::WindowOpened);
    event(&mut journal, Act::Discovered);
    journal
}

type Change = fn(&mut Journal);

// spec: JO-21
#[test]
fn a_journal_survives_its_bytes() {
    for journal in [Journal::empty(), journal()] {
        let bytes = journal.to_bytes().unwrap();
        assert_eq!(Journal::from_bytes(&bytes), Ok(journal));
    }
}

// spec: JO-320
#[test]
fn text_that_is_no_longer_printable_stops_no_journal_from_before() {
    let hidden = "Acme\u{a0}Pro \u{3164}\u{fe0f}";
    assert!(!crate::base::text::is_printable(hidden));
    let told = json::to_string(&inventory()).unwrap().replacen('{', &format!("{{\"manufacturer\":\"{hidden}\","), 1);
    let fields: InventoryFields = json::from_str(&told, 4096, JSON_DEPTH_MAX).unwrap();
    let mut journal = journal();
    let [row, ..] = journal.devices.as_mut_slice() else { panic!("no device") };
    row.inventory = HardwareInventory::try_from(fields).unwrap();
    row.inventory_hash = row.inventory.inventory_hash();
    row.message = serde_json::from_str(&format!("\"{hidden}\"")).unwrap();
    assert_ne!(row.inventory_hash, inventory().inventory_hash());
    let bytes = journal.to_bytes().unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes).matches(hidden).count(), 2);
    assert_eq!(Journal::from_bytes(&bytes), Ok(journal));
}

// spec: JO-22
#[test]
fn rows_that_contradict_one_another_are_refused() {
    let cases: [(&str, Change); 43] = [
        ("fingerprint", |j| j.devices[0].fingerprint = j.devices[1].fingerprint),
        ("fingerprint", |j| j.devices[0].device_id = "0123456789abcdef0123456789abcdef".parse().unwrap()),
        ("publicKeyPem", |j| j.devices[0].public_key_pem = j.devices[1].public_key_pem.clone()),
        ("publicKeyPem", |j| j.devices[0].public_key_pem = PemText::try_from("-----BEGIN X-----".to_owned()).unwrap()),
        ("verificationCode", |j| j.devices[0].verification_code = j.devices[1].verification_code.clone()),
        ("verificationCode", |j| j.devices[0].verification_code = "0000-0000-0000".parse().unwrap()),
        ("deviceId", |j| j.devices.push(j.devices[0].clone())),
        ("inventoryHash", |j| j.devices[0].inventory_hash = Digest::ZERO),
        ("inventoryRevision", |j| j.devices[0].inventory_revision = 0),
        ("expiresAt", |j| j.devices[0].expires_at = UnixTime::EPOCH),
        ("address", |j| j.devices[0].address = "::ffff:10.0.0.7".parse().unwrap()),
        ("taskId", |j| j.devices[2].task_id = None),
        ("taskId", |j| j.devices[2].task_id = Some(TaskId::from_random([99; 16]))),
        ("taskId", |j| j.devices[2].task_id = j.devices[3].task_id.clone()),
        ("taskId", |j| j.devices[0].task_id = j.devices[3].task_id.clone()),
        ("phase", |j| j.devices[2].phase = DevicePhase::Installing),
        ("phase", |j| j.devices[6].phase = DevicePhase::AwaitingEnrollment),
        ("phase", |j| j.devices[6].phase = DevicePhase::Discovered),
        ("phase", |j| j.devices[5].phase = DevicePhase::Managed),
        ("phase", |j| j.devices[7].phase = DevicePhase::Rejected),
        ("phase", |j| j.tasks[3].phase = TaskPhase::Managed),
        ("phase", |j| j.tasks[3].phase = TaskPhase::Failed),
        ("hostname", |j| j.devices[2].hostname = None),
        ("hostname", |j| j.devices[2].hostname = j.devices[3].hostname.clone()),
        ("hostname", |j| j.devices[0].hostname = j.devices[3].hostname.clone()),
        ("hostname", |j| {
            j.devices[3].hostname = j.devices[2].hostname.clone();
            j.tasks[1].hostname = j.tasks[0].hostname.clone();
        }),
        ("taskId", |j| j.tasks.push(j.tasks[6].clone())),
        ("diskId", |j| j.tasks[1].disk_id = None),
        ("diskId", |j| j.devices[3].running = true),
        ("replaces", |j| j.tasks[6].replaces = Some(j.tasks[6].device_id.clone())),
        ("fingerprint", |j| j.tasks[6].fingerprint = j.tasks[5].fingerprint),
        // A key of the same id: half of a SHA-256 would have to be found for it.
        ("fingerprint", |j| {
            let own = j.tasks[0].fingerprint.to_string();
            j.tasks[0].fingerprint = format!("{}{}", &own[..32], "0".repeat(32)).parse().unwrap();
        }),
        ("inventoryRevision", |j| j.tasks[6].inventory_revision = 0),
        ("authorityExpiresAt", |j| j.tasks[6].authority_expires_at = UnixTime::EPOCH),
        ("grant", |j| j.tasks[0].grant = j.tasks[1].grant.clone()),
        ("grant", |j| j.tasks[1].grant = None),
        ("grant", |j| j.tasks[2].grant = None),
        ("grant", |j| j.tasks[3].grant = None),
        ("grant", |j| j.tasks[4].grant = None),
        ("progressExpiresAt", |j| j.tasks[4].grant.as_mut().unwrap().progress_expires_at = UnixTime::EPOCH),
        ("requestId", |j| j.tasks[4].grant = j.tasks[3].grant.clone()),
        ("deviceId", |j| {
            j.tasks[6].phase = TaskPhase::Managed;
        }),
        ("taskId", |j| {
            let (_, task) = pair(3, DevicePhase::Approved, TaskPhase::Approved);
            j.tasks.push(TaskRow { task_id: TaskId::from_random([77; 16]), ..task });
        }),
    ];
    for (index, (want, change)) in cases.into_iter().enumerate() {
        let mut journal = journal();
        change(&mut journal);
        let error = journal.to_bytes().unwrap_err();
        match &error {
            JournalError::Device { field, .. } | JournalError::Task { field, .. } => {
                assert_eq!(*field, want, "case {index}: {error}");
            }
            other => panic!("case {index}: {other}"),
        }
        // What cannot be written cannot be read either, wherever it came from.
        let bytes = serde_json::to_vec(&journal).unwrap();
        assert_eq!(Journal::from_bytes(&bytes), Err(error), "case {index}");
    }
}

// spec: JO-22
#[test]
fn an_ended_installation_gives_its_name_back() {
    let mut journal = journal();
    journal.devices[7].hostname = journal.devices[2].hostname.clone();
    journal.tasks[5].hostname = journal.tasks[0].hostname.clone();
    assert_eq!(journal.check(), Ok(()));
}

// spec: JO-23
#[test]
fn the_chain_covers_every_event_and_its_order() {
    let cases: [(&str, Change); 11] = [
        ("kind", |j| j.events[0].kind = Act::WindowClosed),
        ("time", |j| j.events[1].at = UnixTime::EPOCH),
        ("actor", |j| j.events[1].actor = "someone".parse().unwrap()),
        ("device", |j| j.events[1].device_id = Some(j.devices[0].device_id.clone())),
        ("head", |j| j.chain_head = Digest::ZERO),
        ("base", |j| j.chain_base = Digest::of(b"x")),
        ("first cut", |j| drop(j.events.remove(0))),
        ("last cut", |j| drop(j.events.pop())),
        ("swapped", |j| j.events.swap(0, 1)),
        ("all cut", |j| j.events.clear()),
        ("number", |j| j.last_event_id = 3),
    ];
    for (name, change) in cases {
        let mut journal = journal();
        change(&mut journal);
        let error = journal.check().unwrap_err();
        assert!(matches!(error, JournalError::Chain | JournalError::Sequence { .. }), "{name}: {error}");
    }
    let mut swapped = journal();
    swapped.events.swap(0, 1);
    (swapped.events[0].sequence, swapped.events[1].sequence) = (1, 2);
    assert_eq!(swapped.check(), Err(JournalError::Chain));
    let empty = Journal { chain_base: Digest::of(b"x"), chain_head: Digest::of(b"x"), ..Journal::empty() };
    assert_eq!(empty.check(), Err(JournalError::Chain));
    let forgetful = Journal { last_event_id: 5, ..Journal::empty() };
    assert_eq!(forgetful.check(), Err(JournalError::Chain));
    let wrapped = Journal { last_event_id: 1, ..journal() };
    assert_eq!(wrapped.check(), Err(JournalError::Sequence { sequence: 2 }));
}

// spec: JO-24
#[test]
fn old_events_leave_and_the_chain_goes_on() {
    assert_eq!(EVENTS_MAX, 2048);
    let mut journal = Journal::empty();
    let mut heads = vec![journal.chain_head];
    for _ in 0..EVENTS_MAX + 3 {
        event(&mut journal, Act::Discovered);
        heads.push(journal.chain_head);
    }
    assert_eq!(journal.events.len(), EVENTS_MAX);
    assert_eq!(journal.events[0].sequence, 4);
    assert_eq!(journal.chain_base, heads[3]);
    assert_eq!(journal.check(), Ok(()));
    for sequence in [0, 2, 3, 4, 1000, EVENTS_MAX + 2, EVENTS_MAX + 3] {
        let want = (sequence >= 3).then_some(heads[sequence]);
        assert_eq!(journal.head_after(u64::try_from(sequence).unwrap()), want, "{sequence}");
    }
    assert_eq!(journal.head_after(journal.last_event_id + 1), None);
    journal.events.insert(0, journal.events[0].clone());
    assert_eq!(journal.check(), Err(JournalError::TooMany { what: "events", max: EVENTS_MAX }));
}

// spec: JO-25
#[test]
fn the_schema_is_strict() {
    let text = String::from_utf8(journal().to_bytes().unwrap()).unwrap();
    for (from, to) in [
        ("\"version\":4", "\"version\":3"),
        ("\"version\":4", "\"version\":\"4\""),
        ("\"version\":4", "\"version\":5"),
        ("\"generation\":7,", ""),
        ("\"generation\":7", "\"generation\":-1"),
        ("\"generation\":7", "\"generation\":7,\"generation\":7"),
        ("\"generation\":7", "\"generation\":7,\"scope\":1"),
        ("\"kind\":\"Discovered\"", "\"kind\":\"Teleported\""),
        ("\"devices\":[{", "\"devices\":[[],{"),
    ] {
        assert!(text.contains(from), "{from}");
        let bad = text.replacen(from, to, 1);
        assert!(matches!(Journal::from_bytes(bad.as_bytes()), Err(JournalError::Json(_))), "{to}");
    }
    for cut in [0, 1, text.len() / 2, text.len() - 1] {
        assert!(Journal::from_bytes(&text.as_bytes()[..cut]).is_err(), "{cut}");
    }
    let rows = |count: usize| vec![journal().devices[0].clone(); count];
    let many = Journal { devices: rows(crate::base::limits::DEVICES_MAX + 1), ..Journal::empty() };
    assert_eq!(many.check(), Err(JournalError::TooMany { what: "devices", max: crate::base::limits::DEVICES_MAX }));
    let rows = |count: usize| vec![journal().tasks[0].clone(); count];
    let many = Journal { tasks: rows(crate::base::limits::TASKS_MAX + 1), ..Journal::empty() };
    assert_eq!(many.check(), Err(JournalError::TooMany { what: "tasks", max: crate::base::limits::TASKS_MAX }));
}

// spec: JO-49
#[test]
fn what_a_row_and_an_event_say_about_clones_is_bounded_and_a_managed_node_s() {
    let start = |number: u8| StartId::from_random([number; 16]);
    let holder = |number: u8| Holder {
        start_id: Some(start(number)),
        boot_id: None,
        address: "10.0.0.7".parse().unwrap(),
        first_seen_at: NOW,
        last_seen_at: None,
        memory_lost: false,
    };
    let frozen = FrozenRow { at: NOW, holders: vec![holder(1), holder(2)] };
    let kept = KeptRow { at: NOW, holder: holder(1), refused: vec![start(2)] };
    let with = |phase: DevicePhase, change: &dyn Fn(&mut DeviceRow)| {
        let mut journal = journal();
        change(journal.devices.iter_mut().find(|row| row.phase == phase).unwrap());
        journal.check().is_ok()
    };
    for phase in [DevicePhase::Managed, DevicePhase::AwaitingEnrollment, DevicePhase::Discovered] {
        let managed = phase == DevicePhase::Managed;
        assert_eq!(with(phase, &|row| row.frozen = Some(frozen.clone())), managed, "{phase:?}");
        assert_eq!(with(phase, &|row| row.kept = Some(kept.clone())), managed, "{phase:?}");
    }
    let wrong: [&dyn Fn(&mut DeviceRow); 5] = [
        &|row| row.frozen = Some(FrozenRow { at: NOW, holders: vec![holder(1)] }),
        &|row| row.frozen = Some(FrozenRow { at: NOW, holders: vec![holder(1), holder(2), holder(3)] }),
        &|row| row.kept = Some(KeptRow { refused: vec![start(2); 9], ..kept.clone() }),
        &|row| row.kept = Some(KeptRow { holder: Holder { start_id: None, ..holder(1) }, ..kept.clone() }),
        &|row| (row.frozen, row.message) = (Some(frozen.clone()), Some("x".parse().unwrap())),
    ];
    for (at, change) in wrong.into_iter().enumerate() {
        assert!(!with(DevicePhase::Managed, change), "case {at}");
    }
    for (actor, count, ok) in
        [("x", 2, true), ("x", 3, false), (&*"x".repeat(65), 2, false), (&*"x".repeat(65), 0, true)]
    {
        let mut journal = Journal::empty();
        let (holders, actor) = (vec![holder(1); count], actor.parse().unwrap());
        let kind = Act::Frozen;
        journal.record(Event { holders, ..Event::new(NOW, kind, actor) }).unwrap();
        assert_eq!(journal.check().is_ok(), ok, "{count} holders");
    }
}

// spec: NN-1
#[test]
fn a_name_before_a_rename_is_a_managed_nodes_and_nobody_elses() {
    let with = |phase: DevicePhase, former: &str| {
        let mut journal = journal();
        journal.devices.iter_mut().find(|row| row.phase == phase).unwrap().former_hostname =
            Some(former.parse().unwrap());
        journal.check()
    };
    let field = |journal: Result<(), JournalError>| match journal {
        Err(JournalError::Device { field, .. }) => Some(field),
        _ => None,
    };
    assert_eq!(with(DevicePhase::Managed, "web"), Ok(()));
    for phase in [DevicePhase::Discovered, DevicePhase::AwaitingEnrollment, DevicePhase::Failed] {
        assert_eq!(field(with(phase, "web")), Some("formerHostname"), "{phase:?}");
    }
    // Its own approved name, and another node's; whichever row comes first.
    assert_eq!(field(with(DevicePhase::Managed, "node-7")), Some("formerHostname"));
    assert_eq!(field(with(DevicePhase::Managed, "node-6")), Some("formerHostname"));
    let mut other = journal();
    other.devices.reverse();
    other.devices.iter_mut().find(|row| row.phase == DevicePhase::Managed).unwrap().former_hostname =
        Some("node-6".parse().unwrap());
    assert_eq!(field(other.check()), Some("hostname"));
}

// spec: NN-30
#[test]
fn names_are_of_a_rename_alone_and_two() {
    let named = |kind, from: &str, to: &str, actor: &str| {
        let names = Some(NewName { from: from.parse().unwrap(), to: to.parse().unwrap() });
        let mut journal = journal();
        let actor = actor.parse().unwrap();
        let (device_id, task_id, holders) = (None, None, Vec::new());
        let event = Event { device_id, task_id, holders, names, ..Event::new(NOW, kind, actor) };
        journal.record(event).unwrap();
        journal
    };
    let good = named(Act::Renamed, "n1", "web", "operator:1000");
    let bytes = good.to_bytes().unwrap();
    assert_eq!(Journal::from_bytes(&bytes).as_ref(), Ok(&good));
    for bad in [
        named(Act::Enrolled, "n1", "web", "operator:1000"),
        named(Act::Renamed, "n1", "n1", "operator:1000"),
        named(Act::Renamed, "n1", "web", &"x".repeat(65)),
    ] {
        assert_eq!(bad.check(), Err(JournalError::Names { sequence: 3 }));
    }
    // The chain has them.
    let mut forged = good;
    forged.events[2].names.as_mut().unwrap().from = "n2".parse().unwrap();
    assert_eq!(forged.check(), Err(JournalError::Chain));
    // Exactly two hostnames.
    let text = String::from_utf8(bytes).unwrap();
    for (from, to) in [
        (r#""from":"n1","#, ""),
        (r#""to":"web""#, r#""to":"web","by":"x""#),
        (r#""to":"web""#, r#""to":"Web_1""#),
        (r#""to":"web""#, r#""to":null"#),
        (r#"{"from":"n1","to":"web"}"#, r#"["n1","web"]"#),
        (r#"{"from":"n1","to":"web"}"#, r#""n1""#),
    ] {
        let changed = text.replace(from, to);
        assert!(
            changed != text && matches!(Journal::from_bytes(changed.as_bytes()), Err(JournalError::Json(_))),
            "{to}"
        );
    }
}

// spec: PG-91
#[test]
fn the_name_of_who_was_removed_stands_in_a_removal_alone() {
    let removed = |kind, actor: &str| {
        let mut journal = journal();
        let (actor, hostname) = (actor.parse().unwrap(), Some("web-1".parse().unwrap()));
        let (device_id, task_id, holders) = (None, None, Vec::new());
        journal.record(Event { device_id, task_id, holders, hostname, ..Event::new(NOW, kind, actor) }).unwrap();
        journal
    };
    let good = removed(Act::Removed, "owner:alice");
    assert_eq!(Journal::from_bytes(&good.to_bytes().unwrap()).as_ref(), Ok(&good));
    for bad in [removed(Act::Enrolled, "device"), removed(Act::Removed, &"x".repeat(65))] {
        assert_eq!(bad.check(), Err(JournalError::Removed { sequence: 3 }));
    }
}
