//! The description of every call that people make: OpenAPI 3.1, made from the tables of calls, from the source of the types
//! that travel, and from what this edge asks of whom. The committed `openapi.json` is what is served; the test here makes
//! it anew and holds the two against each other.

mod agree;
mod bounds;
pub(super) mod judge;
mod rows;
mod samples;
mod source;

use std::collections::{BTreeMap, BTreeSet};

use lucia_people::calls::{PeopleCall, Takes};
use lucia_people::sign_in::SESSION_COOKIE;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::{CHALLENGE_LIFETIME, OWNER_PROOF_HEADER_MAX};
use lucia_proto::node::challenge::NEXT_CHALLENGE_HEADER;
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::owner_proof::OWNER_PROOF_HEADER;
use serde_json::{Map, Value, json};

use self::source::{Source, plain};

/// What stands at the head of it.
fn about() -> String {
    format!(
        "What people call a controller of Lucia Nodes by: the operator over its Unix socket, who is asked for nothing \
         there, and people of the roster over TLS. A program signs each request with its owner's key over a fresh \
         challenge ({OWNER_PROOF_HEADER}); the page has a session. Each answer to a call by proof brings the next \
         challenge in {NEXT_CHALLENGE_HEADER}. Nobody who makes these calls orders anything that a node or the worker \
         carries out: that is signed by an owner and checked there. Every refusal has one shape and a code of a closed \
         list. Lists say how long they may be, or go on after the last one that was seen. All of it is HTTP/1.1, on \
         purpose: a call is short, and one protocol is one to attack."
    )
}

/// The whole document.
fn description(source: &Source) -> Value {
    let mut schemas = BTreeMap::new();
    for name in ["ErrorBody", "NodeId", "VerificationCode"] {
        source.describe(name, &mut schemas);
    }
    let (mut paths, mut refusals) = (Map::new(), BTreeMap::new());
    for call in PeopleCall::ALL.iter().copied() {
        let (takes, gives) = call.types();
        for name in
            [takes, gives].into_iter().filter_map(rows::named).filter(|name| !["Events", "Document"].contains(name))
        {
            source.describe(name, &mut schemas);
        }
        let path = paths.entry(call.path()).or_insert_with(|| json!({}));
        path[call.method().to_ascii_lowercase()] = operation(call, &mut refusals);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Lucia controller",
            "version": env!("CARGO_PKG_VERSION"),
            "description": about(),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The controller, over TLS or over its socket."}],
        "paths": paths,
        "components": {"schemas": schemas, "responses": refusals, "securitySchemes": security_schemes()},
    })
}

fn security_schemes() -> Value {
    json!({
        "ownerProof": {
            "type": "apiKey", "in": "header", "name": OWNER_PROOF_HEADER,
            "description": format!(
                "Base64 of {{challengeId, requestJson, signature}}: the owner key's signature over fleet, owner, method, \
                 path with query, and the body's SHA-256, over a challenge of GET /api/host/challenge. For one request, \
                 once, within {} s; at most {OWNER_PROOF_HEADER_MAX} bytes.",
                CHALLENGE_LIFETIME.as_secs()
            ),
        },
        "session": {
            "type": "apiKey", "in": "cookie", "name": SESSION_COOKIE,
            "description": "A session of the page. A change has to come from the page itself (Origin).",
        },
        "token": {
            "type": "http", "scheme": "bearer",
            "description": "An automation token that an owner made (luciactl token add): it looks, as its scopes say.",
        },
    })
}

fn operation(call: PeopleCall, refusals: &mut BTreeMap<String, Value>) -> Value {
    let mut operation = json!({
        "operationId": format!("{call:?}"),
        "summary": plain(call.row().words),
        "responses": responses(call, refusals),
        "security": security(call),
    });
    if let Some(person) = call.person() {
        operation["x-lucia-role"] = json!(match person.role {
            Role::Viewer => "viewer",
            Role::Owner => "owner",
        });
        if let Some(scope) = person.scope {
            operation["x-lucia-token-scope"] = json!(scope);
        }
    }
    let mut parameters = rows::query(call);
    for (place, name) in [("id", "NodeId"), ("code", "VerificationCode")] {
        if call.path().contains(&format!("{{{place}}}")) {
            parameters.push(json!({
                "name": place, "in": "path", "required": true,
                "schema": {"$ref": format!("#/components/schemas/{name}")},
            }));
        }
    }
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    let takes = rows::named(call.types().0);
    assert_eq!(takes.is_some(), call.body_max() > 0, "{call:?}");
    if let Some(name) = takes {
        operation["requestBody"] = json!({
            "required": true,
            "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}},
        });
        operation["x-lucia-body-max"] = json!(call.body_max());
    }
    operation
}

/// Who may, as the edge asks; over the socket nobody is asked for anything.
fn security(call: PeopleCall) -> Value {
    let Some(person) = call.person() else { return json!([]) };
    let mut ways = vec![json!({"ownerProof": []})];
    match person.takes {
        Takes::Session => ways.push(json!({"session": []})),
        Takes::Key(_) | Takes::Proof => {}
    }
    if person.scope.is_some() {
        ways.push(json!({"token": []}));
    }
    json!(ways)
}

fn responses(call: PeopleCall, refusals: &mut BTreeMap<String, Value>) -> Value {
    let mut good = match rows::named(call.types().1) {
        Some("Events") => json!({
            "description": "Events as they come; it ends with the session, and by proof after an hour.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }),
        Some("Document") => json!({
            "description": "This document.",
            "content": {"application/json": {"schema": {"type": "object", "required": ["openapi", "paths"]}}},
        }),
        name => json!({
            "description": "Done.",
            "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{}", name.unwrap())}}},
        }),
    };
    if call.person().is_some() {
        good["headers"] = json!({NEXT_CHALLENGE_HEADER: {
            "description": "Over TLS: the next challenge, base64url of JSON.", "schema": {"type": "string"},
        }});
    }
    let mut responses = Map::new();
    responses.insert("200".to_owned(), good);
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in rows::codes(call).into_iter().collect::<BTreeSet<_>>() {
        by_status.entry(code.status()).or_default().push(code.as_str());
    }
    for (status, mut codes) in by_status {
        codes.sort_unstable();
        // Many calls are refused alike: each such refusal is described once.
        let name = format!("{status}-{}", codes.join("."));
        responses.insert(status.to_string(), json!({"$ref": format!("#/components/responses/{name}")}));
        let mut response = json!({
            "description": format!("Refused: {}.", codes.join(", ")),
            "content": {"application/json": {"schema": {
                "allOf": [{"$ref": "#/components/schemas/ErrorBody"}],
                "properties": {"error": {"properties": {"code": {"enum": codes}}}},
            }}},
        });
        if matches!(status, 429 | 503) {
            response["headers"] = json!({"Retry-After": {
                "description": "Seconds after which trying again makes sense.", "schema": {"type": "string"},
            }});
        }
        refusals.insert(name, response);
    }
    Value::Object(responses)
}

/// What is committed.
fn committed() -> Value {
    serde_json::from_slice(super::calls::DESCRIPTION).unwrap()
}

// spec: AP-1
#[test]
fn the_committed_description_is_what_the_code_says() {
    let made = serde_json::to_string_pretty(&description(&Source::read())).unwrap() + "\n";
    if made.as_bytes() != super::calls::DESCRIPTION {
        let beside = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/openapi.json");
        std::fs::write(&beside, &made).unwrap();
        panic!(
            "controller/openapi.json is not what the code says. Read the difference; if it is meant, write it anew by: \
             cp target/openapi.json controller/openapi.json"
        );
    }
}

// spec: VE-405
#[test]
fn what_a_later_program_adds_to_an_answer_is_passed_over_and_to_a_form_refused() {
    let takes: BTreeSet<_> = PeopleCall::ALL.iter().filter_map(|call| rows::named(call.types().0)).collect();
    let gives: BTreeSet<_> = PeopleCall::ALL.iter().filter_map(|call| rows::named(call.types().1)).collect();
    for sample in samples::all().iter().filter(|sample| takes.contains(sample.name) || gives.contains(sample.name)) {
        let mut later = sample.value.clone();
        later["aLaterMember"] = json!(1);
        let read = (sample.read)(&later.to_string());
        // A challenge is of nodes as well, and signed over.
        let strict = takes.contains(sample.name) || sample.name == "Challenge";
        assert_eq!(read.is_some(), !strict, "{}", sample.name);
    }
}

// spec: AP-2
#[test]
fn every_call_of_people_is_described_and_no_other() {
    let committed = committed();
    let mut ids = BTreeSet::new();
    for call in PeopleCall::ALL {
        let operation = &committed["paths"][call.path()][call.method().to_ascii_lowercase()];
        assert!(ids.insert(operation["operationId"].to_string()), "{call:?}");
        assert!(operation["summary"].as_str().unwrap().len() > 3, "{call:?}");
        // Who may call without being anybody is met, and no more.
        let met = call.person().is_none();
        assert_eq!(operation["security"].as_array().unwrap().is_empty(), met, "{call:?}");
        assert_eq!(operation["x-lucia-role"].is_null(), met, "{call:?}");
    }
    let calls = committed["paths"].as_object().unwrap().values().map(|path| path.as_object().unwrap().len());
    assert_eq!(calls.sum::<usize>(), ids.len(), "there is nothing else in it");
}

// spec: AP-3
#[test]
fn each_code_stands_under_its_own_status_and_each_list_says_how_long_it_may_be() {
    let committed = committed();
    for (path, methods) in committed["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let pointer = response["$ref"].as_str().map_or("", |text| &text[1..]);
                let response = if pointer.is_empty() { response } else { committed.pointer(pointer).unwrap() };
                let schema = &response["content"]["application/json"]["schema"];
                let codes = &schema["properties"]["error"]["properties"]["code"]["enum"];
                assert_eq!(codes.is_array(), status != "200", "{method} {path} {status}");
                for code in codes.as_array().into_iter().flatten() {
                    let code: Code = serde_json::from_value(code.clone()).unwrap();
                    assert_eq!(code.status().to_string(), *status, "{method} {path}");
                }
            }
        }
    }
    fn bounded(place: &str, schema: &Value) {
        if schema["type"] == json!("array") {
            assert!(schema["maxItems"].is_u64(), "{place} is a list without an end");
        }
        match schema {
            Value::Object(members) => members.iter().for_each(|(key, value)| bounded(&format!("{place}.{key}"), value)),
            Value::Array(items) => items.iter().for_each(|item| bounded(place, item)),
            _ => {}
        }
    }
    bounded("schemas", &committed["components"]["schemas"]);
}
