//! The machine of the demo: it boots an installer, is approved, is staged, boots again, and is a node.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use lucia_people::host_api::{NodeView, NodesView, OnboardingView};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::DiskId;
use lucia_proto::base::text::counted;
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::key::{Fingerprint, VerificationCode};

use super::DemoError;
use super::daemon::ran;
use super::directory::Directory;
use super::place::{HOSTNAME, NAME, Place};
use super::screen::{Screen, Who};
use super::site::{SOON, Site};
use crate::keeper::WITHHELD;
use crate::node::{Node, NodeSpec, node_root};

/// Longest time between two heartbeats that the demo waits for: 30 s, and what a busy machine adds.
const HEARTBEAT_WAIT: Duration = Duration::from_secs(90);
/// An agent that was not answered yet asks again after 5, 10, then 20 s.
const CERTIFICATE_WAIT: Duration = Duration::from_secs(90);
/// What the demo waits for.
pub(super) const HEARTBEATS: usize = 3;
/// What is kept of the machine's installer, and of the second one's.
const FIRST: &str = "machine/installer";
const SECOND: &str = "machine/second";
/// The agent in the installer.
pub(super) const AGENT: &str = "lucia-node-agent";

/// What the operator knows once the machine was staged.
pub(super) struct Order {
    fingerprint: Fingerprint,
    installer_boot: String,
}

/// The node, running.
pub(super) struct Managed {
    pub(super) node: Node,
    pub(super) node_id: NodeId,
    pub(super) heartbeats: usize,
    until: UnixTime,
}

impl Managed {
    /// The demo's last line.
    pub(super) fn last_line(&self) -> String {
        format!(
            "demo: node {} {HOSTNAME} Managed, {}, certificate until {}",
            self.node_id,
            counted(u64::try_from(self.heartbeats).unwrap_or(u64::MAX), "heartbeat"),
            self.until
        )
    }
}

/// From a machine nobody knows to one that has the system, the agent and its orders on its disk.
pub(super) fn install(site: &mut Site, screen: &Screen) -> Result<Order, DemoError> {
    let installer = boot_installer(site, screen)?;
    let installer_boot = installer.boot_id().to_owned();
    site.ctl(&["window", "open", "--minutes", "15"])?;
    screen.say(Who::Operator, "luciactl window open --minutes 15");

    screen.say(Who::Console, "lucia-node-agent discover");
    let shown = on(&installer, &[AGENT, "discover"])?;
    screen.say(Who::Console, &shown);
    let fingerprint = fingerprint_shown(&shown)?;
    let code: VerificationCode = shown_after(&shown, "Verification code:")?;

    screen.say(Who::Operator, &format!("luciactl onboarding\n{}", site.ctl(&["onboarding"])?));
    let disk = compare(site, &fingerprint, &code, screen)?;

    // The installer waits before the approval comes, as it would for a person.
    let mut waiting = installer.command(&[AGENT, "wait-install", "--timeout", "120"]);
    waiting.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let not_run = |err| DemoError::NotRun { program: AGENT.into(), err };
    let mut waiting = waiting.spawn().map_err(not_run)?;
    let mut told = waiting.stderr.take().map(BufReader::new);
    let mut line = String::new();
    if let Some(told) = &mut told {
        let _ = told.read_line(&mut line); // its exit code says more
    }
    screen.say(Who::Console, &format!("lucia-node-agent wait-install\n{line}"));

    let (code, hex, disk) = (code.to_string(), fingerprint.to_string(), disk.to_string());
    let approve =
        ["approve", &code, "--fingerprint", &hex, "--hostname", HOSTNAME, "--disk", &disk, "--erase", "ERASE"];
    site.owner(&approve)?;
    screen.say(
        Who::Person,
        &format!(
            "luciactl approve {code} --hostname {HOSTNAME} --disk {disk} --erase ERASE \\\n--fingerprint {hex}\n\
             (this also signed the order that admits the machine)"
        ),
    );

    let mut rest = String::new();
    if let Some(mut told) = told {
        let _ = told.read_to_string(&mut rest);
    }
    let granted = waiting.wait_with_output().map_err(not_run)?;
    if !granted.status.success() {
        let command = format!("{AGENT} wait-install");
        return Err(DemoError::Refused { command, status: granted.status.to_string(), said: rest.trim().to_owned() });
    }
    screen.say(Who::Console, &format!("granted\n{}", String::from_utf8_lossy(&granted.stdout)));
    let guarded = on(&installer, &[AGENT, "installation-guard"])?;
    screen.say(Who::Console, &format!("lucia-node-agent installation-guard\n{guarded}"));
    screen.say(
        Who::Console,
        "(here an installer erases the disk and installs Debian; the demo has one ready on /target)",
    );
    let staged = on(&installer, &[AGENT, "stage-managed", "--root", "/target"])?;
    screen.say(Who::Console, &format!("lucia-node-agent stage-managed --root /target\n{staged}"));
    installer.stop()?;
    screen.say(Who::Console, "powered off");
    Ok(Order { fingerprint, installer_boot })
}

/// The same two texts at both ends, before anything is approved.
fn compare(
    site: &Site,
    fingerprint: &Fingerprint,
    code: &VerificationCode,
    screen: &Screen,
) -> Result<DiskId, DemoError> {
    let view: OnboardingView = site.ctl_json(&["onboarding"])?;
    let not_shown = |what| DemoError::NotShown { what, said: format!("{view:?}") };
    let device = view.devices.iter().find(|device| device.verification_code == *code);
    let device = device.ok_or_else(|| not_shown("the machine"))?;
    same("the fingerprint", fingerprint, &device.fingerprint)?;
    let ([console, its_rest], [controller, theirs]) = (fingerprint.rows(), device.fingerprint.rows());
    screen.say(
        Who::Operator,
        &format!(
            "compares\n  console     {console}\n              {its_rest}\n  controller  {controller}\n              {theirs}\n  \
             the same"
        ),
    );
    let disk = device.inventory.disks.first().ok_or_else(|| not_shown("a disk"))?;
    Ok(disk.id.clone())
}

fn same<T: PartialEq + ToString>(what: &'static str, one: &T, other: &T) -> Result<(), DemoError> {
    if one == other {
        return Ok(());
    }
    Err(DemoError::Differ { what, one: one.to_string(), other: other.to_string() })
}

/// The installer: Debian with the agent, the settings and the root that the operator brought.
fn boot_installer(site: &Site, screen: &Screen) -> Result<Node, DemoError> {
    let place = &site.place;
    let laid = lay_installer(place, FIRST).and_then(|()| lay_disk(&place.path("machine/disks")));
    laid.map_err(|err| DemoError::Place { path: place.path("machine"), err })?;
    let target = Some(place.path("machine/installed"));
    let node = Node::boot(NodeSpec { target, ..spec(site, "installer", FIRST) })?;
    screen.say(Who::Console, &format!("booted the installer, boot id {}", node.boot_id()));
    Ok(node)
}

/// Another machine in the same installer, at another plug.
pub(super) fn boot_second_installer(site: &Site) -> Result<Node, DemoError> {
    let place = &site.place;
    lay_installer(place, SECOND).map_err(|err| DemoError::Place { path: place.path(SECOND), err })?;
    let network = Some(site.network.plug(2));
    Ok(Node::boot(NodeSpec { network, ..spec(site, "installer", SECOND) })?)
}

fn spec(site: &Site, name: &str, upper: &str) -> NodeSpec {
    NodeSpec {
        helper: site.place.helper.clone(),
        name: name.into(),
        lower: node_root(),
        upper: site.place.path(upper),
        extra_bind: vec![(site.place.path("machine/disks"), "/sys/block".into())],
        network: Some(site.network.plug(1)),
        target: None,
    }
}

fn lay_installer(place: &Place, upper: &str) -> std::io::Result<()> {
    let root = place.path(upper).join("root");
    fs::create_dir_all(root.join("usr/bin"))?;
    fs::create_dir_all(root.join("etc/lucia"))?;
    fs::copy(place.program(AGENT), root.join("usr/bin").join(AGENT))?;
    fs::copy(place.root_file(), root.join("etc/lucia/root.pem"))?;
    let settings = format!("controller-url = \"https://10.73.0.1:8443\"\ncontroller-name = \"{NAME}\"\n");
    fs::write(root.join("etc/lucia/agent.toml"), settings)
}

/// One disk that is none, as the kernel would show it: the host's own disks are not seen, not even by name.
fn lay_disk(disks: &Path) -> std::io::Result<()> {
    let disk = disks.join("vda");
    fs::create_dir_all(&disk)?;
    for (name, value) in [("size", "134217728"), ("removable", "0"), ("ro", "0"), ("serial", "LUCIA-DEMO")] {
        fs::write(disk.join(name), format!("{value}\n"))?;
        fs::set_permissions(disk.join(name), fs::Permissions::from_mode(0o444))?;
    }
    Ok(())
}

/// Boots what was staged; the worker has the owner's order that admits it, and it becomes Managed.
pub(super) fn boot_managed(
    site: &mut Site,
    order: Order,
    late_directory: bool,
    screen: &Screen,
) -> Result<Managed, DemoError> {
    if late_directory {
        site.directory = None;
        screen.say(Who::Directory, "slapd is stopped");
    }
    let node = Node::boot(spec(site, HOSTNAME, "machine/installed"))?;
    if node.boot_id() == order.installer_boot {
        let said = node.boot_id().to_owned();
        return Err(DemoError::NotShown { what: "another boot id than the installer's", said });
    }
    screen.say(Who::Node, &format!("booted from its disk, boot id {}", node.boot_id()));
    let enter =
        format!("nsenter --target={} --all -- setpriv --bounding-set={WITHHELD} \"${{@:-bash}}\"", node.leader_pid());
    let made = site.place.command("node", &enter);
    made.map_err(|err| DemoError::Place { path: site.place.path("node"), err })?;
    admitted(site, screen)?;
    if late_directory {
        directory_comes_late(site, screen)?;
    }

    let id = order.fingerprint.node_id();
    let until = site.wait("the node's certificate", CERTIFICATE_WAIT, |site| {
        // The list, not the node: asking for one that is not there yet would be a refusal in the log each time.
        let nodes: NodesView = site.ctl_json(&["nodes"]).ok()?;
        nodes.nodes.into_iter().find(|node| node.node_id == id)?.certificate_expires_at
    })?;
    screen.say(Who::Worker, &format!("signed its certificate, until {until}"));
    let seen = heartbeat(site, &id, 1)?;
    screen.say(Who::Node, &format!("heartbeat 1 of {HEARTBEATS}, {:?}; the next in about 30 s", seen.node.state));
    // It ends with 1 until the agent itself has read the answer.
    let why = site.wait("the agent's own word that it is healthy", SOON, |_| {
        on(&node, &["/usr/lib/lucia/agent/lucia-node-agent", "why"]).ok()
    })?;
    screen.say(Who::Node, &format!("lucia-node-agent why\n{why}"));
    Ok(Managed { node, node_id: id, heartbeats: 1, until })
}

/// The worker signs nothing that its node could not use, says why, and goes on by itself.
fn directory_comes_late(site: &mut Site, screen: &Screen) -> Result<(), DemoError> {
    let waits = site.wait("the worker's reason to wait", SOON, |site| site.worker_waits())?;
    screen.say(Who::Worker, &format!("signs nothing yet\n{waits}"));
    let nodes: NodesView = site.ctl_json(&["nodes"])?;
    if nodes.nodes.iter().any(|node| node.certificate_expires_at.is_some()) {
        return Err(DemoError::NotShown { what: "a node without a certificate", said: format!("{nodes:?}") });
    }
    site.directory = Some(Directory::again(&site.place, site.network.holder_pid())?);
    screen.say(Who::Directory, "slapd runs again");
    Ok(())
}

/// Waits until this many heartbeats of the node are known.
pub(super) fn heartbeat(site: &mut Site, id: &NodeId, number: usize) -> Result<NodeView, DemoError> {
    site.wait("a heartbeat", HEARTBEAT_WAIT, |site| {
        site.ctl_json::<NodeView>(&["node", id.as_str()]).ok().filter(|view| view.samples.len() >= number)
    })
}

/// The worker checked the owner's order itself, and says so.
fn admitted(site: &mut Site, screen: &Screen) -> Result<(), DemoError> {
    // A program's own words change; what it says to programs does not.
    site.wait("the worker's word on the order", SOON, |site| {
        site.owner(&["drafts", "--json"]).ok().filter(|said| said.contains(r#""state":"done""#))
    })?;
    let drafts = site.owner(&["drafts"])?;
    screen.say(Who::Person, &format!("luciactl drafts\n{drafts}"));
    Ok(())
}

/// What a program on the machine printed.
pub(super) fn on(node: &Node, arguments: &[&str]) -> Result<String, DemoError> {
    ran(&mut node.command(arguments)).map_err(|err| match err {
        DemoError::Refused { status, said, .. } => DemoError::Refused { command: arguments.join(" "), status, said },
        err => err,
    })
}

/// The fingerprint of a machine's own screen: two rows in a frame.
pub(super) fn fingerprint_shown(shown: &str) -> Result<Fingerprint, DemoError> {
    let label = "Fingerprint:";
    let rest = shown.split(label).nth(1).unwrap_or_default();
    let digits: String = rest.chars().filter(char::is_ascii_hexdigit).take(64).collect();
    Fingerprint::typed(&digits).map_err(|_| DemoError::NotShown { what: label, said: shown.to_owned() })
}

/// The word after `label` in what a person reads.
pub(super) fn shown_after<T: std::str::FromStr>(shown: &str, label: &'static str) -> Result<T, DemoError> {
    let word = shown.split(label).nth(1).and_then(|rest| rest.split_whitespace().next());
    let value = word.and_then(|word| word.parse().ok());
    value.ok_or_else(|| DemoError::NotShown { what: label, said: shown.to_owned() })
}
