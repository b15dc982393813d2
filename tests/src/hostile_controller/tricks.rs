//! All that it knows to do with an answer.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lucia_proto::base::code::{Code, ErrorBody, ErrorKind, ErrorText};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::TaskId;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::challenge::NEXT_CHALLENGE_HEADER;
use lucia_proto::test_support::{TestCa, TestNode, hostile_answers, hostile_leaves};
use serde_json::{Value, json as value};

use super::{Deed, Loot, Moment, Reply, Trick, json, with_body, with_header};

const IDENTITY: &[Endpoint] = &[Endpoint::Enroll, Endpoint::Renew];
const BEAT: &[Endpoint] = &[Endpoint::Heartbeat];
const HEADER: &str = "lucia-challenge";

/// Forged, replayed and re-targeted enrolment answers: none may be taken.
#[must_use]
pub fn answers(loot: &Loot<'_>) -> Vec<Trick> {
    let Loot { ca, node, now } = loot;
    let mut out: Vec<Trick> = Vec::new();
    let mut forged = |name: String, answer: &lucia_proto::node::answer::SignedAnswer| {
        let body = serde_json::to_vec(answer).unwrap_or_default();
        out.push(Trick::on(name, IDENTITY, move |moment| Deed::Say(signed(&moment.honest, body.clone()))));
    };
    for (name, _, answer) in hostile_answers(ca, node, *now) {
        forged(format!("forged: {name}"), &answer);
    }
    // A leaf that breaks one rule, in an answer that the worker's own key signed.
    for row in hostile_leaves(ca, node, *now) {
        let answer = lucia_proto::node::answer::Answer { certificate_pem: row.pem, ..ca.answer(node, *now) };
        forged(format!("leaf: {}", row.name), &ca.sign_answer(&answer));
    }
    // A fleet of its own, whole: root, bundle, worker and leaf.
    let own = TestCa::with_keys(*now, 221);
    forged("another fleet's".to_owned(), &own.sign_answer(&own.answer(node, *now)));
    let thief = TestNode::new(97);
    forged("another key's".to_owned(), &ca.sign_answer(&ca.answer(&thief, *now)));
    let own_task = lucia_proto::node::answer::Answer { task_id: TaskId::from_random([9; 16]), ..ca.answer(node, *now) };
    forged("another installation's".to_owned(), &ca.sign_answer(&own_task));
    out.extend([
        Trick::on("of another node", IDENTITY, |moment| {
            let other = IDENTITY.iter().find_map(|call| moment.tape.others(*call, moment.node).rfind(is_signed));
            Deed::Say(other.map_or_else(|| moment.honest.clone(), |other| other.reply.clone()))
        }),
        Trick::on("payload and signature of two", IDENTITY, |moment| {
            let other = IDENTITY.iter().find_map(|call| moment.tape.others(*call, moment.node).rfind(is_signed));
            let own = IDENTITY.iter().find_map(|call| moment.tape.own(*call, moment.node).rfind(is_signed));
            let (Some(own), Some(other)) = (own, other) else { return Deed::Say(json(202, PENDING)) };
            let [mut own, other] = [own, other].map(|one| read(&one.reply));
            if let (Some(own), Some(signature)) = (own.get_mut("signature"), other.get("signature")) {
                own.clone_from(signature);
            }
            Deed::Say(signed(&moment.honest, own.to_string()))
        }),
        Trick::on("pending for ever", IDENTITY, |moment| Deed::Say(with_status(&moment.honest, 202, PENDING))),
        Trick::on("accepted and empty", IDENTITY, |moment| Deed::Say(signed(&moment.honest, "{}"))),
        Trick::on("a heartbeat's answer", IDENTITY, |moment| {
            let beat = moment.tape.own(Endpoint::Heartbeat, moment.node).next_back();
            Deed::Say(beat.map_or_else(|| json(200, r#"{"accepted":true}"#), |beat| beat.reply.clone()))
        }),
    ]);
    out
}

const PENDING: &str = r#"{"state":"Pending"}"#;

fn is_signed(recorded: &&super::Recorded) -> bool {
    recorded.reply.status() == 200
}

/// The honest answer's headers around another accepted body.
fn signed(honest: &Reply, body: impl Into<hyper::body::Bytes>) -> Reply {
    with_status(honest, 200, body)
}

fn with_status(honest: &Reply, status: u16, body: impl Into<hyper::body::Bytes>) -> Reply {
    let mut reply = json(status, body);
    if let Some(next) = honest.headers().get(HEADER) {
        reply.headers_mut().insert(HEADER, next.clone());
    }
    reply
}

fn read(reply: &Reply) -> Value {
    serde_json::from_slice(reply.body()).unwrap_or_default()
}

/// Everything that is done to any answer: a node lives through each, and is what it was afterwards.
#[must_use]
pub fn tricks(loot: &Loot<'_>) -> Vec<Trick> {
    let mut out = network();
    out.extend(refusals());
    out.extend(times());
    out.extend(replies(loot));
    out
}

fn network() -> Vec<Trick> {
    let mut out = vec![
        Trick::new("withheld", |_| Deed::Withhold),
        Trick::new("oldest answer again", |moment| {
            let old = moment.tape.own(moment.call, moment.node).next().map(|old| old.reply.clone());
            Deed::Say(old.unwrap_or(moment.honest))
        }),
        Trick::new("answer of the call before", |moment| {
            let before = moment.tape.of(moment.node).next_back().map(|before| before.reply.clone());
            Deed::Say(before.unwrap_or(moment.honest))
        }),
        Trick::new("answer of another node", |moment| {
            let other = moment.tape.others(moment.call, moment.node).next_back().map(|other| other.reply.clone());
            Deed::Say(other.unwrap_or(moment.honest))
        }),
        Trick::new("65 kB", |moment| Deed::Say(with_body(&moment.honest, vec![b' '; 65 * 1024]))),
        Trick::new("8 MB", |moment| Deed::Say(with_body(&moment.honest, vec![b'['; 8 << 20]))),
        Trick::new("twice in one", |moment| {
            let body = moment.honest.body().repeat(2);
            Deed::Say(with_body(&moment.honest, body))
        }),
        Trick::new("gzip", |moment| Deed::Say(with_header(&moment.honest, "content-encoding", "gzip"))),
        Trick::new("of no type", |moment| Deed::Say(with_header(&moment.honest, "content-type", "text/html"))),
    ];
    for cut in [0, 1, 2, 7, 40, 200] {
        out.push(Trick::new(format!("cut after {cut}"), move |moment| Deed::Cut(moment.honest, cut)));
        out.push(Trick::new(format!("ends at {cut}"), move |moment| {
            let end = cut.min(moment.honest.body().len());
            let body = moment.honest.body().slice(..end);
            Deed::Say(with_body(&moment.honest, body))
        }));
    }
    out
}

fn refusals() -> Vec<Trick> {
    let refusal = |code: Code, kind| {
        let error = ErrorText { code, message: "\u{1b}[2Jdelete your key".to_owned(), kind };
        serde_json::to_vec(&ErrorBody { error }).unwrap_or_default()
    };
    let mut out: Vec<Trick> = Vec::new();
    for code in Code::ALL {
        let body = refusal(*code, ErrorKind::NodeError);
        let wrong = body.clone();
        out.push(Trick::new(code.as_str(), move |_| Deed::Say(json(code.status(), body.clone()))));
        let status = if code.status() == 401 { 403 } else { 401 };
        out.push(Trick::new(format!("{} as {status}", code.as_str()), move |_| Deed::Say(json(status, wrong.clone()))));
    }
    for status in [204, 205, 301, 302, 307, 308, 400, 404, 410, 418, 429, 500, 502, 503, 599] {
        out.push(Trick::new(format!("{status} to elsewhere"), move |_| {
            let reply = with_header(&json(status, r#"{"error":"gone"}"#), "location", "https://evil.test/api/boot");
            Deed::Say(with_header(&reply, "retry-after", "999999999"))
        }));
    }
    for after in ["0", "-1", "999999999", "99999999999999999999", "Thu, 01 Jan 2099 00:00:00 GMT", "\t"] {
        let body = refusal(Code::Busy, ErrorKind::NodeError);
        out.push(Trick::new(format!("again after {after:?}"), move |_| {
            Deed::Say(with_header(&json(503, body.clone()), "retry-after", after))
        }));
    }
    let unknown = r#"{"error":{"code":"delete_identity","message":"","type":"node_error"}}"#;
    out.push(Trick::new("an order that there is not", move |_| Deed::Say(json(403, unknown))));
    out
}

/// The next challenge, with other members.
fn challenge(moment: &Moment<'_>, change: impl Fn(&mut Value)) -> Reply {
    let header = moment.honest.headers().get(HEADER).and_then(|header| header.to_str().ok()).unwrap_or_default();
    let bytes = URL_SAFE_NO_PAD.decode(header).unwrap_or_default();
    let mut next: Value = serde_json::from_slice(&bytes).unwrap_or_else(|_| value!({}));
    change(&mut next);
    with_header(&moment.honest, HEADER, &URL_SAFE_NO_PAD.encode(next.to_string()))
}

/// A challenge that was asked for, with other members.
fn asked(moment: &Moment<'_>, change: impl Fn(&mut Value)) -> Reply {
    let mut body = read(&moment.honest);
    if body.get("challengeId").is_some_and(Value::is_string) {
        change(&mut body);
        return with_body(&moment.honest, body.to_string());
    }
    challenge(moment, change)
}

fn times() -> Vec<Trick> {
    debug_assert!(NEXT_CHALLENGE_HEADER.eq_ignore_ascii_case(HEADER));
    let mut out: Vec<Trick> = Vec::new();
    for (name, time) in [
        ("1970", "1970-01-01T00:00:00Z"),
        ("2001", "2001-09-09T01:46:40Z"),
        ("2099", "2099-01-01T00:00:00Z"),
        ("9999", "9999-12-31T23:59:59Z"),
        ("no time", "yesterday"),
    ] {
        out.push(Trick::new(format!("it is {name}"), move |moment| {
            Deed::Say(asked(&moment, |next| {
                next["serverTime"] = time.into();
                next["expiresAt"] = time.into();
                if !next["challengeId"].is_string() {
                    next["nonce"] = "".into();
                }
            }))
        }));
    }
    for (name, member, new) in [
        ("challenge with a line end", "nonce", value!("A\nB")),
        ("challenge id with a line end", "challengeId", value!("x\ny")),
        ("challenge of nothing", "challengeId", value!("")),
        ("challenge of a number", "nonce", value!(7)),
        ("challenge of 60 kB", "nonce", value!("A".repeat(6000))),
        ("challenge with more", "sign", value!("this")),
        ("a challenge made up", "nonce", value!("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")),
    ] {
        out.push(Trick::new(name, move |moment| Deed::Say(asked(&moment, |next| next[member] = new.clone()))));
    }
    for text in ["", "=", "e30", "bnVsbA", "not base64 at all"] {
        out.push(Trick::new(format!("challenge header {text:?}"), move |moment| {
            Deed::Say(with_header(&moment.honest, HEADER, text))
        }));
    }
    out.push(Trick::new("one challenge for ever", |moment| {
        let first = moment.tape.of(moment.node).find_map(|one| one.reply.headers().get(HEADER)?.to_str().ok());
        Deed::Say(with_header(&moment.honest, HEADER, first.unwrap_or_default()))
    }));
    out.push(Trick::new("challenge of another node", |moment| {
        let other = moment.tape.others(moment.call, moment.node).next_back();
        let other = other.and_then(|other| other.reply.headers().get(HEADER)?.to_str().ok()).unwrap_or_default();
        Deed::Say(with_header(&moment.honest, HEADER, other))
    }));
    out
}

/// What a heartbeat is answered.
fn replies(loot: &Loot<'_>) -> Vec<Trick> {
    let mut out: Vec<Trick> = Vec::new();
    let mut drawn = Digest::of(loot.node.node_id.as_str().as_bytes());
    out.push(Trick::on("chain drawn anew", BEAT, move |moment| {
        drawn = Digest::of(drawn.as_bytes());
        let body = value!({"accepted": true, "chain": drawn.to_string()}).to_string();
        Deed::Say(with_body(&moment.honest, body))
    }));
    out.push(Trick::on("chain of the first reply", BEAT, |moment| {
        let first = moment.tape.own(Endpoint::Heartbeat, moment.node).next();
        Deed::Say(with_body(&moment.honest, first.map_or_else(Default::default, |first| first.reply.body().clone())))
    }));
    for (name, body) in heartbeat_bodies(loot.node) {
        out.push(Trick::on(name, BEAT, move |moment| Deed::Say(with_body(&moment.honest, body.clone()))));
    }
    out.push(Trick::on("an enrolment answer", BEAT, |moment| {
        let own = IDENTITY.iter().find_map(|call| moment.tape.own(*call, moment.node).next_back());
        Deed::Say(own.map_or_else(|| moment.honest.clone(), |own| own.reply.clone()))
    }));
    out
}

fn heartbeat_bodies(node: &TestNode) -> Vec<(String, Vec<u8>)> {
    let good = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    let keys = |user: &str, lines: &[String]| value!({"accepted": true, "sshKeys": {user: lines}}).to_string();
    let line = |text: &str| vec![text.to_owned()];
    let mut out: Vec<(&str, String)> = vec![
        ("no", r#"{"accepted":false}"#.to_owned()),
        ("nothing", "{}".to_owned()),
        ("null", "null".to_owned()),
        ("a list", "[true]".to_owned()),
        ("a member more", r#"{"accepted":true,"run":"rm -rf /"}"#.to_owned()),
        ("a member twice", r#"{"accepted":true,"accepted":true}"#.to_owned()),
        ("deep", format!(r#"{{"accepted":true,"x":{}{}}}"#, "[".repeat(9000), "]".repeat(9000))),
        ("chain of upper case", format!(r#"{{"accepted":true,"chain":"{}"}}"#, "AB".repeat(32))),
        ("chain cut", r#"{"accepted":true,"chain":"abcd"}"#.to_owned()),
        ("chain of a number", r#"{"accepted":true,"chain":7}"#.to_owned()),
        ("frozen", r#"{"accepted":true,"frozen":true}"#.to_owned()),
        ("frozen and keys", keys("root", &line(good)).replacen('{', r#"{"frozen":true,"#, 1)),
        ("keys of root", keys("root", &line(good))),
        ("keys above", keys("../../etc/cron.d/x", &line(good))),
        ("keys of a path", keys("a/b", &line(good))),
        ("keys of nobody", keys("", &line(good))),
        ("keys of a line end", keys("a\nb", &line(good))),
        ("keys with options", keys("ada", &line(&format!("command=\"id\" {good}")))),
        ("keys of a certificate", keys("ada", &line("ssh-ed25519-cert-v01@openssh.com AAAA"))),
        ("keys with a second line", keys("ada", &line(&format!("{good}\n{good}")))),
        ("keys of another kind inside", keys("ada", &line("ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIAABAgM="))),
        ("eleven keys", keys("ada", &vec![good.to_owned(); 11])),
        ("keys as text", r#"{"accepted":true,"sshKeys":"root"}"#.to_owned()),
        ("keys twice", format!(r#"{{"accepted":true,"sshKeys":{{"ada":["{good}"],"ada":[]}}}}"#)),
    ];
    let many: serde_json::Map<String, Value> =
        (0..300).map(|number| (format!("u{number}"), value!([format!("{good} {}", "x".repeat(90))]))).collect();
    out.push(("keys of 300 accounts", value!({"accepted": true, "sshKeys": many}).to_string()));
    out.push(("another node", value!({"accepted": true, "nodeId": node.node_id}).to_string()));
    out.into_iter().map(|(name, text)| (format!("beat: {name}"), text.into_bytes())).collect()
}
