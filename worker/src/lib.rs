//! The enrollment worker: holds the CA, and signs only what the controller's journal and its own ledger agree on
//! (managed-nodes.md "Enrollment", design.md W1 to W6).
//!
//! It talks to nobody but the directory and step-ca, where there are any: it reads files the controller wrote, in
//! directories it checks, and writes answers into one that only it can write to. Reading order, each module naming only
//! those before it:
//!
//! | module | question it answers |
//! |---|---|
//! | [`names`] | which names may no node have? |
//! | [`config`] | what did the administrator decide? |
//! | [`files`] | how is a file of the worker's own read? |
//! | [`ledger`] | what did this worker ever admit, issue and remove? |
//! | [`ca`] | who signs a leaf, and is it what it must be? |
//! | [`directory`] | which accounts may a node read, and with what password? |
//! | [`home`] | what lies in the worker's own directory: keys, bundle, receipts? |
//! | [`roster`] | who may order? |
//! | [`queue`] | what did the controller ask? |
//! | [`owner_queue`] | what did owners ask, through it? |
//! | [`applications`] | who asks to become an owner? |
//! | [`remarks`] | was that said already, and is there room to say it? |
//! | [`authority`] | what does the controller's journal say? |
//! | [`decide`] | sign, use again, wait or refuse? A pure function |
//! | [`orders`] | carry an owner's order out, or refuse it? The same |
//! | [`owners`] | how does an owner come and go? |
//! | [`answers`] | which bytes go out? |
//! | [`turn`] | one pass over all of it, durable step by durable step |
//! | [`survey`] | the same decisions, only looked at: `pending`, `admit` |
//! | [`init`] | how does a fleet begin? |
//! | [`retire`] | how does the worker get another key? |
//! | [`status`] | what should a person know? |
//! | [`watch`] | when to take the next turn |
//! | [`cli`] | which command was given? |

pub mod answers;
pub mod applications;
pub mod audit;
pub mod authority;
pub mod ca;
pub mod cli;
pub mod config;
pub mod decide;
pub mod directory;
pub mod files;
#[cfg(test)]
mod fixture;
pub mod home;
pub mod init;
pub mod ledger;
pub mod names;
pub mod orders;
pub mod owner_queue;
pub mod owners;
pub mod queue;
pub mod remarks;
pub mod retire;
pub mod roster;
pub mod status;
pub mod survey;
pub mod turn;
pub mod watch;

pub use lucia_proto::base::text::chain;

/// For measuring how long something takes: time since this was made.
fn stopwatch() -> directory::budget::Stopwatch {
    let began = tokio::time::Instant::now();
    Box::new(move || began.elapsed())
}
