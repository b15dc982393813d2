//! The timeline of the demo: when, who, what.

use std::cell::RefCell;
use std::io::{self, IsTerminal as _, Write};
use std::time::Instant;

/// Who does or says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The demo itself.
    Demo,
    /// The enrollment worker.
    Worker,
    /// The controller.
    Controller,
    /// The directory server.
    Directory,
    /// The person at the controller's and the worker's host.
    Operator,
    /// The machine in its installer; what a person reads on its own screen.
    Console,
    /// The installed node.
    Node,
    /// Somebody at a machine of her own, who logs in by SSH.
    Person,
    /// Her browser.
    Browser,
}

impl Who {
    const fn name(self) -> &'static str {
        match self {
            Self::Demo => "demo",
            Self::Worker => "worker",
            Self::Controller => "controller",
            Self::Directory => "directory",
            Self::Operator => "operator",
            Self::Console => "console",
            Self::Node => "node",
            Self::Person => "person",
            Self::Browser => "browser",
        }
    }

    /// The colour as a terminal's number for it.
    const fn colour(self) -> &'static str {
        match self {
            Self::Demo => "1",
            Self::Worker => "35",
            Self::Controller => "34",
            Self::Directory => "31",
            Self::Operator => "33",
            Self::Console => "36",
            Self::Node => "32",
            Self::Person => "96",
            Self::Browser => "94",
        }
    }
}

/// Where the timeline is written.
pub struct Screen {
    out: RefCell<Box<dyn Write>>,
    colours: bool,
    start: Instant,
}

impl Screen {
    /// Standard output, in colours on a terminal unless `NO_COLOR` is set.
    pub fn stdout() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self::new(Box::new(io::stdout()), io::stdout().is_terminal() && !plain)
    }

    /// Standard error without colours, where standard output is for a result.
    pub fn stderr() -> Self {
        Self::new(Box::new(io::stderr()), false)
    }

    fn new(out: Box<dyn Write>, colours: bool) -> Self {
        Self { out: RefCell::new(out), colours, start: now() }
    }

    /// Somebody did or said something, in one line or several.
    pub fn say(&self, who: Who, text: &str) {
        let seconds = self.start.elapsed().as_secs_f64();
        for (number, line) in text.trim_end().lines().enumerate() {
            let head = if number == 0 { head(seconds, who, self.colours) } else { " ".repeat(HEAD) };
            self.write(&format!("{}\n", format!("{head}{line}").trim_end()));
        }
    }

    /// A line or several of the demo itself, without time.
    pub fn plain(&self, text: &str) {
        self.write(&format!("{}\n", text.trim_end()));
    }

    /// A reader that has seen enough is no failure.
    fn write(&self, text: &str) {
        let mut out = self.out.borrow_mut();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Width of time and name.
const HEAD: usize = 22;
/// Columns of a screen that does not say how many it has.
const COLUMNS: usize = 100;

/// What is left of a line for what a program says: it is told so, and shortens its tables.
pub(super) fn room() -> usize {
    let told = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    told.filter(|width| *width > HEAD * 2).unwrap_or(COLUMNS) - HEAD
}

fn head(seconds: f64, who: Who, colours: bool) -> String {
    let (time, name) = (format!("{seconds:6.1} s  "), who.name());
    if colours {
        format!("\x1b[2m{time}\x1b[0m\x1b[{}m{name:12}\x1b[0m", who.colour())
    } else {
        format!("{time}{name:12}")
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of this crate: seconds on the screen since the demo began"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: DE-7
    #[test]
    fn a_line_has_time_and_name_and_colours_only_when_asked() {
        let plain = head(3.25, Who::Controller, false);
        assert_eq!(plain, "   3.2 s  controller  ");
        assert_eq!(plain.len(), HEAD);
        assert!(head(3.25, Who::Controller, true).contains("\x1b[34mcontroller"));
    }
}
