//! Sessions of the page: in memory alone, so a restart ends them all.
//!
//! What the browser holds is 32 random bytes; here is their hash, so that nobody who reads this memory or a log has a
//! cookie. A session ends when it was not used for half an hour, after twelve hours in all, and as soon as the roster no
//! longer has its owner in the role they signed in with, or the key that confirmed their passkey.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use lucia_people::sign_in::SessionView;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::{SESSION_IDLE, SESSION_LIFETIME, SESSIONS_PER_OWNER_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::owner::{OwnerId, OwnerName, Role};
use lucia_proto::pki::key::{Fingerprint, VerificationCode};

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) owner: OwnerId,
    pub(super) name: OwnerName,
    pub(super) role: Role,
    /// The passkey that signed in.
    pub(super) passkey: VerificationCode,
    /// The owner key that confirmed it.
    pub(super) confirmed_by: Option<Fingerprint>,
    pub(super) from: IpAddr,
    /// When it began, for people; and by time since boot, which no step of the clock moves.
    pub(super) since: UnixTime,
    pub(super) begun: Duration,
    /// When it was last used, by time since boot.
    pub(super) used: Duration,
}

/// All of them, by the hash of what the browser holds.
#[derive(Debug, Default)]
pub(super) struct Sessions(BTreeMap<Digest, Session>);

/// What the roster says now of whoever has a session.
pub(super) type RoleOf<'a> = &'a dyn Fn(&Session) -> Option<Role>;

impl Session {
    fn is_over(&self, now: Duration, standing: RoleOf<'_>) -> bool {
        now >= self.used.saturating_add(SESSION_IDLE)
            || now >= self.begun.saturating_add(SESSION_LIFETIME)
            || standing(self) != Some(self.role)
    }

    /// When it ends at the latest, for people.
    pub(super) fn expires_at(&self) -> UnixTime {
        self.since.plus(SESSION_LIFETIME)
    }
}

/// What the browser's token is kept as.
fn kept(token: &str) -> Digest {
    Digest::of(token.as_bytes())
}

/// The name of a session in calls: what is kept, cut, says nothing of the token.
fn code(kept: &Digest) -> Option<VerificationCode> {
    kept.to_string().parse::<Fingerprint>().ok().map(|digest| digest.verification_code())
}

impl Sessions {
    /// Begins one. Of somebody who has as many as they may, the one that was not used for longest ends.
    pub(super) fn begin(&mut self, token: &str, session: Session) {
        let own = |(_, other): &(&Digest, &Session)| other.owner == session.owner;
        while self.0.iter().filter(own).count() >= SESSIONS_PER_OWNER_MAX {
            let Some(oldest) = self.0.iter().filter(own).min_by_key(|(_, other)| other.used).map(|(key, _)| *key)
            else {
                break;
            };
            self.0.remove(&oldest);
        }
        self.0.insert(kept(token), session);
    }

    /// The session of this token, which counts as used now when it `uses` it; one that is over ends here.
    pub(super) fn find(&mut self, token: &str, uses: bool, now: Duration, standing: RoleOf<'_>) -> Option<&Session> {
        let key = kept(token);
        if self.0.get(&key)?.is_over(now, standing) {
            self.0.remove(&key);
            return None;
        }
        let session = self.0.get_mut(&key)?;
        if uses {
            session.used = now;
        }
        Some(session)
    }

    /// Whether the session of this token goes on, without using it: what runs by itself keeps nobody signed in.
    pub(super) fn goes_on(&self, token: &str, now: Duration, standing: RoleOf<'_>) -> bool {
        self.0.get(&kept(token)).is_some_and(|session| !session.is_over(now, standing))
    }

    /// Ends those that are over.
    pub(super) fn expire(&mut self, now: Duration, standing: RoleOf<'_>) {
        self.0.retain(|_, session| !session.is_over(now, standing));
    }

    /// Ends those that `ends` names by code and session, and says how many those were.
    pub(super) fn end(&mut self, ends: impl Fn(&VerificationCode, &Session) -> bool) -> usize {
        let before = self.0.len();
        self.0.retain(|key, session| !code(key).is_some_and(|code| ends(&code, session)));
        before - self.0.len()
    }

    /// Those of `owner`, or all; `current` is the token of who asks.
    pub(super) fn view(&self, owner: Option<&OwnerId>, current: Option<&str>) -> Vec<SessionView> {
        let current = current.map(kept);
        let own = self.0.iter().filter(|(_, session)| owner.is_none_or(|owner| session.owner == *owner));
        let mut views: Vec<SessionView> = own
            .filter_map(|(key, session)| {
                Some(SessionView {
                    code: code(key)?,
                    owner: session.name.clone(),
                    role: session.role,
                    passkey: session.passkey.clone(),
                    address: session.from,
                    since: session.since,
                    used_at: session.since.plus(session.used.saturating_sub(session.begun)),
                    expires_at: session.expires_at(),
                    current: current == Some(*key),
                })
            })
            .collect();
        views.sort_by_key(|view| view.since);
        views
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucia_proto::test_support::TestOwner;

    const MINUTE: Duration = Duration::from_secs(60);

    fn session(name: &'static str, number: u8, begun: Duration) -> Session {
        let owner = TestOwner::new(name, number);
        Session {
            owner: owner.id,
            name: name.parse().unwrap(),
            role: Role::Owner,
            passkey: "1a2b-3c4d-5e6f".parse().unwrap(),
            confirmed_by: None,
            from: [192, 0, 2, 1].into(),
            since: UnixTime::from_secs(1_795_982_400),
            begun,
            used: begun,
        }
    }

    fn owner(_: &Session) -> Option<Role> {
        Some(Role::Owner)
    }

    // spec: PG-5
    #[test]
    fn a_session_ends_when_idle_after_half_a_day_and_with_its_owners_standing() {
        let mut sessions = Sessions::default();
        sessions.begin("one", session("alice", 41, MINUTE));
        assert!(sessions.find("two", true, MINUTE, &owner).is_none());
        assert!(sessions.find("one", true, MINUTE * 30, &owner).is_some());
        // Looking on without using it does not keep it.
        assert!(sessions.goes_on("one", MINUTE * 59, &owner));
        assert!(sessions.find("one", false, MINUTE * 59, &owner).is_some());
        assert!(sessions.find("one", true, MINUTE * 60, &owner).is_none());
        assert!(sessions.find("one", true, MINUTE * 31, &owner).is_none(), "it is gone for good");
        // Used all the time it ends after twelve hours all the same.
        sessions.begin("one", session("alice", 41, MINUTE));
        let held = (1..).take_while(|n| sessions.find("one", true, MINUTE * (1 + n * 29), &owner).is_some()).count();
        assert_eq!(held, 12 * 60 / 29);
        for standing in [None, Some(Role::Viewer)] {
            sessions.begin("one", session("alice", 41, MINUTE));
            assert!(!sessions.goes_on("one", MINUTE, &|_| standing));
            sessions.expire(MINUTE, &|_| standing);
            assert!(sessions.find("one", true, MINUTE, &owner).is_none(), "{standing:?}");
        }
    }

    // spec: PG-6
    #[test]
    fn a_ninth_session_of_one_person_ends_the_one_that_was_not_used_for_longest() {
        let mut sessions = Sessions::default();
        sessions.begin("bobs", session("bob", 43, MINUTE));
        for n in 0..8 {
            sessions.begin(&format!("s{n}"), session("alice", 41, MINUTE));
        }
        assert!(sessions.find("s0", true, MINUTE * 2, &owner).is_some());
        sessions.begin("ninth", session("alice", 41, MINUTE * 3));
        assert_eq!(sessions.view(Some(&session("alice", 41, MINUTE).owner), None).len(), 8);
        assert!(sessions.goes_on("s0", MINUTE * 3, &owner) && sessions.goes_on("bobs", MINUTE * 3, &owner));
        let views = sessions.view(None, Some("ninth"));
        assert_eq!((views.len(), views.iter().filter(|view| view.current).count()), (9, 1));
        let code = views.iter().find(|view| view.current).unwrap().code.clone();
        assert_eq!(sessions.end(|own, _| *own == code), 1);
        assert!(!sessions.goes_on("ninth", MINUTE * 3, &owner));
        assert_eq!(sessions.end(|_, session| session.name.as_str() == "alice"), 7);
    }
}
