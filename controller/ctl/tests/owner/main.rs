//! The real `luciactl` as an owner, against a controller over TLS that follows a script and checks every proof; and
//! against controllers that lie, which get nothing signed.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests stop the test where it stands")]

mod audit;
mod contexts;
mod drafts;
mod first;
mod keys;
mod lies;
mod living;
mod login;
mod marks;
mod orders;
mod server;
mod site;
mod tokens;
mod typed;
