//! A controller to talk to, and the raw client that talks to it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use lucia_controller::app::App;
use lucia_controller::config::Config;
use lucia_controller::http::Timeouts;
use lucia_daemon::clock::SystemClock;
use lucia_daemon::notify::Notify;
use lucia_proto::base::bounded::Version;
use lucia_proto::base::time::{Clock, UnixTime};
use lucia_proto::files::worker_status::WorkerStatus;
use lucia_proto::test_support::{TestCa, key};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::slow::wait_until;

/// The controller's name.
pub(crate) const NAME: &str = "controller.test";
/// The longest any read of a test waits: a failure, never a pause.
const PATIENCE: Duration = Duration::from_secs(20);

/// A controller that runs until it is dropped.
pub(crate) struct Site {
    pub(crate) dir: Scratch,
    pub(crate) ca: TestCa,
    /// When the CA began: another of the same time is the same.
    pub(crate) at: UnixTime,
    pub(crate) address: SocketAddr,
    pub(crate) metrics: Option<SocketAddr>,
    root: CertificateDer<'static>,
    clock: Arc<Shifted>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// The system's clocks, put forward by some seconds where a test asks for it.
#[derive(Default)]
struct Shifted(AtomicU64);

impl Shifted {
    fn by(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

impl Clock for Shifted {
    fn now(&self) -> UnixTime {
        SystemClock.now().plus(self.by())
    }

    fn since_boot(&self) -> Duration {
        SystemClock.since_boot() + self.by()
    }
}

/// A directory of one test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(nix::unistd::mkdtemp(&std::env::temp_dir().join("lucia-http-XXXXXX")).unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::with("", Timeouts::default())
    }

    /// A controller without a certificate: the worker has not signed one yet.
    pub(crate) fn uncertified() -> Self {
        let dir = Scratch::new();
        let root = endpoint(dir.path());
        std::fs::remove_dir_all(dir.path().join("state")).unwrap();
        Self::start(dir, root, "", Timeouts::default())
    }

    /// A controller with more settings and other deadlines.
    pub(crate) fn with(more: &str, timeouts: Timeouts) -> Self {
        let dir = Scratch::new();
        let root = endpoint(dir.path());
        Self::start(dir, root, more, timeouts)
    }

    fn start(dir: Scratch, root: CertificateDer<'static>, more: &str, timeouts: Timeouts) -> Self {
        let now = SystemClock.now();
        let ca = TestCa::new(now);
        std::fs::write(dir.path().join("root.pem"), ca.root_pem()).unwrap();
        let text = settings(dir.path(), more);
        let config = Config::parse(&text).unwrap();
        let (told, tell) = mpsc::channel();
        let clock = Arc::new(Shifted::default());
        let its = Arc::clone(&clock);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                let app = App::open(&config, its, timeouts).await.unwrap();
                told.send((app.address().unwrap(), app.metrics_address(), app.stopper())).unwrap();
                app.serve(&Notify::from_environment()).await.unwrap();
            });
        });
        let (address, metrics, stop) = tell.recv_timeout(PATIENCE).unwrap();
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port());
        let site = Self { dir, ca, at: now, address, metrics, root, clock, stop, thread: Some(thread) };
        site.worker_is_there();
        site
    }

    pub(crate) fn now(&self) -> UnixTime {
        self.clock.now()
    }

    /// Time passes for the controller and who asks it.
    pub(crate) fn later(&self, by: Duration) {
        self.clock.0.fetch_add(by.as_secs(), Ordering::Relaxed);
    }

    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.dir.path().join("state").join(path)
    }

    /// The journal's bytes: what a refusal must leave alone.
    pub(crate) fn journal(&self) -> Vec<u8> {
        std::fs::read(self.file("onboarding/state.json")).unwrap()
    }

    /// The worker writes its status.
    pub(crate) fn worker_is_there(&self) {
        let status = WorkerStatus { schema_version: Version, ready: true, checked_at: self.now() };
        self.put("nodes/enrollment-responses/enrollment-worker.json", &status.to_bytes().unwrap());
    }

    /// A file in the state directory, as the worker's rename leaves it.
    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        let beside = self.dir.path().join("put");
        std::fs::write(&beside, bytes).unwrap();
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::fs::rename(&beside, self.file(path)).unwrap();
    }

    /// A connection without TLS, on which nobody waits for ever.
    pub(crate) fn plain(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// A TLS connection for `name`.
    pub(crate) fn dial(&self, name: &str) -> io::Result<Tls> {
        let stream = self.plain()?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let server = ServerName::try_from(name.to_owned()).unwrap();
        let mut connection = rustls::ClientConnection::new(Arc::new(config), server).map_err(io::Error::other)?;
        let mut stream = stream;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(Tls(rustls::StreamOwned::new(connection, stream)))
    }

    pub(crate) fn tls(&self) -> Tls {
        self.dial(NAME).unwrap()
    }

    /// The certificate that a client is shown, whatever it is worth; nothing while there is none.
    pub(crate) fn presented(&self) -> Option<Vec<u8>> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        // Before the first certificate nobody answers, and the test asks again.
        stream.set_read_timeout(Some(Duration::from_millis(500))).ok()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let shown = Arc::new(Shown::default());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&shown) as Arc<dyn ServerCertVerifier>)
            .with_no_client_auth();
        let server = ServerName::try_from(NAME).unwrap();
        let mut connection = rustls::ClientConnection::new(Arc::new(config), server).ok()?;
        while connection.is_handshaking() && connection.complete_io(&mut stream).is_ok() {
            if shown.0.get().is_some() {
                break;
            }
        }
        shown.0.get().cloned()
    }

    /// The operator's socket.
    pub(crate) fn operator(&self) -> UnixStream {
        let stream = UnixStream::connect(self.dir.path().join("socket")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// One request over a new TLS connection.
    pub(crate) fn send(&self, request: &[u8]) -> Answer {
        exchange(&mut self.tls(), request).expect("an answer")
    }

    /// One request over the operator's socket.
    pub(crate) fn order(&self, method: &str, path: &str, body: &str) -> Answer {
        exchange(&mut self.operator(), &request(method, path, &[], body)).expect("an answer")
    }

    /// Stops the controller and waits for its end.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            wait_until("the controller's end", || thread.is_finished());
            thread.join().unwrap();
        }
    }

    /// Tells it to stop, without waiting.
    pub(crate) fn stopping(&self) {
        self.stop.send(true).unwrap();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // One that does not end goes with the process: a test that failed must not hang besides.
            let until = Instant::now() + PATIENCE;
            while !thread.is_finished() && Instant::now() < until {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    }
}

/// A client's TLS stream.
pub(crate) struct Tls(rustls::StreamOwned<rustls::ClientConnection, TcpStream>);

impl Read for Tls {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buf) {
            // Cut without a TLS farewell: closed all the same.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(0),
            result => result,
        }
    }
}

impl Write for Tls {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Tls {
    pub(crate) fn protocol(&self) -> Option<Vec<u8>> {
        self.0.conn.alpn_protocol().map(<[u8]>::to_vec)
    }
}

/// Takes note of the certificate and refuses it, whichever it is.
#[derive(Debug, Default)]
struct Shown(OnceLock<Vec<u8>>);

impl ServerCertVerifier for Shown {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let _ = self.0.set(end_entity.to_vec());
        Err(rustls::Error::General("seen".to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("never asked".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("never asked".to_owned()))
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        vec![rustls::SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

/// Settings of a controller in `dir`.
pub(crate) fn settings(dir: &Path, more: &str) -> String {
    // The tests are one source, and call as often as they can.
    let often = if more.contains("connections") { "" } else { "connections = { per-source = 2048 }\n" };
    format!(
        "listen = \"127.0.0.1:0\"\nnames = [\"{NAME}\"]\nstate-dir = \"{0}/state\"\nroot-file = \"{0}/root.pem\"\n\
         socket = \"{0}/socket\"\ngroup = \"\"\nworker-user = \"\"\n{often}{more}",
        dir.display()
    )
}

/// Puts a key and a self-signed certificate where the endpoint's are.
fn endpoint(dir: &Path) -> CertificateDer<'static> {
    let pem = key(210).to_pem().unwrap();
    let pair = rcgen::KeyPair::from_pem(&pem).unwrap();
    let certificate = rcgen::CertificateParams::new([NAME.to_owned()]).unwrap().self_signed(&pair).unwrap();
    let mut builder = std::fs::DirBuilder::new();
    builder.mode(0o750).create(dir.join("state")).unwrap();
    builder.mode(0o700).create(dir.join("state/tls")).unwrap();
    for (file, text) in [("endpoint.key", pem.as_str()), ("endpoint.pem", &certificate.pem())] {
        let path = dir.join("state/tls").join(file);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    certificate.der().clone()
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The code of a refusal, or the status of anything else.
    pub(crate) fn code(&self) -> String {
        serde_json::from_str::<serde_json::Value>(&self.body)
            .ok()
            .and_then(|body| body["error"]["code"].as_str().map(str::to_owned))
            .unwrap_or_else(|| self.status.to_string())
    }

    /// What an answer without an error holds.
    #[track_caller]
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self) -> T {
        assert!(matches!(self.status, 200 | 202), "{self:?}");
        lucia_proto::base::json::from_str(&self.body, 1 << 25, 24).unwrap()
    }
}

/// A request in its usual form.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {NAME}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    format!("{text}\r\n{body}").into_bytes()
}

/// Sends bytes and reads one answer; nothing when the connection ends before one.
pub(crate) fn exchange(stream: &mut (impl Read + Write), request: &[u8]) -> Option<Answer> {
    // The other side may have answered and gone before it took everything.
    let _ = stream.write_all(request).and_then(|()| stream.flush());
    let answer = answer(stream)?;
    crate::described::hold(request, &answer);
    Some(answer)
}

/// Reads one answer; nothing when the connection ends before one.
pub(crate) fn answer(stream: &mut impl Read) -> Option<Answer> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        more(stream, &mut bytes)?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    while bytes.len() < end + length {
        more(stream, &mut bytes)?;
    }
    Some(Answer { status, headers, body: String::from_utf8(bytes[end..end + length].to_vec()).unwrap() })
}

fn more(stream: &mut impl Read, bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 16 * 1024];
    match stream.read(&mut buffer) {
        Ok(0) => None,
        Ok(count) => {
            bytes.extend_from_slice(&buffer[..count]);
            Some(())
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
        Err(error) => panic!("no answer and no end: {error}"),
    }
}

/// Whether the other side has ended the connection, or does so.
pub(crate) fn closed(stream: &mut impl Read) -> bool {
    matches!(stream.read(&mut [0; 1024]), Ok(0))
}

/// Reads until the other side ends the connection, which it does.
#[track_caller]
pub(crate) fn until_closed(stream: &mut impl Read) {
    let mut buffer = [0; 1024];
    for _ in 0..10_000 {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("the other side does not end the connection: {error}"),
        }
    }
    panic!("the other side goes on and on");
}
