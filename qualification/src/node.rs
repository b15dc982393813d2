//! A container node: a real systemd Debian with its own namespaces and cgroups, up in about a second.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::cgroup;
use crate::keeper::{Layers, Plan, WITHHELD};
use crate::network::Plug;
pub use crate::possible::{Missing, host_runs_systemd, node_root, possible};
use crate::program::Program;
use crate::wait::wait_for;

/// What a node is made of.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    /// The built `lucia-qualification`, which keeps the node.
    pub helper: PathBuf,
    /// Host name, 1 to 63 of `a-z 0-9 -`.
    pub name: String,
    /// An extracted Debian, never written to; usually [`node_root`].
    pub lower: PathBuf,
    /// A directory kept between boots. `root/` in it is what the node wrote; files put there are the node's from the start.
    pub upper: PathBuf,
    /// Files and directories of the host, and where the node sees them.
    pub extra_bind: Vec<(PathBuf, PathBuf)>,
    /// The network it is plugged into, or only its own loopback.
    pub network: Option<Plug>,
    /// The `upper` of another node, to be installed: its file system is mounted at `/target`, as an installer has it.
    pub target: Option<PathBuf>,
}

/// Why a node did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The machine cannot run nodes.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The specification names something a node cannot be made of.
    #[error("{what}: {}", path.display())]
    Spec {
        /// What is wrong with it.
        what: &'static str,
        /// The path or name meant.
        path: PathBuf,
    },
    /// A file of the node's directory could not be made.
    #[error("cannot prepare {}", path.display())]
    Prepare {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        err: io::Error,
    },
    /// A program that was needed did not start or could not be waited for.
    #[error("cannot run {}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        err: io::Error,
    },
    /// The node's keeper ended before init answered.
    #[error("node {name} did not start: {said}")]
    NotStarted {
        /// The node.
        name: String,
        /// The keeper's words.
        said: String,
    },
    /// Init answered, but never said that the start was finished.
    #[error("node {name} did not finish starting within {} s", BOOT_LIMIT.as_secs())]
    NotReady {
        /// The node.
        name: String,
    },
}

const BOOT_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// A running node. Dropping it ends it at once and removes everything it stood on but its `upper` directory.
#[derive(Debug)]
pub struct Node {
    name: String,
    keeper: Child,
    leader: u32,
    boot_id: String,
}

impl Node {
    /// Boots a node and waits until its init has finished starting (`running` or `degraded`).
    pub fn boot(spec: NodeSpec) -> Result<Self, NodeError> {
        Self::boot_by(spec, host_runs_systemd())
    }

    /// As [`Node::boot`], with systemd-nspawn or by our own hand.
    pub fn boot_by(spec: NodeSpec, nspawn: bool) -> Result<Self, NodeError> {
        let plan = prepare(&spec, nspawn)?;
        let said_in = spec.upper.join("keeper.log");
        let log = fs::File::create(&said_in).map_err(|err| NodeError::Prepare { path: said_in.clone(), err })?;
        let helper = Program::Built(spec.helper.clone());
        let not_run = |err| NodeError::Run { program: spec.helper.clone(), err };
        let mut keeper = helper
            .command()
            .arg("node-keeper")
            .arg(serde_json::to_string(&plan).map_err(|err| not_run(err.into()))?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0) // Ctrl-C is for who started the node, which then lets the keeper clear up
            .spawn()
            .map_err(not_run)?;
        let mut line = String::new();
        if let Some(out) = keeper.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut line); // an error is an early end, told below
        }
        let leader = line.trim().strip_prefix("leader ").and_then(|pid| pid.parse().ok());
        let Some(leader) = leader else {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
            let said = fs::read_to_string(&said_in).unwrap_or_default().trim().to_owned();
            return Err(NodeError::NotStarted { name: spec.name, said });
        };
        let boot_id = fs::read_to_string(format!("/proc/{leader}/root/proc/sys/kernel/random/boot_id"));
        let boot_id = boot_id.unwrap_or_default().trim().to_owned();
        let mut node = Self { name: spec.name, keeper, leader, boot_id };
        node.wait_until_started()?;
        Ok(node)
    }

    fn wait_until_started(&mut self) -> Result<(), NodeError> {
        let started = wait_for(BOOT_LIMIT, || {
            if let Ok(Some(_)) = self.keeper.try_wait() {
                return Some(false);
            }
            let state = self.exec(&["systemctl", "is-system-running", "--wait"]).ok()?;
            let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
            matches!(state.as_str(), "running" | "degraded").then_some(true)
        });
        if started == Some(true) { Ok(()) } else { Err(NodeError::NotReady { name: self.name.clone() }) }
    }

    /// Runs a program inside the node as its root and waits for it.
    pub fn exec(&self, arguments: &[&str]) -> Result<Output, NodeError> {
        let program = || PathBuf::from(arguments.first().copied().unwrap_or("nsenter"));
        let output = self.command(arguments).stdin(Stdio::null()).output();
        output.map_err(|err| NodeError::Run { program: program(), err })
    }

    /// A command that runs inside the node as its root, for callers that want its input or output as it comes.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Program::Nsenter.command();
        command.arg(format!("--target={}", self.leader)).args(["--all", "--"]);
        // Who enters keeps the host's capabilities; without this, `date -s` in a node would set the host's clock.
        command.arg(Program::Setpriv.path()).arg(format!("--bounding-set={WITHHELD}")).args(arguments);
        command
    }

    /// Process id of the node's init, as the host sees it.
    pub fn leader_pid(&self) -> u32 {
        self.leader
    }

    /// The id of this boot, different at each.
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// The node's files as the running node sees them.
    pub fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.leader))
    }

    /// Shuts the node down as its own `poweroff` would, within 20 s, and removes what it stood on.
    pub fn stop(mut self) -> Result<(), NodeError> {
        self.exec(&["systemctl", "--no-block", "poweroff"])?;
        wait_for(STOP_LIMIT, || self.keeper.try_wait().ok().flatten());
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take()); // the keeper kills what is left and clears up
        let _ = self.keeper.wait();
    }
}

/// Makes the node's directory and the plan its keeper follows.
fn prepare(spec: &NodeSpec, nspawn: bool) -> Result<Plan, NodeError> {
    let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if spec.name.is_empty() || spec.name.len() > 63 || !spec.name.chars().all(named) {
        return Err(NodeError::Spec { what: "not a host name", path: spec.name.clone().into() });
    }
    if !spec.lower.join("sbin/init").exists() {
        return Err(NodeError::Spec {
            what: "no Debian with an init (make setup makes one)",
            path: spec.lower.clone(),
        });
    }
    let absolute =
        |path: &Path| fs::canonicalize(path).map_err(|err| NodeError::Prepare { path: path.to_owned(), err });
    let lower = absolute(&spec.lower)?;
    let layers = |upper: &Path| {
        let make = |name: &str| {
            let path = upper.join(name);
            fs::create_dir_all(&path).map_err(|err| NodeError::Prepare { path: path.clone(), err })?;
            absolute(&path)
        };
        let layers = Layers { upper: make("root")?, work: make("work")?, root: make("merged")? };
        for path in [&lower, &layers.upper] {
            if path.to_string_lossy().contains([':', ',', '\\']) {
                return Err(NodeError::Spec { what: "overlay takes no path with : , or \\", path: path.clone() });
            }
        }
        Ok(layers)
    };
    let (own, target) = (layers(&spec.upper)?, spec.target.as_deref().map(layers).transpose()?);
    let boot_id = spec.upper.join("boot_id");
    let uuid = fs::read("/proc/sys/kernel/random/uuid").and_then(|uuid| fs::write(&boot_id, uuid));
    uuid.map_err(|err| NodeError::Prepare { path: boot_id.clone(), err })?;
    Ok(Plan {
        name: spec.name.clone(),
        lower,
        own,
        target,
        boot_id: absolute(&boot_id)?,
        binds: spec.extra_bind.clone(),
        plug: spec.network.clone(),
        cgroup: cgroup_name(&spec.name),
        nspawn,
    })
}

/// A name no other node has: two may have one host name, in different tests.
fn cgroup_name(name: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    cgroup::name_for(name, std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}
