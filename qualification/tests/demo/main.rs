//! The demo as a person runs it, to its last line; then the node it made is looked at, and `managed-run` refuses on it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests stop the test where it stands")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Output, Stdio};
use std::time::Duration;

use common::{Scratch, built, site_skipped};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::key::VerificationCode;
use lucia_qualification::program::Program;
use lucia_qualification::skip::workspace;
use lucia_qualification::wait::wait_for;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[path = "../common/mod.rs"]
mod common;
mod directory;

/// A demo that stays up; dropped, it is asked to end.
struct Demo {
    child: Child,
    dir: PathBuf,
    said: Vec<String>,
    /// What it says behind its last line: what a person may do now.
    offered: String,
}

impl Demo {
    /// Runs it up to its last line.
    fn run(dir: &Path) -> Self {
        let helper = Program::Built(env!("CARGO_BIN_EXE_lucia-qualification").into());
        let mut child = helper.command().arg("demo").arg("--dir").arg(dir).stdout(Stdio::piped()).spawn().unwrap();
        let (mut said, mut offered) = (Vec::<String>::new(), String::new());
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            if said.last().is_none_or(|last| !last.starts_with("demo: ")) {
                said.push(line);
                continue;
            }
            offered.push_str(&format!("{line}\n"));
            if line.starts_with("Logs: ") {
                break;
            }
        }
        Self { child, dir: dir.to_owned(), said, offered }
    }

    /// One of the commands it offers.
    #[track_caller]
    fn command(&self, name: &str, arguments: &[&str]) -> Output {
        Program::Built(self.dir.join(name)).command().args(arguments).output().unwrap()
    }

    /// What a program on the node printed.
    #[track_caller]
    fn on(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.command("node", arguments).stdout).unwrap().trim().to_owned()
    }

    fn show(&self, property: &str) -> String {
        self.on(&["systemctl", "show", "--value", "--property", property, "lucia-node-agent"])
    }

    /// How it ended, within two minutes of Ctrl-C.
    fn ended(&mut self) -> Option<ExitStatus> {
        wait_for(Duration::from_secs(120), || self.child.try_wait().ok().flatten())
    }

    /// Ctrl-C.
    fn interrupt(&self) {
        let _ = kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGINT);
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.interrupt();
        if self.ended().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[test]
fn a_machine_nobody_knows_becomes_a_node_in_one_command() {
    if site_skipped("a_machine_nobody_knows_becomes_a_node_in_one_command") {
        return;
    }
    let scratch = Scratch::new("demo");
    let mut demo = Demo::run(&scratch.0.join("demo"));
    it_says_what_happened(&demo);
    the_commands_it_offers_work(&demo);
    the_page_is_there_for_a_browser_of_this_machine(&demo);
    the_agent_is_the_real_one_in_its_unit(&demo);
    it_tells_how_it_is(&demo);
    directory::it_shows_a_login_and_its_end(&demo);
    directory::a_configuration_that_sssd_refuses_is_taken_back(&demo);
    managed_run_refuses(&demo);

    demo.interrupt();
    assert!(demo.ended().expect("an end").success());
    let left = Program::Ip.command().args(["-o", "link"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&left.stdout).contains("lucia0"));
    let dir = demo.dir.display().to_string();
    let runs = |entry: fs::DirEntry| fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe.starts_with(&dir));
    assert_eq!(fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| runs(entry).then_some(())).count(), 0);
}

// spec: DE-1, DE-2, DE-3, DE-14
#[track_caller]
fn it_says_what_happened(demo: &Demo) {
    let said = demo.said.join("\n");
    let last = demo.said.last().unwrap();
    let has = |is_it: &dyn Fn(&str) -> bool| last.split(' ').any(is_it);
    assert!(has(&|word| word.parse::<NodeId>().is_ok()) && has(&|word| word.parse::<UnixTime>().is_ok()), "{last}");
    assert!(has(&|word| word == "demo-1") && last.contains("Managed") && has(&|word| word == "3"), "{last}");
    let boots: Vec<&str> = said.split("boot id ").skip(1).map(|rest| rest.lines().next().unwrap()).collect();
    assert!(matches!(boots[..], [installer, managed] if installer != managed), "{boots:?}");
    let shown = |end: &str| said.lines().find_map(|line| line.trim().strip_prefix(end)).unwrap();
    // The first of its two rows.
    assert!(shown("console     ").len() == 39 && shown("console     ") == shown("controller  "), "{said}");
    assert!(shown("| Fingerprint:").contains(shown("controller  ")), "{said}");
    assert!(!said.contains('\x1b'), "{said}");
    for line in
        ["lucia-enrollment-worker owner approve ", "luciactl keys add alice client/id_ed25519.pub --label demo --all"]
    {
        assert!(said.contains(line), "{line}: {said}");
    }
}

// spec: DE-4, SD-91, SD-92
#[track_caller]
fn the_commands_it_offers_work(demo: &Demo) {
    for (name, arguments, want) in [
        ("luciactl", &["nodes"][..], "demo-1"),
        ("luciactl", &["node", "demo-1"], "demo-1"),
        ("luciactl", &["events"], "demo-1"),
        ("luciactl", &["status"], ""),
        ("alice", &["drafts"], "ssh-key"),
        ("alice", &["why", "demo-1"], ""),
        ("alice", &["sign", "--list"], ""),
        ("demo-2-screen", &[], "Fingerprint:"),
        ("worker", &["status"], ""),
        ("ssh", &["localadmin", "id"], "localadmin"),
        ("node", &["systemctl", "status", "lucia-node-agent"], "active (running)"),
    ] {
        let output = demo.command(name, arguments);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(want), "{name} {arguments:?}: {output:?}");
    }
    // The operator's luciactl has no owner's key: it leads to the one that has.
    let refused = demo.command("luciactl", &["sign", "--list"]);
    let alice = format!("{}/alice sign --list)\n", demo.dir.display());
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).ends_with(&alice), "{refused:?}");
    // The second machine's own screen goes on behind what `discover` showed; its code is what the page calls it by.
    let screen = String::from_utf8(demo.command("demo-2-screen", &[]).stdout).unwrap();
    let is_code = |word: &&str| word.parse::<VerificationCode>().is_ok();
    let code = screen.split_whitespace().rev().find(is_code).unwrap_or_else(|| panic!("{screen}"));
    assert!(
        demo.offered.lines().any(|line| line.contains("demo-2") && line.contains(code)),
        "{code}: {}",
        demo.offered
    );
}

/// What a person is told of the page is true: the port, the root, the key of the certificate, the commands.
// spec: DE-42
#[track_caller]
fn the_page_is_there_for_a_browser_of_this_machine(demo: &Demo) {
    let offered = &demo.offered;
    let after = |head: &str| offered.split(head).nth(1).unwrap_or_else(|| panic!("{head}: {offered}"));
    let port: u16 = after("https://localhost:").split('/').next().unwrap().parse().unwrap();
    let root = demo.dir.join("etc/root.pem");
    assert!(after("import ").starts_with(&root.display().to_string()), "{offered}");
    for command in ["alice passkey approve CODE", "alice sign CODE", "demo-2-screen"] {
        assert!(offered.contains(&format!("{}/{command}\n", demo.dir.display())), "{command}: {offered}");
    }
    // Another client than a browser: the certificate is of the root for that name, and its key the one that is told.
    let openssl = |arguments: &[&str], input: &[u8]| {
        let mut command = Program::Openssl.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap().stdout
    };
    let (at, ca) = (format!("127.0.0.1:{port}"), root.display().to_string());
    let verify = ["-CAfile", &ca, "-verify_return_error", "-verify_hostname", "localhost", "-servername", "localhost"];
    let request = b"GET /sign-in HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let said = openssl(&[&["s_client", "-connect", &at, "-ign_eof"], &verify[..]].concat(), request);
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("code: 0 (ok)") && said.contains("data-rp=\"localhost\""), "{said}");
    let key = openssl(&["x509", "-noout", "-pubkey"], said.as_bytes());
    let key = openssl(&["pkey", "-pubin", "-outform", "der"], &key);
    let digest = openssl(&["dgst", "-sha256", "-binary"], &key);
    let told = after("--ignore-certificate-errors-spki-list=").split(' ').next().unwrap();
    assert_eq!(told, String::from_utf8(openssl(&["base64", "-A"], &digest)).unwrap());
    // On loopback alone.
    let listening = fs::read_to_string("/proc/net/tcp").unwrap();
    let local = |line: &str| line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let at_port = listening.lines().map(local).filter(|local| local.ends_with(&format!(":{port:04X}")));
    assert!(at_port.collect::<Vec<_>>().iter().all(|local| local.starts_with("0100007F:")), "{listening}");
}

// spec: MR-6
#[track_caller]
fn the_agent_is_the_real_one_in_its_unit(demo: &Demo) {
    assert_eq!(demo.on(&["systemctl", "is-system-running"]), "running", "{}", demo.on(&["systemctl", "--failed"]));
    let unit = fs::read_to_string(workspace().join("systemd/lucia-node-agent.service")).unwrap();
    assert_eq!(demo.on(&["cat", &demo.show("FragmentPath")]), unit.trim());
    assert_eq!(demo.show("NRestarts"), "0");
    let process = format!("/proc/{}", demo.show("MainPID"));
    assert_eq!(demo.on(&["readlink", &format!("{process}/exe")]), "/usr/lib/lucia/agent/lucia-node-agent");
    let sum = |said: String| said.split(' ').next().unwrap().to_owned();
    let here = Program::Built("sha256sum".into()).command().arg(built("lucia-node-agent")).output().unwrap();
    let there = demo.on(&["sha256sum", "/usr/lib/lucia/agent/lucia-node-agent"]);
    assert_eq!(sum(there), sum(String::from_utf8(here.stdout).unwrap()));
    let status = demo.on(&["cat", &format!("{process}/status")]);
    for line in ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{line}: {status}");
    }
}

// spec: AG-10
#[track_caller]
fn it_tells_how_it_is(demo: &Demo) {
    let why = demo.command("node", &["lucia-node-agent", "why"]);
    assert_eq!(why.status.code(), Some(0), "{why:?}");
    let status = demo.on(&["lucia-node-agent", "status"]);
    for word in ["demo-1", "10.73.0.1", "8443"] {
        assert!(status.contains(word), "{word}: {status}");
    }
    assert!(!status.contains("refused"), "{status}");
}

const INSTALLED: &str = "/var/lib/lucia/agent/installed.json";
const CERTIFICATE: &str = "/var/lib/lucia/agent/certificate.pem";

/// The four conditions of design.md N4 and the exit code of each, then the node goes on as if nothing had been.
// spec: MR-7
#[track_caller]
fn managed_run_refuses(demo: &Demo) {
    let run = |arguments: &[&str]| {
        let output = demo.command("node", arguments);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run(&["sh", "-c", "cp -L /usr/bin/lucia-node-agent /root/copy && exec /root/copy managed-run"]);
    assert!(code == Some(10) && said.contains("/usr/lib/lucia/agent/lucia-node-agent"), "{code:?} {said}");
    // By hand, without what the unit binds; then from another root that has the program at the same path.
    let (code, said) = run(&["/usr/lib/lucia/agent/lucia-node-agent", "managed-run"]);
    assert_eq!(code, Some(11), "{said}");
    let other = "mkdir -p /tmp/other && cp -a /usr /etc /tmp/other/ && cd /tmp/other && ln -s usr/lib lib && \
                 ln -s usr/lib64 lib64 && exec systemd-run -q --collect --wait --pipe -p RootDirectory=/tmp/other -p MountAPIVFS=yes \
                 -p BindReadOnlyPaths=/usr/lib/lucia:/run/lucia/boot /usr/lib/lucia/agent/lucia-node-agent managed-run";
    let (code, said) = run(&["sh", "-c", other]);
    assert_eq!(code, Some(11), "{said}");

    let refused_by_unit = |wrong: &str, code: &str| {
        let started = run(&["sh", "-c", &format!("{wrong} && systemctl restart lucia-node-agent")]);
        assert_eq!(started.0 == Some(0), code == "12", "{wrong}");
        let log = demo.on(&["journalctl", "-u", "lucia-node-agent", "-n", "5", "-o", "cat", "--no-pager"]);
        assert_eq!(demo.show("ExecMainStatus"), code, "{log}");
        let state = if code == "12" { "inactive" } else { "failed" };
        assert_eq!((demo.show("NRestarts").as_str(), demo.show("ActiveState").as_str()), ("0", state));
        let why = demo.command("node", &["lucia-node-agent", "why"]);
        let said = String::from_utf8(why.stdout).unwrap();
        assert!(why.status.code() == Some(1) && said.contains(code), "{said}");
    };
    let swap = format!(
        "cp -a {INSTALLED} /root/kept && sed -i \"s/\\\"installBootId\\\":\\\"[0-9a-f-]*/\\\"installBootId\\\":\\\"$(cat /proc/sys/kernel/random/boot_id)/\" {INSTALLED}"
    );
    refused_by_unit(&swap, "12");
    // Before its first certificate; afterwards another name is a rename, which is asked for while the node goes on.
    refused_by_unit(
        &format!("cp -a /root/kept {INSTALLED} && mv {CERTIFICATE} /root/ && echo web-9 >/etc/hostname"),
        "13",
    );

    let cure = format!("mv /root/certificate.pem {CERTIFICATE} && echo demo-1 >/etc/hostname");
    let (code, said) = run(&["sh", "-c", &format!("{cure} && systemctl restart lucia-node-agent")]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(demo.on(&["systemctl", "is-system-running"]), "running");
}

// spec: DE-5
#[test]
fn what_is_missing_is_told_with_its_cure_and_nothing_is_touched() {
    if site_skipped("what_is_missing_is_told_with_its_cure_and_nothing_is_touched") {
        return;
    }
    let scratch = Scratch::new("demo-missing");
    let helper = Program::Built(env!("CARGO_BIN_EXE_lucia-qualification").into());
    let refused = |dir: &str, bin: &Path| {
        let output = helper.command().args(["demo", "--once", "--dir", dir, "--bin"]).arg(bin).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let foreign = scratch.0.join("foreign");
    fs::create_dir_all(&foreign).unwrap();
    fs::write(foreign.join("mine"), "kept").unwrap();
    let said = refused(&foreign.to_string_lossy(), &scratch.0);
    assert!(said.contains("lucia-controller") && said.contains("cargo build --workspace --bins"), "{said}");
    let bin = built("lucia-controller");
    let said = refused(&foreign.to_string_lossy(), bin.parent().unwrap());
    assert!(said.contains(&foreign.display().to_string()) && said.contains("--dir"), "{said}");
    assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(foreign.join("mine")).unwrap(), "kept");
}
