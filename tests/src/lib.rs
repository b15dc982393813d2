//! What the stories and the benchmarks share: a simulated node on the wire, and the programs under test. Beside them,
//! the table of inverted checks.

pub mod inversions;
pub mod programs;
pub mod sim;
