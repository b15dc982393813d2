//! Tables that fit the terminal, in text that cannot command it.

use std::io::IsTerminal as _;

use lucia_proto::base::text::shown;
use textwrap::core::display_width;

/// A column is not made narrower than this for another's sake: a time is whole in it, and an id can be told apart.
const NARROW: usize = 20;
/// Of a column no wider than this a part says nothing: it is shown whole or left out.
const SHORT: usize = 10;
/// Columns of a terminal that does not say how many it has.
const USUAL: usize = 80;

/// What the output is shown on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Columns, where it is a terminal, or `COLUMNS` says so.
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
        let told = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
        let columns = std::env::var_os("COLUMNS").and_then(|text| text.to_str()?.parse().ok());
        let asked_not_to = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { width: width(terminal, told, columns), colour: terminal && !asked_not_to, terminal }
    }
}

/// Columns of standard error, where it is a terminal: what is said beside the answer is read there or kept in a file.
pub(crate) fn beside() -> Option<usize> {
    let terminal = std::io::stderr().is_terminal();
    let told = terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0));
    width(terminal, told, None)
}

/// What a terminal says; else what `COLUMNS` says, as it does in `watch`; else nothing, and a terminal has the usual ones.
fn width(terminal: bool, told: Option<usize>, columns: Option<usize>) -> Option<usize> {
    let some = |width: Option<usize>| width.filter(|width| *width > 0);
    some(told.filter(|_| terminal)).or_else(|| some(columns)).or_else(|| terminal.then_some(USUAL))
}

/// How a cell is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Attention,
    Bad,
}

/// A row: each cell with what it means.
pub(crate) type Row = Vec<(String, Tone)>;

/// A cell that means nothing by its colour.
pub(crate) fn plain(text: impl ToString) -> (String, Tone) {
    (text.to_string(), Tone::Plain)
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

/// Said once under a table some of whose columns do not fit.
pub(crate) const LEFT_OUT: &str = "More with -o wide.\n";

/// A table with a heading. Where the terminal is narrow, columns go in which nothing stands; then the widest ones are
/// shortened, marked by an ellipsis; then the last ones are cut, or left out when nothing of them would remain, which is
/// said.
pub(crate) fn table(heading: &[&str], rows: &[Row], screen: Screen) -> String {
    let mut growing = Growing::new(heading);
    let mut out = growing.head(rows, screen);
    rows.iter().for_each(|row| out.push_str(&growing.row(row, screen)));
    if growing.lost && screen.width.is_some_and(|width| width > LEFT_OUT.len()) {
        out.push_str(LEFT_OUT);
    }
    out
}

/// A table that comes in parts: its columns only become wider.
pub(crate) struct Growing {
    heading: Vec<String>,
    begun: bool,
    widths: Vec<usize>,
    /// Columns that go, because nothing stands in them and the others need the room.
    empty: Vec<bool>,
    /// Whether something stands in a column that is not shown.
    pub(crate) lost: bool,
}

impl Growing {
    /// An empty one.
    pub(crate) fn new(heading: &[&str]) -> Self {
        let heading: Vec<String> = heading.iter().map(|title| (*title).to_owned()).collect();
        let widths = heading.iter().map(|title| display_width(title)).collect();
        Self { widths, empty: vec![false; heading.len()], heading, begun: false, lost: false }
    }

    /// These rows, each with what hangs under it; before the first ones the heading.
    pub(crate) fn more(&mut self, rows: &[(Row, String)], screen: Screen) -> String {
        let cells: Vec<Row> = rows.iter().map(|(row, _)| row.clone()).collect();
        let mut out = if self.begun || rows.is_empty() { String::new() } else { self.head(&cells, screen) };
        self.begun |= !rows.is_empty();
        self.grow(&cells);
        rows.iter().for_each(|(row, under)| out.extend([self.row(row, screen), under.clone()]));
        out
    }

    /// Makes room for these rows.
    fn grow(&mut self, rows: &[Row]) {
        for row in rows {
            for (width, (text, _)) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(display_width(&shown(text)));
            }
        }
    }

    /// The heading, with room for these rows.
    fn head(&mut self, rows: &[Row], screen: Screen) -> String {
        self.grow(rows);
        if screen.width.is_some_and(|all| over(&self.widths, all) > 0) && !rows.is_empty() {
            for (at, empty) in self.empty.iter_mut().enumerate() {
                *empty = rows.iter().all(|row| row.get(at).is_none_or(is_empty));
            }
        }
        let titles: Row = self.heading.iter().map(|title| (title.clone(), Tone::Plain)).collect();
        self.drawn(&titles, screen).0
    }

    /// One row, as a line.
    fn row(&mut self, row: &[(String, Tone)], screen: Screen) -> String {
        let (out, lost) = self.drawn(row, screen);
        self.lost |= lost;
        out
    }

    /// The line of a row, and whether something of it is not in it.
    fn drawn(&self, row: &[(String, Tone)], screen: Screen) -> (String, bool) {
        let stays = |at: usize| !self.empty.get(at).copied().unwrap_or_default();
        let cells: Row = row.iter().map(|(text, tone)| (shown(text), *tone)).collect();
        let (cells, gone): (Vec<_>, Vec<_>) = cells.into_iter().enumerate().partition(|(at, _)| stays(*at));
        let cells: Row = cells.into_iter().map(|(_, cell)| cell).collect();
        let widths = self.widths.iter().enumerate().filter(|(at, _)| stays(*at)).map(|(_, width)| *width).collect();
        let widths = screen.width.map_or_else(|| Vec::clone(&widths), |all| fit(widths.clone(), all));
        let (mut out, drawn) = line(&cells, &widths, screen);
        out.push('\n');
        let lost = cells.iter().skip(drawn).chain(gone.iter().map(|(_, cell)| cell)).any(|cell| !is_empty(cell));
        (out, lost)
    }
}

/// Whether a cell says nothing.
fn is_empty((text, _): &(String, Tone)) -> bool {
    matches!(text.as_str(), "" | "-")
}

/// How many columns too many these are.
fn over(widths: &[usize], all: usize) -> usize {
    let gaps = widths.len().saturating_sub(1) * 2;
    (widths.iter().sum::<usize>() + gaps).saturating_sub(all)
}

/// The widest columns made narrower, the widest first, until they all fit or none is wide any more.
fn fit(mut widths: Vec<usize>, all: usize) -> Vec<usize> {
    let mut over = over(&widths, all);
    while over > 0 {
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > NARROW) else { break };
        *widest -= 1;
        over -= 1;
    }
    widths
}

/// The line, and how many cells there was room for.
fn line(row: &[(String, Tone)], widths: &[usize], screen: Screen) -> (String, usize) {
    let mut out = String::new();
    let (mut used, mut drawn) = (0, 0);
    for (at, ((text, tone), width)) in row.iter().zip(widths).enumerate() {
        let gap = if at == 0 { 0 } else { 2 };
        let room = screen.width.map_or(usize::MAX, |all| all.saturating_sub(used + gap));
        if room < 3 || (room < *width && *width <= SHORT) {
            break;
        }
        let text = fitted(text, room.min(*width));
        let length = display_width(&text);
        out.push_str(&" ".repeat(gap));
        out.push_str(&paint(&text, *tone, screen));
        let padded = room.min(*width);
        if at + 1 < row.len() {
            out.push_str(&" ".repeat(padded - length));
        }
        used += gap + padded;
        drawn += 1;
    }
    (out.trim_end().to_owned(), drawn)
}

fn fitted(text: &str, room: usize) -> String {
    if display_width(text) <= room {
        return text.to_owned();
    }
    let mut out = text.to_owned();
    while display_width(&out) >= room && out.pop().is_some() {}
    out + "…"
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

    // spec: CT-9, LC-95
    #[test]
    fn what_is_widest_is_shortened_first_and_a_fingerprint_never_wraps() {
        let (key, id) = ("f".repeat(64), "0".repeat(32));
        let rows = [row(&["alice", "2026-11-30T20:00:00Z", &key, &id])];
        let heading = ["NAME", "SINCE", "FINGERPRINT", "OWNER"];
        let at = |width| table(&heading, &rows, Screen { width, ..PAPER });
        assert!(at(None).contains(&key) && at(None).contains(&id));
        for width in 1..140 {
            let text = at(Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        }
        for (width, own, owner) in [(127, 64, 32), (120, 57, 32), (100, 37, 32), (80, 25, 24)] {
            let text = at(Some(width));
            let cells: Vec<usize> = text.lines().nth(1).unwrap().split("  ").map(|cell| cell.chars().count()).collect();
            assert_eq!(cells, [5, 20, own, owner], "{width}: {text}");
        }
        let narrow = at(Some(60));
        assert!(narrow.contains("2026-11-30T20:00:00Z"), "{narrow}");
    }

    // spec: LC-102
    #[test]
    fn empty_columns_go_before_full_ones_are_shortened_and_what_is_left_out_is_said() {
        let heading = ["HOSTNAME", "TEMPERATURE", "STORAGE FREE"];
        let rows = [row(&["web-1", "-", "14.9 GiB of 20.0 GiB"]), row(&["a", "", "1.0 GiB of 20.0 GiB"])];
        let at = |rows: &[Row], width| table(&heading, rows, Screen { width: Some(width), ..PAPER });
        assert!(at(&rows, 80).contains("TEMPERATURE"));
        let narrow = at(&rows, 32);
        assert!(!narrow.contains("TEMP") && narrow.contains("14.9 GiB of 20.0 GiB"), "{narrow}");
        assert!(!narrow.contains(LEFT_OUT), "{narrow}");
        let rows = [row(&["a-node-with-a-long-name", "55.0 °C of most", "14.9 GiB of 20.0 GiB"])];
        let text = at(&rows, 38);
        assert!(!text.contains("14.9") && text.ends_with(LEFT_OUT), "{text}");
        assert_eq!(text.matches(LEFT_OUT).count(), 1);
        // A part of a short one says nothing.
        let rows = [row(&["a-node-with-a-name", "1 h 0 min"])];
        assert_eq!(
            table(&["A", "AGE"], &rows, Screen { width: Some(24), ..PAPER }),
            format!("A\na-node-with-a-name\n{LEFT_OUT}")
        );
        // What comes later in a column that went is said to be left out.
        let mut list = Growing::new(&["A", "B"]);
        let narrow = Screen { width: Some(5), ..PAPER };
        assert_eq!(list.head(&[row(&["12345", ""])], narrow), "A\n");
        assert_eq!((list.row(&row(&["12345", ""]), narrow).as_str(), list.lost), ("12345\n", false));
        assert_eq!((list.row(&row(&["12345", "b"]), narrow).as_str(), list.lost), ("12345\n", true));
    }

    // spec: LC-95
    #[test]
    fn a_terminal_always_has_a_width_and_a_pipe_only_by_columns() {
        for (terminal, told, columns, want) in [
            (true, Some(120), None, Some(120)),
            (true, Some(120), Some(60), Some(120)),
            (true, Some(0), Some(100), Some(100)),
            (true, None, Some(100), Some(100)),
            (true, Some(0), Some(0), Some(80)),
            (true, None, None, Some(80)),
            (false, None, Some(100), Some(100)),
            (false, Some(120), None, None),
            (false, None, None, None),
        ] {
            assert_eq!(width(terminal, told, columns), want, "{terminal} {told:?} {columns:?}");
        }
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
