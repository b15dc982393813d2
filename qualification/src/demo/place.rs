//! The demo's own directory: emptied at the start, never anybody else's, and nothing of the demo is outside of it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use super::DemoError;
use super::directory::{ADDRESS, PORT};
use super::door::PAGE_NAME;
use super::owner::OWNER;
use super::step_ca;
use crate::seat::Seat;

/// The users of the demo, by numbers that no host has. They are in no passwd file.
pub(super) const GROUP: u32 = 47_100;
/// The controller's user and group.
pub(super) const CONTROLLER: u32 = 47_101;
/// The worker's user and group.
pub(super) const WORKER: u32 = 47_102;
/// The directory server's user and group.
pub(super) const DIRECTORY: u32 = 47_103;
/// The user and group of step-ca, where one is used.
pub(super) const STEP_CA: u32 = 47_104;
/// The controller's name for nodes.
pub(super) const NAME: &str = "lucia.demo.test";
/// The node's name.
pub(super) const HOSTNAME: &str = "demo-1";

/// In each directory that the demo may empty.
const MARK: &str = ".lucia-demo";
/// Longest path of a Unix socket.
const SOCKET_MAX: usize = 107;
/// What of the workspace is needed.
const PROGRAMS: [&str; 4] = ["lucia-controller", "lucia-enrollment-worker", "luciactl", "lucia-node-agent"];

/// The directory, emptied and held.
#[derive(Debug)]
pub(super) struct Place {
    /// Its absolute path.
    pub(super) dir: PathBuf,
    /// The built `lucia-qualification`.
    pub(super) helper: PathBuf,
    /// A built step-ca, where it is to be the CA.
    pub(super) step_ca: Option<PathBuf>,
    /// Held as long as the demo runs.
    _lock: File,
}

impl Place {
    /// Empties the directory, and puts programs, settings and state directories into it. `bin` has the built programs,
    /// `page` is the origin that browsers have for the page.
    pub(super) fn prepare(
        dir: &Path,
        bin: &Path,
        helper: &Path,
        step_ca: Option<PathBuf>,
        page: &str,
    ) -> Result<Self, DemoError> {
        for program in PROGRAMS {
            let path = bin.join(program);
            if !path.is_file() {
                return Err(DemoError::NoProgram { path });
            }
        }
        let failed = |err| DemoError::Place { path: dir.to_owned(), err };
        fs::create_dir_all(dir).map_err(failed)?;
        let dir = fs::canonicalize(dir).map_err(failed)?;
        let lock = claim(&dir)?;
        let place = Self { dir, helper: helper.to_owned(), step_ca, _lock: lock };
        if place.socket().as_os_str().len() > SOCKET_MAX {
            return Err(DemoError::LongPath { dir: place.dir });
        }
        place.directories()?;
        place.lay(bin, page).map_err(|err| DemoError::Place { path: place.dir.clone(), err })?;
        Ok(place)
    }

    fn directories(&self) -> Result<(), DemoError> {
        // As lucia.tmpfiles does on a host (design.md W6).
        for (path, mode, owner, group) in [
            ("bin", 0o755, 0, 0),
            ("etc", 0o755, 0, 0),
            ("log", 0o755, 0, 0),
            ("run", 0o755, CONTROLLER, CONTROLLER),
            ("state", 0o755, 0, 0),
            ("state/worker", 0o700, WORKER, WORKER),
            ("state/directory", 0o700, DIRECTORY, DIRECTORY),
            ("state/directory/db", 0o700, DIRECTORY, DIRECTORY),
            ("state/directory/slapd.d", 0o700, DIRECTORY, DIRECTORY),
            ("state/controller", 0o2750, 0, GROUP),
            ("state/controller/tls", 0o700, CONTROLLER, CONTROLLER),
            ("state/controller/audit", 0o700, CONTROLLER, GROUP),
            ("state/controller/orders", 0o700, CONTROLLER, GROUP),
            ("state/controller/passkeys", 0o700, CONTROLLER, GROUP),
            ("state/controller/tokens", 0o700, CONTROLLER, GROUP),
            ("state/controller/onboarding", 0o2750, CONTROLLER, GROUP),
            ("state/controller/nodes", 0o2750, 0, GROUP),
            ("state/controller/nodes/enrollment-requests", 0o2750, CONTROLLER, GROUP),
            ("state/controller/nodes/identities", 0o700, CONTROLLER, GROUP),
            ("state/controller/nodes/removals", 0o2750, CONTROLLER, GROUP),
            ("state/controller/nodes/enrollment-responses", 0o2750, WORKER, GROUP),
            ("state/controller/nodes/owner-requests", 0o2750, CONTROLLER, GROUP),
            ("state/controller/nodes/owner-responses", 0o2750, WORKER, GROUP),
        ] {
            let path = self.dir.join(path);
            let failed = |err| DemoError::Place { path: path.clone(), err };
            fs::create_dir(&path).map_err(failed)?;
            chown(&path, Some(owner), Some(group)).map_err(|err| DemoError::NoUsers { err })?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(failed)?;
        }
        Ok(())
    }

    fn lay(&self, bin: &Path, page: &str) -> io::Result<()> {
        fs::set_permissions(&self.dir, fs::Permissions::from_mode(0o755))?;
        for program in PROGRAMS {
            // Here, so that no build changes them while they run, and the users of the demo reach them.
            let (from, to) = (fs::canonicalize(bin.join(program))?, self.program(program));
            fs::copy(&from, &to)?;
            fs::set_permissions(&to, fs::Permissions::from_mode(0o755))?;
        }
        self.settings(page)
    }

    fn settings(&self, page: &str) -> io::Result<()> {
        let ca = match self.step_ca {
            Some(_) => format!(
                "\n[ca]\nkind = \"step-ca\"\nurl = \"https://{ADDRESS}:{}\"\nprovisioner = \"{}\"\n",
                step_ca::PORT,
                step_ca::PROVISIONER
            ),
            None => String::new(),
        };
        let [state, root, socket] = [self.path("state"), self.root_file(), self.socket()];
        fs::write(
            self.path("etc/controller.toml"),
            format!(
                "# Of the demo. controller/controller.toml of the source explains each setting.\n\
                 names = [\"{NAME}\", \"{PAGE_NAME}\"]\nlisten = \"10.73.0.1:8443\"\npage-origin = {page:?}\nstate-dir = {:?}\nroot-file = {root:?}\n\
                 socket = {socket:?}\ngroup = \"{GROUP}\"\nworker-user = \"{WORKER}\"\n",
                state.join("controller"),
            ),
        )?;
        fs::write(
            self.path("etc/worker.toml"),
            format!(
                "# Of the demo. worker/worker.toml of the source explains each setting.\n\
                 state-dir = {:?}\ncontroller-state = {:?}\ncontroller-user = \"{CONTROLLER}\"\ngroup = \"{GROUP}\"\n\
                 endpoint-names = [\"{NAME}\", \"{PAGE_NAME}\"]\n\n[directory]\nkind = \"ldap\"\nuri = \"ldaps://{ADDRESS}:{PORT}\"\n\
                 names = [\"{ADDRESS}\"]\ncertificate-days = 7\n{ca}",
                state.join("worker"),
                state.join("controller"),
            ),
        )
    }

    /// Short commands for a person, with the long paths and the users in them; `holder` keeps the network.
    pub(super) fn commands(&self, holder: u32) -> io::Result<()> {
        let luciactl = quoted_path(&self.program("luciactl"));
        // What it refuses here may be an owner's: whoever typed what the page printed is led to the right command.
        self.script(
            "luciactl",
            &format!(
                "{luciactl} --socket {} \"$@\" && exit\ncode=$?\nif [ $code = 1 ] || [ $code = 64 ]; then\n  echo \"(this is the operator's \
                 luciactl, without an owner's key; as an owner of the demo:\" {} \"$@)\" >&2\nfi\nexit $code\n",
                quoted_path(&self.socket()),
                quoted(&word(&self.path(OWNER))),
            ),
        )?;
        let worker = self.seated(&self.worker_seat(holder), &self.program("lucia-enrollment-worker"))?;
        self.command("worker", &format!("{worker} \"$@\" --config {}", quoted_path(&self.path("etc/worker.toml"))))
    }

    /// The words of a shell that run a program in a seat.
    pub(super) fn seated(&self, seat: &Seat, program: &Path) -> io::Result<String> {
        let seat = quoted(&serde_json::to_string(seat)?);
        Ok(format!("{} take-seat {seat} -- {}", quoted_path(&self.helper), quoted_path(program)))
    }

    /// Makes `DIR/NAME`, a command that becomes `line` of a shell.
    pub(super) fn command(&self, name: &str, line: &str) -> io::Result<()> {
        self.script(name, &format!("exec {line}\n"))
    }

    /// Makes `DIR/NAME`, a command of these lines.
    pub(super) fn script(&self, name: &str, lines: &str) -> io::Result<()> {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{lines}"))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
    }

    /// A path in the directory.
    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.dir.join(below)
    }

    /// A program of the workspace.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.dir.join("bin").join(name)
    }

    /// The controller's socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.path("run/controller.sock")
    }

    /// The root as the controller has it: brought from the worker.
    pub(super) fn root_file(&self) -> PathBuf {
        self.path("etc/root.pem")
    }

    /// The worker, in the network of `holder`, where the directory is.
    pub(super) fn worker_seat(&self, holder: u32) -> Seat {
        Seat { user: WORKER, group: GROUP, network: Some(holder), directory: self.dir.clone() }
    }

    /// The directory server, which shares no group with anybody.
    pub(super) fn directory_seat(&self, holder: u32) -> Seat {
        Seat { user: DIRECTORY, group: DIRECTORY, network: Some(holder), directory: self.dir.clone() }
    }

    /// step-ca, likewise.
    pub(super) fn step_ca_seat(&self, holder: u32) -> Seat {
        Seat { user: STEP_CA, group: STEP_CA, network: Some(holder), directory: self.dir.clone() }
    }

    /// The controller, in the network of `holder`.
    pub(super) fn controller_seat(&self, holder: u32) -> Seat {
        Seat { user: CONTROLLER, group: GROUP, network: Some(holder), directory: self.dir.clone() }
    }
}

/// Takes a directory that is empty or a former demo's, alone, and empties it.
fn claim(dir: &Path) -> Result<File, DemoError> {
    let failed = |err| DemoError::Place { path: dir.to_owned(), err };
    let mark = dir.join(MARK);
    let foreign = !mark.exists() && fs::read_dir(dir).map_err(failed)?.next().is_some();
    if foreign {
        return Err(DemoError::NotOurs { dir: dir.to_owned() });
    }
    let lock = File::options().create(true).append(true).open(&mark).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(DemoError::Busy { dir: dir.to_owned() }),
        Err(TryLockError::Error(err)) => return Err(failed(err)),
    }
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        let is_dir = entry.file_type().map_err(failed)?.is_dir();
        if path != mark {
            if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) }.map_err(failed)?;
        }
    }
    Ok(lock)
}

/// A path for a person to paste: quoted only where it must be.
pub(super) fn word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) { text.into_owned() } else { quoted(&text) }
}

pub(super) fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// As one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: DE-6
    #[test]
    fn only_a_demos_own_directory_is_emptied_and_only_by_one() {
        let dir = std::env::temp_dir().join(format!("lucia-demo-place-{}", std::process::id()));
        fs::create_dir_all(dir.join("old/deep")).unwrap();
        assert!(matches!(claim(&dir), Err(DemoError::NotOurs { .. })));
        assert!(dir.join("old/deep").exists());
        fs::write(dir.join(MARK), "").unwrap();
        std::os::unix::fs::symlink("/etc", dir.join("link")).unwrap();
        let held = claim(&dir).unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        assert!(matches!(claim(&dir), Err(DemoError::Busy { .. })));
        drop(held);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
        assert_eq!(word(Path::new("/srv/lucia/demo-1")), "/srv/lucia/demo-1");
        assert_eq!(word(Path::new("/a b")), "'/a b'");
    }
}
