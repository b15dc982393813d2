//! Who may order, who asks to, and where one is signed in.

use askama::Template;
use lucia_people::sign_in::SessionView;
use lucia_people::token::TokenView;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::owner::{KeyUse, Role};
use lucia_proto::orders::roster::Roster;

use super::Frame;
use super::words::{ago, left, print_rows};
use crate::parts::Applicant;

/// The document.
#[derive(Template)]
#[template(path = "owners.html")]
pub(crate) struct Owners {
    frame: Frame,
    version: Option<u64>,
    owners: Vec<OwnerRow>,
    applicants: Vec<ApplicantRow>,
    sessions: Vec<SessionRow>,
    tokens: Vec<TokenRow>,
    page_kinds: Vec<&'static str>,
}

struct OwnerRow {
    name: String,
    role: &'static str,
    keys: Vec<(&'static str, String)>,
    /// It is who looks.
    you: bool,
}

struct ApplicantRow {
    name: String,
    passkey: bool,
    code: String,
    print: Vec<[String; 2]>,
    left: String,
}

/// An automation token of whoever looks.
struct TokenRow {
    code: String,
    name: String,
    by: String,
    scopes: String,
    left: String,
    used: String,
}

impl TokenRow {
    fn new(token: &TokenView, now: UnixTime) -> Self {
        Self {
            code: token.code.to_string(),
            name: token.name.to_string(),
            by: token.owner.as_ref().map_or_else(|| "somebody who left".to_owned(), ToString::to_string),
            scopes: token.scopes.all().iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", "),
            left: left(now, token.expires_at),
            used: token.used_at.map_or_else(|| "not since the controller's start".to_owned(), |at| ago(now, at)),
        }
    }
}

/// One of one's sessions.
pub(super) struct SessionRow {
    pub(super) code: String,
    pub(super) address: String,
    pub(super) since: String,
    pub(super) used: String,
    pub(super) left: String,
    pub(super) current: bool,
}

impl SessionRow {
    pub(super) fn new(session: &SessionView, frame: &Frame) -> Self {
        let now = frame.now;
        Self {
            code: session.code.to_string(),
            address: session.address.to_string(),
            since: ago(now, session.since),
            used: ago(now, session.used_at),
            left: left(now, session.expires_at),
            current: session.current,
        }
    }
}

/// A role in words.
const fn role(role: Role) -> &'static str {
    match role {
        Role::Viewer => "look",
        Role::Owner => "order and look",
    }
}

impl Owners {
    /// The document; `roster` is nothing while there is none.
    pub(crate) fn new(
        frame: Frame,
        roster: Option<&Roster>,
        applicants: &[Applicant],
        (sessions, tokens): (&[SessionView], &[TokenView]),
    ) -> Self {
        let key = |key: &lucia_proto::orders::owner::OwnerKey| {
            let code = lucia_proto::pki::key::NodePublicKey::from_pem(&key.public_key_pem)
                .map_or_else(|_| String::new(), |key| lucia_proto::orders::owner::code(&key).to_string());
            let words = match key.key_use {
                KeyUse::OwnerKey => "owner key",
                KeyUse::OrderPasskey => "passkey for orders",
            };
            (words, code)
        };
        let row = |owner: &lucia_proto::orders::owner::Owner| OwnerRow {
            name: owner.name.to_string(),
            role: role(owner.role),
            keys: owner.keys.iter().map(key).collect(),
            you: frame.who.as_ref().is_some_and(|who| who.name == owner.name),
        };
        let applicant = |applicant: &Applicant| ApplicantRow {
            name: applicant.name.to_string(),
            passkey: applicant.is_passkey,
            code: applicant.code.to_string(),
            print: print_rows(&applicant.fingerprint),
            left: left(frame.now, applicant.until),
        };
        Self {
            version: roster.map(|roster| roster.version),
            owners: roster.map(|roster| roster.owners.iter().map(row).collect()).unwrap_or_default(),
            applicants: applicants.iter().map(applicant).collect(),
            sessions: sessions.iter().map(|session| SessionRow::new(session, &frame)).collect(),
            tokens: tokens.iter().map(|token| TokenRow::new(token, frame.now)).collect(),
            page_kinds: roster
                .map(|roster| roster.page_kinds.iter().map(|kind| kind.as_str()).collect())
                .unwrap_or_default(),
            frame,
        }
    }
}
