//! The table that is printed: name, value, goal, ok or MISS.

use std::process::ExitCode;

/// Every figure measured so far.
#[derive(Default)]
pub(crate) struct Figures {
    missed: usize,
    printed: usize,
}

/// Which side of the goal is good.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// At most this.
    Most(f64),
    /// At least this.
    Least(f64),
    /// Exactly this.
    Exactly(f64),
}

impl Figures {
    /// Prints one figure.
    pub(crate) fn add(&mut self, name: &str, value: f64, unit: &str, goal: Goal) {
        let (sign, bound, good) = match goal {
            Goal::Most(bound) => ("<=", bound, value <= bound),
            Goal::Least(bound) => (">=", bound, value >= bound),
            Goal::Exactly(bound) => ("=", bound, (value - bound).abs() < 1e-9),
        };
        self.printed += 1;
        self.missed += usize::from(!good);
        let verdict = if good { "ok" } else { "MISS" };
        println!("{name:<58} {value:>10.2} {unit:<8} goal {sign} {bound:<8} {verdict}");
    }

    /// Prints what is no figure but belongs to one.
    pub(crate) fn note(&self, text: &str) {
        println!("  {text}");
    }

    /// The last line. A miss does not fail the run: BENCHMARKS.md explains it.
    pub(crate) fn close(&self) -> ExitCode {
        println!("bench: {} figures, {} missed", self.printed, self.missed);
        if self.printed == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}
