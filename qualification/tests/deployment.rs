//! A real deployment, by the commands of docs and nothing else: `make install` on a host whose systemd starts
//! controller and worker in their real units under their real users, and a server that becomes a node of theirs.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test where it stands")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use common::{Scratch, built, said, skipped};
use lucia_qualification::network::Network;
use lucia_qualification::node::{Node, NodeSpec};
use lucia_qualification::program::Program;
use lucia_qualification::skip::workspace;
use lucia_qualification::wait::wait_every;

mod common;

/// Runs a line of shell on a node, as a person does; it must succeed.
#[track_caller]
fn does(node: &Node, line: &str) -> String {
    let output = node.exec(&["sh", "-c", line]).unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{line}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Runs a line until what it prints has `word`.
#[track_caller]
fn shows(node: &Node, line: &str, word: &str) -> String {
    let mut last = String::new();
    let found = wait_every(Duration::from_millis(300), Duration::from_secs(40), || {
        last = said(node, &["sh", "-c", line]);
        last.contains(word).then_some(())
    });
    let units = "journalctl --no-pager -n 40 -o cat -u lucia-controller -u lucia-enrollment-worker -u lucia-node-agent";
    assert!(found.is_some(), "{line} never showed {word:?}: {last}\n{}", said(node, &["sh", "-c", units]));
    last
}

/// The hosts' files as `make install` lays them, and the one edit that docs/deployment.md asks for.
fn lay_host(root: &Path) {
    let bin = built("lucia-controller");
    let installed = Program::Built(workspace().join("qualification/install.sh"))
        .command()
        .args([bin.parent().unwrap(), root, Path::new("/usr")])
        .output()
        .unwrap();
    assert!(installed.status.success(), "{installed:?}");
    let settings = root.join("etc/lucia/worker.toml");
    let text = fs::read_to_string(&settings).unwrap();
    let edited = text.replace("#endpoint-names = []", "endpoint-names = [\"controller.lucia.home.arpa\"]");
    assert_ne!(text, edited);
    fs::write(settings, edited).unwrap();
}

/// The installer's medium: the agent, the controller's URL and name, and the root from outside the controller.
fn lay_installer(root: &Path, pem: &str) {
    fs::create_dir_all(root.join("usr/bin")).unwrap();
    fs::create_dir_all(root.join("etc/lucia")).unwrap();
    fs::copy(built("lucia-node-agent"), root.join("usr/bin/lucia-node-agent")).unwrap();
    let settings = "controller-url = \"https://10.73.0.11:8443\"\ncontroller-name = \"controller.lucia.home.arpa\"\n";
    fs::write(root.join("etc/lucia/agent.toml"), settings).unwrap();
    fs::write(root.join("etc/lucia/root.pem"), pem).unwrap();
}

/// A disk for the machine, whatever the host has.
fn lay_disk(disks: &Path) {
    fs::create_dir_all(disks.join("vda")).unwrap();
    for (name, value) in [("size", "134217728"), ("removable", "0"), ("ro", "0"), ("serial", "TEST")] {
        fs::write(disks.join("vda").join(name), value).unwrap();
    }
}

/// The 64 digits, in a run or in two rows, in a frame or not.
fn fingerprint_after(text: &str, label: &str) -> String {
    text.split(label).nth(1).unwrap().chars().filter(char::is_ascii_hexdigit).take(64).collect()
}

fn after<'a>(text: &'a str, label: &str) -> &'a str {
    text.split(label).nth(1).unwrap().split_whitespace().next().unwrap()
}

// spec: SD-17
#[test]
fn the_documents_commands_make_a_fleet_and_its_first_node() {
    if skipped("the_documents_commands_make_a_fleet_and_its_first_node") {
        return;
    }
    let scratch = Scratch::new("deployment");
    let network = Network::start(Path::new(env!("CARGO_BIN_EXE_lucia-qualification"))).unwrap();
    let disks = scratch.0.join("disks");
    lay_disk(&disks);
    let spec = |name, number| NodeSpec {
        network: Some(network.plug(number)),
        extra_bind: vec![(disks.clone(), "/sys/block".into())],
        ..scratch.spec(name)
    };
    let host = spec("host", 1);
    lay_host(&host.upper.join("root"));
    let host = Node::boot(host).unwrap();
    does(&host, "systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload");
    does(&host, "runuser -u lucia-worker -- lucia-enrollment-worker init");
    does(&host, "install -m 0644 /var/lib/lucia/worker/ca/root.pem /etc/lucia/root.pem");
    does(&host, "lucia-enrollment-worker check-config && lucia-controller check-config");
    does(&host, "systemctl enable --now lucia-enrollment-worker");
    does(&host, "systemctl enable --now lucia-controller");
    shows(&host, "luciactl status", "until");
    does(&host, "luciactl window open --minutes 30");

    let medium = NodeSpec { target: Some(scratch.0.join("web-1")), ..spec("installer", 2) };
    lay_installer(&medium.upper.join("root"), &does(&host, "cat /etc/lucia/root.pem"));
    let machine = Node::boot(medium).unwrap();
    let console = does(&machine, "lucia-node-agent discover");
    let (code, hex) = (after(&console, "Verification code:"), fingerprint_after(&console, "Fingerprint:"));
    let onboarding = does(&host, "luciactl onboarding");
    assert_eq!(fingerprint_after(&onboarding, "fingerprint "), hex);
    let disk = after(&onboarding, "disk ");
    does(&host, &format!("luciactl approve {code} --fingerprint {hex} --hostname web-1 --disk {disk} --yes"));
    does(&machine, "lucia-node-agent wait-install && lucia-node-agent installation-guard");
    does(&machine, "lucia-node-agent stage-managed --root /target");
    machine.stop().unwrap();

    let node = Node::boot(spec("web-1", 2)).unwrap();
    shows(&host, "runuser -u lucia-worker -- lucia-enrollment-worker pending", code);
    does(&host, &format!("runuser -u lucia-worker -- lucia-enrollment-worker admit {code} --fingerprint {hex}"));
    shows(&host, "luciactl nodes", "Online");
    shows(&node, "lucia-node-agent why", "Healthy");
    when_something_waits(&host);
    for (node, units) in [(&host, &["lucia-controller", "lucia-enrollment-worker"][..]), (&node, &["lucia-node-agent"])]
    {
        assert_eq!(said(node, &["systemctl", "is-system-running"]), "running", "{}", failed(node));
        for unit in units {
            let state = ["systemctl", "show", "--value", "-p", "ActiveState", "-p", "NRestarts", unit];
            assert_eq!(said(node, &state).lines().collect::<String>(), "0active", "{unit}");
        }
    }
    node.stop().unwrap();
    host.stop().unwrap();
}

/// What docs/operation.md asks when something waits, on the host.
#[track_caller]
fn when_something_waits(host: &Node) {
    does(host, "runuser -u lucia-worker -- lucia-enrollment-worker status");
    assert!(does(host, "runuser -u lucia-controller -- lucia-controller doctor").contains("whole"));
    assert!(does(host, "luciactl events").contains("web-1"));
}

fn failed(node: &Node) -> String {
    said(node, &["systemctl", "--failed", "--plain"])
}
