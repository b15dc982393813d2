//! The fleet's directory on this node: sssd's configuration and sshd's drop-in as one change, then proof that it works
//! (design.md N2, N4; managed-nodes.md "Enrollment").
//!
//! | module | holds |
//! |---|---|
//! | [`sssd`] | sssd's configuration: rendered, read back and compared |
//! | [`sshd`] | sshd's drop-in, and whether sshd goes by it |
//! | [`files`] | both files as they are, are to be, and last worked |
//! | [`ldap`] | the one question to the directory itself |
//! | [`change`] | the steps of a change, and the way back from each |
//!
//! Local accounts are never touched: their names are looked up first, their own `authorized_keys` count as before, and
//! nothing here is needed for them to log in.

pub mod change;
pub mod files;
pub mod ldap;
pub mod sshd;
pub mod sssd;

use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::node::directory::DirectoryAccess;
use lucia_proto::pki::key::NodeKey;

use self::files::Wanted;
use self::ldap::Reader;
use crate::host::failed::{Failed, OrFailed as _};

/// What the worker's answer says of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Orders {
    /// There is no answer to read it from: what is there stays.
    #[default]
    Unknown,
    /// The fleet has none.
    None,
    /// It has one.
    Ldap(Box<Access>),
}

/// The directory of an answer, and what its password is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Where and as whom.
    pub access: DirectoryAccess,
    /// The CSR that the answer answers.
    pub csr_sha256: Digest,
}

impl Access {
    /// The reader, with its password.
    ///
    /// # Errors
    /// When the password does not open.
    pub fn open(&self, key: &NodeKey, node_id: &NodeId) -> Result<Reader, Failed> {
        let password = self.access.bind_password.open(key, node_id, &self.csr_sha256);
        let password = password.or_failed("the reader's password in the enrolment answer cannot be opened")?;
        Ok(Reader { access: self.access.clone(), password })
    }
}

impl Reader {
    /// The files that it asks for. `root_file` is where the fleet's root lies.
    ///
    /// # Errors
    /// [`sssd::RenderError`].
    pub fn wanted(&self, root_file: &str) -> Result<Wanted, Failed> {
        let sssd = sssd::render(&self.access, &self.password, root_file);
        let sssd = sssd.or_failed("sssd's configuration cannot be made from the enrolment answer")?;
        Ok(Wanted { sssd: Some(sssd), sshd: Some(sshd::DROP_IN.to_owned()) })
    }
}
