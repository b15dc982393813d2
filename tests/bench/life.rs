//! Nodes that live: each beats every 30 seconds on its own jitter and backs off as the agent does, whatever the
//! controller does meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use lucia_agent::client::retry::{Backoff, Pace};
use lucia_proto::base::limits::HEARTBEAT_INTERVAL;
use lucia_tests::sim::{Failure, SimNode};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// One heartbeat, however it ended.
#[derive(Clone, Copy)]
pub(crate) struct Beat {
    /// The node's number.
    pub(crate) node: usize,
    /// When its answer came.
    pub(crate) at: Instant,
    /// From signing to its answer.
    pub(crate) took: Duration,
    /// Whether it was accepted.
    pub(crate) accepted: bool,
}

/// Living nodes and what they did.
pub(crate) struct Lives {
    nodes: JoinSet<SimNode>,
    log: Arc<Mutex<Vec<Beat>>>,
    end: Instant,
}

impl Lives {
    /// Lets `nodes` live for `time`.
    pub(crate) fn begin(nodes: Vec<SimNode>, time: Duration) -> Self {
        let (log, end) = (Arc::default(), Instant::now() + time);
        let mut living = JoinSet::new();
        for (number, node) in nodes.into_iter().enumerate() {
            living.spawn(live(number, node, Arc::clone(&log), end));
        }
        Self { nodes: living, log, end }
    }

    /// What was done so far.
    pub(crate) fn beats(&self) -> Vec<Beat> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the end; gives the nodes back and everything they did.
    pub(crate) async fn end(mut self) -> Result<(Vec<SimNode>, Vec<Beat>), Failure> {
        sleep_until(self.end).await;
        let mut nodes = Vec::new();
        while let Some(node) = self.nodes.join_next().await {
            nodes.push(node?);
        }
        let beats = self.beats();
        Ok((nodes, beats))
    }
}

async fn live(number: usize, mut node: SimNode, log: Arc<Mutex<Vec<Beat>>>, end: Instant) -> SimNode {
    let mut backoff = Backoff::new(u64::try_from(number).unwrap_or_default());
    let mut pause = backoff.spread(HEARTBEAT_INTERVAL);
    while Instant::now() + pause < end {
        sleep(pause).await;
        let begun = Instant::now();
        let accepted = beat(&mut node).await.is_ok_and(|status| status.is_success());
        let at = Instant::now();
        let beat = Beat { node: number, at, took: at - begun, accepted };
        log.lock().unwrap_or_else(PoisonError::into_inner).push(beat);
        pause = if accepted {
            backoff.reset();
            backoff.around(HEARTBEAT_INTERVAL)
        } else {
            backoff.next(Pace::ANSWERLESS, None)
        };
    }
    node
}

/// One heartbeat; on a new connection where the former was cut, and once more where its challenge was refused.
pub(crate) async fn beat(node: &mut SimNode) -> Result<StatusCode, Failure> {
    if node.is_cut() {
        node.forget_challenge();
        node.reconnect().await?;
    }
    let answer = node.heartbeat().await?;
    let again = answer.status == StatusCode::UNAUTHORIZED;
    Ok(if again { node.heartbeat().await?.status } else { answer.status })
}
