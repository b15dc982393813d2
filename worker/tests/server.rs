//! `sign-directory` by the real binary: the certificate of the directory's own server.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "this is a test, whose helpers stand outside of test functions"
)]

#[path = "../src/fixture.rs"]
#[allow(dead_code, reason = "shared with the unit tests, which use all of it")]
mod fixture;
#[allow(dead_code, reason = "shared with the tests beside this one")]
mod site;

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use lucia_proto::base::time::UnixTime;
use lucia_proto::node::phase::{DevicePhase, TaskPhase};
use lucia_proto::pki::csr::endpoint_build;
use lucia_proto::pki::endpoint_names::{EndpointName, EndpointNames};
use lucia_proto::test_support::{TestNode, key};
use site::{Ran, Site, command, now};
use x509_cert::Certificate;

const NAMES: &str = "admission = \"journal\"\nendpoint-names = [\"controller.example\"]\n[directory]\n\
                     names = [\"directory.example\", \"192.0.2.7\", \"n1.example\"]\ncertificate-days = 20\n";

fn csr(names: &[&str]) -> String {
    let names = names.iter().map(|text| EndpointName::parse(text).unwrap()).collect();
    endpoint_build(&EndpointNames::new(names).unwrap(), &key(90))
}

fn sign(site: &Site, names: &[&str]) -> Ran {
    std::fs::write(site.path("directory.csr"), csr(names)).unwrap();
    let (csr, out) = (site.path("directory.csr"), site.path("directory.pem"));
    site.run(&["sign-directory", "--csr", csr.to_str().unwrap(), "--out", out.to_str().unwrap()])
}

fn lines(site: &Site) -> usize {
    std::fs::read_to_string(site.path("worker/ledger.jsonl")).unwrap().lines().count()
}

// spec: LD-21
#[test]
fn the_directorys_server_gets_its_configured_names_for_the_stated_time() {
    let site = Site::new(NAMES);
    sign(&site, &["directory.example", "192.0.2.7"]).expect(0, "directory.example, 192.0.2.7");
    let text = std::fs::read(site.path("directory.pem")).unwrap();
    let chain = Certificate::load_pem_chain(&text).unwrap();
    let issuing = std::fs::read(site.path("worker/ca/issuing.pem")).unwrap();
    assert_eq!(chain.get(1..), Some(Certificate::load_pem_chain(&issuing).unwrap().as_slice()));
    let leaf = chain.first().unwrap().tbs_certificate();
    let at = |time: x509_cert::time::Time| UnixTime::from_secs(time.to_unix_duration().as_secs());
    let (from, to) = (at(leaf.validity().not_before), at(leaf.validity().not_after));
    assert_eq!(to.since(from), Duration::from_secs(20 * 86_400));
    assert!(from <= now() && now().since(from) < Duration::from_secs(400));
    assert_eq!(leaf.subject().to_string(), "CN=directory.example");
    let value = |oid: &str| {
        let found = leaf.extensions().unwrap().iter().find(|extension| extension.extn_id.to_string() == oid);
        found.map(|extension| extension.extn_value.as_bytes().to_vec())
    };
    // serverAuth and nothing else.
    assert_eq!(value("2.5.29.37").unwrap(), [0x30, 0x0a, 0x06, 8, 0x2b, 6, 1, 5, 5, 7, 3, 1]);
    assert_eq!(value("2.5.29.17").unwrap(), site_names().general_names());
    // It is told, and a line of the ledger; a second one takes the place of the first.
    assert_eq!(lines(&site), 2);
    let status: serde_json::Value = serde_json::from_str(&site.run(&["status", "--json"]).out).unwrap();
    assert_eq!(status["directoryCertificateNotAfter"], to.to_string());
    sign(&site, &["directory.example"]).exit(0);
    assert_eq!(lines(&site), 3);
    assert_ne!(std::fs::read(site.path("directory.pem")).unwrap(), text);
}

fn site_names() -> EndpointNames {
    EndpointNames::new(vec!["directory.example".parse().unwrap(), "192.0.2.7".parse().unwrap()]).unwrap()
}

// spec: LD-22
#[test]
fn no_other_name_is_signed_and_nothing_is_written_then() {
    let mut site = Site::new("admission = \"journal\"");
    let node = TestNode::new(1);
    site.controller.approve(&node);
    site.controller.ask(&node);
    site.once().done(0, &[("issued", 1)]);
    let settings = site.controller.settings(&site.path("worker"), NAMES);
    std::fs::write(site.path("worker.toml"), settings).unwrap();
    let before = lines(&site);
    // The controller's name is not among the directory's; a node's is, and is refused all the same.
    for (names, want) in [
        (&["controller.example"][..], "controller.example"),
        (&["directory.example", "n2"][..], "n2"),
        (&["directory.example", "n1.example"][..], node.node_id.as_str()),
    ] {
        sign(&site, names).expect(1, want);
    }
    std::fs::write(site.path("directory.pem"), "-----BEGIN PRIVATE KEY-----\n").unwrap();
    sign(&site, &["directory.example"]).expect(1, "--out");
    assert_eq!(std::fs::read(site.path("directory.pem")).unwrap(), b"-----BEGIN PRIVATE KEY-----\n");
    assert_eq!(lines(&site), before);
    let none = Site::new("");
    sign(&none, &["directory.example"]).expect(78, "[directory]");
}

// spec: LD-22
#[test]
fn a_name_that_a_node_had_is_not_signed_before_its_last_certificate_under_it_has_ended() {
    let mut site = Site::new("admission = \"journal\"");
    let mut node = TestNode::new(1);
    site.controller.approve(&node);
    site.controller.ask(&node);
    site.once().done(0, &[("issued", 1)]);
    node.hostname = "web".parse().unwrap();
    let journal = &mut site.controller.journal;
    let (device, task) = (journal.devices.first_mut().unwrap(), journal.tasks.first_mut().unwrap());
    (device.phase, task.phase) = (DevicePhase::Managed, TaskPhase::Managed);
    device.former_hostname = device.hostname.replace(node.hostname.clone());
    task.hostname = node.hostname.clone();
    site.controller.happen();
    site.controller.ask(&node);
    site.once().done(0, &[("issued", 1)]);
    let settings = site.controller.settings(&site.path("worker"), NAMES);
    std::fs::write(site.path("worker.toml"), settings).unwrap();
    let before = lines(&site);
    sign(&site, &["directory.example", "n1.example"]).expect(1, "n1.example").expect(1, node.node_id.as_str());
    assert_eq!(lines(&site), before);
    sign(&site, &["directory.example"]).exit(0);
    assert_eq!(lines(&site), before + 1);
}

// spec: LD-22
#[test]
fn no_node_gets_a_name_of_the_directorys_server() {
    let mut site = Site::new("admission = \"journal\"\n[directory]\nnames = [\"n1.example\"]\n");
    let node = TestNode::new(1);
    site.controller.approve(&node);
    site.controller.ask(&node);
    site.once().done(0, &[("refused", 1)]);
    sign(&site, &["n1.example"]).exit(0);
}

#[test]
fn a_request_may_come_and_a_certificate_go_by_a_pipe() {
    let site = Site::new(NAMES);
    let config = site.path("worker.toml");
    let mut child = command()
        .args(["sign-directory", "--csr", "-", "--out", "-", "--config", config.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(csr(&["directory.example"]).as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(Certificate::load_pem_chain(&output.stdout).unwrap().len(), 2);
    assert!(String::from_utf8(output.stderr).unwrap().contains("directory.example"));
}
