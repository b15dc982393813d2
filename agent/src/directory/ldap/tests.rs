use tokio::io::duplex;

use super::*;

/// A directory that a test decides: what a reader's question comes to.
pub(crate) struct FakeDirectory<F>(pub(crate) F);

impl<F: Fn(&Reader) -> Result<(), LdapError>> Directory for FakeDirectory<F> {
    async fn read(&self, reader: &Reader) -> Result<(), LdapError> {
        (self.0)(reader)
    }
}

/// The reader of the committed vector, with this password.
pub(crate) fn reader(password: &str) -> Reader {
    let answer: lucia_proto::node::answer::Answer = lucia_proto::base::json::from_str(
        include_str!("../../../../tests/vectors/answer-directory.json"),
        64 * 1024,
        lucia_proto::base::limits::JSON_DEPTH_MAX,
    )
    .unwrap();
    Reader { access: answer.directory.unwrap(), password: Zeroizing::new(password.as_bytes().to_vec()) }
}

fn message(id: u8, tag: u8, content: &[u8]) -> Vec<u8> {
    value(SEQUENCE, &[value(INTEGER, &[id]).to_vec(), value(tag, content).to_vec()].concat()).to_vec()
}

/// A result: code, matched DN, words.
fn result(code: u8) -> Vec<u8> {
    [&[ENUMERATED, 1, code][..], &value(OCTETS, b""), &value(OCTETS, b"some words of the server")].concat()
}

/// Which error it is, and with which result code.
fn variant(error: &LdapError) -> (std::mem::Discriminant<LdapError>, Option<u8>) {
    let code = match error {
        LdapError::Bind(code) | LdapError::Group(code) => Some(*code),
        _ => None,
    };
    (std::mem::discriminant(error), code)
}

/// What the server says once everything is asked, and what the reader makes of it; also what was asked.
async fn asked(said: Vec<u8>, password: &str) -> (Result<(), LdapError>, Vec<u8>) {
    let (mut ours, theirs) = duplex(128 * 1024);
    let (mut from, mut to) = tokio::io::split(theirs);
    to.write_all(&said).await.unwrap();
    to.shutdown().await.unwrap();
    let answer = timeout(Duration::from_secs(5), ask(&mut ours, &reader(password))).await.unwrap();
    drop(ours);
    let mut heard = Vec::new();
    from.read_to_end(&mut heard).await.unwrap();
    (answer, heard)
}

fn good() -> [Vec<u8>; 3] {
    let entry = [value(OCTETS, b"cn=lucia-owners").to_vec(), value(SEQUENCE, &[]).to_vec()].concat();
    [message(1, BIND_RESPONSE, &result(0)), message(2, SEARCH_ENTRY, &entry), message(2, SEARCH_DONE, &result(0))]
}

// spec: DI-12
#[tokio::test(start_paused = true)]
async fn a_reader_that_may_bind_and_see_the_group_may_read() {
    let (answer, heard) = asked(good().concat(), "the-password-of-the-reader").await;
    answer.unwrap();
    // Version 3, the reader's own DN, a simple password; then the group's entry and nothing else.
    let access = reader("x").access;
    let holds = |part: &[u8]| heard.windows(part.len()).any(|window| window == part);
    assert!(holds(&[&[INTEGER, 1, 3][..], &value(OCTETS, access.bind_dn.as_str().as_bytes())].concat()));
    assert!(holds(&value(0x80, b"the-password-of-the-reader")));
    assert!(holds(&[&value(OCTETS, access.owner_group.as_str().as_bytes())[..], &[ENUMERATED, 1, 0]].concat()));
    assert!(heard.ends_with(&[SEQUENCE, 5, INTEGER, 1, 3, UNBIND_REQUEST, 0]));
    let long: lucia_proto::node::directory::LdapUri = "ldaps://directory.lucia.home.arpa".parse().unwrap();
    assert_eq!((long.host(), long.port()), ("directory.lucia.home.arpa", 636));
    let short: lucia_proto::node::directory::LdapUri = "ldaps://192.0.2.7:1636".parse().unwrap();
    assert_eq!((short.host(), short.port()), ("192.0.2.7", 1636));
}

/// threats.md D-2: everything a directory, or whoever stands in for it, may answer instead.
// spec: DI-12
#[tokio::test(start_paused = true)]
async fn whatever_else_it_answers_is_refused() {
    let [bound, entry, done] = good();
    let done_with = |code| message(2, SEARCH_DONE, &result(code));
    let reference = message(2, 0x73, &value(OCTETS, b"ldap://evil/"));
    let notice = message(0, 0x78, &result(52));
    let form = || LdapError::Form;
    let reach = || LdapError::Reach(io::ErrorKind::UnexpectedEof.into());
    let (bind, group) = (|code| LdapError::Bind(code), |code| LdapError::Group(code));
    let cases: Vec<(&str, Vec<u8>, LdapError)> = vec![
        ("wrong password", message(1, BIND_RESPONSE, &result(49)), bind(49)),
        ("referral at bind", message(1, BIND_RESPONSE, &result(10)), bind(10)),
        ("no code", message(1, BIND_RESPONSE, &[]), form()),
        ("wide code", message(1, BIND_RESPONSE, &[ENUMERATED, 2, 0, 0]), form()),
        ("another id", message(2, BIND_RESPONSE, &result(0)), form()),
        ("search before bind", [&entry[..], &done].concat(), form()),
        ("no entry", [&bound[..], &done].concat(), group(0)),
        ("no such group", [&bound[..], &done_with(32)].concat(), group(32)),
        ("entry, then referral", [&bound[..], &entry, &done_with(10)].concat(), group(10)),
        ("reference", [&bound[..], &reference, &done].concat(), form()),
        ("entries without end", [&bound[..], &entry.repeat(50)].concat(), form()),
        ("notice of disconnection", notice, form()),
        ("nothing", Vec::new(), reach()),
        ("cut", bound[..bound.len() - 1].to_vec(), reach()),
        ("HTTP", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), form()),
        ("no end of length", vec![SEQUENCE, 0x80, 0, 0], form()),
        ("five bytes of length", vec![SEQUENCE, 0x85, 0, 0, 0, 0, 1, 0], form()),
        ("4 GiB", vec![SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff], form()),
        ("over 64 KiB", [&[SEQUENCE, 0x83, 1, 0, 1][..], &[0; 65537]].concat(), form()),
        ("inner length too long", vec![SEQUENCE, 5, INTEGER, 1, 1, BIND_RESPONSE, 0x7f], form()),
        ("empty", vec![SEQUENCE, 0], form()),
    ];
    for (what, said, want) in cases {
        let error = asked(said, "the-password").await.0.unwrap_err();
        assert_eq!(variant(&error), variant(&want), "{what}: {error}");
    }
    // An empty password would be nobody's bind, and succeed.
    let (answer, heard) = asked(good().concat(), "").await;
    assert!(answer.is_err() && heard.is_empty(), "nothing is said");
}
