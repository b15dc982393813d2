//! How a program connects to another by name: no address that stays silent keeps it from the next one.
//!
//! The name is looked up at each try. Connections to its addresses are opened side by side, IPv6 and IPv4 in turn, each
//! [`STAGGER`] after the one before it or as soon as that one fails (RFC 8305). TLS, or whatever else makes a connection
//! usable, is tried on one open connection at a time, so that a busy server does not see every handshake twice; while
//! other addresses are left, it may take only its share of the time.
//!
//! The address that was good last comes first among those of the name. By itself it counts only while no name server
//! answers: one that is gone does not stop a node, and a server that moved is found.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Until the next address is tried beside those that have not answered yet (RFC 8305, section 5).
const STAGGER: Duration = Duration::from_millis(250);
/// For so long a name server is waited for before the last good address is tried without it.
const NAME_SERVER: Duration = Duration::from_secs(1);
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;
/// The least share of a connection that opened.
const SHARE_MIN: Duration = Duration::from_secs(1);

/// The system's names and connections, or a script in tests.
pub trait Network {
    /// An open connection.
    type Stream;

    /// The addresses of a name, in the order in which the system prefers them.
    fn look_up(&self, host: &str, port: u16) -> impl Future<Output = io::Result<Vec<SocketAddr>>>;

    /// Opens a connection.
    fn open(&self, address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;
}

/// This machine's.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Network for System {
    type Stream = TcpStream;

    async fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }

    async fn open(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let tcp = TcpStream::connect(address).await?;
        tcp.set_nodelay(true)?;
        Ok(tcp)
    }
}

/// Why there is no connection. Of several failures the one that says most, and of those the last.
#[derive(Debug, Error)]
pub enum Unreached<E> {
    /// No answer in time, from the name server or from any address.
    #[error("no answer within the time allowed")]
    Late,
    /// The name has no address.
    #[error("the name has no address")]
    Name(#[source] io::Error),
    /// No connection can be opened.
    #[error("cannot connect to {address}")]
    Closed {
        /// The address that failed last.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A connection opened, and could not be used.
    #[error("{error}")]
    Unusable {
        /// Where.
        address: SocketAddr,
        /// Why.
        error: E,
    },
}

impl<E> Unreached<E> {
    const fn rank(&self) -> u8 {
        match self {
            Self::Late => 0,
            Self::Name(_) => 1,
            Self::Closed { .. } => 2,
            Self::Unusable { .. } => 3,
        }
    }

    fn or(self, next: Self) -> Self {
        if next.rank() >= self.rank() { next } else { self }
    }
}

/// One server by its name, and the address at which it was reached last.
#[derive(Clone, Debug)]
pub struct Reach<N = System> {
    host: String,
    port: u16,
    network: N,
    good: Option<SocketAddr>,
}

impl Reach {
    /// A server that was not reached yet. `host` is a name or an address.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self::over(System, host, port)
    }
}

impl<N: Network> Reach<N> {
    /// As [`Reach::new`], over a network of one's own.
    #[must_use]
    pub fn over(network: N, host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port, network, good: None }
    }

    /// As if `address` had been good last.
    #[cfg(feature = "test-support")]
    #[must_use]
    pub fn after(mut self, address: SocketAddr) -> Self {
        self.good = Some(address);
        self
    }

    /// Connects within `limit`; `usable` makes a connection of an open stream.
    ///
    /// # Errors
    /// [`Unreached`], when no address gave a usable connection in time.
    pub async fn connect<S, E>(
        &mut self,
        limit: Duration,
        mut usable: impl AsyncFnMut(SocketAddr, N::Stream) -> Result<S, E>,
    ) -> Result<S, Unreached<E>> {
        let begun = Instant::now();
        let deadline = begun + limit;
        let mut name = pin!(self.network.look_up(&self.host, self.port));
        let (mut asked, mut answered) = (true, false);
        // Without an answer there is only what was good last.
        let mut waiting: Vec<SocketAddr> = self.good.into_iter().collect();
        let mut next = begun + NAME_SERVER;
        let mut opening = Vec::new();
        let mut tried = Vec::new();
        let mut failure = Unreached::Late;
        let result = loop {
            if !asked && waiting.is_empty() && opening.is_empty() {
                break Err(failure);
            }
            tokio::select! {
                biased;
                (address, opened) = first(&mut opening), if !opening.is_empty() => {
                    next = Instant::now();
                    let stream = match opened {
                        Ok(stream) => stream,
                        Err(source) => {
                            failure = failure.or(Unreached::Closed { address, source });
                            continue;
                        }
                    };
                    let left = opening.len() + waiting.len() + usize::from(asked);
                    match timeout_at(share(next, deadline, left), usable(address, stream)).await {
                        Ok(Ok(connection)) => break Ok((address, connection)),
                        Ok(Err(error)) => failure = failure.or(Unreached::Unusable { address, error }),
                        Err(_) => {}
                    }
                    next = Instant::now();
                }
                found = &mut name, if asked => {
                    (asked, next) = (false, Instant::now());
                    match found {
                        Ok(found) => {
                            answered = true;
                            waiting = order(&found, self.good);
                            waiting.retain(|address| !tried.contains(address));
                            if found.is_empty() {
                                failure = failure.or(Unreached::Name(io::ErrorKind::AddrNotAvailable.into()));
                            }
                        }
                        Err(source) => failure = failure.or(Unreached::Name(source)),
                    }
                }
                () = sleep_until(next), if !waiting.is_empty() => {
                    let address = waiting.remove(0);
                    tried.push(address);
                    opening.push((address, Box::pin(self.network.open(address))));
                    next = Instant::now() + STAGGER;
                }
                () = sleep_until(deadline) => break Err(failure),
            }
        };
        match result {
            Ok((address, connection)) => {
                self.good = Some(address);
                Ok(connection)
            }
            Err(failure) => {
                // It failed like all others of its name, and is none to begin with. Without a name server it is all there is.
                if answered {
                    self.good = None;
                }
                Err(failure)
            }
        }
    }
}

/// The first of several connections that opens or fails.
async fn first<T, F: Future<Output = T>>(opening: &mut Vec<(SocketAddr, Pin<Box<F>>)>) -> (SocketAddr, T) {
    poll_fn(|context| {
        for at in 0..opening.len() {
            let Some((address, attempt)) = opening.get_mut(at) else { break };
            let address = *address;
            if let Poll::Ready(opened) = attempt.as_mut().poll(context) {
                drop(opening.remove(at));
                return Poll::Ready((address, opened));
            }
        }
        Poll::Pending
    })
    .await
}

/// Until when an open connection may take to be usable, with `left` addresses after it.
fn share(now: Instant, deadline: Instant, left: usize) -> Instant {
    let parts = u32::try_from(left).unwrap_or(u32::MAX).saturating_add(1);
    let share = deadline.saturating_duration_since(now) / parts;
    deadline.min(now + share.max(SHARE_MIN))
}

/// The order in which addresses are tried: the good one first, then the two families in turn, beginning with the one that
/// the system prefers; each once.
fn order(found: &[SocketAddr], good: Option<SocketAddr>) -> Vec<SocketAddr> {
    let preferred = found.first().is_some_and(SocketAddr::is_ipv6);
    let (mut one, mut other) =
        (found.iter().filter(|a| a.is_ipv6() == preferred), found.iter().filter(|a| a.is_ipv6() != preferred));
    let mut out: Vec<SocketAddr> = good.into_iter().filter(|good| found.contains(good)).collect();
    loop {
        let pair = [one.next(), other.next()];
        if pair == [None, None] || out.len() >= ADDRESSES_MAX {
            out.truncate(ADDRESSES_MAX);
            return out;
        }
        for address in pair.into_iter().flatten() {
            if !out.contains(address) {
                out.push(*address);
            }
        }
    }
}

#[cfg(test)]
mod tests;
