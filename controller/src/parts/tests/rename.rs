//! Another name for a node: what it reports, what the operator may say, and under which names it is heard meanwhile.

use lucia_people::host_api::{NodeLine, RenameForm};
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::json;
use lucia_proto::base::names::Hostname;
use lucia_proto::files::journal::{FrozenRow, Holder, NewName};
use lucia_proto::node::heartbeat::HeartbeatReply;
use lucia_proto::node::report::{NodeCall, Proof};
use lucia_proto::test_support::TestNode;

use super::bench::{Machine, OPERATOR, WORKER_REFUSES, World, code};
use crate::parts::{Enrolled, Refusal};

fn name(text: &str) -> Hostname {
    text.parse().unwrap()
}

fn names(from: &str, to: &str) -> NewName {
    NewName { from: name(from), to: name(to) }
}

impl Machine {
    /// A heartbeat in which the machine calls itself `new`.
    fn reports(&self, world: &World, new: &str) -> Result<HeartbeatReply, Refusal> {
        let mut fields = serde_json::to_value(self.beat()).unwrap();
        if new != self.node.hostname.as_str() {
            fields["newHostname"] = new.into();
        }
        let heartbeat: lucia_proto::node::heartbeat::Heartbeat = json::from_str(&fields.to_string(), 4096, 4).unwrap();
        let proof = Proof::sign(&heartbeat, &self.challenge(world), &self.node.key).unwrap();
        let call = NodeCall { certificate_pem: self.certificate.clone(), proof };
        world.parts.heartbeat(self.id(), &call, self.from)
    }

    /// The same machine once it asks under another name.
    fn called(&self, new: &str) -> Self {
        let mut other = Self::new(self.number_of_key());
        other.node.hostname = name(new);
        other.node.task_id = self.node.task_id.clone();
        other.certificate.clone_from(&self.certificate);
        other
    }

    /// Of which test key it is.
    fn number_of_key(&self) -> u8 {
        (1..=9).find(|number| TestNode::new(*number).node_id == self.node.node_id).unwrap()
    }
}

fn rename(world: &World, machine: &Machine, new: &str) -> Result<(), Refusal> {
    world.parts.enrollment.rename(machine.id(), &RenameForm { hostname: name(new) }, OPERATOR)
}

fn line(world: &World, machine: &Machine) -> NodeLine {
    world.parts.node(machine.id()).unwrap().node
}

/// Node 1, renamed from n1 to web and not yet heard under that.
fn renamed() -> (World, Machine) {
    let world = World::new();
    let machine = world.node(1);
    machine.reports(&world, "web").unwrap();
    rename(&world, &machine, "web").unwrap();
    (world, machine)
}

// spec: HB-240
#[test]
fn a_heartbeat_says_the_name_in_its_certificate() {
    let world = World::new();
    let machine = world.node(1);
    assert_eq!(code(machine.called("web").heartbeat(&world)), Some(Code::InvalidBody));
    machine.heartbeat(&world).unwrap();
    // While it is renamed each of its two names goes with the certificate that has it.
    let (world, machine) = renamed();
    assert_eq!(code(machine.called("web").heartbeat(&world)), Some(Code::InvalidBody));
    machine.heartbeat(&world).unwrap();
}

// spec: NN-10
#[test]
fn a_node_is_given_the_name_it_reports_and_no_other() {
    let world = World::new();
    let (machine, other, waits) = (world.node(1), world.node(2), Machine::new(4));
    waits.discover(&world).unwrap();
    let before = world.journal();
    let stays = |want: Code, new: &str| {
        assert_eq!(code(rename(&world, &machine, new)), Some(want), "{new}");
        assert!(world.journal() == before, "{new}");
    };
    stays(Code::InvalidOnboardingRequest, "web");
    for (reported, asked, want) in [
        ("web", "mail", Code::InvalidOnboardingRequest),
        ("n2", "n2", Code::HostnameInUse),
        ("lucia", "lucia", Code::InvalidOnboardingRequest),
    ] {
        machine.reports(&world, reported).unwrap();
        stays(want, asked);
    }
    assert_eq!(code(rename(&world, &waits, "web")), Some(Code::UnknownNode));
    assert_eq!(code(rename(&world, &Machine::new(9), "web")), Some(Code::UnknownNode));
    // What it has already changes nothing; what it reported last counts.
    rename(&world, &machine, "n1").unwrap();
    machine.reports(&world, "web").unwrap();
    assert!(world.journal() == before);
    assert_eq!(line(&world, &machine).new_hostname, Some(name("web")));
    rename(&world, &machine, "web").unwrap();
    let journal = world.parts.journal.read();
    let row = journal.device(machine.id()).unwrap();
    assert_eq!((&row.hostname, &row.former_hostname), (&Some(name("web")), &Some(name("n1"))));
    assert_eq!(journal.task(row.task_id.as_ref().unwrap()).unwrap().hostname, name("web"));
    let last = journal.events.last().unwrap();
    assert_eq!((last.kind, last.device_id.as_ref(), last.actor.as_str()), (Act::Renamed, Some(machine.id()), OPERATOR));
    assert_eq!(last.names, Some(names("n1", "web")));
    drop(journal);
    let line = line(&world, &machine);
    assert_eq!((line.hostname, line.new_hostname, line.former_hostname), (name("web"), None, Some(name("n1"))));
    other.heartbeat(&world).unwrap();
}

// spec: NN-30
#[test]
fn each_rename_is_an_event_with_both_names_and_the_last_ones_are_shown() {
    let (world, machine) = renamed();
    rename(&world, &machine, "n1").unwrap();
    let mut want = vec![names("n1", "web"), names("web", "n1")];
    let told: Vec<_> = world.parts.journal.events(0, 500).events.into_iter().filter_map(|event| event.names).collect();
    assert_eq!(told, want);
    for _ in 0..4 {
        rename(&world, &machine, "web").unwrap();
        rename(&world, &machine, "n1").unwrap();
        want.extend([names("n1", "web"), names("web", "n1")]);
    }
    // Of a start from the disk as well.
    let world = world.restart();
    let shown: Vec<_> = world.parts.node(machine.id()).unwrap().renames;
    assert!(shown.iter().all(|rename| rename.actor.as_str() == OPERATOR && rename.at <= world.now()));
    let shown: Vec<_> = shown.into_iter().map(|rename| rename.names).collect();
    assert_eq!(shown, want[want.len() - 8..]);
}

// spec: NN-11
#[test]
fn it_is_heard_under_either_name_until_it_is_heard_under_the_new_one() {
    let (world, machine) = renamed();
    let new = machine.called("web");
    let before = world.journal();
    for _ in 0..2 {
        assert_eq!(machine.reports(&world, "web").unwrap().hostname, Some(name("web")), "the reply tells");
    }
    assert!(world.journal() == before, "a heartbeat under the former name changes nothing");
    // Its certificate is renewed under the name it has, asked for under the new one, and each at any time.
    world.advance(2 * 3600);
    world.worker_is_there();
    assert_eq!(machine.renew(&world).unwrap(), Enrolled::Pending);
    assert_eq!(new.renew(&world).unwrap(), Enrolled::Pending);
    assert_eq!(code(machine.called("mail").renew(&world)), Some(Code::EnrollmentMismatch));
    let answer = world.ca.sign_answer(&world.ca.answer(&new.node, world.now()));
    world.worker_answers(&machine, Some(answer.clone()));
    assert_eq!(new.renew(&world).unwrap(), Enrolled::Ready(answer.clone()));
    // That answer may be lost: the former certificate is as good as before, also after a restart.
    assert_eq!(machine.reports(&world, "web").unwrap().hostname, Some(name("web")));
    let world = world.restart();
    assert_eq!(machine.reports(&world, "web").unwrap().hostname, Some(name("web")));
    assert_eq!(new.renew(&world).unwrap(), Enrolled::Ready(answer));
    let mut done = machine.called("web");
    done.certificate = world.ca.issue(&new.node, world.now());
    assert_eq!(done.reports(&world, "web").unwrap().hostname, None);
    assert_eq!(world.parts.journal.read().device(machine.id()).unwrap().former_hostname, None);
    assert_eq!(code(machine.heartbeat(&world)), Some(Code::NodeIdentityInvalid), "the former name is over");
    let after = world.journal();
    done.heartbeat(&world).unwrap();
    assert!(world.journal() == after, "and each further heartbeat needs no disk");
    let world = world.restart();
    done.heartbeat(&world).unwrap();
    let view = world.parts.node(done.id()).unwrap();
    assert_eq!((view.node.hostname, view.task_id), (name("web"), machine.node.task_id.clone()));
    assert!(!view.samples.is_empty() && view.node.former_hostname.is_none());
}

// spec: NN-12
#[test]
fn a_rename_under_way_can_be_taken_back_and_nothing_else() {
    let (world, machine) = renamed();
    machine.reports(&world, "mail").unwrap();
    let before = world.journal();
    let refusal = rename(&world, &machine, "mail").unwrap_err();
    assert_eq!(refusal.code, Code::InvalidOnboardingRequest);
    assert!(refusal.message.contains("luciactl rename web n1"), "{}", refusal.message);
    assert!(world.journal() == before);
    // Its former name is nobody else's meanwhile.
    let mut other = Machine::new(3);
    other.node.hostname = name("n1");
    world.window();
    other.discover(&world).unwrap();
    assert_eq!(code(other.approve(&world)), Some(Code::HostnameInUse));
    let second = world.node(2);
    second.reports(&world, "n1").unwrap();
    assert_eq!(code(rename(&world, &second, "n1")), Some(Code::HostnameInUse));
    rename(&world, &machine, "n1").unwrap();
    assert_eq!(machine.reports(&world, "mail").unwrap().hostname, None);
    assert_eq!(world.parts.journal.read().device(machine.id()).unwrap().former_hostname, None);
    rename(&world, &machine, "mail").unwrap();
}

/// Whoever wants the former name for another machine is told what gives it, and that does.
// spec: NN-29
#[test]
fn the_name_that_a_rename_holds_is_refused_with_what_really_cures() {
    use lucia_people::host_api::ApproveForm;
    let prepared = || {
        let (world, old) = renamed();
        let mut new = Machine::new(2);
        new.node.hostname = name("n1");
        world.window();
        new.discover(&world).unwrap();
        (world, old, new)
    };
    let approve = |world: &World, new: &Machine, hostname: &str, replaces: Option<&Machine>| {
        let replaces = replaces.map(|old| old.id().clone());
        let form = ApproveForm { hostname: name(hostname), replaces, ..new.form() };
        world.parts.enrollment.approve(new.id(), &form, OPERATOR)
    };
    let (world, old, new) = prepared();
    let before = world.journal();
    // With --replaces or without: the same word, as that alone is not the cure.
    for replaces in [None, Some(&old)] {
        let refusal = approve(&world, &new, "n1", replaces).unwrap_err();
        assert_eq!(refusal.code, Code::HostnameInUse);
        for cure in ["luciactl rename web n1", &format!("--replaces {}", old.id())] {
            assert!(refusal.message.contains(cure), "{cure}: {}", refusal.message);
        }
        assert!(world.journal() == before);
    }
    // Each of them is one: the other name of it,
    approve(&world, &new, "web", Some(&old)).unwrap();
    // the rename taken back,
    let (world, old, new) = prepared();
    rename(&world, &old, "n1").unwrap();
    approve(&world, &new, "n1", Some(&old)).unwrap();
    // and having waited.
    let (world, old, new) = prepared();
    let mut done = old.called("web");
    done.certificate = world.ca.issue(&done.node, world.now());
    done.reports(&world, "web").unwrap();
    approve(&world, &new, "n1", None).unwrap();
}

// spec: NN-13
#[test]
fn a_frozen_identity_is_given_no_name() {
    let world = World::new();
    let machine = world.node(1);
    machine.reports(&world, "web").unwrap();
    let now = world.now();
    let holder = Holder {
        start_id: None,
        boot_id: None,
        address: machine.from,
        first_seen_at: now,
        last_seen_at: None,
        memory_lost: false,
    };
    let freeze = |journal: &mut lucia_proto::files::journal::Journal| {
        let row = journal.device_mut(machine.id()).unwrap();
        row.frozen = Some(FrozenRow { at: now, holders: vec![holder.clone(), holder.clone()] });
        Ok(())
    };
    world.parts.journal.change(freeze).unwrap();
    let refusal = rename(&world, &machine, "web").unwrap_err();
    assert_eq!(refusal.code, Code::InvalidOnboardingRequest);
    assert!(refusal.message.contains("luciactl clone"), "{}", refusal.message);
}

/// What the page and `luciactl why` say of it.
fn findings(world: &World, machine: &Machine) -> String {
    let why = lucia_people::why::Why::of(&world.parts.node(machine.id()).unwrap(), &[]);
    why.findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

// spec: NN-340
#[test]
fn a_rename_under_way_is_a_finding_with_the_workers_command() {
    let (world, machine) = renamed();
    // The worker may be told before the node asks, and after.
    assert!(findings(&world, &machine).contains("lucia-enrollment-worker rename n1 web"));
    world.worker_is_there();
    assert_eq!(machine.called("web").renew(&world).unwrap(), Enrolled::Pending);
    assert!(findings(&world, &machine).contains("lucia-enrollment-worker rename n1 web"));
    // Where the worker refuses the name for good, its words and the way back stand in place of its command.
    world.worker_answers(&machine, None);
    let found = findings(&world, &machine);
    assert!(found.contains(WORKER_REFUSES) && found.contains("luciactl rename web n1"), "{found}");
    assert!(!found.contains("lucia-enrollment-worker rename"), "{found}");
    // Taken back it waits for nobody.
    rename(&world, &machine, "n1").unwrap();
    assert!(!findings(&world, &machine).contains(WORKER_REFUSES));
}

// spec: NN-340
#[test]
fn a_rename_whose_certificate_is_there_waits_for_the_next_heartbeat_alone() {
    let (world, machine) = renamed();
    world.worker_is_there();
    let called = machine.called("web");
    assert_eq!(called.renew(&world).unwrap(), Enrolled::Pending);
    let answer = world.ca.answer(&called.node, world.now());
    world.worker_answers(&machine, Some(world.ca.sign_answer(&answer)));
    assert!(matches!(called.renew(&world).unwrap(), Enrolled::Ready(_)));
    let found = findings(&world, &machine);
    assert!(found.contains("web") && !found.contains("lucia-enrollment-worker"), "{found}");
}
