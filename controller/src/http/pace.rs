//! One connection's stream with its deadlines (design.md T1, threats.md H-1).
//!
//! hyper's own header timeout runs between two requests as well, so with it either a node's connection dies between
//! heartbeats or a slow head may take minutes. Here the stream itself knows where it is: before a head, inside one,
//! at work, or answering. Each has its own deadline, and [`Watch`] ends the connection that misses it. The same place
//! hands the raw bytes of each head to [`HeadScan`] and notices what was sent ahead of its turn. While an answer is being
//! written nothing is read: who sends on without reading its answer keeps the answer's deadline, and a request that comes
//! by then is the next one.
//!
//! Between two requests nothing of hyper exists: its buffers are the larger half of what a waiting connection would take,
//! and nodes' connections wait all but a moment of their time. [`Watch::begun`] waits for a request's first byte;
//! [`Watch::drive`] then has hyper answer that one request and gives the stream back.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use hyper_util::rt::TokioIo;
use lucia_proto::base::code::Code;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::error;
use super::head::{BadHead, HeadScan, Verdict};
use super::timeouts::Timeouts;

/// Where a connection is.
#[derive(Debug)]
enum Phase {
    /// Between two requests, until the deadline.
    Idle(Instant),
    /// Inside a head, until the deadline.
    Head(Instant, HeadScan),
    /// The head is complete; whoever answers has the deadlines now.
    Work,
    /// The answer is being written, until the deadline.
    HttpAnswer(Instant),
    /// An answer without an end is being written; until the deadline something must get through.
    Stream(Instant),
    /// The connection is over for us; the other side gets a moment to read why, until the deadline.
    Over(Instant),
}

#[derive(Debug)]
struct State {
    phase: Phase,
    verdict: Verdict,
    /// When the whole request must be there.
    request_until: Instant,
    /// Bytes that may still come before the answer.
    body_left: u64,
    /// The connection ends with this answer.
    last: bool,
    /// Whoever answers has the request; what is written before that is the library's own word.
    is_served: bool,
    /// What the library refused, and nobody else saw.
    refused: Option<Code>,
    /// More came than the request has: it would be read as a second request whose head nobody looked at.
    ahead: bool,
}

/// The deadlines of one connection, shared by its stream, its service and its driver.
#[derive(Debug)]
pub(super) struct Pace {
    timeouts: Timeouts,
    state: Mutex<State>,
}

/// What the stream learned about the request that the service got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    /// What its head was.
    pub(super) verdict: Verdict,
    /// When its body must be complete.
    pub(super) until: Instant,
}

impl Pace {
    /// A new connection: its first head has to come in the time of a head.
    pub(super) fn new(timeouts: Timeouts) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            timeouts,
            state: Mutex::new(State {
                phase: Phase::Idle(now + timeouts.head),
                verdict: Verdict::Bad(BadHead::Missing),
                request_until: now + timeouts.request,
                body_left: 0,
                last: false,
                is_served: false,
                refused: None,
                ahead: false,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The service has the request.
    pub(super) fn arrived(&self) -> Arrived {
        let mut state = self.state();
        state.is_served = true;
        Arrived { verdict: state.verdict, until: state.request_until }
    }

    /// The service has the answer, and whether it wants the connection closed after it. Whether it must be.
    pub(super) fn answering(&self, close: bool) -> bool {
        let mut state = self.state();
        state.phase = Phase::HttpAnswer(Instant::now() + self.timeouts.request);
        state.last = close || state.ahead || !matches!(state.verdict, Verdict::Length(_)) || state.body_left > 0;
        state.last
    }

    /// The service has an answer that goes on: the connection is for nothing else any more, and always closes after it.
    pub(super) fn streaming(&self) -> bool {
        let mut state = self.state();
        state.phase = Phase::Stream(Instant::now() + self.timeouts.idle);
        state.last = true;
        true
    }

    /// What the library refused of this connection before anybody saw it.
    pub(super) fn refused(&self) -> Option<Code> {
        self.state().refused
    }

    /// The refusal that is to leave in place of `said`, where the library says that by itself.
    fn instead_of(&self, said: &[u8]) -> Option<Vec<u8>> {
        let mut state = self.state();
        if state.is_served {
            return None;
        }
        let is_long = said.starts_with(b"HTTP/1.1 431") || said.starts_with(b"HTTP/1.1 414");
        let code = if is_long { Code::HeadersTooLarge } else { Code::InvalidRequest };
        state.refused = Some(code);
        Some(error::unread(code))
    }

    /// Whether a request was answered, and another may come.
    fn is_idle(&self) -> bool {
        let state = self.state();
        matches!(state.phase, Phase::Idle(_)) && !state.last
    }

    fn deadline(&self) -> Option<Instant> {
        match self.state().phase {
            Phase::Idle(until)
            | Phase::Head(until, _)
            | Phase::HttpAnswer(until)
            | Phase::Stream(until)
            | Phase::Over(until) => Some(until),
            Phase::Work => None,
        }
    }

    fn read(&self, bytes: &[u8]) {
        let mut guard = self.state();
        let state = &mut *guard;
        match &mut state.phase {
            Phase::Idle(_) => {
                let now = Instant::now();
                state.request_until = now + self.timeouts.request;
                state.is_served = false;
                let mut scan = HeadScan::default();
                let ended = scan.push(bytes);
                state.phase = Phase::Head(now + self.timeouts.head, scan);
                if let Some((head, verdict)) = ended {
                    state.end_of_head(bytes.len() - head, verdict);
                }
            }
            Phase::Head(_, scan) => {
                if let Some((head, verdict)) = scan.push(bytes) {
                    state.end_of_head(bytes.len() - head, verdict);
                }
            }
            Phase::Work => state.body(bytes.len()),
            Phase::HttpAnswer(_) | Phase::Stream(_) | Phase::Over(_) => {}
        }
    }

    /// Whether an answer is being written. What comes by then is for whoever waits for the next request.
    fn is_answering(&self) -> bool {
        matches!(self.state().phase, Phase::HttpAnswer(_))
    }

    /// The connection is over for us, whatever hyper still does with it.
    fn lingering(&self) {
        self.state().phase = Phase::Over(Instant::now() + LINGER);
    }

    fn flushed(&self) {
        let mut state = self.state();
        match state.phase {
            Phase::HttpAnswer(_) => state.phase = Phase::Idle(Instant::now() + self.timeouts.idle),
            // Whoever reads has got everything so far; a stream says something every few seconds.
            Phase::Stream(_) => state.phase = Phase::Stream(Instant::now() + self.timeouts.idle),
            Phase::Idle(_) | Phase::Head(..) | Phase::Work | Phase::Over(_) => {}
        }
    }
}

impl State {
    fn end_of_head(&mut self, rest: usize, verdict: Verdict) {
        self.phase = Phase::Work;
        self.verdict = verdict;
        self.ahead = false;
        self.body_left = match verdict {
            Verdict::Length(length) => length,
            Verdict::Chunked | Verdict::Bad(_) => u64::MAX,
        };
        self.body(rest);
    }

    fn body(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.ahead |= bytes > self.body_left;
        self.body_left = self.body_left.saturating_sub(bytes);
    }
}

/// How long, and for how many bytes, what was sent past a refusal is thrown away. Closing over unread bytes would
/// reset the connection, and the reset would overtake the refusal (RFC 9112, section 9.6).
pub(super) const LINGER: std::time::Duration = std::time::Duration::from_secs(1);
const LINGER_BYTES: usize = 1024 * 1024;

/// A stream that keeps its [`Pace`].
#[derive(Debug)]
pub(super) struct Paced<S> {
    inner: S,
    pace: Arc<Pace>,
    /// The first byte of a request, read by whoever waited for it and not yet by hyper.
    first: Option<u8>,
    /// Bytes thrown away after the end; nothing before it.
    thrown: Option<usize>,
    /// A refusal that leaves in place of the library's, and how much of it has.
    instead: Option<(Vec<u8>, usize)>,
}

impl<S> Paced<S> {
    pub(super) const fn new(inner: S, pace: Arc<Pace>) -> Self {
        Self { inner, pace, first: None, thrown: None, instead: None }
    }
}

impl<S: AsyncRead + Unpin> Paced<S> {
    fn poll_more(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(cx, buf);
        if let Some(new) = buf.filled().get(before..).filter(|new| !new.is_empty()) {
            self.pace.read(new);
        }
        result
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.pace.is_answering() {
            // hyper goes on when the answer can be written; its end, the deadline and the stop wake it as well.
            return Poll::Pending;
        }
        if let Some(first) = this.first.take() {
            buf.put_slice(&[first]);
            // What it has to say is said when it is asked for more.
            let _ = this.poll_more(cx, buf);
            return Poll::Ready(Ok(()));
        }
        this.poll_more(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> Paced<S> {
    /// Writes our refusal where the library has one of its own to say: the length of what it said, once ours is written.
    fn poll_instead(&mut self, cx: &mut Context<'_>, said: &[u8]) -> Poll<io::Result<Option<usize>>> {
        if self.instead.is_none() {
            self.instead = self.pace.instead_of(said).map(|refusal| (refusal, 0));
        }
        let Some((refusal, written)) = &mut self.instead else { return Poll::Ready(Ok(None)) };
        while let Some(rest) = refusal.get(*written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.inner).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => *written += count,
            }
        }
        Poll::Ready(Ok(Some(said.len())))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match ready!(this.poll_instead(cx, buf))? {
            Some(count) => Poll::Ready(Ok(count)),
            None => Pin::new(&mut this.inner).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.inner).poll_flush(cx);
        if matches!(result, Poll::Ready(Ok(()))) {
            this.pace.flushed();
        }
        result
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.thrown.is_none() {
            ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
            this.pace.lingering();
        }
        let thrown = this.thrown.get_or_insert(0);
        let mut bytes = [0; 8192];
        while *thrown < LINGER_BYTES {
            let mut buf = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut this.inner).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => *thrown += buf.filled().len(),
                // Its end, in order or not, is what was waited for.
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let said = bufs.iter().find(|buf| !buf.is_empty()).map_or(&[][..], |buf| buf);
        match ready!(this.poll_instead(cx, said))? {
            Some(count) => Poll::Ready(Ok(count)),
            None => Pin::new(&mut this.inner).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

/// How a request ended that hyper was given.
#[derive(Debug)]
pub(super) enum Ended<S> {
    /// It is answered, and the connection waits for the next.
    Answered(Paced<S>),
    /// The connection was closed by either side, in order.
    Closed,
    /// What came was not HTTP, or the stream broke.
    Broken(hyper::Error),
    /// A deadline passed.
    TooSlow,
}

/// How the wait for a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestWait {
    /// Its first byte is there.
    Yes,
    /// The other side closed, or its stream broke.
    Closed,
    /// Nothing came in time.
    TooSlow,
    /// The controller stops.
    Stopping,
}

/// What a connection's task looks at beside the connection: its deadline, and whether the controller stops.
pub(super) struct Watch<'a, F> {
    pace: &'a Pace,
    alarm: Pin<&'a mut Sleep>,
    stopped: Pin<&'a mut F>,
    stopping: bool,
}

impl<'a, F: Future<Output = ()>> Watch<'a, F> {
    /// Watches `pace` with `alarm`, whose time is set here, until `stopped` is over.
    pub(super) const fn new(pace: &'a Pace, alarm: Pin<&'a mut Sleep>, stopped: Pin<&'a mut F>) -> Self {
        Self { pace, alarm, stopped, stopping: false }
    }

    /// Whether the controller began to stop; once true, it stays so.
    fn stops(&mut self, cx: &mut Context<'_>) -> bool {
        self.stopping = self.stopping || self.stopped.as_mut().poll(cx).is_ready();
        self.stopping
    }

    /// Whether the deadline of the moment has passed. It only changes while the connection is polled, so it is looked
    /// at after that, in the same task.
    fn late(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(deadline) = self.pace.deadline() else { return false };
        if self.alarm.deadline() != deadline {
            self.alarm.as_mut().reset(deadline);
        }
        self.alarm.as_mut().poll(cx).is_ready()
    }

    /// Waits for the first byte of a request.
    pub(super) async fn begun<S: AsyncRead + Unpin>(&mut self, stream: &mut Paced<S>) -> RequestWait {
        stream.instead = None;
        poll_fn(|cx| {
            let mut byte = [0];
            let mut buf = ReadBuf::new(&mut byte);
            match stream.poll_more(cx, &mut buf) {
                Poll::Ready(Ok(())) => {
                    stream.first = buf.filled().first().copied();
                    return Poll::Ready(if stream.first.is_some() { RequestWait::Yes } else { RequestWait::Closed });
                }
                Poll::Ready(Err(_)) => return Poll::Ready(RequestWait::Closed),
                Poll::Pending => {}
            }
            if self.stops(cx) {
                return Poll::Ready(RequestWait::Stopping);
            }
            if self.late(cx) { Poll::Ready(RequestWait::TooSlow) } else { Poll::Pending }
        })
        .await
    }

    /// Runs hyper's connection until its request is answered, the connection ends, or a deadline passes.
    pub(super) async fn drive<C, S>(&mut self, mut conn: C) -> Ended<S>
    where
        C: Future<Output = Result<(), hyper::Error>> + OneRequest<S> + Unpin,
    {
        let ended = poll_fn(|cx| {
            // Before the connection is looked at: an answer that leaves after the stop says that it is the last one.
            if !self.stopping && self.stops(cx) {
                conn.stop();
            }
            if let Poll::Ready(result) = Pin::new(&mut conn).poll(cx) {
                return Poll::Ready(Some(result.map_or_else(Ended::Broken, |()| Ended::Closed)));
            }
            if self.pace.is_idle() {
                return Poll::Ready(None);
            }
            if self.late(cx) { Poll::Ready(Some(Ended::TooSlow)) } else { Poll::Pending }
        });
        match ended.await {
            Some(ended) => ended,
            None => Ended::Answered(conn.stream()),
        }
    }
}

/// A connection of hyper that has one request at a time.
pub(super) trait OneRequest<S> {
    /// Tells it to end after the request in progress.
    fn stop(&mut self);
    /// Its stream. What was sent ahead of its turn has closed the connection, so nothing read is lost with its buffers.
    fn stream(self) -> Paced<S>;
}

impl<I, B, S> OneRequest<I> for hyper::server::conn::http1::Connection<TokioIo<Paced<I>>, S>
where
    S: hyper::service::HttpService<hyper::body::Incoming, ResBody = B> + Unpin,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    I: AsyncRead + AsyncWrite + Unpin,
    B: hyper::body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn stop(&mut self) {
        Pin::new(self).graceful_shutdown();
    }

    fn stream(self) -> Paced<I> {
        self.into_parts().io.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use hyper::body::Bytes;

    use super::*;

    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    // spec: HT-6
    #[tokio::test(start_paused = true)]
    async fn each_part_of_a_request_has_its_own_deadline() {
        let timeouts = Timeouts::default();
        let pace = Pace::new(timeouts);
        let start = Instant::now();
        assert_eq!(pace.deadline(), Some(start + timeouts.head));
        pace.read(GET);
        assert_eq!(pace.deadline(), None);
        pace.arrived();
        assert!(!pace.answering(false));
        assert_eq!(pace.deadline(), Some(start + timeouts.request));
        // What comes during the answer begins nothing.
        pace.read(GET);
        assert_eq!((pace.deadline(), pace.instead_of(b"HTTP/1.1 400")), (Some(start + timeouts.request), None));
        pace.flushed();
        assert_eq!(pace.deadline(), Some(start + timeouts.idle));
        // One byte of the next head, and the time of a head begins; more bytes do not prolong it.
        tokio::time::advance(timeouts.idle / 2).await;
        let begun = Instant::now();
        pace.read(b"G");
        tokio::time::advance(timeouts.head / 2).await;
        pace.read(b"E");
        assert_eq!(pace.deadline(), Some(begun + timeouts.head));
        assert_eq!(pace.arrived().until, begun + timeouts.request);
    }

    // spec: HT-6
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_over_has_a_moment_and_no_more() {
        let pace = Pace::new(Timeouts::default());
        pace.read(GET);
        pace.answering(false);
        pace.lingering();
        let over = Some(Instant::now() + LINGER);
        // hyper flushes at each turn, and so it does when the deadline wakes it.
        pace.flushed();
        assert_eq!(pace.deadline(), over);
        pace.read(b"more");
        assert_eq!(pace.deadline(), over);
    }

    // spec: PG-16
    #[tokio::test(start_paused = true)]
    async fn a_stream_that_nobody_reads_is_cut() {
        let timeouts = Timeouts::default();
        let pace = Pace::new(timeouts);
        pace.read(GET);
        assert!(pace.streaming(), "the connection is for nothing else");
        assert_eq!(pace.deadline(), Some(Instant::now() + timeouts.idle));
        tokio::time::advance(timeouts.idle / 2).await;
        pace.flushed();
        assert_eq!(pace.deadline(), Some(Instant::now() + timeouts.idle));
        assert!(!pace.is_idle(), "no second request is waited for");
        pace.read(b"more");
        assert_eq!(pace.deadline(), Some(Instant::now() + timeouts.idle));
    }

    /// How long the answers of [`long`] are: nothing between the two ends holds that much.
    const LONG: usize = 200_000;

    /// The end of a connection whose every request gets a long answer of the request's letter, served until it ends, and
    /// how many requests were answered whole.
    async fn long(io: tokio::io::DuplexStream, timeouts: Timeouts) -> (usize, Option<Code>) {
        let pace = Pace::new(timeouts);
        let (alarm, stopped) = (std::pin::pin!(tokio::time::sleep(LINGER)), std::pin::pin!(std::future::pending()));
        let service = hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| {
            let pace = Arc::clone(&pace);
            async move {
                pace.arrived();
                let letter = request.uri().path().trim_start_matches('/').repeat(LONG);
                pace.answering(false);
                Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::from(letter))))
            }
        });
        let builder = hyper::server::conn::http1::Builder::new();
        let mut watch = Watch::new(&pace, alarm, stopped);
        let (mut stream, mut whole) = (Paced::new(io, Arc::clone(&pace)), 0);
        while watch.begun(&mut stream).await == RequestWait::Yes {
            match watch.drive(builder.serve_connection(TokioIo::new(stream), &service)).await {
                Ended::Answered(again) => (stream, whole) = (again, whole + 1),
                Ended::Closed | Ended::Broken(_) | Ended::TooSlow => break,
            }
        }
        (whole, pace.refused())
    }

    fn get(letter: char) -> Vec<u8> {
        format!("GET /{letter} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
    }

    // spec: HT-370
    #[tokio::test(start_paused = true)]
    async fn who_sends_on_and_reads_no_answer_is_let_go_in_the_time_of_the_answer() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let timeouts = Timeouts::default();
        for more in [&b"G"[..], GET, &[GET, GET].concat(), b"no head\n\n"] {
            let (mut far, near) = tokio::io::duplex(1024);
            let start = Instant::now();
            let serving = tokio::spawn(long(near, timeouts));
            far.write_all(&get('x')).await.unwrap();
            far.read_exact(&mut [0; 8]).await.unwrap();
            far.write_all(more).await.unwrap();
            let ended = tokio::time::timeout(timeouts.request * 3, serving).await;
            let (whole, refused) = ended.expect("the connection ends").unwrap();
            assert_eq!((whole, refused), (0, None));
            assert_eq!(start.elapsed().as_secs(), timeouts.request.as_secs());
        }
    }

    // spec: HT-371
    #[tokio::test(start_paused = true)]
    async fn a_request_that_comes_during_an_answer_gets_its_own_after_it() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut far, near) = tokio::io::duplex(1024);
        let serving = tokio::spawn(long(near, Timeouts::default()));
        far.write_all(&get('x')).await.unwrap();
        far.read_exact(&mut [0; 8]).await.unwrap();
        far.write_all(&get('y')).await.unwrap();
        let mut said = String::from("HTTP/1.1");
        for letter in ["x", "y"] {
            // A head holds no line of 200,000 letters.
            while !said.contains(&letter.repeat(LONG)) {
                let mut bytes = [0; 4096];
                let count = far.read(&mut bytes).await.unwrap();
                assert_ne!(count, 0, "the answer {letter} is cut");
                said.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
            }
        }
        assert_eq!(said.matches("HTTP/1.1 200 OK").count(), 2);
        drop(far);
        assert_eq!(serving.await.unwrap(), (2, None));
    }

    // spec: HT-7
    #[test]
    fn what_comes_ahead_of_its_turn_closes_the_connection() {
        for (bytes, closes) in [
            (GET.to_vec(), false),
            ([GET, GET].concat(), true),
            (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}".to_vec(), false),
            (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}G".to_vec(), true),
            (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{".to_vec(), true),
            (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(), true),
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), true),
        ] {
            let rt = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let _in = rt.enter();
            let pace = Pace::new(Timeouts::default());
            pace.read(&bytes);
            assert_eq!(pace.answering(false), closes, "{:?}", String::from_utf8_lossy(&bytes));
        }
    }
}
