//! What is written out, and what is asked on the terminal.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use lucia_people::host_api::OnboardingView;
use lucia_proto::base::json;
use lucia_proto::pki::key::Fingerprint;
use serde::Serialize;

use crate::args::{self, Args, Output};
use crate::client::CallError;
use crate::failure::Failure;
use crate::show;
use crate::table::{self, Screen};
use crate::wrap::wrapped;

/// Hex digits of a fingerprint.
const FINGERPRINT_DIGITS: usize = 64;

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
    pub(crate) fn new(args: &Args) -> Self {
        let mut screen = Screen::stdout();
        let wide = args.output == Output::Wide;
        if wide {
            screen.width = None;
        }
        Self { wide, json: args.in_json(), screen }
    }

    /// Writes the view as JSON, or in words that fit.
    pub(crate) fn say<T: Serialize>(self, view: &T, words: impl FnOnce() -> String) -> Result<(), Failure> {
        say(self.json, view, || wrapped(&words(), self.screen.width))
    }

    /// The answer of most changes.
    pub(crate) fn onboarding(self, view: &OnboardingView) -> Result<(), Failure> {
        self.say(view, || show::onboarding(view, self.screen))
    }
}

/// Writes the view as JSON, or in words.
fn say<T: Serialize>(as_json: bool, view: &T, words: impl FnOnce() -> String) -> Result<(), Failure> {
    if as_json { write(format!("{}\n", in_json(view)?).as_bytes()) } else { write(words().as_bytes()) }
}

pub(crate) fn in_json<T: Serialize>(view: &T) -> Result<String, Failure> {
    json::to_string(view).map_err(|error| Failure::Call(CallError::Strange(error.to_string())))
}

/// What went wrong, for programs: one line on standard error, `{"error":{"code","message","type":"luciactl_error"}}`, the
/// shape of the API's own refusals.
pub(crate) fn error_in_json(code: &str, message: &str) {
    #[derive(Serialize)]
    struct Body<'a> {
        error: Error<'a>,
    }
    #[derive(Serialize)]
    struct Error<'a> {
        code: &'a str,
        message: &'a str,
        r#type: &'static str,
    }
    let body = Body { error: Error { code, message, r#type: "luciactl_error" } };
    let text = json::to_string(&body).unwrap_or_default();
    let _ = writeln!(io::stderr(), "{text}");
}

pub(crate) fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Has the fingerprint typed that the machine's own screen shows, where it was not given. Nothing that could be copied is
/// shown before.
pub(crate) fn fingerprint(given: Option<Fingerprint>, yes: bool) -> Result<Fingerprint, Failure> {
    if let Some(given) = given {
        return Ok(given);
    }
    if yes || !io::stdin().is_terminal() {
        return Err(Failure::SayFingerprint);
    }
    let mut out = io::stderr();
    write!(out, "The whole fingerprint, as the machine's own screen shows it: ")
        .and_then(|()| out.flush())
        .map_err(Failure::Output)?;
    let mut line = String::new();
    let mut input = io::stdin().lock();
    input.read_line(&mut line).map_err(Failure::Output)?;
    // It is shown in two rows, and who types them so types two lines.
    if args::digits(&line).len() == FINGERPRINT_DIGITS / 2 {
        write!(out, "Its second row: ").and_then(|()| out.flush()).map_err(Failure::Output)?;
        input.read_line(&mut line).map_err(Failure::Output)?;
    }
    args::fingerprint(&line).map_err(|_| Failure::NoFingerprint)
}

/// Has something typed; nothing where nobody is there to type it.
pub(crate) fn typed(question: &str, yes: bool) -> Result<Option<String>, Failure> {
    if yes || !io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut out = io::stderr();
    write!(out, "{question}").and_then(|()| out.flush()).map_err(Failure::Output)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Failure::Output)?;
    Ok(Some(line))
}

/// Says on a terminal what is to be pasted there, and how it is ended; whatever else standard input is, it ends by itself.
pub(crate) fn paste(what: &str) {
    if io::stdin().is_terminal() {
        note(&format!("Paste {what} here, all of it; then press Enter, and Ctrl-D to end it."));
    }
}

/// Asks on the terminal for `word`.
pub(crate) fn ask(sentence: &str, word: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::NobodyToAsk);
    }
    let mut out = io::stderr();
    let sentence = wrapped(sentence, table::beside());
    write!(out, "{sentence}\nType {word} to go on: ").and_then(|()| out.flush()).map_err(Failure::Output)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Failure::Output)?;
    if line.trim_end_matches(['\r', '\n']) == word { Ok(()) } else { Err(Failure::NotConfirmed) }
}

/// Tells a person something beside the answer.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", wrapped(text, table::beside()));
}

/// Writes lines beside the answer, where somebody is about to be asked. What cannot be shown cannot be agreed to.
pub(crate) fn write_beside(lines: &[String]) -> Result<(), Failure> {
    let mut out = io::stderr();
    lines.iter().try_for_each(|line| writeln!(out, "{line}")).and_then(|()| out.flush()).map_err(Failure::Output)
}
