//! What survives a restart: the journal under its lease, and a record a node; and the hour of samples that does not.
//!
//! Every byte goes through `lucia_durable`. Nothing here decides what a file should say.

pub(crate) mod audit_log;
pub(crate) mod barred;
pub(crate) mod drafts;
pub(crate) mod journal_file;
pub(crate) mod json_file;
pub(crate) mod layout;
pub(crate) mod passkeys;
pub(crate) mod records;
pub(crate) mod roster_mark;
pub(crate) mod samples;
pub(crate) mod tokens;

mod doctor;

pub use audit_log::{AuditLogError, AuditReport, verify_audit};
pub use doctor::{DoctorError, Finding, Generation, Health, Report, doctor, restore};
pub use drafts::DraftsError;
pub use journal_file::JournalFileError;
pub use json_file::JsonFileError;
pub use layout::LayoutError;
pub use passkeys::PasskeysError;
pub use records::RecordError;
