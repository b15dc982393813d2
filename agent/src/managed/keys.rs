//! The keys loop: brings the disk to what owners ordered, at the start and within each heartbeat, and tells when no reply
//! comes any more that could withdraw a key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lucia_durable::DirError;
use lucia_proto::base::names::AccountName;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::shared::Shared;
use crate::directory::Orders;
use crate::directory::files::kept;
use crate::host::root::Root;
use crate::host::status::Status;
use crate::keys::files::{Brought, Files, KeysError};
use crate::keys::passwd::Local;
use crate::keys::{Dropped, OrderedKeys, Why, passwd, told};
use crate::units::program::LOOK_UP_MAX;
use crate::units::{Program, Runner};

/// Keys that nobody confirmed for this long are told of (threats.md D-5). They stay: a controller that is away locks
/// nobody out.
pub const AGE_ALARM: Duration = Duration::from_secs(3600);
/// Time between two looks at that age.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Time until an account that the directory did not have is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(120);
/// What cures an entry that was left out.
const DROPPED_CURE: &str = "compare `luciactl keys list` with the accounts of the directory and of this machine; what is \
     right is used, and the rest is tried again with each heartbeat";
/// What cures a directory of keys that cannot be used.
const FILES_CURE: &str = "put /etc/ssh/lucia-authorized-keys right as the message says (`systemd-tmpfiles --create` makes \
     it), then `systemctl restart lucia-node-agent`";
/// What cures old keys.
const AGE_CURE: &str = "look at the controller: whoever lost a key since then can still log in here; remove a file of \
     /etc/ssh/lucia-authorized-keys by hand to lock its account out";

/// How keys that were removed, because no order gave them, come back. `luciactl` asks for a signature.
pub const UNORDERED_CURE: &str = "to give them again, on an owner's machine: luciactl keys add ACCOUNT FILE --all";
/// Most removed accounts that the status names.
const REMOVED_SHOWN: usize = 16;

/// Keeps the files of keys.
pub struct KeysLoop<R> {
    runner: R,
    root: Root,
    shared: Arc<Shared>,
    ordered: watch::Receiver<Arc<OrderedKeys>>,
    /// When a reply last came, or the daemon began.
    since: Instant,
    /// Accounts that got no file, why, and when the directory was asked.
    strangers: Option<(BTreeMap<AccountName, Why>, Instant)>,
}

impl<R: Runner> KeysLoop<R> {
    /// The loop.
    #[must_use]
    pub fn new(runner: R, root: Root, shared: Arc<Shared>) -> Self {
        let ordered = shared.keys.subscribe();
        Self { runner, root, shared, ordered, since: Instant::now(), strangers: None }
    }

    /// Brings the disk to what was ordered.
    async fn turn(&mut self) {
        let ordered = Arc::clone(&self.ordered.borrow_and_update());
        self.since = Instant::now();
        match self.bring(&ordered).await {
            Ok(brought) => self.say(&ordered, brought),
            Err(error) => self.shared.refused("keys", crate::host::chain(&error), FILES_CURE),
        }
    }

    async fn bring(&mut self, ordered: &OrderedKeys) -> Result<Brought, KeysError> {
        let files = match Files::open(&self.root) {
            // A machine without the directory has no file to remove, and nobody ordered one.
            Err(KeysError::Dir(DirError::Missing { .. })) if ordered.accounts.values().all(Vec::is_empty) => {
                return Ok(Brought::default());
            }
            opened => opened?,
        };
        let has_directory = match &*self.shared.orders.borrow() {
            Orders::Ldap(_) => true,
            Orders::None => false,
            // An answer that cannot be read locks nobody out: what it last came to is still set up.
            Orders::Unknown => kept(&self.shared.state).is_some_and(|files| files.sssd.is_some()),
        };
        let local = passwd::local(&self.root);
        let mut brought = files.bring(ordered, local.as_ref(), has_directory)?;
        if brought.new.is_empty() {
            self.strangers = None;
            return Ok(brought);
        }
        let strangers = match self.strangers.take() {
            // What the directory said holds a while: a program is not run with every heartbeat.
            Some((strangers, at)) if at.elapsed() < ASK_AGAIN && strangers.keys().eq(&brought.new) => {
                self.strangers = Some((strangers.clone(), at));
                strangers
            }
            _ => {
                let strangers = self.ask(&files, ordered, &local.unwrap_or_default(), &mut brought).await;
                self.strangers = Some((strangers.clone(), Instant::now()));
                strangers
            }
        };
        brought.new.clear();
        brought.dropped.extend(strangers.into_iter().map(|(account, why)| Dropped::new(account.as_str(), why)));
        Ok(brought)
    }

    /// Asks the directory for the new accounts, and writes the files of those it has. The others, and why not.
    async fn ask(
        &self,
        files: &Files,
        ordered: &OrderedKeys,
        local: &Local,
        brought: &mut Brought,
    ) -> BTreeMap<AccountName, Why> {
        let names: Vec<_> = brought.new.iter().cloned().collect();
        let mut found = BTreeMap::new();
        for names in names.chunks(LOOK_UP_MAX) {
            match self.runner.run(&Program::LookUpAccounts(names.to_vec())).await {
                Ok(ended) => found.extend(passwd::looked_up(&ended.output, &local.uids)),
                Err(error) => {
                    tracing::warn!("keys: {}", crate::host::chain(&error));
                    break;
                }
            }
        }
        let mut strangers = BTreeMap::new();
        for account in brought.new.clone() {
            match (found.get(&account), ordered.accounts.get(&account)) {
                (Some(true), Some(keys)) => files.write(&account, keys, brought),
                (Some(false), _) => drop(strangers.insert(account, Why::System)),
                _ => drop(strangers.insert(account, Why::Unknown)),
            }
        }
        strangers
    }

    fn say(&self, ordered: &OrderedKeys, brought: Brought) {
        if brought.changed > 0 {
            let count = u64::from(brought.changed);
            tracing::info!("keys: {} written or removed", lucia_proto::base::text::counted(count, "file"));
        }
        if !brought.unordered.is_empty() {
            let names = brought.unordered.join(", ");
            tracing::warn!("keys: removed the SSH keys of {names}: no owner's order gave them; {UNORDERED_CURE}");
        }
        let (accounts, left_out) = (u64::try_from(brought.held.len()).ok(), told(&brought.dropped));
        let count = |status: &mut Status| {
            status.ssh_accounts = accounts;
            status.ssh_unsigned = u64::from(brought.others);
            status.ssh_removed.extend(brought.unordered);
            status.ssh_removed.retain(|name| ordered.accounts.keys().all(|account| account.as_str() != name));
            while status.ssh_removed.len() > REMOVED_SHOWN {
                status.ssh_removed.pop_last();
            }
        };
        match left_out {
            None => self.shared.succeeded("keys", count),
            Some(what) => {
                self.shared.update(count);
                self.shared.refused("keys", what, DROPPED_CURE);
            }
        }
    }

    /// Takes keys away from accounts that became this machine's own, and tells of keys that no reply could withdraw for
    /// long. A frozen identity gets no orders, and says that itself.
    fn look_at_age(&self) {
        if let Some(local) = passwd::local(&self.root) {
            let gone = Files::open(&self.root).and_then(|files| files.without(&local)).unwrap_or(0);
            if gone > 0 {
                let count = lucia_proto::base::text::counted(u64::from(gone), "file");
                tracing::warn!("keys: {count} removed, of accounts that are this machine's own now");
            }
        }
        let age = self.since.elapsed();
        if age < AGE_ALARM || self.shared.status().frozen {
            return;
        }
        let held = Files::open(&self.root).and_then(|files| files.count()).unwrap_or(0);
        if held > 0 {
            let hours = age.as_secs() / 3600;
            let accounts = lucia_proto::base::text::counted(u64::try_from(held).unwrap_or(u64::MAX), "account");
            let what =
                format!("no heartbeat was answered for {hours} h, so the SSH keys of {accounts} stay as they are");
            self.shared.refused("keys", what, AGE_CURE);
        }
    }

    /// Turns for ever: at the start, and with each reply.
    pub async fn run(mut self) -> String {
        loop {
            self.shared.expect_within("keys", LOOK_EVERY);
            match timeout(LOOK_EVERY, self.ordered.changed()).await {
                Ok(Ok(())) => self.turn().await,
                Ok(Err(_)) => return "the heartbeat loop is gone".to_owned(),
                Err(_) => self.look_at_age(),
            }
        }
    }
}
