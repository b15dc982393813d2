//! The fleet's root, which came from outside the controller.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use lucia_proto::base::limits::ROOT_PEM_MAX;
use lucia_proto::pki::chain::Root;

use super::open_error::OpenError;

/// The fleet's root, which came from outside the controller.
///
/// # Errors
/// [`OpenError::ReadRoot`], [`OpenError::Root`].
pub fn read_root(path: &Path) -> Result<Root, OpenError> {
    let failed = |source| OpenError::ReadRoot { path: path.to_owned(), source };
    let mut text = String::new();
    let most = u64::try_from(ROOT_PEM_MAX).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path).and_then(|file| file.take(most).read_to_string(&mut text)).map_err(failed)?;
    Root::from_pem(&text).map_err(|source| OpenError::Root { path: path.to_owned(), source })
}
