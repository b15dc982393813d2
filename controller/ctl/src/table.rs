//! Tables that fit the terminal, in text that cannot command it.

use std::io::IsTerminal as _;

use lucia_proto::text::shown;

/// What the output is shown on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Columns, where it is a terminal that says so.
    pub(crate) width: Option<usize>,
    /// Whether colours are wanted.
    pub(crate) colour: bool,
    /// Whether it is a terminal, which can be written anew.
    pub(crate) terminal: bool,
}

impl Screen {
    /// The standard output: colours only on a terminal and without `NO_COLOR` (no-color.org).
    pub(crate) fn stdout() -> Self {
        let terminal = std::io::stdout().is_terminal();
        let width = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
        let asked_not_to = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { width: width.filter(|_| terminal), colour: terminal && !asked_not_to, terminal }
    }
}

/// How a cell is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Attention,
    Bad,
}

/// Colours text, where colours are wanted. The text has been made harmless before.
pub(crate) fn paint(text: &str, tone: Tone, screen: Screen) -> String {
    let code = match tone {
        Tone::Plain => return text.to_owned(),
        Tone::Good => "32",
        Tone::Attention => "33",
        Tone::Bad => "31",
    };
    if screen.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// A table with a heading. The first columns keep their width; where the terminal is narrow the last ones are cut,
/// marked by an ellipsis, or left out when nothing of them would remain.
pub(crate) fn table(heading: &[&str], rows: &[Vec<(String, Tone)>], screen: Screen) -> String {
    let rows: Vec<Vec<(String, Tone)>> =
        rows.iter().map(|row| row.iter().map(|(text, tone)| (shown(text), *tone)).collect()).collect();
    let widths: Vec<usize> = heading
        .iter()
        .enumerate()
        .map(|(at, title)| {
            let cells = rows.iter().filter_map(|row| row.get(at)).map(|(text, _)| text.chars().count());
            cells.chain([title.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let titles = heading.iter().map(|title| ((*title).to_owned(), Tone::Plain)).collect();
    let mut out = String::new();
    for row in std::iter::once(&titles).chain(&rows) {
        out.push_str(&line(row, &widths, screen));
        out.push('\n');
    }
    out
}

fn line(row: &[(String, Tone)], widths: &[usize], screen: Screen) -> String {
    let mut out = String::new();
    let mut used = 0;
    for (at, ((text, tone), width)) in row.iter().zip(widths).enumerate() {
        let gap = if at == 0 { 0 } else { 2 };
        let room = screen.width.map_or(usize::MAX, |all| all.saturating_sub(used + gap));
        if room < 3 {
            break;
        }
        let text = fitted(text, room.min(*width));
        let length = text.chars().count();
        out.push_str(&" ".repeat(gap));
        out.push_str(&paint(&text, *tone, screen));
        let padded = room.min(*width);
        if at + 1 < row.len() {
            out.push_str(&" ".repeat(padded - length));
        }
        used += gap + padded;
    }
    out.trim_end().to_owned()
}

fn fitted(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Screen = Screen { width: None, colour: false, terminal: false };

    fn row(cells: &[&str]) -> Vec<(String, Tone)> {
        cells.iter().map(|cell| ((*cell).to_owned(), Tone::Plain)).collect()
    }

    // spec: CT-9
    #[test]
    fn a_table_fits_the_terminal() {
        let rows = [row(&["web-1", "Online", "10.0.0.5"]), row(&["a", "Stale", "2001:db8::1"])];
        let heading = ["HOSTNAME", "STATE", "ADDRESS"];
        assert_eq!(
            table(&heading, &rows, PAPER),
            "HOSTNAME  STATE   ADDRESS\nweb-1     Online  10.0.0.5\na         Stale   2001:db8::1\n"
        );
        for width in 1..40 {
            let text = table(&heading, &rows, Screen { width: Some(width), colour: false, terminal: false });
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        }
        let narrow = table(&heading, &rows, Screen { width: Some(22), colour: false, terminal: false });
        assert_eq!(narrow, "HOSTNAME  STATE   ADD…\nweb-1     Online  10.…\na         Stale   200…\n");
    }

    // spec: CT-10
    #[test]
    fn text_of_a_machine_never_commands_the_terminal() {
        let rows = [row(&["\u{1b}[31mred\u{1b}[0m", "line\nbreak"])];
        for colour in [false, true] {
            let text = table(&["A", "B"], &rows, Screen { width: None, colour, terminal: false });
            assert!(!text.contains('\u{1b}'), "{text:?}");
            assert_eq!(text.lines().count(), 2, "{text:?}");
        }
        let rows = [vec![("\u{1b}[2J".to_owned(), Tone::Bad)]];
        let text = table(&["A"], &rows, Screen { width: None, colour: true, terminal: false });
        assert_eq!(text, "A\n\u{1b}[31m\\u{1b}[2J\u{1b}[0m\n");
    }
}
