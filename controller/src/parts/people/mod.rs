//! People: who is in the roster, who asks to be, and by what they sign in.
//!
//! Several controllers would have to share the sessions, what waits to be confirmed, and the mark of the last roster.

mod applications;
mod lists;
mod requests;
mod roster;
mod sessions;
mod sign_in;
mod tokens;
mod trust;
mod waiting;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use lucia_durable::PrivateDir;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::{
    APPLICATIONS_PER_SOURCE, OWNER_CALLS_PER_SOURCE, PASSKEY_REQUESTS_PER_SOURCE, SIGN_INS_PER_SOURCE,
    TOKEN_CALLS_PER_SOURCE,
};
use lucia_proto::base::time::{Clock, UnixTime};
use lucia_proto::orders::lists::Names;

use super::audit::Audit;
use super::challenges::Challenges;
use super::fleet::{BarredKeys, Fleet};
use super::open_error::OpenError;
use super::verifier::Verifier;
use crate::bridge::owners::OwnerQueue;
use crate::source::{Bucket, Rates};
use crate::store::passkeys::Passkeys;
use crate::store::tokens::TokenStore;
use crate::store::{barred, roster_mark};
use requests::PasskeyRequests;
use sessions::Sessions;
use trust::{FilesRead, ListsRead};
use waiting::WaitingApplications;

pub use applications::Applicant;
pub use requests::WaitingPasskey;
pub use roster::OwnerCall;
pub use sign_in::{AskedPasskey, InSession, NewSession};
pub use tokens::TokenHolder;
pub(super) use trust::Trust;

/// What the controller holds of people.
///
/// Locks are taken in this order, `trust` and `names` for a moment inside any of them.
pub struct People {
    clock: Arc<dyn Clock>,
    challenges: Arc<Challenges>,
    verifier: Arc<Verifier>,
    audit: Arc<Audit>,
    fleet: Arc<Fleet>,
    queue: Arc<OwnerQueue>,
    /// Where the mark of the last roster is, and the barred keys.
    dir: Arc<PrivateDir>,
    seen: Mutex<FilesRead>,
    lists: Mutex<ListsRead>,
    requests: Mutex<PasskeyRequests>,
    waiting: Mutex<WaitingApplications>,
    passkeys: Mutex<Passkeys>,
    sessions: Mutex<Sessions>,
    tokens: Mutex<TokenStore>,
    /// By hash, since the start.
    tokens_used: Mutex<BTreeMap<Digest, TokenUse>>,
    trust: RwLock<Option<Trust>>,
    names: RwLock<Option<Arc<Names>>>,
    /// Calls with a proof, and changes in a session.
    calls: Rates,
    applications_asked: Rates,
    sign_ins_tried: Rates,
    passkeys_asked: Rates,
    /// Calls with a token, right or wrong.
    token_calls: Rates,
}

/// When a token was last used, and how often it may be used now.
#[derive(Debug)]
struct TokenUse {
    at: UnixTime,
    calls: Bucket,
}

impl People {
    /// Takes what was held at the last end.
    pub(super) fn open(
        (clock, challenges, verifier): (Arc<dyn Clock>, Arc<Challenges>, Arc<Verifier>),
        (audit, fleet): (Arc<Audit>, Arc<Fleet>),
        (queue, dir): (Arc<OwnerQueue>, Arc<PrivateDir>),
        (passkey_dir, token_dir): (PrivateDir, PrivateDir),
    ) -> Result<Self, OpenError> {
        let kept = barred::read(&dir).map_err(OpenError::RosterMark)?;
        let (kept, keys) = kept.map(|kept| ((kept.signed, None), kept.keys)).unzip();
        fleet.bar(BarredKeys::Before(keys.unwrap_or_default()));
        let mark = roster_mark::read(&dir).map_err(OpenError::RosterMark)?;
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        Ok(Self {
            clock,
            challenges,
            verifier,
            audit,
            fleet,
            dir,
            seen: Mutex::new(FilesRead { mark, ..FilesRead::default() }),
            lists: Mutex::new(ListsRead { kept, ..ListsRead::default() }),
            requests: Mutex::default(),
            waiting: Mutex::new(WaitingApplications::load(&queue).map_err(OpenError::Write)?),
            passkeys: Mutex::new(Passkeys::open(passkey_dir).map_err(OpenError::Passkeys)?),
            sessions: Mutex::default(),
            tokens: Mutex::new(TokenStore::open(token_dir).map_err(OpenError::Tokens)?),
            tokens_used: Mutex::default(),
            trust: RwLock::default(),
            names: RwLock::default(),
            queue,
            calls: Rates::new(OWNER_CALLS_PER_SOURCE, second),
            applications_asked: Rates::new(APPLICATIONS_PER_SOURCE, minute),
            sign_ins_tried: Rates::new(SIGN_INS_PER_SOURCE, minute),
            passkeys_asked: Rates::new(PASSKEY_REQUESTS_PER_SOURCE, minute),
            token_calls: Rates::new(TOKEN_CALLS_PER_SOURCE, second),
        })
    }

    /// Takes what the worker published, when it changed.
    pub(super) fn follow(&self) {
        self.follow_worker();
        self.follow_lists();
    }

    /// What time brings about: the worker's newest files, and what ends.
    pub(super) fn tick(&self) {
        self.follow();
        self.expire_applications();
        self.expire_sign_ins();
        self.expire_tokens();
    }
}
