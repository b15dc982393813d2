//! A machine that runs joins as it is: a kind of approval of its own, with no disk.

use lucia_people::host_api::ApproveForm;
use lucia_proto::base::code::Code;
use lucia_proto::node::phase::{DevicePhase, TaskKind};
use lucia_proto::node::report::GrantRequest;

use super::bench::{Machine, OPERATOR, World, code};

fn running(number: u8) -> Machine {
    let mut machine = Machine::new(number);
    machine.running = true;
    machine
}

fn join(machine: &Machine) -> ApproveForm {
    ApproveForm { disk_id: None, confirmation: None, ..machine.form() }
}

// spec: JO-300
#[test]
fn a_running_machine_is_approved_without_a_disk_and_an_installer_only_with_one() {
    let world = World::new();
    world.window();
    let (mut runs, installs) = (running(1), Machine::new(2));
    runs.discover(&world).unwrap();
    installs.discover(&world).unwrap();
    let before = world.journal();
    let refused =
        |machine: &Machine, form: &ApproveForm| code(world.parts.enrollment.approve(machine.id(), form, OPERATOR));
    assert_eq!(refused(&runs, &runs.form()), Some(Code::IneligibleDisk));
    assert_eq!(refused(&installs, &join(&installs)), Some(Code::IneligibleDisk));
    let erases = ApproveForm { confirmation: runs.form().confirmation, ..join(&runs) };
    assert_eq!(refused(&runs, &erases), Some(Code::InvalidOnboardingRequest));
    let unconfirmed = ApproveForm { confirmation: None, ..installs.form() };
    assert_eq!(refused(&installs, &unconfirmed), Some(Code::InvalidOnboardingRequest));
    assert!(world.journal() == before, "nothing was approved");

    assert_eq!(refused(&runs, &join(&runs)), None);
    assert_eq!(runs.installation(&world).unwrap().disk_id, None);
    // A grant with a disk is none of this approval.
    assert_eq!(code(runs.grant_with(&world, &runs.grant_request())), Some(Code::ApprovalMismatch));
    let request = GrantRequest { disk_id: None, ..runs.grant_request() };
    let grant = runs.grant_with(&world, &request).unwrap();
    assert_eq!(grant.disk_id, None);
    runs.node.task_id = grant.task_id;
    runs.progress(&world, DevicePhase::Installing).unwrap();
    runs.progress(&world, DevicePhase::AwaitingEnrollment).unwrap();
    let journal = world.parts.journal.read();
    assert_eq!(journal.task(&runs.node.task_id).unwrap().kind(), TaskKind::Join);
    let view = world.parts.enrollment.onboarding();
    let device = view.devices.iter().find(|device| device.device_id == *runs.id()).unwrap();
    assert!(device.running && device.task.as_ref().unwrap().disk_id.is_none());
}

// spec: JO-301
#[test]
fn an_approval_is_void_when_the_machine_turns_out_to_run_but_no_grant_is() {
    let world = World::new();
    world.window();
    let mut machine = Machine::new(1);
    machine.discover(&world).unwrap();
    machine.approve(&world).unwrap();
    machine.running = true;
    machine.discover(&world).unwrap();
    let phase = || world.parts.enrollment.onboarding().devices[0].phase;
    assert_eq!(phase(), DevicePhase::Discovered, "an installation was approved, and no installer runs");
    world.parts.enrollment.approve(machine.id(), &join(&machine), OPERATOR).unwrap();
    machine.revision = 2;
    let request = GrantRequest { disk_id: None, ..machine.grant_request() };
    machine.grant_with(&world, &request).unwrap();
    machine.running = false;
    world.advance(120);
    machine.discover(&world).unwrap();
    assert_eq!(phase(), DevicePhase::Approved, "what was granted stays of its kind");
    assert!(world.parts.enrollment.onboarding().devices[0].running);
}
