//! What the three daemons and luciactl do alike, once.
//!
//! `proto` has no runtime and the daemons never import one another, so what needs both lies here.

#![warn(missing_docs)]

pub mod clock;
pub mod exit;
pub mod log;
pub mod notify;
pub mod process;
pub mod reach;
pub mod tls;
