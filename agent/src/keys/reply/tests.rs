use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lucia_proto::json;
use lucia_proto::limits::JSON_DEPTH_MAX;

use super::*;
use crate::keys::told;

/// The ed25519 key with this byte in it, as a line.
pub(crate) fn line(byte: u8) -> String {
    let field = |bytes: &[u8]| [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
    format!("ssh-ed25519 {}", STANDARD.encode([field(b"ssh-ed25519"), field(&[byte; 32])].concat()))
}

fn read(text: &str) -> Told {
    let reply: Reply = json::from_str(text, 64 * 1024, JSON_DEPTH_MAX).unwrap();
    assert!(reply.accepted && !reply.frozen && reply.chain.is_none());
    Told::of(&reply.ssh_keys.unwrap())
}

fn names(told: &Told) -> Vec<&str> {
    told.accounts.keys().map(AccountName::as_str).collect()
}

/// threats.md D-4, B-27: each stands beside a good key of the same account and beside a good account.
// spec: KF-1
#[test]
fn a_bad_key_costs_no_other() {
    let good = line(1);
    let blob = good.split(' ').nth(1).unwrap().to_owned();
    let padded = format!("{good} {}", "x".repeat(5000));
    for bad in [
        format!("{good}\\n{}", line(2)),
        format!("{good} comment\\nssh-ed25519 AAAA"),
        format!("command=\\\"/bin/sh\\\" {good}"),
        format!("from=\\\"*\\\" {good}"),
        format!("cert-authority {good}"),
        format!("environment=\\\"A=b\\\" {good}"),
        format!("no-pty,command=\\\"x\\\" {good}"),
        format!("#{good}"),
        format!(" {good}"),
        format!("\\t{good}"),
        format!("ssh-ed25519\\t{blob}"),
        format!("ssh-rsa {blob}"),
        format!("ssh-dss {blob}"),
        format!("ssh-ed25519-cert-v01@openssh.com {blob}"),
        format!("ssh-ed25519 {blob}="),
        format!("ssh-ed25519 {}", &blob[..blob.len() - 4]),
        "ssh-ed25519".to_owned(),
        String::new(),
        padded,
    ] {
        let told = read(&format!(
            r#"{{"accepted":true,"sshKeys":{{"alice":["{good}","{bad}"],"bob":["{good} his own words"]}}}}"#
        ));
        assert_eq!(names(&told), ["alice", "bob"], "{bad:?}");
        let texts: Vec<_> = told.accounts.values().flatten().map(ToString::to_string).collect();
        assert_eq!(texts, [good.clone(), good.clone()], "{bad:?}: kind and blob, nothing else");
        assert_eq!(told.dropped, [Dropped::new("alice", Why::Key)], "{bad:?}");
    }
}

// spec: KF-1
#[test]
fn a_bad_account_costs_no_other() {
    let good = line(1);
    for bad in ["root", "lucia-recovery", "../x", "a/b", "", ".", "-rf", "A", "a b", "*", "alice\\n", "\\u00e4", "a:b"]
    {
        let told = read(&format!(r#"{{"accepted":true,"sshKeys":{{"{bad}":["{good}"],"alice":["{good}"]}}}}"#));
        assert_eq!(names(&told), ["alice"], "{bad:?}");
        assert!(matches!(told.dropped[..], [Dropped { why: Why::Name, .. }]), "{bad:?}");
    }
    let long = "a".repeat(300);
    let told = read(&format!(r#"{{"accepted":true,"sshKeys":{{"{long}":["{good}"]}}}}"#));
    assert!(told.accounts.is_empty() && told.dropped[0].account.len() <= 32);
    for bad in ["null", "1", "{}", r#""ssh-ed25519""#, "true"] {
        let told = read(&format!(r#"{{"accepted":true,"sshKeys":{{"bob":{bad},"alice":["{good}"]}}}}"#));
        assert_eq!(names(&told), ["alice"]);
        assert_eq!(told.dropped, [Dropped::new("bob", Why::List)]);
        let told = read(&format!(r#"{{"accepted":true,"sshKeys":{{"alice":[{bad},"{good}"]}}}}"#));
        assert_eq!(names(&told), ["alice"]);
        assert_eq!(told.dropped, [Dropped::new("alice", Why::Key)]);
    }
}

/// What no text of the protocol may hold refuses the whole reply, before anything is taken from it (threats.md J-group).
// spec: KF-1
#[test]
fn a_reply_that_is_not_strict_json_changes_nothing() {
    let good = line(1);
    for bad in [
        format!(r#"{{"alice":["{good}\r{good}"]}}"#),
        format!(r#"{{"alice":["{good}\u0000"]}}"#),
        format!(r#"{{"al\u0000ice":["{good}"]}}"#),
        format!(r#"{{"alice":["{good}"],"alice":[]}}"#),
    ] {
        let text = format!(r#"{{"accepted":true,"sshKeys":{bad}}}"#);
        assert!(json::from_str::<Reply>(&text, 64 * 1024, JSON_DEPTH_MAX).is_err(), "{bad}");
    }
}

// spec: KF-2
#[test]
fn ten_keys_an_account_and_40000_characters_in_all() {
    let keys = |from: u8, count: u8| (from..from + count).map(|byte| format!("\"{}\"", line(byte))).collect::<Vec<_>>();
    let told = read(&format!(r#"{{"accepted":true,"sshKeys":{{"alice":[{}]}}}}"#, keys(0, 11).join(",")));
    assert_eq!(told.accounts["alice".parse::<AccountName>().as_ref().unwrap()].len(), 10);
    assert_eq!(told.dropped, [Dropped::new("alice", Why::TooMany)]);
    // The same key twice is one.
    let twice = [keys(1, 1), keys(1, 1), keys(2, 9)].concat().join(",");
    let told = read(&format!(r#"{{"accepted":true,"sshKeys":{{"alice":[{twice}]}}}}"#));
    assert_eq!((told.accounts.values().next().unwrap().len(), told.dropped.len()), (10, 0));
    let one = line(0).len();
    let fits = 40_000 / (10 * one);
    let accounts: Vec<_> = (0..fits + 2).map(|n| format!(r#""user{n:03}":[{}]"#, keys(0, 10).join(","))).collect();
    let told = read(&format!(r#"{{"accepted":true,"sshKeys":{{{}}}}}"#, accounts.join(",")));
    assert_eq!((told.accounts.len(), told.dropped.len()), (fits, 2));
    assert!(told.dropped.iter().all(|dropped| dropped.why == Why::TooMuch));
}

#[test]
fn an_entry_without_keys_is_an_account_without_keys() {
    let told = read(r#"{"accepted":true,"sshKeys":{"alice":[]}}"#);
    assert_eq!(told, Told::default());
    let reply: Reply = json::from_str(r#"{"accepted":true}"#, 1000, JSON_DEPTH_MAX).unwrap();
    assert!(reply.ssh_keys.is_none());
    for bad in [r#"{"accepted":true,"sshKeys":[]}"#, r#"{"accepted":true,"more":1}"#, r#"{"sshKeys":{}}"#] {
        assert!(json::from_str::<Reply>(bad, 1000, JSON_DEPTH_MAX).is_err(), "{bad}");
    }
}

/// What the agent reads is what the controller writes.
#[test]
fn every_reply_of_the_protocol_is_read() {
    for text in [
        include_str!("../../../../tests/vectors/heartbeat-reply.json"),
        include_str!("../../../../tests/vectors/heartbeat-reply-chain.json"),
        include_str!("../../../../tests/vectors/heartbeat-reply-frozen.json"),
        include_str!("../../../../tests/vectors/heartbeat-reply-keys.json"),
    ] {
        let theirs: lucia_proto::heartbeat::HeartbeatReply = json::from_str(text, 64 * 1024, JSON_DEPTH_MAX).unwrap();
        let ours: Reply = json::from_str(text, 64 * 1024, JSON_DEPTH_MAX).unwrap();
        assert_eq!((ours.accepted, ours.chain, ours.frozen), (theirs.accepted, theirs.chain, theirs.frozen));
        assert_eq!(ours.ssh_keys.map(|keys| keys.len()), theirs.ssh_keys.map(|keys| keys.len()));
    }
}

#[test]
fn a_message_names_three_and_counts_the_rest() {
    assert_eq!(told(&[]), None);
    let one = told(&[Dropped::new("bob", Why::Local)]).unwrap();
    assert!(one.starts_with("1 ") && one.ends_with(&format!("bob: {}", Why::Local)), "{one}");
    let many: Vec<_> = (0..9).map(|n| Dropped::new(&format!("u{n}\u{1b}"), Why::Unknown)).collect();
    let text = told(&many).unwrap();
    assert!(text.starts_with("9 ") && text.contains('6'), "{text}");
    let named = |n: u8| text.contains(&format!("u{n}"));
    assert!((0..3).all(named) && !(3..9).any(named), "{text}");
    assert!(lucia_proto::text::is_printable(&text));
}
