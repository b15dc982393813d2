//! The helper of the qualification: keeps nodes and networks.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lucia_qualification::demo::{self, Options};
use lucia_qualification::keeper::{Plan, become_init, keep};
use lucia_qualification::node::{Node, NodeSpec, node_root, possible};
use lucia_qualification::seat::Seat;
use lucia_qualification::{network, skip};

#[derive(Parser)]
#[command(name = "lucia-qualification", about = "Runs Lucia Nodes on real machines: container nodes and the demo")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Boot a node, run a command in it (a shell by default), remove it again
    NodeShell {
        /// The directory that is kept between boots
        #[arg(long)]
        upper: Option<PathBuf>,
        /// Another extracted Debian than the one of make setup
        #[arg(long)]
        lower: Option<PathBuf>,
        /// A file or directory of the host that the node sees at the same path
        #[arg(long)]
        bind: Vec<PathBuf>,
        /// The command and its arguments
        #[arg(trailing_var_arg = true)]
        command: Vec<String>,
    },
    /// Bring a machine from discovery to Managed, on the screen as it happens
    Demo {
        /// Drive the page in a headless browser and end, instead of staying up until Ctrl-C
        #[arg(long)]
        once: bool,
        /// Its own directory, emptied at the start [default: target/demo]
        #[arg(long)]
        dir: Option<PathBuf>,
        /// Where the built programs are [default: beside this one]
        #[arg(long)]
        bin: Option<PathBuf>,
        /// Stop the directory before the node enrols, and start it again once the worker has said that it waits for it
        #[arg(long)]
        late_directory: bool,
        /// A built step-ca to be the fleet's CA [default: the worker's own CA]
        #[arg(long, value_name = "PROGRAM")]
        step_ca: Option<PathBuf>,
    },
    /// Measure the agent on a node over ten heartbeats; about five minutes, the timeline on standard error
    MeasureAgent {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Its own directory, emptied at the start [default: target/measure-agent]
        #[arg(long)]
        dir: Option<PathBuf>,
        /// Where the programs are, of a release build [default: target/programs]
        #[arg(long)]
        bin: Option<PathBuf>,
    },
    /// Say whether this machine can run container nodes (0 yes, 1 no)
    NodePossible,
    #[command(hide = true)]
    NodeKeeper { plan: String },
    #[command(hide = true)]
    NodeInit { plan: String },
    #[command(hide = true)]
    NetworkKeeper,
    #[command(hide = true)]
    TakeSeat {
        seat: String,
        program: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run(Arguments::parse().verb) {
        Ok(code) => code,
        Err(err) => {
            let chain: Vec<String> =
                std::iter::successors(Some(err.as_ref()), |err| err.source()).map(ToString::to_string).collect();
            eprintln!("lucia-qualification: {}", chain.join(": "));
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<ExitCode, Failure> {
    match verb {
        Verb::NodeShell { upper, lower, bind, command } => return shell(upper, lower, bind, &command),
        Verb::Demo { once, dir, bin, late_directory, step_ca } => {
            demo::demo(&Options { once, dir, bin, late_directory, step_ca })?;
        }
        Verb::MeasureAgent { json, dir, bin } => measure_agent(json, dir, bin)?,
        Verb::NodePossible => {
            possible()?;
            println!("container nodes can run here");
        }
        Verb::NodeKeeper { plan } => keep(&serde_json::from_str::<Plan>(&plan)?)?,
        Verb::NodeInit { plan } => become_init(&serde_json::from_str::<Plan>(&plan)?)?,
        Verb::NetworkKeeper => network::hold()?,
        Verb::TakeSeat { seat, program, arguments } => {
            serde_json::from_str::<Seat>(&seat)?.take(&program, &arguments)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn measure_agent(json: bool, dir: Option<PathBuf>, bin: Option<PathBuf>) -> Result<(), Failure> {
    let target = skip::workspace().join("target");
    let figures = demo::measure::measure(&Options {
        once: true,
        dir: Some(dir.unwrap_or_else(|| target.join("measure-agent"))),
        bin: Some(bin.unwrap_or_else(|| target.join("programs"))),
        ..Options::default()
    })?;
    if json {
        println!("{}", serde_json::to_string(&figures)?);
    } else {
        println!("program              {} bytes", figures.binary_bytes);
        println!("resident             {} bytes after ten heartbeats", figures.resident_bytes);
        println!("processor            {} µs a heartbeat", figures.cpu_micros_per_heartbeat);
        match figures.exporter_resident_bytes {
            Some(bytes) => println!("node-exporter        {bytes} bytes resident beside it"),
            None => println!("node-exporter        not there; make setup unpacks it where apt-get can"),
        }
    }
    Ok(())
}

fn shell(
    upper: Option<PathBuf>,
    lower: Option<PathBuf>,
    bind: Vec<PathBuf>,
    command: &[String],
) -> Result<ExitCode, Failure> {
    possible()?;
    let kept = upper.is_some();
    let upper = upper.unwrap_or_else(|| skip::workspace().join(format!("target/node-shell-{}", std::process::id())));
    let node = Node::boot(NodeSpec {
        helper: std::env::current_exe()?,
        name: "shell".into(),
        lower: lower.unwrap_or_else(node_root),
        upper: upper.clone(),
        extra_bind: bind.into_iter().map(|path| (path.clone(), path)).collect(),
        network: None,
        target: None,
    })?;
    let arguments: Vec<&str> =
        if command.is_empty() { vec!["bash"] } else { command.iter().map(String::as_str).collect() };
    let status = node.command(&arguments).env("TERM", "xterm").status()?;
    node.stop()?;
    if !kept {
        std::fs::remove_dir_all(upper)?;
    }
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
