use super::*;

const PASSWORD: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOP_";

fn access() -> DirectoryAccess {
    let answer: lucia_proto::node::answer::Answer = lucia_proto::base::json::from_str(
        include_str!("../../../../tests/vectors/answer-directory.json"),
        64 * 1024,
        lucia_proto::base::limits::JSON_DEPTH_MAX,
    )
    .unwrap();
    answer.directory.unwrap()
}

// spec: DI-1
#[test]
fn the_file_is_the_template_and_nothing_else() {
    let text = render(&access(), PASSWORD, "/etc/lucia/root.pem").unwrap();
    assert!(text.starts_with(MARK));
    let sections = parse(&text).unwrap();
    let names: Vec<_> = sections.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["sssd", "nss", "domain/lucia"]);
    let value = |key: &str| sections[2].1.iter().find(|(found, _)| found == key).unwrap().1.as_str();
    for (key, wanted) in [
        ("id_provider", "ldap"),
        ("access_provider", "simple"),
        ("simple_allow_groups", "lucia-owners"),
        ("ldap_tls_reqcert", "demand"),
        ("ldap_tls_cacert", "/etc/lucia/root.pem"),
        ("ldap_referrals", "false"),
        ("ldap_default_authtok", std::str::from_utf8(PASSWORD).unwrap()),
        ("enumerate", "false"),
        ("min_id", "1000"),
        ("sudo_provider", "none"),
    ] {
        assert_eq!(value(key), wanted, "{key}");
    }
    assert!(value("ldap_uri").starts_with("ldaps://"));
    assert!(!text.contains("services"), "socket activation");
    let filtered = |key: &str| sections[1].1.iter().find(|(found, _)| found == key).unwrap().1.split(',').count();
    assert!(filtered("filter_users") > 20 && filtered("filter_groups") > 40);
}

/// threats.md D-2.
// spec: DI-2
#[test]
fn only_a_password_that_a_worker_makes_is_written() {
    for bad in [
        &b""[..],
        b"short",
        b"abcdefghijklmnop\n",
        b"abcdefghijklmnop#",
        b"abcdefghijklmnop\"",
        b"abcdefghijklmnop%",
        b" abcdefghijklmnop",
        b"abcdefghijklmnop\\",
        b"abcdefghijklmnop=",
        b"abcdefghijklmnop\0",
        "abcdefghijklmnop\u{e4}".as_bytes(),
        b"abcdefghijklmnop\xff",
        &[b'a'; 129],
    ] {
        assert_eq!(render(&access(), bad, "/etc/lucia/root.pem").unwrap_err(), RenderError::Password, "{bad:?}");
    }
    assert!(render(&access(), &[b'-'; 16], "/etc/lucia/root.pem").is_ok());
    for bad in [
        "",
        "root.pem",
        "/etc/lucia/a b.pem",
        "/etc/lucia/root.pem\n[domain/evil]",
        "/etc/%u",
        "/a;b",
        "/a#b",
        "/\u{e4}",
    ] {
        assert_eq!(render(&access(), PASSWORD, bad).unwrap_err(), RenderError::RootFile, "{bad:?}");
    }
}

/// threats.md D-3: were a grammar ever wider than it is, the comparison still refuses.
// spec: DI-2
#[test]
fn a_value_that_would_not_be_read_back_as_it_is_is_refused() {
    for bad in [
        "x\n[domain/evil]",
        "x\nldap_uri = ldap://evil",
        "x\r\n",
        "x\n more",
        "x;y",
        "x # y",
        "x\\",
        "x\\\n",
        " x",
        "x ",
        "\tx",
        "\"x\"",
        "'x'",
        "",
        "x\0",
        "\u{e4}",
        "x\u{2028}y",
    ] {
        let refused = written(&[("sssd", &[("domains", "lucia"), ("other", bad), ("last", "1")])]);
        assert!(refused.is_err(), "{bad:?}");
    }
    assert!(written(&[("sssd", &[("domains", "lucia"), ("other", "dc=a,dc=b c"), ("last", "1")])]).is_ok());
    for bad in [
        &[("sssd", &[("a", "1"), ("a", "2")][..])][..],
        &[("sssd", &[("a", "1")][..]), ("sssd", &[("b", "1")][..])],
        &[("sss]d", &[("a", "1")][..])],
        &[("sssd", &[("a = b", "1")][..])],
        &[("sssd", &[("[a]", "1")][..])],
        &[("sssd", &[("#a", "1")][..])],
    ] {
        assert!(written(bad).is_err(), "{bad:?}");
    }
    for bad in ["a = 1\n", "[sssd\n", "[sssd]\nnothing\n", "[sssd]\n a = 1\n", "[sssd]\n;a = 1\n", "[]\n"] {
        assert!(parse(bad).is_err(), "{bad:?}");
    }
}
