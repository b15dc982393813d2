//! The manual's pages, made from what a program's help says. It needs nothing of the program but its commands.
//!
//! What stands under `Files:`, `Environment:`, `Exit codes:` and `Examples:` at the end of a help becomes a section of its
//! own, line by line as it stands there; sentences there become notes.

use std::io;
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

/// Characters of the longest title: what is longer and ends with a colon is a sentence.
const TITLE_MAX: usize = 24;

/// The page of a command, which has been built.
pub(crate) fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    synopsis(command).to_writer(&mut out)?;
    man.render_description_section(&mut out)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut out)?;
    }
    if command.get_subcommands().any(|verb| !verb.is_hide_set()) {
        man.render_subcommands_section(&mut out)?;
    }
    let after = command.get_after_long_help().or_else(|| command.get_after_help());
    let after = after.map(ToString::to_string).unwrap_or_default();
    sections(&after).to_writer(&mut out)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut out)?;
    }
    Ok(out)
}

/// The page of the whole program.
pub(crate) fn whole(command: Command) -> io::Result<Vec<u8>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    page(&command)
}

/// Lays that page and one for each verb into a directory.
pub(crate) fn lay(command: Command, directory: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    lay_built(&command, directory)
}

fn lay_built(command: &Command, directory: &Path) -> io::Result<()> {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    for verb in verbs {
        lay_built(verb, directory)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    std::fs::write(directory.join(format!("{name}.1")), page(command)?)
}

/// How it is called, each option with what it takes. What goes with every command stands in a section of its own.
fn synopsis(command: &Command) -> Roff {
    let mut line = vec![bold(command.get_bin_name().unwrap_or_else(|| command.get_name()))];
    let shown = |arg: &&Arg| !arg.is_hide_set();
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(shown).partition(|arg| arg.is_positional());
    let everywhere = options.iter().any(|arg| arg.get_help_heading().is_some());
    let plain = |arg: &&&Arg| arg.get_help_heading().is_none() && !is_help(arg);
    if everywhere {
        line.push(roman(" [options]"));
    }
    for arg in options.iter().filter(plain) {
        let mut names = vec![roman(" "), roman(if arg.is_required_set() { "" } else { "[" })];
        match (arg.get_long(), arg.get_short()) {
            (Some(long), _) => names.push(bold(format!("--{long}"))),
            (None, Some(short)) => names.push(bold(format!("-{short}"))),
            (None, None) => continue,
        }
        line.extend(names);
        if takes_value(arg) {
            line.push(roman(" "));
            line.push(italic(values(arg)));
        }
        line.push(roman(if arg.is_required_set() { "" } else { "]" }));
    }
    for arg in positional {
        let (before, after) = if arg.is_required_set() { (" ", "") } else { (" [", "]") };
        line.extend([roman(before), italic(values(arg)), roman(after)]);
    }
    if command.has_subcommands() {
        let (before, after) = if command.is_subcommand_required_set() { (" ", "") } else { (" [", "]") };
        line.extend([roman(before), italic("COMMAND"), roman(after)]);
    }
    let mut roff = Roff::default();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text(line);
    roff
}

fn is_help(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version)
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.takes_values())
}

fn values(arg: &Arg) -> String {
    arg.get_value_names().map_or_else(|| arg.get_id().to_string(), |names| names.join(" "))
}

/// What is written just now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Nothing,
    /// Lines that stay lines: commands are copied from there, and tables read.
    Lines,
    /// Sentences.
    Prose,
}

/// The parts of what stands at the end of a help. What is not indented there, and is no title, is prose.
fn sections(text: &str) -> Roff {
    let mut roff = Roff::default();
    let (mut part, mut gap) = (Part::Nothing, false);
    for line in text.lines() {
        if line.is_empty() {
            gap = true;
            continue;
        }
        let title = line.strip_suffix(':').filter(|title| !title.starts_with(' ') && title.len() <= TITLE_MAX);
        let next = if title.is_some() || line.starts_with(' ') { Part::Lines } else { Part::Prose };
        let begins = title.is_some() || part != next;
        if begins && part == Part::Lines {
            roff.control("fi", []);
        }
        if begins {
            roff.control("SH", [title.map_or_else(|| "NOTES".to_owned(), section).as_str()]);
        }
        match next {
            Part::Lines if begins => _ = roff.control("nf", []),
            Part::Lines if gap => _ = roff.text([roman("")]),
            Part::Prose if gap && !begins => _ = roff.control("PP", []),
            Part::Nothing | Part::Lines | Part::Prose => (),
        }
        if title.is_none() {
            roff.text(vec![roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        (part, gap) = (next, false);
    }
    if part == Part::Lines {
        roff.control("fi", []);
    }
    roff
}

/// What the section is called in every manual.
fn section(title: &str) -> String {
    match title {
        "Example" => "EXAMPLES".to_owned(),
        "Exit codes" => "EXIT STATUS".to_owned(),
        title => title.to_uppercase(),
    }
}
