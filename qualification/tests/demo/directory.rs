//! The directory in the demo: who logs in to its node by SSH, and what happens where it fails.

use std::fs;
use std::time::Duration;

use lucia_people::host_api::NodeView;
use lucia_proto::node::heartbeat::{DirectoryReport, DirectoryState};
use lucia_qualification::program::Program;
use lucia_qualification::skip::{note, workspace};
use lucia_qualification::wait::wait_every;

use crate::Demo;
use crate::common::{Scratch, page_skipped};

const SSSD_CONF: &str = "/etc/sssd/sssd.conf";

/// What the controller was told last.
fn report(demo: &Demo) -> Option<DirectoryReport> {
    let shown = demo.command("luciactl", &["--json", "node", "demo-1"]);
    serde_json::from_slice::<NodeView>(&shown.stdout).ok()?.directory
}

/// Waits for a heartbeat that says so.
#[track_caller]
fn says(demo: &Demo, state: DirectoryState) -> String {
    let said = wait_every(Duration::from_millis(500), Duration::from_secs(120), || {
        report(demo).filter(|report| report.state == state)
    });
    let why = || (report(demo), demo.on(&["lucia-node-agent", "why"]), demo.on(&["cat", SSSD_CONF]));
    assert!(said.is_some(), "never {state:?}: {:?}", why());
    said.unwrap().message.map(|text| text.to_string()).unwrap_or_default()
}

// spec: DE-9, DE-10
#[track_caller]
pub(crate) fn it_shows_a_login_and_its_end(demo: &Demo) {
    let said = demo.said.join("\n");
    let steps = [
        "Ready",
        "luciactl keys add alice",
        "20000(lucia-owners)",
        "ssh bob@demo-1",
        "slapd",
        "(localadmin)",
        "slapd",
        "luciactl keys remove alice SHA256:",
        "systemctl is-system-running",
    ];
    let mut rest = said.as_str();
    for step in steps {
        let found = rest.split_once(step);
        assert!(found.is_some(), "{step:?}: {said}");
        rest = found.unwrap().1;
    }
    // What the demo says of itself is so: nobody of the directory has a key on the node any more.
    assert_eq!(demo.on(&["ls", "/etc/ssh/lucia-authorized-keys"]), "");
    assert_eq!(demo.command("ssh", &["alice", "id"]).status.code(), Some(255));
    assert!(demo.on(&["id", "alice"]).contains("(lucia-owners)"));
    the_password_is_nowhere(demo);
    the_directory_goes_and_comes(demo);
}

#[track_caller]
fn the_password_is_nowhere(demo: &Demo) {
    let line = demo.on(&["grep", "^ldap_default_authtok =", SSSD_CONF]);
    let password = line.split(" = ").nth(1).unwrap();
    assert!(password.len() >= 43, "{}", password.len());
    let search = |dir: &str| {
        let grep = Program::Built("grep".into()).command().args(["-rlF", "--", password, dir]).output().unwrap();
        (grep.status.code(), String::from_utf8(grep.stdout).unwrap())
    };
    let dir = demo.dir.display();
    for below in ["state/controller", "state/worker", "state/directory", "etc", "log"] {
        assert_eq!(search(&format!("{dir}/{below}")), (Some(1), String::new()), "{below}");
    }
    let (code, found) = search(&format!("{dir}/machine/installed/root"));
    let files: Vec<&str> = found.lines().filter(|path| !path.contains("/root/var/lib/sss/")).collect();
    assert!(code == Some(0) && files.iter().any(|path| path.ends_with(SSSD_CONF)), "{found}");
    for path in files {
        let mode = demo.on(&["stat", "-c", "%U:%G %a", path.split("installed/root").nth(1).unwrap()]);
        // sssd itself gives its file to its group, root, at each start.
        assert!(["root:root 600", "root:root 640"].contains(&mode.as_str()), "{path}: {mode}");
    }
}

/// By the commands the demo offers: the directory ends, a local account logs in all the same, the directory is there again.
// spec: DE-11
#[track_caller]
fn the_directory_goes_and_comes(demo: &Demo) {
    let pid = fs::read_to_string(demo.dir.join("state/directory/slapd.pid")).unwrap();
    assert!(Program::Built("kill".into()).command().arg(pid.trim()).status().unwrap().success());
    let gone = wait_every(Duration::from_millis(100), Duration::from_secs(20), || {
        (!demo.command("worker", &["status"]).status.success()).then_some(())
    });
    assert!(gone.is_some(), "{:?}", demo.command("worker", &["status"]));
    let login = demo.command("ssh", &["localadmin", "id"]);
    assert!(login.status.success(), "{login:?}");
    // In the background and without a word but one; it ends with the demo, which is looked at when that has ended.
    let started = demo.command("slapd", &[]);
    assert!(started.status.success() && started.stderr.is_empty(), "{started:?}");
    let said = String::from_utf8(started.stdout).unwrap();
    assert!(said.lines().count() == 1 && said.contains("slapd"), "{said}");
    // Asked once more, the same one goes on.
    let pid = || fs::read_to_string(demo.dir.join("state/directory/slapd.pid")).unwrap();
    let runs = pid();
    assert!(demo.command("slapd", &[]).status.success());
    assert_eq!(pid(), runs);
    let again = wait_every(Duration::from_millis(200), Duration::from_secs(60), || {
        demo.command("worker", &["status"]).status.success().then_some(())
    });
    assert!(again.is_some(), "{:?}", demo.command("worker", &["status"]));
}

/// A change after which sssd does not start: what worked before is back, it is told, nobody is locked out, and once the
/// cause is gone the change comes about by itself.
// spec: DE-11
#[track_caller]
pub(crate) fn a_configuration_that_sssd_refuses_is_taken_back(demo: &Demo) {
    let root = |line: &str| {
        let output = demo.command("node", &["sh", "-c", line]);
        assert!(output.status.success(), "{line}: {output:?}");
    };
    let cure = "/run/systemd/system/sssd.service.d";
    let before = demo.on(&["cat", SSSD_CONF]);
    root(&format!(
        "mkdir -p {cure} && printf '[Service]\\nExecStartPre=/bin/sh -c \"! grep -q other.pem {SSSD_CONF}\"\\n' >{cure}/test.conf \
         && systemctl daemon-reload && cp /etc/lucia/root.pem /etc/lucia/other.pem \
         && sed -i /^root-file/d /etc/lucia/agent.toml && echo 'root-file = \"/etc/lucia/other.pem\"' >>/etc/lucia/agent.toml && systemctl restart lucia-node-agent"
    ));
    let message = says(demo, DirectoryState::Failed);
    assert!(message.contains("sssd"), "{message}");
    let why = demo.on(&["lucia-node-agent", "why"]);
    assert!(why.contains("sssd"), "{why}");
    // Between two attempts; each has the new one for as long as sssd takes to refuse it.
    let is_back = || demo.on(&["cat", SSSD_CONF]) == before && demo.on(&["systemctl", "is-active", "sssd"]) == "active";
    let back = wait_every(Duration::from_millis(200), Duration::from_secs(30), || is_back().then_some(()));
    assert!(
        back.is_some(),
        "{}",
        demo.on(&["journalctl", "-n", "30", "-o", "cat", "-u", "sssd", "-u", "lucia-node-agent"])
    );
    assert!(demo.on(&["getent", "-s", "sss", "group", "lucia-owners"]).contains("alice"));
    let login = demo.command("ssh", &["localadmin", "id"]);
    assert!(login.status.success(), "{login:?}");

    root(&format!("rm {cure}/test.conf && systemctl daemon-reload && systemctl reset-failed"));
    says(demo, DirectoryState::Ready);
    assert!(demo.on(&["cat", SSSD_CONF]).contains("/etc/lucia/other.pem"));
    assert_eq!(demo.on(&["systemctl", "is-system-running"]), "running", "{}", demo.on(&["systemctl", "--failed"]));
}

/// The fleet's CA in this one is a real step-ca, where `make setup` could build it, and Chromium trusts its root.
// spec: DE-12, DE-13, DE-40
#[test]
fn a_node_that_enrols_while_the_directory_is_down_waits_and_goes_on_by_itself() {
    if page_skipped("a_node_that_enrols_while_the_directory_is_down_waits_and_goes_on_by_itself") {
        return;
    }
    let scratch = Scratch::new("demo-late");
    let helper = Program::Built(env!("CARGO_BIN_EXE_lucia-qualification").into());
    let dir = scratch.0.join("demo");
    let mut command = helper.command();
    command.args(["demo", "--once", "--late-directory", "--dir"]).arg(&dir);
    let step_ca = workspace().join("target/tools/step-ca");
    if step_ca.exists() {
        command.arg("--step-ca").arg(&step_ca);
    } else {
        note("demo-with-step-ca", "step-ca is not built. Cure: Go, then make setup").unwrap();
    }
    let ran = command.output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(step_ca.exists(), said.contains("step-ca"), "{said}");
    // What the worker says of it while it waits, then the directory, then a login by it.
    let reason = |line: &&str| line.contains(" waits: ") && line.contains("ldaps://10.73.0.1:1636");
    let reason = said.lines().find(reason).unwrap_or_else(|| panic!("{said}"));
    let (before, after) = said.split_once(reason).unwrap();
    let started = after.split_once("slapd").unwrap().1;
    assert!(reason.contains("demo-1") && started.contains("(lucia-owners)"), "{said}");
    assert!(!before.contains("(lucia-owners)"), "{said}");
    for line in ["/passkeys", "person      luciactl passkey approve ", "ERASE", "person      luciactl sign "] {
        assert!(said.contains(line), "{line}: {said}");
    }
    // What became of both orders, as the page said by itself.
    assert_eq!(said.matches("Carried out").count(), 2, "{said}");
    for picture in ["passkey", "servers", "key-given", "waiting", "admitted"] {
        let bytes = fs::read(dir.join(format!("page/{picture}.png"))).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 10_000, "{picture}: {} bytes", bytes.len());
    }
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("demo: node ") && last.contains("Managed, 3 heartbeats"), "{said}");
}
