//! Every promise of SPECIFICATION.md is carried by a test, or says `[pending]`.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree;

/// A line such as `- **CH-3** A challenge is used once.`
pub(crate) fn promises() -> BTreeMap<String, bool> {
    let mut out = BTreeMap::new();
    for line in tree::read("SPECIFICATION.md").lines() {
        let Some(rest) = line.strip_prefix("- **") else { continue };
        let Some((id, text)) = rest.split_once("**") else { continue };
        let pending = text.contains("[pending]");
        assert!(out.insert(id.to_owned(), pending).is_none(), "{id} stands twice in SPECIFICATION.md");
    }
    out
}

/// A test, and the promises that the comments above it name.
pub(crate) struct Test {
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) ids: Vec<String>,
}

/// Every test of the tree. `spec: ID` stands directly above one, or above another line of that kind.
pub(crate) fn tests() -> Vec<Test> {
    let mut out = Vec::new();
    for file in tree::rust_files() {
        let text = tree::read(&file);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(words) = line.strip_prefix(concat!("// ", "spec: ")) else { continue };
            let is_test = lines[at + 1..].iter().take(4).any(|line| {
                line.contains("#[test]")
                    || line.contains("#[tokio::test")
                    || line.contains("#[track_caller]")
                    || line.contains("proptest!")
            });
            assert!(is_test, "{file}:{}: `{line}` does not stand above a test", at + 1);
            let name = lines[at + 1..].iter().take(10).find_map(|line| {
                let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
                let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
                name.split(['(', '<']).next()
            });
            let name = name.unwrap_or_else(|| panic!("{file}:{}: no function follows `{line}`", at + 1)).to_owned();
            let ids = words.split([',', ' ']).filter(|id| is_promise(id)).map(str::to_owned).collect();
            out.push(Test { file: file.clone(), name, ids });
        }
    }
    out
}

/// Where each promise is carried.
fn carried() -> BTreeMap<String, Vec<String>> {
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for test in tests() {
        for id in test.ids {
            out.entry(id).or_default().push(format!("{}: {}", test.file, test.name));
        }
    }
    out
}

/// Two capitals, a hyphen, a number. Names of threats such as H-3 may stand beside promises.
fn is_promise(id: &str) -> bool {
    id.split_once('-').is_some_and(|(group, number)| {
        group.len() == 2 && group.bytes().all(|b| b.is_ascii_uppercase()) && number.parse::<u16>().is_ok()
    })
}

#[test]
fn every_promise_has_a_test_and_every_test_a_promise() {
    let (promises, carried) = (promises(), carried());
    assert!(promises.len() > 50, "{} promises only", promises.len());
    let mut wrong = Vec::new();
    for (id, pending) in &promises {
        match (pending, carried.get(id)) {
            (false, None) => wrong.push(format!("{id}: no test carries it; write one or mark it [pending]")),
            (true, Some(at)) => wrong.push(format!("{id}: marked [pending], yet {at:?} carries it")),
            (false, Some(_)) | (true, None) => {}
        }
    }
    let known: BTreeSet<_> = promises.keys().collect();
    for (id, at) in &carried {
        if !known.contains(id) {
            wrong.push(format!("{id}: carried by {at:?}, but SPECIFICATION.md does not promise it"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
