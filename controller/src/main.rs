//! The controller's program: a call and an exit code.

fn main() -> std::process::ExitCode {
    lucia_controller::cli::main(std::env::args_os())
}
