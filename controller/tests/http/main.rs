//! The HTTP edge from outside: a whole controller in a scratch directory, raw bytes over TLS and over its socket.

mod actors;
mod certificate;
mod edge;
mod json;
mod machine;
mod signed;
mod site;
mod slow;
