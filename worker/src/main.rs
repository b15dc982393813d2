//! The enrollment worker: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    lucia_worker::cli::main(std::env::args_os())
}
