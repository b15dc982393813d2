//! Every answer that any test here gets to a call of people is held against the committed description: its status is
//! foreseen for that call, its code is, and its body is of the schema.

use std::sync::OnceLock;

use lucia_people::calls::PeopleCall;
use lucia_people::host_api::{NodeLine, NodesView};
use lucia_proto::base::ids::NodeId;
use lucia_proto::pki::key::VerificationCode;
use serde_json::Value;

use crate::judge::judge;
use crate::machine::Machine;
use crate::site::{Answer, Site, request};

fn description() -> &'static Value {
    static READ: OnceLock<Value> = OnceLock::new();
    READ.get_or_init(|| serde_json::from_str(include_str!("../../openapi.json")).unwrap())
}

fn closed() -> &'static Value {
    static CLOSED: OnceLock<Value> = OnceLock::new();
    CLOSED.get_or_init(|| {
        let mut read = description().clone();
        close(&mut read);
        read
    })
}

/// A client passes over members of a later controller; what this one answers is described whole.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("type").is_some_and(|kind| kind == "object") && members.contains_key("properties") {
                members.entry("additionalProperties").or_insert(false.into());
            }
            members.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Whether a part of a path is what its template has there.
pub(crate) fn fits(wanted: &str, found: &str) -> bool {
    match wanted {
        "{id}" => found.parse::<NodeId>().is_ok(),
        "{code}" => found.parse::<VerificationCode>().is_ok_and(|code| code.as_str() == found),
        _ => wanted == found,
    }
}

/// The description of this path: the template that it is an instance of.
fn described(path: &str) -> Option<&'static Value> {
    let mut paths = closed()["paths"].as_object().unwrap().iter();
    paths.find_map(|(template, methods)| {
        let (wanted, found) = (template.split('/'), path.split('/'));
        (wanted.clone().count() == found.clone().count()
            && wanted.zip(found).all(|(wanted, found)| fits(wanted, found)))
        .then_some(methods)
    })
}

/// Holds an answer against the description; what is no call of it is passed over.
#[track_caller]
pub(crate) fn hold(request: &[u8], answer: &Answer) {
    let head = String::from_utf8_lossy(request.split(|b| *b == b'\r').next().unwrap_or_default()).into_owned();
    let [method, target, "HTTP/1.1"] = head.split(' ').collect::<Vec<_>>()[..] else { return };
    let path = target.split('?').next().unwrap_or_default();
    let Some(operation) = described(path).and_then(|methods| methods.get(method.to_ascii_lowercase())) else { return };
    let root = closed();
    let mut response = &operation["responses"][answer.status.to_string()];
    assert!(response.is_object(), "{head} answers {} ({}), which is not described", answer.status, answer.code());
    if let Some(pointer) = response["$ref"].as_str() {
        response = root.pointer(&pointer[1..]).unwrap();
    }
    let kind = answer.header("content-type").unwrap_or_default();
    let content = &response["content"][kind];
    assert!(content.is_object(), "{head} answers with {kind}, which is not described");
    if kind == "application/json" {
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(judge(root, &content["schema"], &body), Ok(()), "{head} {}", answer.status);
    }
}

// spec: AP-6
#[test]
fn an_answer_that_is_not_described_is_seen() {
    let answer = |status: u16, body: &str| Answer {
        status,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.to_owned(),
    };
    let caught = |request: &str, answer: Answer| {
        let request = request.as_bytes().to_vec();
        std::panic::catch_unwind(move || hold(&request, &answer)).is_err()
    };
    let refusal =
        |code: &str| format!(r#"{{"error":{{"code":"{code}","message":"m","type":"invalid_request_error"}}}}"#);
    let events = "GET /api/host/events?after=1 HTTP/1.1\r\n";
    assert!(!caught(events, answer(200, r#"{"lastSequence":0,"events":[]}"#)));
    assert!(caught(events, answer(200, r#"{"lastSequence":0,"events":[],"more":1}"#)), "another shape");
    assert!(caught(events, answer(202, r#"{"lastSequence":0,"events":[]}"#)), "another status");
    assert!(!caught(events, answer(403, &refusal("actor_required"))));
    assert!(caught(events, answer(403, &refusal("node_identity_invalid"))), "a code of other calls");
    assert!(caught(events, answer(500, &refusal("actor_required"))));
    assert!(caught(events, answer(200, "{}")) && !caught("GET /x HTTP/1.1\r\n", answer(200, "{}")));
}

// spec: AP-8
#[test]
fn the_description_is_served_to_everybody() {
    let site = Site::new();
    let path = PeopleCall::Description.path();
    let answers = [site.send(&request("GET", path, &[], "")), site.order("GET", path, "")];
    for answer in answers {
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        assert_eq!(serde_json::from_str::<Value>(&answer.body).unwrap(), *description());
    }
    assert_eq!(description()["openapi"], "3.1.0");
}

// spec: AP-9
#[test]
fn nodes_come_in_parts_that_go_on_after_the_last_name() {
    let site = Site::new();
    let nodes: Vec<Machine> = (1..4).map(|number| Machine::managed(&site, number)).collect();
    let part = |query: &str| -> NodesView { site.order("GET", &format!("/api/host/nodes{query}"), "").read() };
    let all = part("");
    assert_eq!((all.nodes.len(), &all.next), (nodes.len(), &None));
    let mut seen = Vec::new();
    let mut query = "?limit=1".to_owned();
    for _ in 0..nodes.len() {
        let one = part(&query);
        assert_eq!(one.nodes.len(), 1);
        seen.extend(one.nodes);
        let Some(next) = one.next else { break };
        query = format!("?limit=1&after={next}");
    }
    let names = |lines: &[NodeLine]| lines.iter().map(|line| line.hostname.clone()).collect::<Vec<_>>();
    assert_eq!(names(&seen), names(&all.nodes));
    assert!(part("?after=zzz").nodes.is_empty());
    assert_eq!(site.order("GET", "/api/host/nodes?limit=0", "").code(), "invalid_onboarding_request");
}
