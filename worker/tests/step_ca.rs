//! The real binary against a real step-ca, on loopback with a throwaway configuration.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is a test, whose helpers stand outside of test functions"
)]

#[path = "../src/fixture.rs"]
#[allow(dead_code, reason = "shared with the unit tests, which use all of it")]
mod fixture;
#[allow(dead_code, reason = "shared with the tests beside this one")]
mod site;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lucia_proto::base::bounded::{PemText, Version};
use lucia_proto::node::enrollment::{EndpointAnswer, EndpointRequest};
use lucia_proto::pki::csr;
use lucia_proto::pki::endpoint_names::{EndpointName, EndpointNames};
use lucia_proto::test_support::{TestNode, key};
use lucia_worker::ca::{Authority, make_issuing, make_root};
use site::{Site, now};

/// RFC 7515, appendix A.3, and its thumbprint.
const KEY: [&str; 3] = [
    "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI",
];
const KEY_ID: &str = "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U";

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/step-ca")
}

/// Notes that a test is skipped where step-ca is missing: `make test` counts the note, and it is a failure under CI.
fn is_there(test: &str) -> bool {
    let program = program();
    if program.exists() {
        return true;
    }
    let notes = program.parent().unwrap().parent().unwrap().join("test-skips");
    std::fs::create_dir_all(&notes).unwrap();
    std::fs::write(notes.join(test), format!("{test}: step-ca is not built. Cure: Go, then make setup\n")).unwrap();
    false
}

#[expect(clippy::disallowed_methods, reason = "tests start a real step-ca; the worker itself starts nothing")]
fn command() -> Command {
    Command::new(program())
}

/// A fleet whose CA is step-ca.
struct Fleet {
    site: Site,
    port: u16,
    root: Authority,
    issuing: Authority,
    child: Option<Child>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Fleet {
    fn new() -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let more = format!(
            "admission = \"journal\"\nendpoint-names = [\"controller.example\", \"192.0.2.7\"]\n[ca]\nkind = \"step-ca\"\n\
             url = \"https://127.0.0.1:{port}\"\nprovisioner = \"nodes\"\n[directory]\nnames = [\"directory.example\"]\n\
             certificate-days = 6\n"
        );
        let site = Site::bare(&more);
        let root = make_root(now()).unwrap();
        let issuing = make_issuing(&root, now()).unwrap();
        let fleet = Self { site, port, root, issuing, child: None };
        fleet.put("root.pem", &fleet.root.pem);
        fleet.put("root.key", &fleet.root.key.to_pem().unwrap());
        fleet.put("issuing.pem", &fleet.issuing.pem);
        fleet.put("issuing.key", &fleet.issuing.key.to_pem().unwrap());
        fleet
    }

    /// With the worker's directory begun and the provisioner's key in it.
    fn begun() -> Self {
        let fleet = Self::new();
        fleet.init().expect(0, "provisioner.jwk");
        let [x, y, d] = KEY;
        let jwk =
            serde_json::json!({"kty": "EC", "crv": "P-256", "x": x, "y": y, "d": d, "use": "sig", "alg": "ES256"});
        fleet.secret(&jwk.to_string());
        fleet
    }

    fn init(&self) -> site::Ran {
        let [root, root_key, issuing] = ["root.pem", "root.key", "issuing.pem"].map(|name| self.at(name));
        self.site.run(&["init", "--root", &root, "--root-key", &root_key, "--issuing", &issuing])
    }

    fn secret(&self, jwk: &str) {
        let path = self.site.path("worker/ca/provisioner.jwk");
        std::fs::write(&path, jwk).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    }

    fn at(&self, name: &str) -> String {
        self.site.path(name).to_str().unwrap().to_owned()
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.site.path(name), text).unwrap();
    }

    /// Starts step-ca whose provisioner has this name and signs for at most this long.
    fn start(&mut self, name: &str, longest: &str) {
        let [x, y, _] = KEY;
        let public = serde_json::json!({"kty": "EC", "crv": "P-256", "x": x, "y": y, "use": "sig", "alg": "ES256", "kid": KEY_ID});
        let claims = serde_json::json!({"maxTLSCertDuration": longest, "defaultTLSCertDuration": "24h"});
        let config = serde_json::json!({
            "root": self.at("root.pem"), "crt": self.at("issuing.pem"), "key": self.at("issuing.key"),
            "address": format!("127.0.0.1:{}", self.port), "dnsNames": ["127.0.0.1"],
            // A token of the second in which it started is refused otherwise.
            "authority": {"disableIssuedAtCheck": true, "provisioners": [
                {"type": "JWK", "name": name, "key": public, "claims": claims},
            ]},
        });
        self.put("ca.json", &config.to_string());
        let child =
            command().arg(self.at("ca.json")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.unwrap());
        for _ in 0..3000 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
                return;
            }
            // A signal only ends the wait early.
            let _ = nix::poll::poll(&mut [], 10_u16);
        }
        panic!("step-ca does not listen on {}", self.port);
    }

    /// Ends it, and nothing else.
    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    fn ask(&mut self, number: u8) -> TestNode {
        let node = TestNode::new(number);
        self.site.controller.approve(&node);
        self.site.controller.ask(&node);
        node
    }

    /// Where step-ca is, as `status` says while it answers.
    fn ca(&self, code: i32) -> Option<String> {
        let said = self.site.run(&["status", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&said.exit(code).out).unwrap();
        json.get("ca")?.as_str().map(str::to_owned)
    }

    /// What there is of leaves: receipts, and lines of the ledger.
    fn stored(&self) -> usize {
        let lines = std::fs::read_to_string(self.site.path("worker/ledger.jsonl")).unwrap();
        let answers = std::fs::read_dir(self.site.path("controller/nodes/enrollment-responses")).unwrap();
        let answers = answers.filter(|entry| entry.as_ref().unwrap().file_name().len() == 37).count();
        std::fs::read_dir(self.site.path("worker/receipts")).unwrap().count()
            + lines.matches("\"issued\"").count()
            + answers
    }
}

// spec: WK-63
#[test]
fn nodes_endpoint_and_directory_get_certificates_of_a_real_step_ca() {
    if !is_there("worker-step-ca") {
        return;
    }
    let mut fleet = Fleet::begun();
    let nodes = [fleet.ask(1), fleet.ask(2)];
    let names = ["controller.example", "192.0.2.7"].map(|text| EndpointName::parse(text).unwrap());
    let names = EndpointNames::new(names.to_vec()).unwrap();
    let csr_pem = PemText::try_from(csr::endpoint_build(&names, &key(60))).unwrap();
    let asked = EndpointRequest { schema_version: Version, csr_pem };
    fleet.site.controller.put("nodes/enrollment-requests/endpoint.json", &asked.to_bytes().unwrap());
    // Before it runs: everybody waits with a reason, and nothing is stored.
    let here = format!("127.0.0.1:{}", fleet.port);
    fleet.site.once().done(0, &[("issued", 0)]).expect(0, &here);
    assert_eq!(fleet.stored(), 0);
    fleet.start("nodes", "168h");
    fleet.site.once().done(0, &[("issued", 2)]);
    for node in &nodes {
        fleet.site.accept(node);
    }
    let answer = std::fs::read(fleet.site.path("controller/nodes/enrollment-responses/endpoint.json")).unwrap();
    assert!(EndpointAnswer::from_bytes(&answer).unwrap().success);
    // The directory's server, with a request that came by another way.
    let names = EndpointNames::new(vec![EndpointName::parse("directory.example").unwrap()]).unwrap();
    fleet.put("directory.csr", &csr::endpoint_build(&names, &key(61)));
    let (csr, out) = (fleet.at("directory.csr"), fleet.at("directory.pem"));
    fleet.site.run(&["sign-directory", "--csr", &csr, "--out", &out]).exit(0);
    assert!(fleet.ca(0).unwrap().contains(&here));
    fleet.stop();
    fleet.site.run(&["status"]).expect(1, &here);
    assert_eq!(fleet.ca(1), None);
}

// spec: WK-63 F-15
#[test]
fn a_real_step_ca_that_refuses_is_told_by_its_own_words_and_nothing_is_stored() {
    if !is_there("worker-step-ca-refusals") {
        return;
    }
    let mut fleet = Fleet::begun();
    let node = fleet.ask(1);
    for (name, longest, want) in [("nodes", "24h", "403"), ("others", "168h", "401")] {
        fleet.start(name, longest);
        fleet.site.once().done(0, &[("issued", 0)]).expect(0, want);
        assert_eq!(fleet.stored(), 0);
        fleet.stop();
    }
    // A new intermediate of the same root, which the bundle does not name.
    let next = make_issuing(&fleet.root, now()).unwrap();
    let (pem, secret) = (fleet.issuing.pem.clone(), fleet.issuing.key.to_pem().unwrap());
    fleet.put("issuing.pem", &next.pem);
    fleet.put("issuing.key", &next.key.to_pem().unwrap());
    fleet.start("nodes", "168h");
    fleet.site.once().done(0, &[("issued", 0)]).expect(0, "ca/issuing.pem");
    assert_eq!(fleet.stored(), 0);
    fleet.stop();
    fleet.put("issuing.pem", &pem);
    fleet.put("issuing.key", &secret);
    fleet.start("nodes", "168h");
    fleet.site.once().done(0, &[("issued", 1)]);
    fleet.site.accept(&node);
}

// spec: WK-79
#[test]
fn a_fleet_of_step_ca_begins_with_what_is_step_cas_and_keeps_no_key_of_the_root() {
    let fleet = Fleet::new();
    fleet.site.run(&["init"]).expect(1, "--root");
    fleet.site.run(&["init", "--root", &fleet.at("root.pem")]).expect(64, "--root-key");
    let other = make_root(now()).unwrap();
    fleet.put("root.key", &other.key.to_pem().unwrap());
    fleet.init().expect(1, "--root");
    fleet.put("root.key", "-----BEGIN EC PRIVATE KEY-----\n");
    fleet.init().expect(1, "openssl pkcs8 -topk8 -nocrypt");
    fleet.put("root.key", &fleet.root.key.to_pem().unwrap());
    fleet.put("issuing.pem", &make_issuing(&other, now()).unwrap().pem);
    fleet.init().exit(1);
    // Nothing was made that would stand in the way; and nothing of the key is kept.
    assert!(!fleet.site.path("worker/ca").exists());
    fleet.put("issuing.pem", &fleet.issuing.pem);
    fleet.init().expect(0, "--root-key");
    let kept: Vec<String> = std::fs::read_dir(fleet.site.path("worker/ca"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!kept.iter().any(|name| name.ends_with(".key")), "{kept:?}");
    fleet.site.run(&["once"]).expect(1, "step crypto jwe decrypt");
    // The other kind takes none of it.
    let embedded = Site::bare("");
    let [root, root_key, issuing] = ["root.pem", "root.key", "issuing.pem"].map(|name| fleet.at(name));
    embedded
        .run(&["init", "--root", &root, "--root-key", &root_key, "--issuing", &issuing])
        .expect(1, "are for [ca] kind = \"step-ca\"");
}
