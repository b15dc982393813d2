//! Readers in a real slapd, and the servers that are not spoken to.

use lucia_proto::test_support::TestNode;

use crate::now;
use crate::slapd::{self, Slapd};
use lucia_proto::chain::Root;
use lucia_proto::directory::{Dn, reader_dn};
use lucia_worker::ca::make_root;
use lucia_worker::chain;
use lucia_worker::directory::ldap::{Ldap, PASSWORD_FILE};
use lucia_worker::directory::password::New;
use lucia_worker::directory::{Directory as _, DirectoryError};

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
    let found = ldap.readers().unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[&node.node_id].len(), 2);
    assert!(found[&node.node_id].contains(&three.stored.as_str().to_owned()));
    for _ in 0..2 {
        ldap.delete_reader(&node.node_id).unwrap();
    }
    assert!(matches!(binds(&slapd, &node, &two), Err(DirectoryError::Bind { .. })));
    binds(&slapd, &other, &three).unwrap();
    assert_eq!(ldap.readers().unwrap().len(), 1);
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
