//! The script in modules: what one takes from another is there, and none takes from itself by way of others.

use std::collections::BTreeMap;

use super::*;

/// The names that a line takes, and the file that they are of: `import { a, b } from './file.js';`.
fn import(line: &str) -> Option<(Vec<&str>, &str)> {
    let rest = line.strip_prefix("import ")?;
    let file = rest.split("'./").nth(1).and_then(|rest| rest.strip_suffix("';"));
    let names = rest.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(names, _)| names);
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    Some((names, file.unwrap_or_else(|| panic!("{line}"))))
}

fn exports(text: &str, name: &str) -> bool {
    let lines = text.lines().filter_map(|line| line.strip_prefix("export "));
    let mut words = lines.filter_map(|line| line.split([' ', '(', ';']).find(|word| !is_keyword(word)));
    words.any(|word| word == name)
}

fn is_keyword(word: &str) -> bool {
    matches!(word, "async" | "function" | "function*" | "const" | "let" | "class")
}

// spec: PG-440
#[test]
fn modules_take_only_what_is_there_and_in_no_circle() {
    let texts: BTreeMap<&str, &str> =
        Asset::ALL.iter().filter_map(|asset| Some((asset.path().strip_prefix("/assets/")?, asset.text()))).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files.len(), texts.len());
    assert!(files.iter().all(|file| texts.contains_key(file.to_str().unwrap())), "{files:?}");
    let mut takes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, text) in &texts {
        let imports = text.lines().filter_map(import);
        for (names, from) in imports {
            for name in names {
                assert!(exports(texts[from], name), "{file} takes {name} from {from}");
            }
            takes.entry(file).or_default().push(from);
        }
    }
    // Each round leaves out the modules that take from none that is left: of a circle some would stay.
    while !takes.is_empty() {
        let before = takes.len();
        let left: Vec<&str> = takes.keys().copied().collect();
        takes.retain(|_, from| from.iter().any(|file| left.contains(file)));
        assert!(takes.len() < before, "a circle: {takes:?}");
    }
}
