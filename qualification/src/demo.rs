//! `make demo`: worker, controller and one machine nobody has seen before, from discovery to Managed, with the real
//! programs on a real systemd Debian.
//!
//! | part | what |
//! |---|---|
//! | `place` | the demo's own directory, its users by number, its settings |
//! | `site` | worker, controller and directory, each under its user, and their network |
//! | `daemon` | a program that runs on |
//! | `step_ca` | a real step-ca instead of the worker's own CA, where it is asked for |
//! | `directory` | a real slapd, with alice and bob in it |
//! | `owner` | the first owner, who signs what happens from then on |
//! | `machine` | the machine: installer, approval, staging, reboot, enrolment, heartbeats |
//! | `login` | a person of the directory logs in by SSH, as long as her key is among those that nodes are told |
//! | `second` | a second machine that waits for its approval, so that there is something to do on the page |
//! | `door` | a port of this machine's loopback that leads to the page |
//! | `page` | how a person sees the page, and the headless browser that does the same |
//! | `screen` | the timeline |
//! | `left` | what a person started by its commands, ended with it |
//! | `measure` | what the agent of that node costs, for `make bench` |

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use lucia_browser::BrowserError;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::network::NetworkError;
use crate::node::{Missing, NodeError};
use crate::possible::site_possible;
use crate::skip::workspace;
use crate::wait::wait_every;

use self::door::Door;
use self::machine::Managed;
use self::page::Page;
use self::place::{GROUP, Place, STEP_CA};
use self::screen::{Screen, Who};
use self::second::Second;
use self::site::Site;

mod daemon;
mod directory;
mod door;
mod left;
mod login;
mod machine;
pub mod measure;
mod owner;
mod page;
mod place;
pub mod screen;
mod second;
mod site;
mod step_ca;

/// Between two looks at the second machine while the demo stays up.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the demo is asked.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Drive the page in a headless browser, and end after the last line instead of staying up.
    pub once: bool,
    /// Its directory; without it `target/demo`.
    pub dir: Option<PathBuf>,
    /// Where the built programs are; without it beside this one.
    pub bin: Option<PathBuf>,
    /// The directory is down while the node enrols, and up again once the worker has said so.
    pub late_directory: bool,
    /// A built step-ca that is the fleet's CA; without it the worker's own.
    pub step_ca: Option<PathBuf>,
}

/// Why the demo did not come to its end. Each says what cures it where that can be known.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The machine cannot run nodes.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// A program was not built.
    #[error("{} is not built. Cure: cargo build --workspace --bins, or make demo, which does it", path.display())]
    NoProgram {
        /// Where it should be.
        path: PathBuf,
    },
    /// The directory holds something else.
    #[error("{} is not empty and not a former demo's, so nothing in it is touched. Cure: --dir with another", dir.display())]
    NotOurs {
        /// The directory.
        dir: PathBuf,
    },
    /// Another demo runs there.
    #[error("another demo runs in {}. Cure: end it by Ctrl-C where it runs, or take another --dir", dir.display())]
    Busy {
        /// The directory.
        dir: PathBuf,
    },
    /// No Unix socket can have such a path.
    #[error("{} is too long a path for a Unix socket. Cure: --dir with a shorter one, as /var/tmp/demo", dir.display())]
    LongPath {
        /// The directory.
        dir: PathBuf,
    },
    /// A user namespace without the users of the demo.
    #[error(
        "files cannot be given to the users {GROUP} to {STEP_CA}, which the demo runs its programs as. Cure: run it outside \
         of a user namespace, or in one that has these numbers (a rootless container with 65536 of them)"
    )]
    NoUsers {
        /// Why.
        #[source]
        err: io::Error,
    },
    /// A file of the demo's directory.
    #[error("cannot make or read {}", path.display())]
    Place {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        err: io::Error,
    },
    /// No port for browsers.
    #[error("127.0.0.1 port {port} cannot lead to the page. Cure: run the demo as root, on a machine with a loopback")]
    Door {
        /// The port.
        port: u16,
        /// Why.
        #[source]
        err: io::Error,
    },
    /// The browser.
    #[error(transparent)]
    Browser(#[from] BrowserError),
    /// The network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The node.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A program did not start.
    #[error("cannot run {}", program.display())]
    NotRun {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        err: io::Error,
    },
    /// A program said no.
    #[error("{command} ({status}): {said}")]
    Refused {
        /// The command.
        command: String,
        /// How it ended.
        status: String,
        /// What it said.
        said: String,
    },
    /// An answer that is not what was asked for.
    #[error("cannot use the answer {said:?}")]
    Answer {
        /// The answer.
        said: String,
        /// What is wrong with it.
        #[source]
        err: serde_json::Error,
    },
    /// Worker or controller ended.
    #[error("the {name} ended ({status}). {said}")]
    Ended {
        /// Which.
        name: &'static str,
        /// How.
        status: String,
        /// The end of its log.
        said: String,
    },
    /// Something did not happen.
    #[error("{what}: still not there after {seconds} s. {said}")]
    Waited {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        seconds: u64,
        /// What the programs said last.
        said: String,
    },
    /// The two ends do not show the same.
    #[error("{what}: {one} at one end and {other} at the other; nothing is approved")]
    Differ {
        /// What was compared.
        what: &'static str,
        /// At the machine.
        one: String,
        /// At the other end.
        other: String,
    },
    /// Something that should be shown is not.
    #[error("{what} is not in what was shown: {said}")]
    NotShown {
        /// What is missing.
        what: &'static str,
        /// What was shown.
        said: String,
    },
}

pub use page::possible as page_possible;

/// A fleet of one node that is Managed, still running.
pub struct Standing {
    node: Managed,
    /// One more machine, once there is.
    second: Option<Second>,
    site: Site,
}

/// Brings everything up to the node's first heartbeat.
pub fn raise(options: &Options, screen: &Screen) -> Result<Standing, DemoError> {
    site_possible()?;
    let helper = std::env::current_exe().map_err(|err| DemoError::Place { path: "/proc/self/exe".into(), err })?;
    let beside = helper.parent().map(PathBuf::from).unwrap_or_default();
    let bin = options.bin.clone().unwrap_or(beside);
    let dir = options.dir.clone().unwrap_or_else(|| workspace().join("target/demo"));
    let door = Door::take().map_err(|err| DemoError::Door { port: 0, err })?;
    let place = Place::prepare(&dir, &bin, &helper, options.step_ca.clone(), &door.origin())?;
    screen.say(Who::Demo, &format!("all of it is in {} and in namespaces of its own", place.dir.display()));
    let mut site = Site::start(place, door, screen)?;
    owner::first(&mut site, screen)?;
    let order = machine::install(&mut site, screen)?;
    let node = machine::boot_managed(&mut site, order, options.late_directory, screen)?;
    Ok(Standing { node, second: None, site })
}

/// The whole demo, as a person sees it.
pub fn demo(options: &Options) -> Result<(), DemoError> {
    let screen = Screen::stdout();
    if options.once {
        page::possible()?;
    }
    let mut standing = raise(options, &screen)?;
    let page = if options.once { Some(Page::open(&standing.site, &screen)?) } else { None };
    login::story(&mut standing, page.as_ref(), &screen)?;
    match page {
        Some(page) => page.admit_second(&mut standing, &screen)?,
        None => standing.second = Some(Second::boot(&standing.site, &screen)?),
    }
    screen.plain(&standing.node.last_line());
    if !options.once {
        screen.plain(&try_next(&standing.site, standing.second.as_ref())?);
        wait_for_ctrl_c(standing.second.as_ref(), &screen);
        screen.say(Who::Demo, "stopping");
    }
    let dir = standing.site.place.dir.clone();
    standing.end()?;
    if !options.once {
        screen.say(Who::Demo, &left::last_word(&left::running(&dir)));
    }
    Ok(())
}

impl Standing {
    /// Shuts the node down, then controller and worker.
    pub fn end(self) -> Result<(), DemoError> {
        drop(self.second);
        self.node.node.stop()?;
        drop(self.site);
        Ok(())
    }
}

fn try_next(site: &Site, second: Option<&Second>) -> Result<String, DemoError> {
    let place = &site.place;
    let dir = place::word(&place.dir);
    Ok(format!(
        "\nIt stays up until Ctrl-C.\n\n{page}\nIn another terminal, as root:\n\
         \x20 {dir}/luciactl nodes\n\
         \x20 {dir}/luciactl node {host}\n\
         \x20 {dir}/luciactl events --follow\n\
         \x20 {dir}/luciactl status\n\
         \x20 {dir}/worker status\n\
         \x20 {dir}/node lucia-node-agent why\n\
         \x20 {dir}/node systemctl status lucia-node-agent\n\
         \x20 {dir}/node                    a shell on the node\n\
         {login}\
         \x20 {dir}/{owner} remove {host}    an order: the node wipes what it has of the fleet\n\
         Logs: {dir}/log; settings: {dir}/etc",
        host = place::HOSTNAME,
        login = login::try_next(place),
        owner = owner::OWNER,
        page = page::try_next(site, second)?,
    ))
}

/// Until somebody asks the demo to end; meanwhile it is told once that the second machine was approved. The programs of
/// the demo are in process groups of their own and go on.
fn wait_for_ctrl_c(second: Option<&Second>, screen: &Screen) {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    if signals.thread_block().is_ok() {
        let asked = || SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
        if let (Some(second), Ok(asked)) = (second, asked()) {
            let mut is_told = false;
            while wait_every(LOOK_EVERY, LOOK_EVERY, || asked.read_signal().unwrap_or_default()).is_none() {
                if !is_told && second.is_granted() {
                    is_told = true;
                    let what = format!(
                        "{} was approved and has its permission to install, {}",
                        second::SECOND,
                        second::SCREEN
                    );
                    screen.say(Who::Console, &format!("{what} says so too; in the demo it ends there"));
                }
            }
        } else {
            let _ = signals.wait();
        }
        // Also for what is started to shut down: a blocked signal is handed on to it.
        let _ = signals.thread_unblock();
    }
}
