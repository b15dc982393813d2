//! The machine the agent runs on: the only place that touches the operating system by name.

pub mod boot;
pub mod etc;
pub mod failed;
pub mod random;
pub mod root;
pub mod run;
#[cfg(test)]
pub(crate) mod scratch;
pub mod state;
pub mod status;

pub use lucia_proto::base::text::chain;
