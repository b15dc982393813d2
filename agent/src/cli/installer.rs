//! The installer's verbs: each opens key, settings and connection, and calls `install`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lucia_daemon::clock::SystemClock;
use lucia_daemon::exit::{CONFIG, Exit};
use lucia_daemon::process::protect;
use lucia_proto::base::code::Code;
use lucia_proto::base::names::DiskId;
use lucia_proto::base::time::Clock;
use lucia_proto::pki::key::NodeKey;
use serde_json::json;

use super::managed::runtime;
use super::show::{print, print_json};
use crate::client::clock::ServerClock;
use crate::client::config::Trust;
use crate::client::retry::{Backoff, Pace};
use crate::client::tls::{self, TlsTransport};
use crate::client::{CallError, Client, cure};
use crate::host::boot::{self, BootId};
use crate::host::failed::Failed;
use crate::host::root::Root;
use crate::host::state::State;
use crate::host::status::{self, Doing, Status, StatusFile};
use crate::host::{chain, random, read_bytes};
use crate::identity::{key, rekey, running};
use crate::install::discover::{console_box, discover as discover_once};
use crate::install::stage::{self, Staged};
use crate::install::target::{InstallTarget, MAX, TargetError};
use crate::install::wait::{WaitError, wait_install as wait};
use crate::install::{Installation, device_state, guard as guard_rules};
use crate::inventory;
use crate::owners::policy;

/// What each of these verbs works with.
struct Session {
    root: Root,
    state: State,
    trust: Trust,
    key: Arc<NodeKey>,
    client: Client<TlsTransport>,
    backoff: Backoff,
}

impl Session {
    fn open(root: &Root, verb: &str, make_key: bool) -> Result<Self, Exit> {
        protect()?;
        let trust = Trust::load(root).map_err(Failed::config)?;
        let mut state = State::hold(root, verb)?;
        if make_key && status::was_removed(&state) {
            // An agent of before the note removed the identity, and what says so goes with the next status.
            running::note(&state)?;
        }
        let key = if make_key { key::load_or_make(&mut state) } else { key::load(&state) };
        let key = Arc::new(key?);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let tls = tls::settings(&trust.root).map_err(Failed::config)?;
        let transport = TlsTransport::new(&trust.config, &tls).map_err(Failed::config)?;
        let client = Client::new(transport, Arc::clone(&key), clock, Arc::new(ServerClock::new()));
        let seed = u64::from_be_bytes(*random::bytes()?);
        Ok(Self { root: root.clone(), state, trust, key, client, backoff: Backoff::new(seed) })
    }

    fn boot(&self) -> Result<BootId, Exit> {
        boot::boot_id(&self.root).map_err(Exit::from)
    }

    fn tell(&self, doing: Doing) {
        let fingerprint = self.key.public().fingerprint();
        let status = Status {
            doing,
            node_id: Some(fingerprint.node_id()),
            verification_code: Some(fingerprint.verification_code()),
            controller: Some(self.trust.config.controller()),
            ..Status::default()
        };
        StatusFile::new(&self.root).write(&self.state, &status);
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Exit> {
    Ok(runtime()?.block_on(future))
}

fn call_failed(error: &CallError) -> Exit {
    Exit::refused(format!("{}; {}", chain(error), cure::of(error)))
}

pub(super) fn discover(root: &Root, json: bool, timeout: Duration) -> Result<(), Exit> {
    let mut session = Session::open(root, "discover", true)?;
    let inventory = inventory::gather(root)?;
    let mut running = running::is_running(&session.state)?;
    let fingerprint = session.key.public().fingerprint();
    let node_id = fingerprint.node_id();
    if !json {
        print(&console_box(&fingerprint));
    }
    let clock = SystemClock;
    let end = clock.since_boot().saturating_add(timeout);
    let found = block_on(async {
        loop {
            let error = match discover_once(&mut session.client, &inventory, running).await {
                Ok(found) => return Ok(found),
                // A controller of before the member refuses it, and approves an installation: what this machine does with that
                // is its own affair, and no disk is erased.
                Err(error) if running && error.code() == Some(Code::InvalidBody) => {
                    running = false;
                    continue;
                }
                Err(error) => error,
            };
            let pause = session.backoff.next(Pace::after(&error), error.retry_after());
            if clock.since_boot().saturating_add(pause) >= end {
                return Err(error);
            }
            eprintln!("{}; {}", chain(&error), cure::of(&error));
            tokio::time::sleep(pause).await;
        }
    })?
    .map_err(|error| call_failed(&error))?;
    session.tell(Doing::AwaitingApproval);
    if found.device_id != node_id || found.verification_code != fingerprint.verification_code() {
        return Err(Exit::refused(
            "the controller answered for another device than this one; nothing was approved. Look who answers at \
             controller-url",
        ));
    }
    if json {
        print_json(&json!({
            "deviceId": node_id,
            "verificationCode": fingerprint.verification_code(),
            "fingerprint": fingerprint,
            "expiresAt": found.expires_at,
        }))?;
    } else {
        print(&format!("The controller knows this machine; it can be approved until {}.", found.expires_at));
        if running::is_running(&session.state)? {
            print("It runs, so nothing on it is erased. Next: lucia-node-agent wait-install");
        }
    }
    Ok(())
}

pub(super) fn wait_install(root: &Root, json: bool, timeout: Option<Duration>) -> Result<(), Exit> {
    let mut session = Session::open(root, "wait-install", false)?;
    let boot = session.boot()?;
    session.tell(Doing::AwaitingApproval);
    let code = session.key.public().fingerprint().verification_code();
    eprintln!("waiting for the approval of {code}");
    let Session { client, state, backoff, .. } = &mut session;
    let granted = block_on(async {
        let waiting = wait(client, state, &boot, backoff, |line| eprintln!("{line}"));
        match timeout {
            Some(limit) => tokio::time::timeout(limit, waiting).await.ok(),
            None => Some(waiting.await),
        }
    })?;
    let grant = granted
        .ok_or_else(|| Exit::said(30, format!("not approved in time; approve {code} and run this again")))?
        .map_err(|error| {
            let code = match &error {
                WaitError::Rejected => 31,
                WaitError::Ended { .. } | WaitError::Refused { .. } => 32,
                _ => 1,
            };
            Exit::with(code, &error)
        })?;
    session.tell(if grant.disk_id.is_some() { Doing::Granted } else { Doing::Joining });
    if json {
        print_json(&json!({
            "taskId": grant.task_id,
            "hostname": grant.hostname,
            "diskId": grant.disk_id,
            "expiresAt": grant.expires_at,
        }))?;
    } else {
        let what = grant.disk_id.as_ref().map_or_else(
            || "no disk is erased; next: lucia-node-agent rekey --finish".to_owned(),
            |disk| format!("disk {disk}"),
        );
        print(&format!("hostname {}\n{what}\nuntil {}", grant.hostname, grant.expires_at));
    }
    Ok(())
}

pub(super) fn guard(root: &Root) -> Result<(), Exit> {
    let mut session = Session::open(root, "installation-guard", false)?;
    let boot = session.boot()?;
    let installation = Installation::read(&session.state)?;
    let inventory = inventory::gather(root)?;
    let device = block_on(device_state(&mut session.client))?.map_err(|error| call_failed(&error))?;
    let now = session.client.server_now().ok_or_else(|| Exit::refused("the controller's time is not known"))?;
    let running = running::is_running(&session.state)?;
    let grant = guard_rules::check(running, installation.as_ref(), &boot, &inventory, &device, now)
        .map_err(|refusal| Exit::with(refusal.exit_code(), &refusal))?;
    let disk = grant.disk_id.as_ref().map_or("none", DiskId::as_str);
    print(&format!("disk {disk} may be erased for {}", grant.hostname));
    Ok(())
}

pub(super) fn stage_managed(root: &Root, target: &Path, policy_file: Option<&Path>) -> Result<(), Exit> {
    let target = InstallTarget::open(target).map_err(|error| match &error {
        TargetError::Root { .. } => Exit::usage(chain(&error)),
        _ => Exit::from(error),
    })?;
    let policy = given_policy(root, policy_file)?;
    let mut session = Session::open(root, "stage-managed", false)?;
    let boot = session.boot()?;
    let grant = stage::granted(&session.state, &boot)?;
    let program = program(root)?;
    stage::lay_policy(&target, policy.as_deref())?;
    let Session { client, trust, key, .. } = &mut session;
    let staged = Staged { trust, key, boot: &boot, program: &program };
    let facts = block_on(stage::stage_and_report(client, &target, &grant, staged))??;
    session.tell(Doing::Staged);
    print(&format!("{} is staged as node {}; reboot into it", facts.hostname, facts.node_id));
    Ok(())
}

/// The policy that was given, or the medium's: a stricter one there is meant for what it installs.
fn given_policy(root: &Root, file: Option<&Path>) -> Result<Option<String>, Exit> {
    let failed = |path: &Path, error: &dyn std::error::Error| {
        Exit::said(CONFIG, format!("--policy {}: {}; nothing was staged", path.display(), chain(error)))
    };
    let Some(path) = file else {
        let text = policy::text(root).map_err(Exit::config)?;
        text.as_deref().map_or(Ok(()), policy::edit::check).map_err(Exit::config)?;
        return Ok(text);
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(path, &error))?;
    policy::edit::check(&text).map_err(|error| failed(path, &error))?;
    Ok(Some(text))
}

/// `rekey --finish`: what `stage-managed` is to a new system, for one that stays and has a new key.
pub(super) fn finish_rekey(root: &Root) -> Result<(), Exit> {
    let mut session = Session::open(root, "rekey", false)?;
    let boot = session.boot()?;
    let grant = stage::granted(&session.state, &boot)?;
    let found = boot::hostname(root)?;
    if found != grant.hostname.as_str() {
        let name = &grant.hostname;
        let text = format!(
            "/etc/hostname says {found:?}, but this machine was approved as {name:?}; run `hostnamectl set-hostname \
             {name}`, then this again"
        );
        return Err(Exit::refused(text));
    }
    let machine_id = boot::machine_id(root)?;
    policy::edit::lay(root)?;
    let Session { client, state, key, .. } = &mut session;
    let facts = rekey::finished(state, key, &grant, &machine_id)?;
    let kept = || Ok(facts.write(state).map(|()| facts.clone()).map_err(Failed::from)?);
    let facts = block_on(stage::reporting(client, kept))??;
    session.tell(Doing::AwaitingCertificate);
    print(&format!("{} is node {} now; run `systemctl start lucia-node-agent`", facts.hostname, facts.node_id));
    Ok(())
}

fn program(root: &Root) -> Result<Vec<u8>, Exit> {
    let failed = |error: std::io::Error| Exit::refused(format!("cannot read the agent's own program: {error}"));
    // One byte more than may be, so that what is too long is seen and not cut.
    let program = read_bytes(&root.running_binary(), MAX.saturating_add(1)).map_err(failed)?;
    if u64::try_from(program.len()).unwrap_or(u64::MAX) > MAX {
        let mib = MAX >> 20;
        let text = format!(
            "the agent's own program is over {mib} MiB, which no target takes; nothing was staged: put a released agent \
             (built with --release, stripped) on the installer's medium"
        );
        return Err(Exit::refused(text));
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;

    // spec: AG-32
    #[test]
    fn a_program_that_no_target_takes_is_refused_and_not_cut() {
        let scratch = Scratch::new();
        let root = scratch.root();
        let path = root.running_binary();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(MAX).unwrap();
        assert_eq!(u64::try_from(program(&root).unwrap().len()).unwrap(), MAX);
        file.set_len(MAX + 1).unwrap();
        let refused = program(&root).unwrap_err();
        assert!(refused.code == 1 && refused.message.contains("64 MiB"), "{refused:?}");
    }

    // spec: AG-441
    #[test]
    fn a_policy_that_is_none_is_refused_before_anything_is_staged() {
        let scratch = Scratch::new();
        let (root, file) = (scratch.root(), scratch.root().join("mine.toml"));
        let code = |file: Option<&Path>| given_policy(&root, file).map_err(|exit| exit.code);
        assert_eq!(code(None), Ok(None));
        assert_eq!(code(Some(&file)), Err(CONFIG));
        scratch.put("mine.toml", "exec = \"allow\"\n");
        assert_eq!(code(Some(&file)), Err(CONFIG));
        let good = "ssh-key = \"two-owners\"\n";
        scratch.put("mine.toml", good);
        assert_eq!(code(Some(&file)), Ok(Some(good.to_owned())));
        // The medium's own counts where none is given.
        scratch.put("etc/lucia/agent-policy.toml", good);
        assert_eq!(code(None), Ok(Some(good.to_owned())));
        scratch.put("etc/lucia/agent-policy.toml", "ssh-key: allow\n");
        assert_eq!(code(None), Err(CONFIG));
    }
}
