//! The page with 300 nodes that all change: what a browser has to load, whether it ever stops answering a person, and
//! what ten open pages cost the controller.
//!
//! The nodes speak faster than real ones, each every 2 to 10 seconds with other readings, so that every look of the
//! controller finds changes. The browser is Chromium, headless; what blocks its main thread is asked twice, of its trace
//! and of the page's own observer of long tasks.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lucia_browser::{Browser, Wanted};
use lucia_proto::base::digest::Digest;
use lucia_proto::pki::key::NodeKey;
use lucia_tests::programs::Scratch;
use lucia_tests::sim::{Failure, SimNode, Target, base64};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::cost;
use crate::figures::{Figures, Goal};
use crate::life::beat;
use crate::people::{Page, Person};
use crate::site::{Driver, Fleet, Layout};
use crate::trace::Trace;

/// Nodes on the page.
const NODES: u32 = 300;
/// Pages that are open, of two people.
const PAGES: usize = 10;
/// A node speaks again after this long at least, and `SPREAD` more at most.
const SOONEST: Duration = Duration::from_secs(2);
const SPREAD: u32 = 8000;
/// Until every node has spoken.
const WARM: Duration = Duration::from_secs(11);
/// How long the browser is watched.
const WATCHED: Duration = Duration::from_secs(25);
/// How long the controller is watched with and without readers, each twice in turn.
const READ: Duration = Duration::from_secs(15);
/// What a person notices.
const BLOCKED: f64 = 50.0;
/// How long the browser traces itself: its start, the loading, what is watched, and some to spare.
const TRACED: Duration = Duration::from_secs(40);

/// What the browser said.
struct Seen {
    trace: Trace,
    /// Longest task by the page's own observer, in milliseconds; it tells those over 50 alone.
    observed: f64,
    /// Bytes over the network until the list was there.
    loaded: f64,
    /// How often the list was put right meanwhile.
    changes: f64,
}

pub(crate) fn measure(bin: &Path, figures: &mut Figures) -> Result<(), Failure> {
    if let Err(missing) = lucia_browser::is_there() {
        figures.note(&format!("the page's figures: {missing}"));
        return Ok(());
    }
    let driver = Driver::laid(bin, NODES, Layout::WithPage)?;
    let (alice, bob) = driver.drive(|runtime, fleet| {
        let page = page(fleet)?;
        let both =
            async { Ok((page.enter(&fleet.site, "alice", 71).await?, page.enter(&fleet.site, "bob", 72).await?)) };
        runtime.block_on(both)
    })?;
    let cookies: Vec<String> =
        (0..PAGES).map(|number| if number % 2 == 0 { alice.cookie.clone() } else { bob.cookie.clone() }).collect();

    let seen = driver.drive(move |runtime, fleet| runtime.block_on(look(fleet, alice)))?;
    figures.add("page of 300 nodes, over the network until it stands", seen.loaded / 1024.0, "KiB", Goal::Most(150.0));
    figures.add("dearest task after that, its own CPU time", seen.trace.dearest, "ms", Goal::Most(BLOCKED));
    figures.add("longest task after that, by the wall clock", seen.trace.longest, "ms", Goal::Most(BLOCKED));
    figures.add("longest task over 50 ms, by the page's own observer", seen.observed, "ms", Goal::Exactly(0.0));
    figures.note(&format!(
        "in {} s {} tasks of the main thread, {:.0} rows changed, {:.1} % of it busy; while it loaded the longest took {:.0} ms",
        WATCHED.as_secs(),
        seen.trace.tasks,
        seen.changes,
        seen.trace.busy * 100.0,
        seen.trace.longest_of_load,
    ));

    let (share, bytes) = driver.drive(move |runtime, fleet| runtime.block_on(ten_pages(fleet, &cookies)))?;
    figures.add("ten open pages, of one core of the controller", share * 100.0, "%", Goal::Most(5.0));
    figures.note(&format!("each of them was sent {:.1} KiB a second", bytes / 1024.0));
    Ok(())
}

fn page(fleet: &Fleet) -> Result<Page, Failure> {
    let address = fleet.site.address;
    let origin = format!("https://localhost:{}", address.port()).parse()?;
    Ok(Page { origin, target: Target::new(address, "localhost", &fleet.site.root_pem()?)? })
}

/// Lets the nodes live as long as `work` takes.
async fn while_living<T>(fleet: &mut Fleet, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let nodes = std::mem::take(&mut fleet.nodes);
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut living = JoinSet::new();
    for (number, node) in (0..).zip(nodes) {
        let mut stopped = stopped.clone();
        living.spawn(async move { live(number, node, &mut stopped).await });
    }
    let result = work.await;
    let _ = stop.send(true);
    while let Some(node) = living.join_next().await {
        fleet.nodes.push(node??);
    }
    result
}

/// One node: never twice the same readings.
async fn live(
    number: u32,
    mut node: SimNode,
    stop: &mut tokio::sync::watch::Receiver<bool>,
) -> Result<SimNode, Failure> {
    let mut turn = number.wrapping_mul(7919);
    loop {
        turn = turn.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let pause = SOONEST + Duration::from_millis(u64::from((turn >> 8) % SPREAD));
        if timeout(pause, stop.changed()).await.is_ok() {
            return Ok(node);
        }
        node.load = f64::from((turn >> 16) % 160) / 10.0;
        let status = beat(&mut node).await?;
        if !status.is_success() {
            return Err(format!("a heartbeat was answered with {status}").into());
        }
    }
}

/// One page in Chromium.
async fn look(fleet: &mut Fleet, person: Person) -> Result<Seen, Failure> {
    let page = page(fleet)?;
    let key = std::fs::read_to_string(fleet.site.file("controller/tls/endpoint.key"))?;
    let pin = base64(Digest::of(NodeKey::from_pem(&key)?.public().der()).as_bytes());
    while_living(fleet, async {
        sleep(WARM).await;
        // Beside the runtime: the nodes go on while the browser is waited for.
        tokio::task::spawn_blocking(move || watch(&page, &pin, &person)).await?
    })
    .await
}

/// Opens the list as `person`, and watches what the browser does with it.
fn watch(page: &Page, pin: &str, person: &Person) -> Result<Seen, Failure> {
    // The controller has CPU 0 and the nodes CPU 1; a browser takes what is left of both.
    cost::unpin()?;
    let home = Scratch::new("bench-page")?;
    // The root of this site is nobody's: the key of its certificate is named instead.
    let file = home.path().join("trace.json");
    let arguments = [
        format!("--ignore-certificate-errors-spki-list={pin}"),
        "--trace-startup=toplevel,blink.user_timing".to_owned(),
        "--trace-startup-format=json".to_owned(),
        format!("--trace-startup-duration={}", TRACED.as_secs()),
        format!("--trace-startup-file={}", file.display()),
    ];
    let origin = page.origin.as_str();
    let browser = Browser::new(&Wanted { origin, home: home.path(), arguments: &arguments, network: true })?;
    browser.keep_cookie(&person.cookie)?;
    browser.loaded()?;
    browser.go("/")?;
    browser.is_at("/")?;
    let rows = browser.run("return document.querySelectorAll('tr[data-node]').length")?;
    if rows != NODES {
        return Err(format!("the page has {rows} rows: {}", browser.text()?).into());
    }
    browser.shows("live since")?;
    // What was loaded is what came before this; tasks count from here on.
    let loaded = browser.loaded()?.iter().sum();
    browser.run(OBSERVE)?;
    std::thread::park_timeout(WATCHED);
    let said = browser.run("return [window.longest, window.changes]")?;
    let number = |at: usize| said.get(at).and_then(Value::as_f64).ok_or_else(|| Failure::from(format!("{said}")));
    let (observed, changes) = (number(0)?, number(1)?);
    browser.picture(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/page-of-300.png"))?;
    for _ in 0..TRACED.as_secs() {
        // Written whole and then given its name.
        if file.exists() {
            break;
        }
        std::thread::park_timeout(Duration::from_secs(1));
    }
    Ok(Seen { loaded, observed, changes, trace: Trace::read(&std::fs::read(&file)?)? })
}

/// Has the page tell of tasks over 50 ms, and of each row that changes; and leaves a mark in the trace.
const OBSERVE: &str = "window.longest = 0; window.changes = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
    }).observe({ type: 'longtask' });
    new MutationObserver((list) => { window.changes += new Set(list.map((one) => (one.target.parentElement ?? one.target)
      .closest?.('tr[data-node]')).filter(Boolean)).size; })
      .observe(document.querySelector('main'), { subtree: true, childList: true, characterData: true, attributes: true });
    performance.mark('lucia-watched');";

/// The share of a core that ten readers cost, and the bytes a second that each was sent.
async fn ten_pages(fleet: &mut Fleet, cookies: &[String]) -> Result<(f64, f64), Failure> {
    let page = page(fleet)?;
    let pid = fleet.controller.pid();
    while_living(fleet, async {
        sleep(WARM).await;
        let (mut without, mut with, mut bytes) = (Duration::ZERO, Duration::ZERO, 0);
        for _ in 0..2 {
            let before = cost::process_time(pid)?;
            sleep(READ).await;
            without += cost::process_time(pid)? - before;

            let heard = Arc::new(AtomicU64::new(0));
            let mut readers = JoinSet::new();
            for cookie in cookies {
                readers.spawn(read(page.target.clone(), cookie.clone(), Arc::clone(&heard)));
            }
            // What a new reader is told at first is what it missed; the watch begins behind it.
            sleep(Duration::from_secs(4)).await;
            let (before, heard_before) = (cost::process_time(pid)?, heard.load(Ordering::Relaxed));
            sleep(READ).await;
            with += cost::process_time(pid)? - before;
            bytes += heard.load(Ordering::Relaxed) - heard_before;
            if let Some(ended) = readers.try_join_next() {
                return Err(format!("a page was let go: {ended:?}").into());
            }
            readers.shutdown().await;
        }
        let watched = 2.0 * READ.as_secs_f64();
        let share = (with.as_secs_f64() - without.as_secs_f64()) / watched;
        #[expect(clippy::cast_precision_loss, reason = "bytes of a minute are far below 2^53")]
        let each = bytes as f64 / watched / cookies.len() as f64;
        Ok((share, each))
    })
    .await
}

/// A page that is open: reads what changes, for ever.
async fn read(target: Target, cookie: String, heard: Arc<AtomicU64>) -> Result<(), Failure> {
    let mut stream = target.secure().await?;
    let request = format!("GET /api/host/stream HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = vec![0; 64 * 1024];
    let mut first = true;
    loop {
        let count = stream.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        if std::mem::take(&mut first) && !bytes.starts_with(b"HTTP/1.1 200 ") {
            return Err(String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()).into_owned().into());
        }
        heard.fetch_add(u64::try_from(count)?, Ordering::Relaxed);
    }
}
