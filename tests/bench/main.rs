//! `make bench`: the figures of the project, each with its goal.
//!
//! These machines change their speed every few tens of seconds, so costs are in **V**: the CPU time of one raw P-256
//! verify of the same library, measured right before and after each sample on the same CPU. A sample whose two V
//! differ by over 12 % is dropped and counted. CPU time is the process's own, never the wall clock's.
//!
//! `make bench` builds the programs in release mode first. `QUICK=1` shortens the five minutes of the memory figure;
//! `--programs DIR` takes the programs from elsewhere, for a build with symbols.

mod agent;
mod controller;
mod cost;
mod figures;
mod site;

use std::path::PathBuf;
use std::process::ExitCode;

use figures::Figures;
use lucia_tests::sim::Failure;

fn main() -> ExitCode {
    match run() {
        Ok(figures) => figures.close(),
        Err(err) => {
            eprintln!("bench: {err}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<Figures, Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let given = |name: &str| arguments.iter().any(|argument| argument == name);
    let after = |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1);
    let quick = given("--quick");
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/release");
    let bin = after("--programs").map_or(built, PathBuf::from).canonicalize()?;
    let mut figures = Figures::default();
    // The process's own thread keeps CPU 0 with the program under test; whatever drives it runs on CPU 1.
    cost::pin(0)?;
    controller::measure(&bin, quick, &mut figures)?;
    if quick {
        figures.note("the agent's figures take five minutes: run without QUICK=1");
    } else {
        agent::measure(&bin, &mut figures)?;
    }
    Ok(figures)
}
