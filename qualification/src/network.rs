//! A network of our own: one namespace with a bridge, where controller and worker run and nodes are plugged in.
//!
//! Nothing of it is visible in the host's own network, and the kernel removes it with the last process inside.

use std::io::{self, BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};

use crate::program::Program;

/// The bridge's name inside the namespace.
const BRIDGE: &str = "lucia0";
/// The network is 10.73.0.0/24; its first address is the bridge's, where controllers listen.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 73, 0, 1);
const PREFIX: u8 = 24;

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The helper that holds the namespace did not start.
    #[error("cannot start {}", helper.display())]
    Helper {
        /// The helper binary.
        helper: PathBuf,
        /// Why.
        #[source]
        err: io::Error,
    },
    /// The helper ended before the network was up.
    #[error("the network namespace was not made: {said}")]
    Ended {
        /// What the helper said.
        said: String,
    },
}

/// A running network. Dropping it ends its holder; nodes still plugged in lose their link.
#[derive(Debug)]
pub struct Network {
    holder: Child,
}

/// How a node is plugged in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plug {
    /// Process id of the network's holder.
    pub holder: u32,
    /// The node's address.
    pub address: Ipv4Addr,
}

impl Network {
    /// Makes the namespace and its bridge. `helper` is the built `lucia-qualification`.
    pub fn start(helper: &Path) -> Result<Self, NetworkError> {
        let mut holder = Program::Built(helper.to_owned())
            .command()
            .arg("network-keeper")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0) // Ctrl-C is for who started it
            .spawn()
            .map_err(|err| NetworkError::Helper { helper: helper.to_owned(), err })?;
        let mut line = String::new();
        if let Some(out) = holder.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut line);
        }
        if line.trim() == "up" {
            return Ok(Self { holder });
        }
        let mut said = String::new();
        if let Some(mut err) = holder.stderr.take() {
            let _ = err.read_to_string(&mut said);
        }
        let _ = holder.wait();
        Err(NetworkError::Ended { said: said.trim().to_owned() })
    }

    /// The address of the network's own end, reached from every node.
    pub fn host_address(&self) -> Ipv4Addr {
        HOST
    }

    /// Process id of the holder, whose network namespace it is.
    pub fn holder_pid(&self) -> u32 {
        self.holder.id()
    }

    /// A plug with address 10.73.0.(10 + `number`). Two nodes need two numbers.
    pub fn plug(&self, number: u8) -> Plug {
        let [a, b, c, _] = HOST.octets();
        Plug { holder: self.holder.id(), address: Ipv4Addr::new(a, b, c, number.saturating_add(10)) }
    }

    /// A command that runs `program` inside the network, with the host's files.
    pub fn command(&self, program: &Program) -> Command {
        let mut command = Program::Nsenter.command();
        command.arg(enter(self.holder.id())).arg("--").arg(program.path());
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(self.holder.stdin.take()); // the holder ends when its input does
        let _ = self.holder.wait();
    }
}

fn enter(holder: u32) -> String {
    format!("--net=/proc/{holder}/ns/net")
}

/// The holder's whole life: make the namespace, say `up`, stay until the input ends.
pub fn hold() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    ip(&["link", "set", "lo", "up"])?;
    ip(&["link", "add", BRIDGE, "type", "bridge"])?;
    ip(&["address", "add", &format!("{HOST}/{PREFIX}"), "dev", BRIDGE])?;
    ip(&["link", "set", BRIDGE, "up"])?;
    println!("up");
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Gives the namespace this process is in an `eth0` that ends at the bridge of `plug`'s network.
pub fn plug_in(plug: &Plug) -> io::Result<()> {
    let [.., last] = plug.address.octets();
    let peer = format!("node{last}");
    // The namespace of a node that was powered off goes in the kernel's own time, and its end of the line with it.
    let mut former = Program::Nsenter.command();
    former.args([&enter(plug.holder), "ip", "link", "delete", &peer]);
    let _ = run(former);
    ip(&["link", "add", "eth0", "type", "veth", "peer", "name", &peer, "netns", &plug.holder.to_string()])?;
    ip(&["address", "add", &format!("{}/{PREFIX}", plug.address), "dev", "eth0"])?;
    ip(&["link", "set", "eth0", "up"])?;
    ip(&["route", "add", "default", "via", &HOST.to_string()])?;
    let mut command = Program::Nsenter.command();
    command.args([&enter(plug.holder), "ip", "link", "set", &peer, "master", BRIDGE, "up"]);
    run(command)
}

/// Brings the loopback of the namespace this process is in up.
pub fn loopback() -> io::Result<()> {
    ip(&["link", "set", "lo", "up"])
}

fn ip(arguments: &[&str]) -> io::Result<()> {
    let mut command = Program::Ip.command();
    command.args(arguments);
    run(command)
}

fn run(mut command: Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}
