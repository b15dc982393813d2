//! `why` and `status` by the real binary, on a machine of this test's own: its `/run` and `/var/lib` are laid in a mount
//! namespace, and a lock on the lease stands for a daemon that runs.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test of the program has to start it")]

use std::path::Path;
use std::process::{Command, Output};

const AGENT: &str = env!("CARGO_BIN_EXE_lucia-node-agent");
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// `$1` hot status, `$2` whether the daemon's lock is held; what follows is the verb.
const MACHINE: &str = r#"
set -eu
mount -t tmpfs none /run && mount -t tmpfs none /var/lib
hot="$1"; held="$2"; shift 2
if [ -n "$hot" ]; then
  mkdir -p -m 0755 /run/lucia /var/lib/lucia && mkdir -m 0700 /run/lucia/agent /var/lib/lucia/agent
  umask 077
  printf %s "$hot" >/run/lucia/agent/status.json
  printf 'Lucia.Agent.v1\npid %s lucia-node-agent managed-run\n' $$ >/var/lib/lucia/agent/.lease
fi
if [ "$held" = yes ]; then exec flock -n /var/lib/lucia/agent/.lease "$0" "$@"; fi
exec "$0" "$@"
"#;

/// Whether this machine lets a test have namespaces of its own; a note counts as skipped where it does not.
fn is_possible() -> bool {
    let works = Command::new("unshare").args(["-U", "-r", "-m", "true"]).status().is_ok_and(|status| status.success());
    if !works {
        let notes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/test-skips");
        std::fs::create_dir_all(&notes).unwrap();
        let text = "agent-why: it makes a user namespace. Cure: allow them, or run the tests as root\n";
        std::fs::write(notes.join("agent-why"), text).unwrap();
    }
    works
}

fn on_machine(hot: &str, daemon_runs: bool, verb: &[&str]) -> Output {
    let held = if daemon_runs { "yes" } else { "no" };
    let unshare = ["-U", "-r", "-m", "sh", "-c", MACHINE, AGENT, hot, held];
    Command::new("unshare").args(unshare).args(verb).output().unwrap()
}

fn since_boot() -> u64 {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    uptime.split('.').next().unwrap().parse().unwrap()
}

/// A daemon that has had heartbeats, the last of them `age` seconds ago.
fn heartbeating(boot: &str, age: u64) -> String {
    let now = since_boot();
    let (began, last) = (now.saturating_sub(age + 100), now.saturating_sub(age));
    format!(
        r#"{{"doing":"heartbeating","heartbeats":3,"run":{{"bootId":"{boot}","began":{began},"heartbeat":{last}}}}}"#
    )
}

fn cause(output: &Output) -> String {
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let healthy = json.pointer("/health/healthy").unwrap().as_bool().unwrap();
    assert_eq!(output.status.code(), Some(if healthy { 0 } else { 1 }), "{json}");
    json.pointer("/health/cause").unwrap().as_str().unwrap().to_owned()
}

// spec: AG-280
#[test]
fn why_and_status_know_whether_the_daemon_runs_and_how_old_its_last_heartbeat_is() {
    if !is_possible() {
        return;
    }
    let boot = std::fs::read_to_string(BOOT_ID).unwrap().trim().to_owned();
    let other = "00000000-0000-4000-8000-000000000000";
    let rows = [
        ("never started", String::new(), false, "never-started"),
        ("healthy", heartbeating(&boot, 5), true, "healthy"),
        ("killed", heartbeating(&boot, 5), false, "not-running"),
        ("its last heartbeat is old", heartbeating(&boot, 600), true, "silent"),
        ("from before the boot", heartbeating(other, 5), false, "not-running"),
        ("of an older agent, stopped", r#"{"doing":"heartbeating","heartbeats":3}"#.to_owned(), false, "not-running"),
        ("waiting, stopped", r#"{"doing":"awaiting-certificate"}"#.to_owned(), false, "not-running"),
        ("waiting", r#"{"doing":"awaiting-certificate"}"#.to_owned(), true, "waiting"),
        ("in the installer", r#"{"doing":"awaiting-approval"}"#.to_owned(), false, "onboarding"),
    ];
    for (what, hot, runs, want) in rows {
        let why = on_machine(&hot, runs, &["why"]);
        let code = if want == "healthy" { 0 } else { 1 };
        assert_eq!(why.status.code(), Some(code), "{what}: {why:?}");
        assert_eq!(String::from_utf8(why.stdout).unwrap().lines().count(), 1, "{what}: one sentence");
        assert_eq!(on_machine(&hot, runs, &["status"]).status.code(), Some(code), "{what}");
        for verb in ["why", "status"] {
            assert_eq!(cause(&on_machine(&hot, runs, &[verb, "--json"])), want, "{what}");
        }
    }
}
