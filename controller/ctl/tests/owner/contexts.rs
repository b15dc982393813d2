//! Contexts and files: what is used, and what is refused because somebody else could have written it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use lucia_proto::host_api::NodesView;

use crate::server::{Server, get};
use crate::site::{Site, config, ended, said, world};

fn nodes(now: lucia_proto::base::time::UnixTime) -> NodesView {
    NodesView { server_time: now, nodes: Vec::new(), next: None }
}

// spec: LC-1
#[test]
fn contexts_are_listed_used_shown_and_forgotten() {
    let site = Site::alice(&world(), 8443);
    let more = format!("{}\n[contexts.here]\nsocket = \"/run/s\"\n", config(8443));
    site.write("luciactl.toml", &more, 0o600);
    ended(&site.run(&["context", "list"]), 0, "*  home     alice     https://localhost:8443");
    ended(&site.run(&["context", "use", "here"]), 0, "here");
    ended(&site.run(&["context", "list"]), 0, "*  here     operator  /run/s");
    ended(&site.run(&["context", "show", "home"]), 0, "owner.key");
    ended(&site.run(&["context", "show"]), 0, "/run/s");
    ended(&site.run(&["nodes"]), 69, "/run/s");
    ended(&site.run(&["context", "use", "nowhere"]), 64, "luciactl context list");
    ended(&site.run(&["--context", "nowhere", "nodes"]), 64, "luciactl context list");
    ended(&site.run(&["context", "remove", "home"]), 0, "remove them if nobody needs them");
    assert!(site.path("owner.key").exists());
    assert!(!site.read("luciactl.toml").contains("home"), "{}", site.read("luciactl.toml"));
    assert_eq!(site.mode("luciactl.toml"), 0o600);
    ended(&site.run(&["context", "remove", "here"]), 0, "");
    ended(&site.run(&["context", "show"]), 64, "luciactl context use");
    ended(&site.run(&["context", "list"]), 0, "luciactl login");
}

// spec: LC-1
#[test]
fn the_socket_needs_nobodys_files() {
    let site = Site::alice(&world(), 8443);
    site.write("luciactl.toml", "no toml [", 0o666);
    ended(&site.run(&["--socket", "/nowhere/s", "nodes"]), 69, "/nowhere/s");
    ended(&site.run(&["--socket", "/nowhere/s", "--context", "home", "nodes"]), 64, "--context");
    for verb in [&["sign", "1a2b-3c4d-5e6f"][..], &["sign", "--list"], &["release-lapse", "web-1"]] {
        ended(&site.run(&[&["--socket", "/nowhere/s"], verb].concat()), 64, "luciactl login");
    }
}

// spec: LC-2
#[test]
fn files_that_others_could_have_written_are_not_used() {
    let world = world();
    let hostile: &[Harm<'_>] = &[
        ("others may write the contexts", &|site| chmod(site, "luciactl.toml", 0o620), "chmod 600"),
        ("others may read the contexts", &|site| chmod(site, "luciactl.toml", 0o604), "chmod 600"),
        ("others may write beside the contexts", &|site| chmod(site, "", 0o770), "chmod 700"),
        ("others may read the key", &|site| chmod(site, "owner.key", 0o640), "chmod 600"),
        ("others may write the root", &|site| chmod(site, "given.pem", 0o646), "chmod 644"),
        ("a link for the contexts", &|site| link(site, "luciactl.toml"), "luciactl.toml"),
        ("a link for the key", &|site| link(site, "owner.key"), "owner.key"),
        ("a link for the root", &|site| link(site, "given.pem"), "given.pem"),
        ("a queue for the key", &|site| queue(site, "owner.key"), "no regular file"),
        ("a directory for the root", &|site| directory(site, "given.pem"), "no regular file"),
        ("a key that is none", &|site| site.write("owner.key", "-----BEGIN PRIVATE KEY-----\n", 0o600), "no P-256 key"),
        ("a huge key", &|site| site.write("owner.key", &"A".repeat(5000), 0o600), "more than 4096 bytes"),
        ("a huge root", &|site| site.write("given.pem", &"A".repeat(5000), 0o600), "more than"),
        ("a root that is none", &|site| site.write("given.pem", "\u{1b}[2J", 0o600), "no root"),
        ("huge contexts", &|site| site.write("luciactl.toml", &"#".repeat(70_000), 0o600), "more than 65536 bytes"),
        ("contexts that are no text", &|site| binary(site, "luciactl.toml"), "no text"),
        ("a member nobody knows", &|site| add(site, "verify = false"), "verify"),
        ("a socket beside a controller", &|site| add(site, "socket = \"/run/s\""), "context home"),
        ("a name that leaves the directory", &|site| add(site, "[contexts.\"../x\"]"), "luciactl login"),
        ("an escape in a name", &|site| add(site, "[contexts.\"\\u001b[2J\"]"), "luciactl login"),
        ("no file of the key", &|site| fs::remove_file(site.path("owner.key")).unwrap(), "owner.key"),
    ];
    for (what, harm, says) in hostile {
        let server = Server::new(world.clone(), Vec::new());
        let site = Site::alice(&world, server.port);
        harm(&site);
        let output = site.run(&["nodes"]);
        assert_eq!(output.status.code(), Some(78), "{what}: {}", said(&output));
        ended(&output, 78, says);
        assert!(server.asked().is_empty(), "{what}");
    }
    // The same without harm is used.
    let server = Server::new(world.clone(), vec![get("GET /api/host/nodes", &nodes(world.now))]);
    ended(&Site::alice(&world, server.port).run(&["nodes"]), 0, "No nodes yet");
    server.done();
}

/// What is harmed, how, and what is said about it.
type Harm<'a> = (&'a str, &'a dyn Fn(&Site), &'a str);

fn chmod(site: &Site, name: &str, mode: u32) {
    fs::set_permissions(site.path(name), Permissions::from_mode(mode)).unwrap();
}

fn link(site: &Site, name: &str) {
    let elsewhere = site.path(&format!("{name}.elsewhere"));
    fs::rename(site.path(name), &elsewhere).unwrap();
    symlink(elsewhere, site.path(name)).unwrap();
}

fn queue(site: &Site, name: &str) {
    fs::remove_file(site.path(name)).unwrap();
    nix::unistd::mkfifo(&site.path(name), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
}

fn directory(site: &Site, name: &str) {
    fs::remove_file(site.path(name)).unwrap();
    fs::create_dir(site.path(name)).unwrap();
}

fn binary(site: &Site, name: &str) {
    fs::write(site.path(name), [0xff, 0xfe]).unwrap();
}

fn add(site: &Site, text: &str) {
    let before = site.read("luciactl.toml");
    site.write("luciactl.toml", &format!("{before}{text}\n"), 0o600);
}
