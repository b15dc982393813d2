//! Owners over TLS: every row of both tables by everyone, and every way in which a proof is none (design.md O1).

use std::fmt::Write as _;
use std::time::Duration;

use lucia_people::audit::{AuditActor, AuditVia};
use lucia_people::calls::{CallerView, PeopleCall, Who};
use lucia_people::owner_api::RosterView;
use lucia_people::token::{TokenMade, TokenScope, TokensView};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::json;
use lucia_proto::base::limits::OWNER_PROOF_HEADER_MAX;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::challenge::Challenge;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::report::{HeaderProof, PROOF_HEADER, Purpose, Question};
use lucia_proto::orders::owner::OwnerId;
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::owner_proof::{Method, OWNER_PROOF_HEADER, OwnerProof, OwnerRequest};
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::{OrderWorld, TestOwner};

use crate::machine::{Machine, next};
use crate::site::{Answer, Site, exchange, request};
use crate::slow::wait_until;

/// row | nobody | a node | a frozen node | a viewer | an owner | a removed owner | a token of every scope | the operator
const EVERYONE: &str = include_str!("owners.txt");

/// A site whose worker published a roster: alice and bob are owners, victor looks.
pub(crate) fn owned() -> (Site, OrderWorld) {
    let site = Site::new();
    let world = OrderWorld::new(site.at);
    publish(&site, &world);
    (site, world)
}

/// The worker publishes bundle and roster, and the controller takes them.
pub(crate) fn publish(site: &Site, world: &OrderWorld) {
    let text = |value: String| value.into_bytes();
    site.put("nodes/owner-responses/bundle.json", &text(json::to_string(world.bundle.signed()).unwrap()));
    site.put("nodes/owner-responses/roster.json", &text(json::to_string(world.roster.signed()).unwrap()));
    wait_until("the roster", || {
        let view: RosterView = site.order("GET", PeopleCall::Roster.path(), "").read();
        view.roster.as_ref() == Some(world.roster.signed())
    });
}

pub(crate) fn challenge(site: &Site) -> Challenge {
    site.send(&request("GET", PeopleCall::Challenge.path(), &[], "")).read()
}

/// What an owner signs for a request.
pub(crate) fn asked(fleet: Digest, owner: &OwnerId, method: &str, target: &str, body: &str) -> OwnerRequest {
    OwnerRequest {
        fleet,
        owner: owner.clone(),
        method: Method::of_word(method).unwrap(),
        target: target.parse().unwrap(),
        body_sha256: Digest::of(body.as_bytes()),
    }
}

/// One call with a proof over a fresh challenge; a source that called too often asks again.
pub(crate) fn call(site: &Site, who: &TestOwner, method: &str, target: &str, body: &str) -> Answer {
    let mut answer = None;
    wait_until("an answer that is not about the rate", || {
        let request = asked(site.ca.root().sha256(), &who.id, method, target, body);
        let proof = OwnerProof::sign(&request, &challenge(site), &who.key).unwrap();
        let got = with(site, &proof, method, target, body);
        let done = got.code() != "too_many_requests";
        answer = Some(got);
        done
    });
    answer.unwrap()
}

fn with(site: &Site, proof: &OwnerProof, method: &str, target: &str, body: &str) -> Answer {
    site.send(&request(method, target, &[(OWNER_PROOF_HEADER, &proof.to_header())], body))
}

/// Two who have one identity: the node's own start speaks again after the one that followed it.
pub(crate) fn freeze(site: &Site, node: &Machine) {
    let beat = |start: &str, former: &str| {
        let mut text = json::to_string(&node.beat()).unwrap();
        text.pop();
        let text = format!(r#"{text},"startId":"{start}","formerStarts":[{former}]}}"#);
        let report: lucia_proto::node::heartbeat::Heartbeat = json::from_str(&text, 4096, 8).unwrap();
        let answer = node.node_call(site, Endpoint::Heartbeat, node.sign(site, &report));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body.contains("\"frozen\":true")
    };
    let [one, two] = ["01", "02"].map(|pair| pair.repeat(16));
    assert!(!beat(&one, ""));
    assert!(!beat(&two, &format!("\"{one}\"")));
    assert!(beat(&one, ""), "not frozen");
}

fn path(base: &str, id: &Machine) -> String {
    base.replace("{id}", id.id().as_str()).replace("{code}", "1a2b-3c4d-5e6f")
}

/// What a node can send to a row that is not its own: its proof of another call.
fn as_node(site: &Site, node: &Machine, method: &str, target: &str, body: &str) -> String {
    let question = Question { node_id: node.id().clone(), purpose: Purpose::DeviceState };
    let proof = HeaderProof { certificate_pem: None, proof: node.sign(site, &question) }.to_header();
    site.send(&request(method, target, &[(PROOF_HEADER, &proof)], body)).code()
}

/// A token of alice's with every scope.
fn token(site: &Site, world: &OrderWorld) -> String {
    let scopes: Vec<&str> = TokenScope::ALL.iter().map(|scope| scope.as_str()).collect();
    let form = format!(r#"{{"name":"all","scopes":{scopes:?},"days":1}}"#);
    let made: TokenMade = call(site, &world.alice, "POST", PeopleCall::MakeToken.path(), &form).read();
    made.secret.reveal().to_owned()
}

/// One call with a token; one that called too often asks again.
fn with_token(site: &Site, token: &str, method: &str, target: &str, body: &str) -> Answer {
    let mut answer = None;
    wait_until("an answer that is not about the rate", || {
        let bearer = format!("Bearer {token}");
        let got = site.send(&request(method, target, &[("Authorization", &bearer)], body));
        let done = got.code() != "too_many_requests";
        answer = Some(got);
        done
    });
    answer.unwrap()
}

/// Who removed a node stands in events and audit, which are scopes of their own.
// spec: CO-98
#[test]
fn a_token_for_nodes_hears_of_a_removed_one_only_that_it_is_not_there() {
    let (site, world) = owned();
    let node = Machine::managed(&site, 7);
    let form = r#"{"name":"one","scopes":["nodes"],"days":7}"#;
    let made: TokenMade = call(&site, &world.alice, "POST", PeopleCall::MakeToken.path(), form).read();
    let target = path("/api/host/nodes/{id}", &node);
    let look = || with_token(&site, made.secret.reveal(), "GET", &target, "");
    assert_eq!(look().status, 200);
    assert_eq!(site.order("DELETE", &target, "").status, 200);
    let (program, person) = (look(), call(&site, &world.victor, "GET", &target, ""));
    assert_eq!((program.code().as_str(), person.code().as_str()), ("unknown_node", "unknown_node"));
    assert!(person.body.contains("confirm-removals") && !program.body.contains("confirm-removals"));
    let name = node.node.hostname.as_str();
    assert!(person.body.contains(name) && !program.body.contains(name), "{program:?}");
}

// spec: OW-21
#[test]
fn a_token_looks_and_does_nothing_else() {
    let (site, world) = owned();
    let form = |scopes: &str| format!(r#"{{"name":"one","scopes":[{scopes}],"days":7}}"#);
    let made: TokenMade =
        call(&site, &world.alice, "POST", PeopleCall::MakeToken.path(), &form(r#""events","nodes""#)).read();
    let token = made.secret.reveal();
    assert_eq!(with_token(&site, token, "GET", "/api/host/nodes", "").status, 200);
    assert_eq!(with_token(&site, token, "GET", "/api/host/events?after=0&limit=1", "").status, 200);
    // Not what it has no scope for, and nothing that changes anything or is somebody's own.
    for (method, target, body) in [
        ("GET", "/api/host/audit", ""),
        ("GET", "/api/host/sessions", ""),
        ("GET", "/api/host/tokens", ""),
        ("GET", "/api/host/stream", ""),
        ("POST", "/api/host/onboarding/window", r#"{"minutes":5}"#),
        ("POST", "/api/host/tokens", &form(r#""audit""#)),
        ("DELETE", "/api/host/tokens/1a2b-3c4d-5e6f", ""),
    ] {
        assert_eq!(with_token(&site, token, method, target, body).code(), "role_required", "{method} {target}");
    }
    // Nobody learns why a token is none; a cookie beside it changes nothing.
    let wrong = format!("t1.{}", "A".repeat(43));
    let refused = with_token(&site, &wrong, "GET", "/api/host/nodes", "");
    assert_eq!(refused.code(), "actor_required");
    assert_eq!(with_token(&site, "x", "GET", "/api/host/nodes", "").body, refused.body);
    assert_eq!(with_token(&site, &wrong, "POST", "/api/host/tokens", &form(r#""audit""#)).body, refused.body);
    let listed: TokensView = call(&site, &world.alice, "GET", PeopleCall::Tokens.path(), "").read();
    assert_eq!(listed.tokens.len(), 1);
    assert!(listed.tokens[0].used_at.is_some());
    // A viewer makes none, the operator neither; it ends at once when it is removed.
    for (who, code) in [(&world.victor, "role_required"), (&world.mallory, "actor_required")] {
        assert_eq!(call(&site, who, "POST", PeopleCall::MakeToken.path(), &form(r#""audit""#)).code(), code);
    }
    assert_eq!(site.order("POST", PeopleCall::MakeToken.path(), &form(r#""audit""#)).code(), "actor_required");
    let remove = PeopleCall::RemoveToken.path_for(&listed.tokens[0].code);
    assert_eq!(call(&site, &world.alice, "DELETE", &remove, "").status, 200);
    assert_eq!(with_token(&site, token, "GET", "/api/host/nodes", "").body, refused.body);
}

// spec: OW-21
#[test]
fn a_token_ends_with_its_last_day() {
    let (site, world) = owned();
    let token = token(&site, &world);
    let look = || with_token(&site, &token, "GET", "/api/host/nodes", "");
    site.later(Duration::from_secs(86_400 - 60));
    assert_eq!(look().status, 200);
    site.later(Duration::from_secs(60));
    let expired = look();
    let wrong = with_token(&site, &format!("t1.{}", "A".repeat(43)), "GET", "/api/host/nodes", "");
    assert_eq!((expired.code().as_str(), &expired.body), ("actor_required", &wrong.body));
}

// spec: CO-1, OW-20
#[test]
fn every_row_of_both_tables_by_everyone() {
    let (site, mut world) = owned();
    let node = Machine::managed(&site, 1);
    let frozen = Machine::managed(&site, 2);
    freeze(&site, &frozen);
    let absent = Machine::new(3);
    world.change_roster(|roster| roster.owners.retain(|owner| owner.name.as_str() != "bob"));
    publish(&site, &world);
    let token = token(&site, &world);
    let rows = Endpoint::ALL.iter().map(|row| (format!("{row:?}"), row.method(), row.path(), row.body_max(), false));
    let owners = PeopleCall::ALL.iter().map(|row| {
        (format!("{row:?}"), row.method(), row.path(), row.body_max(), matches!(row.caller(), Who::Person(_)))
    });
    let mut table = String::new();
    for (name, method, base, body_max, operators) in rows.chain(owners) {
        let body = if body_max > 0 { "{}" } else { "" };
        let target = path(base, &absent);
        let own = |who: &Machine| match base {
            _ if operators => as_node(&site, who, method, &target, body),
            "/api/nodes/{id}/heartbeat" => who.heartbeat(&site).code(),
            "/api/boot/devices/{id}/progress" => who.progress(&site, DevicePhase::Installing).code(),
            _ => site.send(&request(method, &path(base, who), &[], body)).code(),
        };
        let person = |who: &TestOwner| call(&site, who, method, &target, body).code();
        let answers = [
            site.send(&request(method, &target, &[], body)).code(),
            own(&node),
            own(&frozen),
            person(&world.victor),
            person(&world.alice),
            person(&world.bob),
            with_token(&site, &token, method, &target, body).code(),
            site.order(method, &target, body).code(),
        ];
        writeln!(table, "{name} | {}", answers.join(" | ")).unwrap();
    }
    assert_eq!(table, EVERYONE, "the table is now:\n{table}");
}

// spec: HT-440
#[test]
fn a_caller_is_told_who_a_call_was_made_as() {
    let (site, world) = owned();
    let me = |who: &TestOwner| -> CallerView { call(&site, who, "GET", PeopleCall::Me.path(), "").read() };
    let name = |who: &TestOwner| AuditActor::Owner(who.id.clone(), who.name.parse().unwrap());
    let by_key = |who: &TestOwner, role| CallerView { actor: name(who), role: Some(role), via: Some(AuditVia::Key) };
    assert_eq!(me(&world.alice), by_key(&world.alice, Role::Owner));
    assert_eq!(me(&world.victor), by_key(&world.victor, Role::Viewer));
    let operator: CallerView = site.order("GET", PeopleCall::Me.path(), "").read();
    assert!(matches!(operator, CallerView { actor: AuditActor::Operator(_), role: None, via: None }));
}

// spec: CO-3
#[test]
fn a_proof_is_for_one_request_once() {
    let (site, world) = owned();
    let fleet = site.ca.root().sha256();
    let (target, alice) = ("/api/host/onboarding/window", &world.alice);
    let body = r#"{"minutes":5}"#;
    let right = asked(fleet, &alice.id, "POST", target, body);
    let sign = |request: &OwnerRequest, key: &NodeKey| OwnerProof::sign(request, &challenge(&site), key).unwrap();
    let before = site.journal();
    let same = |change: &dyn Fn(&mut OwnerRequest)| {
        let mut request = right.clone();
        change(&mut request);
        sign(&request, &alice.key)
    };
    let edited = {
        let mut proof = sign(&right, &alice.key);
        proof.request_json = proof.request_json.replace("window", "windoW");
        proof
    };
    let zeros = OwnerProof { signature: format!("{}==", "A".repeat(86)), ..sign(&right, &alice.key) };
    let mut refusals = std::collections::BTreeSet::new();
    for (name, proof) in [
        ("another path", same(&|request| request.target = "/api/host/nodes".parse().unwrap())),
        ("a query", same(&|request| request.target = format!("{target}?a").parse().unwrap())),
        ("another method", same(&|request| request.method = Method::Delete)),
        ("another body", same(&|request| request.body_sha256 = Digest::of(br#"{"minutes":6}"#))),
        ("no body", same(&|request| request.body_sha256 = Digest::of(b""))),
        ("another fleet", same(&|request| request.fleet = Digest::of(b"another root"))),
        ("another owner", same(&|request| request.owner = world.bob.id.clone())),
        ("nobody's key", sign(&right, &world.mallory.key)),
        ("an owner's passkey", sign(&right, &alice.passkey)),
        ("edited", edited),
        ("no signature", zeros),
    ] {
        let answer = with(&site, &proof, "POST", target, body);
        assert_eq!((answer.status, answer.code().as_str()), (403, "actor_required"), "{name}");
        assert!(answer.header("lucia-challenge").is_some(), "{name}");
        refusals.insert(answer.body);
    }
    assert_eq!(refusals.len(), 1, "one and the same");
    // Over no challenge of owners: a node's, and another start's.
    let machine = Machine::new(9);
    for (name, challenge) in [("a node's", machine.challenge(&site)), ("another start's", challenge(&Site::new()))] {
        let proof = OwnerProof::sign(&right, &challenge, &alice.key).unwrap();
        assert_eq!(with(&site, &proof, "POST", target, body).code(), "challenge_refused", "{name}");
    }
    for header in ["", "e30=", "!", &"A".repeat(OWNER_PROOF_HEADER_MAX + 4)] {
        let bytes = request("POST", target, &[(OWNER_PROOF_HEADER, header)], body);
        assert_eq!(site.send(&bytes).code(), "invalid_request", "{}", header.len());
    }
    let proof = sign(&right, &alice.key).to_header();
    let twice = [(OWNER_PROOF_HEADER, proof.as_str()), (OWNER_PROOF_HEADER, proof.as_str())];
    assert_eq!(site.send(&request("POST", target, &twice, body)).code(), "invalid_request");
    assert_eq!(site.journal(), before);
    // The good one counts, once; and each answer brings the next challenge.
    let proof = sign(&right, &alice.key);
    let answer = with(&site, &proof, "POST", target, body);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_ne!(site.journal(), before);
    assert!(String::from_utf8(site.journal()).unwrap().contains("owner:alice"));
    assert_eq!(with(&site, &proof, "POST", target, body).code(), "challenge_refused");
    let mut stream = site.tls();
    let mut given = next(&answer).challenge();
    for _ in 0..3 {
        let request_of = asked(fleet, &alice.id, "GET", "/api/host/nodes", "");
        let proof = OwnerProof::sign(&request_of, &given, &alice.key).unwrap().to_header();
        let bytes = request("GET", "/api/host/nodes", &[(OWNER_PROOF_HEADER, &proof)], "");
        let answer = exchange(&mut stream, &bytes).unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        given = next(&answer).challenge();
    }
    // Of a viewer the change is refused, and what he may is answered.
    assert_eq!(call(&site, &world.victor, "POST", target, body).code(), "role_required");
    assert_eq!(call(&site, &world.victor, "GET", "/api/host/events?after=0&limit=1", "").status, 200);
}

// spec: CO-4
#[test]
fn without_a_roster_and_after_leaving_it_nobody_is_let_in() {
    let site = Site::new();
    let mut world = OrderWorld::new(site.at);
    let nobody = call(&site, &world.mallory, "GET", "/api/host/nodes", "");
    assert_eq!(nobody.code(), "actor_required");
    assert_eq!(call(&site, &world.alice, "GET", "/api/host/nodes", "").body, nobody.body);
    assert_eq!(site.order("GET", "/api/host/nodes", "").status, 200, "the operator needs none");
    publish(&site, &world);
    assert_eq!(call(&site, &world.alice, "GET", "/api/host/nodes", "").status, 200);
    let fifth = world.roster.signed().clone();
    world.change_roster(|roster| roster.owners.retain(|owner| owner.name.as_str() != "alice"));
    publish(&site, &world);
    assert_eq!(call(&site, &world.alice, "GET", "/api/host/nodes", "").body, nobody.body);
    // An older roster that is put back changes nothing.
    site.put("nodes/owner-responses/roster.json", json::to_string(&fifth).unwrap().as_bytes());
    world.change_roster(|_| ());
    assert_eq!(call(&site, &world.alice, "GET", "/api/host/nodes", "").code(), "actor_required");
    publish(&site, &world);
    assert_eq!(call(&site, &world.alice, "GET", "/api/host/nodes", "").code(), "actor_required");
    assert_eq!(call(&site, &world.bob, "GET", "/api/host/nodes", "").status, 200);
}
