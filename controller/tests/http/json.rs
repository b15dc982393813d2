//! threats.md group J through the whole stack: one strict reader, whatever the call.

use lucia_proto::calls::Endpoint;

use crate::machine::Machine;
use crate::site::{Site, request};

// spec: HT-20
#[test]
fn group_j_is_refused_in_the_envelope_of_every_call() {
    let site = Site::new();
    // While it is closed no body of a first contact is read.
    site.order("POST", "/api/host/onboarding/window", r#"{"minutes":5}"#);
    let machine = Machine::new(1);
    let before = site.journal();
    let deep = format!(r#"{{"proof":{}{}}}"#, "[".repeat(100_000 / 8), "]".repeat(100_000 / 8));
    let rows: &[(&str, &[u8])] = &[
        ("J-1", br#"{"proof":{},"proof":{}}"#),
        ("J-1 escaped", br#"{"proof":{},"\u0070roof":{}}"#),
        ("J-1 nested", br#"{"proof":{"signature":"a","signature":"a"}}"#),
        ("J-2 array", b"[1]"),
        ("J-2 null", b"null"),
        ("J-2 text", b"\"a\""),
        ("J-2 number", b"1"),
        ("J-2 inner array", br#"{"proof":["a","b","c"]}"#),
        ("J-3", br#"{"proof":{},"more":1}"#),
        ("J-4", br#"{"more":1e400}"#),
        ("J-4 minus", br#"{"more":-0}"#),
        ("J-4 wide", br#"{"more":18446744073709551616}"#),
        ("J-5", deep.as_bytes()),
        ("J-6", b"{\"proof\":\"\xff\"}"),
        ("J-6 bom", b"\xef\xbb\xbf{}"),
        ("J-6 surrogate", br#"{"proof":"\ud800"}"#),
        ("J-6 nul", br#"{"proof":"\u0000"}"#),
        ("J-7", b"{}{}"),
        ("J-7 comment", b"{}//"),
        ("J-7 empty object", b"{}"),
    ];
    for endpoint in [
        Endpoint::Discover,
        Endpoint::Grant,
        Endpoint::Progress,
        Endpoint::Enroll,
        Endpoint::Heartbeat,
        Endpoint::Renew,
    ] {
        for (row, body) in rows {
            let length = body.len().to_string();
            let headers = [("Content-Type", "application/json"), ("Content-Length", length.as_str())];
            let mut bytes = request("POST", &endpoint.path_for(machine.id()), &headers, "");
            bytes.extend_from_slice(body);
            let answer = site.send(&bytes);
            assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_body"), "{endpoint:?} {row} {answer:?}");
            assert!(answer.header("lucia-challenge").is_some(), "{endpoint:?} {row}");
            assert_eq!(answer.header("cache-control"), Some("no-store"));
        }
    }
    for (path, body) in [
        ("/api/host/onboarding/window", r#"{"minutes":61}"#),
        ("/api/host/onboarding/window", r#"{"minutes":5,"minutes":5}"#),
        ("/api/host/onboarding/window", "[5]"),
    ] {
        assert_eq!(site.order("POST", path, body).status, 400, "{body}");
    }
    assert_eq!(site.journal(), before);
}
