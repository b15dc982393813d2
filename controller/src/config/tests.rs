//! The default file and the refusals of settings.

use super::*;

/// As every controller gets it.
const DEFAULT: &str = include_str!("../../controller.toml");

// spec: CF-1, JO-7
#[test]
fn the_default_file_says_what_the_code_does() {
    let as_shipped = Config::parse(DEFAULT).unwrap();
    assert_eq!(as_shipped, Config::parse("names = [\"lucia.home.arpa\"]").unwrap());
    // Each commented-out setting, put in force, changes nothing: the file tells the defaults as they are.
    let uncommented: String = DEFAULT
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ') && !rest.is_empty()).unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert_eq!(Config::parse(&uncommented).unwrap(), as_shipped);
    for setting in [
        "listen",
        "names",
        "state-dir",
        "root-file",
        "socket",
        "group",
        "worker-user",
        "source-binding",
        "trusted-proxies",
        "allowed-networks",
        "devices",
        "tasks",
        "max",
        "per-source",
        "reserved",
        "format",
        "level",
    ] {
        let line = format!("\n{setting} = ");
        assert_eq!(uncommented.matches(&line).count(), 1, "{setting} must be in controller.toml, once");
    }
}

// spec: CF-2
#[test]
fn what_cannot_work_is_refused_by_name() {
    for (text, word) in [
        ("", "names"),
        ("names = []", "names"),
        ("names = [\"Upper\"]", "names"),
        ("names = [\"a\"]\nnmaes = 1", "nmaes"),
        ("names = [\"a\"]\nlisten = \"8443\"", "listen"),
        ("names = [\"a\"]\nstate-dir = \"x\"", "state-dir"),
        ("names = [\"a\"]\nsource-binding = \"loose\"", "loose"),
        ("names = [\"a\"]\nallowed-networks = [\"10.0.0.1/8\"]", "allowed-networks"),
        ("names = [\"a\"]\ntrusted-proxies = [\"x\"]", "trusted-proxies"),
        ("names = [\"a\"]\n[limits]\ndevices = 0", "limits.devices"),
        ("names = [\"a\"]\n[limits]\ndevices = 9\ntasks = 8", "limits.tasks"),
        ("names = [\"a\"]\n[limits]\ndevices = 4096\ntasks = 8192", "limits.devices to at most 37"),
        ("names = [\"a\"]\n[limits]\nnodes = 9", "nodes"),
        ("names = [\"a\"]\n[connections]\nmax = 5\nper-source = 6", "connections"),
        ("names = [\"a\"]\n[log]\nlevel = \"trace\"", "trace"),
    ] {
        let error = Config::parse(text).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(format!("{error} {source}").contains(word), "{text:?}: {error} {source}");
    }
}

#[test]
fn an_empty_group_or_worker_leaves_it_alone() {
    let config = Config::parse("names = [\"a\"]\ngroup = \"\"\nworker-user = \"\"").unwrap();
    assert_eq!((config.group, config.worker_user), (None, None));
}
