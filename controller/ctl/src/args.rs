//! What can be said to `luciactl`.

mod owner;
mod token;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use lucia_proto::host_api::{KeyLabel, Minutes};
use lucia_proto::ids::StartId;
use lucia_proto::key::{Fingerprint, VerificationCode};
use lucia_proto::names::{AccountName, DiskId, Hostname};

use crate::context::ContextName;
pub(crate) use owner::{
    Admit, Audit, AuditVerb, ContextVerb, Login, NodesWanted, PasskeyVerb, ReleaseLapse, SessionVerb, Sign,
};
pub(crate) use token::{AddToken, TokenVerb};

const AFTER_HELP: &str = "\
Examples:
  luciactl window open --minutes 30
  luciactl onboarding
  luciactl approve 1a2b-3c4d-5e6f --fingerprint HEX --hostname web-1 --disk ID
  luciactl nodes
  luciactl events --follow
  luciactl login --controller https://controller.lucia.home.arpa:8443 --root root.pem --name alice
  luciactl drafts
  luciactl sign 1a2b-3c4d-5e6f

On the controller's own host it speaks to the socket, as root or as the controller's
user. On any other machine it speaks TLS as an owner: luciactl login makes the key
and the context.

Files:
  $XDG_CONFIG_HOME/lucia/luciactl.toml, else ~/.config/lucia/luciactl.toml: the contexts,
  each with its root and key beside it
Environment:
  LUCIACTL_CONFIG  names another such file
  NO_COLOR         takes the colours
Exit codes:
  0   done
  1   refused or failed
  64  wrong usage
  69  the controller does not answer
  78  context, root or key file cannot be used";

const EVERYWHERE: &str = "With every command";

/// Sees and orders what a Lucia controller does.
#[derive(Debug, Parser)]
#[command(name = "luciactl", version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Answers in JSON, for programs.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) json: bool,
    /// How answers are written: table, wide (every column, however wide) or json.
    #[arg(
        long,
        short,
        global = true,
        value_name = "FORM",
        conflicts_with = "json",
        default_value = "table",
        hide_possible_values = true,
        help_heading = EVERYWHERE
    )]
    pub(crate) output: Output,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Which controller, and as whom.
#[derive(Debug, ClapArgs)]
pub(crate) struct Place {
    /// The controller's socket; /run/lucia/controller.sock where there is no context.
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "PATH", conflicts_with = "context")]
    pub(crate) socket: Option<PathBuf>,
    /// The context to use this time.
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "NAME")]
    pub(crate) context: Option<ContextName>,
    /// The file of the contexts.
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Takes the passphrase of the owner key from this file's first line and does not ask; /dev/fd/3 is a descriptor.
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
}

/// A form of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Tables that fit the terminal.
    Table,
    /// Tables with every column, however wide.
    Wide,
    /// The same as --json.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Shows the discovery window, the enrollment worker and every device that is no node yet.
    Onboarding,
    /// Opens or closes the discovery window.
    #[command(subcommand)]
    Window(Window),
    /// Approves an installation: its disk will be erased.
    ///
    /// As an owner this also signs the `admit` order, without which the machine gets no certificate.
    Approve(Approve),
    /// Signs that a machine may become a node.
    Admit(Admit),
    /// Rejects a discovered device.
    Reject(Device),
    /// Takes a device off the list that is discovered, rejected or failed.
    Dismiss(Device),
    /// Puts a rejected device back on the list.
    Restore(Device),
    /// Shows every node.
    Nodes,
    /// Shows one node with its last hour, once or as it lives.
    #[command(after_help = "Examples:\n  luciactl node web-1\n  luciactl node web-1 --watch")]
    Node(Watched),
    /// Gives a node the name that its machine calls itself by; the same key gets a certificate for it.
    ///
    /// A machine whose /etc/hostname was changed goes on under the name it had, and `nodes` shows both. Where the worker's
    /// admission is "operator", somebody there says so as well: lucia-enrollment-worker rename NODE NAME. The name before,
    /// given while the rename is under way, takes it back.
    #[command(after_help = "Example:\n  luciactl rename web-1 web-2")]
    Rename(Rename),
    /// Removes a node or device for good: its key is refused from then on.
    ///
    /// As an owner this signs the order: the node wipes what it has of the fleet and is a plain machine again.
    Remove(Remove),
    /// Signs that a node may renew whose certificate ended too long ago.
    ReleaseLapse(ReleaseLapse),
    /// Decides about a node whose identity is frozen, because two machines hold it.
    #[command(subcommand)]
    Clone(CloneVerb),
    /// Lists, adds and removes the SSH keys that nodes are given.
    #[command(subcommand)]
    Keys(KeysVerb),
    /// Makes an owner key on this machine, asks for a place in the roster, and writes a context.
    Login(Login),
    /// Shows who the context says you are, and what the roster says of your key.
    Whoami,
    /// Lists, chooses, shows and removes contexts.
    #[command(subcommand)]
    Context(ContextVerb),
    /// Shows everybody of the roster, after checking it.
    Owners,
    /// Shows an order in words made from the very bytes, and signs it.
    Sign(Sign),
    /// Shows orders, who signed them, and what became of them.
    Drafts,
    /// Throws an order away that nobody was handed, or that nobody carries out any more.
    Drop {
        /// Its code.
        #[arg(value_name = "CODE")]
        code: VerificationCode,
    },
    /// Confirms, lists and removes the passkeys that sign in to the page.
    #[command(subcommand)]
    Passkey(PasskeyVerb),
    /// Lists the sessions of the page, and ends them.
    #[command(subcommand)]
    Session(SessionVerb),
    /// Makes, lists and removes tokens by which a program looks that nobody sits at.
    #[command(subcommand)]
    Token(TokenVerb),
    /// Says what the controller knows of a node, what is wrong, and what cures it.
    Why(Node),
    /// Shows who changed or ordered what, from where, and what came of it.
    Audit(Audit),
    /// Shows what happened to the window, to devices and to nodes.
    Events(Events),
    /// Shows the controller itself: version, certificate, what it counted.
    Status,
    /// Prints the completions of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Prints the manual page, or lays a page for each verb into a directory.
    #[command(after_help = "Examples:\n  luciactl man | man -l -\n  luciactl man --into /usr/local/share/man/man1")]
    Man {
        /// Writes luciactl.1 and a page for each verb into this directory instead.
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
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
    /// The whole fingerprint as the machine's own screen shows it: a code alone can be imitated. Without it you are asked
    /// to type it.
    #[arg(long, value_name = "HEX", value_parser = fingerprint)]
    pub(crate) fingerprint: Option<Fingerprint>,
    /// What the node will be called.
    #[arg(long, value_name = "NAME")]
    pub(crate) hostname: Hostname,
    /// The disk to erase, by the id that `onboarding` shows.
    #[arg(long, value_name = "ID")]
    pub(crate) disk: DiskId,
    /// The node that had this name, if this is its machine with a new key: it is removed in the same act, and nothing
    /// of it passes on. By hostname, node id or verification code; one that was removed before by its node id.
    #[arg(long, value_name = "NODE")]
    pub(crate) replaces: Option<String>,
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
pub(crate) struct Watched {
    /// Its hostname, node id or verification code.
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
    /// Goes on showing it, the last hour in a line for each measure.
    #[arg(long, short)]
    pub(crate) watch: bool,
    /// Seconds between two looks.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600), requires = "watch")]
    pub(crate) every: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Rename {
    /// Its hostname, node id or verification code.
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
    /// What its machine calls itself.
    #[arg(value_name = "NAME")]
    pub(crate) name: Hostname,
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
        #[command(flatten)]
        wanted: NodesWanted,
    },
    /// Removes a key: each node is told to forget it at its next heartbeat.
    Remove {
        /// The account whose key it is.
        #[arg(value_name = "ACCOUNT")]
        account: AccountName,
        /// `SHA256:...`, as the list and `ssh-keygen -l` show it.
        #[arg(value_name = "FINGERPRINT")]
        fingerprint: String,
        #[command(flatten)]
        wanted: NodesWanted,
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
pub(crate) fn fingerprint(text: &str) -> Result<Fingerprint, String> {
    let plain: String = text.chars().filter(|c| !matches!(c, ':' | ' ' | '-')).collect();
    plain.to_ascii_lowercase().parse().map_err(|_| "a fingerprint is 64 hex digits".to_owned())
}
