//! Whether this machine can run container nodes, and what cures it if not.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::cgroup;
use crate::program::{PATH, Program};
use crate::skip::workspace;

/// What a machine lacks for container nodes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no container nodes here: {what}. Cure: {cure}")]
pub struct Missing {
    /// What is missing.
    pub what: String,
    /// What a person can do about it.
    pub cure: String,
}

fn missing<T>(what: impl Into<String>, cure: &str) -> Result<T, Missing> {
    Err(Missing { what: what.into(), cure: cure.to_owned() })
}

const ELSEWHERE: &str =
    "use a virtual machine, or a container that may make namespaces and mounts (docker run --privileged)";

/// Debian's directory server.
pub const SLAPD: &str = "/usr/sbin/slapd";

/// The file system `make setup` made for nodes.
pub fn node_root() -> PathBuf {
    workspace().join("target/node-root")
}

/// Whether the host itself runs systemd; then nodes are started by systemd-nspawn.
pub fn host_runs_systemd() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Tells what is missing for a node with the file system of `make setup`. Starts nothing and leaves nothing behind.
pub fn possible() -> Result<(), Missing> {
    if !nix::unistd::geteuid().is_root() {
        return missing("it takes root", "run the same command with sudo");
    }
    let mut programs = vec![Program::Ip, Program::Nsenter, Program::Setpriv];
    if host_runs_systemd() {
        programs.push(Program::Nspawn);
    }
    for program in programs {
        if !is_installed(program.path()) {
            return missing(format!("{} is not installed", program.path().display()), "make setup");
        }
    }
    if !node_root().join("sbin/init").exists() {
        return missing("the node file system (target/node-root) was not made", "make setup");
    }
    if !host_runs_systemd() {
        cgroups()?;
    }
    // In a thread of its own: what it unshares ends with it.
    std::thread::spawn(namespaces).join().unwrap_or_else(|_| missing("the namespace probe ended early", ELSEWHERE))
}

/// As [`possible`], and what the demo's site takes beside its node: a directory server and an SSH client.
pub fn site_possible() -> Result<(), Missing> {
    for (program, package) in [(SLAPD, "slapd"), ("ssh", "openssh-client"), ("ssh-keygen", "openssh-client")] {
        if !is_installed(program) {
            return missing(format!("{package} is not installed"), "make setup");
        }
    }
    possible()
}

/// By its path, or anywhere programs are looked for.
pub(crate) fn is_installed(program: impl AsRef<Path>) -> bool {
    PATH.split(':').any(|directory| Path::new(directory).join(&program).exists())
}

fn cgroups() -> Result<(), Missing> {
    let hierarchies = match cgroup::of_host() {
        Ok(found) => found,
        Err(err) => return missing(format!("the cgroups of this process cannot be read ({err})"), ELSEWHERE),
    };
    let for_systemd = |h: &cgroup::Hierarchy| match &h.kind {
        cgroup::Kind::V1 { options } => options.contains("name=systemd"),
        cgroup::Kind::Unified => true,
        cgroup::Kind::Hybrid => false,
    };
    if !hierarchies.iter().any(for_systemd) {
        return missing("no cgroup hierarchy that systemd can use is mounted", ELSEWHERE);
    }
    for hierarchy in &hierarchies {
        if nix::unistd::access(&hierarchy.home, nix::unistd::AccessFlags::W_OK).is_err() {
            return missing(format!("{} is not writable", hierarchy.home.display()), ELSEWHERE);
        }
    }
    Ok(())
}

fn namespaces() -> Result<(), Missing> {
    let all = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWCGROUP
        | CloneFlags::CLONE_NEWPID;
    if let Err(err) = unshare(all) {
        return missing(format!("this machine allows no namespaces of one's own ({})", err.desc()), ELSEWHERE);
    }
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    if let Err(err) = mount(None::<&str>, "/", None::<&str>, private, None::<&str>) {
        return missing(format!("this machine allows no mounts ({})", err.desc()), ELSEWHERE);
    }
    overlay()
}

/// Mounts an overlay whose upper layer lies beside the node file system, as a node's does.
fn overlay() -> Result<(), Missing> {
    // Several tests of one process may look at the same time.
    static LOOKS: AtomicU32 = AtomicU32::new(0);
    let look = LOOKS.fetch_add(1, Ordering::Relaxed);
    let base = workspace().join(format!("target/node-probe-{}-{look}", std::process::id()));
    let [upper, work, root] = ["upper", "work", "root"].map(|name| base.join(name));
    let made = [&upper, &work, &root].into_iter().try_for_each(std::fs::create_dir_all);
    let lower = node_root();
    let options = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    let mounted = mount(Some("overlay"), &root, Some("overlay"), MsFlags::empty(), Some(options.as_str()))
        .and_then(|()| nix::mount::umount(&root));
    let removed = std::fs::remove_dir_all(&base);
    match (made.and(removed), mounted) {
        (Err(err), _) => missing(format!("target/ cannot be written ({err})"), "make target/ writable for root"),
        (_, Err(err)) => missing(
            format!("overlayfs does not work on target/ ({})", err.desc()),
            "put the checkout on a plain file system such as ext4 or xfs",
        ),
        _ => Ok(()),
    }
}
