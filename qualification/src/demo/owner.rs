//! The first owner: her key on her own machine, her place in the roster given on the worker's host, by a code that both
//! ends make from the key. From then on nodes take orders that she signed, and none of the controller's.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;

use lucia_proto::pki::key::{Fingerprint, VerificationCode};
use serde::Deserialize;

use super::DemoError;
use super::daemon::{ran, ran_with};
use super::place::{NAME, Place, quoted_path};
use super::screen::{Screen, Who, room};
use super::site::{SOON, Site, parsed};
use crate::program::Program;

/// What she is called in the roster and in the directory.
pub(super) const OWNER: &str = "alice";
/// Her own machine: what is in it no program of the site reads.
const MACHINE: &str = "owner";

/// What `luciactl login --json` prints.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    verification_code: VerificationCode,
    fingerprint: Fingerprint,
}

/// From a fleet that has only an operator to one with an owner.
pub(super) fn first(site: &mut Site, screen: &Screen) -> Result<(), DemoError> {
    let laid = lay(&site.place, site.network.holder_pid());
    laid.map_err(|err| DemoError::Place { path: site.place.path(MACHINE), err })?;
    let root = site.place.root_file().to_string_lossy().into_owned();
    let url = format!("https://{NAME}:8443");
    let login = ["--json", "login", "--controller", &url, "--root", &root, "--name", OWNER, "--no-wait"];
    let asked: Asked = parsed(&site.owner(&login)?)?;
    let (code, hex) = (asked.verification_code.to_string(), asked.fingerprint.to_string());
    let [first, second] = asked.fingerprint.rows();
    screen.say(
        Who::Person,
        &format!(
            "luciactl login --controller {url} --root root.pem --name {OWNER}\n\
             code         {code}\nfingerprint  {first}\n             {second}"
        ),
    );
    let pending = site.wait("her application on the worker's host", SOON, |site| {
        site.worker(&["owner", "pending"]).ok().filter(|said| said.contains(&code))
    })?;
    screen.say(Who::Worker, &format!("lucia-enrollment-worker owner pending\n{pending}"));
    let said = site.worker(&["owner", "approve", &code, "--fingerprint", &hex])?;
    screen.say(Who::Worker, &format!("lucia-enrollment-worker owner approve {code} \\\n--fingerprint {hex}\n{said}"));
    let roster = site.wait("the roster, as she checks it", SOON, |site| site.owner(&["owners"]).ok())?;
    screen.say(Who::Person, &format!("luciactl owners\n{roster}"));
    Ok(())
}

/// Her machine: a passphrase that nobody else knows, and a name for the controller's address.
fn lay(place: &Place, holder: u32) -> io::Result<()> {
    let dir = place.path(MACHINE);
    fs::create_dir(&dir)?;
    let mut random = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let passphrase: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut options = fs::File::options();
    io::Write::write_all(
        &mut options.write(true).create_new(true).mode(0o600).open(dir.join("passphrase"))?,
        format!("{passphrase}\n").as_bytes(),
    )?;
    let hosts = dir.join("hosts");
    fs::write(&hosts, format!("127.0.0.1 localhost\n10.73.0.1 {NAME}\n"))?;
    // The names of this machine are seen by this command alone.
    let inside = format!(
        "mount --bind {} /etc/hosts && exec {} --config {} --passphrase-file {} \"$@\"",
        quoted_path(&hosts),
        quoted_path(&place.program("luciactl")),
        quoted_path(&dir.join("luciactl.toml")),
        quoted_path(&dir.join("passphrase")),
    );
    let line = format!(
        "nsenter --net=/proc/{holder}/ns/net unshare --mount --propagation private sh -c {} {OWNER} \"$@\"",
        super::place::quoted(&inside)
    );
    place.command(OWNER, &line)
}

impl Site {
    /// What stands on the terminal of the owner's machine, at which these lines are typed.
    pub(super) fn owner_at_terminal(&self, arguments: &[&str], lines: &[&str]) -> Result<String, DemoError> {
        let words: Vec<String> = arguments.iter().map(|word| super::place::quoted(word)).collect();
        let line = format!("{} {}", quoted_path(&self.place.path(OWNER)), words.join(" "));
        let mut script = Program::Script.command();
        script.env("COLUMNS", room().to_string()).args(["-q", "-e", "-c", &line, "/dev/null"]);
        let typed: String = lines.iter().map(|line| format!("{line}\n")).collect();
        ran_with(&mut script, typed.as_bytes())
    }

    /// What `luciactl` prints on the owner's machine.
    pub(super) fn owner(&self, arguments: &[&str]) -> Result<String, DemoError> {
        ran(Program::Built(self.place.path(OWNER)).command().env("COLUMNS", room().to_string()).args(arguments))
    }
}
