//! A controller for tests: real challenges and proofs, and answers that a test decides call by call. What the test
//! does not decide is a failure of the test.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lucia_proto::base::code::{Code, ErrorBody, ErrorKind, ErrorText};
use lucia_proto::base::json;
use lucia_proto::base::limits::CHALLENGE_LIFETIME;
use lucia_proto::base::time::{Clock, UnixTime};
use lucia_proto::calls::{Caller, Endpoint};
use lucia_proto::node::challenge::{Challenge, ChallengeId, NextChallenge, Nonce, signed_text};
use lucia_proto::node::report::{DeviceCall, DiscoverCall, HeaderProof, NodeCall, Proof};
use lucia_proto::pki::key::{NodeKey, Signature};
use tokio::time::Instant;

use super::Client;
use super::clock::ServerClock;
use super::transport::{Request, Response, Transport, TransportError};

/// The time at the controller when a test starts.
pub(crate) const START: u64 = 1_800_000_000;

/// A clock that goes with paused tokio time; its wall time can be set wrong.
pub(crate) struct TestClock {
    begun: Instant,
    wall: Mutex<UnixTime>,
}

impl TestClock {
    pub(crate) fn at(wall: UnixTime) -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), wall: Mutex::new(wall) })
    }

    pub(crate) fn set_wall_at_start(&self, wall: UnixTime) {
        *self.wall.lock().unwrap() = wall;
    }
}

impl Clock for TestClock {
    fn now(&self) -> UnixTime {
        self.wall.lock().unwrap().plus(self.begun.elapsed())
    }
    fn since_boot(&self) -> Duration {
        Duration::from_secs(3600) + self.begun.elapsed()
    }
}

/// A call as the controller sees it: the proof verified.
#[derive(Clone, Debug)]
pub(crate) struct SeenCall {
    pub(crate) call: Endpoint,
    pub(crate) report: String,
    pub(crate) certificate: Option<String>,
    pub(crate) now: UnixTime,
}

/// What a test decides.
pub(crate) enum Reply {
    /// A challenge call: serve it. Only for those.
    Challenge,
    /// 200 with this JSON.
    Ok(String),
    /// 202.
    Pending,
    /// A refusal.
    Refuse(Code),
    /// A refusal that says when to come back.
    RefuseFor(Code, u64),
    /// Not the controller: this status with an HTML page.
    Html(u16),
    /// Not the controller: this status with JSON of another kind.
    OtherJson(u16),
    /// The call was taken, the answer is lost.
    Lost,
    /// Nobody there.
    Down,
}

type Decide = Box<dyn FnMut(&SeenCall) -> Reply>;

struct Inner {
    begun: Instant,
    key: Arc<NodeKey>,
    challenges: BTreeMap<ChallengeId, Nonce>,
    made: u64,
    decide: Decide,
    seen: Vec<SeenCall>,
}

/// Clones speak to the same controller.
#[derive(Clone)]
pub(crate) struct Fake(Rc<RefCell<Inner>>);

impl Fake {
    pub(crate) fn new(key: &Arc<NodeKey>, decide: impl FnMut(&SeenCall) -> Reply + 'static) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            begun: Instant::now(),
            key: Arc::clone(key),
            challenges: BTreeMap::new(),
            made: 0,
            decide: Box::new(decide),
            seen: Vec::new(),
        })))
    }

    pub(crate) fn client(&self, clock: &Arc<TestClock>) -> Client<Self> {
        let key = Arc::clone(&self.0.borrow().key);
        Client::new(self.clone(), key, Arc::clone(clock) as Arc<dyn Clock>, Arc::new(ServerClock::new()))
    }

    pub(crate) fn now(&self) -> UnixTime {
        UnixTime::from_secs(START).plus(self.0.borrow().begun.elapsed())
    }

    pub(crate) fn seen(&self) -> Vec<SeenCall> {
        self.0.borrow().seen.clone()
    }

    pub(crate) fn calls(&self) -> Vec<Endpoint> {
        self.seen().iter().map(|seen| seen.call).collect()
    }

    pub(crate) fn count(&self, call: Endpoint) -> usize {
        self.calls().iter().filter(|seen| **seen == call).count()
    }

    /// Every challenge handed out so far is refused from now on, as after a restart.
    pub(crate) fn forget_challenges(&self) {
        self.0.borrow_mut().challenges.clear();
    }
}

impl Inner {
    fn challenge(&mut self, now: UnixTime) -> Challenge {
        self.made += 1;
        let id = ChallengeId::from_parts(now.secs() * 1000, u128::from(self.made));
        let nonce = Nonce::from_bytes(&[u8::try_from(self.made % 251).unwrap(); 32]);
        self.challenges.insert(id.clone(), nonce.clone());
        Challenge { challenge_id: id, nonce, expires_at: now.plus(CHALLENGE_LIFETIME) }
    }

    fn header(&mut self, now: UnixTime) -> String {
        let Challenge { challenge_id, nonce, expires_at } = self.challenge(now);
        NextChallenge { challenge_id, nonce, expires_at, server_time: now }.to_header()
    }

    /// The nonce of the proof's challenge if it is one of ours and unused; a wrong signature is a mistake of the agent.
    fn believe(&mut self, proof: &Proof) -> Option<Nonce> {
        let nonce = self.challenges.remove(&proof.challenge_id)?;
        let text = signed_text(&proof.challenge_id, &nonce, &proof.report_json);
        let signature = Signature::from_text(&proof.signature).unwrap();
        self.key.public().verify(&text, &signature).expect("the agent signs rightly");
        Some(nonce)
    }

    fn respond(&mut self, status: u16, body: String, challenge: bool, now: UnixTime) -> Response {
        let next_challenge = challenge.then(|| self.header(now));
        Response { status, json: true, next_challenge, retry_after: None, body: body.into_bytes() }
    }

    fn refuse(&mut self, code: Code, now: UnixTime) -> Response {
        let error = ErrorText { code, message: "no".into(), kind: ErrorKind::NodeError };
        let body = json::to_string(&ErrorBody { error }).unwrap();
        self.respond(code.status(), body, code == Code::ChallengeRefused, now)
    }
}

fn which(request: &Request, id: &lucia_proto::base::ids::NodeId) -> Endpoint {
    let same = |call: &&Endpoint| call.method() == request.method && call.path_for(id) == request.path;
    *Endpoint::ALL.iter().find(same).unwrap_or_else(|| panic!("no such endpoint: {request:?}"))
}

fn proof_of(call: Endpoint, request: &Request) -> Option<(Proof, Option<String>)> {
    fn read<T: serde::de::DeserializeOwned>(body: &[u8]) -> T {
        json::from_slice(body, 1 << 20, 24).unwrap()
    }
    let body = request.body.as_deref().unwrap_or_default();
    Some(match (call, call.caller()) {
        (Endpoint::Discover, _) => {
            let DiscoverCall { challenge_id, report_json, signature, .. } = read(body);
            (Proof { challenge_id, report_json, signature }, None)
        }
        (_, Caller::Node) if call.method() == "POST" => {
            let NodeCall { certificate_pem, proof } = read(body);
            (proof, Some(certificate_pem))
        }
        (_, Caller::Device) if call.method() == "POST" => (read::<DeviceCall>(body).proof, None),
        (_, Caller::Device) => {
            let header = HeaderProof::from_header(request.proof.as_deref().unwrap().as_bytes()).unwrap();
            (header.proof, header.certificate_pem)
        }
        _ => return None,
    })
}

impl Transport for Fake {
    async fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        let now = self.now();
        let inner = &mut *self.0.borrow_mut();
        let call = which(request, &inner.key.public().fingerprint().node_id());
        let proof = proof_of(call, request);
        let down = || TransportError::Cut("the test cut it".into());
        let used = proof.as_ref().map(|(proof, _)| (proof.challenge_id.clone(), inner.believe(proof)));
        let (report, certificate) =
            proof.map(|(proof, certificate)| (proof.report_json, certificate)).unwrap_or_default();
        let seen = SeenCall { call, report, certificate, now };
        inner.seen.push(seen.clone());
        if matches!(used, Some((_, None))) {
            return Ok(inner.refuse(Code::ChallengeRefused, now));
        }
        Ok(match (inner.decide)(&seen) {
            Reply::Challenge => {
                let challenge = inner.challenge(now);
                inner.respond(200, json::to_string(&challenge).unwrap(), false, now)
            }
            Reply::Ok(body) => inner.respond(200, body, true, now),
            Reply::Pending => inner.respond(202, r#"{"state":"Pending"}"#.into(), true, now),
            Reply::Refuse(code) => inner.refuse(code, now),
            Reply::RefuseFor(code, secs) => {
                Response { retry_after: Some(Duration::from_secs(secs)), ..inner.refuse(code, now) }
            }
            Reply::Html(status) => Response {
                status,
                json: false,
                next_challenge: Some(inner.header(now)),
                retry_after: None,
                body: b"<html>log in</html>".to_vec(),
            },
            Reply::OtherJson(status) => inner.respond(status, r#"{"error":"denied"}"#.into(), true, now),
            Reply::Lost => return Err(down()),
            Reply::Down => {
                // It never arrived, so its challenge is as good as before.
                if let Some((id, Some(nonce))) = used {
                    inner.challenges.insert(id, nonce);
                }
                return Err(down());
            }
        })
    }
}

/// Serves challenges and decides the rest by `decide`.
pub(crate) fn with_challenges(
    mut decide: impl FnMut(&SeenCall) -> Reply + 'static,
) -> impl FnMut(&SeenCall) -> Reply + 'static {
    move |seen| match seen.call {
        Endpoint::BootChallenge | Endpoint::DeviceChallenge | Endpoint::NodeChallenge => Reply::Challenge,
        _ => decide(seen),
    }
}
