//! One verb: asks the controller and says what came back.

use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory as _;
use lucia_proto::api::Endpoint;
use lucia_proto::host_api::{
    ApproveForm, DeviceView, ERASE, EventsView, KeepForm, NodeView, NodesView, OnboardingView, OpenWindow,
    RemoveSshKey, SshKeyForm, SshKeysView,
};
use lucia_proto::ids::{NodeId, StartId};
use lucia_proto::json;
use lucia_proto::key::VerificationCode;
use lucia_proto::limits::SSH_KEY_LINE_MAX;
use lucia_proto::ssh_key::SshKey;
use serde::Serialize;
use thiserror::Error;

use crate::args::{Approve, Args, CloneVerb, Events, KeysVerb, Verb, Window};
use crate::client::{CallError, Client};
use crate::show;
use crate::table::Screen;

/// It was not asked properly.
pub(crate) const USAGE: u8 = 64;

/// Why a verb did not do its work.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The controller did not do it.
    #[error("{0}")]
    Call(CallError),
    /// No such device.
    #[error("no device has the code {0}; luciactl onboarding shows those there are")]
    NoDevice(VerificationCode),
    /// No such node.
    #[error("no node or device is {}; luciactl nodes and luciactl onboarding show those there are", lucia_proto::text::shown(.0))]
    NoNode(String),
    /// The fingerprint is another one.
    #[error(
        "the fingerprint is not this device's, so nothing was approved.\n  given      {given}\n  device has {found}\n\
         Look at the machine's own screen: if it shows the given one, another machine pretends to be it."
    )]
    OtherFingerprint {
        /// As typed.
        given: String,
        /// As the controller has it.
        found: String,
    },
    /// There is nothing to decide.
    #[error("the identity of {} is not frozen: it was not seen twice, so there is nothing to decide", lucia_proto::text::shown(.0))]
    NotFrozen(String),
    /// Nobody has this start.
    #[error("no holder of {} has the start {start}; luciactl node {} shows those there are", lucia_proto::text::shown(.node), lucia_proto::text::shown(.node))]
    NoHolder {
        /// Which node.
        node: String,
        /// As typed.
        start: StartId,
    },
    /// The file holds no key that nodes take.
    #[error("{}: {why}", lucia_proto::text::shown(&.file.to_string_lossy()))]
    KeyFile {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The question was answered otherwise.
    #[error("not confirmed, nothing was done")]
    NotConfirmed,
    /// There is nobody to ask.
    #[error("this needs a confirmation and there is no terminal to ask on: add --yes")]
    NobodyToAsk,
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// The runtime.
    #[error("cannot start: {0}")]
    Start(io::Error),
}

impl Failure {
    /// The sentence for the person.
    pub(crate) fn sentence(&self) -> String {
        self.to_string()
    }

    /// The exit code.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Call(CallError::Unreachable { .. } | CallError::Closed | CallError::Silent) => Exit(69),
            Self::NobodyToAsk => Exit(USAGE),
            Self::Call(CallError::Strange(_) | CallError::Refused(_))
            | Self::NoDevice(_)
            | Self::NoNode(_)
            | Self::NotFrozen(_)
            | Self::NoHolder { .. }
            | Self::KeyFile { .. }
            | Self::OtherFingerprint { .. }
            | Self::NotConfirmed
            | Self::Output(_)
            | Self::Start(_) => Exit(1),
        }
    }
}

/// An exit code.
pub(crate) struct Exit(u8);

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

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
    let Args { socket, json, verb } = args;
    let client = Client::new(&socket);
    let screen = Screen::stdout();
    let onboarding = |view: OnboardingView| say(json, &view, || show::onboarding(&view, screen));
    match verb {
        Verb::Onboarding => onboarding(client.call(Endpoint::Onboarding, None).await?),
        Verb::Window(Window::Open { minutes }) => {
            onboarding(client.post(Endpoint::OpenWindow, None, &OpenWindow { minutes }).await?)
        }
        Verb::Window(Window::Close) => onboarding(client.call(Endpoint::CloseWindow, None).await?),
        Verb::Approve(form) => onboarding(approve(&client, form).await?),
        Verb::Reject(device) => onboarding(change(&client, Endpoint::Reject, device.code).await?),
        Verb::Dismiss(device) => onboarding(change(&client, Endpoint::Dismiss, device.code).await?),
        Verb::Restore(device) => onboarding(change(&client, Endpoint::Restore, device.code).await?),
        Verb::Nodes => {
            let view: NodesView = client.call(Endpoint::Nodes, None).await?;
            say(json, &view, || show::nodes(&view, screen))
        }
        Verb::Node(node) => {
            let (id, _) = find(&client, &node.node).await?;
            let view = client.call(Endpoint::Node, Some(&id)).await?;
            say(json, &view, || show::node(&view, screen))
        }
        Verb::Remove(remove) => {
            let (id, name) = find(&client, &remove.node).await?;
            if !remove.yes {
                ask(&format!("This removes {name} ({id}) for good; its key is refused from then on."), &name)?;
            }
            onboarding(client.call(Endpoint::Remove, Some(&id)).await?)
        }
        Verb::Clone(CloneVerb::Keep { node, start, yes }) => {
            let view = keep(&client, &node, start, yes).await?;
            say(json, &view, || show::node(&view, screen))
        }
        Verb::Clone(CloneVerb::Split { node, yes }) => onboarding(split(&client, &node, yes).await?),
        Verb::Keys(verb) => {
            let view = keys(&client, verb).await?;
            say(json, &view, || show::keys(&view, screen))
        }
        Verb::Events(wanted) => events(&client, json, &wanted).await,
        Verb::Status => {
            let view = client.call(Endpoint::Status, None).await?;
            say(json, &view, || show::status(&view))
        }
        Verb::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "luciactl", &mut out);
            write(&out)
        }
        Verb::Man => {
            let mut out = Vec::new();
            clap_mangen::Man::new(Args::command()).render(&mut out).map_err(Failure::Output)?;
            write(&out)
        }
    }
}

/// Writes the view as JSON, or in words.
fn say<T: Serialize>(as_json: bool, view: &T, words: impl FnOnce() -> String) -> Result<(), Failure> {
    if as_json { write(format!("{}\n", in_json(view)?).as_bytes()) } else { write(words().as_bytes()) }
}

fn in_json<T: Serialize>(view: &T) -> Result<String, Failure> {
    json::to_string(view).map_err(|error| Failure::Call(CallError::Strange(error.to_string())))
}

fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Asks on the terminal for `word`.
fn ask(sentence: &str, word: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::NobodyToAsk);
    }
    let mut out = io::stderr();
    write!(out, "{sentence}\nType {word} to go on: ").and_then(|()| out.flush()).map_err(Failure::Output)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Failure::Output)?;
    if line.trim_end_matches(['\r', '\n']) == word { Ok(()) } else { Err(Failure::NotConfirmed) }
}

async fn device(client: &Client<'_>, code: VerificationCode) -> Result<DeviceView, Failure> {
    let view: OnboardingView = client.call(Endpoint::Onboarding, None).await?;
    let found = view.devices.into_iter().find(|device| device.verification_code == code);
    found.ok_or(Failure::NoDevice(code))
}

async fn change(client: &Client<'_>, endpoint: Endpoint, code: VerificationCode) -> Result<OnboardingView, Failure> {
    let device = device(client, code).await?;
    Ok(client.call(endpoint, Some(&device.device_id)).await?)
}

async fn approve(client: &Client<'_>, args: Approve) -> Result<OnboardingView, Failure> {
    let device = device(client, args.code).await?;
    if device.fingerprint != args.fingerprint {
        return Err(Failure::OtherFingerprint {
            given: args.fingerprint.to_string(),
            found: device.fingerprint.to_string(),
        });
    }
    if !args.yes && args.erase.is_none() {
        ask(
            &format!(
                "This erases disk {} of {} and installs {} on it.",
                args.disk, device.verification_code, args.hostname
            ),
            ERASE,
        )?;
    }
    let form = ApproveForm { hostname: args.hostname, disk_id: args.disk, confirmation: ERASE.to_owned() };
    Ok(client.post(Endpoint::Approve, Some(&device.device_id), &form).await?)
}

/// A frozen node, its name, and what its holders are.
async fn frozen(client: &Client<'_>, node: &str) -> Result<(NodeId, String, NodeView), Failure> {
    let (id, name) = find(client, node).await?;
    let view: NodeView = client.call(Endpoint::Node, Some(&id)).await?;
    if view.frozen.is_none() {
        return Err(Failure::NotFrozen(name));
    }
    Ok((id, name, view))
}

async fn keep(client: &Client<'_>, node: &str, start: StartId, yes: bool) -> Result<NodeView, Failure> {
    let (id, name, view) = frozen(client, node).await?;
    if !view.frozen.iter().flat_map(|frozen| &frozen.holders).any(|holder| holder.start_id.as_ref() == Some(&start)) {
        return Err(Failure::NoHolder { node: name, start });
    }
    if !yes {
        ask(&show::keeping(&view, &start), &name)?;
    }
    Ok(client.post(Endpoint::KeepClone, Some(&id), &KeepForm { start_id: start }).await?)
}

async fn split(client: &Client<'_>, node: &str, yes: bool) -> Result<OnboardingView, Failure> {
    let (id, name, view) = frozen(client, node).await?;
    if !yes {
        ask(&show::splitting(&view), &name)?;
    }
    Ok(client.call(Endpoint::SplitClone, Some(&id)).await?)
}

/// A node or device by hostname, id or code: its id, and the name to confirm it by.
async fn find(client: &Client<'_>, text: &str) -> Result<(NodeId, String), Failure> {
    let code = text.parse::<VerificationCode>().ok();
    let nodes: NodesView = client.call(Endpoint::Nodes, None).await?;
    for node in nodes.nodes {
        if node.hostname.as_str() == text
            || node.node_id.as_str() == text
            || Some(&node.verification_code) == code.as_ref()
        {
            return Ok((node.node_id, node.hostname.to_string()));
        }
    }
    let view: OnboardingView = client.call(Endpoint::Onboarding, None).await?;
    for device in view.devices {
        let named = device.task.as_ref().is_some_and(|task| task.hostname.as_str() == text);
        if named || device.device_id.as_str() == text || Some(&device.verification_code) == code.as_ref() {
            return Ok((device.device_id, device.verification_code.as_str().to_owned()));
        }
    }
    Err(Failure::NoNode(text.to_owned()))
}

async fn keys(client: &Client<'_>, verb: KeysVerb) -> Result<SshKeysView, Failure> {
    match verb {
        KeysVerb::List => Ok(client.call(Endpoint::SshKeys, None).await?),
        KeysVerb::Add { account, file, label } => {
            let key = public_key(&file)?;
            Ok(client.post(Endpoint::AddSshKey, None, &SshKeyForm { account, label, key }).await?)
        }
        KeysVerb::Remove { account, fingerprint, yes } => {
            if !yes {
                ask(&format!("This takes the key {fingerprint} away from {account} on every node."), account.as_str())?;
            }
            Ok(client.post(Endpoint::RemoveSshKey, None, &RemoveSshKey { account, fingerprint }).await?)
        }
    }
}

/// The one key in a public key file, checked here so that the mistake is told with the file's name.
fn public_key(file: &Path) -> Result<String, Failure> {
    let bad = |why: String| Failure::KeyFile { file: file.to_owned(), why };
    let most = u64::try_from(SSH_KEY_LINE_MAX).unwrap_or(u64::MAX) + 2;
    let mut text = String::new();
    if file == Path::new("-") {
        io::stdin().lock().take(most).read_to_string(&mut text)
    } else {
        File::open(file).and_then(|file| file.take(most).read_to_string(&mut text))
    }
    .map_err(|error| bad(error.to_string()))?;
    if text.contains("PRIVATE KEY") {
        return Err(bad("this is a private key: give the .pub file beside it".to_owned()));
    }
    text.parse::<SshKey>().map(|key| key.to_string()).map_err(|error| bad(error.to_string()))
}

async fn events(client: &Client<'_>, as_json: bool, wanted: &Events) -> Result<(), Failure> {
    let mut after = wanted.after;
    loop {
        let view: EventsView = client.events(after, wanted.follow).await?;
        for event in &view.events {
            let line = if as_json { in_json(event)? } else { show::event(event) };
            write(format!("{line}\n").as_bytes())?;
            after = event.sequence;
        }
        let caught_up = after >= view.last_sequence || view.events.is_empty();
        if !wanted.follow && caught_up {
            if after == 0 && !as_json {
                write(b"No events yet.\n")?;
            }
            return Ok(());
        }
    }
}
