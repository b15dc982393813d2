//! What machines of these stories have run and asked for them: nothing.

use lucia_agent::directory::ldap::{Directory, LdapError, Reader};
use lucia_agent::units::{Ended, Program, Runner, ServiceAct, UnitError};

/// These machines have no directory, so nothing is ever run on them.
pub(crate) struct NoPrograms;

impl Runner for NoPrograms {
    async fn run(&self, program: &Program) -> Result<Ended, UnitError> {
        panic!("{program:?} was not to be run")
    }

    async fn act(&self, act: ServiceAct) -> Result<(), UnitError> {
        panic!("{act:?} was not to be done")
    }
}

impl Directory for NoPrograms {
    async fn read(&self, reader: &Reader) -> Result<(), LdapError> {
        panic!("{} was not to be asked", reader.access.uri)
    }
}
