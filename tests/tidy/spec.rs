//! Every promise of SPECIFICATION.md is carried by a test, or says `[pending]`.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree;

/// A line such as `- **CH-3** A challenge is used once.`
fn promises() -> BTreeMap<String, bool> {
    let mut out = BTreeMap::new();
    for line in tree::read("SPECIFICATION.md").lines() {
        let Some(rest) = line.strip_prefix("- **") else { continue };
        let Some((id, text)) = rest.split_once("**") else { continue };
        let pending = text.contains("[pending]");
        assert!(out.insert(id.to_owned(), pending).is_none(), "{id} stands twice in SPECIFICATION.md");
    }
    out
}

/// Every `spec: ID` comment that stands directly above a test.
fn carried() -> BTreeMap<String, Vec<String>> {
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in tree::rust_files() {
        let text = tree::read(&path);
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(ids) = line.trim().strip_prefix(concat!("// ", "spec: ")) else { continue };
            let is_test = lines[at + 1..].iter().take(4).any(|line| {
                line.contains("#[test]")
                    || line.contains("#[tokio::test")
                    || line.contains("#[track_caller]")
                    || line.contains("proptest!")
            });
            assert!(is_test, "{path}:{}: `{}` does not stand above a test", at + 1, line.trim());
            for id in ids.split([',', ' ']).filter(|id| is_promise(id)) {
                out.entry(id.to_owned()).or_default().push(format!("{path}:{}", at + 1));
            }
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
