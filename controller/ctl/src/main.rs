//! `luciactl`: what the operator says to the controller, over its Unix socket.
//!
//! `args` is what can be said, `client` says it, `run` does one verb, `show` and `table` make the answer readable.

mod args;
mod client;
mod run;
mod show;
mod table;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { run::USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    match run::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "luciactl: {}", error.sentence());
            error.exit().into()
        }
    }
}
