//! What the stories and the benchmarks share: a simulated node on the wire, the programs under test, and the fuzz targets.

pub mod cgroup;
pub mod fuzz;
pub mod hostile_controller;
pub mod hostile_queue;
pub mod jail;
pub mod laid;
pub mod load;
pub mod programs;
pub mod sim;
