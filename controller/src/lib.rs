//! The controller: checks fingerprints, proofs and certificates, and can mint neither.
//!
//! Reading order, each module naming only those before it: [`config`] is what the operator wrote, [`refusal`] how a
//! call is refused, `source` who counts as one and how often, [`store`] what survives a restart, [`bridge`] the queues
//! shared with the enrollment worker, [`parts`] every decision, [`tls`] the endpoint's own key and certificate, `metrics`
//! what is told of it in numbers, `page` what owners are shown, [`http`] the edge that calls come through, [`app`] one
//! running controller, [`cli`] the verbs.

pub mod app;
pub mod bridge;
pub mod cli;
pub mod config;
pub mod http;
mod lock;
mod metrics;
mod page;
pub mod parts;
pub mod refusal;
mod source;
pub mod store;
pub mod tls;
