//! The only code of Lucia Nodes that writes a file which must survive a crash.
//!
//! Three programs keep files whose loss or theft would matter: keys, certificates, the journal, the worker's ledger, the
//! queue between controller and worker. The rules for such a file belong together, because each is worthless without the
//! others: a file replaced atomically in a directory that others can write to, or read without a cap, protects nothing.
//!
//! - [`PrivateDir`]: a directory whose owner, mode and type were checked, and through whose descriptor alone files are
//!   reached, so that nobody can swap a path under us.
//! - [`PrivateDir::read`]: a capped read that never waits on a FIFO, never follows a link and never cuts.
//! - [`PrivateDir::replace`]: write beside, sync, rename, sync the directory. After any crash the file is the former one
//!   or the new one, whole.
//! - [`AppendFile`]: lines that are only ever added; a torn last line is seen, never guessed at.
//! - [`Lease`]: one writer at a time, held by the kernel, naming its holder.
//! - [`mod@crash_point`]: lets a test stop a program at each of the steps above, one after the other.
//!
//! Reading order, each naming only those before it: `file_name`, `rules`, `crash_point`, `private_dir`, `read`, `replace`,
//! `append`, `lease`. Nothing here knows what is in a file, reads a clock, or has a runtime: calls block for as long as the
//! disk takes.

#![warn(missing_docs)]

pub mod crash_point;

mod append;
mod file_name;
mod lease;
mod private_dir;
mod read;
mod replace;
mod rules;
#[cfg(test)]
mod scratch;

pub use append::{AppendError, AppendFile, AppendLock};
pub use crash_point::{Crashed, crash_point};
pub use file_name::{BadName, FileName};
pub use lease::{Lease, LeaseError, Marker};
pub use private_dir::{DirError, Listing, PrivateDir};
pub use read::{Format, Loaded, ReadError};
pub use replace::WriteError;
pub use rules::{DirRules, FileRules, Owner, RuleBreach};
