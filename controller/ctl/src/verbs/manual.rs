//! The manual, and the completions of a shell.

use std::io;
use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;
use lucia_manual::Section;

use crate::files::name;
use crate::problem::{FAILED, Failure, problems};
use crate::session::At;
use crate::tell::{AskError, write};

problems! {
    /// Why the manual is not laid.
    pub(crate) enum ManualError {
        Pages(directory: PathBuf, err: io::Error) = "", FAILED, ["cannot write the manual's pages into {} ({err})", name(directory)],
            ["is it a directory that you may write?"];
    }
}

/// Prints the completions of a shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  luciactl completions bash > /usr/share/bash-completion/completions/luciactl")]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

pub(super) async fn completions(at: &At, asked: Completions) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(asked.shell, &mut at.command.clone(), "luciactl", &mut text);
    Ok(write(&text)?)
}

/// Prints the manual page, or lays a page for each verb into a directory.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  luciactl man | man -l -\n  luciactl man --into /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// Writes luciactl.1 and a page for each verb into this directory instead.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

pub(super) async fn man(at: &At, asked: Man) -> Result<(), Failure> {
    let command = at.command.clone();
    match asked.into {
        Some(directory) => lucia_manual::lay(command, Section::Commands, &directory)
            .map_err(|err| ManualError::Pages(directory, err).into()),
        None => {
            let page = lucia_manual::whole(command, Section::Commands).map_err(AskError::Output)?;
            Ok(write(&page)?)
        }
    }
}
