//! `lucia-node-agent`: a call and an exit code.

fn main() -> std::process::ExitCode {
    lucia_agent::cli::main(std::env::args_os())
}
