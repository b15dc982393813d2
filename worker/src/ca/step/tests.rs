//! step-ca's part, played by a stand-in over HTTPS that says what it is told to: each way of being wrong has its own words,
//! and nothing of it is taken.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::thread::JoinHandle;

use lucia_durable::DirRules;
use lucia_proto::pki::csr;
use lucia_proto::pki::endpoint_names::EndpointNames;
use lucia_proto::test_support::{CertificateSpec, TestCa, TestNode, hostile_leaves, key};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::ca::{Embedded, Issued, issue};
use crate::fixture::Scratch;

/// RFC 7515, appendix A.3.
const KEY: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","d":"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"}"#;

/// What the stand-in does with one connection.
enum Says {
    /// Answers these bytes, whatever they are.
    Bytes(Vec<u8>),
    /// Reads the question and says nothing.
    Nothing,
    /// Talks no TLS.
    Plain,
}

struct StandIn {
    port: u16,
    thread: JoinHandle<Vec<String>>,
}

fn addresses(texts: &[&str]) -> EndpointNames {
    EndpointNames::new(texts.iter().map(|text| text.parse().unwrap()).collect()).unwrap()
}

impl StandIn {
    /// Serves as many connections as it was told what to say; gives the questions.
    fn new(ca: &TestCa, name: &str, now: UnixTime, script: Vec<Says>) -> Self {
        let names = addresses(&[name]);
        let request = csr::endpoint_check(&csr::endpoint_build(&names, &key(9)), &names).unwrap();
        let embedded = Embedded::open(&ca.issuing_pem(), &ca.issuing_key.to_pem().unwrap()).unwrap();
        let pem = embedded.sign_server(&request.into(), LEAF_LIFETIME, now).unwrap().pem;
        let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect();
        let server_key = PrivateKeyDer::from_pem_slice(key(9).to_pem().unwrap().as_bytes()).unwrap();
        let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, server_key)
            .unwrap();
        let tls = Arc::new(tls);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let mut questions = Vec::new();
            for says in script {
                let (mut tcp, _) = listener.accept().unwrap();
                if let Says::Plain = says {
                    let _ = tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                    continue;
                }
                let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&tls)).unwrap(), tcp);
                let Some(question) = question(&mut stream) else { continue };
                questions.push(question);
                if let Says::Bytes(bytes) = says {
                    let _ = stream.write_all(&bytes);
                    stream.conn.send_close_notify();
                    let _ = stream.flush();
                } else {
                    // Until the other end has had enough.
                    let _ = stream.read(&mut [0; 1]);
                }
            }
            questions
        });
        Self { port, thread }
    }
}

/// Reads a whole request; gives its body. Nothing where the client went away during TLS.
fn question(stream: &mut impl std::io::Read) -> Option<String> {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let length = stream.read(&mut buffer).ok().filter(|length| *length > 0)?;
        read.extend_from_slice(buffer.get(..length).unwrap());
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let wanted =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
        if wanted.is_some_and(|wanted| wanted.parse() == Ok(body.len())) {
            assert!(head.starts_with("POST /1.0/sign HTTP/1.1\r\n"), "{head}");
            return Some(body.to_owned());
        }
    }
}

fn http(status: &str, body: &str) -> Says {
    Says::Bytes(format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

fn created(chain: &str) -> Says {
    let end = "-----END CERTIFICATE-----\n";
    let parts: Vec<String> = chain.split_inclusive(end).map(str::to_owned).collect();
    let rest = parts.get(1..).unwrap_or_default().concat();
    let first = parts.first().cloned().unwrap_or_default();
    http(
        "201 Created",
        &serde_json::json!({"crt": first, "ca": rest, "certChain": parts, "tlsOptions": {}}).to_string(),
    )
}

struct Site {
    scratch: Scratch,
    ca: TestCa,
    now: UnixTime,
}

impl Site {
    fn new() -> Self {
        let (scratch, now) = (Scratch::new(), lucia_daemon::clock::now());
        Self { scratch, ca: TestCa::new(now), now }
    }

    fn dir(&self) -> PrivateDir {
        PrivateDir::open(self.scratch.path(), DirRules::private()).unwrap()
    }

    fn step(&self, port: u16) -> StepCa {
        let dir = self.dir();
        dir.replace(&crate::files::file(KEY_FILE), KEY.as_bytes(), 0o600).unwrap();
        let host = "127.0.0.1".parse().unwrap();
        let site = StepCaConfig { host, port, provisioner: "nodes".to_owned() };
        let issuing = Issuing::read(&self.ca.issuing_pem()).unwrap();
        let mut step = StepCa::open(site, &dir, &self.ca.root(), issuing).unwrap();
        step.limits = Limits { connect: Duration::from_millis(300), whole: Duration::from_millis(600) };
        step
    }

    fn issue(&self, step: &StepCa, node: &TestNode) -> Result<Issued, CaError> {
        let csr = csr::check(&node.csr(), &node.node_id, &node.hostname, &node.fingerprint).unwrap();
        issue(step, &self.ca.root(), &csr, &node.rules(), self.now)
    }

    /// Asks once for each of these, and gives what was made of the answers.
    fn ask(&self, node: &TestNode, script: Vec<Says>) -> (Vec<Result<Issued, CaError>>, Vec<String>) {
        let count = script.len();
        let stand_in = StandIn::new(&self.ca, "127.0.0.1", self.now, script);
        let step = self.step(stand_in.port);
        let made = (0..count).map(|_| self.issue(&step, node)).collect();
        (made, stand_in.thread.join().unwrap())
    }
}

// spec: WK-71
#[test]
fn an_honest_answer_is_taken_and_the_question_is_what_step_ca_wants() {
    let (site, node) = (Site::new(), TestNode::new(1));
    let (made, asked) = site.ask(&node, vec![created(&site.ca.issue(&node, site.now))]);
    let issued = made.first().unwrap().as_ref().unwrap();
    assert_eq!(issued.pem, site.ca.issue(&node, site.now));
    let question: serde_json::Value = serde_json::from_str(asked.first().unwrap()).unwrap();
    assert_eq!(question["csr"], node.csr());
    assert_eq!(question["notAfter"], "604800s");
    let claims = question["ott"].as_str().unwrap().split('.').nth(1).unwrap();
    let claims = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, claims).unwrap();
    let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!((&claims["sub"], &claims["sans"]), (&node.node_id.as_str().into(), &serde_json::json!(["n1"])));
    assert_eq!(claims["sha"], site.ca.root().sha256().to_string());
    assert!(claims["aud"].as_str().unwrap().starts_with("https://127.0.0.1:"));
}

// spec: WK-72
#[test]
fn each_way_of_being_wrong_has_its_own_words() {
    let (site, node) = (Site::new(), TestNode::new(1));
    let (ca, now) = (&site.ca, site.now);
    let from = now.minus(Duration::from_secs(300));
    let leaf = |cn: &str, dns: &str, hours: u64| {
        let to = from.plus(Duration::from_secs(hours * 3600));
        created(&ca.finish(&CertificateSpec::leaf(TestCa::ISSUING, cn, dns, node.key.public(), from, to)))
    };
    let id = node.node_id.as_str();
    let other = TestNode::new(2);
    let other_fleet = TestCa::with_keys(now, 210);
    let mut other_issuing = TestCa::new(now);
    other_issuing.issuing_key = key(214);
    let sibling = CertificateSpec::authority(
        TestCa::ROOT,
        TestCa::ISSUING,
        key(214).public(),
        now.minus(Duration::from_secs(60)),
        now.plus(Duration::from_secs(86_400 * 30)),
    );
    other_issuing.issuing_der = sibling.sign(&ca.root_key);
    let cases = [
        (
            "a 403",
            http("403 Forbidden", r#"{"status":403,"message":"The request was forbidden"}"#),
            "Refused { status: 403, said: \"The request was forbidden\" }",
        ),
        (
            "a 401",
            http("401 Unauthorized", r#"{"status":401,"message":"The request lacked\u0007"}"#),
            "Refused { status: 401, said: \"The request lacked\\\\u{7}\" }",
        ),
        ("a 500", http("500 Internal Server Error", "{}"), "Failed { status: 500"),
        ("a 503", http("503 Service Unavailable", "<html>"), "Failed { status: 503"),
        ("a 200", http("200 OK", "{}"), "Strange {"),
        ("a 302", http("302 Found", ""), "Strange {"),
        ("no chain", http("201 Created", "{}"), "Strange {"),
        ("no JSON", http("201 Created", "<html>"), "Strange {"),
        ("too much", http("201 Created", &"x".repeat(200_000)), "Strange {"),
        ("no HTTP", Says::Bytes(b"SSH-2.0-OpenSSH\r\n".to_vec()), "Strange {"),
        ("no TLS", Says::Plain, "Unreachable {"),
        ("slow", Says::Nothing, "Slow {"),
        ("another key", created(&ca.issue(&other, now)), "WrongKey"),
        ("another node", leaf("n1", "n1", 168), "WrongName { field: \"subject\""),
        ("another name", leaf(id, "n2", 168), "WrongName { field: \"subjectAltName\""),
        ("170 h", leaf(id, "n1", 170), "Lifetime { hours: 170 }"),
        ("24 h", leaf(id, "n1", 24), "Lifetime { hours: 24 }"),
        ("another fleet", created(&other_fleet.issue(&node, now)), "Chain("),
        ("another issuing CA", created(&other_issuing.issue(&node, now)), "WrongIssuer"),
        (
            "leaf alone",
            created(ca.issue(&node, now).split_inclusive("-----END CERTIFICATE-----\n").next().unwrap()),
            "Chain(TooShort",
        ),
    ];
    let (names, wanted): (Vec<_>, Vec<_>) = cases.iter().map(|(name, _, want)| (*name, *want)).unzip();
    let (made, _) = site.ask(&node, cases.into_iter().map(|(_, says, _)| says).collect());
    let mut texts = BTreeMap::new();
    for ((name, want), made) in names.into_iter().zip(wanted).zip(made) {
        let why = made.expect_err(name);
        let found = format!("{why:?}");
        let found = found.strip_prefix("Step(").unwrap_or(&found);
        assert!(found.starts_with(want), "{name}: wanted {want:?}: {found}");
        let text = crate::chain(&why);
        assert_eq!(texts.insert(text, name), None, "{name} has the words of another one");
    }
}

// spec: WK-72 C-9
#[test]
fn no_hostile_leaf_is_taken_over_the_wire() {
    let (site, node) = (Site::new(), TestNode::new(1));
    let hostile = hostile_leaves(&site.ca, &node, site.now);
    let answers = hostile.iter().map(|case| created(&case.pem)).collect();
    let (made, _) = site.ask(&node, answers);
    for (case, made) in hostile.iter().zip(made) {
        assert!(made.is_err(), "{}", case.name);
    }
}

// spec: WK-73
#[test]
fn only_the_named_server_of_this_fleet_is_asked() {
    let (site, node) = (Site::new(), TestNode::new(1));
    let answer = || vec![created(&site.ca.issue(&node, site.now))];
    for (ca, name) in [(&TestCa::with_keys(site.now, 210), "127.0.0.1"), (&site.ca, "127.0.0.2")] {
        let stand_in = StandIn::new(ca, name, site.now, answer());
        let refused = site.issue(&site.step(stand_in.port), &node).unwrap_err();
        assert!(matches!(&refused, CaError::Step(StepError::Stranger { .. })), "{refused:?}");
        assert!(stand_in.thread.join().unwrap().is_empty(), "it never saw the token");
    }
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let refused = site.issue(&site.step(closed), &node).unwrap_err();
    assert!(matches!(refused, CaError::Step(StepError::Unreachable { .. })), "{refused:?}");
}

// spec: WK-70
#[test]
fn a_key_file_that_is_none_or_open_to_others_stops_the_start() {
    let site = Site::new();
    let open = |text: Option<&str>, mode: u32| {
        let (dir, name) = (site.dir(), crate::files::file(KEY_FILE));
        match text {
            Some(text) => dir.replace(&name, text.as_bytes(), mode).unwrap(),
            None => assert!(dir.remove(&name).unwrap()),
        }
        let site_of = StepCaConfig { host: "127.0.0.1".parse().unwrap(), port: 1, provisioner: "nodes".to_owned() };
        let issuing = Issuing::read(&site.ca.issuing_pem()).unwrap();
        StepCa::open(site_of, &dir, &site.ca.root(), issuing).map(|_| ())
    };
    open(Some(KEY), 0o600).unwrap();
    for (text, mode, want) in [
        (Some("{}"), 0o600, "no private JWK"),
        (Some(KEY), 0o640, "provisioner.jwk"),
        (None, 0o600, "step crypto jwe decrypt"),
    ] {
        let shown = crate::chain(&open(text, mode).unwrap_err());
        assert!(shown.contains(want), "{shown}");
    }
}

// spec: WK-74
#[test]
fn a_server_gets_its_names_and_no_other_leaf_is_taken() {
    let (site, names) = (Site::new(), addresses(&["192.0.2.7"]));
    let request: ServerCsr = csr::endpoint_check(&csr::endpoint_build(&names, &key(9)), &names).unwrap().into();
    let other = addresses(&["192.0.2.8"]);
    let other: ServerCsr = csr::endpoint_check(&csr::endpoint_build(&other, &key(9)), &other).unwrap().into();
    let embedded = |ca: &TestCa| Embedded::open(&ca.issuing_pem(), &ca.issuing_key.to_pem().unwrap()).unwrap();
    let signed = |ca: &TestCa, csr: &ServerCsr, lifetime| {
        created(&embedded(ca).sign_server(csr, lifetime, site.now).unwrap().pem)
    };
    let node = TestNode::new(1);
    let script = vec![
        signed(&site.ca, &request, LEAF_LIFETIME),
        signed(&site.ca, &other, LEAF_LIFETIME),
        signed(&site.ca, &request, LEAF_LIFETIME * 2),
        signed(&TestCa::with_keys(site.now, 210), &request, LEAF_LIFETIME),
        created(&site.ca.issue(&node, site.now)),
    ];
    let stand_in = StandIn::new(&site.ca, "127.0.0.1", site.now, script);
    let step = site.step(stand_in.port);
    let ask = || step.sign_server(&request, LEAF_LIFETIME, site.now);
    assert!(ask().unwrap().not_after > site.now);
    for want in ["subjectAltName", "validity", "another issuing CA", "subjectPublicKey"] {
        let shown = crate::chain(&ask().unwrap_err());
        assert!(shown.contains(want), "{want}: {shown}");
    }
    stand_in.thread.join().unwrap();
}
