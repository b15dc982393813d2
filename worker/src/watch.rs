//! When to take the next turn: when a file appears, every 5 seconds in any case, and never again after SIGTERM.
//! Between two turns there is a rest, so that whoever may rename files there cannot keep the worker busy with it: the first
//! event is served at once, what comes while it is served waits for the next turn.
//!
//! An event only wakes the worker, which then looks at everything; so a queue of events that ran over, or a directory
//! that was replaced, costs 5 seconds and nothing else.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use inotify::{Inotify, WatchMask};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tracing::warn;

/// Room for a few hundred events; what does not fit is read next time.
const BUFFER: usize = 16 * 1024;

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Something appeared, or time is up.
    Turn,
    /// SIGTERM or SIGINT.
    Stop,
}

/// Waits for files, time and signals.
#[derive(Debug)]
pub struct Watch {
    /// None where the system gives none: then the poll does its work.
    inotify: Option<Inotify>,
    signals: SignalFd,
}

impl Watch {
    /// From here on SIGTERM and SIGINT end a wait and not the process.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn new() -> io::Result<Self> {
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTERM);
        stop.add(Signal::SIGINT);
        stop.thread_block()?;
        let signals = SignalFd::with_flags(&stop, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let inotify = Inotify::init()
            .inspect_err(|error| warn!("no inotify: {error}; new requests are found by looking, every 5 s"));
        Ok(Self { inotify: inotify.ok(), signals })
    }

    /// Watches a directory for files that are moved into it, as every complete file is. Repeating it does no harm.
    pub fn add(&self, dir: &Path) {
        let Some(inotify) = &self.inotify else { return };
        // Without it the poll does the work; whether the directory is right is said by the queue.
        let _ = inotify.watches().add(dir, WatchMask::MOVED_TO | WatchMask::ONLYDIR | WatchMask::DONT_FOLLOW);
    }

    /// Waits this long, whatever appears meanwhile; only a signal ends it sooner.
    ///
    /// # Errors
    /// The system cannot wait.
    pub fn rest(&mut self, millis: u16) -> io::Result<Wake> {
        self.poll(false, millis)?;
        self.signal()
    }

    /// Waits until something appears, at most this long.
    ///
    /// # Errors
    /// The system cannot wait.
    pub fn wait(&mut self, millis: u16) -> io::Result<Wake> {
        self.poll(true, millis)?;
        let mut buffer = [0; BUFFER];
        if let Some(inotify) = &mut self.inotify
            && let Err(error) = inotify.read_events(&mut buffer)
            && error.kind() != io::ErrorKind::WouldBlock
        {
            return Err(error);
        }
        self.signal()
    }

    fn poll(&self, events: bool, millis: u16) -> io::Result<()> {
        let mut ready = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let inotify = self.inotify.iter().filter(|_| events);
        ready.extend(inotify.map(|inotify| PollFd::new(inotify.as_fd(), PollFlags::POLLIN)));
        match poll(&mut ready, PollTimeout::from(millis)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn signal(&self) -> io::Result<Wake> {
        Ok(match self.signals.read_signal()? {
            Some(_) => Wake::Stop,
            None => Wake::Turn,
        })
    }
}
