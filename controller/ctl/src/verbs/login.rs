//! Becoming an owner: a key that never leaves this machine, a place in the roster that is given on the worker's host.
//!
//! What is compared there is a code that both ends make from the key. The controller carries the application and decides
//! nothing: an answer with another code ends it, and only a roster that a worker of the pinned root's bundle signed says
//! that the key is in it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use lucia_daemon::clock;
use lucia_people::calls::PeopleCall;
use lucia_people::owner_api::RosterView;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::APPLICATION_LIFETIME;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::application::Application;
use lucia_proto::orders::owner::{self, Owner, OwnerName, PageOrigin};
use lucia_proto::pki::chain::Root;
use lucia_proto::pki::key::{Fingerprint, NodeKey, VerificationCode};
use serde::Serialize;

use super::owners::role;
use crate::apply::apply;
use crate::call::CallError;
use crate::client::{Client, Me};
use crate::context::{Config, ContextError, ContextName, Entry, Place};
use crate::files;
use crate::owner_key::{self, OwnerKeyError};
use crate::passphrase::Source;
use crate::problem::{FAILED, Failure, problems};
use crate::roster::{self, RosterProblem};
use crate::session::{self, At, SessionError};
use crate::tell::note;
use crate::text::{compared, line};

const ROOT: &str = "root.pem";
const KEY: &str = "owner.key";
/// Between two looks at the roster.
const PAUSE: Duration = Duration::from_secs(5);

problems! {
    /// Why somebody is no owner yet.
    pub(crate) enum LoginError {
        Name(controller: String) = "", FAILED, ["{controller} is no name for a context"], ["give one with --context NAME"];
        OtherRoot(file: String) = "root_mismatch", FAILED, ["{file} is another root than the one given, so nothing was sent"],
            ["give this fleet a context of its own with --context NAME"];
        OtherName(held: OwnerName, asked: OwnerName) = "name_mismatch", FAILED,
            ["the key that lies there is {held}'s and not {asked}'s: the one in the roster."],
            ["Give {asked} a key of their own: another --context NAME, or a --config FILE in a directory of its own"];
        NotApproved = "not_approved", FAILED, ["nobody approved the key in time"],
            ["run the same luciactl login again to ask once more with the same key"];
    }
}

/// Makes an owner key on this machine, asks for a place in the roster, and writes a context.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  luciactl login --controller https://controller.lucia.home.arpa:8443 --root root.pem --name alice

The root comes from whoever runs the worker, by a way you trust: it decides who is
believed. The key never leaves this machine. Run the same command again to ask once
more with the same key.")]
pub(crate) struct Login {
    /// Where the controller is, by the name in its certificate: https://NAME or https://NAME:PORT.
    #[arg(long, value_name = "URL", value_parser = origin)]
    controller: PageOrigin,
    /// The fleet's root certificate, PEM. It is copied beside the contexts.
    #[arg(long, value_name = "FILE")]
    root: PathBuf,
    /// What people are to call you.
    #[arg(long)]
    name: OwnerName,
    /// Keeps the key without a passphrase: whoever reads its file is you.
    #[arg(long, conflicts_with = "passphrase_file")]
    no_passphrase: bool,
    /// Does not wait until the key is approved.
    #[arg(long)]
    no_wait: bool,
}

/// As a person types it: a slash at its end, and 443, mean nothing.
fn origin(text: &str) -> Result<PageOrigin, String> {
    let plain = text.strip_suffix('/').unwrap_or(text);
    let plain = plain.strip_suffix(":443").unwrap_or(plain);
    plain
        .parse()
        .map_err(|_| "https:// and a lower-case name, such as https://controller.lucia.home.arpa:8443".to_owned())
}

/// What a program is told.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    context: &'a ContextName,
    verification_code: VerificationCode,
    fingerprint: Fingerprint,
    expires_at: UnixTime,
}

pub(super) async fn login(at: &At, args: Login) -> Result<(), Failure> {
    let (place, out) = (&at.place, at.out);
    if place.socket.is_some() {
        return Err(SessionError::OwnersOnly("luciactl login, without --socket,").into());
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
    let own = owner::code(me.key.public());
    let applied = apply(&me, &application, &own).await?;
    me.note_asked().map_err(ContextError::File)?;
    config.contexts.contexts.insert(name.clone(), entry);
    config.contexts.current = Some(name.clone());
    config.save()?;

    let fingerprint = me.key.public().fingerprint();
    let asked = Asked { context: &name, verification_code: own.clone(), fingerprint, expires_at: applied.expires_at };
    out.say(&asked, || asked_for(&name, &args.name, &own, &fingerprint, applied.expires_at))?;
    if args.no_wait { Ok(()) } else { wait(Client::Owner(Box::new(me)), &args.name).await }
}

/// Keeps the root beside the key: the file that was given may go.
fn keep_root(path: &Path, root: &Root) -> Result<(), Failure> {
    match session::root(path) {
        Ok(held) if held == *root => Ok(()),
        Ok(_) => Err(LoginError::OtherRoot(files::name(path)).into()),
        Err(SessionError::RootFile(error)) if error.is_missing() => {
            files::create(path, &root.pem()).map_err(|error| ContextError::File(error).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// The key of before, or a new one.
fn key(path: &Path, place: &Place, no_passphrase: bool) -> Result<NodeKey, OwnerKeyError> {
    let source = Source(place.passphrase_file.as_deref());
    match owner_key::open(path, source) {
        Err(OwnerKeyError::Missing(_)) => (),
        known => return known,
    }
    if no_passphrase {
        note(&format!(
            "Warning: the key gets no passphrase. Whoever reads {} can order in your name: this machine's root, a backup, \
             a thief of the disk.",
            files::name(path)
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
        let looked: Result<RosterView, CallError> = client.call(PeopleCall::Roster, &"").await;
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
                        return Err(LoginError::OtherName(owner.name.clone(), asked.clone()).into());
                    }
                    note(&approved(owner));
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
        CallError::Unreachable(..) | CallError::Silent => true,
        CallError::NoSocket(..)
        | CallError::Closed
        | CallError::Stranger(..)
        | CallError::Clock(_)
        | CallError::Root(_)
        | CallError::Strange(_) => false,
    }
}

/// What to do once a key has asked for its place.
fn asked_for(
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
fn approved(owner: &Owner) -> String {
    format!("You are in the roster as {}, {}. luciactl nodes shows what there is.", owner.name, role(owner.role))
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
        assert!(!waits(&CallError::Stranger(String::new(), String::new())));
        assert!(!waits(&CallError::Strange(String::new())));
    }

    #[test]
    fn an_address_is_a_name_over_https() {
        for (text, want) in [
            ("https://controller.test", Some("https://controller.test")),
            ("https://controller.test/", Some("https://controller.test")),
            ("https://controller.test:443", Some("https://controller.test")),
            ("https://controller.test:8443/", Some("https://controller.test:8443")),
            ("http://controller.test", None),
            ("https://a@controller.test", None),
            ("https://controller.test/path", None),
            ("controller.test", None),
        ] {
            assert_eq!(origin(text).ok().as_ref().map(PageOrigin::as_str), want, "{text}");
        }
    }
}
