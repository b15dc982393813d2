//! What everything else is written in: text, time, names, numbers with bounds, strict JSON, PEM and DER.

pub mod acts;
pub mod bounded;
pub mod code;
pub(crate) mod der;
pub mod digest;
pub mod extensions;
pub mod ids;
pub mod json;
pub mod limits;
pub mod names;
pub mod pem;
pub mod text;
pub mod time;
