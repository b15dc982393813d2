//! The process that keeps one node: it makes what the node stands on, starts its init, and removes everything again.
//!
//! It lives as long as its standard input is open, so a node never outlives whoever asked for it. All mounts are in a
//! mount namespace of its own and the network has no name, so only cgroup directories need removing by hand.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{Mode, SFlag, makedev, mknod, umask};
use nix::unistd::{Pid, chdir, pivot_root, sethostname, setsid};
use serde::{Deserialize, Serialize};

use crate::cgroup::{self, Hierarchy, Kind, Subtree};
use crate::network::{self, Plug};
use crate::program::{PATH, Program};
use crate::wait::wait_for;

/// What a keeper is told, as JSON in its one argument.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Host name of the node.
    pub name: String,
    /// The extracted Debian, never written to.
    pub lower: PathBuf,
    /// The node's own file system over it.
    pub own: Layers,
    /// The file system of the node that this one installs, at `/target`.
    pub target: Option<Layers>,
    /// A file with this boot's id.
    pub boot_id: PathBuf,
    /// Files and directories of the host, and where the node sees them.
    pub binds: Vec<(PathBuf, PathBuf)>,
    /// The network, or none but loopback.
    pub plug: Option<Plug>,
    /// Name of the node's cgroup directory in each hierarchy.
    pub cgroup: String,
    /// By systemd-nspawn, since the host itself runs systemd.
    pub nspawn: bool,
}

/// A file system over the extracted Debian.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Layers {
    /// What was written; stays between boots.
    pub upper: PathBuf,
    /// Overlay's work directory, on the file system of `upper`.
    pub work: PathBuf,
    /// Where the overlay is mounted, in the keeper's mount namespace only.
    pub root: PathBuf,
}

/// The socket by which a node's init answers root; there as soon as units can be asked for.
const READY: &str = "run/systemd/private";

/// Capabilities over the host's own kernel, clock and devices, which nothing in a node gets.
pub const WITHHELD: &str =
    "-sys_module,-sys_rawio,-sys_time,-sys_pacct,-syslog,-wake_alarm,-block_suspend,-mac_admin,-mac_override";

/// Keeps a node until its init ends or standard input does. Prints `leader PID` when the init answers.
pub fn keep(plan: &Plan) -> io::Result<()> {
    let hierarchies = if plan.nspawn { Vec::new() } else { cgroup::of_host()? };
    let subtree = Subtree::make(&hierarchies, &plan.cgroup)?;
    let kept = keep_in(plan);
    let unmounted = umount2(&plan.own.root, MntFlags::MNT_DETACH); // fails if it was never mounted
    drop(subtree);
    kept.and_then(|()| Ok(unmounted?))
}

fn keep_in(plan: &Plan) -> io::Result<()> {
    let leash = Leash::hold();
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET)?;
    mount(none(), "/", none(), MsFlags::MS_REC | MsFlags::MS_PRIVATE, none())?;
    network::loopback()?;
    if let Some(plug) = &plan.plug {
        network::plug_in(plug)?;
    }
    lay_root(plan).map_err(|err| io::Error::other(format!("the node's file system: {err}")))?;
    let mut init = if plan.nspawn { start_nspawn(plan)? } else { start_init(plan)? };
    leash.tie(init.id());
    let leader = wait_for(Duration::from_secs(30), || match init.try_wait() {
        Ok(None) => {
            leader_of(plan, &init).filter(|pid| Path::new(&format!("/proc/{pid}/root/{READY}")).exists()).map(Some)
        }
        _ => Some(None),
    });
    match leader.flatten() {
        Some(leader) => {
            leash.tie(leader); // killing systemd-nspawn alone would leave its node running
            println!("leader {leader}");
        }
        None => {
            let _ = init.kill();
            return Err(io::Error::other(format!("init did not come up ({})", init.wait()?)));
        }
    }
    init.wait().map(drop)
}

/// Kills the init once nobody holds our standard input open any more.
///
/// Its thread starts before the pid namespace is made: afterwards this process may start processes, but no threads.
struct Leash(Arc<AtomicI32>);

impl Leash {
    fn hold() -> Self {
        let init = Arc::new(AtomicI32::new(0));
        let tied = Arc::clone(&init);
        std::thread::spawn(move || {
            let _ = io::stdin().read_to_end(&mut Vec::new());
            wait_for(Duration::from_secs(30), || (tied.load(Ordering::Acquire) > 0).then_some(()));
            let pid = tied.load(Ordering::Acquire);
            if pid > 0 {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        });
        Self(init)
    }

    fn tie(&self, init: u32) {
        self.0.store(i32::try_from(init).unwrap_or(0), Ordering::Release);
    }
}

/// The process whose namespaces are the node's: init itself, or the child of systemd-nspawn.
fn leader_of(plan: &Plan, init: &Child) -> Option<u32> {
    let pid = init.id();
    if !plan.nspawn {
        return Some(pid);
    }
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(|pid| is_init(*pid))
}

/// Whether a process is number 1 of a pid namespace. systemd-nspawn has another child before, which still sees the host.
fn is_init(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("NSpid:") && line.ends_with("\t1"))
}

/// Mounts the overlays and gives the node its names.
fn lay_root(plan: &Plan) -> io::Result<()> {
    for layers in std::iter::once(&plan.own).chain(&plan.target) {
        let [lower, upper, work] = [&plan.lower, &layers.upper, &layers.work].map(|path| path.display());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        mount(Some("overlay"), &layers.root, Some("overlay"), MsFlags::empty(), Some(options.as_str()))?;
    }
    let machine_id = plan.own.root.join("etc/machine-id");
    if fs::read_to_string(&machine_id).map_or(true, |id| id.trim().len() != 32) {
        // As an installer does. Left empty, every boot of a fresh node would be a "first boot" with all presets applied.
        fs::write(machine_id, fs::read_to_string("/proc/sys/kernel/random/uuid")?.replace('-', ""))?;
    }
    fs::write(plan.own.root.join("etc/hostname"), format!("{}\n", plan.name))?;
    Ok(())
}

fn start_nspawn(plan: &Plan) -> io::Result<Child> {
    Program::Nspawn
        .command()
        .args(["--quiet", "--boot", "--register=no", "--console=pipe", "--resolv-conf=off", "--timezone=off"])
        .args(["--link-journal=no", "--network-namespace-path=/proc/self/ns/net"])
        .arg(format!("--machine={}", plan.name))
        .arg(format!("--directory={}", plan.own.root.display()))
        .args(lent(plan).map(|(host, inside)| format!("--bind={}:{}", host.display(), inside.display())))
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .spawn()
}

/// Starts ourselves again as process 1 of a new pid namespace; it becomes the node's init.
fn start_init(plan: &Plan) -> io::Result<Child> {
    unshare(CloneFlags::CLONE_NEWPID)?;
    Program::Built("/proc/self/exe".into())
        .command()
        .arg("node-init")
        .arg(serde_json::to_string(plan)?)
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .spawn()
}

/// Process 1 of the node, from the keeper's view of the files to Debian's own init. Returns only on failure.
pub fn become_init(plan: &Plan) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    setsid()?;
    umask(Mode::empty());
    let hierarchies = cgroup::of_host()?;
    cgroup::join(&hierarchies, &plan.cgroup)?;
    unshare(
        CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWCGROUP | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC,
    )?;
    mount(none(), "/", none(), MsFlags::MS_REC | MsFlags::MS_PRIVATE, none())?;
    chdir(&plan.own.root)?;
    mount_kernel_files(plan).map_err(|err| io::Error::other(format!("/proc and /sys: {err}")))?;
    mount_cgroups(&hierarchies).map_err(|err| io::Error::other(format!("/sys/fs/cgroup: {err}")))?;
    mount_devices().map_err(|err| io::Error::other(format!("/dev: {err}")))?;
    mount_new("tmpfs", "run", MsFlags::MS_NOSUID | MsFlags::MS_NODEV, "mode=755")?;
    mount_new("tmpfs", "tmp", MsFlags::MS_NOSUID | MsFlags::MS_NODEV, "mode=1777")?;
    lend(plan).map_err(|err| io::Error::other(format!("what the host lends: {err}")))?;
    fs::create_dir_all("run/lucia-old")?;
    pivot_root(".", "run/lucia-old")?;
    chdir("/")?;
    umount2("/run/lucia-old", MntFlags::MNT_DETACH)?;
    fs::remove_dir("/run/lucia-old")?;
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
    sethostname(&plan.name)?;
    let mut init = Program::Setpriv.command();
    init.arg(format!("--bounding-set={WITHHELD}")).arg("/sbin/init");
    Err(init.env_clear().env("PATH", PATH).env("container", "lucia").exec())
}

/// What the host lends, and the file system to be installed.
fn lent(plan: &Plan) -> impl Iterator<Item = (&Path, &Path)> {
    let target = plan.target.iter().map(|target| (target.root.as_path(), Path::new("/target")));
    plan.binds.iter().map(|(host, inside)| (host.as_path(), inside.as_path())).chain(target)
}

/// Binds what the host lends, after /run and /tmp are there: a bind may lie below them.
fn lend(plan: &Plan) -> io::Result<()> {
    for (host, inside) in lent(plan) {
        let target = plan.own.root.join(inside.strip_prefix("/").unwrap_or(inside));
        if host.is_dir() {
            fs::create_dir_all(&target)?;
        } else {
            target.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::OpenOptions::new().create(true).append(true).open(&target)?;
        }
        bind(host, &target)?;
    }
    Ok(())
}

fn mount_kernel_files(plan: &Plan) -> io::Result<()> {
    let guarded = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount_new("proc", "proc", guarded, "")?;
    // The kernel's settings and triggers are the host's, only those of the network are the node's own.
    bind(Path::new("proc/sys/net"), Path::new("proc/sys/net"))?;
    for path in ["proc/sys", "proc/sysrq-trigger"] {
        if Path::new(path).exists() {
            bind(Path::new(path), Path::new(path))?;
            read_only(path, guarded)?;
        }
    }
    bind(&plan.boot_id, Path::new("proc/sys/kernel/random/boot_id"))?;
    mount_new("sysfs", "sys", guarded | MsFlags::MS_RDONLY, "")
}

fn mount_cgroups(hierarchies: &[Hierarchy]) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let base = Path::new("sys/fs/cgroup");
    if !hierarchies.iter().any(|h| h.kind == Kind::Unified) {
        mount_new("tmpfs", "sys/fs/cgroup", flags, "mode=755")?;
    }
    for hierarchy in hierarchies {
        let point = base.join(&hierarchy.label);
        match &hierarchy.kind {
            Kind::Unified => mount(Some("cgroup2"), base, Some("cgroup2"), flags, none())?,
            Kind::Hybrid => {
                fs::create_dir(&point)?;
                mount(Some("cgroup2"), &point, Some("cgroup2"), flags, none())?;
            }
            Kind::V1 { options } => {
                fs::create_dir(&point)?;
                mount(Some("cgroup"), &point, Some("cgroup"), flags, Some(options.as_str()))?;
            }
        }
    }
    Ok(())
}

fn mount_devices() -> io::Result<()> {
    mount_new("tmpfs", "dev", MsFlags::MS_NOSUID, "mode=755")?;
    let everyone = Mode::from_bits_truncate(0o666);
    for (name, major, minor) in
        [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)]
    {
        mknod(&Path::new("dev").join(name), SFlag::S_IFCHR, everyone, makedev(major, minor))?;
    }
    fs::create_dir("dev/pts")?;
    fs::create_dir("dev/shm")?;
    mount_new(
        "devpts",
        "dev/pts",
        MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC,
        "newinstance,ptmxmode=0666,mode=620,gid=5",
    )?;
    mount_new("tmpfs", "dev/shm", MsFlags::MS_NOSUID | MsFlags::MS_NODEV, "mode=1777")?;
    std::os::unix::fs::symlink("pts/ptmx", "dev/ptmx")?;
    std::os::unix::fs::symlink("/proc/self/fd", "dev/fd")
}

fn none() -> Option<&'static str> {
    None
}

fn mount_new(kind: &str, target: &str, flags: MsFlags, options: &str) -> io::Result<()> {
    Ok(mount(Some(kind), target, Some(kind), flags, Some(options))?)
}

fn bind(from: &Path, to: &Path) -> io::Result<()> {
    Ok(mount(Some(from), to, none(), MsFlags::MS_BIND | MsFlags::MS_REC, none())?)
}

fn read_only(target: &str, flags: MsFlags) -> io::Result<()> {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | flags;
    Ok(mount(none(), target, none(), flags, none())?)
}
