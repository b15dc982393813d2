//! The built agent on a machine of its own, before a thief who answers it in the controller's place.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use lucia_agent::host::root::Root;
use lucia_agent::host::state::{State, StateFile};
use lucia_agent::host::status::{OrderSeen, Status};
use lucia_agent::identity::installed::InstalledFacts;
use lucia_agent::identity::key;
use lucia_proto::node::challenge::Nonce;
use lucia_proto::node::heartbeat::Heartbeat;
use lucia_proto::orders::exchange::OrdersReply;
use lucia_proto::orders::freshness::{FreshnessAnswer, SignedFreshness};
use lucia_proto::orders::roster::SignedRoster;
use lucia_proto::orders::{Actor, Body, CloneDecision, Decision, Draft, OrderCode, OrderKind, SignedOrder};
use lucia_proto::pki::key::VerificationCode;
use lucia_proto::test_support::{TestNode, TestOwner};
use lucia_tests::hostile_controller::{Stolen, Thief, until};
use lucia_tests::jail::{self, Jail};
use lucia_tests::programs::Running;
use serde_json::{Value, json};

use super::acts::{ACCOUNT, Aim, Deceit, EVIL_KEY, SSH_KEY, Want, body, intent, kinds, signed};
use super::{COPIED, Story, WITH_CAROL, WITHOUT_CAROL, alice, is_unchanged, mallory};
use crate::second::skip;

/// A key that somebody put there before owners decided.
const OLD_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMD\n";
/// Where the keys of the account lie.
const KEYS: &str = "etc/ssh/lucia-authorized-keys";

/// The machine and who deceives it.
struct Machine<'a> {
    story: &'a Story,
    node: TestNode,
    jail: Jail,
    thief: Thief,
}

/// A started agent, until it is dropped.
struct Agent<'a> {
    machine: &'a Machine<'a>,
    running: Running,
}

impl Machine<'_> {
    /// A Debian with the agent on it, as the installer leaves it.
    fn lay<'a>(story: &'a Story, number: u8) -> Machine<'a> {
        let (node, thief) = (TestNode::new(number), Thief::start(&story.disk).unwrap());
        let jail = Jail::lay(&story.at("machine"), &story.bin.join("lucia-node-agent")).unwrap();
        let put = |name: &str, text: &str| jail.put(name, text.as_bytes()).unwrap();
        let port = thief.address.port();
        put(
            "etc/lucia/agent.toml",
            &format!("controller-url = \"https://127.0.0.1:{port}\"\ncontroller-name = \"controller.test\"\n"),
        );
        put("etc/lucia/root.pem", &story.site.root_pem().unwrap());
        put("etc/hostname", &format!("{}\n", node.hostname));
        put("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
        put("etc/lucia/agent-policy.toml", &lucia_agent::owners::policy::edit::default_text());
        let mut state = State::hold(&Root::at(jail.root()), "story").unwrap();
        key::store(&mut state, &node.key).unwrap();
        let facts = InstalledFacts {
            node_id: node.node_id.clone(),
            task_id: node.task_id.clone(),
            hostname: node.hostname.clone(),
            install_boot_id: Some("00000001-0000-4000-8000-000000000001".parse().unwrap()),
            machine_id: "0123456789abcdef0123456789abcdef".parse().unwrap(),
        };
        facts.write(&state).unwrap();
        drop(state);
        Machine { story, node, jail, thief }
    }

    fn state(&self, name: &str) -> PathBuf {
        self.jail.path("var/lib/lucia/agent").join(name)
    }

    fn start(&self) -> Agent<'_> {
        // What a former start said is not waited for.
        for dir in ["run/lucia/agent", "var/lib/lucia/agent"] {
            let _ = fs::remove_file(self.jail.path(dir).join("status.json"));
        }
        let running = self.jail.start(&["managed-run"], &self.story.at("agent.log")).unwrap();
        Agent { machine: self, running }
    }

    /// One start before a thief with this plan, to its first heartbeat; gives what the agent says then.
    fn beat(&self, plan: impl FnMut(&Heartbeat) -> Value + Send + 'static) -> Status {
        self.thief.play(plan);
        let agent = self.start();
        let status = agent.until(|status| status.heartbeats > 0);
        drop(agent);
        status
    }

    /// The way of an honest carrier: the worker's answer to the question, and what goes with it.
    fn carried(
        &self,
        order: Option<&SignedOrder>,
        roster: Option<&SignedRoster>,
    ) -> impl FnMut(&Heartbeat) -> Value + Send + use<> {
        let (disk, node) = (self.story.disk.clone(), self.node.node_id.clone());
        let (order, roster) = (order.cloned(), roster.cloned());
        move |beat: &Heartbeat| {
            let nonce = beat.orders.as_ref().and_then(|orders| orders.freshness.clone());
            let freshness = nonce.and_then(|nonce| disk.fresh(&node, &nonce));
            reply(roster.clone(), freshness, order.clone())
        }
    }

    /// alice's own, as she means it.
    fn order(&self, kind: OrderKind, number: u8) -> SignedOrder {
        self.order_of(&body(kind, &self.node, self.story.now, SSH_KEY), number)
    }

    fn order_of(&self, body: &Body, number: u8) -> SignedOrder {
        let head = intent(self.story.fleet, &alice(), &self.node.node_id, body.kind(), self.story.now, number);
        signed(&Draft::new(head, body).unwrap(), &alice())
    }

    /// Everything on the machine but what tells of the moment.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        for dir in ["etc", "var", "usr"] {
            walk(&self.jail.path(dir), &mut files);
        }
        files
    }

    /// The keys of the account, as sshd reads them.
    fn keys(&self) -> Option<String> {
        fs::read_to_string(self.jail.path(KEYS).join(ACCOUNT)).ok()
    }

    /// From nothing to a node that owners decide about, in a fleet whose roster has carol.
    fn join(&self) {
        let Self { story, node, .. } = self;
        story.approved(node);
        let agent = self.start();
        let request = story.disk.queue().request_path(&node.node_id);
        until(|| request.exists().then_some(())).unwrap_or_else(|| panic!("{}", agent.running.said()));
        // Nobody but an owner lets it in, whatever the journal says.
        let head = intent(story.fleet, &mallory(), &node.node_id, OrderKind::Admit, story.now, 1);
        let forged = Draft::new(head, &body(OrderKind::Admit, node, story.now, SSH_KEY)).unwrap();
        let said = story.disk.ordered(&signed(&forged, &mallory())).unwrap();
        assert_eq!(said.outcome.refused, Some(OrderCode::OwnerUnknown));
        assert!(!self.state("certificate.pem").exists() && story.disk.queue().answer(&node.node_id).is_none());
        assert_eq!(story.disk.ordered(&self.order(OrderKind::Admit, 2)).unwrap().outcome.refused, None);
        until(|| story.disk.queue().answer(&node.node_id)?.answer).expect("an answer");
        drop(agent);
        let status = self.beat(|_| json!({}));
        assert!(self.state("certificate.pem").exists());
        assert_eq!(status.owners.unwrap().roster_version, WITH_CAROL, "it comes with the certificate");
        // The fleet's directory was there and worked, and the answer that told of it is lost: what worked stays.
        fs::remove_file(self.state("answer.json")).unwrap();
        let state = State::hold(&Root::at(self.jail.root()), "story").unwrap();
        state.replace(StateFile::Directory, br#"{"sssd":"[sssd]\n","sshd":null}"#).unwrap();
        self.lay_old_key();
    }

    fn lay_old_key(&self) {
        self.jail.put(&format!("{KEYS}/{ACCOUNT}"), OLD_KEY.as_bytes()).unwrap();
    }

    /// What a thief says in the row of this act.
    fn plan(
        &self,
        act: Deceit,
        order: &SignedOrder,
        old: &SignedRoster,
    ) -> impl FnMut(&Heartbeat) -> Value + Send + use<> {
        let (disk, node, fleet, now) =
            (self.story.disk.clone(), self.node.node_id.clone(), self.story.fleet, self.story.now);
        let same = self.story.roster_of(WITHOUT_CAROL, &[&alice(), &mallory()], None);
        let nobodys = self.story.roster_of(WITHOUT_CAROL + 1, &[&mallory()], Some(&mallory()));
        let roster = match act {
            Deceit::OldRoster => Some(old.clone()),
            Deceit::RosterOfSameVersion => Some(same),
            Deceit::RosterOfNoWorker => Some(nobodys),
            _ => None,
        };
        let order = order.clone();
        move |beat: &Heartbeat| {
            let asked = beat.orders.as_ref().and_then(|orders| orders.freshness.clone()).expect("a question");
            let freshness = match act {
                Deceit::NoTime => None,
                Deceit::TimeOfAnotherQuestion => disk.fresh(&node, &Nonce::from_bytes(&[3; 32])),
                Deceit::TimeOfAnotherNode => disk.fresh(&TestNode::new(COPIED).node_id, &asked),
                Deceit::TimeOfNoWorker => Some(time_of(&mallory(), &node, asked, fleet, now)),
                _ => disk.fresh(&node, &asked),
            };
            reply(roster.clone(), freshness, Some(order.clone()))
        }
    }
}

impl Agent<'_> {
    fn status(&self) -> Option<Status> {
        serde_json::from_slice(&fs::read(self.machine.jail.path("run/lucia/agent/status.json")).ok()?).ok()
    }

    #[track_caller]
    fn until(&self, there: impl Fn(&Status) -> bool) -> Status {
        let found = until(|| self.status().filter(|status| there(status)));
        found.unwrap_or_else(|| panic!("{:?}\n{}", self.status(), self.running.said()))
    }

    /// How it ended by itself.
    fn ended(&mut self) -> Option<i32> {
        self.running.ended()?.code()
    }
}

fn reply(roster: Option<SignedRoster>, freshness: Option<SignedFreshness>, order: Option<SignedOrder>) -> Value {
    json!({"orders": OrdersReply { bundle: None, roster, freshness, intent: order.map(Box::new) }})
}

fn time_of(
    by: &TestOwner,
    node: &lucia_proto::base::ids::NodeId,
    nonce: Nonce,
    fleet: lucia_proto::base::digest::Digest,
    time: lucia_proto::base::time::UnixTime,
) -> SignedFreshness {
    let answer =
        FreshnessAnswer { fleet, node_id: node.clone(), nonce, bundle_version: 1, roster_version: WITHOUT_CAROL, time };
    SignedFreshness::sign(&answer, &by.key).unwrap()
}

fn walk(dir: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name();
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), files);
        } else if !matches!(name.to_str(), Some(".lease" | "starts.json" | "status.json")) {
            files.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
}

/// What became of this order in this start.
fn seen(status: &Status, order: &SignedOrder) -> Option<OrderSeen> {
    let code: VerificationCode = order.id().code();
    status.owners.as_ref()?.orders.iter().find(|seen| seen.code == code).cloned()
}

// spec: OS-14, OS-15, IN-27
#[test]
fn the_built_agent_carries_out_what_an_owner_signed_and_nothing_else() {
    if let Some(why) = jail::missing() {
        return skip("stolen-node", why);
    }
    let Some(story) = Story::begin("stolen-node") else { return };
    let machine = Machine::lay(&story, 7);
    machine.join();

    // The first that alice orders is held, and what was there before her goes.
    assert_eq!(machine.keys().as_deref(), Some(OLD_KEY));
    let held = machine.order(OrderKind::SshKey, 3);
    machine.thief.play(machine.carried(Some(&held), None));
    let agent = machine.start();
    agent.until(|status| seen(status, &held).is_some_and(|seen| seen.refused.is_none()));
    drop(agent);
    // Whether the file went before the order came or was replaced by it: from a start that knows the order it is replaced,
    // and no directory is asked for an account that has one.
    machine.lay_old_key();
    let agent = machine.start();
    let written = until(|| machine.keys().filter(|keys| *keys == format!("{SSH_KEY}\n")));
    assert!(written.is_some(), "{:?}: {}", machine.keys(), agent.running.said());
    drop(agent);
    // She keeps this very start of it: remembered, and it goes on.
    let keep = machine.keeps_itself();
    let settled = machine.beat(machine.carried(None, None));
    assert!(settled.owners.unwrap().answered_at.is_some());

    // carol is out. The thief says nothing of it, and has all that she signed before.
    let old = story.disk.roster(WITH_CAROL).unwrap();
    story.remove_carol();
    let new = story.disk.roster(WITHOUT_CAROL).unwrap();
    let before = machine.files();
    for (serial, kind) in (20..).zip(kinds(Actor::Node)) {
        let aim = machine.aim(kind, if kind.is_state() { &held } else { &keep }, serial);
        let order = aim.order(Deceit::RemovedOwner);
        let status = machine.beat(machine.carried(Some(&order), None));
        let refused = seen(&status, &order).and_then(|seen| seen.refused);
        assert_eq!(refused, Some(OrderCode::RosterBehind), "{}: carol's, withheld", kind.as_str());
        is_unchanged(&before, &machine.files(), "carol's, withheld");
    }
    let settled = machine.beat(machine.carried(None, Some(&new)));
    assert_eq!(settled.owners.unwrap().roster_version, WITHOUT_CAROL);

    let before = machine.files();
    let mut rows = 0;
    for (serial, kind) in (30..).zip(kinds(Actor::Node)) {
        let aim = machine.aim(kind, if kind.is_state() { &held } else { &keep }, serial);
        for act in Deceit::ALL {
            let Some(want) = act.want(Actor::Node, kind) else { continue };
            let what = format!("{} {act:?}", kind.as_str());
            let order = aim.order(*act);
            let status = machine.beat(machine.plan(*act, &order, &old));
            let refused = seen(&status, &order).and_then(|seen| seen.refused);
            assert_eq!(refused, if let Want::Refused(code) = want { Some(code) } else { None }, "{what}");
            let told = |call: &str| status.refusals.iter().any(|refusal| refusal.call == call);
            let time =
                matches!(act, Deceit::TimeOfAnotherQuestion | Deceit::TimeOfAnotherNode | Deceit::TimeOfNoWorker);
            let roster = matches!(act, Deceit::OldRoster | Deceit::RosterOfSameVersion | Deceit::RosterOfNoWorker);
            assert_eq!((told("freshness"), told("roster")), (time, roster), "{what}: {:?}", status.refusals);
            is_unchanged(&before, &machine.files(), &what);
            rows += 1;
        }
    }
    assert!(rows >= 3 * 20, "{rows} rows");
    // Keys that nobody signed are nobody's.
    machine.beat(|_| json!({"sshKeys": {ACCOUNT: [EVIL_KEY], "mallory": [EVIL_KEY]}}));
    is_unchanged(&before, &machine.files(), "unsigned keys");

    // And each does what it says once alice gives it herself.
    machine.is_stopped_by_a_split();
    machine.is_removed();
}

impl Machine<'_> {
    fn aim(&self, kind: OrderKind, done: &SignedOrder, serial: u8) -> Aim {
        let (fleet, now) = (self.story.fleet, self.story.now);
        Aim { fleet, node: TestNode::new(7), kind, now, done: done.clone(), serial }
    }

    /// An order that is done once and costs nothing: this very start is the one that is kept.
    fn keeps_itself(&self) -> SignedOrder {
        let (made, order) = std::sync::mpsc::channel();
        let (story, hostname) = (self.story, self.node.hostname.clone());
        let (disk, node, fleet, now): (Stolen, _, _, _) =
            (story.disk.clone(), self.node.node_id.clone(), story.fleet, story.now);
        let status = self.beat(move |beat| {
            let keep = Body::CloneDecision(CloneDecision {
                hostname: hostname.clone(),
                decision: Decision::Keep,
                start_id: beat.start_id.clone(),
            });
            let head = intent(fleet, &alice(), &node, OrderKind::CloneDecision, now, 4);
            let order = signed(&Draft::new(head, &keep).unwrap(), &alice());
            let _ = made.send(order.clone());
            let nonce = beat.orders.as_ref().and_then(|orders| orders.freshness.clone());
            reply(None, nonce.and_then(|nonce| disk.fresh(&node, &nonce)), Some(order))
        });
        let order = order.recv().unwrap();
        assert_eq!(seen(&status, &order).map(|seen| seen.refused), Some(None));
        order
    }

    /// The control of `clone-decision`: neither holder stays. Afterwards the disk is what it was before.
    fn is_stopped_by_a_split(&self) {
        let mut before = BTreeMap::new();
        walk(&self.state(""), &mut before);
        let split = self.order(OrderKind::CloneDecision, 5);
        self.thief.play(self.carried(Some(&split), None));
        let mut agent = self.start();
        assert_eq!(agent.ended(), Some(14), "{}", agent.running.said());
        for (path, bytes) in before {
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    /// The control of `remove-identity`: a plain machine is left.
    fn is_removed(&self) {
        let remove = self.order(OrderKind::RemoveIdentity, 6);
        self.thief.play(self.carried(Some(&remove), None));
        let agent = self.start();
        agent.until(|status| seen(status, &remove).is_some_and(|seen| seen.refused.is_none()));
        drop(agent);
        assert!(self.state("node.key").exists(), "its last word is said first");
        let mut agent = self.start();
        assert_eq!(agent.ended(), Some(15), "{}", agent.running.said());
        let left = |name: &str| self.state(name).exists();
        assert!(!left("node.key") && !left("certificate.pem") && !left("orders.json"), "{}", agent.running.said());
        assert_eq!(self.keys(), None);
    }
}
