//! A person of the directory at the node's real sshd: let in by the key that a heartbeat's answer brought, as the owner
//! she is in the directory, and no longer once the key is removed.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use lucia_people::host_api::NodeView;
use lucia_proto::node::heartbeat::DirectoryState;

use super::daemon::ran;
use super::directory::Directory;
use super::machine::{HEARTBEATS, Managed, heartbeat, on};
use super::owner::OWNER;
use super::page::Page;
use super::place::{HOSTNAME, Place, quoted_path};
use super::screen::{Screen, Who};
use super::site::Site;
use super::{DemoError, Standing};
use crate::node::Node;
use crate::program::Program;

/// Heartbeats come every 30 s, and an answer brings the keys; what is left is for a busy machine.
const TOLD: Duration = Duration::from_secs(60);
/// The person's side: key pair and what is known of the node's sshd.
const CLIENT: &str = "client";
/// Where the agent puts the keys of alice.
const KEYS: &str = "/etc/ssh/lucia-authorized-keys/alice";
/// A login of the node itself, which has nothing to do with the directory.
const LOCAL: &str = "localadmin";

/// The story, from the heartbeat that was last seen to the third. Where there is a page, the key is ordered on it.
pub(super) fn story(standing: &mut Standing, page: Option<&Page>, screen: &Screen) -> Result<(), DemoError> {
    let Standing { node: managed, site, .. } = standing;
    ready(site, managed, screen)?;
    let client = site.place.path(CLIENT);
    let made = client_of(site, managed);
    made.map_err(|err| DemoError::Place { path: client.clone(), err })??;

    let public = client.join("id_ed25519.pub").to_string_lossy().into_owned();
    unsigned(site, &public, screen)?;
    if let Some(page) = page {
        page.give_key(site, &managed.node_id, Path::new(&public), screen)?;
    } else {
        site.owner(&["keys", "add", OWNER, &public, "--label", "demo", "--all", "--yes"])?;
        screen.say(Who::Person, &format!("luciactl keys add alice {CLIENT}/id_ed25519.pub --label demo --all, signed"));
    }
    refused(site, "alice", "the key that no heartbeat's answer has brought yet")?;
    screen.say(
        Who::Person,
        "ssh alice@demo-1\nPermission denied: the node does not have the key yet; the next heartbeat brings it, within 30 s",
    );
    told(site, managed, "the key on the node", |there| there)?;
    screen.say(Who::Node, &format!("a heartbeat's answer brought the key: {KEYS}"));
    let id = login(site, "alice", "id")?;
    if !id.contains("(lucia-owners)") {
        return Err(DemoError::NotShown { what: "lucia-owners", said: id });
    }
    screen.say(Who::Person, &format!("ssh alice@demo-1 id\n{id}"));
    not_an_owner(site, &managed.node, screen)?;
    local_login(site, &managed.node, screen)?;
    password_stays(site, &managed.node, screen)?;

    if let Some(page) = page {
        // The node tells of it with its next heartbeat; an order in the place of this one before that would hide it.
        page.carried_out("key-given", screen)?;
    }
    let key = ran(Program::SshKeygen.command().args(["-l", "-f", &public]))?;
    let key = key.split_whitespace().nth(1).unwrap_or_default();
    site.owner(&["keys", "remove", OWNER, key, "--all", "--yes"])?;
    screen.say(
        Who::Person,
        &format!("luciactl keys remove alice {key} --all, signed; the next heartbeat tells the node, within 30 s"),
    );
    told(site, managed, "the key's removal on the node", |there| !there)?;
    refused(site, "alice", "the key that was removed")?;
    screen.say(Who::Person, "ssh alice@demo-1\nPermission denied: the next heartbeat's answer took the key away");
    let state = on(&managed.node, &["systemctl", "is-system-running"])?;
    screen.say(Who::Node, &format!("systemctl is-system-running\n{state}"));
    while managed.heartbeats < HEARTBEATS {
        managed.heartbeats += 1;
        heartbeat(site, &managed.node_id, managed.heartbeats)?;
    }
    screen.say(Who::Node, &format!("heartbeat {HEARTBEATS} of {HEARTBEATS}"));
    Ok(())
}

/// The node's own word that the directory's people are known there, as the controller has it.
fn ready(site: &mut Site, managed: &Managed, screen: &Screen) -> Result<(), DemoError> {
    let id = managed.node_id.clone();
    site.wait("a heartbeat that says directory Ready", TOLD, |site| {
        let view: NodeView = site.ctl_json(&["node", id.as_str()]).ok()?;
        view.directory.filter(|report| report.state == DirectoryState::Ready).map(drop)
    })?;
    let group = on(&managed.node, &["getent", "-s", "sss", "group", "lucia-owners"])?;
    screen.say(Who::Node, &format!("directory Ready: getent -s sss group lucia-owners\n{group}"));
    Ok(())
}

/// Without an owner's key nobody orders one for a node, not even on the controller's host.
fn unsigned(site: &mut Site, public: &str, screen: &Screen) -> Result<(), DemoError> {
    match site.ctl(&["keys", "add", OWNER, public, "--label", "unsigned"]) {
        Ok(said) => Err(DemoError::NotShown { what: "a refusal of a key that nobody signed", said }),
        Err(DemoError::Refused { said, .. }) => {
            screen.say(Who::Operator, &format!("luciactl keys add alice, over the controller's socket\n{said}"));
            Ok(())
        }
        Err(err) => Err(err),
    }
}

/// A key pair, the node's host key as its own console shows it, and `DIR/ssh USER [COMMAND]`.
fn client_of(site: &Site, managed: &Managed) -> io::Result<Result<(), DemoError>> {
    let dir = site.place.path(CLIENT);
    fs::create_dir(&dir)?;
    let key = dir.join("id_ed25519");
    let made =
        Program::SshKeygen.command().args(["-q", "-t", "ed25519", "-N", "", "-C", "alice", "-f"]).arg(&key).output()?;
    if !made.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned()));
    }
    let host = match on(&managed.node, &["cat", "/etc/ssh/ssh_host_ed25519_key.pub"]) {
        Ok(host) => host,
        Err(err) => return Ok(Err(err)),
    };
    fs::write(dir.join("known_hosts"), format!("{HOSTNAME} {host}"))?;
    let options = [
        ("BatchMode", "yes"),
        ("IdentitiesOnly", "yes"),
        ("IdentityAgent", "none"),
        ("StrictHostKeyChecking", "yes"),
        ("HostKeyAlias", HOSTNAME),
    ];
    let options: Vec<String> = options.iter().map(|(name, value)| format!("-o {name}={value}")).collect();
    let address: Ipv4Addr = site.network.plug(1).address;
    let line = format!(
        "nsenter --net=/proc/{}/ns/net ssh -F /dev/null -i {} -o UserKnownHostsFile={} {} {address} -l \"$@\"",
        site.network.holder_pid(),
        quoted_path(&key),
        quoted_path(&dir.join("known_hosts")),
        options.join(" "),
    );
    site.place.command("ssh", &line)?;
    Ok(Ok(()))
}

/// What a command printed that somebody ran on the node by ssh.
fn login(site: &Site, user: &str, command: &str) -> Result<String, DemoError> {
    ran(Program::Built(site.place.path("ssh")).command().args([user, command]))
}

/// That sshd lets nobody in by this name with the key.
fn refused(site: &Site, user: &str, why: &'static str) -> Result<(), DemoError> {
    match login(site, user, "id") {
        Err(DemoError::Refused { said, .. }) if said.contains("Permission denied") || said.contains("closed by") => {
            Ok(())
        }
        Err(err) => Err(err),
        Ok(said) => Err(DemoError::NotShown { what: why, said: format!("{user} was let in: {said}") }),
    }
}

/// Waits for an answer to a heartbeat that changed whether the keys of alice are there.
fn told(site: &mut Site, managed: &Managed, what: &'static str, wanted: fn(bool) -> bool) -> Result<(), DemoError> {
    let file = managed.node.root().join(KEYS.trim_start_matches('/'));
    site.wait(what, TOLD, |_| wanted(file.exists()).then_some(()))
}

/// The same key for somebody who is in the directory and not in the group.
fn not_an_owner(site: &Site, node: &Node, screen: &Screen) -> Result<(), DemoError> {
    on(node, &["cp", KEYS, "/etc/ssh/lucia-authorized-keys/bob"])?;
    let said = refused(site, "bob", "an account outside of lucia-owners");
    on(node, &["rm", "/etc/ssh/lucia-authorized-keys/bob"])?;
    said?;
    screen.say(Who::Person, "ssh bob@demo-1, with the same key\nrefused: bob is in the directory, not in lucia-owners");
    Ok(())
}

/// Somebody of the node itself gets in by a key in the home there, also while the directory is down.
fn local_login(site: &mut Site, node: &Node, screen: &Screen) -> Result<(), DemoError> {
    let public = fs::read_to_string(site.place.path(CLIENT).join("id_ed25519.pub"));
    let public = public.map_err(|err| DemoError::Place { path: site.place.path(CLIENT), err })?;
    on(node, &["useradd", "--create-home", LOCAL])?;
    let home = format!("/home/{LOCAL}/.ssh");
    let lay = format!("umask 77 && mkdir {home} && echo \"$1\" >{home}/authorized_keys && chown -R {LOCAL}: {home}");
    on(node, &["sh", "-c", &lay, "sh", public.trim()])?;
    site.directory = None;
    screen.say(Who::Directory, "slapd is stopped");
    let id = login(site, LOCAL, "id")?;
    screen.say(Who::Person, &format!("ssh {LOCAL}@demo-1 id, an account of the node itself\n{id}"));
    site.directory = Some(Directory::again(&site.place, site.network.holder_pid())?);
    screen.say(Who::Directory, "slapd runs again");
    Ok(())
}

/// The reader's password is on the node, and nowhere that the controller could read.
fn password_stays(site: &Site, node: &Node, screen: &Screen) -> Result<(), DemoError> {
    let line = on(node, &["grep", "-rhs", "^ldap_default_authtok *=", "/etc/sssd"])?;
    let password = line.split('=').nth(1).unwrap_or_default().trim();
    let state = site.place.path("state/controller");
    if password.len() < 32 {
        return Err(DemoError::NotShown { what: "the reader's password", said: line.len().to_string() });
    }
    let found = holding(&state, password.as_bytes()).map_err(|err| DemoError::Place { path: state.clone(), err })?;
    if let Some(path) = found {
        let said = path.display().to_string();
        return Err(DemoError::NotShown { what: "a controller without the reader's password", said });
    }
    screen.say(Who::Operator, "grep -r for the node's directory password in the controller's directory: nothing");
    Ok(())
}

/// The first file below that has these bytes in it.
fn holding(dir: &Path, bytes: &[u8]) -> io::Result<Option<std::path::PathBuf>> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let found = if kind.is_dir() {
            holding(&path, bytes)?
        } else if kind.is_file() && fs::read(&path)?.windows(bytes.len()).any(|part| part == bytes) {
            Some(path)
        } else {
            None
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// What a person may try once the demo stays up.
pub(super) fn try_next(place: &Place) -> String {
    let dir = super::place::word(&place.dir);
    format!(
        "\x20 {dir}/alice keys add alice {dir}/{CLIENT}/id_ed25519.pub --label again --all\n\
         \x20 {dir}/alice drafts              what alice signed, and what became of it\n\
         \x20 {dir}/ssh alice                lets you in from the next heartbeat on\n\
         \x20 {dir}/ssh {LOCAL}           needs no directory; kill $(cat {dir}/state/directory/slapd.pid) and see\n\
         \x20 {dir}/slapd                    starts the directory again, in the background\n"
    )
}
