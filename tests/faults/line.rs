//! F-13 on real sockets: the agent's own transport to the built controller, over a line that is slow, or in which large
//! segments are lost without a word, as where a path's MTU is smaller than anybody says. The line is a forwarder of the
//! test's own: it needs no privilege, and no `netem`, which not every kernel has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lucia_agent::client::clock::ServerClock;
use lucia_agent::client::config::Config;
use lucia_agent::client::tls::{TlsTransport, settings};
use lucia_agent::client::{CallError, Client};
use lucia_daemon::clock::SystemClock;
use lucia_proto::calls::Endpoint;
use lucia_proto::pki::chain::Root;
use lucia_tests::programs::{CONTROLLER_NAME, Site};
use lucia_tests::sim::{SimNode, Target, key_of};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::real::{joined, programs};
use crate::skip;

/// No call of the agent may take longer, whatever the line does: 15 s is its own limit.
const PATIENCE: Duration = Duration::from_secs(60);

/// A line to the controller, and what is wrong with it.
struct Line {
    port: u16,
    state: Arc<State>,
}

struct State {
    /// Milliseconds on the way, in each direction.
    delay: AtomicU64,
    /// Bytes of the largest piece that arrives; after a larger one nothing of its direction does, as TCP sends it again
    /// and again.
    largest: AtomicUsize,
    lost: AtomicUsize,
    connections: AtomicUsize,
}

impl Line {
    async fn to(site: &Site) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            delay: AtomicU64::new(0),
            largest: AtomicUsize::new(usize::MAX),
            lost: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
        });
        let (shared, address) = (Arc::clone(&state), site.address);
        tokio::spawn(async move {
            while let Ok((ours, _)) = listener.accept().await {
                let theirs = TcpStream::connect(address).await.unwrap();
                for stream in [&ours, &theirs] {
                    stream.set_nodelay(true).unwrap();
                }
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let ((from_us, to_us), (from_them, to_them)) = (ours.into_split(), theirs.into_split());
                tokio::spawn(pump(from_us, to_them, Arc::clone(&shared)));
                tokio::spawn(pump(from_them, to_us, Arc::clone(&shared)));
            }
        });
        Self { port, state }
    }

    fn is(&self, delay: Duration, largest: usize) {
        self.state.delay.store(delay.as_millis().try_into().unwrap(), Ordering::SeqCst);
        self.state.largest.store(largest, Ordering::SeqCst);
    }

    /// The agent's client of this node, over this line.
    fn client(&self, site: &Site, number: u32) -> Client<TlsTransport> {
        let config = Config {
            host: "127.0.0.1".into(),
            port: self.port,
            name: CONTROLLER_NAME.parse().unwrap(),
            root_file: site.file("worker/ca/root.pem").into(),
            proxy: None,
        };
        let root = Root::from_pem(&site.root_pem().unwrap()).unwrap();
        let transport = TlsTransport::new(&config, &settings(&root).unwrap()).unwrap();
        let key = Arc::new(key_of(number).unwrap());
        Client::new(transport, key, Arc::new(SystemClock), Arc::new(ServerClock::new()))
    }
}

/// One direction: what comes is passed on after its delay, in order, without holding up what comes next.
async fn pump(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin + Send + 'static, state: Arc<State>) {
    let (pieces, mut waiting) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, piece)) = waiting.recv().await {
            sleep_until(at).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    });
    let mut buffer = vec![0; 16 * 1024];
    let mut swallowed = false;
    while let Ok(count) = from.read(&mut buffer).await {
        swallowed |= count > state.largest.load(Ordering::SeqCst);
        if count == 0 {
            return;
        }
        if swallowed {
            state.lost.fetch_add(1, Ordering::SeqCst);
        } else {
            let delay = Duration::from_millis(state.delay.load(Ordering::SeqCst));
            let _ = pieces.send((Instant::now() + delay, buffer[..count].to_vec()));
        }
    }
}

async fn beat(client: &mut Client<TlsTransport>, node: &SimNode) -> Result<(), CallError> {
    let report = node.report().unwrap();
    let call = client.call(Endpoint::Heartbeat, &report, node.certificate_pem.as_deref());
    timeout(PATIENCE, call).await.expect("a call ends within a minute").map(drop)
}

/// Three seconds there and back: every heartbeat arrives, over one connection.
async fn slow(site: &Site, node: &SimNode, number: u32) {
    let line = Line::to(site).await;
    line.is(Duration::from_millis(1500), usize::MAX);
    let mut client = line.client(site, number);
    for _ in 0..2 {
        beat(&mut client, node).await.unwrap();
    }
    assert_eq!(line.state.connections.load(Ordering::SeqCst), 1);
}

/// The path becomes a black hole under a connection that stands: the call is given up, and so is the connection. Once the
/// path is whole again, the next call goes through.
async fn black_hole(site: &Site, node: &SimNode, number: u32) {
    let line = Line::to(site).await;
    let mut client = line.client(site, number);
    beat(&mut client, node).await.unwrap();
    line.is(Duration::ZERO, 1200);
    let refused = beat(&mut client, node).await.unwrap_err();
    assert!(matches!(refused, CallError::Unreachable(_)), "{refused}");
    assert!(line.state.lost.load(Ordering::SeqCst) > 0, "nothing was large enough");
    line.is(Duration::ZERO, usize::MAX);
    beat(&mut client, node).await.unwrap();
    assert_eq!(line.state.connections.load(Ordering::SeqCst), 2, "the dead connection is not waited for");
}

/// It is one from the beginning: there is no TLS, and that is told as a controller that cannot be reached, not as a
/// stranger or a wrong clock.
async fn black_hole_at_first(site: &Site, node: &SimNode, number: u32) {
    let line = Line::to(site).await;
    line.is(Duration::ZERO, 400);
    let mut client = line.client(site, number);
    let refused = beat(&mut client, node).await.unwrap_err();
    let CallError::Unreachable(error) = refused else { panic!("{refused}") };
    assert!(!error.cure().is_empty(), "{error}");
    line.is(Duration::ZERO, usize::MAX);
    beat(&mut client, node).await.unwrap();
}

// spec: FT-13
#[tokio::test]
async fn f_13_latency_and_a_black_hole_on_a_real_line_are_forgotten() {
    let Some(bin) = programs() else { return skip("faults-line", "no built programs beside this test") };
    let site = Site::lay(&bin, "faults-line", 16, "journal").unwrap();
    let (_worker, _controller) = site.up().await.unwrap();
    site.ctl(&["window", "open", "--minutes", "30"]).unwrap();
    let target = Target::new(site.address, CONTROLLER_NAME, &site.root_pem().unwrap()).unwrap();
    let nodes = [joined(&site, &target, 1).await, joined(&site, &target, 2).await, joined(&site, &target, 3).await];
    // Beside one another, as they mostly wait.
    let lines = async {
        tokio::join!(
            slow(&site, &nodes[0], 1),
            black_hole(&site, &nodes[1], 2),
            black_hole_at_first(&site, &nodes[2], 3),
        )
    };
    timeout(3 * PATIENCE, lines).await.expect("three lines, each with calls of 15 s at most");
}
