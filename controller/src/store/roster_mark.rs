//! `orders/roster-mark.json`: which roster was held last, so that no older one is taken after a restart (design.md O3).

use lucia_durable::PrivateDir;
use lucia_proto::orders::roster::TakenRoster;

use super::json_file::{JsonFile, JsonFileError};

/// The file.
const FILE: &str = "roster-mark.json";
/// 230 bytes in truth.
const MARK: JsonFile = JsonFile {
    what: "the mark of the roster",
    without: "the roster that the worker publishes next is taken whatever its version",
    max: 1024,
};

/// The mark, if a roster was ever held.
pub(crate) fn read(dir: &PrivateDir) -> Result<Option<TakenRoster>, JsonFileError> {
    MARK.read(dir, FILE)
}

/// Writes it: before the roster counts.
pub(crate) fn write(dir: &PrivateDir, mark: &TakenRoster) -> Result<(), JsonFileError> {
    MARK.write(dir, FILE, mark)
}
