//! Every phase and every call; what each refuses leaves the journal's bytes alone.

use lucia_people::host_api::Minutes;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::RequestId;
use lucia_proto::node::phase::DevicePhase as P;

use super::bench::{Machine, OPERATOR, World, code, inventory};

/// A machine brought to a phase.
fn in_phase(world: &World, number: u8, phase: P) -> Machine {
    match phase {
        P::Managed => return world.node(number),
        P::AwaitingEnrollment => return world.certified(number),
        _ => {}
    }
    let mut machine = Machine::new(number);
    world.window();
    machine.discover(world).unwrap();
    match phase {
        P::Approved => machine.approve(world).unwrap(),
        P::Installing => {
            machine.approve(world).unwrap();
            machine.grant(world).unwrap();
            machine.progress(world, P::Installing).unwrap();
        }
        P::Failed => {
            machine.approve(world).unwrap();
            machine.grant(world).unwrap();
            machine.progress(world, P::Failed).unwrap();
        }
        P::Rejected => world.parts.enrollment.reject(machine.id(), OPERATOR).unwrap(),
        _ => {}
    }
    assert_eq!(world.phase(&machine), Some(phase));
    machine
}

// spec: ST-3, ST-6
#[test]
fn every_call_in_every_phase() {
    use Code as C;
    type Call = (&'static str, fn(&World, &mut Machine) -> Option<Code>);
    let calls: [Call; 13] = [
        ("discover", |w, m| code(m.discover(w))),
        ("approve", |w, m| code(m.approve(w))),
        ("reject", |w, m| code(w.parts.enrollment.reject(m.id(), OPERATOR))),
        ("restore", |w, m| code(w.parts.enrollment.restore(m.id(), OPERATOR))),
        ("dismiss", |w, m| code(w.parts.enrollment.dismiss(m.id(), OPERATOR))),
        ("installation", |w, m| code(m.installation(w))),
        ("grant", |w, m| code(m.grant(w))),
        ("installing", |w, m| code(m.progress(w, P::Installing))),
        ("awaiting", |w, m| code(m.progress(w, P::AwaitingEnrollment))),
        ("failed", |w, m| code(m.progress(w, P::Failed))),
        ("managed", |w, m| code(m.progress(w, P::Managed))),
        ("enroll", |w, m| code(m.enroll(w))),
        ("heartbeat", |w, m| code(m.heartbeat(w))),
    ];
    // Discovered, Approved, Installing, AwaitingEnrollment, Managed, Failed, Rejected; `None` is an answer.
    let want: [[Option<Code>; 7]; 13] = [
        [None, None, None, None, Some(C::ManagedDevice), None, None],
        [None, np(), np(), np(), np(), np(), np()],
        [None, np(), np(), np(), np(), np(), np()],
        [nr(), nr(), nr(), nr(), nr(), nr(), None],
        [None, nr(), nr(), nr(), nr(), None, None],
        [na(), None, None, None, None, na(), na()],
        [na(), None, None, gc(), gc(), na(), na()],
        [it(), Some(C::NotGranted), None, it(), it(), it(), it()],
        [it(), Some(C::NotGranted), None, None, it(), it(), it()],
        [None, None, None, None, it(), None, it()],
        [it(), it(), it(), it(), it(), it(), it()],
        [na(), er(), er(), None, None, na(), na()],
        [id(), id(), id(), None, None, id(), id()],
    ];
    for (at, (name, call)) in calls.iter().enumerate() {
        for (phase, want) in P::ALL.into_iter().zip(want[at]) {
            let world = World::new();
            let mut machine = in_phase(&world, 1, phase);
            let (before, journal) = (world.phase(&machine), world.journal());
            let got = call(&world, &mut machine);
            assert_eq!(got, want, "{name} in {phase:?}");
            if want.is_some() {
                assert_eq!(world.phase(&machine), before, "{name} in {phase:?}");
                assert!(world.journal() == journal, "{name} in {phase:?} left a trace");
            }
            // Only a heartbeat makes a node.
            if world.phase(&machine) == Some(P::Managed) {
                assert!(phase == P::Managed || *name == "heartbeat", "{name} in {phase:?}");
            }
        }
    }
}

fn np() -> Option<Code> {
    Some(Code::NotPending)
}
fn nr() -> Option<Code> {
    Some(Code::NotRejected)
}
fn na() -> Option<Code> {
    Some(Code::NotApproved)
}
fn gc() -> Option<Code> {
    Some(Code::GrantConsumed)
}
fn it() -> Option<Code> {
    Some(Code::InvalidTransition)
}
fn er() -> Option<Code> {
    Some(Code::EnrollmentNotReady)
}
fn id() -> Option<Code> {
    Some(Code::NodeIdentityInvalid)
}

// spec: JO-31
#[test]
fn nobody_is_discovered_while_the_window_is_closed() {
    let world = World::new();
    let machine = Machine::new(1);
    assert_eq!(code(world.parts.enrollment.boot_challenge(machine.from)), Some(Code::AdmissionClosed));
    assert_eq!(code(machine.discover(&world)), Some(Code::AdmissionClosed));
    world.parts.enrollment.open_window(Minutes::new(1).unwrap(), OPERATOR).unwrap();
    world.parts.enrollment.boot_challenge(machine.from).unwrap();
    world.advance(59);
    machine.discover(&world).unwrap();
    world.advance(1);
    assert_eq!(code(machine.discover(&world)), Some(Code::AdmissionClosed));
    world.window();
    world.parts.enrollment.close_window(OPERATOR).unwrap();
    assert_eq!(code(machine.discover(&world)), Some(Code::AdmissionClosed));
    // The wall clock set back opens it for no longer.
    world.parts.enrollment.open_window(Minutes::new(1).unwrap(), OPERATOR).unwrap();
    world.advance(61);
    world.clock.set_wall(world.now().minus(std::time::Duration::from_secs(3600)));
    assert_eq!(code(machine.discover(&world)), Some(Code::AdmissionClosed));
}

// spec: JO-32
#[test]
fn the_window_is_closed_at_every_start() {
    let world = World::new();
    world.window();
    let world = world.restart();
    assert_eq!(world.parts.enrollment.onboarding().window_expires_at, None);
    assert_eq!(code(Machine::new(1).discover(&world)), Some(Code::AdmissionClosed));
    let kinds: Vec<String> = world.parts.journal.events(0, 500).events.iter().map(|e| e.kind.to_string()).collect();
    assert_eq!(kinds, ["AdmissionOpened", "AdmissionClosedOnStartup"]);
    let world = world.restart();
    assert_eq!(world.parts.journal.events(0, 500).last_sequence, 2);
}

// spec: JO-33
#[test]
fn discovery_is_repeatable_and_other_hardware_voids_an_approval() {
    let world = World::new();
    world.window();
    let mut machine = Machine::new(1);
    let first = machine.discover(&world).unwrap();
    world.advance(600);
    let journal = world.journal();
    assert_eq!(machine.discover(&world).unwrap(), first);
    assert_eq!(world.journal(), journal);
    machine.approve(&world).unwrap();
    assert_eq!(machine.discover(&world).unwrap(), first);
    assert_eq!(world.phase(&machine), Some(P::Approved));
    // Other hardware before the grant: to be approved anew.
    machine.inventory = inventory(2 << 30);
    machine.discover(&world).unwrap();
    let state = machine.state(&world).unwrap();
    assert_eq!((state.phase, state.inventory_revision, state.hostname), (P::Discovered, 2, None));
    machine.approve(&world).unwrap();
    assert_eq!(code(machine.grant(&world)), Some(Code::ApprovalMismatch));
    machine.revision = 2;
    machine.grant(&world).unwrap();
    // After the grant: failed.
    world.advance(60);
    machine.inventory = inventory(3 << 30);
    machine.discover(&world).unwrap();
    assert_eq!(machine.state(&world).unwrap().phase, P::Failed);
    // A new attempt starts from nothing.
    machine.discover(&world).unwrap();
    let state = machine.state(&world).unwrap();
    assert_eq!((state.phase, state.inventory_revision, state.task_id), (P::Discovered, 3, None));
}

// spec: JO-34
#[test]
fn an_approval_is_for_a_disk_and_a_name_that_are_free() {
    let world = World::new();
    world.node(1);
    let machine = Machine::new(2);
    machine.discover(&world).unwrap();
    let journal = world.journal();
    for (hostname, disk, confirmation, want) in [
        ("n2", "disk0", "erase", Code::InvalidOnboardingRequest),
        ("n2", "disk9", "ERASE", Code::IneligibleDisk),
        ("n2", "usb0", "ERASE", Code::IneligibleDisk),
        ("n2", "rom0", "ERASE", Code::IneligibleDisk),
        ("n2", "empty0", "ERASE", Code::IneligibleDisk),
        ("n1", "disk0", "ERASE", Code::HostnameInUse),
        ("lucia", "disk0", "ERASE", Code::InvalidOnboardingRequest),
    ] {
        let mut form = machine.form();
        form.hostname = hostname.parse().unwrap();
        form.disk_id = Some(disk.parse().unwrap());
        form.confirmation = Some(confirmation.to_owned());
        assert_eq!(
            code(world.parts.enrollment.approve(machine.id(), &form, OPERATOR)),
            Some(want),
            "{hostname} {disk}"
        );
    }
    let stranger = Machine::new(9);
    assert_eq!(code(stranger.approve(&world)), Some(Code::DeviceNotFound));
    assert_eq!(world.journal(), journal);
    // A name that is approved is taken, before it is a node.
    machine.approve(&world).unwrap();
    let other = Machine::new(3);
    other.discover(&world).unwrap();
    assert_eq!(code(world.parts.enrollment.approve(other.id(), &machine.form(), OPERATOR)), Some(Code::HostnameInUse));
}

// spec: JO-35
#[test]
fn one_grant_a_task_and_the_same_request_gets_the_same_answer() {
    let world = World::new();
    world.window();
    let mut machine = Machine::new(1);
    machine.discover(&world).unwrap();
    assert_eq!(code(machine.grant(&world)), Some(Code::NotApproved));
    machine.approve(&world).unwrap();
    let before = machine.installation(&world).unwrap();
    assert!(before.can_request_installation_grant);
    let mut other = machine.grant_request();
    other.disk_id = Some("usb0".parse().unwrap());
    assert_eq!(code(machine.grant_with(&world, &other)), Some(Code::ApprovalMismatch));
    let grant = machine.grant(&world).unwrap();
    assert_eq!((&grant.task_id, &grant.hostname), (&before.task_id, &before.hostname));
    assert!(!machine.installation(&world).unwrap().can_request_installation_grant);
    world.advance(5);
    assert_eq!(machine.grant(&world).unwrap(), grant);
    let mut other = machine.grant_request();
    other.request_id = RequestId::from_random([77; 16]);
    assert_eq!(code(machine.grant_with(&world, &other)), Some(Code::GrantConsumed));
    let mut other = machine.grant_request();
    other.disk_id = Some("usb0".parse().unwrap());
    assert_eq!(code(machine.grant_with(&world, &other)), Some(Code::RequestReused));
    // The id of this grant, used by another machine.
    let mut second = Machine::new(2);
    second.request_id = machine.request_id.clone();
    second.discover(&world).unwrap();
    second.approve(&world).unwrap();
    assert_eq!(code(second.grant(&world)), Some(Code::RequestReused));
}

// spec: JO-6
#[test]
fn session_approval_and_grant_end_in_their_time() {
    let world = World::new();
    world.window();
    let mut machine = Machine::new(1);
    let first = machine.discover(&world).unwrap();
    world.advance(1800);
    assert_eq!(code(machine.approve(&world)), Some(Code::DiscoveryExpired));
    // Discovering again begins a new session; one that goes on is not renewed.
    assert!(machine.discover(&world).unwrap().expires_at > first.expires_at);
    machine.approve(&world).unwrap();
    world.advance(900);
    assert_eq!(code(machine.grant(&world)), Some(Code::NotApproved));
    world.parts.tick();
    assert_eq!(world.phase(&machine), Some(P::Discovered));
    // An approval late in the session ends with it.
    world.window();
    machine.approve(&world).unwrap();
    world.advance(899);
    machine.grant(&world).unwrap();
    world.advance(7199);
    machine.progress(&world, P::Installing).unwrap();
    world.advance(1);
    assert_eq!(code(machine.progress(&world, P::AwaitingEnrollment)), Some(Code::EnrollmentExpired));
    assert_eq!(code(machine.grant(&world)), Some(Code::EnrollmentExpired));
    world.parts.tick();
    assert_eq!(world.phase(&machine), Some(P::Failed));
    let kinds: Vec<String> = world.parts.journal.events(0, 500).events.iter().map(|e| e.kind.to_string()).collect();
    assert!(kinds.ends_with(&["InstallationExpired".to_owned()]), "{kinds:?}");
    assert!(kinds.contains(&"InstallationApprovalExpired".to_owned()));
    assert!(kinds.contains(&"AdmissionExpired".to_owned()));
}

// spec: JO-7
#[test]
fn the_registry_is_full_at_its_settings() {
    let world = World::with("[limits]\ndevices = 2\ntasks = 2");
    world.window();
    let (a, b, c) = (Machine::new(1), Machine::new(2), Machine::new(3));
    a.discover(&world).unwrap();
    b.discover(&world).unwrap();
    let journal = world.journal();
    assert_eq!(code(c.discover(&world)), Some(Code::RegistryFull));
    assert_eq!(world.journal(), journal);
    assert_eq!(code(c.state(&world)), Some(Code::NodeIdentityInvalid));
    // A decision makes no room by itself, time does.
    b.approve(&world).unwrap();
    world.advance(1801);
    c.discover(&world).unwrap();
    assert_eq!(world.phase(&a), None);
    assert_eq!(code(a.state(&world)), Some(Code::NodeIdentityInvalid));
}

// spec: JO-43
#[test]
fn r_3_one_address_cannot_fill_the_registry_for_all_others() {
    let world = World::with("[limits]\ndevices = 64\ntasks = 64");
    world.window();
    for number in 1..=16 {
        Machine::new(number).discover(&world).unwrap();
        // Discoveries a second are bounded too.
        world.advance(1);
    }
    let journal = world.journal();
    let mut late = Machine::new(17);
    assert_eq!(code(late.discover(&world)), Some(Code::RegistryFull));
    assert_eq!(world.journal(), journal);
    Machine::new(1).discover(&world).unwrap();
    let here = late.from;
    late.from = "10.9.9.9".parse().unwrap();
    late.discover(&world).unwrap();
    // A decision about one makes room for the next.
    world.parts.enrollment.reject(Machine::new(1).id(), OPERATOR).unwrap();
    let mut next = Machine::new(18);
    next.from = here;
    next.discover(&world).unwrap();
}

// spec: JO-18
#[test]
fn ended_tasks_make_room_for_new_ones_and_others_do_not() {
    let world = World::with("[limits]\ndevices = 2\ntasks = 2");
    world.window();
    let (a, b) = (Machine::new(1), Machine::new(2));
    a.discover(&world).unwrap();
    for _ in 0..4 {
        a.approve(&world).unwrap();
        world.advance(900);
        world.parts.tick();
        assert_eq!(world.phase(&a), Some(P::Discovered));
        world.window();
        a.discover(&world).unwrap();
    }
    assert_eq!(world.parts.journal.read().tasks.len(), 2);
    // One that goes on keeps its place, and so does the last of a device that failed.
    a.approve(&world).unwrap();
    b.discover(&world).unwrap();
    b.approve(&world).unwrap();
    a.progress(&world, P::Failed).unwrap();
    b.progress(&world, P::Failed).unwrap();
    a.discover(&world).unwrap();
    a.approve(&world).unwrap();
    assert_eq!(world.parts.journal.read().tasks.len(), 2);
    let full = World::with("[limits]\ndevices = 2\ntasks = 2");
    full.window();
    a.discover(&full).unwrap();
    b.discover(&full).unwrap();
    a.approve(&full).unwrap();
    b.approve(&full).unwrap();
    b.progress(&full, P::Failed).unwrap();
    a.progress(&full, P::Failed).unwrap();
    a.discover(&full).unwrap();
    b.discover(&full).unwrap();
    a.approve(&full).unwrap();
    b.approve(&full).unwrap();
    assert_eq!(full.phase(&b), Some(P::Approved));
    // The oldest ended one is a failed device's, which is still to be seen; the next gives way.
    let held = World::with("[limits]\ndevices = 2\ntasks = 2");
    held.window();
    a.discover(&held).unwrap();
    b.discover(&held).unwrap();
    a.approve(&held).unwrap();
    b.approve(&held).unwrap();
    a.progress(&held, P::Failed).unwrap();
    held.advance(900);
    held.parts.tick();
    b.approve(&held).unwrap();
    assert_eq!(held.parts.journal.read().tasks.len(), 2);
    assert!(held.phase(&a) == Some(P::Failed) && a.state(&held).unwrap().task_id.is_some());
}

// spec: JO-8
#[test]
fn a_rejected_device_stays_rejected_until_a_person_says_otherwise() {
    let world = World::new();
    world.window();
    let machine = Machine::new(1);
    machine.discover(&world).unwrap();
    world.parts.enrollment.reject(machine.id(), OPERATOR).unwrap();
    world.advance(1801);
    machine.discover(&world).unwrap();
    assert_eq!(world.phase(&machine), Some(P::Rejected));
    world.parts.enrollment.restore(machine.id(), OPERATOR).unwrap();
    machine.approve(&world).unwrap();
    let other = Machine::new(2);
    other.discover(&world).unwrap();
    world.parts.enrollment.reject(other.id(), OPERATOR).unwrap();
    world.parts.enrollment.dismiss(other.id(), OPERATOR).unwrap();
    assert_eq!(world.phase(&other), None);
    assert_eq!(code(other.state(&world)), Some(Code::NodeIdentityInvalid));
    for answer in [
        world.parts.enrollment.reject(other.id(), OPERATOR),
        world.parts.enrollment.restore(other.id(), OPERATOR),
        world.parts.enrollment.dismiss(other.id(), OPERATOR),
    ] {
        assert_eq!(code(answer), Some(Code::DeviceNotFound));
    }
    assert_eq!(code(world.parts.enrollment.remove(other.id(), OPERATOR)), Some(Code::UnknownNode));
}

// spec: JO-221
#[test]
fn a_discovered_machine_is_dismissed_whatever_the_time() {
    let world = World::new();
    world.window();
    let machine = Machine::new(1);
    machine.discover(&world).unwrap();
    world.parts.enrollment.dismiss(machine.id(), OPERATOR).unwrap();
    assert_eq!(world.phase(&machine), None);
    assert_eq!(code(machine.state(&world)), Some(Code::NodeIdentityInvalid));
    machine.discover(&world).unwrap();
    machine.approve(&world).unwrap();
    let journal = world.journal();
    assert_eq!(code(world.parts.enrollment.dismiss(machine.id(), OPERATOR)), Some(Code::NotRejected));
    assert_eq!(world.journal(), journal);
}

// spec: JO-42
#[test]
fn an_approval_late_in_the_session_ends_with_it() {
    let world = World::new();
    world.window();
    let mut machine = Machine::new(1);
    let session = machine.discover(&world).unwrap().expires_at;
    world.advance(1790);
    machine.approve(&world).unwrap();
    assert_eq!(machine.installation(&world).unwrap().authority_expires_at, session);
    world.advance(10);
    assert_eq!(code(machine.grant(&world)), Some(Code::NotApproved));
}
