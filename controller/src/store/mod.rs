//! What survives a restart: the journal under its lease, and a record a node, the SSH keys; and the hour of samples that does not.
//!
//! Every byte goes through `lucia_durable`. Nothing here decides what a file should say.

pub(crate) mod journal_file;
pub(crate) mod layout;
pub(crate) mod records;
pub(crate) mod samples;
pub(crate) mod ssh_keys;

mod doctor;

pub use doctor::{DoctorError, Finding, Generation, Health, Report, doctor, restore};
pub use journal_file::JournalFileError;
pub use layout::LayoutError;
pub use records::RecordError;
pub use ssh_keys::SshKeysError;
