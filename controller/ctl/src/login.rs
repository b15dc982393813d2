//! Becoming an owner: a key that never leaves this machine, a place in the roster that is given on the worker's host.
//!
//! What is compared there is a code that both ends make from the key. The controller carries the application and decides
//! nothing: an answer with another code ends it, and only a roster that a worker of the pinned root's bundle signed says
//! that the key is in it.

use std::path::Path;
use std::time::Duration;

use lucia_daemon::clock;
use lucia_people::owner_api::{Applied, OwnerEndpoint, RosterView};
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::APPLICATION_LIFETIME;
use lucia_proto::base::text::shown;
use lucia_proto::orders::application::Application;
use lucia_proto::orders::owner::{self, OwnerName};
use lucia_proto::pki::key::{Fingerprint, NodeKey, VerificationCode};
use serde::Serialize;
use thiserror::Error;

use crate::args::{Login, Place};
use crate::client::{CallError, Client, Me};
use crate::context::{Config, ContextError, ContextName, Entry};
use crate::failure::Failure;
use crate::files;
use crate::owner_key::{self, OwnerKeyError};
use crate::passphrase::Source;
use crate::roster::{self, RosterProblem};
use crate::session;
use crate::show;
use crate::tell::{Out, note};

const ROOT: &str = "root.pem";
const KEY: &str = "owner.key";
/// Between two looks at the roster.
const PAUSE: Duration = Duration::from_secs(5);

/// Why somebody is no owner yet.
#[derive(Debug, Error)]
pub(crate) enum LoginError {
    /// The address is no name for a context.
    #[error("{0} is no name for a context; give one with --context NAME")]
    Name(String),
    /// There is another root of this context.
    #[error(
        "{file} is another root than the one given, so nothing was sent; give this fleet a context of its own with --context NAME"
    )]
    OtherRoot {
        /// Which file.
        file: String,
    },
    /// The controller answers about another key.
    #[error(
        "the controller answered with the code {sent}, and this key's is {own}. It is faulty or lies: approve neither, and \
         look at the way to it. No context was written"
    )]
    OtherCode {
        /// As computed here.
        own: VerificationCode,
        /// As it came.
        sent: VerificationCode,
    },
    /// The key that lies there is in the roster already, for somebody else.
    #[error(
        "the key that lies there is {held}'s and not {asked}'s: the one in the roster. Give {asked} a key of their own: another \
         --context NAME, or a --config FILE in a directory of its own"
    )]
    OtherName {
        /// Whose it is.
        held: OwnerName,
        /// Who was to log in.
        asked: OwnerName,
    },
    /// Nobody approved it.
    #[error("nobody approved the key in time; run the same luciactl login again to ask once more with the same key")]
    NotApproved,
}

/// What a program is told.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    context: &'a ContextName,
    verification_code: VerificationCode,
    fingerprint: Fingerprint,
    expires_at: lucia_proto::base::time::UnixTime,
}

/// `login`.
pub(crate) async fn login(place: &Place, out: Out, args: Login) -> Result<(), Failure> {
    if place.socket.is_some() {
        return Err(Failure::OwnersOnly("luciactl login, without --socket,"));
    }
    let root = session::root(&args.root)?;
    let mut config = Config::load(place)?;
    let name = match &place.context {
        Some(name) => name.clone(),
        None => args.controller.rp_id().parse().map_err(|_| LoginError::Name(args.controller.to_string()))?,
    };
    let entry = Entry {
        socket: None,
        controller: Some(args.controller.clone()),
        root: Some(format!("{name}/{ROOT}").into()),
        name: Some(args.name.clone()),
        key: Some(format!("{name}/{KEY}").into()),
    };
    if config.contexts.contexts.get(&name).is_some_and(|held| *held != entry) {
        return Err(ContextError::Taken(name).into());
    }
    let directory = config.directory(&name);
    files::directory(config.home()).map_err(ContextError::File)?;
    files::directory(&directory).map_err(ContextError::File)?;
    keep_root(&directory.join(ROOT), &root)?;
    let key_file = directory.join(KEY);
    let key = key(&key_file, place, args.no_passphrase)?;
    let me = Me::new(&args.controller, root, key, &key_file)?;

    let application = Application::sign(args.name.clone(), me.fleet(), clock::now(), &me.key);
    let applied: Applied = Client::apply(&me, &application).await?;
    let own = owner::code(me.key.public());
    if applied.verification_code != own {
        return Err(LoginError::OtherCode { own, sent: applied.verification_code }.into());
    }
    me.note_asked().map_err(ContextError::File)?;
    config.contexts.contexts.insert(name.clone(), entry);
    config.contexts.current = Some(name.clone());
    config.save()?;

    let fingerprint = me.key.public().fingerprint();
    let asked = Asked { context: &name, verification_code: own.clone(), fingerprint, expires_at: applied.expires_at };
    out.say(&asked, || show::asked(&name, &args.name, &own, &fingerprint, applied.expires_at))?;
    if args.no_wait { Ok(()) } else { wait(Client::Owner(Box::new(me)), &args.name).await }
}

/// Keeps the root beside the key: the file that was given may go.
fn keep_root(path: &Path, root: &lucia_proto::pki::chain::Root) -> Result<(), Failure> {
    match session::root(path) {
        Ok(held) if held == *root => Ok(()),
        Ok(_) => Err(LoginError::OtherRoot { file: shown(&path.to_string_lossy()) }.into()),
        Err(session::RootError::File(error)) if error.is_missing() => {
            files::create(path, &root.pem()).map_err(|error| ContextError::File(error).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// The key of before, or a new one.
fn key(path: &Path, place: &Place, no_passphrase: bool) -> Result<NodeKey, OwnerKeyError> {
    let source = Source::new(place.passphrase_file.as_deref());
    match owner_key::open(path, &source) {
        Err(OwnerKeyError::Missing(_)) => (),
        known => return known,
    }
    if no_passphrase {
        note(&format!(
            "Warning: the key gets no passphrase. Whoever reads {} can order in your name: this machine's root, a backup, \
             a thief of the disk.",
            shown(&path.to_string_lossy())
        ));
        return owner_key::make(path, None);
    }
    let passphrase = source.new_one("owner key").map_err(OwnerKeyError::Passphrase)?;
    owner_key::make(path, Some(&passphrase))
}

/// Waits until the key is in the roster.
async fn wait(client: Client, asked: &OwnerName) -> Result<(), Failure> {
    let Some(me) = client.me() else { return Ok(()) };
    note("Waiting for that. Ctrl-C ends the waiting and nothing else.");
    let most = APPLICATION_LIFETIME.as_secs() / PAUSE.as_secs();
    for _ in 0..most {
        let looked: Result<RosterView, CallError> = client.look(OwnerEndpoint::Roster, None).await;
        match looked {
            Ok(view) => {
                let roster = match roster::newest(&view, me) {
                    Ok(roster) => Some(roster),
                    Err(RosterProblem::None) => None,
                    Err(problem) => return Err(problem.into()),
                };
                if let Some((owner, _)) =
                    roster.as_ref().and_then(|roster| roster.caller(&me.key.public().fingerprint()))
                {
                    if owner.name != *asked {
                        return Err(LoginError::OtherName { held: owner.name.clone(), asked: asked.clone() }.into());
                    }
                    note(&show::approved(owner));
                    return Ok(());
                }
            }
            Err(error) if waits(&error) => (),
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(LoginError::NotApproved.into())
}

/// Whether this is what a controller says of whom it does not know yet, or will pass by itself.
fn waits(error: &CallError) -> bool {
    match error {
        CallError::Refused(body) => matches!(
            body.error.code,
            Code::ActorRequired | Code::NoRoster | Code::TooManyRequests | Code::Busy | Code::ChallengeRefused
        ),
        CallError::Unreachable { .. } | CallError::Silent => true,
        CallError::NoSocket { .. }
        | CallError::Closed
        | CallError::Stranger { .. }
        | CallError::Clock { .. }
        | CallError::Root(_)
        | CallError::Strange(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucia_proto::base::code::{ErrorBody, ErrorKind, ErrorText};

    // spec: LC-5
    #[test]
    fn only_what_passes_by_itself_is_waited_for() {
        let refused = |code| {
            let error = ErrorText { code, message: String::new(), kind: ErrorKind::InvalidRequestError };
            CallError::Refused(ErrorBody { error })
        };
        let passing = [Code::ActorRequired, Code::NoRoster, Code::TooManyRequests, Code::Busy, Code::ChallengeRefused];
        for code in Code::ALL {
            assert_eq!(waits(&refused(*code)), passing.contains(code), "{code:?}");
        }
        assert!(waits(&CallError::Silent));
        assert!(!waits(&CallError::Stranger { to: String::new(), name: String::new() }));
        assert!(!waits(&CallError::Strange(String::new())));
    }
}
