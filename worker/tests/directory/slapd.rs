//! A real slapd for tests: on loopback, as an unprivileged user, with its own directory, ended by its process id.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ldap3::Scope;
use lucia_proto::base::limits::LEAF_LIFETIME;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::directory::Dn;
use lucia_proto::pki::chain::Root;
use lucia_proto::pki::csr;
use lucia_proto::pki::endpoint_names::{EndpointName, EndpointNames};
use zeroize::Zeroizing;

use crate::fixture::Scratch;
use lucia_worker::ca::{Ca as _, Embedded, make_issuing, make_root};
use lucia_worker::config::{Config, DirectoryConfig, Settings};
use lucia_worker::directory::ldap::{Asking, Entry, Ldap, PASSWORD_FILE};
use lucia_worker::directory::prepare::{CONFIG_DN, CONFIG_PASSWORD_FILE};
use lucia_worker::directory::{DirectoryError, Found};

const PROGRAMS: [&str; 2] = ["/usr/sbin/slapd", "/usr/sbin/slapadd"];
/// Debian's `nobody`, and its group.
const NOBODY: u32 = 65534;
/// Room of the database, in bytes.
const DATABASE_MAX: u32 = 1 << 20;
pub(crate) const ADMIN_PASSWORD: &str = "a password of the administrator";
/// Held while a server runs: several at once on a small machine make one another slower than the worker waits, and a port
/// that one was told is free may be the next one's.
static ALONE: Mutex<()> = Mutex::new(());
/// Starts before it is given up; one fails when somebody else took its port in between.
const STARTS: usize = 5;
const CONFIG_PASSWORD: &str = "another for cn=config";

const SEED: &str = "\
dn: dc=lucia,dc=home,dc=arpa
objectClass: dcObject
objectClass: organization
dc: lucia
o: Lucia

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
gidNumber: 20000
homeDirectory: /home/alice
userPassword: the password of alice

dn: cn=lucia-owners,ou=Groups,dc=lucia,dc=home,dc=arpa
objectClass: posixGroup
cn: lucia-owners
gidNumber: 20000
memberUid: alice
";

/// The server, the fleet's root, and a worker's directory with the passwords in it.
pub(crate) struct Slapd {
    child: Child,
    files: Scratch,
    pub(crate) worker: Scratch,
    pub(crate) root: Root,
    pub(crate) port: u16,
    /// Where the same server speaks without TLS.
    pub(crate) plain_port: u16,
    _alone: MutexGuard<'static, ()>,
}

/// Starts one, or notes that `test` is skipped: `make test` counts the note, and it is a failure under CI.
pub(crate) fn start(test: &str, now: UnixTime, state: Option<&Path>) -> Option<Slapd> {
    if PROGRAMS.iter().all(|program| Path::new(program).exists()) {
        return Some(Slapd::start(now, state));
    }
    let notes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/test-skips");
    std::fs::create_dir_all(&notes).unwrap();
    std::fs::write(notes.join(test), format!("{test}: slapd is not installed. Cure: make setup\n")).unwrap();
    None
}

#[expect(clippy::disallowed_methods, reason = "tests start a real server; the worker itself starts nothing")]
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn run(program: &str, args: &[&str]) {
    let status = command(program).args(args).status().unwrap();
    assert!(status.success(), "{program} {args:?}: {status}");
}

impl Slapd {
    fn start(now: UnixTime, state: Option<&Path>) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (files, worker) = (Scratch::new(), Scratch::new());
        let (root_pem, ca) = match state {
            // Of the fleet whose directory this is.
            Some(state) => {
                let text = |name: &str| std::fs::read_to_string(state.join("ca").join(name)).unwrap();
                (text("root.pem"), Embedded::open(&text("issuing.pem"), &text("issuing.key")).unwrap())
            }
            None => {
                let root = make_root(now).unwrap();
                let issuing = make_issuing(&root, now).unwrap();
                (root.pem, Embedded::open(&issuing.pem, &issuing.key.to_pem().unwrap()).unwrap())
            }
        };
        let key = lucia_proto::test_support::key(99);
        let names = EndpointNames::new(vec![EndpointName::parse("localhost").unwrap()]).unwrap();
        let csr = csr::endpoint_check(&csr::endpoint_build(&names, &key), &names).unwrap();
        let put = |name: &str, text: &str| std::fs::write(files.path().join(name), text).unwrap();
        put("server.pem", &ca.sign_server(&csr.into(), LEAF_LIFETIME, now).unwrap().pem);
        put("server.key", &key.to_pem().unwrap());
        put("ca.pem", &root_pem);
        put("seed.ldif", SEED);
        put("slapd.conf", &configuration(files.path()));
        for dir in ["db", "slapd.d"] {
            std::fs::create_dir(files.path().join(dir)).unwrap();
        }
        if nix::unistd::geteuid().is_root() {
            let owner = (Some(nix::unistd::Uid::from_raw(NOBODY)), Some(nix::unistd::Gid::from_raw(NOBODY)));
            nix::unistd::chown(files.path(), owner.0, owner.1).unwrap();
            for entry in std::fs::read_dir(files.path()).unwrap() {
                nix::unistd::chown(&entry.unwrap().path(), owner.0, owner.1).unwrap();
            }
        }
        let at = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
        run("/usr/sbin/slapadd", &["-f", &at("slapd.conf"), "-n", "1", "-l", &at("seed.ldif")]);
        // The first start turns the file into cn=config; what is changed there afterwards stays.
        let begin = || {
            let (port, plain_port) = (free_port(), free_port());
            let mut child = serve(files.path(), &["-f", &at("slapd.conf")], port, plain_port);
            listens(&mut child, port).then_some((child, port, plain_port))
        };
        let (child, port, plain_port) = (0..STARTS).find_map(|_| begin()).unwrap();
        let root = Root::from_pem(&root_pem).unwrap();
        let slapd = Self { child, files, worker, root, port, plain_port, _alone: alone };
        slapd.secret(PASSWORD_FILE, &format!("{ADMIN_PASSWORD}\n"));
        slapd.secret(CONFIG_PASSWORD_FILE, CONFIG_PASSWORD);
        slapd.await_answer();
        slapd
    }

    /// slapd takes connections before it has read its configuration, and the first start takes its time for that.
    fn await_answer(&self) {
        let mut last = None;
        // Each of them waits by itself for as long as the worker does.
        for _ in 0..10 {
            match self.ldap().link().ask(None, async |_| Ok(())) {
                Ok(()) => return,
                Err(error) => last = Some(error),
            }
        }
        panic!("slapd answers nobody: {last:?}");
    }

    /// Ends it, and nothing else.
    pub(crate) fn stop(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Its socket on this host.
    pub(crate) fn socket(&self) -> PathBuf {
        self.files.path().join("ldapi")
    }

    /// Its database, which only a server that is stopped leaves alone.
    pub(crate) fn database(&self) -> PathBuf {
        self.files.path().join("db")
    }

    /// Starts it again on the same files and ports.
    pub(crate) fn start_again(&mut self) {
        self.child = serve(self.files.path(), &[], self.port, self.plain_port);
        assert!(listens(&mut self.child, self.port), "slapd ended at once");
        self.await_answer();
    }

    /// Writes a secret file of the worker.
    pub(crate) fn secret(&self, name: &str, text: &str) {
        let path = self.worker.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    }

    /// The section for it, with this URI.
    pub(crate) fn site(&self, uri: &str) -> DirectoryConfig {
        let text = format!("kind = \"ldap\"\nuri = {uri:?}");
        toml::from_str::<lucia_worker::config::DirectorySettings>(&text).unwrap().resolve().unwrap().unwrap()
    }

    pub(crate) fn uri(&self) -> String {
        format!("ldaps://localhost:{}", self.port)
    }

    /// A worker's settings; only its own directory matters here.
    pub(crate) fn config(&self) -> Config {
        let text = format!("state-dir = {:?}\ncontroller-user = 0\ngroup = 0", self.worker.path());
        Settings::parse(&text).unwrap().resolve().unwrap()
    }

    /// Makes the place of readers, which `prepare-directory` does otherwise.
    pub(crate) fn with_services(&self) -> Ldap {
        let ldap = self.ldap();
        let services = ldap.services().unwrap();
        assert!(matches!(ldap.check(), Err(DirectoryError::NoPlace { .. })));
        let place = [("objectClass", vec!["organizationalUnit"]), ("ou", vec!["Services"])];
        ldap.with(async |asking| asking.add(&services, &place).await).unwrap();
        ldap.check().unwrap();
        ldap
    }

    /// All readers there are, as the administrator lists them.
    pub(crate) fn readers(&self) -> Found {
        let ldap = self.ldap();
        let services = ldap.services().unwrap();
        let list = async |asking: &mut Asking| {
            asking.find(services.as_str(), Scope::OneLevel, "(uid=node-*)", &["uid", "userPassword"]).await
        };
        let read = |entry: &Entry| {
            let id = entry.values("uid")[0].strip_prefix("node-").unwrap().parse().unwrap();
            (id, entry.values("userPassword").to_vec())
        };
        ldap.with(list).unwrap().iter().map(read).collect()
    }

    /// Whether somebody can bind with this password.
    pub(crate) fn binds(&self, dn: &Dn, password: &Zeroizing<String>) -> Result<(), DirectoryError> {
        self.ldap().link().ask(Some((dn, password)), async |_| Ok(()))
    }

    /// Asks as the administrator of cn=config.
    pub(crate) fn as_config<T>(
        &self,
        question: impl AsyncFnOnce(&mut Asking) -> Result<T, DirectoryError>,
    ) -> Result<T, DirectoryError> {
        let password = Zeroizing::new(CONFIG_PASSWORD.to_owned());
        self.ldap().link().ask(Some((&CONFIG_DN.parse().unwrap(), &password)), question)
    }

    /// The server as the worker asks it.
    pub(crate) fn ldap(&self) -> Ldap {
        Ldap::open(&self.config(), self.site(&self.uri()), &self.root).unwrap()
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(files: &Path, from: &[&str], port: u16, plain_port: u16) -> Child {
    let socket = files.join("ldapi").display().to_string().replace('/', "%2F");
    let urls = format!("ldaps://localhost:{port}/ ldap://localhost:{plain_port}/ ldapi://{socket}/");
    let config: PathBuf = files.join("slapd.d");
    command("/usr/sbin/slapd").args(from).arg("-F").arg(config).args(["-h", &urls, "-d", "none"]).spawn().unwrap()
}

/// Waits until it listens; false when it ended first.
fn listens(child: &mut Child, port: u16) -> bool {
    for _ in 0..3000 {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return true;
        }
        // A signal only ends the wait early.
        let _ = nix::poll::poll(&mut [], 10_u16);
    }
    panic!("slapd does not listen on {port}");
}

fn configuration(dir: &Path) -> String {
    let dir = dir.display();
    // As Debian has it for root.
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    format!(
        "include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
referral ldaps://elsewhere.example
TLSCACertificateFile {dir}/ca.pem
TLSCertificateFile {dir}/server.pem
TLSCertificateKeyFile {dir}/server.key
security simple_bind=128
database config
rootpw \"{CONFIG_PASSWORD}\"
access to * by dn.exact=\"gidNumber={gid}+uidNumber={uid},cn=peercred,cn=external,cn=auth\" manage by * break
database mdb
suffix \"dc=lucia,dc=home,dc=arpa\"
rootdn \"cn=admin,dc=lucia,dc=home,dc=arpa\"
rootpw \"{ADMIN_PASSWORD}\"
directory {dir}/db
maxsize {DATABASE_MAX}
access to attrs=userPassword by self write by anonymous auth by * none
access to * by self write by * none
"
    )
}
