//! What a verb is: arguments that do something.

use crate::context::Place;
use crate::problem::Failure;
use crate::tell::Out;

/// Where a verb is done: at which controller, as whom, and how its answer is written.
pub(crate) struct At {
    pub(crate) place: Place,
    pub(crate) out: Out,
    /// The grammar of the whole, for manual and completions.
    pub(crate) command: clap::Command,
}

/// One verb, as it was typed.
pub(crate) trait Verb {
    /// Asks the controller, and says what came back.
    async fn run(self, at: &At) -> Result<(), Failure>;
}
