//! Programs of 0.1 and of this version in one fleet, each way round, on the same state (design.md V1): the built programs, over
//! TLS, in real time. `qualification/before.sh` builds those of 0.1.
//!
//! | phase | controller | worker, agent, luciactl |
//! |---|---|---|
//! | 1 | this version | 0.1 |
//! | 2 | 0.1 | this version |
//! | 3 | this version | 0.1 |
//!
//! So each pair meets, and each program is once brought up to date and once taken back, with what the other left on its disk.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use lucia_agent::host::root::Root;
use lucia_agent::host::state::{State, StateFile};
use lucia_agent::identity::installed::InstalledFacts;
use lucia_agent::identity::key;
use lucia_tests::hostile_controller::now;
use lucia_tests::jail::{self, Jail};
use lucia_tests::programs::{CONTROLLER_NAME, Running, Site, run};
use lucia_tests::sim::{SimNode, Target};
use serde_json::Value;

use crate::second::{programs, skip};

const ALL: [&str; 4] = ["lucia-controller", "lucia-enrollment-worker", "lucia-node-agent", "luciactl"];
/// Of those the one that is of another version than the rest.
const CONTROLLER: &str = "lucia-controller";
/// A key that somebody put there before the fleet's owners ordered one.
const OLD_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMD\n";
const KEYS: &str = "etc/ssh/lucia-authorized-keys/alice";

/// What is there in time: an agent has the worker's time with its second heartbeat, 30 s after its first.
fn until<T>(there: impl Fn() -> Option<T>) -> Option<T> {
    (0..3).find_map(|_| lucia_tests::hostile_controller::until(&there))
}

/// The key that a phase orders.
fn ssh_key(phase: u8) -> String {
    use lucia_tests::sim::base64;
    let mut blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20".to_vec();
    blob.extend([100 + phase; 32]);
    format!("ssh-ed25519 {}", base64(&blob))
}

/// A fleet with one owner and one node, whose programs change.
struct Story {
    site: Site,
    jail: Jail,
    owner: PathBuf,
    ours: PathBuf,
    before: PathBuf,
}

/// The programs of one phase, running.
struct Phase<'a> {
    story: &'a Story,
    controller: Running,
    worker: Running,
}

impl Story {
    fn path(&self, name: &str) -> PathBuf {
        self.site.dir.path().join(name)
    }

    /// A directory with the programs of a phase: whether the controller, or all the others, are this version's.
    fn mixed(site: &Path, ours: &Path, before: &Path, controller_is_ours: bool) -> PathBuf {
        let dir = site.join(if controller_is_ours { "controller-ahead" } else { "controller-behind" });
        if fs::create_dir(&dir).is_ok() {
            for name in ALL {
                let from = if (name == CONTROLLER) == controller_is_ours { ours } else { before };
                symlink(from.join(name), dir.join(name)).unwrap();
            }
        }
        dir
    }

    async fn phase(&mut self, controller_is_ours: bool) -> Phase<'_> {
        self.site.bin = Self::mixed(self.site.dir.path(), &self.ours, &self.before, controller_is_ours);
        self.jail.program = self.site.bin.join("lucia-node-agent");
        let (worker, controller) = self.site.up().await.unwrap();
        Phase { story: self, controller, worker }
    }
}

impl Phase<'_> {
    /// As the owner, on a machine of her own.
    fn owner(&self, args: &[&str]) -> String {
        self.try_owner(args).unwrap_or_else(|said| panic!("luciactl {args:?}: {said}\n{}", self.controller.said()))
    }

    fn try_owner(&self, args: &[&str]) -> Result<String, String> {
        let config = self.story.owner.join("luciactl.toml");
        let args = [&["--config", config.to_str().unwrap()], args].concat();
        let said = run(&self.story.site.bin.join("luciactl"), &args).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(said.stdout).unwrap())
    }

    fn worker(&self, args: &[&str]) -> String {
        let config = self.story.site.file("worker.toml");
        let said = self.story.site.run("lucia-enrollment-worker", &[args, &["--config", &config]].concat());
        String::from_utf8(said.unwrap().stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.owner(&[&["--json"], args].concat())).unwrap()
    }

    /// alice becomes an owner.
    fn first_owner(&self) {
        let url = format!("https://localhost:{}", self.story.site.address.port());
        let root = self.story.site.file("worker/ca/root.pem");
        let asked = self.json(&[
            "login",
            "--controller",
            &url,
            "--root",
            &root,
            "--name",
            "alice",
            "--no-passphrase",
            "--no-wait",
        ]);
        let (code, hex) = (asked["verificationCode"].as_str().unwrap(), asked["fingerprint"].as_str().unwrap());
        until(|| self.worker(&["owner", "pending"]).contains(code).then_some(())).expect("her application");
        self.worker(&["owner", "approve", code, "--fingerprint", hex]);
        until(|| self.try_owner(&["owners"]).ok()).expect("the roster");
    }

    fn agent(&self) -> Running {
        for dir in ["run/lucia/agent", "var/lib/lucia/agent"] {
            let _ = fs::remove_file(self.story.jail.path(dir).join("status.json"));
        }
        self.story.jail.start(&["managed-run"], &self.story.path("agent.log")).unwrap()
    }

    /// Waits for what the agent says of itself.
    #[track_caller]
    fn agent_says(&self, agent: &Running, what: &str, there: impl Fn(&Value) -> bool) {
        let status = || {
            let bytes = fs::read(self.story.jail.path("run/lucia/agent/status.json")).ok()?;
            serde_json::from_slice::<Value>(&bytes).ok()
        };
        let found = until(|| status().filter(|status| there(status)));
        assert!(found.is_some(), "{what}: {:?}\n{}\n{}", status(), agent.said(), self.controller.said());
    }

    /// 0.1 cannot read the memory of orders that a later agent wrote, and begins another one: what was signed before that
    /// is refused, and the keys stay.
    fn an_agent_taken_back(&self) -> Running {
        let held = || fs::read_to_string(self.story.jail.path(KEYS)).unwrap();
        let before = held();
        let agent = self.agent();
        // From the worker's time on: before, it does not know when its new memory begins.
        self.agent_says(&agent, "the worker's time", |status| status["owners"]["answeredAt"].is_string());
        assert_eq!(held(), before);
        // It reckons from when it asked, so it may be some seconds ahead.
        let begun = now();
        until(|| (now().since(begun).as_secs() > 5).then_some(()));
        agent
    }

    /// An owner orders a key, and it is on the machine.
    fn a_key_reaches_the_node(&self, phase: u8, node: &str, agent: Option<Running>) {
        let key = ssh_key(phase);
        let file = self.story.owner.join("new.pub");
        fs::write(&file, format!("{key} alice@desk\n")).unwrap();
        let label = format!("desk-{phase}");
        self.owner(&["keys", "add", "alice", file.to_str().unwrap(), "--label", &label, "--nodes", node, "--yes"]);
        let agent = agent.unwrap_or_else(|| self.agent());
        let done = |status: &Value| {
            let orders = status["owners"]["orders"].as_array().cloned().unwrap_or_default();
            orders.last().is_some_and(|order| order["kind"] == "ssh-key" && order["refused"].is_null())
        };
        self.agent_says(&agent, "the order", done);
        let drafts = || self.json(&["drafts"])["drafts"].as_array().cloned().unwrap_or_default();
        let is_done = |draft: &&Value| draft["kind"] == "ssh-key" && draft["state"] == "done";
        let wanted = usize::from(phase);
        until(|| (drafts().iter().filter(is_done).count() == wanted).then_some(()))
            .unwrap_or_else(|| panic!("{:?}", drafts()));
        drop(agent);
        // There is no directory here that knows accounts: the file of one that has one is replaced from a start on.
        self.story.jail.put(KEYS, OLD_KEY.as_bytes()).unwrap();
        let agent = self.agent();
        let held = || fs::read_to_string(self.story.jail.path(KEYS)).unwrap_or_default();
        let written = until(|| held().contains(&key).then_some(()));
        let told = || fs::read_to_string(self.story.jail.path("run/lucia/agent/status.json")).unwrap_or_default();
        assert!(
            written.is_some() && !held().contains(OLD_KEY),
            "{phase}: {}: {}: {}: {}",
            held(),
            told(),
            agent.said(),
            fs::read_to_string(self.story.jail.path("var/lib/lucia/agent/orders.json")).unwrap_or_default()
        );
        self.agent_says(&agent, "a heartbeat", |status| status["heartbeats"].as_u64() > Some(0));
        // What people look at is there, and the whole audit verifies on her machine.
        let nodes = self.json(&["nodes"]);
        assert_eq!(nodes["nodes"][0]["state"], "Online", "{nodes}");
        self.json(&["node", node]);
        self.owner(&["--json", "events"]);
        self.owner(&["audit", "verify"]);
        assert!(self.worker.said().lines().all(|line| !line.contains("panicked")), "{}", self.worker.said());
    }
}

// spec: VE-409
#[tokio::test]
async fn programs_of_two_versions_work_together_and_on_the_same_state() {
    let Some(ours) = programs() else {
        return skip("versions", "no built programs beside this test; `make test` builds them first");
    };
    if let Some(why) = jail::missing() {
        return skip("versions", why);
    }
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/before");
    let before = built.join("debug");
    if let Ok(why) = fs::read_to_string(built.join("absent")) {
        eprintln!("there are no programs of 0.1 to run: {why}");
        return;
    }
    if !before.join(CONTROLLER).is_file() {
        return skip("versions", "the programs of 0.1 are not built; `qualification/before.sh` does it");
    }
    let dir = lucia_tests::programs::Scratch::new("versions").unwrap();
    let bin = Story::mixed(dir.path(), &ours, &before, true);
    let site = Site::lay(&bin, "versions", 64, "owner").unwrap();
    for file in ["controller.toml", "worker.toml"] {
        let text = fs::read_to_string(site.file(file)).unwrap();
        let name = format!("\"{CONTROLLER_NAME}\"");
        fs::write(site.file(file), text.replacen(&name, &format!("{name}, \"localhost\""), 1)).unwrap();
    }
    let owner = site.dir.path().join("owner");
    fs::create_dir(&owner).unwrap();
    fs::set_permissions(&owner, fs::Permissions::from_mode(0o700)).unwrap();
    let jail = Jail::lay(&site.dir.path().join("machine"), &bin.join("lucia-node-agent")).unwrap();
    let mut story = Story { site, jail, owner, ours, before };

    let phase = story.phase(true).await;
    phase.first_owner();
    phase.owner(&["window", "open", "--minutes", "10"]);
    let target = Target::new(phase.story.site.address, CONTROLLER_NAME, &phase.story.site.root_pem().unwrap()).unwrap();
    let mut machine = SimNode::connect(&target, 7).await.unwrap();
    machine.discover().await.unwrap();
    let fingerprint = machine.key.public().fingerprint();
    let (code, hex, name) =
        (fingerprint.verification_code().to_string(), fingerprint.to_string(), machine.hostname.to_string());
    phase.owner(&["approve", &code, "--fingerprint", &hex, "--hostname", &name, "--disk", "sim-disk", "--yes"]);
    let task_id = machine.install().await.unwrap();
    let put = |name: &str, text: &str| phase.story.jail.put(name, text.as_bytes()).unwrap();
    let port = phase.story.site.address.port();
    put(
        "etc/lucia/agent.toml",
        &format!("controller-url = \"https://127.0.0.1:{port}\"\ncontroller-name = \"{CONTROLLER_NAME}\"\n"),
    );
    put("etc/lucia/root.pem", &phase.story.site.root_pem().unwrap());
    put("etc/hostname", &format!("{name}\n"));
    put("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    let mut state = State::hold(&Root::at(phase.story.jail.root()), "story").unwrap();
    key::store(&mut state, &machine.key).unwrap();
    let facts = InstalledFacts {
        node_id: fingerprint.node_id(),
        task_id,
        hostname: machine.hostname.clone(),
        install_boot_id: Some("00000001-0000-4000-8000-000000000001".parse().unwrap()),
        machine_id: "0123456789abcdef0123456789abcdef".parse().unwrap(),
    };
    facts.write(&state).unwrap();
    drop(state);
    let agent = phase.agent();
    phase.agent_says(&agent, "the first heartbeat", |status| status["heartbeats"].as_u64() > Some(0));
    drop(agent);
    // The fleet's directory was there and worked, as far as the agent knows.
    let _ = fs::remove_file(phase.story.jail.path("var/lib/lucia/agent/answer.json"));
    let state = State::hold(&Root::at(phase.story.jail.root()), "story").unwrap();
    state.replace(StateFile::Directory, br#"{"sssd":"[sssd]\n","sshd":null}"#).unwrap();
    drop(state);

    phase.a_key_reaches_the_node(1, &name, None);
    drop(phase);
    for (number, controller_is_ours) in [(2, false), (3, true)] {
        let phase = story.phase(controller_is_ours).await;
        let agent = (number == 3).then(|| phase.an_agent_taken_back());
        phase.a_key_reaches_the_node(number, &name, agent);
    }
}
