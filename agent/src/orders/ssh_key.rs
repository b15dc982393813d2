//! `ssh-key`: the files of keys follow it (see [`crate::keys`]).

use lucia_proto::orders::SshKeys;

use super::carry::{Act, Carry, Facts, InForce, NotDone};

impl Carry for SshKeys {
    fn plan(&self, _: &Facts<'_>) -> Result<Option<Act>, NotDone> {
        Ok(None)
    }

    fn run(self, to: &mut InForce) {
        let keys = self.keys.into_iter().map(|key| key.key.key().clone()).collect();
        to.keys.accounts.insert(self.account, keys);
    }
}
