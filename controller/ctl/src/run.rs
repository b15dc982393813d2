//! One verb: asks the controller and says what came back.

use std::io;

use clap::CommandFactory as _;
use lucia_manual::Section;
use lucia_people::host_api::{OpenWindow, RenameForm, StatusView};
use lucia_people::owner_api::{DraftsView, OwnerEndpoint, RosterView};
use lucia_people::sign_in::{PasskeyView, PasskeysView, SessionsView};
use lucia_proto::api::Endpoint;
use lucia_proto::base::code::Code;
use lucia_proto::orders::OrderKind;
use lucia_proto::pki::key::VerificationCode;

use crate::args::{
    Admit, Args, Audit, AuditVerb, CloneVerb, ContextVerb, PasskeyVerb, Place, ReleaseLapse, SessionVerb, Sign,
    TokenVerb, Verb, Window,
};
use crate::client::{CallError, Client, Me};
use crate::context::{self, Config, ContextError};
use crate::failure::Failure;
use crate::nodes_named::Meant;
use crate::operator::Looked;
use crate::order::{self, OrderError};
use crate::roster::RosterProblem;
use crate::session::Session;
use crate::tell::{self, Out, note, write};
use crate::{audit, login, operator, orders_passkey, roster, show, sign, ssh_keys, token};

/// Does one verb.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(Failure::Start)?;
    match runtime.block_on(verb(args)) {
        // `luciactl events --follow | head` has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

async fn verb(args: Args) -> Result<(), Failure> {
    let out = Out::new(&args);
    let Args { place, verb, .. } = args;
    // What speaks to no controller, or makes the context first.
    let verb = match verb {
        Verb::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "luciactl", &mut text);
            return write(&text);
        }
        Verb::Man { into: Some(directory) } => {
            return lucia_manual::lay(Args::command(), Section::Commands, &directory)
                .map_err(|err| Failure::Pages { directory, err });
        }
        Verb::Man { into: None } => {
            return write(&lucia_manual::whole(Args::command(), Section::Commands).map_err(Failure::Output)?);
        }
        Verb::Context(verb) => return contexts(&place, out, verb),
        Verb::Audit(Audit { verb: Some(AuditVerb::Verify { file: Some(file), anchor }), .. }) => {
            return audit::verify_file(out, &file, anchor);
        }
        Verb::Login(args) => return login::login(&place, out, args).await,
        verb => verb,
    };
    let session = Session::open(&place)?;
    roster::settle(&session.client).await;
    match verb {
        Verb::Sign(Sign { code: Some(code), yes, .. }) => {
            sign::sign(&session.client, session.owner("signing")?, out, &code, yes).await
        }
        Verb::Sign(_) => {
            session.owner("signing")?;
            let mut view = sign::drafts(&session.client).await?;
            view.drafts.retain(|line| show::waits(line.state));
            drafts(&session.client, out, &view, show::waiting).await
        }
        Verb::Admit(args) => admit(&session.client, session.owner("to admit a machine")?, out, args).await,
        Verb::ReleaseLapse(args) => {
            release(&session.client, session.owner("to release a lapsed node from here")?, out, args).await
        }
        Verb::Keys(verb) => ssh_keys::order(&session.client, session.owner("to order SSH keys")?, out, verb).await,
        Verb::Whoami => whoami(&session, out).await,
        Verb::Passkey(PasskeyVerb::Orders { file, yes }) => {
            orders_passkey::ask(&session.client, session.owner("to ask for a passkey for orders")?, out, &file, yes)
                .await
        }
        Verb::Token(TokenVerb::Add(args)) => {
            session.owner("to make a token")?;
            token::add(&session.client, out, args).await
        }
        Verb::Passkey(PasskeyVerb::Approve { code, yes }) => {
            session.owner("to confirm a passkey")?;
            confirm(&session.client, out, &code, yes).await
        }
        verb => ask(&session.client, out, verb).await,
    }
}

/// Verbs that the operator and an owner say alike.
async fn ask(client: &Client, out: Out, verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Onboarding => out.onboarding(&client.call(Endpoint::Onboarding, None).await?),
        Verb::Window(Window::Open { minutes }) => {
            out.onboarding(&client.post(Endpoint::OpenWindow, None, &OpenWindow { minutes }).await?)
        }
        Verb::Window(Window::Close) => out.onboarding(&client.call(Endpoint::CloseWindow, None).await?),
        Verb::Approve(form) => out.onboarding(&operator::approve(client, form).await?),
        Verb::Reject(device) => out.onboarding(&operator::change(client, Endpoint::Reject, device.code).await?),
        Verb::Dismiss(device) => out.onboarding(&operator::change(client, Endpoint::Dismiss, device.code).await?),
        Verb::Restore(device) => out.onboarding(&operator::change(client, Endpoint::Restore, device.code).await?),
        Verb::Nodes => {
            let view = client.nodes().await?;
            out.say(&view, || show::nodes(&view, out.screen))
        }
        Verb::Node(node) => match operator::find_to_look(client, &node.node).await? {
            Looked::Device(device, now) => out.say(&device, || show::no_node(&device, now, out.screen)),
            Looked::Node(id) if node.watch => operator::watch(client, out, &id, node.every).await,
            Looked::Node(id) => {
                let view = client.call(Endpoint::Node, Some(&id)).await?;
                out.say(&view, || show::node(&view, out.screen))
            }
        },
        Verb::Rename(rename) => {
            let (id, _) = operator::find(client, &rename.node).await?;
            let view = client.post(Endpoint::Rename, Some(&id), &RenameForm { hostname: rename.name }).await?;
            out.say(&view, || show::node(&view, out.screen))
        }
        Verb::Remove(remove) => operator::remove(client, out, &remove.node, remove.yes).await,
        Verb::Clone(CloneVerb::Keep { node, start, yes }) => operator::keep(client, out, &node, start, yes).await,
        Verb::Clone(CloneVerb::Split { node, yes }) => operator::split(client, out, &node, yes).await,
        Verb::Events(wanted) => operator::events(client, out, &wanted).await,
        Verb::Status => {
            let view = client.call(Endpoint::Status, None).await?;
            out.say(&view, || show::status(&view, out.wide))
        }
        Verb::Owners => owners(client, out).await,
        Verb::Drafts => {
            let view = sign::drafts(client).await?;
            drafts(client, out, &view, show::drafts).await
        }
        Verb::Drop { code, yes } => discard(client, out, &code, yes).await,
        Verb::Audit(args) => audit::audit(client, out, args).await,
        Verb::Passkey(verb) => passkeys(client, out, verb).await,
        Verb::Session(verb) => sessions(client, out, verb).await,
        Verb::Token(verb) => token::token(client, out, verb).await,
        Verb::Why(node) => why(client, out, &node.node).await,
        Verb::Sign(_)
        | Verb::Admit(_)
        | Verb::ReleaseLapse(_)
        | Verb::Keys(_)
        | Verb::Whoami
        | Verb::Login(_)
        | Verb::Context(_)
        | Verb::Completions { .. }
        | Verb::Man { .. } => Ok(()),
    }
}

/// `drop`: what is lost is said before.
async fn discard(client: &Client, out: Out, code: &VerificationCode, yes: bool) -> Result<(), Failure> {
    if let Some(me) = client.me() {
        roster::signer(client, me, &[]).await?;
    }
    let view = sign::drafts(client).await?;
    let line = view.drafts.iter().find(|line| line.code == *code).ok_or_else(|| Failure::NoOrder(code.clone()))?;
    if let Some(why) = show::kept(line) {
        return Err(Failure::Kept { code: code.clone(), why });
    }
    if !yes {
        tell::ask(&show::dropping(line), "yes")?;
    }
    client.act(OwnerEndpoint::DropDraft, code, None::<&()>).await?;
    let view = sign::drafts(client).await?;
    drafts(client, out, &view, show::drafts).await
}

/// A list of orders; for a person with the names of who signed, carried out and refused.
async fn drafts(
    client: &Client,
    out: Out,
    view: &DraftsView,
    words: impl FnOnce(&DraftsView, &show::Called, Out) -> String,
) -> Result<(), Failure> {
    let mut names = show::Called::default();
    if !out.json {
        names.owners = roster::names(client, view.drafts.iter().flat_map(|draft| &draft.signers)).await;
        let told = view.drafts.iter().flat_map(|draft| &draft.outcomes).map(|outcome| &outcome.node_id);
        names.nodes.learn(client, told, false).await;
    }
    out.say(view, || words(view, &names, out))
}

/// `passkey approve`: the one way by which a passkey comes to sign anybody in.
async fn confirm(client: &Client, out: Out, code: &VerificationCode, yes: bool) -> Result<(), Failure> {
    if !yes {
        let sentence = format!("Whoever holds the passkey {code} signs in to the page under your name from now on.");
        tell::ask(&sentence, "yes")?;
    }
    let view: PasskeyView = client.look(OwnerEndpoint::ApprovePasskey, Some(code)).await?;
    let view = PasskeysView { passkeys: vec![view] };
    out.say(&view, || show::passkeys(&view, out.screen))
}

async fn passkeys(client: &Client, out: Out, verb: PasskeyVerb) -> Result<(), Failure> {
    let view: PasskeysView = match verb {
        PasskeyVerb::List => client.look(OwnerEndpoint::Passkeys, None).await?,
        PasskeyVerb::Remove { code, yes } => {
            if !yes {
                let sentence = format!("Passkey {code} signs nobody in any more, and the sessions it began end.");
                tell::ask(&sentence, "yes")?;
            }
            client.look(OwnerEndpoint::RemovePasskey, Some(&code)).await?
        }
        PasskeyVerb::Approve { code, yes } => return confirm(client, out, &code, yes).await,
        PasskeyVerb::Orders { .. } => return Err(Failure::OwnersOnly("to ask for a passkey for orders")),
    };
    out.say(&view, || show::passkeys(&view, out.screen))
}

async fn sessions(client: &Client, out: Out, verb: SessionVerb) -> Result<(), Failure> {
    let view: SessionsView = match verb {
        SessionVerb::List => client.look(OwnerEndpoint::Sessions, None).await?,
        SessionVerb::End { code, yes, .. } => {
            if !yes {
                let whose = if client.me().is_some() { "your session" } else { "session" };
                let sentence = match &code {
                    Some(code) => format!("This ends {whose} {code}: that browser has to sign in again."),
                    None => format!("This ends every {whose} of the page: each browser has to sign in again."),
                };
                tell::ask(&sentence, "yes")?;
            }
            let row = if code.is_some() { OwnerEndpoint::EndSession } else { OwnerEndpoint::EndSessions };
            client.look(row, code.as_ref()).await?
        }
    };
    out.say(&view, || show::sessions(&view, out.screen))
}

fn contexts(place: &Place, out: Out, verb: ContextVerb) -> Result<(), Failure> {
    let mut config = Config::load(place)?;
    match verb {
        ContextVerb::List => out.say(&config.contexts, || show::contexts(&config.contexts, out.screen)),
        ContextVerb::Use { name } => {
            config.get(&name)?;
            config.contexts.current = Some(name.clone());
            config.save()?;
            note(&format!("Context {name} is used from now on."));
            Ok(())
        }
        ContextVerb::Show { name } => {
            let name = name.or_else(|| place.context.clone()).or_else(|| config.contexts.current.clone());
            let name = name.ok_or(ContextError::NoneInUse)?;
            let context = config.get(&name)?;
            let entry = config.contexts.contexts.get(&name).cloned().unwrap_or_default();
            out.say(&entry, || show::context(&name, &context))
        }
        ContextVerb::Remove { name } => {
            let entry = config.contexts.contexts.remove(&name).ok_or_else(|| ContextError::Unknown(name.clone()))?;
            if config.contexts.current.as_ref() == Some(&name) {
                config.contexts.current = None;
            }
            config.save()?;
            note(&show::forgotten(&name, &entry, &config.directory(&name), config.path()));
            Ok(())
        }
    }
}

async fn admit(client: &Client, me: &Me, out: Out, args: Admit) -> Result<(), Failure> {
    roster::signer(client, me, &[OrderKind::Admit]).await?;
    let device = operator::device(client, args.code.clone()).await?;
    let fingerprint = tell::fingerprint(args.fingerprint, args.yes)?;
    operator::same_key(&device, &fingerprint)?;
    let task = device.task.as_ref();
    let hostname = match (args.hostname, task.map(|task| task.hostname.clone())) {
        (Some(given), Some(approved)) if given != approved => {
            return Err(OrderError::OtherHostname { given, approved }.into());
        }
        (Some(given), _) => given,
        // What nobody reads before it is signed must have been typed.
        (None, Some(approved)) if args.yes => return Err(OrderError::SayHostname(approved).into()),
        (None, Some(approved)) => approved,
        (None, None) => return Err(OrderError::NoHostname(args.code.to_string()).into()),
    };
    let replaces = match &args.replaces {
        Some(text) => Some(operator::former(client, text).await?.0),
        None => None,
    };
    // It bars a key for good: that is nothing to take over from an answer.
    if let Some(approved) = task.and_then(|task| task.replaces.clone())
        && replaces.as_ref() != Some(&approved)
    {
        return Err(OrderError::SayReplaces(approved).into());
    }
    let meant = args.replaces.as_deref().zip(replaces.as_ref()).map(|(text, id)| Meant::new(text, id));
    let draft = order::admit(me, fingerprint, hostname, replaces)?;
    let sentence = "Sign it only if the fingerprint was read from the machine's own screen.";
    sign::order(client, me, out, &draft, meant.as_slice(), sentence, args.yes).await
}

async fn release(client: &Client, me: &Me, out: Out, args: ReleaseLapse) -> Result<(), Failure> {
    roster::signer(client, me, &[OrderKind::ReleaseLapse]).await?;
    let node = operator::find_node(client, &args.node).await?;
    let node = node.ok_or_else(|| OrderError::NoNode(args.node.clone()))?;
    let view = operator::about(client, &node.node_id).await?;
    let draft = order::release(me, &view)?;
    let sentence = show::released(&view);
    let meant = [Meant::new(&args.node, &node.node_id)];
    sign::order(client, me, out, &draft, &meant, &sentence, args.yes).await
}

async fn owners(client: &Client, out: Out) -> Result<(), Failure> {
    let view: RosterView = client.look(OwnerEndpoint::Roster, None).await?;
    let roster = match client.me() {
        Some(me) => roster::newest(&view, me)?.roster().clone(),
        None => {
            note("The socket's context has no root: nothing below was checked. An owner's context checks it.");
            roster::unchecked(&view)?
        }
    };
    out.say(&roster, || show::owners(&roster, out.screen))
}

async fn whoami(session: &Session, out: Out) -> Result<(), Failure> {
    let (Some(me), context::Context::Owner(context)) = (session.client.me(), &session.context) else {
        // Whoever may not call is nobody there.
        let _: StatusView = session.client.call(Endpoint::Status, None).await?;
        return out.say(&"operator", || show::operator(&session.context));
    };
    let looked: Result<RosterView, CallError> = session.client.look(OwnerEndpoint::Roster, None).await;
    let roster = match looked {
        Ok(view) => match roster::newest(&view, me) {
            Err(RosterProblem::None) => None,
            roster => Some(roster?),
        },
        Err(error) if matches!(error.code(), Some(Code::ActorRequired | Code::NoRoster)) => None,
        Err(error) => return Err(error.into()),
    };
    let entry = roster.as_ref().and_then(|roster| roster.caller(&me.key.public().fingerprint()));
    let who = show::Who::new(session.name.as_ref(), context, me, entry.map(|(owner, _)| owner));
    out.say(&who, || who.words())
}

async fn why(client: &Client, out: Out, node: &str) -> Result<(), Failure> {
    let id = match operator::find_to_look(client, node).await? {
        Looked::Node(id) => id,
        Looked::Device(device, now) => return out.say(&device, || show::no_node(&device, now, out.screen)),
    };
    let view = operator::about(client, &id).await?;
    let drafts: Result<DraftsView, CallError> = client.look(OwnerEndpoint::Drafts, None).await;
    let drafts = match drafts {
        Ok(view) => view.drafts,
        // One that knows no owners has no orders either.
        Err(error) if matches!(error.code(), Some(Code::NotFound | Code::NoRoster)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let why = show::Why::new(&view, &drafts);
    out.say(&why, || why.words(out.screen))
}
