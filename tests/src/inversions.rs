//! The table of inverted checks, `tests/inversions/*.txt`: which check, written how, undone how, and the test that
//! must fail then. `make invert` runs it, `tests/tidy` keeps it true.
//!
//! An entry, between empty lines; `#` begins a comment:
//!
//! ```text
//! CH-5 controller/src/state/challenges.rs
//! test lucia-controller s_5_a_challenge_lives_two_minutes_whatever_the_wall_clock_does
//! - at > now || now - at > lifetime_millis()
//! + at > now
//! ```
//!
//! Text after `- ` stands in the file once and is replaced by what stands after `+ `; several such lines are one text
//! of several lines. A test is looked for in its crate's library, or in the test binary that stands after a colon
//! (`lucia-agent:cli`), by the end of its path. `without ID reason` says why a promise has no entry.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::sim::Failure;

/// The folder of the table, below the project's root.
pub const FOLDER: &str = "tests/inversions";

/// One check and what undoes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inversion {
    /// The promise of SPECIFICATION.md that the check keeps.
    pub id: String,
    /// The source that holds the check, below the project's root.
    pub file: String,
    /// The crate whose test notices.
    pub package: String,
    /// The test binary, where it is not the library's.
    pub binary: Option<String>,
    /// The test's name, as much of the path's end as makes it the only one.
    pub test: String,
    /// The check as it stands, once, in the file.
    pub original: String,
    /// What stands there when it is inverted or dropped.
    pub replaced: String,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The checks.
    pub checks: Vec<Inversion>,
    /// Promises that have none, and why.
    pub without: BTreeMap<String, String>,
}

impl Inversion {
    /// The test's name without its path.
    #[must_use]
    pub fn test_name(&self) -> &str {
        self.test.rsplit("::").next().unwrap_or_default()
    }
}

/// Reads the whole table below `root`, one file after the other.
///
/// # Errors
/// When a file cannot be read, or a line is none of the table's.
pub fn read(root: &Path) -> Result<Table, Failure> {
    let mut paths: Vec<_> =
        fs::read_dir(root.join(FOLDER))?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    let mut table = Table::default();
    for path in paths {
        parse(&fs::read_to_string(&path)?, &mut table).map_err(|error| format!("{}:{error}", path.display()))?;
    }
    Ok(table)
}

/// Adds what `text` says to `table`.
///
/// # Errors
/// The line at fault and what is wrong with it.
pub fn parse(text: &str, table: &mut Table) -> Result<(), String> {
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#')).chain([("", 0)]);
    let mut entry: Vec<(&str, usize)> = Vec::new();
    for (line, at) in lines {
        if let Some(rest) = line.strip_prefix("without ") {
            let (id, reason) = rest.split_once(' ').ok_or_else(|| format!("{at}: a reason is missing"))?;
            if table.without.insert(id.to_owned(), reason.to_owned()).is_some() {
                return Err(format!("{at}: {id} stands twice"));
            }
        } else if !line.is_empty() {
            entry.push((line, at));
        } else if let Some((_, first)) = entry.first() {
            table.checks.push(one(&entry).ok_or_else(|| format!("{first}: not an entry of four parts"))?);
            entry.clear();
        }
    }
    Ok(())
}

fn one(lines: &[(&str, usize)]) -> Option<Inversion> {
    let [(head, _), (test, _), texts @ ..] = lines else { return None };
    let (id, file) = head.split_once(' ')?;
    let (place, test) = test.strip_prefix("test ")?.split_once(' ')?;
    let (package, binary) = match place.split_once(':') {
        Some((package, binary)) => (package, Some(binary.to_owned())),
        None => (place, None),
    };
    let of = |sign: char| {
        let marked = texts.iter().filter_map(|(line, _)| line.strip_prefix(sign));
        marked.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
    };
    let known = texts.iter().all(|(line, _)| line.starts_with(['-', '+']));
    let (original, replaced) = (of('-'), of('+'));
    (known && !original.is_empty() && original != replaced).then(|| Inversion {
        id: id.to_owned(),
        file: file.to_owned(),
        package: package.to_owned(),
        binary,
        test: test.to_owned(),
        original,
        replaced,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_is_written() {
        let mut table = Table::default();
        let text =
            "# page\nwithout CH-1 it is a type\n\nCH-5 a/b.rs\ntest lucia-agent:cli x::y\n- if a\n-     b\n+ if c\n";
        parse(text, &mut table).unwrap();
        assert_eq!(table.without["CH-1"], "it is a type");
        let [check] = table.checks.as_slice() else { panic!("{:?}", table.checks) };
        assert_eq!((check.id.as_str(), check.file.as_str()), ("CH-5", "a/b.rs"));
        assert_eq!((check.package.as_str(), check.binary.as_deref()), ("lucia-agent", Some("cli")));
        assert_eq!((check.test.as_str(), check.test_name()), ("x::y", "y"));
        assert_eq!((check.original.as_str(), check.replaced.as_str()), ("if a\n    b", "if c"));
        for bad in
            ["CH-5 a.rs\n- a\n+ b\n", "CH-5 a.rs\ntest p t\n- a\n+ a\n", "CH-5 a.rs\ntest p t\n+ a\n", "without X"]
        {
            assert!(parse(bad, &mut Table::default()).is_err(), "{bad}");
        }
    }
}
