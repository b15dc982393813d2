//! A stolen controller beside its worker: whoever runs as the controller's user, inside the controller's own sandbox,
//! moves, links and shuts what it can reach. The worker goes on, after a restart and after a reboot.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test where it stands")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use common::{Scratch, built, said, skipped};
use lucia_qualification::node::Node;
use lucia_qualification::program::Program;
use lucia_qualification::skip::workspace;
use lucia_qualification::wait::wait_every;

mod common;

const WORKER: &str = "lucia-enrollment-worker";
const RESPONSES: &str = "/var/lib/lucia/controller/nodes/enrollment-responses";

/// What is done, and the shell of it, in the controller's state directory.
const ACTS: [(&str, &str); 12] = [
    (
        "a directory in the place of the worker's status",
        "mv nodes/enrollment-responses nodes/away; mkdir -m 2750 nodes/enrollment-responses; \
         mkdir nodes/enrollment-responses/enrollment-worker.json",
    ),
    ("the TLS directory is a link to the worker's", "mv tls tls-away; ln -s /var/lib/lucia/worker tls"),
    ("the nodes' directory is gone", "mv nodes nodes-away"),
    ("the nodes' directory is a link to the worker's", "mv nodes nodes-away; ln -s /var/lib/lucia/worker nodes"),
    ("the nodes' directory is a FIFO", "mv nodes nodes-away; mkfifo nodes"),
    ("the answers are a link elsewhere", "mv nodes/owner-responses nodes/away; ln -s /etc nodes/owner-responses"),
    ("the answers are removed", "rm -rf nodes/enrollment-responses nodes/owner-responses"),
    ("the journal's directory is a file", "mv onboarding onboarding-away; echo x >onboarding"),
    ("the journal is a FIFO", "mv onboarding/state.json onboarding/true; mkfifo -m 0640 onboarding/state.json"),
    ("the removals are gone", "rm -rf nodes/removals; mv nodes/enrollment-requests nodes/requests-away"),
    (
        "nobody may look",
        "chmod 000 nodes/enrollment-requests nodes/removals nodes/owner-requests onboarding tls nodes . ",
    ),
    (
        "files are links",
        "for at in enrollment-requests owner-requests removals; do ln -s /etc/passwd nodes/$at/x.json; done",
    ),
];

#[track_caller]
fn does(node: &Node, line: &str) -> String {
    let output = node.exec(&["sh", "-c", line]).unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{line}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

fn soon(what: impl FnMut() -> Option<()>) -> bool {
    wait_every(Duration::from_millis(100), Duration::from_secs(20), what).is_some()
}

/// Runs shell as the controller's user in the controller's unit: only what may be executed is let go, for there is a shell
/// in the place of code that was smuggled into the daemon.
#[track_caller]
fn as_the_controller(node: &Node, script: &str) {
    let drop_in = node.root().join("run/systemd/system/lucia-controller.service.d/act.conf");
    fs::create_dir_all(drop_in.parent().unwrap()).unwrap();
    let lines = "[Service]\nType=oneshot\nRestart=no\nNoExecPaths=\nExecPaths=\nBindReadOnlyPaths=\nExecStart=\n\
                 ExecStart=/bin/sh /etc/lucia/act\n";
    fs::write(&drop_in, lines).unwrap();
    let all = format!("cd /var/lib/lucia/controller\n{script}\nid -un >/run/lucia/acted\nexit 0\n");
    fs::write(node.root().join("etc/lucia/act"), all).unwrap();
    does(node, "rm -f /run/lucia/acted; systemctl daemon-reload; systemctl start lucia-controller");
    assert_eq!(said(node, &["cat", "/run/lucia/acted"]), "lucia-controller", "{script}");
    fs::remove_file(drop_in).unwrap();
    does(node, "systemctl daemon-reload; systemctl reset-failed lucia-controller || true");
}

fn log(node: &Node) -> String {
    said(
        node,
        &["journalctl", "--no-pager", "-b", "-n", "25", "-o", "cat", "-u", WORKER, "-u", "systemd-tmpfiles-setup"],
    )
}

/// It runs, was never restarted by systemd, and takes its turns.
#[track_caller]
fn goes_on(node: &Node, act: &str) {
    let before = said(node, &["date", "+%s"]).parse::<u64>().unwrap();
    let turned = soon(|| {
        let status = said(node, &["stat", "-c", "%Y", &format!("{RESPONSES}/enrollment-worker.json")]);
        (status.parse::<u64>().ok()? >= before).then_some(())
    });
    let state = said(node, &["systemctl", "show", "--value", "-p", "ActiveState", "-p", "NRestarts", WORKER]);
    assert_eq!(state.lines().collect::<String>(), "0active", "{act}: {}", log(node));
    assert!(turned, "{act}: no turn was taken: {}", log(node));
}

/// A request that was never seen gets its answer.
#[track_caller]
fn answers(node: &Node, act: &str, number: usize) {
    let request = format!("{{\"probe\":{number}}}");
    let hash = does(node, &format!("printf %s '{request}' | sha256sum | cut -d' ' -f1"));
    let place = "/var/lib/lucia/controller/nodes/enrollment-requests";
    let put = format!(
        "runuser -u lucia-controller -- sh -c \"printf %s '{}' >{place}/.x; chmod 0640 {place}/.x; mv {place}/.x {place}/endpoint.json\"",
        request.replace('"', "\\\"")
    );
    does(node, &put);
    let found =
        soon(|| said(node, &["cat", &format!("{RESPONSES}/endpoint.json")]).contains(hash.trim()).then_some(()));
    assert!(found, "{act}: no answer: {}", log(node));
}

// spec: SD-240
#[test]
fn a_stolen_controller_does_not_stop_the_worker() {
    if skipped("a_stolen_controller_does_not_stop_the_worker") {
        return;
    }
    let scratch = Scratch::new("stolen");
    let spec = scratch.spec("stolen");
    let bin = built("lucia-controller");
    let root = spec.upper.join("root");
    let install = Program::Built(workspace().join("qualification/install.sh"));
    let installed = install.command().args([bin.parent().unwrap(), &root, Path::new("/usr")]).output().unwrap();
    assert!(installed.status.success(), "{installed:?}");
    let settings = root.join("etc/lucia/worker.toml");
    let text = fs::read_to_string(&settings).unwrap();
    let named = text.replace("#endpoint-names = []", "endpoint-names = [\"controller.lucia.home.arpa\"]");
    fs::write(settings, named).unwrap();
    let mut node = Node::boot(spec.clone()).unwrap();
    does(&node, "systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload");
    does(&node, "lucia-enrollment-worker init");
    does(&node, "install -m 0644 /var/lib/lucia/worker/ca/root.pem /etc/lucia/root.pem");
    does(&node, "systemctl enable --now lucia-enrollment-worker && systemctl start lucia-controller");
    assert!(soon(|| said(&node, &["luciactl", "status"]).contains("until").then_some(())), "{}", log(&node));
    does(&node, "systemctl stop lucia-controller");
    answers(&node, "before", 0);
    for (number, (act, script)) in ACTS.iter().enumerate() {
        as_the_controller(&node, script);
        does(&node, &format!("systemctl restart {WORKER}"));
        goes_on(&node, act);
        node.stop().unwrap();
        node = Node::boot(spec.clone()).unwrap();
        goes_on(&node, act);
        answers(&node, act, number + 1);
    }
    // The controller could hurt itself alone: with its own journal back it is what it was.
    does(&node, "cd /var/lib/lucia/controller/onboarding && mv -T true state.json && systemctl start lucia-controller");
    assert!(soon(|| said(&node, &["luciactl", "status"]).contains("until").then_some(())), "{}", log(&node));
    node.stop().unwrap();
}
