//! A controller over TLS that follows a script: it takes each call in its order, with a proof that counts, and fails the
//! test for any other.

use std::io::{Read as _, Write as _};
use std::iter::Peekable;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use lucia_people::owner_api::NamesView;
use lucia_proto::base::json;
use lucia_proto::base::pem;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::challenge::{Challenge, ChallengeId, NEXT_CHALLENGE_HEADER, NextChallenge, Nonce};
use lucia_proto::orders::lists::{List, NamedNode, SignedList};
use lucia_proto::orders::owner_proof::{Arrived, Method, OWNER_PROOF_HEADER, OwnerProof};
use lucia_proto::pki::key::{NodeKey, VerificationCode};
use lucia_proto::test_support::{CertificateSpec, OrderWorld, TestCa, TestNode, key};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde::Serialize;

/// Asked before every signature under an order for nodes.
pub(crate) const AGENTS: &str = "GET /api/host/agents";

/// The call for what the worker's nodes are called.
pub(crate) const NAMES: &str = "GET /api/host/names";
/// The name in the endpoint's certificate.
pub(crate) const NAME: &str = "localhost";

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Method and target.
    pub(crate) line: String,
    /// The body.
    pub(crate) body: String,
}

/// Who has to make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// Alice, by proof.
    Alice,
    /// Whoever comes, and without a proof.
    Anyone,
}

type Reply = Box<dyn FnOnce(&OrderWorld, &Asked) -> (u16, String) + Send>;

/// One call of the script.
pub(crate) struct Step {
    line: String,
    by: By,
    reply: Reply,
    /// Whether the challenge it was signed over is refused, as one of before the controller's start is.
    refuse_challenge: bool,
}

/// A call that is answered by what `reply` makes of it.
pub(crate) fn step(
    line: impl Into<String>,
    by: By,
    reply: impl FnOnce(&OrderWorld, &Asked) -> (u16, String) + Send + 'static,
) -> Step {
    Step { line: line.into(), by, reply: Box::new(reply), refuse_challenge: false }
}

/// A call of alice's that gets this.
pub(crate) fn get<T: Serialize>(line: impl Into<String>, answer: &T) -> Step {
    let text = json::to_string(answer).unwrap();
    step(line, By::Alice, move |_, _| (200, text))
}

/// A call of alice's whose challenge is refused once.
pub(crate) fn stale(line: impl Into<String>) -> Step {
    let refusal = refusal("challenge_refused");
    Step { refuse_challenge: true, ..step(line, By::Alice, move |_, _| (401, refusal)) }
}

/// The body of a refusal.
pub(crate) fn refusal(code: &str) -> String {
    format!(r#"{{"error":{{"code":"{code}","message":"said","type":"invalid_request_error"}}}}"#)
}

/// The controller.
pub(crate) struct Server {
    pub(crate) port: u16,
    told: Arc<Mutex<Told>>,
    _thread: JoinHandle<()>,
}

#[derive(Default)]
struct Told {
    asked: Vec<Asked>,
    wrong: Vec<String>,
    left: usize,
}

/// A certificate for the endpoint, and its key.
struct Endpoint {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn endpoint(ca: &TestCa, name: &str, now: UnixTime) -> Endpoint {
    let key: NodeKey = key(99);
    let from = now.minus(std::time::Duration::from_secs(300));
    let to = now.plus(std::time::Duration::from_secs(7 * 24 * 3600));
    let mut spec = CertificateSpec::leaf(TestCa::ISSUING, name, name, key.public(), from, to);
    // The last byte of the usage: clientAuth becomes serverAuth.
    *spec.extensions[1].last_mut().unwrap() = 1;
    let leaf = spec.sign(&ca.issuing_key);
    let text = key.to_pem().unwrap();
    let der = pem::one(&text, "PRIVATE KEY", text.len()).unwrap();
    Endpoint {
        chain: [leaf, ca.issuing_der.clone()].map(CertificateDer::from).into(),
        key: PrivateKeyDer::try_from(der).unwrap(),
    }
}

impl Server {
    /// One of the world's own CA.
    pub(crate) fn new(world: Arc<OrderWorld>, script: Vec<Step>) -> Self {
        let endpoint = endpoint(&world.ca, NAME, world.now);
        Self::with(world, endpoint, script)
    }

    /// One with another CA's certificate, or for another name.
    pub(crate) fn stranger(world: Arc<OrderWorld>, ca: &TestCa, name: &str) -> Self {
        let endpoint = endpoint(ca, name, world.now);
        Self::with(world, endpoint, Vec::new())
    }

    fn with(world: Arc<OrderWorld>, endpoint: Endpoint, script: Vec<Step>) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(endpoint.chain, endpoint.key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let told = Arc::new(Mutex::new(Told { left: script.len(), ..Told::default() }));
        let shared = Arc::clone(&told);
        let thread = std::thread::spawn(move || {
            let mut script = script.into_iter().peekable();
            let mut handed_out: Vec<Challenge> = Vec::new();
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let connection = ServerConnection::new(Arc::new(config.clone())).unwrap();
                serve(&world, StreamOwned::new(connection, stream), &mut script, &mut handed_out, &shared);
            }
        });
        Self { port, told, _thread: thread }
    }

    /// What was asked, challenges left out; the script was followed to its end.
    pub(crate) fn done(&self) -> Vec<Asked> {
        let told = self.told.lock().unwrap();
        assert!(told.wrong.is_empty(), "{:?}", told.wrong);
        assert_eq!(told.left, 0, "calls of the script were not made; made: {:?}", told.asked);
        told.asked.clone()
    }

    /// What was asked, wherever the script stands.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.told.lock().unwrap().asked.clone()
    }
}

fn serve(
    world: &OrderWorld,
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    script: &mut Peekable<impl Iterator<Item = Step>>,
    handed_out: &mut Vec<Challenge>,
    told: &Mutex<Told>,
) {
    let Some((line, proof, body)) = request(&mut stream) else { return };
    let asked = Asked { line: line.clone(), body };
    if line == "GET /api/host/challenge" {
        let challenge = hand_out(world, handed_out);
        answer(&mut stream, 200, &json::to_string(&challenge).unwrap(), None);
        return;
    }
    if line == NAMES && script.peek().is_none_or(|step| step.line != NAMES) {
        // What every controller has, where the script is about something else.
        let next = hand_out(world, handed_out);
        let Challenge { challenge_id, nonce, expires_at } = next;
        let next = NextChallenge { challenge_id, nonce, expires_at, server_time: world.now };
        answer(&mut stream, 200, &json::to_string(&names(world)).unwrap(), Some(&next.to_header()));
        return;
    }
    if line == AGENTS && script.peek().is_none_or(|step| step.line != AGENTS) {
        // One of 0.1 does not tell, and nothing is missing without it.
        answer(&mut stream, 404, &refusal("not_found"), None);
        return;
    }
    let mut wrong = Vec::new();
    let (status, text) = match script.next() {
        Some(step) if fits(&step.line, &line) => {
            match (step.by, proof) {
                (By::Alice, Some(proof)) => {
                    wrong.extend(judge(world, handed_out, &asked, &proof, step.refuse_challenge))
                }
                (By::Anyone, None) => (),
                (by, proof) => wrong.push(format!("{line}: by {by:?}, with proof {proof:?}")),
            }
            (step.reply)(world, &asked)
        }
        Some(step) => {
            wrong.push(format!("{line} where {} was expected", step.line));
            (404, refusal("not_found"))
        }
        None => {
            wrong.push(format!("{line} after the end of the script"));
            (404, refusal("not_found"))
        }
    };
    {
        let mut told = told.lock().unwrap();
        told.asked.push(asked);
        told.wrong.append(&mut wrong);
        told.left = told.left.saturating_sub(1);
    }
    let next = hand_out(world, handed_out);
    let Challenge { challenge_id, nonce, expires_at } = next;
    let next = NextChallenge { challenge_id, nonce, expires_at, server_time: world.now };
    answer(&mut stream, status, &text, Some(&next.to_header()));
}

/// The worker's names of the two nodes of the world, of just now.
pub(crate) fn names(world: &OrderWorld) -> NamesView {
    let named = |node: &TestNode| NamedNode { id: node.node_id.clone(), hostname: node.hostname.clone() };
    names_of(world, |list| list.entries = vec![named(&world.node), named(&world.other)])
}

/// The worker's list after `change`, in the order of ids.
pub(crate) fn names_of(world: &OrderWorld, change: impl FnOnce(&mut List<NamedNode>)) -> NamesView {
    let mut list = List { fleet: world.fleet, number: 5, time: world.now, entries: Vec::new() };
    change(&mut list);
    list.entries.sort_by(|a, b| a.id.cmp(&b.id));
    let signed = SignedList::sign(&list, &world.ca.worker_key).unwrap();
    NamesView { names: Some(signed), bundle: Some(world.bundle.signed().clone()) }
}

/// Whether a call is the one of the script, where `*` stands for a code that nobody knows before.
fn fits(wanted: &str, line: &str) -> bool {
    let Some((before, after)) = wanted.split_once('*') else { return wanted == line };
    let code = line.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    code.is_some_and(|code| code.parse::<VerificationCode>().is_ok())
}

fn hand_out(world: &OrderWorld, handed_out: &mut Vec<Challenge>) -> Challenge {
    let count = u8::try_from(handed_out.len() + 1).unwrap();
    let challenge = Challenge {
        challenge_id: ChallengeId::from_parts(world.now.secs() * 1000, u128::from(count)),
        nonce: Nonce::from_bytes(&[count; 32]),
        expires_at: world.now.plus(std::time::Duration::from_secs(120)),
    };
    handed_out.push(challenge.clone());
    challenge
}

/// What is wrong with a proof: it is alice's, for this very request, over a challenge that was handed out and is used once.
fn judge(world: &OrderWorld, handed_out: &mut [Challenge], asked: &Asked, proof: &str, stale: bool) -> Option<String> {
    let proof = match OwnerProof::from_header(proof.as_bytes()) {
        Ok(proof) => proof,
        Err(error) => return Some(error.to_string()),
    };
    let Some(challenge) = handed_out.iter_mut().find(|challenge| challenge.challenge_id == proof.challenge_id) else {
        return Some(format!("{}: the challenge was never handed out, or was used", asked.line));
    };
    let nonce = challenge.nonce.clone();
    if !stale {
        // Used: nothing has this id any more.
        challenge.challenge_id = ChallengeId::from_parts(0, 0);
    }
    let (method, target) = asked.line.split_once(' ').unwrap();
    let arrived =
        Arrived { fleet: &world.fleet, method: Method::of_word(method).unwrap(), target, body: asked.body.as_bytes() };
    match proof.verify(&nonce, &world.roster, key(1).public(), &arrived) {
        Ok(verified) if verified.owner().id == world.alice.id => None,
        Ok(verified) => Some(format!("{}: signed by {}", asked.line, verified.owner().name)),
        Err(error) => Some(format!("{}: {error}", asked.line)),
    }
}

/// Method and target, the proof, and the body.
fn request(stream: &mut StreamOwned<ServerConnection, TcpStream>) -> Option<(String, Option<String>, String)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let value = |name: &str| {
                let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
                Some(line.split_once(':')?.1.trim().to_owned())
            };
            let length = value("content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                let line = head.lines().next()?.replace(" HTTP/1.1", "");
                return Some((line, value(&OWNER_PROOF_HEADER.to_ascii_lowercase()), body.to_owned()));
            }
        }
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
}

fn answer(stream: &mut StreamOwned<ServerConnection, TcpStream>, status: u16, body: &str, next: Option<&str>) {
    let mut next = next.map(|next| format!("{NEXT_CHALLENGE_HEADER}: {next}\r\n")).unwrap_or_default();
    if status == 429 {
        next.push_str("Retry-After: 1\r\n");
    }
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n{next}\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
    stream.conn.send_close_notify();
    let _ = stream.flush();
}
