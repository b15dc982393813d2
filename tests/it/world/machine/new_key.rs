//! `rekey` on an installed machine: a new key, and all that its last line tells to do.

use lucia_agent::host::boot::machine_id;
use lucia_agent::host::chain;
use lucia_agent::host::failed::Failed as AnyFailed;
use lucia_agent::host::state::State;
use lucia_agent::identity::rekey;
use lucia_agent::install::stage::{granted, reporting};
use lucia_proto::base::ids::NodeId;

use super::{Failed, Machine, Session, put};

impl Machine {
    /// `rekey`, and all that its last line tells to do: a new identity under a new name, approved by the operator.
    pub(crate) async fn rekey(&mut self, hostname: &str) {
        self.new_key().await;
        self.come_back(hostname, None).await;
    }

    /// `rekey` alone.
    pub(crate) async fn new_key(&mut self) {
        self.kill();
        let again = async || {
            let mut state = State::hold(&self.installed, "rekey").map_err(|error| chain(&error))?;
            rekey::rekey(&mut state).map(drop).map_err(|error| chain(&*error))
        };
        self.until_done(again).await;
    }

    /// `discover`, which makes a key where an owner removed the former one, and all that follows. No disk of it may be
    /// erased meanwhile, and nothing is staged.
    pub(crate) async fn come_back(&mut self, hostname: &str, replaces: Option<&NodeId>) {
        self.kill();
        (self.rekeyed, self.hostname) = (true, hostname.to_owned());
        put(self.installed.path(), "etc/hostname", format!("{hostname}\n").as_bytes());
        let (fingerprint, world) = (self.fingerprint(), self.world.clone());
        let finished = async {
            self.until_done(async || self.discover().await).await;
            self.until_done(async || self.wait_install().await).await;
            assert!(self.guard().await.is_err() && self.stage().await.is_err(), "a system that runs");
            self.until_done(async || self.finish_rekey().await).await;
        };
        tokio::select! {
            () = world.approving(fingerprint, hostname, replaces) => unreachable!("an operator never ends"),
            () = finished => {}
        }
    }

    async fn finish_rekey(&self) -> Result<(), Failed> {
        let Session { boot, state, key, mut client, .. } = self.session()?;
        let grant = granted(&state, &boot).map_err(|error| chain(&error))?;
        let machine_id = machine_id(&self.installed).map_err(|error| chain(&*error))?;
        let facts = rekey::finished(&state, &key, &grant, &machine_id).map_err(|error| chain(&error))?;
        let kept = || facts.write(&state).map(|()| facts.clone()).map_err(|error| AnyFailed::from(error).into());
        reporting(&mut client, kept).await.map(drop).map_err(|error| chain(&error))
    }

    /// Lets the agent make its key, as the first verb does.
    pub(crate) async fn make_key(&self) {
        self.until_done(async || self.session().map(drop)).await;
    }
}
