//! What the stories and the benchmarks share: a simulated node on the wire, and the programs under test.

pub mod programs;
pub mod sim;
