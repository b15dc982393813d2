//! People: who is in the roster, who asks to be, and by what they sign in.

mod applications;
mod callers;
mod roster;
mod sign_in;
mod tokens;
mod waiting;

use std::sync::{Arc, Mutex};

use lucia_durable::PrivateDir;
use lucia_proto::base::time::Clock;

use super::audit::Audit;
use super::challenges::Challenges;
use super::fleet::Fleet;
use super::open_error::OpenError;
use super::verifier::Verifier;
use crate::bridge::owners::OwnerQueue;
use crate::store::passkeys::Passkeys;
use crate::store::tokens::TokenStore;
use waiting::WaitingApplications;

pub use applications::{Applicant, Applications};
pub use callers::{Callers, OwnerCall};
pub use roster::RosterReader;
pub(super) use roster::Trust;
pub use sign_in::{AskedPasskey, InSession, NewSession, SignIns, WaitingPasskey};
pub use tokens::{Looking, Tokens};

/// All there is of people; each is a part of its own, and the order is that of their locks.
pub struct People {
    pub roster: Arc<RosterReader>,
    pub callers: Callers,
    pub sign_ins: Arc<SignIns>,
    pub applications: Applications,
    pub tokens: Tokens,
}

impl People {
    pub(super) fn open(
        (clock, challenges, verifier): (Arc<dyn Clock>, Arc<Challenges>, Arc<Verifier>),
        (audit, fleet): (Arc<Audit>, Arc<Fleet>),
        (queue, dir): (Arc<OwnerQueue>, Arc<PrivateDir>),
        (passkeys, tokens): (Passkeys, TokenStore),
    ) -> Result<Self, OpenError> {
        let below = (Arc::clone(&clock), Arc::clone(&challenges), Arc::clone(&verifier));
        let held = (Arc::clone(&verifier), Arc::clone(&audit), fleet);
        let roster = Arc::new(RosterReader::open(Arc::clone(&clock), held, Arc::clone(&queue), dir)?);
        let waiting = WaitingApplications::load(&queue).map_err(OpenError::Write)?;
        let waiting = Arc::new(Mutex::new(waiting));
        let by = (Arc::clone(&audit), Arc::clone(&roster));
        let sign_ins = Arc::new(SignIns::new(below.clone(), by, Arc::clone(&waiting), passkeys));
        let with = (Arc::clone(&clock), verifier, Arc::clone(&audit));
        Ok(Self {
            callers: Callers::new(below, Arc::clone(&roster)),
            applications: Applications::new(with, (Arc::clone(&roster), Arc::clone(&sign_ins)), queue, waiting),
            tokens: Tokens::new((clock, audit, Arc::clone(&roster)), tokens),
            roster,
            sign_ins,
        })
    }

    /// What time brings about: the worker's newest files, and what ends.
    pub(super) fn tick(&self) {
        self.roster.follow();
        self.applications.expire();
        self.sign_ins.expire();
        self.tokens.expire();
    }
}
