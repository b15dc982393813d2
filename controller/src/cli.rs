//! The verbs, their help, and what each exit code means.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser, Subcommand};
use lucia_daemon::clock::SystemClock;
use lucia_daemon::exit::{self, Exit};
use lucia_daemon::log;
use lucia_daemon::notify::Notify;
use lucia_daemon::process::protect;
use lucia_proto::base::text::counted;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::{App, AppError};
use crate::config::{Config, DEFAULT_FILE};
use crate::http::Timeouts;
use crate::parts::read_root;
use crate::refusal::chain;
use crate::store::{AuditReport, Generation, Health, Report, doctor, restore, verify_audit};

/// Checks proofs and certificates of nodes, keeps the journal, and asks the enrollment worker for certificates.
#[derive(Debug, Parser)]
#[command(name = "lucia-controller", version, arg_required_else_help = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const AFTER_HELP: &str = "\
Examples:
  lucia-controller check-config /etc/lucia/controller.toml
  lucia-controller run --config /etc/lucia/controller.toml
  lucia-controller doctor
  lucia-controller doctor --restore 1
  lucia-controller audit verify

Exit codes:
  0   done
  1   failed
  64  wrong usage
  78  settings refused

As whom:
`doctor` and `audit` look into the controller's own directory and run as its user:
  runuser -u lucia-controller -- lucia-controller doctor
The operator's own commands are in luciactl.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Runs the controller until SIGTERM or SIGINT.
    Run {
        /// The settings.
        #[arg(long, value_name = "FILE", default_value = DEFAULT_FILE)]
        config: PathBuf,
        /// Writes the TLS address here once bound: of use with port 0.
        #[arg(long, value_name = "FILE", hide = true)]
        ready_file: Option<PathBuf>,
    },
    /// Says whether a file of settings would be accepted, and whether the root is where it says.
    CheckConfig {
        /// The settings.
        #[arg(value_name = "FILE", default_value = DEFAULT_FILE)]
        config: PathBuf,
    },
    /// Looks at the journal, says what stopped a start and what cures it; with --restore brings a generation back.
    Doctor {
        /// The settings.
        #[arg(long, value_name = "FILE", default_value = DEFAULT_FILE)]
        config: PathBuf,
        /// Makes a former journal the current one: 1 is the newest, 3 the oldest, 0 takes over the one that is there.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=3))]
        restore: Option<u8>,
    },
    /// Prints the manual's page, or lays all of them into a directory
    #[command(hide = true)]
    Man {
        /// The directory
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
    /// The audit: who changed or ordered what.
    Audit {
        #[command(subcommand)]
        verb: AuditVerb,
    },
}

#[derive(Debug, Subcommand)]
enum AuditVerb {
    /// Reads the whole audit, and says how far its chain is whole or which line is not what was written.
    Verify {
        /// The settings.
        #[arg(long, value_name = "FILE", default_value = DEFAULT_FILE)]
        config: PathBuf,
    },
}

/// Does what the arguments say.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    // A system that refuses leaves it at that; the unit forbids core files as well.
    let _ = protect();
    let verb = match Cli::try_parse_from(args) {
        Ok(cli) => cli.verb,
        Err(error) => return exit::unparsed(&error),
    };
    match act(verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit::report("lucia-controller", &exit),
    }
}

fn act(verb: Verb) -> Result<(), Exit> {
    match verb {
        Verb::Run { config, ready_file } => run(&config, ready_file.as_deref()),
        Verb::CheckConfig { config } => {
            let settings = load(&config)?;
            say(&format!("{}: the settings are right", config.display()));
            // No setting's fault, and yet the next thing that stops a start.
            if let Err(error) = read_root(&settings.root_file) {
                say(&format!("before it can start: {}", chain(&error)));
            }
            Ok(())
        }
        Verb::Man { into } => lucia_manual::run(Cli::command(), into.as_deref())
            .map_err(|error| Exit::refused(format!("the manual cannot be written: {error}"))),
        Verb::Doctor { config, restore } => examine(&config, restore),
        Verb::Audit { verb: AuditVerb::Verify { config } } => verify(&config),
    }
}

/// A line for a person or a script; that nobody reads it is no failure.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn load(path: &Path) -> Result<Config, Exit> {
    let config = |text| Exit::said(exit::CONFIG, text);
    let text = fs::read_to_string(path)
        .map_err(|error| config(format!("cannot read the settings {}: {error}", path.display())))?;
    Config::parse(&text).map_err(|error| config(format!("{}: {}", path.display(), chain(&error))))
}

fn examine(config: &Path, generation: Option<u8>) -> Result<(), Exit> {
    let config = load(config)?;
    if let Some(generation) = generation.and_then(Generation::from_number) {
        restore(&config, generation)?;
        say("restored; start the controller");
        return Ok(());
    }
    let report = doctor(&config)?;
    say(&described(&report));
    if report.healthy { Ok(()) } else { Err(Exit::silent(exit::FAILED)) }
}

fn verify(config: &Path) -> Result<(), Exit> {
    let report = verify_audit(&load(config)?)?;
    let AuditReport { path, files, bytes, chain, torn } = report;
    let files = counted(u64::try_from(files).unwrap_or(u64::MAX), "file");
    say(&format!(
        "{}: {} whole, head {}; {files}, {bytes} bytes",
        path.display(),
        counted(chain.entries, "line"),
        chain.head
    ));
    if torn > 0 {
        say(&format!("{torn} bytes after it have no end: a line that is being written, or one that a crash cut off"));
    }
    Ok(())
}

/// The report for a person.
fn described(report: &Report) -> String {
    let mut lines = Vec::new();
    for finding in &report.findings {
        let health = match &finding.health {
            Health::Whole { generation, devices, tasks } => {
                format!("whole: generation {generation}, devices {devices}, tasks {tasks}")
            }
            Health::Missing => "not there".to_owned(),
            Health::Refused(reason) => format!("not read: {reason}"),
            Health::Damaged(reason) => format!("damaged: {reason}"),
            Health::Lease(state) => state.clone(),
        };
        lines.push(format!("{}  {health}", finding.path.display()));
    }
    lines.extend(report.cures.iter().map(|cure| format!("cure: {cure}")));
    if report.healthy {
        lines.push("a controller starts on this".to_owned());
    }
    lines.join("\n")
}

fn run(path: &Path, ready_file: Option<&Path>) -> Result<(), Exit> {
    let config = load(path)?;
    log::start(config.log.format, config.log.level.into());
    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_io()
        .enable_time()
        // One: a call is over in a tenth of a millisecond, and a second thread costs more in being woken for it than
        // it gives (BENCHMARKS.md). What waits for the disk has threads of its own.
        .worker_threads(1)
        // Calls that wait for the disk take turns at one journal: more threads would only wait in more memory.
        .max_blocking_threads(16)
        .build()
        .map_err(AppError::Signals)
        .and_then(|runtime| runtime.block_on(serve(&config, ready_file)));
    result.map_err(|error| {
        tracing::error!("{}", lucia_proto::base::text::shown(&chain(&error)));
        Exit::silent(exit::FAILED)
    })
}

async fn serve(config: &Config, ready_file: Option<&Path>) -> Result<(), AppError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(AppError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(AppError::Signals)?;
    let notify = Notify::from_environment();
    let app = App::open(config, Arc::new(SystemClock), Timeouts::default()).await?;
    let listen = |err| AppError::Listen { address: config.listen, err };
    let address = app.address().map_err(listen)?;
    if let Some(address) = app.metrics_address() {
        tracing::info!(%address, "metrics and health, for this machine alone");
    }
    tracing::info!(%address, socket = %config.socket.display(), "lucia-controller {}", env!("CARGO_PKG_VERSION"));
    if let Some(path) = ready_file {
        let ready = |err| AppError::ReadyFile { path: path.to_owned(), err };
        fs::write(path, address.to_string()).map_err(ready)?;
    }
    let stop = app.stopper();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = stop.send(true);
    });
    app.serve(&notify).await
}
