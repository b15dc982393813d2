//! What observers were last told.

use std::sync::Arc;

use hyper::body::Bytes;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::metrics::Health;

/// What was last seen, and when.
#[derive(Default)]
pub(super) struct Observed(pub(super) Arc<Mutex<Option<(Instant, Bytes, Health)>>>);
