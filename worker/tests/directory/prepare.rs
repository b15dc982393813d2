//! `prepare-directory` on a real slapd, and what a reader may do then.

use lucia_proto::node::directory::reader_dn;
use lucia_proto::test_support::TestNode;

use crate::now;
use crate::slapd::{self, Slapd};
use ldap3::Scope;
use lucia_worker::directory::acl::Drift;
use lucia_worker::directory::ldap::Asking;
use lucia_worker::directory::password::New;
use lucia_worker::directory::prepare::{Admin, CONFIG_DN, PrepareError, Report, prepare};
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
    prepare(&slapd.ldap(), &site, &home.dir, &Admin::Password(CONFIG_DN.parse().unwrap()), check, now())
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

// spec: LD-27
#[test]
fn what_else_is_a_password_is_told_of_and_a_rule_that_keeps_it_from_readers_may_lead() {
    let Some(slapd) = slapd::start("worker-directory-secrets", now(), None) else { return };
    let home = home(&slapd);
    let told = |report: &Report| {
        report
            .said
            .iter()
            .filter(|line| line.starts_with("note: ") && line.contains("olcAccess: "))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert!(told(&prepare_it(&slapd, &home, true).unwrap()).is_empty());
    let schema = "( 1.3.6.1.4.1.7165.2.1.25 NAME 'sambaNTPassword' DESC 'MD4 hash' EQUALITY caseIgnoreIA5Match SYNTAX \
                  1.3.6.1.4.1.1466.115.121.1.26{32} SINGLE-VALUE )";
    let add = async |asking: &mut Asking| {
        let values = [schema.to_owned()];
        asking.add_values("cn={3}inetorgperson,cn=schema,cn=config", "olcAttributeTypes", &values).await
    };
    assert!(slapd.as_config(add).unwrap());
    let alice = "uid=alice,ou=People,dc=lucia,dc=home,dc=arpa";
    let class = "( 1.3.6.1.4.1.7165.2.2.99 NAME 'sambaAccountOfATest' SUP top AUXILIARY MAY sambaNTPassword )";
    let add = async |asking: &mut Asking| {
        let values = [class.to_owned()];
        asking.add_values("cn={3}inetorgperson,cn=schema,cn=config", "olcObjectClasses", &values).await
    };
    assert!(slapd.as_config(add).unwrap());
    let give = async |asking: &mut Asking| {
        asking.add_values(alice, "objectClass", &["sambaAccountOfATest".to_owned()]).await?;
        asking.add_values(alice, "sambaNTPassword", &["8846F7EAEE8FB117AD06BDD830B7586C".to_owned()]).await
    };
    assert!(slapd.ldap().with(give).unwrap());
    let report = prepare_it(&slapd, &home, false).unwrap();
    let note = told(&report).concat();
    assert!(report.prepared && note.contains("sambaNTPassword"), "{report:?}");
    let (_, rule) = note.split_once("olcAccess: ").unwrap();
    let (node, new) = (TestNode::new(7), New::draw().unwrap());
    slapd.ldap().set_reader(&node.node_id, &[&new.stored]).unwrap();
    let dn = reader_dn(&node.node_id, &"dc=lucia,dc=home,dc=arpa".parse().unwrap()).unwrap();
    let reads = || {
        let find = async |asking: &mut Asking| asking.find(alice, Scope::Base, "(objectClass=*)", &["*"]).await;
        let seen = slapd.ldap().link().ask(Some((&dn, &new.clear)), find).unwrap();
        assert_eq!(seen[0].values("uid"), ["alice"]);
        !seen[0].values("sambaNTPassword").is_empty()
    };
    assert!(reads());
    // As the note says, in these words.
    let add = async |asking: &mut Asking| {
        asking.add_values("olcDatabase={1}mdb,cn=config", "olcAccess", &[rule.to_owned()]).await
    };
    assert!(slapd.as_config(add).unwrap());
    assert!(!reads());
    let before = rules(&slapd);
    for check in [true, false] {
        let report = prepare_it(&slapd, &home, check).unwrap();
        assert!(report.prepared && told(&report).is_empty(), "{report:?}");
    }
    assert_eq!((rules(&slapd), copies(&slapd)), (before, 1));
}

// spec: LD-28
#[test]
fn no_cn_config_for_whoever_asks_is_told_as_such() {
    let Some(slapd) = slapd::start("worker-directory-no-config", now(), None) else { return };
    let home = home(&slapd);
    let stranger = "cn=admin,dc=lucia,dc=home,dc=arpa";
    slapd.secret("directory-config.password", slapd::ADMIN_PASSWORD);
    let site = slapd.site(&slapd.uri());
    let refused = prepare(&slapd.ldap(), &site, &home.dir, &Admin::Password(stranger.parse().unwrap()), true, now());
    assert!(matches!(refused, Err(PrepareError::NoConfig { .. })), "{refused:?}");
    let said = lucia_worker::chain(&refused.unwrap_err());
    assert!(said.contains(stranger) && said.contains("--ldapi"), "{said}");
    assert!(!said.contains("base-dn"), "{said}");
}

// spec: LD-15
#[test]
fn root_prepares_it_by_the_socket_without_a_password() {
    let Some(slapd) = slapd::start("worker-directory-socket", now(), None) else { return };
    let home = home(&slapd);
    std::fs::remove_file(slapd.worker.path().join("directory-config.password")).unwrap();
    let by_socket = |path: &std::path::Path| {
        let site = slapd.site(&slapd.uri());
        prepare(&slapd.ldap(), &site, &home.dir, &Admin::Socket(path.to_owned()), false, now())
    };
    let nowhere = lucia_worker::chain(&by_socket(std::path::Path::new("/nonexistent/ldapi")).unwrap_err());
    assert!(nowhere.contains("ldapi:///nonexistent/ldapi"), "{nowhere}");
    let done = by_socket(&slapd.socket()).unwrap();
    assert!(done.prepared && copies(&slapd) == 1, "{done:?}");
    let again = by_socket(&slapd.socket()).unwrap();
    assert!(again.prepared && again.said.iter().all(|line| !line.contains("added")), "{again:?}");
    // Over TLS nobody is let in without a password.
    let refused = lucia_worker::chain(&prepare_it(&slapd, &home, true).unwrap_err());
    assert!(refused.contains("directory-config.password"), "{refused}");
}

// spec: LD-15
#[test]
#[expect(clippy::disallowed_methods, reason = "the real binary, as root starts it")]
fn the_binary_as_root_leaves_nothing_of_roots_in_the_workers_directory() {
    use nix::unistd::{Gid, Uid, chown, geteuid};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    let Some(slapd) = slapd::start("worker-directory-root", now(), None) else { return };
    if !geteuid().is_root() {
        let notes = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/test-skips");
        std::fs::create_dir_all(&notes).unwrap();
        std::fs::write(notes.join("worker-directory-root"), "worker-directory-root: it takes root\n").unwrap();
        return;
    }
    let home = home(&slapd);
    let state = home.dir.path().to_owned();
    std::fs::write(state.join("ca/root.pem"), slapd.root.pem()).unwrap();
    std::fs::set_permissions(state.join("ca/root.pem"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let settings = crate::fixture::Scratch::new();
    let config = settings.path().join("worker.toml");
    let text = format!(
        "state-dir = {state:?}\ncontroller-user = 0\ngroup = 0\n[directory]\nkind = \"ldap\"\nuri = {:?}\n",
        slapd.uri()
    );
    std::fs::write(&config, &text).unwrap();
    // A worker's user, who is not root and not slapd's.
    const WORKER: u32 = 64_999;
    let theirs = (Some(Uid::from_raw(WORKER)), Some(Gid::from_raw(WORKER)));
    let mut places = vec![state.clone(), state.join("ca/root.pem")];
    places.extend(std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path()));
    places.iter().for_each(|place| chown(place, theirs.0, theirs.1).unwrap());
    let run = || {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_lucia-enrollment-worker"))
            .args(["prepare-directory", "--ldapi"])
            .arg(slapd.socket())
            .arg("--config")
            .arg(&config)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(copies(&slapd), 1);
    for entry in std::fs::read_dir(&state).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().uid(), WORKER, "{:?}", entry.file_name());
    }
    assert_eq!(run().0, Some(0), "a second run");
    // A way to its directory that only a further group of root's may go is none for the worker's user.
    const ROOTS: &str = "64998";
    let way = crate::fixture::Scratch::new();
    chown(way.path(), None, Some(Gid::from_raw(ROOTS.parse().unwrap()))).unwrap();
    std::fs::set_permissions(way.path(), std::fs::Permissions::from_mode(0o710)).unwrap();
    let around = way.path().join("..").join(state.file_name().unwrap());
    std::fs::write(&config, text.replace(&format!("{state:?}"), &format!("{around:?}"))).unwrap();
    let output = std::process::Command::new("setpriv")
        .args([&format!("--groups={ROOTS}"), env!("CARGO_BIN_EXE_lucia-enrollment-worker")])
        .args(["prepare-directory", "--ldapi"])
        .arg(slapd.socket())
        .arg("--config")
        .arg(&config)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("Permission denied"), "{said}");
    // Back to this process, which takes the scratch place away.
    chown(&state, Some(geteuid()), None).unwrap();
}
