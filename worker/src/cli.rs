//! The commands, their help and their exit codes.

mod acts;
mod admit;
mod at;
mod audit;
mod begin;
mod candidates;
mod directory;
mod hold;
mod owner;
mod owner_key;
mod rename;
mod roster;
mod run;
mod server;
mod user;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use lucia_daemon::clock::now;
use lucia_daemon::exit::{self, Exit};
use lucia_daemon::log;

use self::at::{At, GivenFiles, say, to_json};
use crate::config::Config;
use crate::directory::prepare::{CONFIG_DN, SOCKET};
use crate::home::Home;
use crate::ledger::Ledger;
use crate::{status, survey};

const EXAMPLES: &str = "\
Examples:
  lucia-enrollment-worker init --names controller.lucia.home.arpa
  lucia-enrollment-worker check-config
  lucia-enrollment-worker status
  lucia-enrollment-worker pending
  lucia-enrollment-worker admit 1a2b-3c4d-5e6f --fingerprint 1a2b3c4d5e6f...
  lucia-enrollment-worker admit 1a2b-3c4d-5e6f --fingerprint 1a2b3c4d5e6f... \\
    --replaces n1
  lucia-enrollment-worker confirm-removals n1 n2
  lucia-enrollment-worker accept-journal
  lucia-enrollment-worker release-lapse n1
  lucia-enrollment-worker rename n1 web-1
  lucia-enrollment-worker owner pending
  lucia-enrollment-worker owner approve 1a2b-3c4d-5e6f \\
    --fingerprint 1a2b3c4d5e6f...
  lucia-enrollment-worker owner remove alice
  lucia-enrollment-worker owner approve 1a2b-3c4d-5e6f \\
    --fingerprint 1a2b3c4d5e6f... --for alice
  lucia-enrollment-worker roster policy set ssh-key=two-owners
  lucia-enrollment-worker audit anchors
  lucia-enrollment-worker sign-directory --csr - --out - \\
    <directory.csr >directory.pem

Exit codes:
  0   done
  1   failed or refused; the message says why and what cures it
  64  wrong usage
  78  the settings cannot be used
  `status` and `once` give 1 while nodes cannot get certificates.

As whom:
As root or as the worker's user. Started by root, every command becomes the
owner of state-dir by itself, and nothing in there becomes root's.";

/// Holds the CA of a fleet, and signs only what the controller's journal and its own ledger agree on.
#[derive(Debug, Parser)]
#[command(name = "lucia-enrollment-worker", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Begin a fleet: make root, issuing CA, worker key, first bundle and ledger. Overwrites nothing.
    Init {
        #[command(flatten)]
        at: At,
        /// What nodes call the controller by: written into the settings file when there is none yet, else compared.
        #[arg(long, value_name = "NAME", num_args = 1..)]
        names: Vec<String>,
        #[command(flatten)]
        given: GivenFiles,
    },
    /// Sign with a new key from here on, and with none that was: after the worker's key was stolen. The worker is stopped for
    /// it. Nodes believe nothing that the former key signs once they have the next bundle, with their next heartbeat.
    RetireKey {
        #[command(flatten)]
        at: At,
        /// The root's key, unencrypted PKCS #8: signs the next bundle and is not kept.
        #[arg(long, value_name = "FILE")]
        root_key: PathBuf,
    },
    /// Answer requests until SIGTERM.
    Run {
        #[command(flatten)]
        at: At,
    },
    /// Answer what is in the queue now, then end.
    Once {
        #[command(flatten)]
        at: At,
        /// Print what was done as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Read the settings and say what is wrong with them.
    CheckConfig {
        /// The settings file.
        file: Option<PathBuf>,
        #[command(flatten)]
        at: At,
    },
    /// Show how the worker is, and what cures each thing that is wrong.
    Status {
        #[command(flatten)]
        at: At,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the requests in the queue and what will become of them.
    Pending {
        #[command(flatten)]
        at: At,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Let a new node into the ledger, after comparing with the machine's own screen.
    Admit {
        #[command(flatten)]
        at: At,
        /// The verification code on the machine's screen.
        #[arg(value_name = "CODE")]
        code: String,
        /// The whole fingerprint on the machine's screen: 64 hex digits; both rows as they stand, in quotes, are as good.
        #[arg(long, value_name = "HEX")]
        fingerprint: String,
        /// The name it takes from the key that had it: that key is barred for ever.
        #[arg(long, value_name = "NAME")]
        replaces: Option<String>,
    },
    /// Bar the keys of nodes that the controller removed, beyond those that go by themselves; with an owner none does.
    /// Alone: show them.
    ConfirmRemovals {
        #[command(flatten)]
        at: At,
        /// Names or ids.
        #[arg(value_name = "NODE", conflicts_with = "all")]
        nodes: Vec<String>,
        /// All of them.
        #[arg(long)]
        all: bool,
    },
    /// Let suspended nodes go on which the controller's journal has again.
    Resume {
        #[command(flatten)]
        at: At,
        /// Names or ids.
        #[arg(value_name = "NODE", conflicts_with = "all")]
        nodes: Vec<String>,
        /// All of them.
        #[arg(long)]
        all: bool,
    },
    /// Take the controller's journal as it is, although it went back or is no continuation.
    AcceptJournal {
        #[command(flatten)]
        at: At,
        /// Its generation, instead of typing it when asked.
        #[arg(long, value_name = "N")]
        generation: Option<u64>,
    },
    /// Show how long a node was gone, and let it renew although that was longer than max-lapse.
    ReleaseLapse {
        #[command(flatten)]
        at: At,
        /// Its name or id.
        #[arg(value_name = "NODE")]
        node: String,
        /// The code on the machine's own screen, instead of typing it when asked.
        #[arg(long, value_name = "CODE")]
        code: Option<String>,
    },
    /// Let a node have the name that the controller's journal gives it, with the key it has.
    Rename {
        #[command(flatten)]
        at: At,
        /// Its name here, or its id.
        #[arg(value_name = "OLD")]
        old: String,
        /// The name it calls itself by, and was given by `luciactl rename`.
        #[arg(value_name = "NEW")]
        new: String,
    },
    /// Prints the manual's page, or lays all of them into a directory
    #[command(hide = true)]
    Man {
        /// The directory
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
    /// Owners: who may order. Decided here and nowhere else.
    #[command(subcommand)]
    Owner(owner::OwnerCommand),
    /// The roster: the signed list of owners, as nodes get it.
    #[command(subcommand)]
    Roster(roster::RosterCommand),
    /// The controller's audit, as far as this worker saw it.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Sign the certificate of the directory's own server: for a P-256 key, names out of `[directory] names`, and as long
    /// as `certificate-days` says. Each is a line of the ledger.
    #[command(after_help = REQUEST)]
    SignDirectory {
        #[command(flatten)]
        at: At,
        /// The request, PEM; - is standard input.
        #[arg(long, value_name = "FILE")]
        csr: PathBuf,
        /// Where the certificate goes; - is standard output. A file that is no certificate is not replaced.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Add the two leading access rules and the readers' place to the directory, once. Keeps the former rules beside the
    /// ledger. Takes the password of cn=config from directory-config.password in state-dir, or --ldapi.
    PrepareDirectory {
        #[command(flatten)]
        at: At,
        /// As whom cn=config is changed.
        #[arg(long, value_name = "DN", default_value = CONFIG_DN)]
        config_dn: String,
        /// As root, by slapd's socket on this host instead of a password: Debian's default.
        #[arg(long, value_name = "SOCKET", num_args = 0..=1, default_missing_value = SOCKET, conflicts_with = "config_dn")]
        ldapi: Option<PathBuf>,
        /// Change nothing; say what is missing. Gives 1 while something is.
        #[arg(long)]
        check: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

const REQUEST: &str = "\
Make key and request on the directory's host; the key never leaves it:
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \\
    -keyout directory.key -subj /CN=directory.example.net \\
    -addext subjectAltName=DNS:directory.example.net -out directory.csr

Both files may be -, since the worker's user can seldom write where you are:
  lucia-enrollment-worker sign-directory --csr - --out - \\
    <directory.csr >directory.pem

The answer is the certificate and the issuing CA's, for slapd's
TLSCertificateFile; nodes check it against the root.";

/// Runs the program; the only thing `main` calls.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return exit::unparsed(&error),
    };
    match act(cli.command) {
        Ok(code) => code,
        Err(exit) => exit::report("lucia-enrollment-worker", &exit),
    }
}

fn act(command: Command) -> Result<ExitCode, Exit> {
    match command {
        Command::Init { at, names, given } => begin::begin(&at, &names, &given),
        Command::Run { at } => {
            let config = at.enter()?;
            log::start(config.log, tracing::Level::INFO);
            run::run(config)
        }
        Command::Once { at, json } => {
            let config = at.enter()?;
            log::start(config.log, tracing::Level::INFO);
            run::once(config, json)
        }
        Command::CheckConfig { file, at } => {
            let path = file.unwrap_or(at.config);
            Config::load(&path).map_err(Exit::config)?;
            say(&format!("{}: the settings are right\n", path.display()));
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { into } => {
            let laid = lucia_manual::run(Cli::command(), into.as_deref());
            laid.map(|()| ExitCode::SUCCESS).map_err(Exit::from)
        }
        Command::Status { at, json } => {
            let status = status::status(&at.enter()?, now());
            say(&if json { to_json(&status)? } else { status.table() });
            Ok(if status.ready { ExitCode::SUCCESS } else { exit::FAILED.into() })
        }
        Command::RetireKey { at, root_key } => done(begin::retire_key(&at, &root_key)),
        Command::Pending { at, json } => {
            let config = at.enter()?;
            let home = Home::open(&config)?;
            let ledger = Ledger::load(&home.dir)?;
            let survey = survey::survey(&config, &home, ledger.records(), now()).waiting();
            say(&if json { to_json(&survey)? } else { status::pending_table(&survey) });
            Ok(ExitCode::SUCCESS)
        }
        Command::Admit { at, code, fingerprint, replaces } => {
            let config = at.enter()?;
            done(admit::admit(&config, &code, &fingerprint, replaces.as_deref()))
        }
        Command::ConfirmRemovals { at, nodes, all } => done(acts::confirm_removals(&at.enter()?, &nodes, all)),
        Command::Resume { at, nodes, all } => done(acts::resume(&at.enter()?, &nodes, all)),
        Command::AcceptJournal { at, generation } => done(acts::accept_journal(&at.enter()?, generation)),
        Command::ReleaseLapse { at, node, code } => done(acts::release_lapse(&at.enter()?, &node, code.as_deref())),
        Command::Rename { at, old, new } => done(rename::rename(&at.enter()?, &old, &new)),
        Command::Owner(command) => done(owner::owner(command)),
        Command::Roster(command) => done(roster::roster(command)),
        Command::Audit(command) => done(audit::audit(command)),
        Command::SignDirectory { at, csr, out } => {
            let server::Signed { chain, said } = server::sign_directory(&at, &csr, &out)?;
            match chain {
                None => say(&said),
                Some(chain) => {
                    say(&chain);
                    let _ = std::io::stderr().write_all(said.as_bytes());
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::PrepareDirectory { at, config_dn, ldapi, check, json } => {
            let report = directory::prepare_directory(&at, &config_dn, ldapi.as_deref(), check)?;
            say(&if json { to_json(&report)? } else { report.text() });
            Ok(if report.prepared { ExitCode::SUCCESS } else { exit::FAILED.into() })
        }
    }
}

/// Says what was done.
fn done(said: Result<String, Exit>) -> Result<ExitCode, Exit> {
    say(&said?);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands as it is at the end of a help, of the program and of every verb.
    // spec: AO-103
    #[test]
    fn no_line_to_be_pasted_is_wrapped_at_80_columns() {
        fn long(command: &clap::Command) -> Vec<String> {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let here = after.lines().filter(|line| line.chars().count() > 80).map(str::to_owned);
            here.chain(command.get_subcommands().flat_map(long)).collect()
        }
        assert_eq!(long(&Cli::command()), Vec::<String>::new());
        assert!(REQUEST.contains("-nodes \\\n    -keyout") && EXAMPLES.contains("Exit codes:\n"));
    }
}
