//! How the agent's daemon ends on a booted node, what systemd then says of the system, and what `why` says of the agent. No
//! controller is there, and none is needed.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test where it stands")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use common::{Scratch, built, said, skipped};
use lucia_proto::pki::key::NodeKey;
use lucia_qualification::node::Node;
use lucia_qualification::skip::workspace;
use lucia_qualification::wait::wait_for;

mod common;

/// The system as an image has it: the agent, its unit, which is enabled, and settings of a controller that is not there.
fn lay(root: &Path) {
    let files = [
        (built("lucia-node-agent"), "usr/lib/lucia/agent/lucia-node-agent", 0o755),
        (
            workspace().join("systemd/lucia-node-agent.service"),
            "usr/lib/systemd/system/lucia-node-agent.service",
            0o644,
        ),
        (workspace().join("systemd/lucia-agent.tmpfiles"), "usr/lib/tmpfiles.d/lucia-agent.conf", 0o644),
        (workspace().join("tests/vectors/certificates-v1/root.pem"), "etc/lucia/root.pem", 0o644),
    ];
    for (from, to, mode) in files {
        let to = root.join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, &to).unwrap();
        fs::set_permissions(to, fs::Permissions::from_mode(mode)).unwrap();
    }
    let settings = "controller-url = \"https://127.0.0.1:1\"\ncontroller-name = \"controller.lucia.home.arpa\"\n";
    fs::write(root.join("etc/lucia/agent.toml"), settings).unwrap();
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&wants).unwrap();
    symlink("/usr/lib/systemd/system/lucia-node-agent.service", wants.join("lucia-node-agent.service")).unwrap();
}

const AGENT: &str = "/usr/lib/lucia/agent/lucia-node-agent";
const STATE: &str = "/var/lib/lucia/agent";

/// What `why` says: the code it ends with, whether the daemon runs, what counts, in words.
#[track_caller]
fn why(node: &Node) -> (Option<i32>, bool, String, String) {
    let output = node.exec(&[AGENT, "why", "--json"]).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |name: &str| json.pointer(&format!("/health/{name}")).cloned().unwrap_or_default();
    let text = |name| of(name).as_str().unwrap_or_default().to_owned();
    (output.status.code(), of("running").as_bool().unwrap(), text("cause"), text("message"))
}

#[track_caller]
fn writes(node: &Node, file: &str, text: &str) {
    let line = format!("umask 077 && printf %s '{text}' >{STATE}/{file}");
    assert!(node.exec(&["sh", "-c", &line]).unwrap().status.success(), "{file}");
}

fn unit(node: &Node) -> (String, String) {
    let show = |property: &str| said(node, &["systemctl", "show", "--value", "-p", property, "lucia-node-agent"]);
    // It reports READY before such an end, so a start may return while the unit still ends.
    let ended = |_: &u32| show("ActiveState") != "deactivating";
    assert!((0..500).find(ended).is_some());
    (show("ActiveState"), show("ExecMainStatus"))
}

// spec: SD-281
// spec: AG-280
#[test]
fn an_expected_end_leaves_the_system_running_and_why_says_which_it_was() {
    if skipped("an_expected_end_leaves_the_system_running_and_why_says_which_it_was") {
        return;
    }
    let scratch = Scratch::new("ends");
    let spec = scratch.spec("ends");
    lay(&spec.upper.join("root"));
    let node = Node::boot(spec).unwrap();
    let system = || said(&node, &["systemctl", "is-system-running"]);
    let start = || node.exec(&["systemctl", "restart", "lucia-node-agent"]).unwrap().status.success();
    let log = || said(&node, &["journalctl", "--no-pager", "-n", "20", "-o", "cat", "-u", "lucia-node-agent"]);

    // Enabled on a machine that is no node.
    assert_eq!((system().as_str(), unit(&node).0.as_str()), ("running", "inactive"), "{}", log());
    let (code, running, cause, _) = why(&node);
    assert_eq!((code, running, cause.as_str()), (Some(1), false, "never-started"));

    // Its key, which `discover` makes though nobody answers, and what staging leaves.
    let _ = node.exec(&[AGENT, "discover"]).unwrap();
    let key = NodeKey::from_pem(&said(&node, &["cat", &format!("{STATE}/node.key")])).unwrap();
    let (node_id, machine_id) = (key.public().fingerprint().node_id(), said(&node, &["cat", "/etc/machine-id"]));
    let hostname = said(&node, &["cat", "/etc/hostname"]);
    let installed = |boot: &str, hostname: &str| {
        let task = "00000000-0000-4000-8000-000000000000";
        let text = format!(
            r#"{{"nodeId":"{node_id}","taskId":"{task}","hostname":"{hostname}","installBootId":"{boot}","machineId":"{machine_id}"}}"#
        );
        writes(&node, "installed.json", &text);
    };
    let other = "11111111-1111-4111-8111-111111111111";

    // It waits for the reboot into the installed system.
    installed(&said(&node, &["cat", "/proc/sys/kernel/random/boot_id"]), &hostname);
    assert!(start(), "{}", log());
    assert_eq!(unit(&node), ("inactive".into(), "12".into()), "{}", log());
    assert_eq!(system(), "running");
    // What somebody has to put right is a failure.
    installed(other, "another-name");
    assert!(!start());
    assert_eq!((unit(&node), system().as_str()), (("failed".into(), "13".into()), "degraded"), "{}", log());
    let (code, _, cause, message) = why(&node);
    assert!(code == Some(1) && cause == "not-running" && message.contains("13"), "{message}");

    let _ = node.exec(&["systemctl", "reset-failed"]).unwrap();

    // An owner decided that another machine goes on.
    installed(other, &hostname);
    let at = "1970-01-01T00:00:00Z";
    let memory = format!(r#"{{"schemaVersion":1,"begunAt":"{at}","floor":"{at}","nonces":[],"states":[]}}"#);
    let stopped = format!(r#""stopped":{{"intent":"{}","decision":"keep"}}"#, "0123456789abcdef".repeat(4));
    writes(
        &node,
        "orders.json",
        &format!(r#"{{"schemaVersion":1,"memory":{memory},"keys":[],{stopped},"untold":[],"done":[]}}"#),
    );
    assert!(start(), "{}", log());
    assert_eq!(unit(&node), ("inactive".into(), "14".into()), "{}", log());
    assert_eq!(system(), "running");
    let (code, running, cause, _) = why(&node);
    assert_eq!((code, running, cause.as_str()), (Some(1), false, "stopped"));
    assert!(node.exec(&["rm", &format!("{STATE}/orders.json")]).unwrap().status.success());

    // It runs, is stopped, is killed, and comes back.
    installed(other, &hostname);
    assert!(start(), "{}", log());
    let refused = wait_for(Duration::from_secs(40), || (why(&node).2 == "enrollment").then_some(()));
    assert!(refused.is_some(), "{:?}\n{}", why(&node), log());
    assert_eq!((why(&node).0, why(&node).1, system().as_str()), (Some(1), true, "running"));
    let _ = node.exec(&["systemctl", "stop", "lucia-node-agent"]).unwrap();
    let (code, running, cause, message) = why(&node);
    assert_eq!((code, running, cause.as_str()), (Some(1), false, "not-running"));
    assert!(message.contains("stopped"), "{message}");
    assert!(start());
    let killed = "systemctl kill -s KILL lucia-node-agent";
    let _ = node.exec(&["sh", "-c", killed]).unwrap();
    let seen = wait_for(Duration::from_secs(4), || Some(why(&node)).filter(|(_, running, _, _)| !running));
    let (code, _, cause, message) = seen.unwrap();
    assert!(code == Some(1) && cause == "not-running" && message.contains("killed"), "{message}");
    let back = wait_for(Duration::from_secs(20), || why(&node).1.then_some(()));
    assert!(back.is_some(), "{}", log());
    node.stop().unwrap();
}
