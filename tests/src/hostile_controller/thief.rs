//! A process of the attacker's own in the controller's place: its address, its TLS key, its disk, and no line of its code.
//!
//! It believes everybody, passes on to the worker what serves it, and answers each heartbeat with whatever its plan says.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use lucia_proto::base::ids::NodeId;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::challenge::{Challenge, ChallengeId, Nonce};
use lucia_proto::node::heartbeat::Heartbeat;
use lucia_proto::node::report::EnrollRequest;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use super::serve::{acceptor, called};
use super::stolen::{Stolen, now};
use crate::sim::Failure;

/// What it makes of a heartbeat: the members of its reply beside `accepted`.
pub type Plan = Box<dyn FnMut(&Heartbeat) -> Value + Send>;

/// A running one; it ends when dropped.
pub struct Thief {
    /// Where it listens.
    pub address: SocketAddr,
    mind: Arc<Mind>,
    _runtime: Runtime,
}

struct Mind {
    disk: Stolen,
    plan: Mutex<Plan>,
    beats: AtomicUsize,
}

impl Thief {
    /// Listens on a port of loopback's with the controller's own certificate and key.
    ///
    /// # Errors
    /// When they are not on the disk, or no port is free.
    pub fn start(disk: &Stolen) -> Result<Self, Failure> {
        let acceptor = acceptor(&disk.text("tls/endpoint.pem")?, &disk.text("tls/endpoint.key")?)?;
        // One thread: what it answers is made on threads that may wait for the worker.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let mind = Arc::new(Mind {
            disk: disk.clone(),
            plan: Mutex::new(Box::new(|_| json!({}))),
            beats: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&mind);
        runtime.spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, mind) = (acceptor.clone(), Arc::clone(&shared));
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let service = hyper::service::service_fn(move |request| answer(Arc::clone(&mind), request));
                    // An agent that was ended cuts its connection.
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(tls), service).await;
                });
            }
        });
        Ok(Self { address, mind, _runtime: runtime })
    }

    /// From now on it says this to heartbeats.
    pub fn play(&self, plan: impl FnMut(&Heartbeat) -> Value + Send + 'static) {
        *self.mind.plan.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(plan);
        self.mind.beats.store(0, Ordering::SeqCst);
    }

    /// Heartbeats since the last [`play`](Self::play).
    #[must_use]
    pub fn beats(&self) -> usize {
        self.mind.beats.load(Ordering::SeqCst)
    }
}

async fn answer(mind: Arc<Mind>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let called = called(&request);
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let said = tokio::task::spawn_blocking(move || {
        called.and_then(|(call, node)| mind.say(call, &node, &body)).unwrap_or((404, Value::Null))
    });
    let (status, body) = said.await.unwrap_or((500, Value::Null));
    let mut reply = Response::new(Full::new(Bytes::from(body.to_string())));
    *reply.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    reply.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    Ok(reply)
}

impl Mind {
    fn say(&self, call: Endpoint, node: &NodeId, body: &[u8]) -> Option<(u16, Value)> {
        let said: Value = serde_json::from_slice(body).unwrap_or_default();
        let report = said.pointer("/proof/reportJson").and_then(Value::as_str);
        match call {
            Endpoint::BootChallenge | Endpoint::DeviceChallenge | Endpoint::NodeChallenge => {
                let expires_at = now().plus(Duration::from_secs(120));
                let challenge = Challenge {
                    challenge_id: ChallengeId::from_parts(now().secs() * 1000, 1),
                    nonce: Nonce::from_bytes(&[9; 32]),
                    expires_at,
                };
                Some((200, serde_json::to_value(challenge).ok()?))
            }
            Endpoint::Enroll | Endpoint::Renew => {
                let asked: EnrollRequest = serde_json::from_str(report?).ok()?;
                Some(match self.disk.certificate(node, &asked.csr_pem) {
                    Some(answer) => (200, serde_json::to_value(answer).ok()?),
                    None => (202, json!({"state": "Pending"})),
                })
            }
            Endpoint::Heartbeat => {
                let heartbeat: Heartbeat = serde_json::from_str(report?).ok()?;
                let mut reply = (self.plan.lock().unwrap_or_else(PoisonError::into_inner))(&heartbeat);
                reply.as_object_mut()?.insert("accepted".to_owned(), true.into());
                self.beats.fetch_add(1, Ordering::SeqCst);
                Some((200, reply))
            }
            // Whoever has the disk installs nothing, and asks nobody.
            _ => None,
        }
    }
}
