//! `luciactl`: what operator and owners say to the controller. The operator over its Unix socket, an owner over TLS from
//! his own machine, with a key that never leaves it.
//!
//! `verbs` has a file for each noun: what can be said of it, the call, the text of the answer, and what can go wrong. Below
//! them, `context` says to whom and as whom, `session` opens that; `client` and `tls` say it. `order` and `sign` are how an
//! owner orders anything, `table` and `text` make an answer readable, `problem` is what any error has.

mod apply;
mod args;
mod call;
mod client;
mod context;
mod files;
mod find;
mod fingerprint;
mod given;
mod happened;
mod names;
mod nodes_named;
mod order;
mod owner_key;
mod passphrase;
mod patience;
mod problem;
mod roster;
mod session;
mod sign;
mod table;
mod tell;
mod text;
mod tls;
mod verbs;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use lucia_daemon::exit;

use crate::args::{Args, Output};
use crate::problem::Failure;
use crate::session::At;
use crate::tell::{AskError, Out};

fn main() -> ExitCode {
    // It has an owner's key in memory while it signs. A system that refuses leaves it at that.
    let _ = lucia_daemon::process::protect();
    let args = match Args::try_parse() {
        Ok(args) => args,
        // What was typed could not be read, so whether JSON was asked for is taken from the words themselves.
        Err(error)
            if error.use_stderr()
                && std::env::args().any(|word| matches!(word.as_str(), "--json" | "--output=json" | "-ojson")) =>
        {
            tell::error_in_json("usage", &error.to_string(), None);
            return exit::USAGE.into();
        }
        Err(error) => return exit::unparsed(&error),
    };
    let json = args.in_json();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if json {
                tell::error_in_json(failure.code(), &failure.sentence(), failure.cure().as_deref());
            } else {
                tell::note(&format!("luciactl: {}", failure.sentence()));
            }
            failure.exit().into()
        }
    }
}

fn run(args: Args) -> Result<(), Failure> {
    let out = Out::new(args.in_json(), args.output == Output::Wide);
    let at = At { place: args.place, out, command: Args::command() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    match runtime.map_err(AskError::Start)?.block_on(args.verb.run(&at)) {
        // `luciactl events --follow | head` has seen enough.
        Err(failure) if matches!(failure.as_a(), Some(AskError::Output(error)) if error.kind() == ErrorKind::BrokenPipe) => {
            Ok(())
        }
        result => result,
    }
}
