//! `make bench`: the figures of the project, each with its goal.
//!
//! These machines change their speed every few tens of seconds, so costs are in **V**: the CPU time of one raw P-256
//! verify of the same library, measured right before and after each sample on the same CPU. A sample whose two V
//! differ by over 12 % is dropped and counted. CPU time is the process's own, never the wall clock's.
//!
//! `make bench` builds the programs in release mode first. `QUICK=1` shortens or leaves out what takes minutes;
//! `--programs DIR` takes the programs from elsewhere, for a build with symbols; `--only PART` measures one of
//! `controller`, `page`, `scale`, `flood`, `strangers` and `agent`.

mod agent;
mod controller;
mod cost;
mod figures;
mod flood;
mod life;
mod page;
mod people;
mod scale;
mod site;
mod strangers;
mod trace;

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
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/programs");
    let bin = after("--programs").map_or(built, PathBuf::from).canonicalize()?;
    let mut figures = Figures::default();
    // The process's own thread keeps CPU 0 with the program under test; whatever drives it runs on CPU 1.
    cost::pin(0)?;
    cost::raise_file_limit()?;
    // One part alone while something is worked on.
    let only = after("--only");
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    if wanted("controller") {
        controller::measure(&bin, quick, &mut figures)?;
    }
    if wanted("page") {
        page::measure(&bin, &mut figures)?;
    }
    if wanted("scale") {
        scale::measure(&bin, quick, &mut figures)?;
    }
    if wanted("flood") {
        flood::measure(&bin, &mut figures)?;
    }
    if wanted("strangers") {
        strangers::measure(&bin, &mut figures)?;
    }
    if !wanted("agent") {
        return Ok(figures);
    }
    if quick {
        figures.note("the agent's figures take five minutes: run without QUICK=1");
    } else {
        agent::measure(&bin, &mut figures)?;
    }
    Ok(figures)
}
