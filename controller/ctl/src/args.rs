//! What can be said to `luciactl` whatever the verb.

use clap::{Parser, ValueEnum};

use crate::context::Place;
use crate::verbs::Verbs;

const AFTER_HELP: &str = "\
Examples:
  luciactl window open --minutes 30
  luciactl onboarding
  luciactl approve 1a2b-3c4d-5e6f --fingerprint HEX --hostname web-1 --disk ID
  luciactl nodes
  luciactl events --follow
  luciactl login --controller https://controller.lucia.home.arpa:8443 --root root.pem --name alice
  luciactl drafts
  luciactl sign 1a2b-3c4d-5e6f

On the controller's own host it speaks to the socket, as root or as the controller's
user. On any other machine it speaks TLS as an owner: luciactl login makes the key
and the context.

Files:
  $XDG_CONFIG_HOME/lucia/luciactl.toml, else ~/.config/lucia/luciactl.toml: the contexts,
  each with its root and key beside it

Environment:
  LUCIACTL_CONFIG  names another such file
  NO_COLOR         takes the colours
  COLUMNS          how wide tables are, where no terminal says so

Exit codes:
  0   done
  1   refused or failed
  64  wrong usage
  69  the controller does not answer
  78  context, root or key file cannot be used";

const EVERYWHERE: &str = "With every command";

/// Sees and orders what a Lucia controller does.
#[derive(Debug, Parser)]
#[command(name = "luciactl", version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Write answers and errors in JSON, for programs.
    ///
    /// An error is one line on standard error: {"error":{"code","message","type","cure"}}.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) json: bool,
    /// How answers are written: table, wide (every column and id, however wide) or json.
    #[arg(
        long,
        short,
        global = true,
        value_name = "FORM",
        conflicts_with = "json",
        default_value = "table",
        hide_possible_values = true,
        help_heading = EVERYWHERE
    )]
    pub(crate) output: Output,
    #[command(subcommand)]
    pub(crate) verb: Verbs,
}

impl Args {
    /// Whether answers and errors are for programs.
    pub(crate) fn in_json(&self) -> bool {
        self.json || self.output == Output::Json
    }
}

/// A form of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Tables that fit the terminal.
    Table,
    /// Tables with every column, however wide.
    Wide,
    /// The same as --json.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, CommandFactory as _};

    fn walk(command: &Command, name: &str, without: &mut Vec<String>) {
        let shown = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let does = |line: &str| line.trim_start().contains(name);
        let example = shown.starts_with("Example") && shown.lines().skip(1).any(does);
        if !example {
            without.push(name.to_owned());
        }
        for verb in command.get_subcommands() {
            walk(verb, &format!("{name} {}", verb.get_name()), without);
        }
    }

    // spec: LC-96
    #[test]
    fn every_verb_shows_an_example() {
        let mut without = Vec::new();
        walk(&Args::command(), "luciactl", &mut without);
        assert_eq!(without, [""; 0]);
    }

    /// An example is taken as it stands, with values where it has words in capitals.
    // spec: LC-96
    #[test]
    fn every_example_is_taken() {
        fn examples(command: &Command, all: &mut Vec<String>) {
            let shown = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines =
                shown.lines().map(str::trim).filter(|line| line.starts_with("luciactl ") && !line.contains('"'));
            all.extend(lines.take_while(|line| !line.ends_with(',')).map(str::to_owned));
            command.get_subcommands().for_each(|verb| examples(verb, all));
        }
        let mut all = Vec::new();
        examples(&Args::command(), &mut all);
        assert!(all.len() > 50, "{all:?}");
        let hex = "0".repeat(64);
        for example in all {
            let plain = example.split(['>', '|']).next().unwrap_or_default();
            let words = plain.split_whitespace().map(|word| match word {
                "HEX" => hex.clone(),
                "ID" => "0".repeat(32),
                word => word.replace("HEX", &hex),
            });
            let taken = Args::try_parse_from(words);
            assert!(taken.is_ok(), "{example}: {}", taken.unwrap_err());
        }
    }
}
