//! Readers in a real slapd, and the servers that are not spoken to.

use std::time::Duration;

use ldap3::Scope;
use lucia_proto::base::ids::NodeId;
use lucia_proto::test_support::TestNode;

use crate::now;
use crate::slapd::{self, Slapd};
use lucia_proto::node::directory::{Dn, reader_dn};
use lucia_proto::pki::chain::Root;
use lucia_worker::ca::make_root;
use lucia_worker::chain;
use lucia_worker::directory::budget::Stopwatch;
use lucia_worker::directory::ldap::{Asking, Ldap, PASSWORD_FILE};
use lucia_worker::directory::password::New;
use lucia_worker::directory::readers::{Readers, WantedReaders};
use lucia_worker::directory::{Directory as _, DirectoryError, health};

fn dn(node: &TestNode) -> Dn {
    reader_dn(&node.node_id, &"dc=lucia,dc=home,dc=arpa".parse().unwrap()).unwrap()
}

/// Whether a reader can bind with this password.
fn binds(slapd: &Slapd, node: &TestNode, password: &New) -> Result<(), DirectoryError> {
    slapd.binds(&dn(node), &password.clear)
}

// spec: LD-3
#[test]
fn both_passwords_work_while_one_follows_the_other() {
    let Some(slapd) = slapd::start("worker-directory-rotation", now(), None) else { return };
    let (node, other) = (TestNode::new(7), TestNode::new(8));
    let [one, two, three] = [(); 3].map(|()| New::draw().unwrap());
    let nowhere = slapd.ldap().set_reader(&node.node_id, &[&one.stored]);
    assert!(matches!(nowhere, Err(DirectoryError::NoPlace { .. })), "{nowhere:?}");
    let ldap = slapd.with_services();
    ldap.set_reader(&other.node_id, &[&three.stored]).unwrap();
    for _ in 0..2 {
        ldap.set_reader(&node.node_id, &[&one.stored]).unwrap();
    }
    binds(&slapd, &node, &one).unwrap();
    ldap.set_reader(&node.node_id, &[&two.stored, &one.stored]).unwrap();
    binds(&slapd, &node, &one).unwrap();
    binds(&slapd, &node, &two).unwrap();
    ldap.set_reader(&node.node_id, &[&three.stored, &two.stored]).unwrap();
    assert!(matches!(binds(&slapd, &node, &one), Err(DirectoryError::Bind { .. })));
    binds(&slapd, &node, &two).unwrap();
    let found = ldap.readers(&[node.node_id.clone(), TestNode::new(9).node_id]).unwrap();
    assert_eq!(found.len(), 1, "of those that were asked about");
    assert_eq!(found[&node.node_id].len(), 2);
    assert!(found[&node.node_id].contains(&three.stored.as_str().to_owned()));
    for _ in 0..2 {
        ldap.delete_reader(&node.node_id).unwrap();
    }
    assert!(matches!(binds(&slapd, &node, &two), Err(DirectoryError::Bind { .. })));
    binds(&slapd, &other, &three).unwrap();
    assert_eq!(slapd.readers().len(), 1);
}

// spec: LD-4 D-2
#[test]
fn only_the_right_server_is_spoken_to_and_only_with_a_password() {
    let Some(slapd) = slapd::start("worker-directory-server", now(), None) else { return };
    slapd.with_services();
    let other_root = Root::from_pem(&make_root(now()).unwrap().pem).unwrap();
    let good = slapd.uri();
    let at = |uri: &str, root: &Root| Ldap::open(&slapd.config(), slapd.site(uri), root).unwrap().check();
    at(&good, &slapd.root).unwrap();
    let plain = format!("ldaps://localhost:{}", slapd.plain_port);
    let address = format!("ldaps://127.0.0.1:{}", slapd.port);
    for (name, uri, root) in [
        ("another CA", &good, &other_root),
        ("a certificate of another name", &address, &slapd.root),
        ("no TLS", &plain, &slapd.root),
        ("nobody there", &"ldaps://localhost:1".to_owned(), &slapd.root),
    ] {
        let refused = at(uri, root).unwrap_err();
        assert!(
            matches!(refused, DirectoryError::Unreachable { .. } | DirectoryError::Slow { .. }),
            "{name}: {refused:?}"
        );
        assert!(!chain(&refused).contains(slapd::ADMIN_PASSWORD), "{name}");
    }
    let mut elsewhere = slapd.site(&good);
    elsewhere.base_dn = "dc=elsewhere".parse().unwrap();
    let refused = Ldap::open(&slapd.config(), elsewhere, &slapd.root).unwrap().check();
    assert!(matches!(refused, Err(DirectoryError::Referral { .. })), "{refused:?}");
    for bad in ["", "\n", "a\nb", "\u{7f}", "\0"] {
        slapd.secret(PASSWORD_FILE, bad);
        assert!(matches!(at(&good, &slapd.root), Err(DirectoryError::Password { .. })), "{bad:?}");
    }
    slapd.secret(PASSWORD_FILE, " leading, # and \" and %");
    assert!(matches!(at(&good, &slapd.root), Err(DirectoryError::Bind { .. })));
    std::fs::set_permissions(
        slapd.worker.path().join(PASSWORD_FILE),
        std::os::unix::fs::PermissionsExt::from_mode(0o640),
    )
    .unwrap();
    assert!(matches!(at(&good, &slapd.root), Err(DirectoryError::Read(_))));
}

/// An account that may write below `ou=Services` and is nobody's rootdn, as `bind-dn` should be.
const WRITER: &str = "uid=worker,ou=People,dc=lucia,dc=home,dc=arpa";
/// One more than slapd gives to such an account.
const MANY: usize = 501;

/// The server, asked as that account.
fn as_writer(slapd: &Slapd) -> Ldap {
    let ldap = slapd.with_services();
    let dn = WRITER.parse().unwrap();
    let account = [
        ("objectClass", vec!["account", "simpleSecurityObject"]),
        ("uid", vec!["worker"]),
        ("userPassword", vec!["of the writer"]),
    ];
    assert!(ldap.with(async |asking| asking.add(&dn, &account).await).unwrap());
    let rule = format!("{{0}}to dn.subtree=\"{}\" by dn.exact=\"{WRITER}\" write by * break", ldap.services().unwrap());
    let allow =
        async |asking: &mut Asking| asking.add_values("olcDatabase={1}mdb,cn=config", "olcAccess", &[rule]).await;
    assert!(slapd.as_config(allow).unwrap());
    slapd.secret(PASSWORD_FILE, "of the writer");
    let mut site = slapd.site(&slapd.uri());
    site.bind_dn = dn;
    Ldap::open(&slapd.config(), site, &slapd.root).unwrap()
}

// spec: LD-23
#[test]
fn a_fleet_of_more_readers_than_slapd_lists_is_seen_whole() {
    let Some(slapd) = slapd::start("worker-directory-many", now(), None) else { return };
    let (base, ldap) = ("dc=lucia,dc=home,dc=arpa".parse().unwrap(), as_writer(&slapd));
    let nodes: Vec<NodeId> = (0..MANY).map(|number| format!("{number:032x}").parse().unwrap()).collect();
    let password = New::draw().unwrap().stored;
    let make = async |asking: &mut Asking, some: &[NodeId]| {
        for node_id in some {
            let (dn, uid) = (reader_dn(node_id, &base).unwrap(), format!("node-{node_id}"));
            let entry = [
                ("objectClass", vec!["account", "simpleSecurityObject"]),
                ("uid", vec![uid.as_str()]),
                ("userPassword", vec![password.as_str()]),
            ];
            assert!(asking.add(&dn, &entry).await?);
        }
        Ok(())
    };
    // A few at a time: what is asked at once has to be done in time, on a busy machine too.
    for some in nodes.chunks(25) {
        ldap.with(async |asking| make(asking, some).await).unwrap();
    }
    // A list of them all is cut short, which is told and never taken for the whole.
    let services = ldap.services().unwrap();
    let list = async |asking: &mut Asking| {
        asking.find(services.as_str(), Scope::OneLevel, "(uid=node-*)", &["uid"]).await.map(|found| found.len())
    };
    let cut = ldap.with(list);
    assert!(matches!(cut, Err(DirectoryError::Limit { code: 4 })), "{cut:?}");
    assert!(chain(&cut.unwrap_err()).contains("olcLimits"));
    assert!(ldap.with(async |asking| asking.any(services.as_str(), Scope::OneLevel, "(uid=*)").await).unwrap());
    // All are of nodes that were removed: not one stays.
    let stopwatch: Stopwatch = Box::new(|| Duration::ZERO);
    let mut readers = Readers::new(Box::new(ldap), stopwatch);
    readers.turn();
    let gone = nodes.into_iter().map(WantedReaders::Gone);
    assert_eq!(readers.sweep(gone, MANY, now()).unwrap(), MANY);
    slapd.secret(PASSWORD_FILE, slapd::ADMIN_PASSWORD);
    assert!(slapd.readers().is_empty());
}

// spec: LD-24
#[test]
fn a_directory_that_takes_seconds_is_told_of() {
    let Some(slapd) = slapd::start("worker-directory-slow", now(), None) else { return };
    slapd.with_services();
    let mut config = slapd.config();
    config.directory = Some(slapd.site(&slapd.uri()));
    for (millis, slow) in [(999, None), (3000, Some("took 3 s to answer one question"))] {
        let reading = std::sync::atomic::AtomicU32::new(0);
        let next = move || millis * reading.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let stopwatch: Stopwatch = Box::new(move || Duration::from_millis(next().into()));
        let health = health(&config, &slapd.root, &stopwatch).unwrap();
        assert_eq!(health.said, format!("{}, answers", slapd.uri()));
        assert_eq!(health.slow.is_some(), slow.is_some());
        assert!(health.slow.unwrap_or_default().contains(slow.unwrap_or_default()));
    }
}
