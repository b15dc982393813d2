//! No two files of a crate need each other, however long the way: whoever reads one need not have read the other first.
//! A `mod` or `pub use` line is no arrow, and tests may name what they like.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::tree;

/// The crates whose files are ranked, by their source folders.
const CRATES: &[&str] = &[
    "agent/src",
    "controller/src",
    "controller/ctl/src",
    "worker/src",
    "proto/src",
    "proto/daemon/src",
    "proto/durable/src",
    "proto/people/src",
    "proto/manual/src",
];

type Path = Vec<String>;

/// One file: the module it is, what it names, and what it passes on under which name.
#[derive(Default)]
struct Module {
    names: BTreeSet<Path>,
    passes_on: BTreeMap<String, Path>,
}

struct Reader<'m> {
    at: &'m Path,
    module: Module,
}

impl Reader<'_> {
    /// A path from the crate's root. One of another crate leads nowhere below this module, so it counts for this file.
    fn absolute(&self, parts: &[String]) -> Path {
        let Some((first, rest)) = parts.split_first() else { return self.at.clone() };
        match first.as_str() {
            "crate" => rest.to_vec(),
            "self" => [self.at, rest].concat(),
            "super" => {
                let mut at = self.at.clone();
                let mut rest = parts;
                while let Some((_, more)) = rest.split_first().filter(|(first, _)| *first == "super") {
                    at.pop();
                    rest = more;
                }
                [&at, rest].concat()
            }
            _ => [self.at, parts].concat(),
        }
    }

    fn tree(&mut self, before: &[String], tree: &syn::UseTree, is_public: bool) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        let (parts, name) = match tree {
            syn::UseTree::Path(path) => return self.tree(&with(&path.ident), &path.tree, is_public),
            syn::UseTree::Group(group) => return group.items.iter().for_each(|one| self.tree(before, one, is_public)),
            syn::UseTree::Name(name) if name.ident == "self" => (before.to_vec(), before.last().cloned()),
            syn::UseTree::Name(name) => (with(&name.ident), Some(name.ident.to_string())),
            syn::UseTree::Rename(rename) => (with(&rename.ident), Some(rename.rename.to_string())),
            syn::UseTree::Glob(_) => (before.to_vec(), None),
        };
        let path = self.absolute(&parts);
        match name {
            Some(name) if is_public => _ = self.module.passes_on.insert(name, path),
            // What a glob passes on is not looked for: none of ours does.
            None if is_public => {}
            _ => _ = self.module.names.insert(path),
        }
    }
}

fn is_of_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|one| {
        let of_tests =
            one.path().is_ident("test") || one.path().segments.last().is_some_and(|last| last.ident == "test");
        of_tests
            || one
                .meta
                .require_list()
                .is_ok_and(|list| list.path.is_ident("cfg") && list.tokens.to_string().contains("test"))
    })
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_of_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_of_tests(&item.attrs) {
            let is_public = !matches!(item.vis, syn::Visibility::Inherited);
            self.tree(&[], &item.tree, is_public);
        }
    }

    /// `pub(super)` names nothing of the parent.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let named = self.absolute(&parts);
        self.module.names.insert(named);
        visit::visit_path(self, path);
    }
}

/// Which file each file of a crate names, by their modules. `sources` are file names below the source folder, and texts.
fn arrows(sources: &BTreeMap<String, String>) -> BTreeMap<String, BTreeSet<String>> {
    let mut modules: BTreeMap<Path, (String, Module)> = BTreeMap::new();
    for (file, text) in sources {
        let at: Path = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        let at: Path = match at.last().map(String::as_str) {
            Some("mod" | "lib" | "main") => at[..at.len() - 1].to_vec(),
            _ => at,
        };
        let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut reader = Reader { at: &at, module: Module::default() };
        reader.visit_file(&parsed);
        let module = reader.module;
        // A program's main.rs and its library's lib.rs are both the root: the library is what others name.
        if file != "main.rs" || !sources.contains_key("lib.rs") {
            modules.insert(at, (file.clone(), module));
        }
    }
    let file_of = |path: &Path| {
        let mut path = path.clone();
        for _ in 0..8 {
            let (at, module) = (0..=path.len()).rev().find_map(|len| modules.get(&path[..len]).map(|it| (len, it)))?;
            let next = path.get(at).and_then(|name| module.1.passes_on.get(name));
            match next {
                Some(next) if *next != path => path = [next.as_slice(), &path[at + 1..]].concat(),
                _ => return Some(module.0.clone()),
            }
        }
        None
    };
    let named = |(file, module): &(String, Module)| {
        let files = module.names.iter().filter_map(file_of).filter(|other| other != file).collect();
        (file.clone(), files)
    };
    modules.values().map(named).collect()
}

/// Files that need each other, each group once.
fn circles(arrows: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached = |from: &String| {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![from]);
        while let Some(file) = todo.pop() {
            todo.extend(arrows.get(file).into_iter().flatten().filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let all: BTreeMap<&String, BTreeSet<String>> = arrows.keys().map(|file| (file, reached(file))).collect();
    let of = |file: &String| -> Vec<String> {
        all[file].iter().filter(|other| all.get(*other).is_some_and(|back| back.contains(file))).cloned().collect()
    };
    let groups: BTreeSet<Vec<String>> = arrows.keys().map(of).filter(|group| !group.is_empty()).collect();
    groups.into_iter().collect()
}

fn sources(folder: &str) -> BTreeMap<String, String> {
    let inside = |path: String| Some((path.strip_prefix(&format!("{folder}/"))?.to_owned(), tree::read(&path)));
    let is_of_tests =
        |name: &str| name.ends_with("tests.rs") || name.contains("tests/") || name.starts_with("test_support");
    tree::rust_files().into_iter().filter_map(inside).filter(|(name, _)| !is_of_tests(name)).collect()
}

#[test]
fn no_two_files_need_each_other() {
    for folder in CRATES {
        let found = circles(&arrows(&sources(folder)));
        assert!(found.is_empty(), "{folder}: files in circles: {found:#?}");
    }
}

#[test]
fn a_circle_made_on_purpose_is_seen() {
    let made = |one: &str, other: &str| {
        let texts = [("lib.rs", "mod a; mod b; pub use b::B;"), ("a.rs", one), ("b.rs", other)];
        circles(&arrows(&texts.map(|(file, text)| (file.to_owned(), text.to_owned())).into()))
    };
    let circle = [["a.rs", "b.rs"]];
    assert_eq!(made("use crate::b::B;", "fn b() { super::a::a() }"), circle);
    assert_eq!(made("use crate::{B as C};", "use crate::a::{self};"), circle);
    assert_eq!(made("use crate::B;", "#[cfg(test)] mod tests { use crate::a::A; }"), [[""; 0]; 0]);
}
