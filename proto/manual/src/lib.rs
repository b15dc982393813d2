//! The manual's pages, made from what a program's help says. It needs nothing of the program but its commands.
//!
//! What stands at the end of a help becomes sections: the first line there, or the first after an empty one, is the title of
//! what follows it where it begins at the margin, is short and ends in a colon. Under a title lines stay lines: commands are
//! copied from there, and tables read. Other sentences become notes.

#![warn(missing_docs)]

use std::io::{self, Write as _};
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

/// Longest line that is a title.
const TITLE_MAX: usize = 48;

/// Where in the manual a program belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// What anybody types.
    Commands,
    /// Commands of the system's administration, and daemons.
    Daemons,
}

impl Section {
    const fn number(self) -> &'static str {
        match self {
            Self::Commands => "1",
            Self::Daemons => "8",
        }
    }
}

/// What the `man` verb of a daemon does: its pages into a directory, or the first of them to standard output.
///
/// # Errors
/// What cannot be written.
pub fn run(command: Command, into: Option<&Path>) -> io::Result<()> {
    match into {
        Some(directory) => lay(command, Section::Daemons, directory),
        None => io::stdout().write_all(&whole(command, Section::Daemons)?),
    }
}

/// The page of the whole program.
///
/// # Errors
/// None but those of a writer into memory.
pub fn whole(command: Command, section: Section) -> io::Result<Vec<u8>> {
    page(&built(command), section)
}

/// Lays that page and one for each verb into a directory.
///
/// # Errors
/// What cannot be written.
pub fn lay(command: Command, section: Section, directory: &Path) -> io::Result<()> {
    lay_built(&built(command), section, directory)
}

fn built(command: Command) -> Command {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    command
}

fn lay_built(command: &Command, section: Section, directory: &Path) -> io::Result<()> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        lay_built(verb, section, directory)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    std::fs::write(directory.join(format!("{name}.{}", section.number())), page(command, section)?)
}

fn page(command: &Command, section: Section) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).section(section.number());
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
    sections(&after.map(ToString::to_string).unwrap_or_default()).to_writer(&mut out)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut out)?;
    }
    Ok(out)
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
    Lines,
    Prose,
}

/// The parts of what stands at the end of a help.
fn sections(text: &str) -> Roff {
    let mut roff = Roff::default();
    let (mut part, mut is_after_gap) = (Part::Nothing, true);
    for line in text.lines() {
        if line.is_empty() {
            is_after_gap = true;
            continue;
        }
        let at_margin = is_after_gap && !line.starts_with(' ');
        let title = line.strip_suffix(':').filter(|title| at_margin && title.len() <= TITLE_MAX);
        let next = match part {
            _ if title.is_some() || line.starts_with(' ') => Part::Lines,
            Part::Lines if !is_after_gap => Part::Lines,
            Part::Nothing | Part::Lines | Part::Prose => Part::Prose,
        };
        let begins = title.is_some() || part != next;
        if begins && part == Part::Lines {
            roff.control("fi", []);
        }
        if begins {
            roff.control("SH", [title.map_or_else(|| "NOTES".to_owned(), name).as_str()]);
        }
        match next {
            Part::Lines if begins => _ = roff.control("nf", []),
            Part::Lines if is_after_gap => _ = roff.text([roman("")]),
            Part::Prose if is_after_gap && !begins => _ = roff.control("PP", []),
            Part::Nothing | Part::Lines | Part::Prose => (),
        }
        if title.is_none() {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        (part, is_after_gap) = (next, false);
    }
    if part == Part::Lines {
        roff.control("fi", []);
    }
    roff
}

/// What the section is called in every manual.
fn name(title: &str) -> String {
    match title {
        "Example" => "EXAMPLES".to_owned(),
        "Exit codes" => "EXIT STATUS".to_owned(),
        title => title.to_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let verb = Command::new("run").about("Runs").arg(Arg::new("config").long("config").value_name("FILE"));
        let hidden = Command::new("man").hide(true);
        let after = "First things:\n  prog run\nthen:\n\nExit codes:\n  0   done\n  .2  'odd";
        let mut command = Command::new("prog").version("1").about("A program").after_help(after);
        command = command.subcommand(verb).subcommand(hidden).disable_help_subcommand(true);
        command.build();
        command
    }

    // spec: SD-93
    #[test]
    fn what_stands_under_a_title_of_the_help_is_a_section_and_its_lines_stay_lines() {
        let text = String::from_utf8(page(&command(), Section::Daemons).unwrap()).unwrap();
        assert!(text.contains(".TH prog 8"), "{text}");
        assert!(text.contains(".SH \"FIRST THINGS\"\n.nf\nprog run\nthen:\n"), "{text}");
        // A line that begins with a dot or an apostrophe is text and no request.
        let exit = text.split(".SH \"EXIT STATUS\"\n.nf\n").nth(1).unwrap_or_else(|| panic!("{text}"));
        assert!(exit.starts_with("0   done\n\\&.2"), "{exit}");
        assert!(!text.contains("EXTRA") && !text.contains("prog\\-man"), "{text}");
    }

    // spec: SD-93
    #[test]
    fn there_is_a_page_for_each_verb_that_is_shown() {
        let dir = std::env::temp_dir().join(format!("lucia-manual-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        lay_built(&command(), Section::Daemons, &dir).unwrap();
        let mut names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["prog-run.8", "prog.8"]);
        let verb = std::fs::read_to_string(dir.join("prog-run.8")).unwrap();
        assert!(verb.contains("\\fB\\-\\-config\\fR \\fIFILE\\fR]"), "{verb}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
