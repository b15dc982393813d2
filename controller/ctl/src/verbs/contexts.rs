//! Contexts: which there are, which one is used, and who one is there.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Args, Subcommand};
use lucia_people::calls::PeopleCall;
use lucia_people::host_api::StatusView;
use lucia_people::owner_api::RosterView;
use lucia_proto::base::code::Code;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::text::shown;
use lucia_proto::orders::owner::{self, Owner, OwnerId, OwnerName, PageOrigin, Role};
use lucia_proto::pki::key::{Fingerprint, VerificationCode};
use serde::Serialize;

use super::owners::role;
use crate::call::CallError;
use crate::client::Me;
use crate::context::{self, Config, ContextError, ContextName, Contexts, Entry, OwnerContext};
use crate::problem::Failure;
use crate::roster::{self, RosterProblem};
use crate::session::{At, Session};
use crate::table::{Screen, plain, table};
use crate::tell::note;
use crate::text::{compared, line};

/// Lists, chooses, shows and removes contexts.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  luciactl context list\n  luciactl context use home")]
pub(crate) enum Context {
    /// Shows every context; * is the one in use.
    #[command(after_help = "Example:\n  luciactl context list")]
    List,
    /// Uses this one from now on.
    #[command(after_help = "Example:\n  luciactl context use home")]
    Use {
        /// Which.
        name: ContextName,
    },
    /// Shows one: the one in use, unless named.
    #[command(after_help = "Examples:\n  luciactl context show\n  luciactl context show home")]
    Show {
        /// Which.
        name: Option<ContextName>,
    },
    /// Forgets one. The files of its key and root stay.
    #[command(after_help = "Example:\n  luciactl context remove home")]
    Remove {
        /// Which.
        name: ContextName,
    },
}

pub(super) async fn context(at: &At, asked: Context) -> Result<(), Failure> {
    let mut config = Config::load(&at.place)?;
    match asked {
        Context::List => at.out.say(&config.contexts, || contexts(&config.contexts, at.out.screen)),
        Context::Use { name } => {
            config.get(&name)?;
            config.contexts.current = Some(name.clone());
            config.save()?;
            note(&format!("Context {name} is used from now on."));
            Ok(())
        }
        Context::Show { name } => {
            let name = name.or_else(|| at.place.context.clone()).or_else(|| config.contexts.current.clone());
            let name = name.ok_or(ContextError::NoneInUse)?;
            let context = config.get(&name)?;
            let entry = config.contexts.contexts.get(&name).cloned().unwrap_or_default();
            at.out.say(&entry, || described(&name, &context))
        }
        Context::Remove { name } => {
            let entry = config.contexts.contexts.remove(&name).ok_or_else(|| ContextError::Unknown(name.clone()))?;
            if config.contexts.current.as_ref() == Some(&name) {
                config.contexts.current = None;
            }
            config.save()?;
            note(&forgotten(&name, &entry, &config.directory(&name), config.path()));
            Ok(())
        }
    }
}

/// Shows who the context says you are, and what the roster says of your key.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  luciactl whoami")]
pub(crate) struct Whoami;

pub(super) async fn whoami(session: &Session, _: Whoami) -> Result<(), Failure> {
    let (Some(me), context::Context::Owner(context)) = (session.client.me(), &session.context) else {
        // Whoever may not call is nobody there.
        let _: StatusView = session.client.call(PeopleCall::Status, &"").await?;
        return session.out.say(&"operator", || operator(&session.context));
    };
    let looked: Result<RosterView, CallError> = session.client.call(PeopleCall::Roster, &"").await;
    let roster = match looked {
        Ok(view) => match roster::newest(&view, me) {
            Err(RosterProblem::None) => None,
            roster => Some(roster?),
        },
        Err(error) if matches!(error.code(), Some(Code::ActorRequired | Code::NoRoster)) => None,
        Err(error) => return Err(error.into()),
    };
    let entry = roster.as_ref().and_then(|roster| roster.caller(&me.key.public().fingerprint()));
    let who = Who::new(session.name.as_ref(), context, me, entry.map(|(owner, _)| owner));
    session.out.say(&who, || who.words())
}

/// `context list`.
fn contexts(all: &Contexts, screen: Screen) -> String {
    if all.contexts.is_empty() {
        return "No contexts. luciactl login makes one; without any the controller's socket on this host is used.\n"
            .to_owned();
    }
    let rows: Vec<_> = all
        .contexts
        .iter()
        .map(|(name, entry)| {
            let mark = if all.current.as_ref() == Some(name) { "*" } else { "" };
            let socket = entry.socket.as_ref().map(|socket| shown(&socket.to_string_lossy()));
            let to = entry.controller.as_ref().map(PageOrigin::to_string).or(socket);
            let who = entry.name.as_ref().map_or_else(|| "operator".to_owned(), OwnerName::to_string);
            vec![plain(mark.to_owned()), plain(name), plain(who), plain(to.unwrap_or_default())]
        })
        .collect();
    table(&["", "CONTEXT", "AS", "CONTROLLER"], &rows, screen)
}

/// `context show`.
fn described(name: &ContextName, context: &context::Context) -> String {
    let mut out = format!("{name}\n");
    let path = |path: &Path| shown(&path.to_string_lossy());
    match context {
        context::Context::Socket(socket) => line(&mut out, "socket", &path(socket)),
        context::Context::Owner(OwnerContext { controller, root, name, key }) => {
            line(&mut out, "controller", controller.as_str());
            line(&mut out, "root", &path(root));
            line(&mut out, "name", name.as_str());
            line(&mut out, "key", &path(key));
        }
    }
    out
}

/// What stays of a context that was removed.
fn forgotten(name: &ContextName, entry: &Entry, directory: &Path, config: &Path) -> String {
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
fn operator(context: &context::Context) -> String {
    match context {
        context::Context::Socket(socket) => format!("The operator, over {}.\n", shown(&socket.to_string_lossy())),
        context::Context::Owner(owner) => format!("{} at {}.\n", owner.name, owner.controller),
    }
}

/// `whoami` of an owner.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Who {
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
    fn new(name: Option<&ContextName>, context: &OwnerContext, me: &Me, entry: Option<&Owner>) -> Self {
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
    fn words(&self) -> String {
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
