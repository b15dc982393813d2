//! `orders/barred.json`: the list of barred keys that was taken last, as the worker signed it, so that it holds after a
//! restart whatever lies in the worker's directory by then (design.md O8).

use lucia_durable::PrivateDir;
use lucia_proto::limits::LIST_FILE_MAX;
use lucia_proto::lists::SignedBarred;

use super::json_file::{JsonFile, JsonFileError};

/// The file.
const FILE: &str = "barred.json";
const LIST: JsonFile = JsonFile {
    what: "the list of barred keys",
    without: "the list that the worker publishes next is taken whatever its number",
    max: LIST_FILE_MAX,
};

/// The list, if one was ever taken.
pub(crate) fn read(dir: &PrivateDir) -> Result<Option<SignedBarred>, JsonFileError> {
    LIST.read(dir, FILE)
}

/// Writes it: before the list counts.
pub(crate) fn write(dir: &PrivateDir, list: &SignedBarred) -> Result<(), JsonFileError> {
    LIST.write(dir, FILE, list)
}
