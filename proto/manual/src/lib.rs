//! The manual's pages of a daemon, made from what its help says. It needs nothing of the program but its commands.
//!
//! What stands at the end of a help becomes sections: the first line after an empty one is the title of what follows it
//! where it begins at the margin, is short and ends in a colon. All other lines stay lines: commands are copied from
//! there, and tables read.

use std::io::{self, Write as _};
use std::path::Path;

use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

/// Where manuals have commands of the system's administration, and daemons.
const SECTION: &str = "8";
/// Longest line that is a title.
const TITLE_MAX: usize = 48;

/// What the hidden `man` verb of a program does: its pages into a directory, or the first of them to standard output.
///
/// # Errors
/// What cannot be written.
pub fn run(command: Command, into: Option<&Path>) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    match into {
        Some(directory) => lay(&command, directory),
        None => io::stdout().write_all(&page(&command)?),
    }
}

/// A page for the command and for each verb below it.
fn lay(command: &Command, directory: &Path) -> io::Result<()> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        lay(verb, directory)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    std::fs::write(directory.join(format!("{name}.{SECTION}")), page(command)?)
}

/// The page of a command that has been built.
///
/// # Errors
/// None but those of a writer into memory.
pub fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).section(SECTION);
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

/// How it is called, each option with what it takes.
fn synopsis(command: &Command) -> Roff {
    let mut line = vec![bold(command.get_bin_name().unwrap_or_else(|| command.get_name()))];
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) = shown.partition(|arg| arg.is_positional());
    for arg in options {
        let Some(long) = arg.get_long().filter(|long| !["help", "version"].contains(long)) else { continue };
        let (before, after) = around(arg.is_required_set());
        line.extend([roman(before), bold(format!("--{long}"))]);
        if arg.get_action().takes_values() {
            line.extend([roman(" "), italic(values(arg))]);
        }
        line.push(roman(after));
    }
    for arg in positional {
        let (before, after) = around(arg.is_required_set());
        line.extend([roman(before), italic(values(arg)), roman(after)]);
    }
    if command.has_subcommands() {
        line.extend([roman(" "), italic("COMMAND")]);
    }
    let mut roff = Roff::default();
    roff.control("SH", ["SYNOPSIS"]).text(line);
    roff
}

const fn around(is_required: bool) -> (&'static str, &'static str) {
    if is_required { (" ", "") } else { (" [", "]") }
}

fn values(arg: &Arg) -> String {
    arg.get_value_names().map_or_else(|| arg.get_id().to_string(), |names| names.join(" "))
}

/// What stands at the end of a help.
fn sections(text: &str) -> Roff {
    let mut roff = Roff::default();
    let (mut is_open, mut is_after_gap) = (false, true);
    for line in text.lines() {
        let may_be = |title: &&str| is_after_gap && !title.starts_with(' ') && title.len() <= TITLE_MAX;
        let title = line.strip_suffix(':').filter(may_be);
        is_after_gap = line.is_empty();
        if title.is_some() || !is_open {
            if is_open {
                roff.control("fi", []);
            }
            let title = match title {
                Some("Exit codes") => "EXIT STATUS".to_owned(),
                Some(title) => title.to_uppercase(),
                None => "NOTES".to_owned(),
            };
            roff.control("SH", [title.as_str()]).control("nf", []);
            is_open = true;
        }
        if title.is_none() {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
    }
    if is_open {
        roff.control("fi", []);
    }
    roff
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
        let text = String::from_utf8(page(&command()).unwrap()).unwrap();
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
        lay(&command(), &dir).unwrap();
        let mut names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["prog-run.8", "prog.8"]);
        let verb = std::fs::read_to_string(dir.join("prog-run.8")).unwrap();
        assert!(verb.contains("\\fB\\-\\-config\\fR \\fIFILE\\fR]"), "{verb}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
