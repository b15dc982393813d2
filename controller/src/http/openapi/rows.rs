//! What the document says of a call that its row does not say in so many words.

use lucia_people::calls::{PeopleCall, Takes, Who};
use lucia_proto::base::code::Code;
use lucia_proto::calls::Query;
use serde_json::{Value, json};

/// A type of a row by its own name, without its module; nothing where there is none.
pub(super) fn named(path: &'static str) -> Option<&'static str> {
    path.rsplit("::").next().map(str::trim).filter(|name| *name != "()")
}

/// What a call may be refused for, whoever makes it.
pub(super) fn codes(call: PeopleCall) -> Vec<Code> {
    let mut codes = vec![
        Code::InvalidRequest,
        Code::NetworkNotAllowed,
        Code::NotFound,
        Code::RequestTimeout,
        Code::BodyTooLarge,
        Code::HeadersTooLarge,
        Code::Busy,
    ];
    if call.body_max() > 0 {
        codes.extend([Code::InvalidBody, Code::UnsupportedContent]);
    }
    match call.caller() {
        Who::Person(person) => {
            codes.extend([Code::ActorRequired, Code::ChallengeRefused, Code::TooManyRequests, Code::RoleRequired]);
            if let Takes::Key(_) = person.takes {
                codes.push(Code::OwnersSign);
            }
        }
        // Over the socket it is not there, and its path may be.
        Who::Anyone => codes.push(Code::MethodNotAllowed),
        Who::Everybody => {}
    }
    codes.extend(call.row().refuses);
    codes
}

/// What may follow the path.
pub(super) fn query(call: PeopleCall) -> Vec<Value> {
    let number = |name: &str, words: &str, least: u64, most: u64, default: u64| {
        json!({
            "name": name, "in": "query", "required": false, "description": words,
            "schema": {"type": "integer", "minimum": least, "maximum": most, "default": default},
        })
    };
    let named = |words: &str, schema: &str| {
        json!({
            "name": "after", "in": "query", "required": false, "description": words,
            "schema": {"$ref": format!("#/components/schemas/{schema}")},
        })
    };
    let count = |limit: usize| u64::try_from(limit).unwrap();
    let of = |query: &Query| match *query {
        Query::AfterNumber => number("after", "Only what has a higher number.", 0, 1 << 53, 0),
        Query::AfterName => named("Only those of a later name.", "Hostname"),
        Query::AfterCode => named("Only those older than the one of this code.", "VerificationCode"),
        Query::Limit(most, without) => number("limit", "As many at most.", 1, count(most), count(without)),
        Query::Wait(most) => number("wait", "Seconds to wait for the first one.", 0, most, 0),
    };
    call.row().query.iter().map(of).collect()
}
