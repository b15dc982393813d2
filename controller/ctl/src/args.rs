//! What can be said to `luciactl`.

mod owner;
mod token;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use lucia_people::host_api::Minutes;
use lucia_proto::base::bounded::KeyLabel;
use lucia_proto::base::ids::StartId;
use lucia_proto::base::names::{AccountName, DiskId, Hostname};
use lucia_proto::pki::key::{Fingerprint, VerificationCode};

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
  COLUMNS          how wide tables are, where no terminal says so

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
    /// Write answers and errors in JSON, for programs.
    ///
    /// An error is one line on standard error: {"error":{"code","message","type"}}.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) json: bool,
    /// How answers are written: table, wide (every column and id, however wide) or json.
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

impl Args {
    /// Whether answers and errors are for programs.
    pub(crate) fn in_json(&self) -> bool {
        self.json || self.output == Output::Json
    }
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
    #[command(after_help = "Examples:\n  luciactl onboarding\n  luciactl --json onboarding")]
    Onboarding,
    /// Opens or closes the discovery window.
    #[command(subcommand, after_help = "Examples:\n  luciactl window open --minutes 30\n  luciactl window close")]
    Window(Window),
    /// Approves an installation: its disk will be erased.
    ///
    /// As an owner this also signs the `admit` order, without which the machine gets no certificate.
    Approve(Approve),
    /// Signs that a machine may become a node.
    Admit(Admit),
    /// Rejects a discovered device.
    #[command(after_help = "Example:\n  luciactl reject 1a2b-3c4d-5e6f")]
    Reject(Device),
    /// Removes a discovered, rejected or failed machine from the list.
    #[command(after_help = "Example:\n  luciactl dismiss 1a2b-3c4d-5e6f")]
    Dismiss(Device),
    /// Puts a rejected device back on the list.
    #[command(after_help = "Example:\n  luciactl restore 1a2b-3c4d-5e6f")]
    Restore(Device),
    /// Shows every node.
    #[command(after_help = "Examples:\n  luciactl nodes\n  luciactl nodes -o wide")]
    Nodes,
    /// Shows one node with its last hour, once or as it lives.
    #[command(after_help = "Examples:\n  luciactl node web-1\n  luciactl node web-1 --watch")]
    Node(Watched),
    /// Gives a node the name that its machine calls itself by; the same key gets a certificate for it.
    ///
    /// A machine whose /etc/hostname was changed goes on under the name it had, and `nodes` shows both. On the worker's
    /// host somebody says so as well: lucia-enrollment-worker rename NODE NAME. Where its admission is "journal" it does that
    /// by itself. Until the node is heard under the new name, every command takes either. The name before, given while the
    /// rename is under way, takes it back.
    #[command(after_help = "Example:\n  luciactl rename web-1 web-2")]
    Rename(Rename),
    /// Removes a node or device for good: its key is refused from then on.
    ///
    /// As an owner this signs the order: the node wipes what it has of the fleet and is a plain machine again.
    #[command(after_help = "Example:\n  luciactl remove web-1")]
    Remove(Remove),
    /// Signs that a node may renew whose certificate ended too long ago.
    ReleaseLapse(ReleaseLapse),
    /// Decides about a node whose identity is frozen, because two machines hold it.
    #[command(
        subcommand,
        after_help = "Examples:\n  luciactl node web-1\n  luciactl clone keep web-1 --start ID\n  luciactl clone split web-1"
    )]
    Clone(CloneVerb),
    /// List, add and remove SSH keys by orders that you sign.
    #[command(
        subcommand,
        after_help = "Examples:\n  luciactl keys list\n  luciactl keys add alice ~/.ssh/id_ed25519.pub --label laptop --all"
    )]
    Keys(KeysVerb),
    /// Makes an owner key on this machine, asks for a place in the roster, and writes a context.
    Login(Login),
    /// Shows who the context says you are, and what the roster says of your key.
    #[command(after_help = "Example:\n  luciactl whoami")]
    Whoami,
    /// Lists, chooses, shows and removes contexts.
    #[command(subcommand, after_help = "Examples:\n  luciactl context list\n  luciactl context use home")]
    Context(ContextVerb),
    /// Shows everybody of the roster, after checking it.
    #[command(after_help = "Examples:\n  luciactl owners\n  luciactl owners -o wide")]
    Owners,
    /// Shows an order in words made from the very bytes, and signs it.
    Sign(Sign),
    /// Shows orders, who signed them, and what became of them; the page has them under Orders.
    #[command(visible_alias = "orders", after_help = "Examples:\n  luciactl drafts\n  luciactl orders -o wide")]
    Drafts,
    /// Throws an order away that nobody was handed, or that nobody carries out any more.
    #[command(after_help = "Example:\n  luciactl drop 1a2b-3c4d-5e6f")]
    Drop {
        /// Its code.
        #[arg(value_name = "CODE")]
        code: VerificationCode,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Confirms, lists and removes the passkeys that sign in to the page.
    #[command(subcommand)]
    Passkey(PasskeyVerb),
    /// Lists the sessions of the page, and ends them.
    #[command(subcommand, after_help = "Examples:\n  luciactl session list\n  luciactl session end --all")]
    Session(SessionVerb),
    /// Makes, lists and removes tokens by which a program looks that nobody sits at.
    #[command(
        subcommand,
        after_help = "Examples:\n  luciactl token list\n  luciactl token add prometheus --scope status,nodes --days 90"
    )]
    Token(TokenVerb),
    /// Says what the controller knows of a node, what is wrong, and what cures it; also of a removed one, and of a machine
    /// that is no node yet.
    #[command(after_help = "Example:\n  luciactl why web-1")]
    Why(Node),
    /// Shows who changed or ordered what, from where, and what came of it.
    Audit(Audit),
    /// Shows what happened to the window, to devices and to nodes.
    #[command(after_help = "Examples:\n  luciactl events\n  luciactl events --follow\n  luciactl events -o wide")]
    Events(Events),
    /// Shows the controller itself: version, certificate, what it counted.
    #[command(after_help = "Examples:\n  luciactl status\n  luciactl status -o wide")]
    Status,
    /// Prints the completions of a shell.
    #[command(after_help = "Example:\n  luciactl completions bash > /usr/share/bash-completion/completions/luciactl")]
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
    #[command(after_help = "Example:\n  luciactl window open --minutes 30")]
    Open {
        /// For how long, 1 to 60 minutes.
        #[arg(long, value_name = "N", default_value = "15")]
        minutes: Minutes,
    },
    /// Ends that at once.
    #[command(after_help = "Example:\n  luciactl window close")]
    Close,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Device {
    /// The verification code, as the machine shows it.
    #[arg(value_name = "CODE")]
    pub(crate) code: VerificationCode,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  luciactl approve 1a2b-3c4d-5e6f --fingerprint HEX --hostname web-1 --disk ID
  luciactl approve 1a2b-3c4d-5e6f --fingerprint HEX --hostname web-1 --replaces web-1
  luciactl approve 1a2b-3c4d-5e6f --fingerprint \"FIRST ROW
    SECOND ROW\" --hostname web-1 --disk ID

CODE and HEX are read from the machine's own screen, ID from luciactl onboarding. The second is for a machine that runs
and has a new key: nothing is erased.
Without --fingerprint you are asked for its two rows.")]
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
    /// The disk to erase, by the id that `onboarding` shows. Leave it out for a machine that runs, which joins as it is.
    #[arg(long, value_name = "ID")]
    pub(crate) disk: Option<DiskId>,
    /// The node that had this name, if this is its machine with a new key: it is removed in the same act, and nothing
    /// of it passes on. By hostname, node id or verification code, also one that was removed before.
    #[arg(long, value_name = "NODE")]
    pub(crate) replaces: Option<String>,
    /// Does not ask before the machine is approved, and its disk given to be erased.
    #[arg(long)]
    pub(crate) yes: bool,
    /// The same for a disk, said as the question wants it answered.
    #[arg(long, value_name = "ERASE", conflicts_with = "yes", requires = "disk", value_parser = ["ERASE"])]
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
    #[command(after_help = "Example:\n  luciactl clone keep web-1 --start ID")]
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
    #[command(after_help = "Example:\n  luciactl clone split web-1")]
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
    /// List the keys that owners ordered.
    #[command(after_help = "Example:\n  luciactl keys list")]
    List,
    /// Sign an order that adds a key; each node takes it with its next heartbeat.
    ///
    /// The first order about an account says for which nodes: --nodes or --all.
    #[command(
        after_help = "Examples:\n  luciactl keys add alice ~/.ssh/id_ed25519.pub --label laptop --all\n  luciactl keys add alice ~/.ssh/id_ed25519.pub --label laptop --nodes web-1,web-2"
    )]
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
    /// Sign an order that removes a key; each node drops it with its next heartbeat.
    #[command(after_help = "Example:\n  luciactl keys remove alice SHA256:...")]
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

/// As a person types or pastes it: upper or lower case, in one row or two, with colons or spaces between.
pub(crate) fn fingerprint(text: &str) -> Result<Fingerprint, String> {
    Fingerprint::typed(&digits(text))
        .map_err(|_| "a fingerprint is 64 hex digits, as the two rows show them".to_owned())
}

/// What is typed without what stands between the digits.
pub(crate) fn digits(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !matches!(c, ':' | '-')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, CommandFactory as _};

    fn walk(command: &Command, name: &str, without: &mut Vec<String>) {
        let shown = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let does = |line: &str| line.trim_start().contains(name);
        let example = shown.starts_with("Example") && shown.lines().skip(1).any(does);
        if !example {
            without.push(name.to_owned());
        }
        for verb in command.get_subcommands() {
            walk(verb, &format!("{name} {}", verb.get_name()), without);
        }
    }

    // spec: LC-96
    #[test]
    fn every_verb_shows_an_example() {
        let mut without = Vec::new();
        walk(&Args::command(), "luciactl", &mut without);
        assert_eq!(without, [""; 0]);
    }

    /// An example is taken as it stands, with values where it has words in capitals.
    // spec: LC-96
    #[test]
    fn every_example_is_taken() {
        fn examples(command: &Command, all: &mut Vec<String>) {
            let shown = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines =
                shown.lines().map(str::trim).filter(|line| line.starts_with("luciactl ") && !line.contains('"'));
            all.extend(lines.take_while(|line| !line.ends_with(',')).map(str::to_owned));
            command.get_subcommands().for_each(|verb| examples(verb, all));
        }
        let mut all = Vec::new();
        examples(&Args::command(), &mut all);
        assert!(all.len() > 50, "{all:?}");
        let hex = "0".repeat(64);
        for example in all {
            let plain = example.split(['>', '|']).next().unwrap_or_default();
            let words = plain.split_whitespace().map(|word| match word {
                "HEX" => hex.clone(),
                "ID" => "0".repeat(32),
                word => word.replace("HEX", &hex),
            });
            let taken = Args::try_parse_from(words);
            assert!(taken.is_ok(), "{example}: {}", taken.unwrap_err());
        }
    }

    // spec: LC-97
    #[test]
    fn a_fingerprint_is_taken_as_it_was_shown() {
        let key: Fingerprint = "1a2b3c4d5e6f00000000000000000000ffffffffffffffffffffffffffffffff".parse().unwrap();
        let [first, second] = key.rows();
        for text in [
            key.to_string(),
            key.to_string().to_uppercase(),
            format!("{first}\n{second}\n"),
            format!("  {first}\r\n      {second}"),
            format!("{first} {second}").replace(' ', ":"),
        ] {
            assert_eq!(fingerprint(&text), Ok(key), "{text}");
        }
        for bad in ["", "1a2b", first.as_str(), &format!("{first} {second} 0")] {
            assert!(fingerprint(bad).is_err(), "{bad}");
        }
    }
}
