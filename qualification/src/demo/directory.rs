//! The directory of the demo: a real slapd in the site's network, under a user of its own, with alice and bob in it.

use std::fs::{self, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use lucia_proto::pki::csr;
use lucia_proto::pki::endpoint_names::{EndpointName, EndpointNames};
use lucia_proto::pki::key::NodeKey;
use zeroize::Zeroizing;

use super::DemoError;
use super::daemon::{Daemon, ran, ran_with};
use super::left;
use super::place::{DIRECTORY, Place, WORKER, quoted, quoted_path};
use super::screen::{Screen, Who};
use super::site::{ASK_EVERY, SOON};
use crate::possible::SLAPD;
use crate::program::Program;
use crate::wait::wait_every;

/// Where it listens: the site's own address, by which its certificate names it too.
pub(super) const ADDRESS: &str = "10.73.0.1";
/// Any user may listen here.
pub(super) const PORT: u16 = 1636;
/// The demo runs a copy in its own directory. Under this name, for what slapd is called decides what it does.
const COPY: &str = "bin/slapd";

/// alice is an owner, bob is not, and neither has a password. Readers get their place by `prepare-directory`.
const SEED: &str = "\
dn: dc=lucia,dc=home,dc=arpa
objectClass: dcObject
objectClass: organization
dc: lucia
o: Lucia demo

dn: ou=People,dc=lucia,dc=home,dc=arpa
objectClass: organizationalUnit
ou: People

dn: ou=Groups,dc=lucia,dc=home,dc=arpa
objectClass: organizationalUnit
ou: Groups

dn: uid=alice,ou=People,dc=lucia,dc=home,dc=arpa
objectClass: inetOrgPerson
objectClass: posixAccount
uid: alice
cn: Alice
sn: A
uidNumber: 20001
gidNumber: 20001
homeDirectory: /home/alice
loginShell: /bin/bash

dn: cn=alice,ou=Groups,dc=lucia,dc=home,dc=arpa
objectClass: posixGroup
cn: alice
gidNumber: 20001

dn: uid=bob,ou=People,dc=lucia,dc=home,dc=arpa
objectClass: inetOrgPerson
objectClass: posixAccount
uid: bob
cn: Bob
sn: B
uidNumber: 20002
gidNumber: 20002
homeDirectory: /home/bob
loginShell: /bin/bash

dn: cn=bob,ou=Groups,dc=lucia,dc=home,dc=arpa
objectClass: posixGroup
cn: bob
gidNumber: 20002

dn: cn=lucia-owners,ou=Groups,dc=lucia,dc=home,dc=arpa
objectClass: posixGroup
cn: lucia-owners
gidNumber: 20000
memberUid: alice
";

/// Where the server says its process id, also one that a person started again.
const PID_FILE: &str = "state/directory/slapd.pid";

/// The server. Dropping it ends it, and the one that a person started in its place.
pub(super) struct Directory {
    slapd: Daemon,
    pid_file: PathBuf,
    program: PathBuf,
}

impl Drop for Directory {
    fn drop(&mut self) {
        left::end(&self.pid_file, &self.program);
    }
}

impl Directory {
    /// Makes the directory of a fleet that has begun, starts the server, and has the worker prepare it.
    pub(super) fn start(place: &Place, holder: u32, screen: &Screen) -> Result<Self, DemoError> {
        let failed = |err| DemoError::Place { path: place.path("state/directory"), err };
        let (admin, config) = (secret().map_err(failed)?, secret().map_err(failed)?);
        let (key, _) = new_key().map_err(failed)?;
        let chain = signed(place, &key)?;
        let key = key.to_pem().map_err(|err| failed(io::Error::other(err)))?;
        let root = fs::read_to_string(place.root_file()).map_err(failed)?;
        for (name, text) in [
            ("server.key", key.as_str()),
            ("server.pem", &chain),
            ("root.pem", &root),
            ("seed.ldif", SEED),
            ("slapd.conf", &configuration(&place.path("state/directory"), &admin, &config)),
        ] {
            lay(&place.path("state/directory").join(name), text, DIRECTORY).map_err(failed)?;
        }
        // The worker's own way to the directory; nobody else has these passwords.
        lay(&place.path("state/worker/directory.password"), &admin, WORKER).map_err(failed)?;
        let for_config = place.path("state/worker/directory-config.password");
        lay(&for_config, &config, WORKER).map_err(failed)?;
        fs::copy(SLAPD, place.path(COPY)).map_err(failed)?;
        let at = |name: &str| place.path("state/directory").join(name).to_string_lossy().into_owned();
        run_tool(place, holder, &["-T", "add", "-f", &at("slapd.conf"), "-n", "1", "-l", &at("seed.ldif")])?;
        // Turns the file into cn=config, which `prepare-directory` changes.
        run_tool(place, holder, &["-T", "test", "-f", &at("slapd.conf"), "-F", &at("slapd.d")])?;
        let slapd = serve(place, holder)?;
        screen.say(
            Who::Directory,
            &format!("slapd listens at ldaps://{ADDRESS}:{PORT}; in it alice, of lucia-owners, and bob, who is not"),
        );
        let prepare = || ran(Program::Built(place.path("worker")).command().arg("prepare-directory"));
        let said = patiently("the directory", prepare)?;
        fs::remove_file(&for_config).map_err(failed)?;
        screen.say(Who::Operator, &format!("lucia-enrollment-worker prepare-directory\n{said}"));
        Ok(Self::of(place, slapd))
    }

    fn of(place: &Place, slapd: Daemon) -> Self {
        Self { slapd, pid_file: place.path(PID_FILE), program: place.path(COPY) }
    }

    /// Starts the server again on what is there.
    pub(super) fn again(place: &Place, holder: u32) -> Result<Self, DemoError> {
        Ok(Self::of(place, serve(place, holder)?))
    }

    /// Fails once it has ended.
    pub(super) fn lives(&mut self) -> Result<(), DemoError> {
        self.slapd.lives()
    }
}

/// The commands that end with an answer, as the directory's user.
fn run_tool(place: &Place, holder: u32, arguments: &[&str]) -> Result<(), DemoError> {
    let program = place.path(COPY);
    let not_run = |err: serde_json::Error| DemoError::NotRun { program: program.clone(), err: err.into() };
    let mut command = place.directory_seat(holder).command(&place.helper, &program, arguments).map_err(not_run)?;
    ran(&mut command).map(drop)
}

/// Starts the server, and leaves a command by which a person starts it again: in the background, and silent, since without
/// `-d` slapd goes there by itself once it listens. The demo ends it by its process id.
fn serve(place: &Place, holder: u32) -> Result<Daemon, DemoError> {
    let seat = place.directory_seat(holder);
    let config = place.path("state/directory/slapd.d");
    let urls = format!("ldaps://{ADDRESS}:{PORT}/");
    let (program, config) = (place.path(COPY), config.to_string_lossy().into_owned());
    let arguments = ["-F", &config, "-h", &urls];
    let again = place.seated(&seat, &program).and_then(|seated| {
        let (arguments, pid_file) = (arguments.map(quoted).join(" "), quoted_path(&place.path(PID_FILE)));
        place.script(
            "slapd",
            &format!(
                "if pid=$(cat {pid_file} 2>/dev/null) && kill -0 \"$pid\" 2>/dev/null; then\n  echo \"slapd runs already, process \
                 $pid\"\n  exit\nfi\nif {seated} {arguments} -s 0; then\n  echo 'slapd runs again, in the background; it ends \
                 with the demo'\nelse\n  echo 'slapd does not start; the demo has to be up for it' >&2\n  exit 1\nfi\n"
            ),
        )
    });
    again.map_err(|err| DemoError::Place { path: place.path("slapd"), err })?;
    Daemon::start(place, &seat, "slapd", &program, &[&arguments[..], &["-d", "stats"]].concat())
}

/// The certificate of the server's key: the worker signs it, as for any site. step-ca may only just have been started.
fn signed(place: &Place, key: &NodeKey) -> Result<String, DemoError> {
    let names = EndpointName::parse(ADDRESS).and_then(|name| EndpointNames::new(vec![name]));
    let names = names.map_err(|err| DemoError::NotShown { what: "a name for the directory", said: err.to_string() })?;
    let csr = csr::endpoint_build(&names, key);
    patiently("a certificate for the directory", || {
        let mut command = Program::Built(place.path("worker")).command();
        ran_with(command.args(["sign-directory", "--csr", "-", "--out", "-"]), csr.as_bytes())
    })
}

/// Tries again until it goes well; afterwards what was said last is the reason.
fn patiently(what: &'static str, mut attempt: impl FnMut() -> Result<String, DemoError>) -> Result<String, DemoError> {
    let mut last = String::new();
    let done = wait_every(ASK_EVERY, SOON, || attempt().map_err(|err| last = err.to_string()).ok());
    done.ok_or(DemoError::Waited { what, seconds: SOON.as_secs(), said: last })
}

/// Lays a file that its owner alone reads.
pub(super) fn lay(path: &Path, text: &str, owner: u32) -> io::Result<()> {
    fs::write(path, "")?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    fs::write(path, text)?;
    chown(path, Some(owner), Some(owner))
}

fn random() -> io::Result<Zeroizing<[u8; 32]>> {
    let mut bytes = Zeroizing::new([0; 32]);
    fs::File::open("/dev/urandom")?.read_exact(bytes.as_mut())?;
    Ok(bytes)
}

/// A new key, and what it was made of.
pub(super) fn new_key() -> io::Result<(NodeKey, Zeroizing<[u8; 32]>)> {
    loop {
        let bytes = random()?;
        if let Some(key) = NodeKey::from_random(&bytes) {
            return Ok((key, bytes));
        }
    }
}

/// A password.
fn secret() -> io::Result<String> {
    Ok(random()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn configuration(dir: &Path, admin: &str, config: &str) -> String {
    let dir = dir.display();
    format!(
        "include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile \"{dir}/slapd.pid\"
TLSCACertificateFile \"{dir}/root.pem\"
TLSCertificateFile \"{dir}/server.pem\"
TLSCertificateKeyFile \"{dir}/server.key\"
security simple_bind=128
database config
rootpw {config}
database mdb
suffix dc=lucia,dc=home,dc=arpa
rootdn cn=admin,dc=lucia,dc=home,dc=arpa
rootpw {admin}
directory \"{dir}/db\"
index objectClass,uid,cn,uidNumber,gidNumber,memberUid eq
access to attrs=userPassword by anonymous auth by * none
access to * by * none
"
    )
}
