//! Who may order, and who one is.

use std::fmt::Write as _;
use std::path::Path;

use lucia_people::sign_in::{PasskeyView, PasskeysView, SessionView, SessionsView};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::text::shown;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::owner::{self, KeyUse, Owner, OwnerId, OwnerName, PageOrigin, Role};
use lucia_proto::orders::roster::Roster;
use lucia_proto::orders::{OrderKind, Rule};
use lucia_proto::pki::key::{Fingerprint, NodePublicKey, VerificationCode};
use serde::Serialize;

use super::{compared, line, span};
use crate::client::Me;
use crate::context::{Context, ContextName, Contexts, Entry, OwnerContext};
use crate::table::{Screen, Tone, table};

const fn role(role: Role) -> &'static str {
    match role {
        Role::Owner => "owner",
        Role::Viewer => "viewer",
    }
}

/// `session`.
pub(crate) fn sessions(view: &SessionsView, screen: Screen) -> String {
    if view.sessions.is_empty() {
        return "Nobody is signed in to the page.\n".to_owned();
    }
    let now = view.server_time;
    let plain = |text: String| (text, Tone::Plain);
    let row = |session: &SessionView| {
        vec![
            plain(session.code.to_string()),
            plain(session.owner.to_string()),
            plain(session.address.to_string()),
            plain(format!("{} ago", span(now.since(session.used_at)))),
            plain(format!("in {}", span(session.expires_at.since(now)))),
            plain(session.passkey.to_string()),
        ]
    };
    let rows: Vec<_> = view.sessions.iter().map(row).collect();
    table(&["CODE", "OWNER", "FROM", "USED", "ENDS", "PASSKEY"], &rows, screen)
}

/// `passkey list`.
pub(crate) fn passkeys(view: &PasskeysView, screen: Screen) -> String {
    if view.passkeys.is_empty() {
        return "There is none. Make one on the page, under Passkeys, then: luciactl passkey approve CODE\n".to_owned();
    }
    let plain = |text: String| (text, Tone::Plain);
    let row = |passkey: &PasskeyView| {
        let owner = passkey.owner.as_ref().map_or_else(|| "nobody of the roster".to_owned(), ToString::to_string);
        let tone = if passkey.owner.is_some() { Tone::Plain } else { Tone::Bad };
        let (code, label) = (passkey.code.to_string(), shown(passkey.label.as_str()));
        vec![plain(code), (owner, tone), plain(label), plain(passkey.added_at.to_string())]
    };
    let rows: Vec<_> = view.passkeys.iter().map(row).collect();
    table(&["CODE", "SIGNS IN", "NAME", "SINCE"], &rows, screen)
}

/// `owners`.
pub(crate) fn owners(roster: &Roster, screen: Screen) -> String {
    let mut out = format!("Roster {} of {}\nFleet of root {}\n\n", roster.version, roster.issued_at, roster.fleet);
    if roster.owners.is_empty() {
        out.push_str("Nobody is in it. luciactl login asks for a place.\n");
        return out;
    }
    let plain = |text: String| (text, Tone::Plain);
    let mut rows = Vec::new();
    for owner in &roster.owners {
        for key in &owner.keys {
            let public = NodePublicKey::from_pem(&key.public_key_pem).map(|key| key.fingerprint()).ok();
            let text = |show: &dyn Fn(&Fingerprint) -> String| public.as_ref().map_or_else(|| "?".to_owned(), show);
            let key_use = match key.key_use {
                KeyUse::OwnerKey => "owner key",
                KeyUse::OrderPasskey => "passkey for orders",
            };
            rows.push(vec![
                plain(owner.name.to_string()),
                (role(owner.role).to_owned(), if owner.role == Role::Owner { Tone::Good } else { Tone::Plain }),
                plain(text(&|key| key.verification_code().to_string())),
                plain(key_use.to_owned()),
                plain(text(&Fingerprint::to_string)),
                plain(owner.id.to_string()),
            ]);
        }
    }
    out.push_str(&table(&["NAME", "ROLE", "CODE", "USE", "FINGERPRINT", "OWNER"], &rows, screen));
    for (rule, what) in [(Rule::TwoOwners, "Ordered by two owners"), (Rule::Forbid, "Ordered by nobody")] {
        let kinds = OrderKind::ALL.iter().filter(|kind| roster.policy.rule(**kind) == rule);
        let kinds: Vec<_> = kinds.map(|kind| kind.as_str()).collect();
        if !kinds.is_empty() {
            let _ = writeln!(out, "\n{what}: {}", kinds.join(", "));
        }
    }
    if !roster.page_kinds.is_empty() {
        let kinds: Vec<_> = roster.page_kinds.iter().map(|kind| kind.as_str()).collect();
        let _ = writeln!(out, "\nSigned on the page as well: {}", kinds.join(", "));
    }
    out
}

/// What to do once a key has asked for its place.
pub(crate) fn asked(
    context: &ContextName,
    name: &OwnerName,
    code: &VerificationCode,
    key: &Fingerprint,
    until: UnixTime,
) -> String {
    let mut out = format!("Your owner key was made here and stays here. Context {context} is used from now on.\n");
    line(&mut out, "name", name.as_str());
    line(&mut out, "code", code.as_str());
    compared(&mut out, "fingerprint", key);
    line(&mut out, "waits until", &until.to_string());
    let _ = writeln!(
        out,
        "\nTell code and fingerprint to whoever runs the worker, by a way you trust. On the worker's host:\n\n  \
         lucia-enrollment-worker owner approve {code} --fingerprint {key}\n"
    );
    out
}

/// The end of the waiting.
pub(crate) fn approved(owner: &Owner) -> String {
    format!("You are in the roster as {}, {}. luciactl nodes shows what there is.", owner.name, role(owner.role))
}

/// `context list`.
pub(crate) fn contexts(all: &Contexts, screen: Screen) -> String {
    if all.contexts.is_empty() {
        return "No contexts. luciactl login makes one; without any the controller's socket on this host is used.\n"
            .to_owned();
    }
    let plain = |text: String| (text, Tone::Plain);
    let rows: Vec<_> = all
        .contexts
        .iter()
        .map(|(name, entry)| {
            let mark = if all.current.as_ref() == Some(name) { "*" } else { "" };
            let socket = entry.socket.as_ref().map(|socket| shown(&socket.to_string_lossy()));
            let to = entry.controller.as_ref().map(PageOrigin::to_string).or(socket);
            let who = entry.name.as_ref().map_or_else(|| "operator".to_owned(), OwnerName::to_string);
            vec![plain(mark.to_owned()), plain(name.to_string()), plain(who), plain(to.unwrap_or_default())]
        })
        .collect();
    table(&["", "CONTEXT", "AS", "CONTROLLER"], &rows, screen)
}

/// `context show`.
pub(crate) fn context(name: &ContextName, context: &Context) -> String {
    let mut out = format!("{name}\n");
    let path = |path: &Path| shown(&path.to_string_lossy());
    match context {
        Context::Socket(socket) => line(&mut out, "socket", &path(socket)),
        Context::Owner(OwnerContext { controller, root, name, key }) => {
            line(&mut out, "controller", controller.as_str());
            line(&mut out, "root", &path(root));
            line(&mut out, "name", name.as_str());
            line(&mut out, "key", &path(key));
        }
    }
    out
}

/// What stays of a context that was removed.
pub(crate) fn forgotten(name: &ContextName, entry: &Entry, directory: &Path, config: &Path) -> String {
    let mut out = format!("Context {name} is no more in {}.", shown(&config.to_string_lossy()));
    if entry.key.is_some() {
        let _ = write!(
            out,
            " Key and root are still in {}: remove them if nobody needs them, and have the key taken out of the roster on \
             the worker's host.",
            shown(&directory.to_string_lossy())
        );
    }
    out
}

/// `whoami` of the operator.
pub(crate) fn operator(context: &Context) -> String {
    match context {
        Context::Socket(socket) => format!("The operator, over {}.\n", shown(&socket.to_string_lossy())),
        Context::Owner(owner) => format!("{} at {}.\n", owner.name, owner.controller),
    }
}

/// `whoami` of an owner.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Who {
    context: Option<ContextName>,
    controller: PageOrigin,
    fleet: Digest,
    name: OwnerName,
    owner: OwnerId,
    verification_code: VerificationCode,
    fingerprint: Fingerprint,
    role: Option<Role>,
}

impl Who {
    /// Whom the context has, and whom the roster has under this key.
    pub(crate) fn new(name: Option<&ContextName>, context: &OwnerContext, me: &Me, entry: Option<&Owner>) -> Self {
        Self {
            context: name.cloned(),
            controller: context.controller.clone(),
            fleet: me.fleet(),
            name: entry.map_or_else(|| context.name.clone(), |owner| owner.name.clone()),
            owner: me.id().clone(),
            verification_code: owner::code(me.key.public()),
            fingerprint: me.key.public().fingerprint(),
            role: entry.map(|owner| owner.role),
        }
    }

    /// For a person.
    pub(crate) fn words(&self) -> String {
        let mut out = format!("{}\n", self.name);
        let place = match self.role {
            Some(place) => format!("{} by the roster", role(place)),
            None => "not in the roster: luciactl login asks for a place, the worker's host gives it".to_owned(),
        };
        line(&mut out, "role", &place);
        line(&mut out, "code", self.verification_code.as_str());
        compared(&mut out, "fingerprint", &self.fingerprint);
        line(&mut out, "owner", self.owner.as_str());
        if let Some(context) = &self.context {
            line(&mut out, "context", context.as_str());
        }
        line(&mut out, "controller", self.controller.as_str());
        line(&mut out, "fleet", &format!("of root {}", self.fleet));
        out
    }
}
