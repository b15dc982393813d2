//! The worker against a real slapd. A process of its own: starting a server forks, and a child that is not yet another
//! program holds the files that tests of leases have open.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this is a test, whose helpers stand outside of test functions"
)]

mod faults;
#[allow(dead_code, reason = "shared with the unit tests, which use all of it")]
#[path = "../../src/fixture.rs"]
mod fixture;
mod prepare;
mod readers;
mod slapd;
mod turn;

use lucia_proto::base::time::UnixTime;

/// Certificates are checked by TLS, which has the machine's clock and no other.
#[expect(clippy::disallowed_methods, reason = "TLS has no other clock")]
fn now() -> UnixTime {
    UnixTime::from_secs(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs())
}
