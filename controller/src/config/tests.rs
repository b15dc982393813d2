//! The default file and the refusals of settings.

use super::*;

/// As every controller gets it.
const DEFAULT: &str = include_str!("../../controller.toml");

// spec: CF-1, JO-7
#[test]
fn the_default_file_says_what_the_code_does() {
    let as_shipped = Config::parse(DEFAULT).unwrap();
    assert_eq!(as_shipped, Config::parse("names = [\"controller.lucia.home.arpa\"]").unwrap());
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
        "page-origin",
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
        // The endpoint's, and that of metrics.
        let times = if setting == "listen" { 2 } else { 1 };
        assert_eq!(uncommented.matches(&line).count(), times, "{setting} must be in controller.toml");
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
        ("names = [\"a\"]\npage-origin = \"http://a\"", "page-origin"),
        ("names = [\"a\"]\npage-origin = \"https://192.0.2.1/\"", "page-origin"),
        ("names = [\"a\"]\nstate-dir = \"x\"", "state-dir"),
        ("names = [\"a\"]\nsource-binding = \"loose\"", "loose"),
        ("names = [\"a\"]\nallowed-networks = [\"10.0.0.1/8\"]", "allowed-networks"),
        ("names = [\"a\"]\ntrusted-proxies = [\"x\"]", "trusted-proxies"),
        ("names = [\"a\"]\n[limits]\ndevices = 0", "limits.devices"),
        ("names = [\"a\"]\n[limits]\ndevices = 9\ntasks = 8", "limits.tasks"),
        ("names = [\"a\"]\n[limits]\ndevices = 6000\ntasks = 8192", "limits.devices"),
        ("names = [\"a\"]\n[limits]\nnodes = 9", "nodes"),
        ("names = [\"a\"]\n[connections]\nmax = 5\nper-source = 6", "connections"),
        ("names = [\"a\"]\n[log]\nlevel = \"trace\"", "trace"),
    ] {
        let error = Config::parse(text).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(format!("{error} {source}").contains(word), "{text:?}: {error} {source}");
    }
}

// spec: PG-9
#[test]
fn the_page_is_at_the_first_dns_name_unless_told_otherwise() {
    for (text, want) in [
        ("names = [\"a.test\"]", Some("https://a.test:8443")),
        ("names = [\"192.0.2.1\", \"b.test\"]\nlisten = \"[::]:443\"", Some("https://b.test")),
        ("names = [\"192.0.2.1\"]", None),
        ("names = [\"a.test\"]\npage-origin = \"https://page.test\"", Some("https://page.test")),
    ] {
        let origin = Config::parse(text).unwrap().page_origin();
        assert_eq!(origin.as_ref().map(PageOrigin::as_str), want, "{text}");
    }
}

#[test]
fn an_empty_group_or_worker_leaves_it_alone() {
    let config = Config::parse("names = [\"a\"]\ngroup = \"\"\nworker-user = \"\"").unwrap();
    assert_eq!((config.group, config.worker_user), (None, None));
}

// spec: OB-1
#[test]
fn metrics_are_for_this_machine_alone_and_off_unless_asked_for() {
    let parse = |listen: &str| Config::parse(&format!("names = [\"a\"]\n[metrics]\nlisten = \"{listen}\""));
    assert_eq!(Config::parse("names = [\"a\"]").unwrap().metrics, None);
    assert_eq!(parse("").unwrap().metrics, None);
    for text in ["127.0.0.1:9464", "127.9.9.9:1", "[::1]:9464"] {
        assert_eq!(parse(text).unwrap().metrics, Some(text.parse().unwrap()));
    }
    for text in ["0.0.0.0:9464", "[::]:9464", "192.0.2.1:9464", "[::ffff:10.0.0.1]:1", "localhost:9464", "9464", "x"] {
        assert!(parse(text).unwrap_err().to_string().contains("metrics.listen"), "{text}");
    }
}
