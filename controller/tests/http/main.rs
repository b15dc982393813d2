//! The HTTP edge from outside: a whole controller in a scratch directory, raw bytes over TLS and over its socket.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests stop the test where it stands"
)]

mod actors;
mod applications;
mod audit;
mod axe;
mod bodies;
mod certificate;
mod described;
mod edge;
mod json;
#[path = "../../src/http/openapi/judge.rs"]
mod judge;
mod machine;
mod observe;
mod owners;
mod page;
mod page_orders;
mod page_passkey;
mod schemathesis;
mod sign_in;
mod signed;
mod site;
mod slow;
mod webdriver;
