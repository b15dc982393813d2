//! The agent's private directory: 0700, files 0600, no links followed, one writer.

use lucia_durable::{
    Crashed, DirError, DirRules, FileName, FileRules, Format, Lease, LeaseError, Loaded, PrivateDir, ReadError,
    WriteError,
};
use lucia_proto::base::json::{self, JsonError};
use lucia_proto::base::limits::JSON_DEPTH_MAX;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use zeroize::Zeroizing;

use super::root::Root;

/// First line of the lease once a key was written: from then on a missing key is a lost key.
const MARKER: &[u8] = b"Lucia.Agent.v1";
/// The lease's name.
const LEASE: &str = ".lease";
/// Mode of every file here.
const MODE: u32 = 0o600;
/// Pending files a crash can have left; more are somebody else's.
const LEFTOVERS: usize = 256;

/// The table of files: the longest that each can be, and its name.
macro_rules! state_files {
    ($($(#[$doc:meta])* $file:ident: $name:literal, $max:expr;)*) => {
        /// Every file of the directory.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum StateFile { $($(#[$doc])* $file,)* }

        impl StateFile {
            /// Every file.
            pub const ALL: &'static [Self] = &[$(Self::$file),*];

            /// Its name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$file => $name,)* }
            }

            /// Most bytes it can have.
            const fn max(self) -> u64 {
                match self { $(Self::$file => $max,)* }
            }
        }
    };
}

state_files! {
    /// The private key.
    Key: "node.key", 1024;
    /// The one CSR for this hostname.
    Csr: "node.csr", 8192;
    /// Leaf and issuing CA.
    Certificate: "certificate.pem", 16 * 1024;
    /// The worker's answer the certificate came with.
    Answer: "answer.json", 64 * 1024;
    /// The newest bundle.
    Bundle: "bundle.json", 64 * 1024;
    /// What the installer left for the daemon.
    Installed: "installed.json", 16 * 1024;
    /// The grant, in the installer.
    Installation: "installation.json", 16 * 1024;
    /// That this is an installed system.
    System: "system.json", 1024;
    /// The starts of the daemon.
    Starts: "starts.json", 4096;
    /// The directory's files as they last worked.
    Directory: "directory.json", 64 * 1024;
    /// The newest roster, and which one it was.
    Roster: "roster.json", 64 * 1024;
    /// What owners ordered: what holds, what is under way, what is remembered. As long as NODE_ORDERS_MAX.
    Orders: "orders.json", 8 << 20;
    /// What `status` and `why` say.
    Status: "status.json", 16 * 1024;
}

impl StateFile {
    /// The newest format that this agent reads; a file without a number has the first.
    const fn format(self) -> Format {
        Format::schema(if matches!(self, Self::Orders) { 2 } else { 1 })
    }

    const fn cure(self) -> &'static str {
        match self {
            Self::Installation => "discover this machine and approve it again",
            Self::Installed => "restore it from a backup, or install this machine again",
            _ => "the agent writes it again",
        }
    }

    /// A value as this file holds it.
    ///
    /// # Errors
    /// [`StateError::Form`], a mistake in the agent.
    pub fn text(self, value: &impl Serialize) -> Result<Zeroizing<String>, StateError> {
        json::to_string(value).map(Zeroizing::new).map_err(|source| StateError::Form(self, source))
    }

    fn name(self) -> Result<FileName, StateError> {
        FileName::new(self.as_str()).map_err(|_| StateError::Name)
    }
}

/// The private directory cannot be used.
#[derive(Debug, Error)]
pub enum StateError {
    /// The directory itself.
    #[error("the agent's private directory cannot be used")]
    Dir(#[source] DirError),
    /// Another process of the agent has it.
    #[error("the agent's private directory is in use")]
    Lease(#[source] LeaseError),
    /// A file cannot be read.
    #[error("a file of the agent cannot be read")]
    Read(#[source] ReadError),
    /// A file cannot be written.
    #[error("a file of the agent cannot be written")]
    Write(#[source] WriteError),
    /// A file holds something else than the agent writes, or cannot be made.
    #[error("{} is damaged; {}", .0.as_str(), .0.cure())]
    Form(StateFile, #[source] JsonError),
    /// A test stopped the program between two steps.
    #[error(transparent)]
    Crashed(#[from] Crashed),
    /// Nobody took the lease; a mistake in the program.
    #[error("this verb does not write; a mistake in the program, report it")]
    ReadOnly,
    /// A constant of this file is no file name; a mistake in the program.
    #[error("a file name of the agent is refused; a mistake in the program, report it")]
    Name,
}

impl StateError {
    /// Whether nobody knows what the disk holds now: who wrote ends, and the next start reads what is really there.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        matches!(
            self,
            Self::Crashed(_)
                | Self::Write(
                    WriteError::Unsure { .. } | WriteError::Failed { doing: "sync", .. } | WriteError::Crashed { .. }
                )
        )
    }
}

/// The directory, opened to read, or held to write.
#[derive(Debug)]
pub struct State {
    dir: PrivateDir,
    lease: Option<Lease>,
}

impl State {
    /// Opens the directory to read from it; it must be there.
    ///
    /// # Errors
    /// [`StateError::Dir`], or [`StateError::Read`] of a file that a newer agent wrote.
    pub fn open(root: &Root) -> Result<Self, StateError> {
        let dir = PrivateDir::open(&root.state(), DirRules::private()).map_err(StateError::Dir)?;
        Self { dir, lease: None }.known()
    }

    /// The directory, if no newer agent wrote in it. What cannot be read is for whoever reads it.
    fn known(self) -> Result<Self, StateError> {
        for file in StateFile::ALL.iter().copied() {
            if let Err(error @ StateError::Read(ReadError::Newer { .. })) = self.read(file) {
                return Err(error);
            }
        }
        Ok(self)
    }

    /// Makes the directory unless it is there, and takes it: no other process of the agent writes meanwhile. `who`
    /// is shown to the next one.
    ///
    /// # Errors
    /// [`StateError::Dir`] or [`StateError::Lease`].
    pub fn hold(root: &Root, who: &str) -> Result<Self, StateError> {
        if let Some(parent) = root.state().parent() {
            // Refused below, with the path, when this did not help.
            let _ = std::fs::create_dir_all(parent);
        }
        Self::take(PrivateDir::create(&root.state(), DirRules::private()).map_err(StateError::Dir)?, who)
    }

    /// Takes a directory that is open already.
    ///
    /// # Errors
    /// [`StateError::Lease`], [`StateError::Write`], or [`StateError::Read`] of a file that a newer agent wrote.
    pub fn take(dir: PrivateDir, who: &str) -> Result<Self, StateError> {
        let name = FileName::hidden(LEASE).map_err(|_| StateError::Name)?;
        let holder = format!("pid {} lucia-node-agent {who}", std::process::id());
        let lease = Lease::take(&dir, &name, MARKER, &holder).map_err(StateError::Lease)?;
        dir.remove_leftovers(LEFTOVERS).map_err(StateError::Write)?;
        Self { dir, lease: Some(lease) }.known()
    }

    /// The verb that holds the directory now (`managed-run`, `discover`, ...), if one does. Nothing is taken for this look.
    ///
    /// # Errors
    /// [`StateError::Dir`] or [`StateError::Lease`].
    pub fn holder(root: &Root) -> Result<Option<String>, StateError> {
        let dir = match PrivateDir::open(&root.state(), DirRules::private()) {
            Err(DirError::Missing { .. }) => return Ok(None),
            opened => opened.map_err(StateError::Dir)?,
        };
        let name = FileName::hidden(LEASE).map_err(|_| StateError::Name)?;
        let holder = Lease::holder(&dir, &name, lives).map_err(StateError::Lease)?;
        Ok(holder.map(|holder| holder.rsplit(' ').next().unwrap_or_default().to_owned()))
    }

    /// Whether a key was written here at any time.
    #[must_use]
    pub fn had_key(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::marker_present)
    }

    /// Notes that a key was written.
    ///
    /// # Errors
    /// [`StateError::Lease`].
    pub fn confirm_key(&mut self) -> Result<(), StateError> {
        self.lease.as_mut().ok_or(StateError::ReadOnly)?.confirm(&self.dir).map_err(StateError::Lease)
    }

    /// Where the directory is, for messages.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// Whether anything has this name.
    ///
    /// # Errors
    /// [`StateError::Dir`].
    pub fn exists(&self, file: StateFile) -> Result<bool, StateError> {
        self.dir.exists(&file.name()?).map_err(StateError::Dir)
    }

    /// The bytes of a file, if it is there.
    ///
    /// # Errors
    /// [`StateError::Read`] when something else is there.
    pub fn read(&self, file: StateFile) -> Result<Option<Vec<u8>>, StateError> {
        let loaded = self.dir.read_as(&file.name()?, file.max(), FileRules::private(), file.format());
        loaded.map(Loaded::found).map_err(StateError::Read)
    }

    /// What a JSON file holds, if it is there.
    ///
    /// # Errors
    /// [`StateError::Read`], or [`StateError::Form`] when it holds something else.
    pub fn read_json<T: DeserializeOwned>(&self, file: StateFile) -> Result<Option<T>, StateError> {
        let Some(bytes) = self.read(file)?.map(Zeroizing::new) else { return Ok(None) };
        let value = json::from_slice(&bytes, bytes.len(), JSON_DEPTH_MAX);
        value.map(Some).map_err(|source| StateError::Form(file, source))
    }

    /// The same of a file that can be had again: what cannot be read counts as absent.
    pub fn find_json<T: DeserializeOwned>(&self, file: StateFile) -> Option<T> {
        let told = |error: &StateError| tracing::warn!("{} is passed over: {}", file.as_str(), super::chain(error));
        self.read_json(file).inspect_err(told).ok().flatten()
    }

    /// Replaces a JSON file as [`State::replace`] does.
    ///
    /// # Errors
    /// [`StateError::Write`], [`StateError::ReadOnly`].
    pub fn replace_json(&self, file: StateFile, value: &impl Serialize) -> Result<(), StateError> {
        self.replace(file, file.text(value)?.as_bytes())
    }

    /// Replaces a file: after any crash it is the former or the new one.
    ///
    /// # Errors
    /// [`StateError::Write`], [`StateError::ReadOnly`].
    pub fn replace(&self, file: StateFile, bytes: &[u8]) -> Result<(), StateError> {
        self.writable()?;
        self.dir.replace(&file.name()?, bytes, MODE).map_err(StateError::Write)
    }

    /// Replaces several files in this order with one wait for the disk.
    ///
    /// # Errors
    /// [`StateError::Write`], [`StateError::ReadOnly`].
    pub fn replace_all(&self, files: &[(StateFile, &[u8])]) -> Result<(), StateError> {
        self.writable()?;
        let named = files.iter().map(|(file, bytes)| Ok((file.name()?, *bytes)));
        let named = named.collect::<Result<Vec<_>, StateError>>()?;
        self.dir.replace_all(&named, MODE).map_err(StateError::Write)
    }

    /// Writes a file that must not be there yet.
    ///
    /// # Errors
    /// [`StateError::Write`], [`StateError::ReadOnly`].
    pub fn create_new(&self, file: StateFile, bytes: &[u8]) -> Result<(), StateError> {
        self.writable()?;
        self.dir.create_new(&file.name()?, bytes, MODE).map_err(StateError::Write)
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// [`StateError::Write`], [`StateError::ReadOnly`].
    pub fn remove(&self, file: StateFile) -> Result<(), StateError> {
        self.writable()?;
        self.dir.remove(&file.name()?).map(drop).map_err(StateError::Write)
    }

    /// Puts a former key aside under `name`, in its directory and as private as it was; one that lies there already
    /// with the same bytes is as good.
    ///
    /// # Errors
    /// [`StateError::Read`], [`StateError::Write`], [`StateError::ReadOnly`], [`StateError::Name`].
    pub fn put_aside(&self, name: &str, bytes: &[u8]) -> Result<(), StateError> {
        self.writable()?;
        let name = FileName::new(name).map_err(|_| StateError::Name)?;
        match self.dir.read(&name, StateFile::Key.max(), FileRules::private()).map_err(StateError::Read)? {
            Loaded::Found(there) if there == bytes => Ok(()),
            _ => self.dir.create_new(&name, bytes, MODE).map_err(StateError::Write),
        }
    }

    /// Removes every visible file but these, whatever program of ours left it.
    ///
    /// # Errors
    /// [`StateError::Dir`], [`StateError::Write`], [`StateError::ReadOnly`].
    pub fn remove_all_but(&self, kept: &[StateFile]) -> Result<(), StateError> {
        self.writable()?;
        for name in self.dir.list(LEFTOVERS).map_err(StateError::Dir)? {
            if !kept.iter().any(|file| file.as_str() == name.as_str()) {
                self.dir.remove(&name).map_err(StateError::Write)?;
            }
        }
        Ok(())
    }

    /// Forgets that a key was ever written here, so that the next one is no lost one. The lease is still held.
    ///
    /// # Errors
    /// [`StateError::Name`], [`StateError::Write`], [`StateError::ReadOnly`].
    pub fn forget_key(&self) -> Result<(), StateError> {
        self.writable()?;
        let name = FileName::hidden(LEASE).map_err(|_| StateError::Name)?;
        self.dir.remove(&name).map(drop).map_err(StateError::Write)
    }

    fn writable(&self) -> Result<(), StateError> {
        if self.lease.is_some() { Ok(()) } else { Err(StateError::ReadOnly) }
    }
}

/// Whether the process that a holder's line names may be there; a number that another process has now counts as there.
fn lives(holder: &str) -> bool {
    let pid = holder.strip_prefix("pid ").and_then(|rest| rest.split(' ').next()).and_then(|pid| pid.parse().ok());
    pid.is_none_or(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;

    // spec: AG-3
    #[test]
    fn one_process_writes_and_a_reader_cannot() {
        let scratch = Scratch::new();
        let root = scratch.root();
        let state = State::hold(&root, "managed-run").unwrap();
        state.replace(StateFile::Csr, b"x").unwrap();
        let refused = State::hold(&root, "discover").unwrap_err();
        let text = crate::host::chain(&refused);
        assert!(text.contains("managed-run"), "{text}");
        assert_eq!(State::holder(&root).unwrap().as_deref(), Some("managed-run"));
        let reader = State::open(&root).unwrap();
        assert_eq!(reader.read(StateFile::Csr).unwrap().unwrap(), b"x");
        assert!(matches!(reader.replace(StateFile::Csr, b"y"), Err(StateError::ReadOnly)));
        drop(state);
        assert_eq!(State::holder(&root).unwrap(), None);
    }

    // spec: AG-3
    #[test]
    fn modes_links_and_sizes_are_held() {
        use std::os::unix::fs::PermissionsExt as _;
        let scratch = Scratch::new();
        let root = scratch.root();
        let state = State::hold(&root, "test").unwrap();
        state.create_new(StateFile::Key, b"secret").unwrap();
        let path = root.state().join("node.key");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(std::fs::metadata(root.state()).unwrap().permissions().mode() & 0o7777, 0o700);
        assert!(state.create_new(StateFile::Key, b"other").is_err());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(state.read(StateFile::Key), Err(StateError::Read(_))));
        std::os::unix::fs::symlink("/etc/passwd", root.state().join("node.csr")).unwrap();
        assert!(matches!(state.read(StateFile::Csr), Err(StateError::Read(_))));
        state.replace(StateFile::Installed, &[b' '; 16 * 1024 + 1]).unwrap();
        assert!(matches!(state.read(StateFile::Installed), Err(StateError::Read(_))));
    }

    // spec: AG-3
    #[test]
    fn a_directory_that_is_not_the_agents_alone_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        for mode in [0o701, 0o710, 0o755, 0o1700] {
            let scratch = Scratch::new();
            let root = scratch.root();
            drop(State::hold(&root, "test").unwrap());
            std::fs::set_permissions(root.state(), std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(State::open(&root), Err(StateError::Dir(_))), "{mode:o}");
            assert!(matches!(State::hold(&root, "test"), Err(StateError::Dir(_))), "{mode:o}");
        }
        let (scratch, outside) = (Scratch::new(), Scratch::new());
        let root = scratch.root();
        drop(State::hold(&outside.root(), "test").unwrap());
        std::fs::create_dir_all(root.state().parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(outside.root().state(), root.state()).unwrap();
        assert!(matches!(State::open(&root), Err(StateError::Dir(_))), "a link");
        assert!(matches!(State::hold(&root, "test"), Err(StateError::Dir(_))), "a link");
    }

    // spec: OR-441
    #[test]
    fn a_file_of_a_newer_agent_is_refused_by_name() {
        for file in StateFile::ALL.iter().copied() {
            let scratch = Scratch::new();
            let root = scratch.root();
            let put = |format: u64| {
                let state = State::hold(&root, "test").unwrap();
                let text = format!(r#"{{"schemaVersion":{format},"later":[]}}"#);
                state.replace(file, text.as_bytes()).unwrap();
            };
            put(file.format().known());
            put(file.format().known() + 1);
            for refused in [State::open(&root), State::hold(&root, "test")] {
                let Err(StateError::Read(ReadError::Newer { path, found, known })) = refused else {
                    panic!("{file:?}")
                };
                assert!(path.ends_with(file.as_str()));
                assert_eq!((found, known), (file.format().known() + 1, file.format().known()));
            }
        }
    }

    #[test]
    fn no_two_files_share_a_name() {
        let names: std::collections::BTreeSet<_> = StateFile::ALL.iter().map(|file| file.as_str()).collect();
        assert_eq!(names.len(), StateFile::ALL.len());
    }
}
