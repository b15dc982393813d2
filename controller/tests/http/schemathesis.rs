//! Schemathesis calls what the description describes, with what fits it and what does not, and holds each answer against
//! it: no status of a broken server, none that is not described, no body of another schema.
//!
//! It speaks plain HTTP to a forwarder here, which hands each call on over the controller's socket or, with an owner's proof
//! over a fresh challenge, over TLS. Ids and codes that nobody could guess are put in place by turns.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lucia_people::calls::{PeopleCall, Who};
use lucia_people::owner_api::DraftView;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::json;
use lucia_proto::calls::Endpoint;
use lucia_proto::orders::owner_proof::{Method, OWNER_PROOF_HEADER, OwnerProof, OwnerRequest};
use lucia_proto::orders::{OrderId, OrderKind};
use lucia_proto::test_support::OrderWorld;
use tokio::time::Instant;

use crate::machine::Machine;
use crate::owners::{challenge, owned};
use crate::site::{Answer, NAME, Scratch, Site, answer};

/// Cases of each phase for each call. With the cases that the bounds of the description make it is a minute in all.
const EXAMPLES: &str = "8";
/// It is let go after this long.
const PATIENCE: Duration = Duration::from_secs(480);
/// An owner has ten calls a second; what comes sooner goes over the socket, where nobody counts.
const BETWEEN_PROOFS: Duration = Duration::from_millis(120);

/// Where `make setup` puts it.
fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/schemathesis/bin/schemathesis")
}

/// Whether it is there; notes that the test is skipped where it is not: `make test` counts the note, and
/// it is a failure under CI.
fn is_there(test: &str) -> bool {
    if program().is_file() {
        return true;
    }
    let notes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/test-skips");
    std::fs::create_dir_all(&notes).unwrap();
    let note = format!("{test}: there is no schemathesis in target/. Cure: make setup, with python3-venv and PyPI\n");
    std::fs::write(notes.join(test), note).unwrap();
    false
}

/// What a forwarder hands on to.
struct Forwarder<'a> {
    site: &'a Site,
    world: &'a OrderWorld,
    ids: Vec<String>,
    codes: Vec<String>,
    turn: AtomicUsize,
    proved: Mutex<Instant>,
    by_proof: AtomicUsize,
    by_socket: AtomicUsize,
    /// Calls that got no answer.
    silent: Mutex<Vec<String>>,
    over: AtomicBool,
}

/// A request as it came.
struct Came {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

fn read(stream: &mut TcpStream) -> Option<Came> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    let mut more = |bytes: &mut Vec<u8>| match stream.read(&mut buffer) {
        Ok(count) if count > 0 => {
            bytes.extend_from_slice(&buffer[..count]);
            Some(())
        }
        _ => None,
    };
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        more(&mut bytes)?;
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    while bytes.len() < end + length {
        more(&mut bytes)?;
    }
    Some(Came { method, target, headers, body: bytes[end..end + length].to_vec() })
}

impl Forwarder<'_> {
    /// Takes calls until it is over.
    fn run(&self, listener: &TcpListener) {
        std::thread::scope(|scope| {
            for stream in listener.incoming() {
                if self.over.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                scope.spawn(move || {
                    // An answer to HEAD has no body to hold against anything.
                    let Some(came) = read(&mut stream).filter(|came| came.method != "HEAD") else { return };
                    let answered = self.hand_on(&came);
                    if answered.is_none() {
                        let body = String::from_utf8_lossy(&came.body).into_owned();
                        let call = format!("{} {} {:?} {body:?}", came.method, came.target, came.headers);
                        self.silent.lock().unwrap().push(call);
                    }
                    let _ = answered.map(|answered| stream.write_all(&written(&answered)));
                });
            }
        });
    }

    /// The same target with an id or a code that is there, two times of three, and no long wait for an event.
    fn target(&self, came: &str) -> String {
        let turn = self.turn.fetch_add(1, Ordering::SeqCst);
        let (path, query) = came.split_once('?').map_or((came, None), |(path, query)| (path, Some(query)));
        if let (true, Some(query)) = (path == PeopleCall::Events.path(), query) {
            let shorter = |part: &str| match part.strip_prefix("wait=").map(str::parse::<u8>) {
                Some(Ok(2..=25)) => "wait=1".to_owned(),
                _ => part.to_owned(),
            };
            return format!("{path}?{}", query.split('&').map(shorter).collect::<Vec<_>>().join("&"));
        }
        let rows = Endpoint::ALL.iter().map(|row| row.path()).chain(PeopleCall::ALL.iter().map(|row| row.path()));
        for row in rows.filter(|row| row.starts_with("/api/host/")) {
            for (place, known) in [("{id}", &self.ids), ("{code}", &self.codes)] {
                let Some((before, after)) = row.split_once(place) else { continue };
                let inner = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
                // What is none is handed on as it came: it has to be refused.
                if inner.is_some_and(|inner| crate::described::fits(place, inner)) && !turn.is_multiple_of(3) {
                    let query = query.map_or(String::new(), |query| format!("?{query}"));
                    return format!("{before}{}{after}{query}", known[turn % known.len()]);
                }
            }
        }
        came.to_owned()
    }

    fn hand_on(&self, came: &Came) -> Option<Answer> {
        let target = self.target(&came.target);
        let path = target.split('?').next().unwrap_or_default();
        let row = PeopleCall::ALL.iter().find(|row| row.path() == path && row.method() == came.method);
        let met = row.is_some_and(|row| row.caller() == Who::Anyone);
        let proof = if met { None } else { self.proof(came, &target) };
        let bytes = request(came, &target, proof.as_deref());
        if met || proof.is_some() {
            self.by_proof.fetch_add(1, Ordering::SeqCst);
            let mut stream = self.site.tls();
            let _ = stream.write_all(&bytes);
            return answer(&mut stream);
        }
        self.by_socket.fetch_add(1, Ordering::SeqCst);
        let mut stream = self.site.operator();
        let _ = stream.write_all(&bytes);
        answer(&mut stream)
    }

    /// An owner's proof, if one may be made now and the target can be signed.
    fn proof(&self, came: &Came, target: &str) -> Option<String> {
        let mut proved = self.proved.lock().unwrap();
        if proved.elapsed() < BETWEEN_PROOFS {
            return None;
        }
        let request = OwnerRequest {
            fleet: self.site.ca.root().sha256(),
            owner: self.world.alice.id.clone(),
            method: Method::of_word(&came.method)?,
            target: target.parse().ok()?,
            body_sha256: Digest::of(&came.body),
        };
        *proved = Instant::now();
        Some(OwnerProof::sign(&request, &challenge(self.site), &self.world.alice.key).unwrap().to_header())
    }
}

/// The request as the controller gets it: what it proves by is ours, and so is how long it is.
fn request(came: &Came, target: &str, proof: Option<&str>) -> Vec<u8> {
    const OURS: &[&str] = &[
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "cookie",
        "authorization",
        "accept-encoding",
        "x-lucia-owner-proof",
    ];
    let mut head = format!("{} {target} HTTP/1.1\r\nHost: {NAME}\r\n", came.method);
    for (name, value) in came.headers.iter().filter(|(name, _)| !OURS.contains(&name.to_ascii_lowercase().as_str())) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(proof) = proof {
        head.push_str(&format!("{OWNER_PROOF_HEADER}: {proof}\r\n"));
    }
    if !came.body.is_empty() || came.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
        head.push_str(&format!("Content-Length: {}\r\n", came.body.len()));
    }
    [format!("{head}\r\n").as_bytes(), &came.body].concat()
}

fn written(answer: &Answer) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {} -\r\nConnection: close\r\n", answer.status);
    for (name, value) in answer.headers.iter().filter(|(name, _)| name != "connection") {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{text}\r\n{}", answer.body).into_bytes()
}

#[expect(clippy::disallowed_methods, reason = "a test drives another program")]
fn run(dir: &Scratch, port: u16) -> (Option<i32>, String) {
    let url = format!("http://127.0.0.1:{port}");
    let (said, settings) = (dir.path().join("said"), dir.path().join("settings.toml"));
    // A body that is too long as a whole is refused before it is read.
    let refusals = r#"["400", "401", "403", "404", "405", "408", "409", "413", "415", "429", "431"]"#;
    std::fs::write(&settings, format!("[checks.negative_data_rejection]\nexpected-statuses = {refusals}\n")).unwrap();
    let file = std::fs::File::create(&said).unwrap();
    let mut child = Command::new(program())
        .arg("--config-file")
        .arg(settings)
        .args(["run", &format!("{url}/api/openapi.json"), "--url", &url, "--no-color"])
        // A stream does not end; what it may answer is held in `page`.
        .args(["--exclude-operation-id", "Stream"])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"])
        .args(["--checks", "response_headers_conformance,response_schema_conformance,negative_data_rejection"])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES, "--seed", "20261130"])
        .args(["--generation-with-security-parameters", "false", "--generation-database", "none"])
        .args(["--workers", "2", "--suppress-health-check", "all", "--request-timeout", "30"])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .spawn()
        .unwrap();
    let until = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if Instant::now() > until {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::park_timeout(Duration::from_millis(50));
    };
    (status, std::fs::read_to_string(said).unwrap())
}

/// The code of an order about SSH keys that waits for a signature.
fn drafted(site: &Site, world: &OrderWorld, node: &Machine) -> String {
    let draft = world.draft(OrderKind::SshKey, |intent| intent.nodes = vec![node.id().clone()]);
    let body = json::to_string(&draft).unwrap();
    let _: DraftView = site.order("POST", PeopleCall::AddDraft.path(), &body).read();
    OrderId::of(&draft.intent_json).code().to_string()
}

// spec: AP-7
#[test]
fn schemathesis_finds_no_answer_that_is_not_described() {
    if !is_there("schemathesis_finds_no_answer_that_is_not_described") {
        return;
    }
    let (site, world) = owned();
    let node = Machine::managed(&site, 1);
    let waiting: Vec<Machine> = (10..14).map(Machine::new).collect();
    for machine in &waiting {
        assert_eq!(machine.discover(&site).status, 200);
    }
    let forwarder = Forwarder {
        ids: std::iter::once(&node).chain(&waiting).map(|machine| machine.id().to_string()).collect(),
        codes: vec![drafted(&site, &world, &node)],
        site: &site,
        world: &world,
        turn: AtomicUsize::new(0),
        proved: Mutex::new(Instant::now()),
        by_proof: AtomicUsize::new(0),
        by_socket: AtomicUsize::new(0),
        silent: Mutex::default(),
        over: AtomicBool::new(false),
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let dir = Scratch::new();
    let (status, said) = std::thread::scope(|scope| {
        scope.spawn(|| forwarder.run(&listener));
        let ran = run(&dir, port);
        forwarder.over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(("127.0.0.1", port)));
        ran
    });
    println!("{said}");
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(forwarder.silent.into_inner().unwrap(), Vec::<String>::new(), "{said}");
    let (by_proof, by_socket) = (forwarder.by_proof.into_inner(), forwarder.by_socket.into_inner());
    assert!(by_proof > 50 && by_socket > 500, "{by_proof} over TLS, {by_socket} over the socket\n{said}");
}
