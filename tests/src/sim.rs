//! A node that is only its key and one TLS connection: a second, independent reading of the protocol.
//!
//! Benchmarks need hundreds of nodes, and the agent's own client must not be the only thing the controller was ever
//! tried with. So nothing of the agent is used here: `lucia_proto` alone, over hyper and rustls.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::{BootId, NodeId, RequestId, StartId, TaskId};
use lucia_proto::base::names::Hostname;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::answer::SignedAnswer;
use lucia_proto::node::challenge::{Challenge, NEXT_CHALLENGE_HEADER, NextChallenge};
use lucia_proto::node::first_contact::{Discovered, Installation};
use lucia_proto::node::heartbeat::{Heartbeat, HeartbeatFields, HeartbeatReply};
use lucia_proto::node::inventory::{HardwareInventory, InventoryFields};
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::report::{
    DeviceCall, Discover, DiscoverCall, EnrollRequest, GrantRequest, HeaderProof, NodeCall, PROOF_HEADER, Progress,
    Proof, Purpose, Question, Report,
};
use lucia_proto::pki::csr;
use lucia_proto::pki::key::NodeKey;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// Whatever went wrong, as text: a simulated node has nobody to tell but the test.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Where the controller is and what vouches for it.
#[derive(Clone)]
pub struct Target {
    address: SocketAddr,
    /// The address that is called from; the system's choice without one.
    source: Option<IpAddr>,
    name: ServerName<'static>,
    tls: TlsConnector,
}

/// How long a controller may be silent: longer than any deadline of its own.
const PATIENCE: Duration = Duration::from_secs(60);

fn silent(target: &Target, what: &str) -> Failure {
    format!("{} {what} within a minute", target.address).into()
}

impl Target {
    /// The controller at `address`, called `name`, vouched for by the root `root_pem`.
    ///
    /// # Errors
    /// When root or name cannot be read.
    pub fn new(address: SocketAddr, name: &str, root_pem: &str) -> Result<Self, Failure> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(root_pem.as_bytes())?)?;
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned())?;
        Ok(Self { address, source: None, name, tls: TlsConnector::from(Arc::new(config)) })
    }

    /// The same controller, called from an address of loopback's: each stands for a machine of its own.
    #[must_use]
    pub fn from_source(&self, source: IpAddr) -> Self {
        Self { source: Some(source), ..self.clone() }
    }

    /// A connection on which nothing was said yet.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn dial(&self) -> Result<TcpStream, Failure> {
        let socket = if self.address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(source) = self.source {
            socket.bind(SocketAddr::new(source, 0))?;
        }
        let tcp =
            timeout(PATIENCE, socket.connect(self.address)).await.map_err(|_| silent(self, "took no connection"))??;
        tcp.set_nodelay(true)?;
        Ok(tcp)
    }

    /// A connection whose TLS stands.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn secure(&self) -> Result<TlsStream<TcpStream>, Failure> {
        let tls = self.tls.connect(self.name.clone(), self.dial().await?);
        Ok(timeout(PATIENCE, tls).await.map_err(|_| silent(self, "ended no TLS handshake"))??)
    }

    /// As [`Target::secure`], for a test that expects nobody to answer.
    ///
    /// # Errors
    /// When it cannot be made in this time.
    pub async fn secure_within(&self, limit: Duration) -> Result<TlsStream<TcpStream>, Failure> {
        timeout(limit, self.secure()).await?
    }

    /// A new connection.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let tls = self.secure().await?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
        tokio::spawn(async move {
            // The error comes back on the request that met it.
            let _ = connection.await;
        });
        Ok(sender)
    }
}

/// An answer: status, next challenge, body.
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The challenge that came with it.
    pub next: Option<Challenge>,
    /// The body.
    pub body: Bytes,
}

/// A machine with a key and a connection.
pub struct SimNode {
    /// Its key.
    pub key: NodeKey,
    /// Its id.
    pub id: NodeId,
    /// Its name.
    pub hostname: Hostname,
    /// The load it tells; what else it tells of itself follows.
    pub load: f64,
    /// Its certificate chain, once it has one.
    pub certificate_pem: Option<String>,
    target: Target,
    sender: SendRequest<Full<Bytes>>,
    next: Option<Challenge>,
    start_id: StartId,
    boot_id: BootId,
    /// What its next heartbeat shows of the last reply.
    chain: Option<Digest>,
}

/// The key of the `number`th machine.
///
/// # Errors
/// Never for these numbers.
pub fn key_of(number: u32) -> Result<NodeKey, Failure> {
    let mut bytes = [1; 32];
    bytes[28..].copy_from_slice(&number.to_be_bytes());
    Ok(NodeKey::from_random(&bytes.into()).ok_or("no key")?)
}

/// The name of the `number`th machine.
///
/// # Errors
/// Never.
pub fn hostname_of(number: u32) -> Result<Hostname, Failure> {
    Ok(format!("sim-{number}").parse()?)
}

impl SimNode {
    /// The machine with the `number`th key, connected.
    ///
    /// # Errors
    /// When the controller cannot be reached.
    pub async fn connect(target: &Target, number: u32) -> Result<Self, Failure> {
        let key = key_of(number)?;
        let id = key.public().fingerprint().node_id();
        let mut start = [2; 16];
        start[12..].copy_from_slice(&number.to_be_bytes());
        Ok(Self {
            key,
            id,
            hostname: hostname_of(number)?,
            load: 0.25,
            certificate_pem: None,
            target: target.clone(),
            sender: target.connect().await?,
            next: None,
            start_id: StartId::from_random(start),
            boot_id: format!("{number:08x}-0000-4000-8000-000000000000").parse()?,
            chain: None,
        })
    }

    /// A new connection in place of the present one.
    ///
    /// # Errors
    /// When the controller cannot be reached.
    pub async fn reconnect(&mut self) -> Result<(), Failure> {
        self.sender = self.target.connect().await?;
        Ok(())
    }

    /// The same node on a connection to another controller.
    ///
    /// # Errors
    /// When that one cannot be reached.
    pub async fn moved_to(mut self, target: &Target) -> Result<Self, Failure> {
        self.target = target.clone();
        self.forget_challenge();
        self.reconnect().await?;
        Ok(self)
    }

    /// Whether its connection is over.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.sender.is_closed()
    }

    /// First contact.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn discover(&mut self) -> Result<Discovered, Failure> {
        let challenge: Challenge = self.get(Endpoint::BootChallenge).await?;
        let report =
            Discover { node_id: self.id.clone(), purpose: Purpose::Discover, inventory: inventory()?, running: false };
        let proof = Proof::sign(&report, &challenge, &self.key)?;
        let call = DiscoverCall {
            challenge_id: proof.challenge_id,
            public_key_pem: self.key.public().to_pem(),
            report_json: proof.report_json,
            signature: proof.signature,
        };
        let answer = self.send(Endpoint::Discover, Some(&call), None).await?;
        // It is for another discovery; a device's calls have their own.
        self.forget_challenge();
        expect(&answer, StatusCode::OK)
    }

    /// From an approval to the last progress report.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn install(&mut self) -> Result<TaskId, Failure> {
        let report = Question { node_id: self.id.clone(), purpose: Purpose::Installation };
        let proof = self.sign(&report, Endpoint::DeviceChallenge).await?;
        let header = HeaderProof { certificate_pem: None, proof }.to_header();
        let answer = self.send::<()>(Endpoint::Installation, None, Some(header)).await?;
        let approved: Installation = expect(&answer, StatusCode::OK)?;
        let grant = GrantRequest {
            node_id: self.id.clone(),
            purpose: Purpose::Grant,
            request_id: self.request_id()?,
            inventory_revision: approved.inventory_revision,
            disk_id: approved.disk_id,
        };
        self.device_call(Endpoint::Grant, &grant).await?;
        for phase in [DevicePhase::Installing, DevicePhase::AwaitingEnrollment] {
            let node_id = self.id.clone();
            let report = Progress { node_id, purpose: Purpose::Progress, phase, message: "simulated".to_owned() };
            self.device_call(Endpoint::Progress, &report).await?;
        }
        Ok(approved.task_id)
    }

    /// Its request for a grant: the same each time, and no other machine's.
    fn request_id(&self) -> Result<RequestId, Failure> {
        let digest = Digest::of(self.key.public().der());
        let (bytes, _) = digest.as_bytes().split_first_chunk().ok_or("a digest has 32 bytes")?;
        Ok(RequestId::from_random(*bytes))
    }

    /// Asks for the first certificate once; true when it came.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn enroll(&mut self, task_id: &TaskId) -> Result<bool, Failure> {
        let report = EnrollRequest {
            node_id: self.id.clone(),
            purpose: Purpose::Enroll,
            task_id: task_id.clone(),
            csr_pem: csr::build(&self.id, &self.hostname, &self.key),
        };
        let answer = self.device_call(Endpoint::Enroll, &report).await?;
        if answer.status == StatusCode::ACCEPTED {
            return Ok(false);
        }
        let signed: SignedAnswer = expect(&answer, StatusCode::OK)?;
        self.certificate_pem = serde_json::from_slice::<Value>(signed.parts().payload())?
            .get("certificatePem")
            .and_then(Value::as_str)
            .map(str::to_owned);
        Ok(true)
    }

    /// One heartbeat over the challenge of the former answer, or a new one.
    ///
    /// # Errors
    /// When it cannot be sent; a refusal is an answer.
    pub async fn heartbeat(&mut self) -> Result<Answer, Failure> {
        let report = self.report()?;
        let proof = self.sign(&report, Endpoint::NodeChallenge).await?;
        self.node_call(Endpoint::Heartbeat, proof).await
    }

    /// Sends a proof with the certificate.
    ///
    /// # Errors
    /// When it cannot be sent.
    pub async fn node_call(&mut self, endpoint: Endpoint, proof: Proof) -> Result<Answer, Failure> {
        let certificate_pem = self.certificate_pem.clone().ok_or("no certificate yet")?;
        let answer = self.send(endpoint, Some(&NodeCall { certificate_pem, proof }), None).await?;
        if endpoint == Endpoint::Heartbeat && answer.status == StatusCode::OK {
            let reply: HeartbeatReply = serde_json::from_slice(&answer.body)?;
            self.chain = reply.chain.or(self.chain);
        }
        Ok(answer)
    }

    /// Forgets the challenge of the former answer, so that the next call asks for one.
    pub fn forget_challenge(&mut self) {
        self.next = None;
    }

    /// Asks for a challenge and holds it for the next call.
    ///
    /// # Errors
    /// When none can be had.
    pub async fn hold_challenge(&mut self) -> Result<(), Failure> {
        let challenge = self.get(Endpoint::NodeChallenge).await?;
        self.next = Some(challenge);
        Ok(())
    }

    /// A heartbeat's report.
    ///
    /// # Errors
    /// When a field is out of bounds, which none is.
    pub fn report(&self) -> Result<Heartbeat, Failure> {
        Ok(Heartbeat::try_from(HeartbeatFields {
            node_id: self.id.clone(),
            purpose: Purpose::Heartbeat,
            hostname: self.hostname.clone(),
            new_hostname: None,
            os_version: "Debian GNU/Linux 13 (trixie)".to_owned().try_into()?,
            uptime_seconds: 86_400,
            load_average: Some(self.load),
            memory_total_bytes: 8 << 30,
            memory_available_bytes: 5 << 30,
            storage_total_bytes: Some(64 << 30),
            storage_available_bytes: Some(40 << 30),
            runtime: None,
            updates: None,
            agent_release: None,
            cpu_percent: Some(3.5),
            cpu_temperature_celsius: Some(41.25 + self.load),
            gpu_percent: None,
            gpu_temperature_celsius: None,
            features: Default::default(),
            start_id: Some(self.start_id.clone()),
            former_starts: Vec::new(),
            chain: self.chain,
            boot_id: Some(self.boot_id.clone()),
            directory: None,
            orders: None,
            extensions: Default::default(),
        })?)
    }

    /// Signs over the held challenge, or over a new one.
    ///
    /// # Errors
    /// When no challenge can be had.
    pub async fn sign<T: Report>(&mut self, report: &T, source: Endpoint) -> Result<Proof, Failure> {
        let challenge = match self.next.take() {
            Some(challenge) => challenge,
            None => self.get(source).await?,
        };
        Ok(Proof::sign(report, &challenge, &self.key)?)
    }

    /// A GET without a proof.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn get<T: DeserializeOwned>(&mut self, endpoint: Endpoint) -> Result<T, Failure> {
        let answer = self.send::<()>(endpoint, None, None).await?;
        expect(&answer, StatusCode::OK)
    }

    async fn device_call<T: Report>(&mut self, endpoint: Endpoint, report: &T) -> Result<Answer, Failure> {
        let proof = self.sign(report, Endpoint::DeviceChallenge).await?;
        let answer = self.send(endpoint, Some(&DeviceCall { proof }), None).await?;
        if answer.status.is_success() { Ok(answer) } else { Err(refusal(&answer)) }
    }

    /// One request and its answer.
    ///
    /// # Errors
    /// When it cannot be sent or the answer cannot be read.
    pub async fn send<B: Serialize>(
        &mut self,
        endpoint: Endpoint,
        body: Option<&B>,
        header: Option<String>,
    ) -> Result<Answer, Failure> {
        let bytes = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        let mut request = Request::builder()
            .method(endpoint.method())
            .uri(endpoint.path_for(&self.id))
            .header("Host", self.target.name.to_str().as_ref());
        if body.is_some() {
            request = request.header("Content-Type", "application/json");
        }
        if let Some(value) = header {
            request = request.header(PROOF_HEADER, value);
        }
        let request = request.body(Full::new(Bytes::from(bytes)))?;
        let answered = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        let response = timeout(PATIENCE, answered).await.map_err(|_| silent(&self.target, "gave no answer"))??;
        let next = response
            .headers()
            .get(NEXT_CHALLENGE_HEADER)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| NextChallenge::from_header(value).ok())
            .map(NextChallenge::challenge);
        let status = response.status();
        let body = timeout(PATIENCE, response.into_body().collect())
            .await
            .map_err(|_| silent(&self.target, "ended no answer"))??;
        let body = body.to_bytes();
        self.next.clone_from(&next);
        Ok(Answer { status, next, body })
    }
}

fn expect<T: DeserializeOwned>(answer: &Answer, status: StatusCode) -> Result<T, Failure> {
    if answer.status == status { Ok(serde_json::from_slice(&answer.body)?) } else { Err(refusal(answer)) }
}

fn refusal(answer: &Answer) -> Failure {
    format!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)).into()
}

/// A small machine with one disk.
///
/// # Errors
/// When a field is out of bounds, which none is.
pub fn inventory() -> Result<HardwareInventory, Failure> {
    let fields: InventoryFields = serde_json::from_value(serde_json::json!({
        "architecture": "x86_64", "bootMode": "Bios", "logicalCpuCount": 2, "memoryBytes": 8_589_934_592_u64,
        "interfaces": [{"name": "eth0", "macAddress": "52:54:00:12:34:56", "addresses": ["127.0.0.1"]}],
        "disks": [{"id": "sim-disk", "path": "/dev/vda", "sizeBytes": 68_719_476_736_u64, "isRemovable": false, "isReadOnly": false}],
    }))?;
    Ok(HardwareInventory::try_from(fields)?)
}

/// Bytes as base64.
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
