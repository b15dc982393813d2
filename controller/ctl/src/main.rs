//! `luciactl`: what operator and owners say to the controller. The operator over its Unix socket, an owner over TLS from
//! his own machine, with a key that never leaves it.
//!
//! `args` is what can be said, `context` says to whom and as whom, `session` opens that; `client` and `tls` say it.
//! `run` does one verb: `operator` what the routes do by themselves, `order` and `sign` what an owner signs, `login` how
//! one becomes an owner. `show`, `table` and `wrap` make the answer readable, `failure` says what went wrong.

mod args;
mod audit;
mod client;
mod codes;
mod context;
mod failure;
mod files;
mod login;
mod names;
mod nodes_named;
mod operator;
mod order;
mod orders_passkey;
mod owner_key;
mod passphrase;
mod patience;
mod roster;
mod run;
mod session;
mod show;
mod sign;
mod ssh_keys;
mod table;
mod tell;
mod tls;
mod token;
mod wrap;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // It has an owner's key in memory while it signs. A system that refuses leaves it at that.
    let _ = lucia_daemon::process::protect();
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) if error.use_stderr() => {
            // What was typed could not be read, so whether JSON was asked for is taken from the words themselves.
            if std::env::args().any(|word| word == "--json" || word == "--output=json" || word == "-ojson") {
                tell::error_in_json("usage", &error.to_string());
            } else {
                let _ = error.print();
            }
            return lucia_daemon::exit::USAGE.into();
        }
        Err(error) => {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
    };
    let in_json = args.in_json();
    match run::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if in_json {
                tell::error_in_json(error.code(), &error.sentence());
            } else {
                tell::note(&format!("luciactl: {}", error.sentence()));
            }
            error.exit().into()
        }
    }
}
