//! The one clock of this program: when an order was drafted.

use std::time::{SystemTime, UNIX_EPOCH};

use lucia_proto::base::time::UnixTime;

/// How late it is on this machine.
#[expect(clippy::disallowed_methods, reason = "the one place where luciactl reads the clock")]
pub(crate) fn now() -> UnixTime {
    UnixTime::from_secs(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs()))
}
