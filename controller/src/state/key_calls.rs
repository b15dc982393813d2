//! The SSH keys that nodes are given (wire-facts.md 3.6): the operator's until the fleet has a roster, whose owners sign
//! them.

use lucia_proto::code::Code;
use lucia_proto::host_api::{RemoveSshKey, SshKeyForm};
use lucia_proto::journal::EventKind;

use super::{Controller, journal, lock};
use crate::refusal::Refusal;

impl Controller {
    pub(super) fn try_add_ssh_key(&self, form: SshKeyForm, actor: &str) -> Result<(), Refusal> {
        // A node believes no unsigned key any more once it heard of a roster, whoever is in it.
        if self.owners.roster().is_some() {
            let message = "This fleet has a roster, and its nodes take no key that no owner of it signed. On an owner's \
                           machine: luciactl keys add ACCOUNT FILE --all";
            return Err(Refusal::new(Code::OwnersSign, message));
        }
        let now = self.clock.now();
        lock(&self.ssh_keys).add(form, now, actor, || {
            self.keeper.change(|journal| journal::note_keys(journal, EventKind::SshKeyAdded, actor, now))
        })
    }

    pub(super) fn try_remove_ssh_key(&self, form: &RemoveSshKey, actor: &str) -> Result<(), Refusal> {
        let now = self.clock.now();
        lock(&self.ssh_keys).remove(form, || {
            self.keeper.change(|journal| journal::note_keys(journal, EventKind::SshKeyRemoved, actor, now))
        })
    }
}
