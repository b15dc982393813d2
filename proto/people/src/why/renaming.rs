//! What a rename under way waits for, in the same words for page and `luciactl`.

use std::fmt;

use crate::host_api::{NodeLine, RenameStep};
use lucia_proto::base::names::Hostname;
use lucia_proto::base::text::shown;

/// A node that was given another name and is not heard under it yet. Its text says what it waits for, with the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renaming {
    /// The name before.
    pub from: Hostname,
    /// The name it was given.
    pub to: Hostname,
    /// What is next.
    pub step: RenameStep,
    /// Why the worker refused it the new name.
    pub refused: Option<String>,
}

impl Renaming {
    /// Nothing for a node that is not being renamed.
    #[must_use]
    pub fn of(node: &NodeLine) -> Option<Self> {
        Some(Self {
            from: node.former_hostname.clone()?,
            to: node.hostname.clone(),
            // One that an older controller says nothing of has both steps before it.
            step: node.rename_step.unwrap_or(RenameStep::Node),
            refused: node.refused.as_ref().map(|why| shown(why.as_str())),
        })
    }

    /// In a few words, for a list.
    #[must_use]
    pub fn short(&self) -> String {
        let Self { from, step, .. } = self;
        match step {
            RenameStep::Node | RenameStep::Heartbeat => format!("rename from {from} pending"),
            RenameStep::Worker => format!("rename from {from} waits for the worker's host"),
            RenameStep::Refused => format!("the worker refuses the rename from {from}"),
        }
    }
}

impl fmt::Display for Renaming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, step, refused } = self;
        match step {
            RenameStep::Node => write!(
                f,
                "the rename from {from} to {to} waits for the worker: on the worker's host, lucia-enrollment-worker rename {from} \
                 {to} (the worker does it by itself where its admission is \"journal\"). The node asks for its new certificate \
                 with its next heartbeat, if its /etc/hostname says {to}. To undo it: luciactl rename {to} {from}"
            ),
            RenameStep::Worker => write!(
                f,
                "the rename from {from} to {to} waits for the worker: on the worker's host, lucia-enrollment-worker rename {from} \
                 {to}. To undo it: luciactl rename {to} {from}"
            ),
            RenameStep::Refused => write!(
                f,
                "the worker refuses the rename from {from} to {to}: {}. Undo it with luciactl rename {to} {from}, and write {from} \
                 back into its /etc/hostname",
                refused.as_deref().unwrap_or("it does not say why")
            ),
            RenameStep::Heartbeat => write!(
                f,
                "the rename from {from} to {to} completes with its next heartbeat: its certificate for {to} is issued"
            ),
        }
    }
}
