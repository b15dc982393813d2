//! Opens a context: reads its root and key, and is then the operator or an owner at the controller.

use std::path::Path;

use lucia_proto::base::limits::ROOT_PEM_MAX;
use lucia_proto::base::text::chain;
use lucia_proto::pki::certificate::CertificateError;
use lucia_proto::pki::chain::Root;

use crate::client::{Client, Me};
use crate::context::{self, Context, ContextName, Place};
use crate::files::{self, FileError, Secret};
use crate::passphrase::Source;
use crate::problem::{CONFIG, Failure, USAGE, problems};
use crate::tell::Out;
use crate::{owner_key, roster};

problems! {
    /// Why a context cannot be opened.
    pub(crate) enum SessionError {
        OwnersOnly(verb: &'static str) = "", USAGE, ["{verb} needs an owner's key"],
            ["luciactl login makes one and a context, --context NAME uses another context"];
        RootFile(error: FileError) = error.code(), CONFIG, ["the root cannot be used: {error}"], ["{}", error.cure()];
        NotRoot(file: String, why: CertificateError) = "root_invalid", CONFIG, ["{file} is no root ({})", chain(why)],
            ["get it anew from the worker's host"];
    }
}

/// Where a verb is done: at which controller, as whom, and how its answer is written.
pub(crate) struct At {
    pub(crate) place: Place,
    pub(crate) out: Out,
    /// The grammar of the whole, for manual and completions.
    pub(crate) command: clap::Command,
}

/// A context that was opened.
pub(crate) struct Session {
    /// Its name; none for the socket as ever.
    pub(crate) name: Option<ContextName>,
    /// What it says.
    pub(crate) context: Context,
    /// The controller.
    pub(crate) client: Client,
    /// How answers are written.
    pub(crate) out: Out,
}

impl Session {
    /// Opens what was asked for, and finds out who one is there. Asks for the passphrase of an owner key that has one.
    pub(crate) async fn open(at: &At) -> Result<Self, Failure> {
        let (place, out) = (&at.place, at.out);
        let (name, context) = context::chosen(place)?;
        let client = match &context {
            Context::Socket(socket) => Client::Socket(socket.clone()),
            Context::Owner(owner) => {
                let root = root(&owner.root)?;
                let key = owner_key::open(&owner.key, Source(place.passphrase_file.as_deref()))?;
                Client::Owner(Box::new(Me::new(&owner.controller, root, key, &owner.key)?))
            }
        };
        roster::settle(&client).await;
        Ok(Self { name, context, client, out })
    }

    /// The owner; a verb that needs one says so otherwise.
    pub(crate) fn owner(&self, verb: &'static str) -> Result<&Me, SessionError> {
        self.client.me().ok_or(SessionError::OwnersOnly(verb))
    }
}

/// Reads a root.
pub(crate) fn root(file: &Path) -> Result<Root, SessionError> {
    let most = u64::try_from(ROOT_PEM_MAX).unwrap_or(u64::MAX);
    let text = files::read(file, most, Secret::No).map_err(SessionError::RootFile)?;
    Root::from_pem(&text).map_err(|why| SessionError::NotRoot(files::name(file), why))
}
