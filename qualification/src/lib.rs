//! Real machines for the tests and the demo: container nodes, which are a real systemd Debian in about a second.
//!
//! The helper binary of this crate (`lucia-qualification`) is what starts a node; the library asks it to.

pub mod cgroup;
pub mod demo;
pub mod keeper;
pub mod network;
pub mod node;
pub mod possible;
pub mod program;
pub mod seat;
pub mod skip;
pub mod wait;
