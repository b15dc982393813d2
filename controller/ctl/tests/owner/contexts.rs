//! Contexts and files: what is used, and what is refused because somebody else could have written it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use lucia_people::host_api::NodesView;

use crate::server::{Server, get};
use crate::site::{Site, config, ended, world};

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
    ended(&site.run(&["context", "remove", "home"]), 0, "luciactl.toml");
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
        (&|site| chmod(site, "luciactl.toml", 0o620), "file_mode", "chmod 600"),
        (&|site| chmod(site, "luciactl.toml", 0o604), "file_mode", "chmod 600"),
        (&|site| chmod(site, "", 0o770), "file_mode", "chmod 700"),
        (&|site| chmod(site, "owner.key", 0o640), "file_mode", "chmod 600"),
        (&|site| chmod(site, "given.pem", 0o646), "file_mode", "chmod 644"),
        (&|site| link(site, "luciactl.toml"), "config", "luciactl.toml"),
        (&|site| link(site, "owner.key"), "config", "owner.key"),
        (&|site| link(site, "given.pem"), "config", "given.pem"),
        (&|site| queue(site, "owner.key"), "file_irregular", "owner.key"),
        (&|site| directory(site, "given.pem"), "file_irregular", "given.pem"),
        (&|site| site.write("owner.key", "-----BEGIN PRIVATE KEY-----\n", 0o600), "key_invalid", "owner.key"),
        (&|site| site.write("owner.key", &"A".repeat(5000), 0o600), "file_too_long", "owner.key"),
        (&|site| site.write("given.pem", &"A".repeat(5000), 0o600), "file_too_long", "given.pem"),
        (&|site| site.write("given.pem", "\u{1b}[2J", 0o600), "root_invalid", "given.pem"),
        (&|site| site.write("luciactl.toml", &"#".repeat(70_000), 0o600), "file_too_long", "luciactl.toml"),
        (&|site| binary(site, "luciactl.toml"), "file_not_text", "luciactl.toml"),
        (&|site| add(site, "verify = false"), "context_invalid", "verify"),
        (&|site| add(site, "socket = \"/run/s\""), "context_invalid", "luciactl context remove home"),
        (&|site| add(site, "[contexts.\"../x\"]"), "context_invalid", "luciactl login"),
        (&|site| add(site, "[contexts.\"\\u001b[2J\"]"), "context_invalid", "luciactl login"),
        (&|site| fs::remove_file(site.path("owner.key")).unwrap(), "config", "luciactl login"),
    ];
    for (harm, code, cure) in hostile {
        let server = Server::new(world.clone(), Vec::new());
        let site = Site::alice(&world, server.port);
        harm(&site);
        let text = site.refused(&["nodes"], 78, code);
        assert!(text.contains(cure), "{text}");
        ended(&site.run(&["nodes"]), 78, cure);
        assert!(server.asked().is_empty(), "{text}");
    }
    // The same without harm is used.
    let server = Server::new(world.clone(), vec![get("GET /api/host/nodes", &nodes(world.now))]);
    ended(&Site::alice(&world, server.port).run(&["nodes"]), 0, "");
    server.done();
}

/// How something is harmed, the code of the refusal, and what it names or how it is cured.
type Harm<'a> = (&'a dyn Fn(&Site), &'a str, &'a str);

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
