//! `prepare-directory` on a real slapd, and what a reader may do then.

use lucia_proto::directory::reader_dn;
use lucia_proto::test_support::TestNode;

use crate::now;
use crate::slapd::{self, Slapd};
use ldap3::Scope;
use lucia_worker::directory::acl::Drift;
use lucia_worker::directory::ldap::Asking;
use lucia_worker::directory::password::New;
use lucia_worker::directory::prepare::{CONFIG_DN, PrepareError, Report, prepare};
use lucia_worker::directory::{Directory as _, DirectoryError};
use lucia_worker::home::Home;

/// The worker's directory as `init` leaves it, as far as this needs it.
fn home(slapd: &Slapd) -> Home {
    for name in ["ca", "receipts"] {
        let path = slapd.worker.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }
    Home::open(&slapd.config()).unwrap()
}

fn prepare_it(slapd: &Slapd, home: &Home, check: bool) -> Result<Report, PrepareError> {
    let site = slapd.site(&slapd.uri());
    prepare(&slapd.ldap(), &site, home, &CONFIG_DN.parse().unwrap(), check, now())
}

fn copies(slapd: &Slapd) -> usize {
    let names = std::fs::read_dir(slapd.worker.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("directory-acl-")).count()
}

/// The rules as they are, in their order.
fn rules(slapd: &Slapd) -> Vec<String> {
    let find = async |asking: &mut Asking| {
        asking.find("cn=config", Scope::Subtree, "(olcSuffix=dc=lucia,dc=home,dc=arpa)", &["olcAccess"]).await
    };
    let found = slapd.as_config(find).unwrap();
    lucia_worker::directory::acl::in_order(found[0].values("olcAccess")).unwrap()
}

// spec: LD-12
#[test]
fn it_is_prepared_once_and_a_second_run_changes_nothing() {
    let Some(slapd) = slapd::start("worker-directory-prepare", now(), None) else { return };
    let home = home(&slapd);
    let before = rules(&slapd);
    let looked = prepare_it(&slapd, &home, true).unwrap();
    assert!(!looked.prepared && copies(&slapd) == 0 && rules(&slapd) == before, "{looked:?}");
    let done = prepare_it(&slapd, &home, false).unwrap();
    assert!(done.prepared && copies(&slapd) == 1, "{done:?}");
    let after = rules(&slapd);
    assert_eq!(after.len(), before.len() + 2);
    assert_eq!(after[2..], before);
    for check in [true, false] {
        let again = prepare_it(&slapd, &home, check).unwrap();
        assert!(again.prepared && again.said.iter().all(|line| !line.contains("added")), "{again:?}");
    }
    assert_eq!((rules(&slapd), copies(&slapd)), (after, 1));
}

// spec: LD-13
#[test]
fn a_reader_reads_accounts_and_no_password_and_writes_nothing() {
    let Some(slapd) = slapd::start("worker-directory-reader", now(), None) else { return };
    let home = home(&slapd);
    prepare_it(&slapd, &home, false).unwrap();
    let (node, new) = (TestNode::new(7), New::draw().unwrap());
    let ldap = slapd.ldap();
    ldap.set_reader(&node.node_id, &[&new.stored]).unwrap();
    let dn = reader_dn(&node.node_id, &"dc=lucia,dc=home,dc=arpa".parse().unwrap()).unwrap();
    let who = Some((&dn, &new.clear));
    let find = async |asking: &mut Asking| {
        asking.find("dc=lucia,dc=home,dc=arpa", Scope::Subtree, "(|(uid=*)(gidNumber=*))", &["*"]).await
    };
    let seen = ldap.link().ask(who, find).unwrap();
    let alice = seen.iter().find(|entry| entry.dn.starts_with("uid=alice,")).unwrap();
    assert_eq!(
        (alice.values("uidNumber"), alice.values("gidNumber")),
        (&["20001".to_owned()][..], &["20000".to_owned()][..])
    );
    assert!(seen.iter().any(|entry| entry.values("memberUid") == ["alice".to_owned()]));
    assert!(seen.iter().all(|entry| entry.values("userPassword").is_empty()));
    // Neither another's entry nor its own, which the site's rules would let it change.
    for target in [alice.dn.as_str(), dn.as_str()] {
        for attribute in ["description", "userPassword"] {
            let change = async |asking: &mut Asking| asking.add_values(target, attribute, &["mine".to_owned()]).await;
            let refused = ldap.link().ask(who, change);
            assert!(
                matches!(refused, Err(DirectoryError::Refused { code: 50, .. })),
                "{target} {attribute}: {refused:?}"
            );
        }
    }
    assert_eq!(ldap.link().ask(None, find).unwrap().len(), 0, "nobody sees anything without binding");
}

// spec: LD-14
#[test]
fn rules_that_are_not_as_left_are_not_touched() {
    let Some(slapd) = slapd::start("worker-directory-drift", now(), None) else { return };
    let home = home(&slapd);
    let strange = "{0}to * by dn.regex=\"^uid=node-.*$\" write by * break".to_owned();
    let add =
        async |asking: &mut Asking| asking.add_values("olcDatabase={1}mdb,cn=config", "olcAccess", &[strange]).await;
    assert!(slapd.as_config(add).unwrap());
    let before = rules(&slapd);
    for check in [true, false] {
        let refused = prepare_it(&slapd, &home, check);
        assert!(matches!(refused, Err(PrepareError::Drift(Drift::Other { place: 0, .. }))), "{refused:?}");
    }
    assert_eq!((rules(&slapd), copies(&slapd)), (before, 0));
}
