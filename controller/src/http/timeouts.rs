//! How long a connection may take.

use std::time::Duration;

/// How long each part of a connection may take (design.md T1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The TLS handshake.
    pub handshake: Duration,
    /// A request's head, from its first byte; on a new connection from the handshake.
    pub head: Duration,
    /// A whole request from its first byte; and then its answer, from when it is ready.
    pub request: Duration,
    /// Between two requests. Longer than two minutes, so that a node's connection outlives a few lost heartbeats.
    pub idle: Duration,
    /// What calls in progress get when the controller stops.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(10),
            request: Duration::from_secs(15),
            idle: Duration::from_secs(150),
            drain: Duration::from_secs(10),
        }
    }
}
