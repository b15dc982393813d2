//! Passkeys that wait to be confirmed: few in all, fewer from one source, an hour long, in memory alone.

use std::time::Duration;

use lucia_people::sign_in::PasskeyForm;
use lucia_proto::base::bounded::KeyLabel;
use lucia_proto::base::limits::{PASSKEY_REQUEST_LIFETIME, PASSKEY_REQUESTS_MAX, PASSKEY_REQUESTS_OPEN_PER_SOURCE};
use lucia_proto::pki::key::VerificationCode;

use crate::source::{Source, gives_way};

/// Those that wait, in the order they came.
#[derive(Debug, Default)]
pub(super) struct PasskeyRequests(Vec<PasskeyRequest>);

#[derive(Debug)]
struct PasskeyRequest {
    code: VerificationCode,
    form: PasskeyForm,
    /// Until when, by time since boot.
    until: Duration,
    source: Source,
}

/// A passkey that waits to be confirmed, as an owner may dismiss it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingPasskey {
    /// What it is confirmed by.
    pub code: VerificationCode,
    /// As whoever handed it in calls it.
    pub label: KeyLabel,
    /// Where it came from: an IPv4 address or an IPv6 /64.
    pub source: String,
}

/// What became of one that was handed in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It waits for this long.
    Waits(Duration),
    /// There are as many as there may be.
    Full,
}

impl PasskeyRequests {
    /// Takes one in. Two of one code cannot be told apart by a person, so the second is not taken.
    pub(super) fn ask(&mut self, form: PasskeyForm, source: Source, now: Duration) -> Decision {
        self.expire(now);
        let code = form.code();
        if let Some(there) = self.0.iter().find(|open| open.code == code) {
            return if there.form == form { Decision::Waits(there.until.saturating_sub(now)) } else { Decision::Full };
        }
        let from_here = self.0.iter().filter(|open| open.source == source).count();
        if from_here >= PASSKEY_REQUESTS_OPEN_PER_SOURCE {
            return Decision::Full;
        }
        if self.0.len() >= PASSKEY_REQUESTS_MAX {
            let entries = self.0.iter().enumerate().map(|(at, open)| (open.source, at));
            let Some(at) = gives_way(entries, &source) else { return Decision::Full };
            let gone = self.0.remove(at);
            tracing::info!(code = %gone.code, "a passkey that waited gave way: its source has handed in the most");
        }
        self.0.push(PasskeyRequest { code, form, until: now.saturating_add(PASSKEY_REQUEST_LIFETIME), source });
        Decision::Waits(PASSKEY_REQUEST_LIFETIME)
    }

    /// The one of this code.
    pub(super) fn find(&mut self, code: &VerificationCode, now: Duration) -> Option<&PasskeyForm> {
        self.expire(now);
        self.0.iter().find(|open| open.code == *code).map(|open| &open.form)
    }

    /// Those that wait, the oldest first.
    pub(super) fn waiting(&mut self, now: Duration) -> Vec<WaitingPasskey> {
        self.expire(now);
        let waiting = self.0.iter().map(|open| WaitingPasskey {
            code: open.code.clone(),
            label: open.form.label.clone(),
            source: open.source.to_string(),
        });
        waiting.collect()
    }

    /// It no longer waits; gives whether it did.
    pub(super) fn forget(&mut self, code: &VerificationCode) -> bool {
        let before = self.0.len();
        self.0.retain(|open| open.code != *code);
        self.0.len() < before
    }

    /// Drops those whose time is over.
    pub(super) fn expire(&mut self, now: Duration) {
        self.0.retain(|open| now < open.until);
    }
}
