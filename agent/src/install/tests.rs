//! The installer's verbs: the guard's table, the one grant, and a target that lies.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lucia_proto::base::code::Code;
use lucia_proto::base::json as strict;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::inventory::HardwareInventory;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::report::{GrantRequest, Progress};
use lucia_proto::test_support::{TestCa, TestNode, key};

use super::guard::GuardRefusal;
use super::stage::{StageError, Staged};
use super::target::{InstallTarget, TargetError};
use super::*;
use crate::client::config::{Config, Trust};
use crate::client::fake::{Fake, Reply, START, SeenCall, TestClock, with_challenges};
use crate::client::retry::Backoff;
use crate::host::failed::Failed;
use crate::host::scratch::Scratch;
use crate::host::state::StateFile;
use crate::install::wait::WaitError;
use crate::owners::policy;

const BOOT: &str = "33333333-3333-4333-8333-333333333333";

fn start() -> UnixTime {
    UnixTime::from_secs(START)
}

fn boot() -> BootId {
    BOOT.parse().unwrap()
}

fn node() -> TestNode {
    TestNode::new(7)
}

fn grant() -> Grant {
    Grant {
        task_id: node().task_id,
        device_id: node().node_id,
        request_id: RequestId::from_random([5; 16]),
        hostname: node().hostname,
        disk_id: Some("wwn-1".parse().unwrap()),
        inventory_revision: 2,
        expires_at: start().plus(Duration::from_secs(900)),
        progress_expires_at: start().plus(Duration::from_secs(7200)),
    }
}

fn kept() -> Installation {
    let grant = grant();
    Installation {
        task_id: grant.task_id.clone(),
        request_id: grant.request_id.clone(),
        boot_id: boot(),
        grant: Some(grant),
    }
}

fn device(phase: DevicePhase) -> DeviceState {
    DeviceState {
        device_id: node().node_id,
        phase,
        verification_code: node().fingerprint.verification_code(),
        inventory_revision: 2,
        expires_at: start().plus(Duration::from_secs(1800)),
        hostname: Some(node().hostname),
        task_id: Some(node().task_id),
        message: None,
    }
}

fn inventory(disk: &str) -> HardwareInventory {
    let text = format!(
        r#"{{"architecture":"x86_64","bootMode":"Uefi","logicalCpuCount":2,"memoryBytes":1024,
        "interfaces":[{{"name":"eth0","macAddress":"52:54:00:12:34:56","addresses":[]}}],"disks":[{disk}]}}"#
    );
    strict::from_str(&text, 1 << 16, 24).unwrap()
}

const DISK: &str = r#"{"id":"wwn-1","path":"/dev/sda","sizeBytes":1,"isRemovable":false,"isReadOnly":false}"#;

// spec: AG-20, AG-302
#[test]
fn the_guard_lets_nothing_pass_but_all_conditions_together() {
    let now = start();
    let later = |secs| now.plus(Duration::from_secs(secs));
    let judge = |kept: Option<&Installation>, boot: &BootId, disk: &str, device: &DeviceState, now| {
        guard::check(false, kept, boot, &inventory(disk), device, now)
            .map(|_| ())
            .map_err(|refusal| refusal.exit_code())
    };
    let (good, approved) = (kept(), device(DevicePhase::Approved));
    assert_eq!(judge(Some(&good), &boot(), DISK, &approved, now), Ok(()));
    assert_eq!(judge(Some(&good), &boot(), DISK, &approved, later(900)), Ok(()));
    assert_eq!(judge(None, &boot(), DISK, &approved, now), Err(20));
    // A system that runs is never erased, whatever was granted; nor is anything without a disk in the grant.
    let runs = guard::check(true, Some(&good), &boot(), &inventory(DISK), &approved, now);
    assert_eq!(runs.map_err(|refusal| refusal.exit_code()), Err(25));
    let mut joins = kept();
    joins.grant.as_mut().unwrap().disk_id = None;
    assert_eq!(judge(Some(&joins), &boot(), DISK, &approved, now), Err(25));
    assert_eq!(judge(Some(&Installation { grant: None, ..kept() }), &boot(), DISK, &approved, now), Err(20));
    assert_eq!(judge(Some(&good), &boot(), DISK, &approved, later(901)), Err(21));
    let other = "44444444-4444-4444-8444-444444444444".parse().unwrap();
    assert_eq!(judge(Some(&good), &other, DISK, &approved, now), Err(22));
    for disk in [
        DISK.replace("wwn-1", "wwn-2"),
        DISK.replace(r#""isRemovable":false"#, r#""isRemovable":true"#),
        DISK.replace(r#""isReadOnly":false"#, r#""isReadOnly":true"#),
        String::new(),
    ] {
        assert_eq!(judge(Some(&good), &boot(), &disk, &approved, now), Err(23), "{disk}");
    }
    for phase in DevicePhase::ALL {
        let want = if matches!(phase, DevicePhase::Approved | DevicePhase::Installing) { Ok(()) } else { Err(24) };
        assert_eq!(judge(Some(&good), &boot(), DISK, &device(phase), now), want, "{phase:?}");
    }
    // An installation that began in time goes on until it must be through.
    assert_eq!(judge(Some(&good), &boot(), DISK, &device(DevicePhase::Installing), later(7200)), Ok(()));
    assert_eq!(judge(Some(&good), &boot(), DISK, &device(DevicePhase::Installing), later(7201)), Err(21));
    let changed = DeviceState { inventory_revision: 3, ..approved.clone() };
    assert_eq!(judge(Some(&good), &boot(), DISK, &changed, now), Err(24));
    let other = DeviceState { device_id: TestNode::new(8).node_id, ..approved.clone() };
    assert_eq!(judge(Some(&good), &boot(), DISK, &other, now), Err(24));
    let other = DeviceState { task_id: None, ..approved };
    assert_eq!(judge(Some(&good), &boot(), DISK, &other, now), Err(24));
    let texts = [GuardRefusal::NoGrant.to_string(), GuardRefusal::OtherBoot.to_string()];
    assert_ne!(texts[0], texts[1]);
}

fn json<T: Serialize>(value: &T) -> Reply {
    Reply::Ok(strict::to_string(value).unwrap())
}

/// A controller that approves at the second question and gives one grant; counts request ids.
fn approving(
    lose_first_grant: bool,
    requests: Rc<RefCell<Vec<RequestId>>>,
) -> impl FnMut(&SeenCall) -> Reply + 'static {
    let asked = Cell::new(0);
    with_challenges(move |seen| match seen.call {
        Endpoint::DeviceState => {
            asked.set(asked.get() + 1);
            json(&device(if asked.get() < 3 { DevicePhase::Discovered } else { DevicePhase::Approved }))
        }
        Endpoint::Installation => json(&api_installation(requests.borrow().is_empty())),
        Endpoint::Grant => {
            let request: GrantRequest = strict::from_str(&seen.report, 1 << 16, 24).unwrap();
            requests.borrow_mut().push(request.request_id.clone());
            if lose_first_grant && requests.borrow().len() == 1 {
                return Reply::Lost;
            }
            json(&Grant { request_id: request.request_id, ..grant() })
        }
        call => panic!("{call:?} was not scripted"),
    })
}

fn api_installation(can_request: bool) -> lucia_proto::node::first_contact::Installation {
    let grant = grant();
    lucia_proto::node::first_contact::Installation {
        device_id: grant.device_id,
        inventory_revision: grant.inventory_revision,
        task_id: grant.task_id,
        authority_expires_at: grant.expires_at,
        can_request_installation_grant: can_request,
        hostname: grant.hostname,
        disk_id: grant.disk_id,
    }
}

// spec: AG-21
#[tokio::test(start_paused = true)]
async fn a_lost_grant_is_asked_for_again_under_the_same_request() {
    for lose in [false, true] {
        let scratch = Scratch::new();
        let requests = Rc::new(RefCell::new(Vec::new()));
        let fake = Fake::new(&Arc::new(key(7)), approving(lose, Rc::clone(&requests)));
        let mut client = fake.client(&TestClock::at(start()));
        let state = State::hold(&scratch.root(), "test").unwrap();
        let mut said = Vec::new();
        let mut backoff = Backoff::new(1);
        let granted =
            wait::wait_install(&mut client, &state, &boot(), &mut backoff, |line| said.push(line.to_owned())).await;
        let granted = granted.unwrap();
        assert_eq!(requests.borrow().len(), if lose { 2 } else { 1 });
        assert!(requests.borrow().iter().all(|id| *id == granted.request_id));
        assert_eq!(said.len(), if lose { 2 } else { 1 }, "{said:?}");
        // Run again, it finds the grant and asks for none.
        let again = wait::wait_install(&mut client, &state, &boot(), &mut backoff, |_| ()).await.unwrap();
        assert_eq!((again, requests.borrow().len()), (granted, if lose { 2 } else { 1 }));
        assert_eq!(Installation::read(&state).unwrap().unwrap().boot_id, boot());
    }
}

type MakeReply = fn() -> Reply;

// spec: AG-22
#[tokio::test(start_paused = true)]
async fn what_no_waiting_cures_ends_the_wait() {
    let cases: Vec<(&str, MakeReply)> = vec![
        ("rejected", || json(&device(DevicePhase::Rejected))),
        ("failed", || json(&device(DevicePhase::Failed))),
        ("managed", || json(&device(DevicePhase::Managed))),
        ("unknown", || Reply::Refuse(Code::NodeIdentityInvalid)),
        ("over", || {
            json(&DeviceState { expires_at: start().minus(Duration::from_secs(1)), ..device(DevicePhase::Discovered) })
        }),
    ];
    for (name, reply) in cases {
        let scratch = Scratch::new();
        let fake = Fake::new(&Arc::new(key(7)), with_challenges(move |_| reply()));
        let mut client = fake.client(&TestClock::at(start()));
        let state = State::hold(&scratch.root(), "test").unwrap();
        let mut backoff = Backoff::new(1);
        let ended = wait::wait_install(&mut client, &state, &boot(), &mut backoff, |_| ()).await;
        assert!(ended.is_err(), "{name}");
        assert!(!state.exists(StateFile::Installation).unwrap(), "{name}");
    }
}

/// Waits beside what is kept already, at a controller that approved and whose grants are `given`.
async fn wait_beside(
    kept: Option<Installation>,
    given: impl Fn(GrantRequest) -> Grant + 'static,
) -> (Result<Grant, WaitError>, Option<Installation>) {
    let scratch = Scratch::new();
    let fake = Fake::new(
        &Arc::new(key(7)),
        with_challenges(move |seen| match seen.call {
            Endpoint::DeviceState => json(&device(DevicePhase::Approved)),
            Endpoint::Installation => json(&api_installation(true)),
            _ => json(&given(strict::from_str(&seen.report, 1 << 16, 24).unwrap())),
        }),
    );
    let mut client = fake.client(&TestClock::at(start()));
    let state = State::hold(&scratch.root(), "test").unwrap();
    kept.iter().for_each(|kept| kept.write(&state).unwrap());
    let ended = wait::wait_install(&mut client, &state, &boot(), &mut Backoff::new(1), |_| ()).await;
    (ended, Installation::read(&state).unwrap())
}

// spec: AG-29
#[tokio::test(start_paused = true)]
async fn a_grant_for_anything_else_than_was_asked_is_not_used() {
    type Change = fn(&mut Grant);
    let cases: [(&str, Change); 6] = [
        ("device", |grant| grant.device_id = TestNode::new(8).node_id),
        ("task", |grant| grant.task_id = TestNode::new(8).task_id),
        ("request", |grant| grant.request_id = RequestId::from_random([6; 16])),
        ("inventory", |grant| grant.inventory_revision = 3),
        ("disk", |grant| grant.disk_id = Some("wwn-2".parse().unwrap())),
        ("hostname", |grant| grant.hostname = TestNode::new(8).hostname),
    ];
    for (want, change) in cases {
        let (ended, kept) = wait_beside(None, move |request| {
            let mut grant = Grant { request_id: request.request_id, ..grant() };
            change(&mut grant);
            grant
        })
        .await;
        assert!(matches!(ended, Err(WaitError::Mismatch(field)) if field == want), "{want}: {ended:?}");
        assert_eq!(kept.unwrap().grant, None, "{want}");
    }
}

// spec: AG-29
#[tokio::test(start_paused = true)]
async fn a_grant_of_another_boot_or_task_is_not_taken_up() {
    let other_boot = Installation { boot_id: "44444444-4444-4444-8444-444444444444".parse().unwrap(), ..kept() };
    for stale in [other_boot, Installation { task_id: TestNode::new(8).task_id, ..kept() }] {
        let given = |request: GrantRequest| Grant { request_id: request.request_id, ..grant() };
        let (ended, now_kept) = wait_beside(Some(stale.clone()), given).await;
        let granted = ended.unwrap();
        assert_ne!(granted.request_id, stale.request_id, "asked for anew");
        let now_kept = now_kept.unwrap();
        assert_eq!((now_kept.boot_id, now_kept.task_id, now_kept.grant), (boot(), node().task_id, Some(granted)));
    }
}

fn trust() -> Trust {
    let text = "controller-url = \"https://10.0.0.1:8443\"\ncontroller-name = \"c.lucia\"\n";
    Trust { config: Config::parse(text, Path::new("x")).unwrap(), root: TestCa::new(start()).root() }
}

/// Stages into `dir` with the node's key.
fn stage_into(dir: &Path) -> Result<crate::identity::installed::InstalledFacts, StageError> {
    let (trust, node, boot) = (trust(), node(), boot());
    let target = InstallTarget::open(dir).map_err(Failed::from)?;
    stage::stage(&target, &grant(), Staged { trust: &trust, key: &node.key, boot: &boot, program: b"the agent" })
}

// spec: AG-80
#[test]
fn a_proxy_and_its_ca_go_with_the_node_that_is_staged() {
    let scratch = Scratch::new();
    let (mut trust, node, boot) = (trust(), node(), boot());
    let proxy = "[proxy]\nurl = \"https://p:3128\"\nca-file = \"/media/ca.pem\"\n";
    trust.config = Config::parse(&format!("{}{proxy}", trust.config.to_text()), Path::new("x")).unwrap();
    trust.config.proxy.as_mut().unwrap().ca.as_mut().unwrap().pem = "the CA".to_owned();
    let dir = scratch.root().path().to_owned();
    let target = InstallTarget::open(&dir).unwrap();
    let staged = Staged { trust: &trust, key: &node.key, boot: &boot, program: b"the agent" };
    stage::stage(&target, &grant(), staged).unwrap();
    let files = tree(&dir);
    assert_eq!(files["etc/lucia/proxy-ca.pem"], (0o644, b"the CA".to_vec()));
    let text = String::from_utf8(files["etc/lucia/agent.toml"].1.clone()).unwrap();
    let proxy = Config::parse(&text, Path::new("agent.toml")).unwrap().proxy.unwrap();
    assert_eq!(
        (proxy.url().as_str(), proxy.ca.unwrap().file.to_str()),
        ("https://p:3128", Some("/etc/lucia/proxy-ca.pem"))
    );
}

/// Path, mode and content of everything in a directory; a link's content is where it leads.
fn tree(dir: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut out = BTreeMap::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(at) = todo.pop() {
        for entry in std::fs::read_dir(at).unwrap().map(Result::unwrap) {
            let (path, facts) = (entry.path(), entry.metadata().unwrap());
            let content = if facts.is_symlink() {
                std::fs::read_link(&path).unwrap().to_string_lossy().as_bytes().to_vec()
            } else if facts.is_dir() {
                todo.push(path.clone());
                Vec::new()
            } else {
                std::fs::read(&path).unwrap()
            };
            let name = path.strip_prefix(dir).unwrap().to_string_lossy().into_owned();
            out.insert(name, (facts.permissions().mode() & 0o7777, content));
        }
    }
    out
}

// spec: AG-23
#[test]
fn staging_lays_every_file_and_may_be_repeated() {
    let scratch = Scratch::new();
    scratch.put("etc/machine-id", "uninitialized\n");
    scratch.put("etc/hostname", "debian\n");
    let dir = scratch.root().path().to_owned();
    let facts = stage_into(&dir).unwrap();
    let first = tree(&dir);
    let text = |path: &str| String::from_utf8(first[path].1.clone()).unwrap();
    assert_eq!(first["usr/lib/lucia/agent/lucia-node-agent"], (0o755, b"the agent".to_vec()));
    assert_eq!(text("usr/bin/lucia-node-agent"), "/usr/lib/lucia/agent/lucia-node-agent");
    assert_eq!(text("etc/hostname"), "n7\n");
    assert_eq!(text("etc/machine-id"), format!("{}\n", facts.machine_id));
    assert_eq!(
        text("etc/systemd/system/multi-user.target.wants/lucia-node-agent.service"),
        "/usr/lib/systemd/system/lucia-node-agent.service"
    );
    assert!(text("usr/lib/systemd/system/lucia-node-agent.service").contains("managed-run"));
    let tmpfiles = text("usr/lib/tmpfiles.d/lucia-agent.conf");
    assert!(tmpfiles.contains("/var/lib/lucia/agent 0700"));
    // Where a node is the controller's host as well, lucia.conf comes after it and has the last word on that directory.
    assert!(!tmpfiles.contains("d /run/lucia "));
    let config = Config::parse(&text("etc/lucia/agent.toml"), Path::new("agent.toml")).unwrap();
    assert_eq!(config.controller(), trust().config.controller());
    assert_eq!(text("etc/lucia/root.pem"), trust().root.pem());
    assert_eq!(first["var/lib/lucia/agent"].0, 0o700);
    for name in ["node.key", "installed.json"] {
        assert_eq!(first[&format!("var/lib/lucia/agent/{name}")].0, 0o600, "{name}");
    }
    assert_eq!(facts.install_boot_id, Some(boot()));
    // Again: the same files, the same machine id.
    assert_eq!(stage_into(&dir).unwrap(), facts);
    let without_lease = |mut tree: BTreeMap<String, (u32, Vec<u8>)>| {
        tree.remove("var/lib/lucia/agent/.lease");
        tree
    };
    assert_eq!(without_lease(tree(&dir)), without_lease(first));
    // A disk with another node's key is not taken over.
    let other = TestNode::new(8);
    let (trust, boot) = (trust(), boot());
    let staged = Staged { trust: &trust, key: &other.key, boot: &boot, program: b"the agent" };
    let refused = stage::stage(&InstallTarget::open(&dir).unwrap(), &grant(), staged);
    assert!(matches!(refused, Err(StageError::OtherKey)), "{refused:?}");
}

// spec: AG-441
#[test]
fn staging_lays_a_policy_and_never_allows_more_than_one_that_is_there() {
    let strict = "ssh-key = \"forbid\"\n";
    for (there, given, want) in [
        (None, None, Ok(policy::edit::default_text())),
        (None, Some(strict), Ok(strict.to_owned())),
        (Some(strict), None, Ok(strict.to_owned())),
        (Some(strict), Some(strict), Ok(strict.to_owned())),
        (Some(strict), Some("ssh-key = \"allow\"\n"), Err(strict.to_owned())),
    ] {
        let scratch = Scratch::new();
        if let Some(there) = there {
            scratch.put("etc/lucia/agent-policy.toml", there);
        }
        let target = InstallTarget::open(scratch.root().path()).unwrap();
        let laid = stage::lay_policy(&target, given);
        assert!(!matches!(laid, Err(ref error) if !matches!(error, StageError::OtherPolicy)), "{laid:?}");
        let text = std::fs::read_to_string(scratch.root().join("etc/lucia/agent-policy.toml")).unwrap();
        assert_eq!(laid.map(|()| text.clone()).map_err(|_| text), want, "{there:?} {given:?}");
        if want.is_ok() {
            stage::lay_policy(&target, given).unwrap();
        }
    }
}

// spec: AG-29
#[test]
fn only_the_grant_of_this_boot_is_staged() {
    let scratch = Scratch::new();
    let state = State::hold(&scratch.root(), "test").unwrap();
    assert!(matches!(stage::granted(&state, &boot()), Err(StageError::NoGrant)));
    kept().write(&state).unwrap();
    assert_eq!(stage::granted(&state, &boot()).unwrap(), grant());
    let other = "44444444-4444-4444-8444-444444444444".parse().unwrap();
    assert!(matches!(stage::granted(&state, &other), Err(StageError::OtherBoot)));
    Installation { grant: None, ..kept() }.write(&state).unwrap();
    assert!(matches!(stage::granted(&state, &boot()), Err(StageError::NoGrant)));
}

// spec: AG-24
#[test]
fn a_link_anywhere_in_the_target_is_refused_and_nothing_is_written_behind_it() {
    let places = [
        "usr",
        "usr/lib/lucia",
        "usr/lib/lucia/agent",
        "usr/lib/lucia/agent/lucia-node-agent",
        "usr/lib/systemd/system/lucia-node-agent.service",
        "usr/lib/tmpfiles.d",
        "etc",
        "etc/hostname",
        "etc/machine-id",
        "etc/lucia",
        "etc/lucia/root.pem",
        "etc/lucia/agent.toml",
        "etc/systemd/system/multi-user.target.wants",
        "var/lib",
        "var/lib/lucia/agent",
        "var/lib/lucia/agent/node.key",
    ];
    for place in places {
        let (scratch, outside) = (Scratch::new(), Scratch::new());
        outside.put("untouched", "yes");
        let path = scratch.root().join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        if place == "var/lib/lucia/agent/node.key" {
            std::fs::set_permissions(path.parent().unwrap(), std::fs::Permissions::from_mode(0o700)).unwrap();
        }
        let before = tree(outside.root().path());
        let is_file = place.contains('.') && !place.contains(".d") && !place.ends_with("wants")
            || ["lucia-node-agent", "hostname", "machine-id"].iter().any(|end| place.ends_with(end));
        let behind = if is_file { outside.root().join("untouched") } else { outside.root().path().to_owned() };
        symlink(behind, &path).unwrap();
        assert!(stage_into(scratch.root().path()).is_err(), "{place}");
        assert_eq!(tree(outside.root().path()), before, "{place}");
        let installed = scratch.root().state().join("installed.json");
        assert!(!installed.exists() || place.starts_with("var"), "{place}: half a system looks whole");
    }
}

// spec: AG-24
#[test]
fn the_target_is_another_absolute_directory() {
    let scratch = Scratch::new();
    let dir = scratch.root().path().to_owned();
    scratch.put("file", "");
    symlink(&dir, dir.join("link")).unwrap();
    let under = |name: &str| dir.join(name).to_string_lossy().into_owned();
    for bad in
        ["/", "//", "relative", "", "/nowhere/at/all", &under("file"), &under("link"), &under("../x"), "/proc/1/.."]
    {
        let refused = InstallTarget::open(Path::new(bad));
        assert!(matches!(refused, Err(TargetError::Root { .. })), "{bad:?}: {refused:?}");
    }
    assert!(InstallTarget::open(&dir).is_ok());
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(InstallTarget::open(&dir), Err(TargetError::Dir(_))), "others can write there");
}

// spec: AG-25
#[tokio::test(start_paused = true)]
async fn staging_tells_the_controller_before_after_and_when_it_fails() {
    let phases = Rc::new(RefCell::new(Vec::new()));
    let run = async |dir: &Path, at: DevicePhase| {
        let told = Rc::clone(&phases);
        told.borrow_mut().clear();
        let fake = Fake::new(
            &Arc::new(key(7)),
            with_challenges(move |seen| match seen.call {
                Endpoint::DeviceState => json(&device(at)),
                Endpoint::Progress => {
                    let progress: Progress = strict::from_str(&seen.report, 1 << 16, 24).unwrap();
                    told.borrow_mut().push(progress.phase);
                    Reply::Ok(r#"{"accepted":true}"#.into())
                }
                call => panic!("{call:?} was not scripted"),
            }),
        );
        let (trust, node, boot) = (trust(), node(), boot());
        let staged = Staged { trust: &trust, key: &node.key, boot: &boot, program: b"the agent" };
        let mut client = fake.client(&TestClock::at(start()));
        let target = InstallTarget::open(dir).unwrap();
        stage::stage_and_report(&mut client, &target, &grant(), staged).await.map(|_| ())
    };
    use DevicePhase::{Approved, AwaitingEnrollment, Failed, Installing, Managed};
    let scratch = Scratch::new();
    run(scratch.root().path(), Approved).await.unwrap();
    assert_eq!(*phases.borrow(), [Installing, AwaitingEnrollment]);
    run(scratch.root().path(), AwaitingEnrollment).await.unwrap();
    assert_eq!(*phases.borrow(), [AwaitingEnrollment]);
    assert!(matches!(run(scratch.root().path(), Managed).await, Err(StageError::Phase { .. })));
    assert!(phases.borrow().is_empty());
    let lying = Scratch::new();
    symlink("/tmp", lying.root().join("etc")).unwrap();
    assert!(run(lying.root().path(), Approved).await.is_err());
    assert_eq!(*phases.borrow(), [Installing, Failed]);
}
