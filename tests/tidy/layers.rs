//! The house of ARCHITECTURE.md: which crate may import which, and what may enter the ground.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Crate → the crates of ours it may import outside its tests.
const ARROWS: &[(&str, &[&str])] = &[
    ("lucia-proto", &[]),
    ("lucia-people", &["lucia-proto"]),
    ("lucia-daemon", &["lucia-proto"]),
    ("lucia-durable", &[]),
    ("lucia-manual", &[]),
    ("lucia-agent", &["lucia-proto", "lucia-daemon", "lucia-durable", "lucia-manual"]),
    ("lucia-controller", &["lucia-people", "lucia-proto", "lucia-daemon", "lucia-durable", "lucia-manual"]),
    ("luciactl", &["lucia-people", "lucia-proto", "lucia-daemon", "lucia-durable", "lucia-manual"]),
    ("lucia-worker", &["lucia-people", "lucia-proto", "lucia-daemon", "lucia-durable", "lucia-manual"]),
    (
        "lucia-tests",
        &[
            "lucia-people",
            "lucia-proto",
            "lucia-daemon",
            "lucia-durable",
            "lucia-agent",
            "lucia-controller",
            "lucia-worker",
        ],
    ),
    ("lucia-browser", &[]),
    ("lucia-qualification", &["lucia-people", "lucia-proto", "lucia-browser"]),
];

/// All that the ground may rest on: no I/O, no clock, no runtime among them.
const GROUND: &[&str] = &[
    "base64",
    "hpke",
    "icu_properties",
    "p256",
    "rcgen",
    "ring",
    "rustls-pki-types",
    "rustls-webpki",
    "serde",
    "serde_json",
    "sha2",
    "thiserror",
    "time",
    "x509-cert",
    "zeroize",
];

/// Module order of each daemon: a module may name only modules to its left.
const ORDER: &[(&str, &[&str])] = &[
    (
        "agent",
        &[
            "host",
            "units",
            "directory",
            "keys",
            "client",
            "identity",
            "owners",
            "inventory",
            "install",
            "managed",
            "cli",
        ],
    ),
    ("controller", &["config", "refusal", "source", "store", "bridge", "state", "page", "http", "app", "cli"]),
    (
        "worker",
        &[
            "names",
            "config",
            "files",
            "ledger",
            "ca",
            "directory",
            "home",
            "roster",
            "queue",
            "owner_queue",
            "applications",
            "remarks",
            "authority",
            "decide",
            "orders",
            "owners",
            "answers",
            "turn",
            "survey",
            "init",
            "status",
            "watch",
            "cli",
        ],
    ),
];

fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = MetadataCommand::new()
        .manifest_path(crate::tree::root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata");
    metadata
        .packages
        .iter()
        .map(|package| {
            let normal = package.dependencies.iter().filter(|dep| dep.kind == DependencyKind::Normal);
            (package.name.to_string(), normal.map(|dep| dep.name.clone()).collect())
        })
        .collect()
}

/// The arrows of `found` that the picture does not allow.
fn forbidden(found: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let arrows = found.iter().flat_map(|(from, to)| to.iter().map(move |to| (from.as_str(), to.as_str())));
    arrows
        .filter(|(from, to)| to.starts_with("lucia") && !allowed.get(from).is_some_and(|may| may.contains(to)))
        .map(|(from, to)| format!("{from} -> {to}"))
        .collect()
}

#[test]
fn imports_follow_the_arrows() {
    let found = dependencies();
    let expected: BTreeSet<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    assert_eq!(found.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected, "a crate is not in the picture");
    assert_eq!(forbidden(&found), [""; 0]);
}

#[test]
fn a_forbidden_arrow_would_be_seen() {
    let mut found = dependencies();
    found.entry("lucia-agent".to_owned()).or_default().insert("lucia-controller".to_owned());
    found.entry("lucia-new".to_owned()).or_default().insert("lucia-proto".to_owned());
    assert_eq!(forbidden(&found), ["lucia-agent -> lucia-controller", "lucia-new -> lucia-proto"]);
}

#[test]
fn the_ground_rests_on_a_closed_list() {
    let found = &dependencies()["lucia-proto"];
    let strange: Vec<_> = found.iter().filter(|dep| !GROUND.contains(&dep.as_str())).collect();
    assert!(strange.is_empty(), "proto does no I/O and has no runtime; it may not depend on {strange:?}");
}

/// The modules above `module` of `order` that `text` names.
fn upward<'o>(order: &[&'o str], module: &str, text: &str) -> Vec<&'o str> {
    let above = order.iter().skip_while(|name| **name != module).skip(1);
    above.copied().filter(|later| text.contains(&format!("crate::{later}::"))).collect()
}

// spec: AG-322
#[test]
fn programs_connect_by_one_piece_of_code() {
    const REACH: &str = "proto/daemon/src/reach.rs";
    let connects =
        |text: &str| ["TcpStream::connect", "lookup_host", "to_socket_addrs"].map(|word| text.contains(word));
    assert_eq!(connects(&crate::tree::read(REACH)), [true, true, false], "what is looked for is what connects");
    for path in crate::tree::rust_files() {
        let is_program = ["agent/src/", "controller/src/", "controller/ctl/src/", "worker/src/", "proto/"];
        let is_test = path.contains("/tests/") || path.ends_with("tests.rs");
        if is_test || path == REACH || !is_program.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        assert_eq!(
            connects(&crate::tree::read(&path)),
            [false; 3],
            "{path} connects by itself; lucia_daemon::reach does"
        );
    }
}

#[test]
fn modules_name_only_modules_to_their_left() {
    for (krate, order) in ORDER {
        for path in crate::tree::rust_files() {
            let Some(rest) = path.strip_prefix(&format!("{krate}/src/")) else { continue };
            // Tests may reach up: a story needs the whole.
            if rest.ends_with("tests.rs") || rest.contains("/tests/") {
                continue;
            }
            let module = rest.trim_end_matches(".rs").split('/').next().expect("a first part");
            let named = upward(order, module, &crate::tree::read(&path));
            assert!(named.is_empty(), "{path} names {named:?}, which stand above it");
        }
    }
}

#[test]
fn a_module_that_names_one_above_it_would_be_seen() {
    let order = ["low", "middle", "high"];
    assert_eq!(upward(&order, "middle", "use crate::low::A; use crate::high::B;"), ["high"]);
    assert_eq!(upward(&order, "main", "use crate::high::B;"), [""; 0]);
}
