//! The controller's program: a call and an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    match lucia_controller::cli::main(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit.into(),
    }
}
