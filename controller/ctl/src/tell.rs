//! What is written out, and what is asked on the terminal.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use lucia_proto::base::json;
use serde::Serialize;

use crate::call::strange;
use crate::problem::{FAILED, Failure, NOT_CONFIRMED, USAGE, problems};
use crate::table::{self, Screen};
use crate::text::wrapped;

problems! {
    /// Why nothing was written, or no answer came.
    pub(crate) enum AskError {
        NotConfirmed = NOT_CONFIRMED, FAILED, ["not confirmed, nothing was done"];
        NobodyToAsk = "", USAGE, ["this needs a confirmation and there is no terminal to ask on"], ["add --yes"];
        Output(error: io::Error) = "", FAILED, ["cannot write the output: {error}"];
        Start(error: io::Error) = "", FAILED, ["cannot start: {error}"];
    }
}

/// How answers are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    /// For programs.
    pub(crate) json: bool,
    /// With every column, however wide.
    pub(crate) wide: bool,
    /// Where they are read.
    pub(crate) screen: Screen,
}

impl Out {
    pub(crate) fn new(json: bool, wide: bool) -> Self {
        let mut screen = Screen::stdout();
        if wide {
            screen.width = None;
        }
        Self { json, wide, screen }
    }

    /// Writes the view as JSON, or in words that fit.
    pub(crate) fn say<T: Serialize>(self, view: &T, words: impl FnOnce() -> String) -> Result<(), Failure> {
        let text = if self.json { format!("{}\n", in_json(view)?) } else { wrapped(&words(), self.screen.width) };
        Ok(write(text.as_bytes())?)
    }
}

pub(crate) fn in_json<T: Serialize>(view: &T) -> Result<String, Failure> {
    Ok(json::to_string(view).map_err(|error| strange(&error))?)
}

/// What went wrong, for programs: one line on standard error, `{"error":{"code","message","type":"luciactl_error","cure"}}`,
/// which is the shape of the API's own refusals, and what cures it where that is known.
pub(crate) fn error_in_json(code: &str, message: &str, cure: Option<&str>) {
    let members = [("code", code), ("message", message), ("type", "luciactl_error")];
    let error: BTreeMap<_, _> = members.into_iter().chain(cure.map(|cure| ("cure", cure))).collect();
    let text = json::to_string(&BTreeMap::from([("error", error)])).unwrap_or_default();
    let _ = writeln!(io::stderr(), "{text}");
}

pub(crate) fn write(bytes: &[u8]) -> Result<(), AskError> {
    let mut out = io::stdout();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(AskError::Output)
}

/// Has something typed; nothing where nobody is there to type it.
pub(crate) fn typed(question: &str, yes: bool) -> Result<Option<String>, AskError> {
    if yes || !io::stdin().is_terminal() {
        return Ok(None);
    }
    prompted(question).map(Some)
}

fn prompted(question: &str) -> Result<String, AskError> {
    let (mut out, mut line) = (io::stderr(), String::new());
    write!(out, "{question}").and_then(|()| out.flush()).map_err(AskError::Output)?;
    io::stdin().lock().read_line(&mut line).map_err(AskError::Output)?;
    Ok(line)
}

/// Says on a terminal what is to be pasted there, and how it is ended; whatever else standard input is, it ends by itself.
pub(crate) fn paste(what: &str) {
    if io::stdin().is_terminal() {
        note(&format!("Paste {what} here, all of it; then press Enter, and Ctrl-D to end it."));
    }
}

/// Asks on the terminal for `word`, unless `yes` was said before.
pub(crate) fn ask(sentence: &str, word: &str, yes: bool) -> Result<(), AskError> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(AskError::NobodyToAsk);
    }
    let sentence = wrapped(sentence, table::beside());
    let line = prompted(&format!("{sentence}\nType {word} to go on: "))?;
    if line.trim_end_matches(['\r', '\n']) == word { Ok(()) } else { Err(AskError::NotConfirmed) }
}

/// Tells a person something beside the answer.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", wrapped(text, table::beside()));
}

/// Writes lines beside the answer, where somebody is about to be asked. What cannot be shown cannot be agreed to.
pub(crate) fn write_beside(lines: &[String]) -> Result<(), AskError> {
    let mut out = io::stderr();
    lines.iter().try_for_each(|line| writeln!(out, "{line}")).and_then(|()| out.flush()).map_err(AskError::Output)
}
