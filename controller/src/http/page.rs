//! The page: which document answers which path, for whom, and under which headers.

use std::collections::BTreeMap;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use lucia_proto::code::Code;
use lucia_proto::host_api::{EVENTS_PER_ANSWER_MAX, EventLine};
use lucia_proto::ids::NodeId;
use lucia_proto::intent::{Body, IntentKind, Terms};
use lucia_proto::names::AccountName;
use lucia_proto::owner::{PageOrigin, Role};
use lucia_proto::owner_api::DraftState;
use lucia_proto::roster::VerifiedRoster;

use super::error::ApiError;
use super::route::Target;
use super::{Answer, Edge, blocking, who};
use crate::page::{
    Approve, Audit, Drafting, Frame, Keys, OrderedKeys, Owners, Passkeys, SCRIPT, STYLE, Server, Servers, SignIn,
    Trouble, Who, Window, render,
};
use crate::refusal::{Refusal, chain};
use crate::state::{By, Controller, InSession};

/// Events of one server that its document shows.
const EVENTS_OF_ONE: usize = 20;
/// Entries that the audit's document shows.
const ENTRIES_SHOWN: u64 = 200;
/// With this header the page asks by itself, and nobody is kept signed in by that.
pub(super) const BACKGROUND: &str = "lucia-background";

/// A document or a file of the page. A closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Servers,
    Server,
    Approve,
    Keys,
    Owners,
    Audit,
    Window,
    SignIn,
    Passkeys,
    Style,
    Script,
}

impl Page {
    pub(super) const ALL: &'static [Self] = &[
        Self::Servers,
        Self::Server,
        Self::Approve,
        Self::Keys,
        Self::Owners,
        Self::Audit,
        Self::Window,
        Self::SignIn,
        Self::Passkeys,
        Self::Style,
        Self::Script,
    ];

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Servers => "/",
            Self::Server => "/servers/{id}",
            Self::Approve => "/devices/{id}",
            Self::Keys => "/keys",
            Self::Owners => "/owners",
            Self::Audit => "/audit",
            Self::Window => "/window",
            Self::SignIn => "/sign-in",
            Self::Passkeys => "/passkeys",
            Self::Style => "/assets/lucia.css",
            Self::Script => "/assets/lucia.js",
        }
    }

    /// Whether it is there before signing in.
    const fn is_for_anyone(self) -> bool {
        match self {
            Self::SignIn | Self::Passkeys | Self::Style | Self::Script => true,
            Self::Servers | Self::Server | Self::Approve | Self::Keys | Self::Owners | Self::Audit | Self::Window => {
                false
            }
        }
    }
}

/// What a browser is told about every document and file: nothing from elsewhere, nothing inline, in no frame.
const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action \
         'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "permissions-policy",
        "camera=(), microphone=(), geolocation=(), payment=(), usb=(), publickey-credentials-get=(self), \
         publickey-credentials-create=(self)",
    ),
];

fn answer_of(status: StatusCode, kind: &'static str, body: &str) -> Answer {
    let mut answer = Answer { status, body: body.as_bytes().to_vec(), headers: Vec::new() };
    for (name, value) in HEADERS {
        answer = answer.header(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    answer.header(header::CONTENT_TYPE, HeaderValue::from_static(kind))
}

fn html(status: StatusCode, body: &str) -> Answer {
    answer_of(status, "text/html; charset=utf-8", body)
}

/// A file: the same for everybody and soon asked for again.
fn file(kind: &'static str, body: &str) -> Answer {
    answer_of(StatusCode::OK, kind, body).header(header::CACHE_CONTROL, HeaderValue::from_static("max-age=60"))
}

fn elsewhere(path: &'static str) -> Answer {
    html(StatusCode::SEE_OTHER, "").header(header::LOCATION, HeaderValue::from_static(path))
}

/// Answers a document or file.
///
/// # Errors
/// `not_found` where there is no page; a template of ours that cannot be filled in.
pub(super) async fn answer(edge: &Edge, page: Page, target: &Target, headers: &HeaderMap) -> Result<Answer, ApiError> {
    match page {
        Page::Style => return Ok(file("text/css; charset=utf-8", STYLE)),
        Page::Script => return Ok(file("text/javascript; charset=utf-8", SCRIPT)),
        Page::Servers
        | Page::Server
        | Page::Approve
        | Page::Keys
        | Page::Owners
        | Page::Audit
        | Page::Window
        | Page::SignIn
        | Page::Passkeys => {}
    }
    let message = "this controller has no page: names in its settings has no DNS name, and page-origin is not set";
    let origin = edge.shared.origin.clone().ok_or_else(|| ApiError::new(Code::NotFound, message))?;
    let token = who::token(headers).map(str::to_owned);
    let uses = !headers.contains_key(BACKGROUND);
    let session = token.as_deref().and_then(|token| edge.shared.controller.session(token, uses).ok());
    if session.is_none() && !page.is_for_anyone() {
        return Ok(elsewhere("/sign-in"));
    }
    let asked = Asked { page, id: target.id.clone(), session, token, origin };
    let who = asked.who();
    match blocking(edge, move |controller| asked.document(controller)).await {
        Ok(text) => Ok(html(StatusCode::OK, &text)),
        Err(error) => {
            let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let frame = Frame::new("Not there", "", who, edge.shared.controller.now());
            let text = render(&Trouble::new(frame, &error.message));
            text.map(|text| html(status, &text)).map_err(|_| error)
        }
    }
}

/// A document that somebody asked for.
struct Asked {
    page: Page,
    id: Option<NodeId>,
    session: Option<InSession>,
    token: Option<String>,
    origin: PageOrigin,
}

impl Asked {
    fn who(&self) -> Option<Who> {
        self.session.as_ref().map(|session| Who { name: session.name.clone(), role: session.role })
    }

    fn by(&self) -> Option<By> {
        let session = self.session.as_ref()?;
        // Only whose it is decides here; where it came from is for changes.
        let from = std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        Some(By::Owner { id: session.id.clone(), name: session.name.clone(), from })
    }

    /// Where orders may be drafted: by an owner, in a fleet with a roster.
    fn drafting(&self, controller: &Controller) -> Option<Drafting> {
        let session = self.session.as_ref().filter(|session| session.role >= Role::Owner)?;
        Some(Drafting { fleet: controller.fleet(), owner: session.id.clone() })
    }

    fn document(&self, controller: &Controller) -> Result<String, Refusal> {
        let frame = |title: &str| Frame::new(title, self.page.path(), self.who(), controller.now());
        let id = || self.id.clone().ok_or_else(|| Refusal::new(Code::NotFound, "There is nothing at this path."));
        let text = match self.page {
            Page::Servers => {
                let (onboarding, nodes) = (controller.onboarding(), controller.servers());
                render(&Servers::new(frame("Servers"), &onboarding, &nodes))
            }
            Page::Server => {
                let id = id()?;
                let view = controller.node(&id)?;
                let mut events = newest(controller);
                events.retain(|event| event.device_id.as_ref() == Some(&id));
                events.truncate(EVENTS_OF_ONE);
                let title = view.node.hostname.to_string();
                render(&Server::new(frame(&title), &view, &events, self.drafting(controller)))
            }
            Page::Approve => {
                let id = id()?;
                let unknown = || Refusal::new(Code::DeviceNotFound, "This machine does not wait for a decision.");
                let onboarding = controller.onboarding();
                let device = onboarding.devices.iter().find(|device| device.device_id == id).ok_or_else(unknown)?;
                let title = format!("Approve {}", device.verification_code);
                render(&Approve::new(frame(&title), device, self.drafting(controller)))
            }
            Page::Keys => {
                render(&Keys::new(frame("SSH keys"), &ordered_keys(controller)?, &controller.ssh_keys().keys))
            }
            Page::Owners => render(&Owners::new(
                frame("Owners"),
                controller.verified_roster().as_deref().map(VerifiedRoster::roster),
            )),
            Page::Audit => {
                let last = controller.audit(u64::MAX, 1)?.last_sequence;
                let entries = controller.audit(last.saturating_sub(ENTRIES_SHOWN), EVENTS_PER_ANSWER_MAX)?.entries;
                render(&Audit::new(frame("Audit"), &entries))
            }
            Page::Window => render(&Window::new(frame("Discovery window"), &controller.onboarding())),
            Page::SignIn => render(&SignIn::new(frame("Sign in"), self.origin.rp_id())),
            Page::Passkeys => {
                let by = self.by();
                let passkeys = by.as_ref().map(|by| controller.passkeys(by).passkeys).unwrap_or_default();
                let sessions =
                    by.as_ref().map(|by| controller.sessions(by, self.token.as_deref()).sessions).unwrap_or_default();
                render(&Passkeys::new(frame("Passkeys"), self.origin.rp_id(), &passkeys, &sessions))
            }
            // Answered before.
            Page::Style | Page::Script => return Err(Refusal::new(Code::NotFound, "There is nothing at this path.")),
        };
        text.map_err(|error| Refusal::logged(Code::Busy, "The page cannot be written.", chain(&error)))
    }
}

/// The newest order about the keys of each account, by account: of the last hundred orders.
fn ordered_keys(controller: &Controller) -> Result<Vec<OrderedKeys>, Refusal> {
    let mut newest: BTreeMap<AccountName, (u64, OrderedKeys)> = BTreeMap::new();
    for line in controller.drafts(None)?.drafts {
        let given = match line.state {
            DraftState::Signed | DraftState::Done | DraftState::Refused => true,
            DraftState::Drafted | DraftState::Expired => false,
        };
        if line.kind != IntentKind::SshKey || !given {
            continue;
        }
        let view = controller.draft(&line.code)?;
        let Ok(read) = view.draft.read() else { continue };
        let (Body::SshKey(keys), Terms::State { revision, .. }) = (read.body(), &read.intent().terms) else { continue };
        let held = newest.get(&keys.account).map_or(0, |(held, _)| *held);
        if *revision > held {
            let order = OrderedKeys {
                keys: keys.clone(),
                nodes: read.intent().nodes.len(),
                code: line.code.clone(),
                state: line.state,
            };
            newest.insert(keys.account.clone(), (*revision, order));
        }
    }
    Ok(newest.into_values().map(|(_, order)| order).collect())
}

/// The newest events there are, newest first.
fn newest(controller: &Controller) -> Vec<EventLine> {
    let last = controller.events(u64::MAX, 1).last_sequence;
    let most = u64::try_from(EVENTS_PER_ANSWER_MAX).unwrap_or(u64::MAX);
    let mut events = controller.events(last.saturating_sub(most), EVENTS_PER_ANSWER_MAX).events;
    events.reverse();
    events
}
