//! Opens a context: reads its root and key, and is then the operator or an owner at the controller.

use std::path::Path;

use lucia_proto::base::limits::ROOT_PEM_MAX;
use lucia_proto::base::text::{chain, shown};
use lucia_proto::pki::certificate::CertificateError;
use lucia_proto::pki::chain::Root;
use thiserror::Error;

use crate::args::Place;
use crate::client::{Client, Me};
use crate::context::{self, Context, ContextName};
use crate::failure::Failure;
use crate::files::{self, FileError, Secret};
use crate::owner_key;
use crate::passphrase::Source;

/// Why a root is not believed.
#[derive(Debug, Error)]
pub(crate) enum RootError {
    /// Its file.
    #[error("the root cannot be used: {0}")]
    File(FileError),
    /// It is none.
    #[error("{file} is no root ({}); get it anew from the worker's host", chain(.why))]
    NotRoot {
        /// Which file.
        file: String,
        /// What is wrong with it.
        why: CertificateError,
    },
}

/// A context that was opened.
pub(crate) struct Session {
    /// Its name; none for the socket as ever.
    pub(crate) name: Option<ContextName>,
    /// What it says.
    pub(crate) context: Context,
    /// The controller.
    pub(crate) client: Client,
}

impl Session {
    /// Opens what `place` asks for. Asks for the passphrase of an owner key that has one.
    pub(crate) fn open(place: &Place) -> Result<Self, Failure> {
        let (name, context) = context::chosen(place)?;
        let client = match &context {
            Context::Socket(socket) => Client::Socket(socket.clone()),
            Context::Owner(owner) => {
                let root = root(&owner.root)?;
                let key = owner_key::open(&owner.key, &Source::new(place.passphrase_file.as_deref()))?;
                Client::Owner(Box::new(Me::new(&owner.controller, root, key, &owner.key)?))
            }
        };
        Ok(Self { name, context, client })
    }

    /// The owner; a verb that needs one says so otherwise.
    pub(crate) fn owner(&self, verb: &'static str) -> Result<&Me, Failure> {
        self.client.me().ok_or(Failure::OwnersOnly(verb))
    }
}

/// Reads a root.
pub(crate) fn root(file: &Path) -> Result<Root, RootError> {
    let most = u64::try_from(ROOT_PEM_MAX).unwrap_or(u64::MAX);
    let text = files::read(file, most, Secret::No).map_err(RootError::File)?;
    Root::from_pem(&text).map_err(|why| RootError::NotRoot { file: shown(&file.to_string_lossy()), why })
}
