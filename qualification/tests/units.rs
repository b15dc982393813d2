//! The units: how exposed they are by systemd's own count, and that their sandboxes hold and leave room to work.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test where it stands")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use common::{Scratch, said, skipped};
use lucia_qualification::node::Node;
use lucia_qualification::program::Program;
use lucia_qualification::skip::workspace;

mod common;

fn unit(name: &str) -> PathBuf {
    workspace().join("systemd").join(name)
}

/// `limit` is ten times the number systemd shows.
#[track_caller]
fn exposure_is_at_most(limit: u32, name: &str) {
    let output = Program::SystemdAnalyze
        .command()
        .args(["security", "--offline=true", "--no-pager", &format!("--threshold={limit}")])
        .arg(unit(name))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

// spec: SD-10
#[test]
fn the_agent_is_exposed_by_at_most_2_5() {
    exposure_is_at_most(25, "lucia-node-agent.service");
}

// spec: SD-11
#[test]
fn the_controller_is_exposed_by_at_most_1_5() {
    exposure_is_at_most(15, "lucia-controller.service");
}

// spec: SD-12
#[test]
fn the_worker_is_exposed_by_at_most_1_5() {
    exposure_is_at_most(15, "lucia-enrollment-worker.service");
    exposure_is_at_most(15, OF_A_USER);
}

/// Every line that hardens is explained: a reader of a unit finds what breaks without it.
// spec: SD-13
#[test]
fn every_hardening_line_is_explained() {
    let readme = fs::read_to_string(workspace().join("systemd/README.md")).unwrap();
    for name in UNITS.map(|(unit, _, _)| unit).into_iter().chain([OF_A_USER]) {
        let text = fs::read_to_string(unit(name)).unwrap();
        let service = text.split("[Service]").nth(1).unwrap().split("[Install]").next().unwrap();
        for key in service.lines().filter_map(|line| line.split_once('=')).map(|(key, _)| key) {
            assert!(key.starts_with('#') || readme.contains(&format!("`{key}")), "{name}: {key}=");
        }
    }
}

/// What a unit may use at most: memory, tasks, open files, log lines in an interval of 30 s.
const BOUNDS: [(&str, [&str; 5]); 4] = [
    ("lucia-node-agent.service", ["128M", "64", "1024", "30s", "500"]),
    ("lucia-controller.service", ["1024M", "256", "8192", "30s", "2000"]),
    ("lucia-enrollment-worker.service", ["384M", "32", "256", "30s", "500"]),
    (OF_A_USER, ["256M", "32", "256", "30s", "500"]),
];

// spec: SD-18
#[test]
fn every_unit_bounds_its_memory_its_tasks_and_its_log() {
    assert_eq!(BOUNDS.len(), UNITS.len() + 1);
    for (name, bounds) in BOUNDS {
        let text = fs::read_to_string(unit(name)).unwrap();
        let keys = ["MemoryMax=", "TasksMax=", "LimitNOFILE=", "LogRateLimitIntervalSec=", "LogRateLimitBurst="];
        for (key, bound) in keys.into_iter().zip(bounds) {
            let values: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(key)).collect();
            assert_eq!(values, [bound], "{name}: {key}");
        }
    }
}

/// The ports that the shipped settings and docs name are those the controller may bind, and it may bind no other.
// spec: SD-241
#[test]
fn the_controller_binds_the_ports_of_its_settings_and_no_other() {
    let text = fs::read_to_string(unit("lucia-controller.service")).unwrap();
    let of = |key: &str| text.lines().filter_map(|line| line.strip_prefix(key)).collect::<Vec<_>>();
    assert_eq!(of("SocketBindDeny="), ["any"]);
    let settings = fs::read_to_string(workspace().join("controller/controller.toml")).unwrap();
    let docs = fs::read_to_string(workspace().join("docs/operation.md")).unwrap();
    let port = |text: &str, after: &str| {
        let rest = text.split(after).nth(1).unwrap();
        rest.chars().take_while(char::is_ascii_digit).collect::<String>()
    };
    let wanted = [port(&settings, "#listen = \"[::]:"), port(&docs, "listen = \"127.0.0.1:")];
    assert_eq!(of("SocketBindAllow="), wanted.map(|port| format!("tcp:{port}")));
    for name in ["lucia-controller.service", "lucia-enrollment-worker.service", "lucia-node-agent.service"] {
        let text = fs::read_to_string(unit(name)).unwrap();
        for key in ["CPUWeight=", "IOWeight="] {
            let value = text.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.parse::<u32>().unwrap());
            assert!(value.is_some_and(|value| value < 100), "{name}: {key}");
        }
    }
}

/// Unit, where its program lies, and what must hold inside its sandbox.
const UNITS: [(&str, &str, &str); 3] = [
    (
        "lucia-node-agent.service",
        "usr/lib/lucia/agent/lucia-node-agent",
        "write /var/lib/lucia/agent\nwrite /run/lucia/agent\nwrite /tmp\n\
         write /etc/sssd\nwrite /etc/ssh/sshd_config.d\nwrite /etc/ssh/lucia-authorized-keys\nrefused /etc/ssh\n\
         same /usr/lib/lucia/agent/lucia-node-agent /run/lucia/boot/agent/lucia-node-agent\n\
         same /proc/self/exe /run/lucia/boot/agent/lucia-node-agent\n\
         read /proc/stat\nread /proc/meminfo\nread /proc/loadavg\nread /etc/machine-id\nread /etc/lucia/agent.toml\n\
         refused /etc/lucia\nrefused /etc\nrefused /usr/lib/lucia/agent\nrefused /usr/lib\nrefused /usr/lib/systemd\n\
         refused /usr/bin\nrefused /run/lucia\nrefused /run/lucia/boot\n\
         refused /var/lib/lucia/worker\nhidden /var/lib/lucia/controller\nhidden /root\nnoexec /usr/bin/true",
    ),
    (
        "lucia-controller.service",
        "usr/bin/lucia-controller",
        "write /var/lib/lucia/controller/onboarding\nmapped /var/lib/lucia/controller/nodes/enrollment-responses\n\
         mapped /var/lib/lucia/controller/nodes/owner-responses\nwrite /var/lib/lucia/controller/nodes/owner-requests\n\
         write /var/lib/lucia/controller/tls\n\
         write /var/lib/lucia/controller/nodes/enrollment-requests\nwrite /var/lib/lucia/controller/nodes/removals\n\
         write /var/lib/lucia/controller/nodes/identities\nwrite /run/lucia\nread /etc/lucia/controller.toml\n\
         refused /var/lib/lucia/controller\nrefused /var/lib/lucia/controller/nodes\n\
         refused /var/lib/lucia/controller/nodes/enrollment-responses\n\
         refused /var/lib/lucia/controller/nodes/owner-responses\nrefused /etc/lucia\nrefused /run/lucia/agent\n\
         refused /run/lucia/boot\nhidden /var/lib/lucia/worker\nhidden /var/lib/lucia/agent\nhidden /root\n\
         noexec /usr/bin/true\nhidden /proc/meminfo",
    ),
    (
        "lucia-enrollment-worker.service",
        "usr/bin/lucia-enrollment-worker",
        "write /var/lib/lucia/worker\nwrite /var/lib/lucia/controller/nodes/enrollment-responses\n\
         write /var/lib/lucia/controller/nodes/owner-responses\n\
         read /var/lib/lucia/controller/onboarding/state.json\nmapped /var/lib/lucia/controller/onboarding/state.json\n\
         read /etc/lucia/worker.toml\n\
         read /var/lib/lucia/controller/nodes/enrollment-requests/some.json\n\
         refused /var/lib/lucia/controller\n\
         refused /var/lib/lucia/controller/onboarding\nrefused /var/lib/lucia/controller/nodes\n\
         refused /var/lib/lucia/controller/nodes/enrollment-requests\n\
         refused /var/lib/lucia/controller/nodes/owner-requests\nrefused /run/lucia\nrefused /etc/lucia\n\
         hidden /var/lib/lucia/controller/tls\nhidden /var/lib/lucia/controller/nodes/identities\n\
         hidden /var/lib/lucia/agent\nhidden /root\nnoexec /usr/bin/true",
    ),
];

/// The worker's unit for a user's own systemd.
const OF_A_USER: &str = "user/lucia-enrollment-worker.service";

fn lay(root: &Path, file: &str, from: &Path, mode: u32) {
    let to = root.join(file);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, &to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).unwrap();
}

/// Puts units, users, directories and the three stand-ins into a node's files before its first boot.
fn lay_units(root: &Path) {
    lay(root, "usr/lib/sysusers.d/lucia.conf", &unit("lucia.sysusers"), 0o644);
    lay(root, "usr/lib/tmpfiles.d/lucia.conf", &unit("lucia.tmpfiles"), 0o644);
    fs::create_dir_all(root.join("etc/lucia")).unwrap();
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&wants).unwrap();
    for (name, program, holds) in UNITS {
        lay(root, &format!("usr/lib/systemd/system/{name}"), &unit(name), 0o644);
        lay(root, program, Path::new(env!("CARGO_BIN_EXE_sandbox-probe")), 0o755);
        let list = Path::new(program).file_name().unwrap().to_str().unwrap();
        fs::write(root.join(format!("etc/lucia/{list}.probe")), holds).unwrap();
        symlink(format!("/usr/lib/systemd/system/{name}"), wants.join(name)).unwrap();
    }
    for part in ["agent", "controller", "worker"] {
        fs::write(root.join(format!("etc/lucia/{part}.toml")), "").unwrap();
    }
}

// spec: SD-14
#[test]
fn the_sandboxes_hold_and_leave_room_to_work() {
    if skipped("the_sandboxes_hold_and_leave_room_to_work") {
        return;
    }
    let scratch = Scratch::new("units");
    let spec = scratch.spec("units");
    lay_units(&spec.upper.join("root"));
    // What the controller would have written before.
    let before = "d /var/lib/lucia 0755 root root -\nd /var/lib/lucia/agent 0700 root root -\nf /var/lib/lucia/agent/installed.json 0600 root root - {}\n\
                  f /var/lib/lucia/controller/onboarding/state.json 0640 lucia-controller lucia-enrollment - {}\n\
                  f /var/lib/lucia/controller/nodes/enrollment-requests/some.json 0640 lucia-controller lucia-enrollment - {}\n";
    fs::write(spec.upper.join("root/usr/lib/tmpfiles.d/lucia-probe.conf"), before).unwrap();
    for boot in ["first", "second"] {
        let node = Node::boot(spec.clone()).unwrap();
        let log = said(&node, &["journalctl", "--no-pager", "-b", "-g", "lucia|tmpfiles|sysusers|does not hold"]);
        for (name, _, _) in UNITS {
            assert_eq!(said(&node, &["systemctl", "is-active", name]), "active", "{boot} boot, {name}: {log}");
        }
        assert_eq!(said(&node, &["systemctl", "is-system-running"]), "running", "{boot} boot: {log}");
        let refused = log.lines().any(|line| line.contains("tmpfiles[") && line.contains("lucia"));
        assert!(!refused, "{boot} boot, systemd-tmpfiles has something to say: {log}");
        owners_are_right(&node);
        verified(&node);
        // An installation of before, in which the controller owned what leads to others: the next boot brings it here.
        let older = "chown lucia-controller /var/lib/lucia/controller /var/lib/lucia/controller/nodes";
        assert!(node.exec(&["sh", "-c", older]).unwrap().status.success());
        node.stop().unwrap();
    }
}

/// W6: who owns each directory, and that what is made in one belongs to the exchange group.
#[track_caller]
fn owners_are_right(node: &Node) {
    let base = "/var/lib/lucia/controller";
    for (path, want) in [
        ("", "2750 root:lucia-enrollment"),
        ("/audit", "700 lucia-controller:lucia-enrollment"),
        ("/tokens", "700 lucia-controller:lucia-enrollment"),
        ("/onboarding", "2750 lucia-controller:lucia-enrollment"),
        ("/onboarding/probe", "600 lucia-controller:lucia-enrollment"),
        ("/nodes", "2750 root:lucia-enrollment"),
        ("/nodes/enrollment-requests", "2750 lucia-controller:lucia-enrollment"),
        ("/nodes/enrollment-responses", "2750 lucia-worker:lucia-enrollment"),
        ("/nodes/enrollment-responses/probe", "600 lucia-worker:lucia-enrollment"),
        ("/nodes/owner-requests", "2750 lucia-controller:lucia-enrollment"),
        ("/nodes/owner-responses", "2750 lucia-worker:lucia-enrollment"),
        ("/nodes/owner-responses/probe", "600 lucia-worker:lucia-enrollment"),
        ("/nodes/identities", "700 lucia-controller:lucia-enrollment"),
        ("/tls", "700 lucia-controller:lucia-controller"),
        ("/../worker", "700 lucia-worker:lucia-worker"),
        ("/../agent", "700 root:root"),
    ] {
        assert_eq!(said(node, &["stat", "-c", "%a %U:%G", &format!("{base}{path}")]), want, "{path}");
    }
}

/// systemd of the node itself finds nothing to complain about in the units.
#[track_caller]
fn verified(node: &Node) {
    let units = UNITS.map(|(name, _, _)| name);
    let output = node.exec(&[&["systemd-analyze", "verify", "--man=no"], units.as_slice()].concat()).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("lucia"), "{said}");
}

/// What systemd/README.md gives to a worker with a directory or another CA, and what the unit alone withholds.
// spec: SD-20
#[test]
fn the_worker_reaches_its_directory_by_the_readmes_drop_in_and_nothing_without() {
    if skipped("the_worker_reaches_its_directory_by_the_readmes_drop_in_and_nothing_without") {
        return;
    }
    let scratch = Scratch::new("unit-network");
    let spec = scratch.spec("unit-network");
    let root = spec.upper.join("root");
    lay_units(&root);
    let readme = fs::read_to_string(workspace().join("systemd/README.md")).unwrap();
    let drop_in = readme.split("whose directory is LDAP:").nth(1).unwrap().split("```").nth(1).unwrap();
    let drop_in = drop_in.trim_start_matches("ini\n").replace("192.0.2.10 192.0.2.11", "127.0.0.1");
    assert!(drop_in.contains("IPAddressAllow=127.0.0.1\n"), "{drop_in}");
    let node = Node::boot(spec).unwrap();
    let worker = "lucia-enrollment-worker.service";
    let restart = |holds: &str| {
        fs::write(node.root().join("etc/lucia/lucia-enrollment-worker.probe"), holds).unwrap();
        node.exec(&["systemctl", "restart", worker]).unwrap();
        let log = said(&node, &["journalctl", "--no-pager", "-n", "5", "-o", "cat", "-u", worker]);
        assert_eq!(said(&node, &["systemctl", "is-active", worker]), "active", "{holds}: {log}");
    };
    restart("alone 127.0.0.1:22");
    let drop_ins = node.root().join("etc/systemd/system/lucia-enrollment-worker.service.d");
    fs::create_dir_all(&drop_ins).unwrap();
    fs::write(drop_ins.join("override.conf"), drop_in).unwrap();
    node.exec(&["systemctl", "daemon-reload"]).unwrap();
    restart("connect 127.0.0.1:22\nhidden /var/lib/lucia/controller/tls\nrefused /etc/lucia\nnoexec /usr/bin/true");
    node.stop().unwrap();
}

/// A user with the directories that `make install` lays, whose systemd runs without a login: pam_systemd, which a Debian has and this
/// node has not, would name the runtime directory.
const A_USER: &str = "useradd --create-home op && cd /home/op && install -d -o op -g op .config .config/lucia .local .local/state \
     .local/state/lucia && install -d -m 0700 -o op -g op .ssh .local/state/lucia/worker .local/state/lucia/controller \
     .local/state/lucia/controller/tls .local/state/lucia/controller/nodes \
     .local/state/lucia/controller/nodes/enrollment-responses \
     .local/state/lucia/controller/nodes/owner-responses && touch .config/lucia/worker.toml .ssh/id && \
     systemctl start user@$(id -u op)";

const AS_A_USER: &str = "runuser -u op -- env XDG_RUNTIME_DIR=/run/user/$(id -u op)";

// spec: SD-19
#[test]
fn the_users_own_unit_sees_of_the_home_what_is_the_workers() {
    if skipped("the_users_own_unit_sees_of_the_home_what_is_the_workers") {
        return;
    }
    let scratch = Scratch::new("user-unit");
    let spec = scratch.spec("user-unit");
    let root = spec.upper.join("root");
    lay(&root, "usr/lib/systemd/user/lucia-enrollment-worker.service", &unit(OF_A_USER), 0o644);
    lay(&root, "usr/bin/lucia-enrollment-worker", Path::new(env!("CARGO_BIN_EXE_sandbox-probe")), 0o755);
    let state = "/home/op/.local/state/lucia";
    let holds = format!(
        "write {state}/worker\nwrite {state}/controller/nodes/enrollment-responses\n\
         write {state}/controller/nodes/owner-responses\nmapped {state}/controller/nodes\n\
         read /home/op/.config/lucia/worker.toml\nrefused /home/op/.config/lucia\nrefused {state}\n\
         hidden /home/op/.ssh\nrefused /home/op\n\
         refused /etc\nrefused /usr/lib\nwrite /tmp\nnoexec /usr/bin/true"
    );
    fs::create_dir_all(root.join("etc/lucia")).unwrap();
    fs::write(root.join("etc/lucia/lucia-enrollment-worker.probe"), holds).unwrap();
    let drop_in = root.join("etc/systemd/system/user@.service.d");
    fs::create_dir_all(&drop_in).unwrap();
    fs::write(drop_in.join("test.conf"), "[Service]\nEnvironment=XDG_RUNTIME_DIR=/run/user/%i\n").unwrap();
    let node = Node::boot(spec).unwrap();
    let shell = |line: &str| node.exec(&["sh", "-c", line]).unwrap();
    let made = shell(A_USER);
    assert!(made.status.success(), "{made:?}");
    let started = shell(&format!("{AS_A_USER} systemctl --user enable --now lucia-enrollment-worker"));
    assert!(started.status.success(), "{}", said(&node, &["journalctl", "--no-pager", "-n", "40", "-o", "cat"]));
    let verified =
        shell(&format!("{AS_A_USER} systemd-analyze --user verify --man=no lucia-enrollment-worker.service"));
    assert!(verified.status.success() && verified.stderr.is_empty(), "{verified:?}");
    node.stop().unwrap();
}
