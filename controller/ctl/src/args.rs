//! What can be said to `luciactl`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};
use clap_complete::Shell;
use lucia_proto::host_api::{KeyLabel, Minutes};
use lucia_proto::ids::StartId;
use lucia_proto::key::{Fingerprint, VerificationCode};
use lucia_proto::names::{AccountName, DiskId, Hostname};

const AFTER_HELP: &str = "\
Examples:
  luciactl window open --minutes 30
  luciactl onboarding
  luciactl approve 1a2b-3c4d-5e6f --fingerprint HEX --hostname web-1 --disk ID
  luciactl nodes
  luciactl events --follow

Exit codes: 0 done, 1 refused or failed, 64 wrong usage, 69 the controller does not answer.
Run it as root or as the controller's own user.";

/// Sees and orders what a Lucia controller does.
#[derive(Debug, Parser)]
#[command(name = "luciactl", version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The controller's socket.
    #[arg(long, global = true, value_name = "PATH", default_value = "/run/lucia/controller.sock")]
    pub(crate) socket: PathBuf,
    /// Answers in JSON, for programs.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Shows the discovery window, the enrollment worker and every device that is no node yet.
    Onboarding,
    /// Opens or closes the discovery window.
    #[command(subcommand)]
    Window(Window),
    /// Approves an installation: its disk will be erased.
    Approve(Approve),
    /// Rejects a discovered device.
    Reject(Device),
    /// Takes a device off the list that is discovered, rejected or failed.
    Dismiss(Device),
    /// Puts a rejected device back on the list.
    Restore(Device),
    /// Shows every node.
    Nodes,
    /// Shows one node with its last hour.
    Node(Node),
    /// Removes a node or device for good: its key is refused from then on.
    Remove(Remove),
    /// Decides about a node whose identity is frozen, because two machines hold it.
    #[command(subcommand)]
    Clone(CloneVerb),
    /// Lists, adds and removes the SSH keys that nodes are given.
    #[command(subcommand)]
    Keys(KeysVerb),
    /// Shows what happened to the window, to devices and to nodes.
    Events(Events),
    /// Shows the controller itself: version, certificate, what it counted.
    Status,
    /// Prints the completions of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Prints the manual page.
    Man,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Window {
    /// Lets machines introduce themselves for a while.
    Open {
        /// For how long, 1 to 60 minutes.
        #[arg(long, value_name = "N", default_value = "15")]
        minutes: Minutes,
    },
    /// Ends that at once.
    Close,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Device {
    /// The verification code, as the machine shows it.
    #[arg(value_name = "CODE")]
    pub(crate) code: VerificationCode,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Approve {
    /// The verification code, as the machine shows it.
    #[arg(value_name = "CODE")]
    pub(crate) code: VerificationCode,
    /// The whole fingerprint as the machine's own screen shows it: a code alone can be imitated.
    #[arg(long, value_name = "HEX", value_parser = fingerprint)]
    pub(crate) fingerprint: Fingerprint,
    /// What the node will be called.
    #[arg(long, value_name = "NAME")]
    pub(crate) hostname: Hostname,
    /// The disk to erase, by the id that `onboarding` shows.
    #[arg(long, value_name = "ID")]
    pub(crate) disk: DiskId,
    /// Does not ask before the disk is given to be erased.
    #[arg(long)]
    pub(crate) yes: bool,
    /// The same, said as the question wants it answered.
    #[arg(long, value_name = "ERASE", conflicts_with = "yes", value_parser = ["ERASE"])]
    pub(crate) erase: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Node {
    /// Its hostname, node id or verification code.
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Remove {
    /// Its hostname, node id or verification code.
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
    /// Does not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CloneVerb {
    /// Keeps the machine with this start: it goes on as before, the other one is told that it is frozen.
    ///
    /// The other machine still has the key. Where you do not know what became of it, split instead.
    Keep {
        /// Its hostname, node id or verification code.
        #[arg(value_name = "NODE")]
        node: String,
        /// The start of the machine that stays, as `luciactl node NODE` and, there, `lucia-node-agent status` show it.
        #[arg(long, value_name = "ID")]
        start: StartId,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Keeps neither: removes the identity for good. Each machine gets a new one by `lucia-node-agent rekey`.
    Split {
        /// Its hostname, node id or verification code.
        #[arg(value_name = "NODE")]
        node: String,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysVerb {
    /// Shows every key.
    List,
    /// Adds a key: each node is told of it at its next heartbeat.
    #[command(after_help = "Example:\n  luciactl keys add alice ~/.ssh/id_ed25519.pub --label laptop")]
    Add {
        /// The directory account whose key it is.
        #[arg(value_name = "ACCOUNT")]
        account: AccountName,
        /// The public key's file; - for standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// What you call it.
        #[arg(long, value_name = "TEXT")]
        label: KeyLabel,
    },
    /// Removes a key: each node is told to forget it at its next heartbeat.
    Remove {
        /// The account whose key it is.
        #[arg(value_name = "ACCOUNT")]
        account: AccountName,
        /// `SHA256:...`, as the list and `ssh-keygen -l` show it.
        #[arg(value_name = "FINGERPRINT")]
        fingerprint: String,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Events {
    /// Goes on showing events as they happen.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only events after this number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) after: u64,
}

/// As a person types it: upper or lower case, with colons or spaces between.
fn fingerprint(text: &str) -> Result<Fingerprint, String> {
    let plain: String = text.chars().filter(|c| !matches!(c, ':' | ' ' | '-')).collect();
    plain.to_ascii_lowercase().parse().map_err(|_| "a fingerprint is 64 hex digits".to_owned())
}
