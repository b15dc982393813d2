//! A cgroup subtree of our own in every hierarchy the host has: v1, hybrid, or cgroup2 alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::wait::wait_for;

/// One mounted hierarchy and our directory in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hierarchy {
    /// Where the host has it, below which this process may make directories.
    pub home: PathBuf,
    /// Last part of its mount point, as `memory` or `cpu,cpuacct`; for cgroup2 alone it is `cgroup`.
    pub label: String,
    /// Which kind, and what to mount inside the node.
    pub kind: Kind,
}

/// The kind of a hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// cgroup v1 with the options that select it: `memory`, or `none,name=systemd`.
    V1 {
        /// Mount options.
        options: String,
    },
    /// cgroup2 beside v1 hierarchies.
    Hybrid,
    /// cgroup2 alone at the mount point.
    Unified,
}

/// The hierarchies of a host, from `/proc/self/mountinfo` and `/proc/self/cgroup`.
pub fn hierarchies(mountinfo: &str, own: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mountinfo.lines() {
        let Some(hierarchy) = hierarchy(line, own) else { continue };
        if found.iter().all(|known| known.kind != hierarchy.kind) {
            found.push(hierarchy);
        }
    }
    let has_v1 = found.iter().any(|h| matches!(h.kind, Kind::V1 { .. }));
    for hierarchy in &mut found {
        if !has_v1 && hierarchy.kind == Kind::Hybrid {
            hierarchy.kind = Kind::Unified;
        }
    }
    found
}

fn hierarchy(line: &str, own: &str) -> Option<Hierarchy> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, point) = (left.next()?, PathBuf::from(left.next()?));
    let mut right = right.split(' ');
    let (fstype, options) = (right.next()?, right.nth(1)?);
    let label = point.file_name()?.to_str()?.to_owned();
    let (kind, path) = match fstype {
        "cgroup2" => (Kind::Hybrid, own_path(own, "")?),
        "cgroup" => {
            let selected: Vec<&str> = options.split(',').filter(|option| selects(option)).collect();
            let named = selected.iter().any(|option| option.starts_with("name="));
            let path = own_path(own, selected.first()?)?;
            let selected = selected.join(",");
            (Kind::V1 { options: if named { format!("none,{selected}") } else { selected } }, path)
        }
        _ => return None,
    };
    let below = Path::new(path).strip_prefix(root).unwrap_or_else(|_| Path::new(""));
    Some(Hierarchy { home: point.join(below), label, kind })
}

/// Mount options that are no controller and no name.
fn selects(option: &str) -> bool {
    !matches!(option, "rw" | "ro" | "xattr" | "noprefix" | "clone_children") && !option.starts_with("release_agent=")
}

/// This process' path in the hierarchy that has `controller` (empty: cgroup2), from `/proc/self/cgroup`.
fn own_path<'a>(own: &'a str, controller: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        controllers.split(',').any(|c| c == controller).then_some(path)
    })
}

/// The hierarchies of this host, as this process sees them.
pub fn of_host() -> io::Result<Vec<Hierarchy>> {
    Ok(hierarchies(&fs::read_to_string("/proc/self/mountinfo")?, &fs::read_to_string("/proc/self/cgroup")?))
}

/// A subtree with one name in each hierarchy, made by us and removed when this is dropped.
#[derive(Debug)]
pub struct Subtree {
    directories: Vec<PathBuf>,
}

impl Subtree {
    /// Makes the directories. What was made is removed again if a later one fails.
    pub fn make(hierarchies: &[Hierarchy], name: &str) -> io::Result<Self> {
        let mut tree = Self { directories: Vec::new() };
        for hierarchy in hierarchies {
            sweep(&hierarchy.home);
            let directory = hierarchy.home.join(name);
            if let Err(err) = make_one(hierarchy, &directory) {
                tree.directories.push(directory);
                return Err(err);
            }
            tree.directories.push(directory);
        }
        Ok(tree)
    }
}

impl Drop for Subtree {
    /// Removes every directory of the subtree, deepest first. Processes that are still dying are waited for.
    fn drop(&mut self) {
        for directory in &self.directories {
            wait_for(Duration::from_secs(5), || (remove_tree(directory).is_ok() || !directory.exists()).then_some(()));
        }
    }
}

/// Name of a subtree that belongs to the process `owner` and no other: `lucia-<node>-<owner>-<number>`.
pub fn name_for(node: &str, owner: u32, number: u32) -> String {
    format!("lucia-{node}-{owner}-{number}")
}

/// Removes subtrees whose owner no longer lives: of a keeper that was killed and could not clear up.
fn sweep(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if owner(&name.to_string_lossy()).is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            let _ = remove_tree(&entry.path()); // refused by the kernel while a process is inside
        }
    }
}

/// The process a subtree's name says it belongs to.
fn owner(name: &str) -> Option<u32> {
    let (node_and_owner, _number) = name.strip_prefix("lucia-")?.rsplit_once('-')?;
    node_and_owner.rsplit_once('-')?.1.parse().ok()
}

fn make_one(hierarchy: &Hierarchy, directory: &Path) -> io::Result<()> {
    if hierarchy.kind == Kind::Unified {
        // Which controllers may be handed on depends on who else is in the cgroup; limits are then simply not enforced.
        let _ = fs::read_to_string(hierarchy.home.join("cgroup.controllers")).and_then(|controllers| {
            let wanted: Vec<String> = controllers.split_whitespace().map(|c| format!("+{c}")).collect();
            fs::write(hierarchy.home.join("cgroup.subtree_control"), wanted.join(" "))
        });
    }
    fs::create_dir(directory)?;
    // A new v1 cpuset is empty, and nothing can join an empty one.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if matches!(hierarchy.kind, Kind::V1 { .. }) && directory.join(file).exists() {
            fs::write(directory.join(file), fs::read(hierarchy.home.join(file))?)?;
        }
    }
    Ok(())
}

fn remove_tree(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(directory)
}

/// Moves this process into the subtree `name`.
pub fn join(hierarchies: &[Hierarchy], name: &str) -> io::Result<()> {
    hierarchies.iter().try_for_each(|h| fs::write(h.home.join(name).join("cgroup.procs"), "0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "24 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        25 24 0:23 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
        26 24 0:24 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd\n\
        27 24 0:25 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    fn names(found: &[Hierarchy]) -> Vec<String> {
        found.iter().map(|h| format!("{} {:?} {}", h.home.display(), h.kind, h.label)).collect()
    }

    #[test]
    fn a_name_tells_its_owner_and_foreign_names_have_none() {
        assert_eq!(owner(&name_for("web-1", 4711, 0)), Some(4711));
        for foreign in ["lucia-web", "web-4711-0", "lucia.slice", "lucia-web-x-0", "system.slice"] {
            assert_eq!(owner(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn hybrid_hosts_have_each_controller_by_its_options() {
        let own = "4:cpu,cpuacct:/job\n2:name=systemd:/\n0::/\n";
        assert_eq!(
            names(&hierarchies(HYBRID, own)),
            [
                r#"/sys/fs/cgroup/cpu,cpuacct/job V1 { options: "cpu,cpuacct" } cpu,cpuacct"#,
                r#"/sys/fs/cgroup/systemd/ V1 { options: "none,name=systemd" } systemd"#,
                "/sys/fs/cgroup/unified/ Hybrid unified",
            ]
        );
    }

    #[test]
    fn cgroup2_alone_is_unified_and_starts_at_our_own_cgroup() {
        let line = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(
            names(&hierarchies(line, "0::/user.slice/run-1.scope\n")),
            ["/sys/fs/cgroup/user.slice/run-1.scope Unified cgroup"]
        );
    }

    #[test]
    fn a_mount_that_shows_only_our_part_is_used_from_there() {
        let line = "30 23 0:26 /docker/ab /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        assert_eq!(
            names(&hierarchies(line, "5:pids:/docker/ab/x\n")),
            [r#"/sys/fs/cgroup/pids/x V1 { options: "pids" } pids"#]
        );
    }
}
