//! Verbs, help and exit codes. Each verb is put together here and does its work elsewhere.

mod health;
mod installer;
mod managed;
mod policy;
mod rekey;
mod show;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use lucia_daemon::exit::{self, Exit};

use crate::host::root::Root;

/// Lines of 80 columns at most: longer ones are wrapped by a terminal of that width, and a table or command is torn.
const AFTER_HELP: &str = "\
On a machine to be installed, in this order:
  lucia-node-agent discover      shows it to the controller, and its code to you
  lucia-node-agent wait-install  waits for the approval, takes the one grant
  lucia-node-agent installation-guard && (erase the disk, install on /target)
  lucia-node-agent stage-managed --root /target
  reboot

On a node:
  lucia-node-agent why           one sentence: how it is now, and the cure
  lucia-node-agent status --json
  lucia-node-agent policy show   what owners may order this node to do

Exit codes:
  0   done; of `why` and `status`: healthy
  1   failed; of `why` and `status`: not healthy, standard output says why
  64  wrong usage
  78  wrong settings (agent.toml or agent-policy.toml in /etc/lucia)
  managed-run:
  10  not at its path
  11  not the installed system
  12  still the installer's boot
  13  before the first certificate: /etc/hostname is not the approved name
  14  an owner decided that another machine goes on as this node, or none
  15  an owner removed this node's identity
  installation-guard:
  20  no grant
  21  grant over
  22  another boot
  23  disk missing or not erasable
  24  the controller does not agree
  wait-install:
  30  not approved in time
  31  rejected
  32  cannot be installed as it stands
  rekey:
  40  the daemon or another verb runs
  41  not confirmed
  42  no key to replace";

/// The agent of Lucia Nodes: makes a key, proves it, and runs on every node.
#[derive(Debug, Parser)]
#[command(name = "lucia-node-agent", version, after_help = AFTER_HELP, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Prints what this machine is made of
    Inspect {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Makes the key if there is none, and shows this machine to the controller
    Discover {
        /// Prints JSON
        #[arg(long)]
        json: bool,
        /// Seconds to go on trying while the discovery window is closed or the controller is away
        #[arg(long, value_name = "SECONDS", default_value_t = 0)]
        timeout: u64,
    },
    /// Show how the agent is now, and what was refused last; exit 1 unless it is healthy
    Status {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Say in one sentence how the agent is now and what cures it; exit 1 unless it is healthy
    Why {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Waits until this machine is approved, and takes the grant
    WaitInstall {
        /// Seconds to wait; without it as long as it takes
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u64>,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Succeeds only if the approved disk may be erased now
    InstallationGuard,
    /// Puts agent, key and settings onto the installed system
    StageManaged {
        /// Where the installed system is mounted
        #[arg(long, value_name = "DIR")]
        root: PathBuf,
        /// What owners may order the node to do; without it every kind that this version carries out
        #[arg(long, value_name = "FILE")]
        policy: Option<PathBuf>,
    },
    /// Show or change what owners may order this node to do
    Policy {
        #[command(subcommand)]
        verb: policy::Verb,
    },
    /// Makes a new key in place of one that another machine has too; then discovery and approval begin anew
    Rekey {
        /// Does not ask
        #[arg(long)]
        yes: bool,
        /// After `wait-install`: the installed system goes on under the new key
        #[arg(long, conflicts_with = "yes")]
        finish: bool,
    },
    /// Prints the manual's page, or lays all of them into a directory
    #[command(hide = true)]
    Man {
        /// The directory
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
    /// Runs as the node's daemon; started by its service only
    ManagedRun,
}

/// The command line's grammar, for man pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the verb of `arguments`.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let parsed = Arguments::command().try_get_matches_from(arguments);
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return exit::unparsed(&error),
    };
    // The journal adds time and priority itself.
    lucia_daemon::log::text(tracing::Level::INFO);
    match run(arguments.verb, &Root::system()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit::report("lucia-node-agent", &exit),
    }
}

fn run(verb: Verb, root: &Root) -> Result<(), Exit> {
    match verb {
        Verb::Inspect { json } => show::inspect(root, json),
        Verb::Status { json } => show::status(root, json),
        Verb::Why { json } => show::why(root, json),
        Verb::Discover { json, timeout } => installer::discover(root, json, Duration::from_secs(timeout)),
        Verb::WaitInstall { timeout, json } => installer::wait_install(root, json, timeout.map(Duration::from_secs)),
        Verb::InstallationGuard => installer::guard(root),
        Verb::StageManaged { root: target, policy } => installer::stage_managed(root, &target, policy.as_deref()),
        Verb::Policy { verb } => policy::run(root, verb),
        Verb::Rekey { finish: true, .. } => installer::finish_rekey(root),
        Verb::Rekey { yes, .. } => rekey::run(root, yes),
        Verb::Man { into } => lucia_manual::run(command(), into.as_deref()).map_err(Exit::from),
        Verb::ManagedRun => managed::run(root),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_holds_together() {
        command().debug_assert();
        let managed_run = command().find_subcommand("managed-run").unwrap().get_arguments().count();
        assert_eq!(managed_run, 0, "managed-run takes no flags");
    }

    #[test]
    fn every_exit_code_is_in_the_help() {
        for code in [0, 1, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 24, 30, 31, 32, 40, 41, 42, 64, 78] {
            assert!(AFTER_HELP.lines().any(|line| line.starts_with(&format!("  {code:<2}  "))), "{code}");
        }
    }

    // spec: AO-102
    #[test]
    fn no_line_of_the_help_that_stands_as_it_is_is_wrapped_at_80_columns() {
        let long: Vec<_> = AFTER_HELP.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(long.is_empty(), "{long:?}");
    }
}
