//! One call: over the controller's Unix socket as the operator, or over TLS as an owner who signs each request.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use lucia_people::agents::{AgentLine, AgentsView};
use lucia_people::calls::PeopleCall;
use lucia_people::host_api::{EVENTS_WAIT_MAX, HOST_ANSWER_MAX, NodesView};
use lucia_proto::base::code::Code;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::json;
use lucia_proto::base::limits::{DEVICES_MAX, JSON_DEPTH_MAX};
use lucia_proto::node::challenge::{Challenge, NEXT_CHALLENGE_HEADER, NextChallenge};
use lucia_proto::orders::owner::{OwnerId, PageOrigin};
use lucia_proto::orders::owner_proof::{Method, OWNER_PROOF_HEADER, OwnerProof, OwnerRequest, Target};
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::pki::chain::Root;
use lucia_proto::pki::key::{NodeKey, VerificationCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use crate::call::{CallError, strange};
use crate::files::{self, FileError, Secret};
use crate::patience;
use crate::tls::Tls;

/// What the note says before that.
const ASKED: &str = "asked";
/// The note of an owner's id, beside the key.
const OWNER_NOTE: &str = "id";
/// Its length.
const OWNER_NOTE_MAX: u64 = 64;
/// How long an answer may take beyond what was asked to be waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// An owner at this machine: fleet, key, and the way to the controller.
pub(crate) struct Me {
    /// The root that is believed.
    pub(crate) root: Root,
    /// The id this key would come with by itself: a further key of somebody's speaks for another one.
    own: OwnerId,
    /// Whom the roster has with this key, once that was seen.
    known: OnceLock<OwnerId>,
    /// The roster, once this run asked for it and believed it.
    pub(crate) roster: OnceLock<VerifiedRoster>,
    /// Whether a place was asked for with this key, and it was not seen since whose that is.
    asked: bool,
    /// Signs them.
    pub(crate) key: NodeKey,
    /// The file of that key.
    file: PathBuf,
    tls: Tls,
    /// The next challenge, as the last answer had it.
    challenge: Mutex<Option<Challenge>>,
}

impl Me {
    /// Whoever has `key`, at this controller; `file` is the key's.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub(crate) fn new(controller: &PageOrigin, root: Root, key: NodeKey, file: &Path) -> Result<Self, CallError> {
        let (tls, file) = (Tls::new(controller, &root)?, file.to_owned());
        let own = OwnerId::of(&key.public().fingerprint());
        let (known, roster, challenge) = (OnceLock::new(), OnceLock::new(), Mutex::new(None));
        let mut me = Self { own, known, roster, asked: false, root, key, file, tls, challenge };
        // A note that cannot be read is as none: then the key is taken for the first one of its owner.
        if let Ok(text) = files::read(&me.note(OWNER_NOTE), OWNER_NOTE_MAX, Secret::Yes) {
            match text.trim().parse::<OwnerId>() {
                Ok(owner) => me.known = OnceLock::from(owner),
                Err(_) => me.asked = true,
            }
        }
        Ok(me)
    }

    /// Whose requests and orders these are.
    pub(crate) fn id(&self) -> &OwnerId {
        self.known.get().unwrap_or(&self.own)
    }

    /// Whether a place was asked for with this key, and it was not seen since whose that is.
    pub(crate) fn is_waiting(&self) -> bool {
        self.asked && self.known.get().is_none()
    }

    /// Notes that a place is asked for with this key: it may be a further one of somebody's.
    ///
    /// # Errors
    /// When it cannot be noted.
    pub(crate) fn note_asked(&self) -> Result<(), FileError> {
        if self.known.get().is_some() { Ok(()) } else { files::replace(&self.note(OWNER_NOTE), ASKED) }
    }

    /// Notes whom the roster has with this key.
    ///
    /// # Errors
    /// When it cannot be noted.
    pub(crate) fn note_owner(&self, owner: &OwnerId) -> Result<(), FileError> {
        if self.known.get() == Some(owner) {
            return Ok(());
        }
        files::replace(&self.note(OWNER_NOTE), owner.as_str())?;
        let _ = self.known.set(owner.clone());
        Ok(())
    }

    /// The SHA-256 of the root.
    pub(crate) fn fleet(&self) -> Digest {
        self.root.sha256()
    }

    /// Where something is noted that was seen by whoever has this key: beside it.
    pub(crate) fn note(&self, what: &str) -> PathBuf {
        self.file.with_extension(what)
    }

    fn proof(&self, call: &Call, challenge: &Challenge) -> Result<String, CallError> {
        let request = OwnerRequest {
            fleet: self.fleet(),
            owner: self.id().clone(),
            method: call.method,
            target: call.target.clone(),
            body_sha256: Digest::of(call.body.as_bytes()),
        };
        let proof = OwnerProof::sign(&request, challenge, &self.key).map_err(|error| strange(&error))?;
        Ok(proof.to_header())
    }

    async fn once(&self, call: &Call, proof: Option<String>) -> Result<Answer, CallError> {
        let stream = self.tls.connect().await?;
        let answer = exchange(stream, call.message(&self.tls.authority(), proof)?, || {
            CallError::Unreachable(self.tls.authority(), std::io::ErrorKind::ConnectionAborted.into())
        })
        .await?;
        let next = answer.headers.get(NEXT_CHALLENGE_HEADER).and_then(|value| value.to_str().ok());
        if let Some(next) = next.and_then(|next| NextChallenge::from_header(next).ok()) {
            *self.challenge.lock().await = Some(next.challenge());
        }
        Ok(answer)
    }

    /// The challenge to sign over: the one that came with the last answer, or a new one.
    async fn next(&self) -> Result<Challenge, CallError> {
        if let Some(challenge) = self.challenge.lock().await.take() {
            return Ok(challenge);
        }
        let call = Call::new(PeopleCall::Challenge, PeopleCall::Challenge.path().to_owned(), None)?;
        let answer = self.once(&call, None).await?;
        // What came in its header as well is not needed.
        *self.challenge.lock().await = None;
        answer.read()
    }

    async fn signed(&self, call: &Call) -> Result<Answer, CallError> {
        let proof = self.proof(call, &self.next().await?)?;
        let answer = self.once(call, Some(proof)).await?;
        if answer.refused().as_ref().and_then(CallError::code) != Some(Code::ChallengeRefused) {
            return Ok(answer);
        }
        // It was too old, or of before the controller's start: once more over a new one.
        let proof = self.proof(call, &self.next().await?)?;
        self.once(call, Some(proof)).await
    }
}

/// The controller.
pub(crate) enum Client {
    /// By its socket, as the operator.
    Socket(PathBuf),
    /// Over TLS, as an owner.
    Owner(Box<Me>),
}

impl Client {
    /// The owner who speaks; nobody over the socket.
    pub(crate) fn me(&self) -> Option<&Me> {
        match self {
            Self::Socket(_) => None,
            Self::Owner(me) => Some(me),
        }
    }

    /// A call without a form. `at` is the id or code in its path, and nothing where that has none.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: PeopleCall, at: &dyn Display) -> Result<T, CallError> {
        self.send(Call::new(call, call.path_for(&at), None)?).await?.read()
    }

    /// A call with a form.
    pub(crate) async fn post<F: Serialize, T: DeserializeOwned>(
        &self,
        call: PeopleCall,
        at: &dyn Display,
        form: &F,
    ) -> Result<T, CallError> {
        self.send(Call::new(call, call.path_for(&at), Some(written(form)?))?).await?.read()
    }

    /// The part of a list that comes after this one.
    pub(crate) async fn after<T: DeserializeOwned>(
        &self,
        call: PeopleCall,
        after: &dyn Display,
    ) -> Result<T, CallError> {
        self.send(Call::new(call, format!("{}?after={after}", call.path()), None)?).await?.read()
    }

    /// Every node: part after part.
    pub(crate) async fn nodes(&self) -> Result<NodesView, CallError> {
        let mut all: NodesView = self.call(PeopleCall::Nodes, &"").await?;
        // No controller has more nodes than this many parts hold; one that goes on is not believed.
        for _ in 0..DEVICES_MAX {
            let Some(last) = all.next.take() else { return Ok(all) };
            let mut part: NodesView = self.after(PeopleCall::Nodes, &last).await?;
            if part.nodes.iter().any(|node| node.hostname <= last)
                || part.next.as_ref().is_some_and(|next| *next <= last)
            {
                return Err(strange(&"a list of nodes that does not go on"));
            }
            all.nodes.append(&mut part.nodes);
            all.next = part.next;
        }
        Err(strange(&"a list of nodes without an end"))
    }

    /// Every node's agent; nothing from a controller of 0.1, which has no such call.
    pub(crate) async fn agents(&self) -> Result<Vec<AgentLine>, CallError> {
        let mut all: Vec<AgentLine> = Vec::new();
        let mut next = String::new();
        loop {
            let query = if next.is_empty() { &next } else { &format!("?after={next}") };
            let path = format!("{}{query}", PeopleCall::Agents.path());
            let part: AgentsView = match self.send(Call::new(PeopleCall::Agents, path, None)?).await?.read() {
                Err(CallError::Refused(body)) if body.error.code == Code::NotFound => return Ok(all),
                part => part?,
            };
            all.extend(part.agents);
            match part.next {
                Some(last) if last.as_str() > next.as_str() => next = last.to_string(),
                Some(_) => return Err(strange(&"a list of agents that does not go on")),
                None => return Ok(all),
            }
        }
    }

    /// Events after `after`; with `wait`, not before there are some or 25 s are over.
    pub(crate) async fn events<T: DeserializeOwned>(&self, after: u64, wait: bool) -> Result<T, CallError> {
        let wait = if wait { EVENTS_WAIT_MAX.as_secs() } else { 0 };
        self.after(PeopleCall::Events, &format!("{after}&limit=500&wait={wait}")).await
    }

    /// Does something about a draft; that it was done is all the answer.
    pub(crate) async fn act<F: Serialize>(
        &self,
        call: PeopleCall,
        code: &VerificationCode,
        form: Option<&F>,
    ) -> Result<(), CallError> {
        let form = form.map(written).transpose()?;
        self.send(Call::new(call, call.path_for(code), form)?).await?.done()
    }

    /// Asks to become an owner: the one call that carries its own proof.
    pub(crate) async fn apply<F: Serialize, T: DeserializeOwned>(me: &Me, form: &F) -> Result<T, CallError> {
        let call = Call::new(PeopleCall::Apply, PeopleCall::Apply.path().to_owned(), Some(written(form)?))?;
        in_time(me.once(&call, None)).await?.read()
    }

    /// A call that was refused since there were too many was not made: it is made again when its turn comes.
    async fn send(&self, mut call: Call) -> Result<Answer, CallError> {
        let mut waited = Duration::ZERO;
        loop {
            let answer = match self {
                Self::Socket(path) => in_time(over_socket(path, &call)).await,
                Self::Owner(me) => in_time(me.signed(&call)).await,
            }?;
            // A controller of the version before this one has orders under their former path.
            if answer.refused().as_ref().and_then(CallError::code) == Some(Code::NotFound)
                && let Some(rest) = call.target.as_str().strip_prefix(PeopleCall::Drafts.path())
            {
                call.target = format!("{FORMER_ORDERS}{rest}").parse().map_err(|error| strange(&error))?;
                continue;
            }
            let Some(pause) = patience::pause(answer.status, &answer.headers, waited) else { return Ok(answer) };
            patience::say_once();
            tokio::time::sleep(pause).await;
            waited += pause;
        }
    }
}

/// Where orders were before there was the word for them.
const FORMER_ORDERS: &str = "/api/host/intents";

async fn in_time<T>(answer: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
    tokio::time::timeout(PATIENCE + EVENTS_WAIT_MAX, answer).await.map_err(|_| CallError::Silent)?
}

fn written<F: Serialize>(form: &F) -> Result<String, CallError> {
    json::to_string(form).map_err(|error| strange(&error))
}

/// One request.
struct Call {
    method: Method,
    target: Target,
    /// A form, or nothing.
    body: String,
}

impl Call {
    fn new(call: PeopleCall, target: String, form: Option<String>) -> Result<Self, CallError> {
        let method = Method::of_word(call.method()).ok_or_else(|| strange(&call.method()))?;
        let target = target.parse().map_err(|error| strange(&error))?;
        Ok(Self { method, target, body: form.unwrap_or_default() })
    }

    fn message(&self, host: &str, proof: Option<String>) -> Result<Request<Full<Bytes>>, CallError> {
        let mut request = Request::builder().method(self.method.as_str()).uri(self.target.as_str());
        request = request.header(header::HOST, host).header(header::ACCEPT, "application/json");
        if !self.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(proof) = proof {
            request = request.header(OWNER_PROOF_HEADER, proof);
        }
        request.body(Full::from(self.body.clone())).map_err(|error| strange(&error))
    }
}

/// What came back.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn read<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        self.done()?;
        json::from_slice(&self.body, HOST_ANSWER_MAX, JSON_DEPTH_MAX).map_err(|error| strange(&error))
    }

    fn done(&self) -> Result<(), CallError> {
        self.refused().map_or(Ok(()), Err)
    }

    fn refused(&self) -> Option<CallError> {
        if self.status.is_success() {
            return None;
        }
        let refused = json::from_slice(&self.body, HOST_ANSWER_MAX, JSON_DEPTH_MAX);
        Some(refused.map_or_else(|_| CallError::Strange(format!("status {}", self.status)), CallError::Refused))
    }
}

async fn over_socket(path: &Path, call: &Call) -> Result<Answer, CallError> {
    let unreachable = |err| CallError::NoSocket(path.to_owned(), err);
    let stream = UnixStream::connect(path).await.map_err(unreachable)?;
    exchange(stream, call.message("localhost", None)?, || CallError::Closed).await
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send>(
    stream: S,
    request: Request<Full<Bytes>>,
    closed: impl Fn() -> CallError,
) -> Result<Answer, CallError> {
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .handshake::<_, Full<Bytes>>(TokioIo::new(stream))
        .await
        .map_err(|_| closed())?;
    let answer = async move {
        let response = sender.send_request(request).await.map_err(|_| closed())?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, HOST_ANSWER_MAX).collect().await.map_err(|error| strange(&error))?;
        Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
    };
    // The connection does the work that the answer waits for; it ends by itself when the sender is gone.
    let (answer, _) = tokio::join!(answer, connection);
    answer
}
