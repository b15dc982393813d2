//! `orders/barred.json`: the list of barred keys that was taken last, as the worker signed it, so that it holds after a
//! restart whatever lies in the worker's directory by then (design.md O8).

use lucia_durable::PrivateDir;
use lucia_proto::base::json;
use lucia_proto::base::limits::{JSON_DEPTH_MAX, LIST_FILE_MAX, LIST_PAYLOAD_MAX};
use lucia_proto::orders::lists::{List, SignedBarred};
use lucia_proto::pki::key::Fingerprint;

use super::json_file::{JsonFile, JsonFileError};

/// The file.
const FILE: &str = "barred.json";
const LIST: JsonFile = JsonFile {
    what: "the list of barred keys",
    without: "the list that the worker publishes next is taken whatever its number",
    max: LIST_FILE_MAX,
};

/// What is kept of it.
#[derive(Debug)]
pub(crate) struct StoredBarred {
    /// As it was signed.
    pub(crate) signed: SignedBarred,
    /// Its keys, in ascending order. It was verified when it was written, so they count without a bundle.
    pub(crate) keys: Vec<Fingerprint>,
}

/// The list, if one was ever taken.
pub(crate) fn read(dir: &PrivateDir) -> Result<Option<StoredBarred>, JsonFileError> {
    let Some(signed) = LIST.read::<SignedBarred>(dir, FILE)? else { return Ok(None) };
    let path = dir.path_of(&LIST.name(FILE)?);
    let list: List<Fingerprint> = json::from_slice(signed.parts().payload(), LIST_PAYLOAD_MAX, JSON_DEPTH_MAX)
        .map_err(|source| JsonFileError::Damaged { path, without: LIST.without, source })?;
    let mut keys = list.entries;
    keys.sort_unstable();
    Ok(Some(StoredBarred { signed, keys }))
}

/// Writes it: before the list counts.
pub(crate) fn write(dir: &PrivateDir, list: &SignedBarred) -> Result<(), JsonFileError> {
    LIST.write(dir, FILE, list)
}
