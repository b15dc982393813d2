//! The table of inverted checks stays true: what it undoes is there, and the test it trusts carries the promise.
//! Whether the tests then fail, `make invert` finds out.

use std::collections::{BTreeMap, BTreeSet};

use lucia_tests::inversions::{self, Table};

use crate::{spec, tree};

/// Every promise of these groups has an entry, or a reason why not: what managed-nodes.md says of proofs, enrolment,
/// queue, journal, states, renewal, heartbeat and managed-run.
const WHOLE: &[&str] =
    &["BU", "CE", "CH", "CS", "EN", "FR", "HB", "IN", "JO", "MR", "OW", "PR", "QU", "RN", "RO", "ST"];

/// The folder of each crate whose tests the table names.
const FOLDERS: &[(&str, &str)] = &[
    ("lucia-agent", "agent/"),
    ("lucia-controller", "controller/"),
    ("lucia-durable", "proto/durable/"),
    ("lucia-manual", "proto/manual/"),
    ("lucia-proto", "proto/"),
    ("lucia-tests", "tests/"),
    ("lucia-worker", "worker/"),
    ("luciactl", "controller/ctl/"),
];

fn table() -> Table {
    inversions::read(&tree::root()).expect("a table that can be read")
}

#[test]
fn each_check_stands_in_its_file_once() {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let checks = table().checks;
    assert!(checks.len() > 300, "{} checks only", checks.len());
    let mut wrong = Vec::new();
    for check in &checks {
        let text = texts.entry(check.file.clone()).or_insert_with(|| tree::read(&check.file));
        let count = text.matches(&check.original).count();
        if count != 1 {
            wrong.push(format!("{}: stands {count} times in {}: {}", check.id, check.file, check.original));
        }
    }
    let known: BTreeSet<_> = checks.iter().map(|check| (&check.file, &check.original, &check.replaced)).collect();
    // One check may serve two promises; then it is one text with two tests.
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(known.len() * 10 > checks.len() * 9, "the table repeats itself");
}

#[test]
fn each_test_of_the_table_is_there_and_carries_the_promise() {
    let tests = spec::tests();
    let mut wrong = Vec::new();
    for check in table().checks {
        let folder = FOLDERS.iter().find(|(name, _)| *name == check.package);
        let (_, folder) = folder.unwrap_or_else(|| panic!("{}: no crate of the table's", check.package));
        let found = tests.iter().any(|test| {
            test.name == check.test_name() && test.file.starts_with(folder) && test.ids.contains(&check.id)
        });
        if !found {
            wrong.push(format!("{}: no test {} below {folder} carries it", check.id, check.test));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A name is looked for in the paths of all tests of a binary, so one that stands in two would run both, and nobody could say
/// which of them failed.
#[test]
fn each_test_of_the_table_is_the_only_one_of_its_name() {
    let paths = paths_of_tests();
    let mut wrong = BTreeSet::new();
    for check in table().checks {
        let crates = FOLDERS.iter().find(|(name, _)| *name == check.package);
        let (_, folder) = crates.unwrap_or_else(|| panic!("{}: no crate of the table's", check.package));
        let begins = match &check.binary {
            None => format!("{folder}src/"),
            Some(binary) => format!("{folder}tests/{binary}"),
        };
        // This project's stories lie a folder higher.
        let begins = begins.replace("tests/tests/", "tests/");
        let is_meant = |(file, forms): &&(String, [String; 2])| {
            file.starts_with(&begins) && forms.iter().any(|path| path.contains(&check.test))
        };
        let count = paths.iter().filter(is_meant).count();
        if count != 1 {
            wrong.insert(format!("{}: {count} tests of {} are named {}", check.id, check.package, check.test));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
}

/// Every test's file, and its path as the file alone and as a module `tests` in it would make it.
fn paths_of_tests() -> Vec<(String, [String; 2])> {
    let mut out = Vec::new();
    for file in tree::rust_files() {
        let text = tree::read(&file);
        let module = file.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if !line.starts_with("#[test]") && !line.starts_with("#[tokio::test") {
                continue;
            }
            let name = lines.by_ref().take(8).find_map(|line| {
                let line = line.strip_prefix("async ").unwrap_or(line);
                line.strip_prefix("fn ")?.split(['(', '<']).next()
            });
            let name = name.unwrap_or_else(|| panic!("{file}: no function follows `{line}`"));
            out.push((file.clone(), [format!("{module}::{name}"), format!("{module}::tests::{name}")]));
        }
    }
    out
}

#[test]
fn every_promise_of_the_page_has_an_inversion_or_a_reason() {
    let table = table();
    let held: BTreeSet<&str> = table.checks.iter().map(|check| check.id.as_str()).collect();
    let promises = spec::promises();
    let mut wrong = Vec::new();
    for (id, _) in promises.iter().filter(|(_, pending)| !**pending) {
        let (group, number) = id.split_once('-').unwrap_or_default();
        // From 200 on they are of step 4 and later, where a test by its name is enough.
        if number.parse().is_ok_and(|number: u32| number < 200)
            && WHOLE.contains(&group)
            && !held.contains(id.as_str())
            && !table.without.contains_key(id)
        {
            wrong.push(format!("{id}: no entry in {} inverts what keeps it", inversions::FOLDER));
        }
    }
    for id in held.iter().copied().chain(table.without.keys().map(String::as_str)) {
        if promises.get(id) != Some(&false) {
            wrong.push(format!("{id}: no promise of SPECIFICATION.md, or a pending one"));
        }
    }
    for id in table.without.keys().filter(|id| held.contains(id.as_str())) {
        wrong.push(format!("{id}: has an entry, and a reason why it has none"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
