//! Automation tokens: made with the owner key, shown once, and removed by name.

use lucia_people::host_api::NodesView;
use lucia_people::token::{TokenForm, TokenSecret};

use crate::server::{By, Server, get, step};
use crate::site::{Site, ended, said, world};

// spec: AP-29
#[test]
fn a_token_is_made_with_the_owner_key_shown_once_and_removed_by_its_name() {
    let world = world();
    let (code, at) = ("1a2b-3c4d-5e6f", world.now);
    let secret = TokenSecret::from_random(&[7; 32]);
    let view = format!(
        r#"{{"code":"{code}","name":"prometheus","owner":"alice","scopes":["nodes","status"],"addedAt":"{at}","expiresAt":"{at}"}}"#
    );
    let made = format!(r#"{{"token":{view},"secret":"{}"}}"#, secret.reveal());
    let list = format!(r#"{{"serverTime":"{at}","tokens":[{view}]}}"#);
    let none = format!(r#"{{"serverTime":"{at}","tokens":[]}}"#);
    let listed = |text: &String| {
        let text = text.clone();
        step("GET /api/host/tokens", By::Alice, move |_, _| (200, text.clone()))
    };
    let script = vec![
        step("POST /api/host/tokens", By::Alice, move |_, asked| {
            let form: TokenForm = lucia_proto::base::json::from_str(&asked.body, 4096, 8).unwrap();
            assert_eq!((form.name.as_str(), form.days.duration().as_secs()), ("prometheus", 90 * 24 * 3600));
            (200, made.clone())
        }),
        listed(&list),
        listed(&list),
        get(
            "GET /api/host/tokens",
            &lucia_proto::base::json::from_str::<lucia_people::token::TokensView>(&list, 4096, 8).unwrap(),
        ),
        step(format!("DELETE /api/host/tokens/{code}"), By::Alice, move |_, _| (200, none.clone())),
    ];
    let server = Server::new(world.clone(), script);
    let site = Site::alice(&world, server.port);
    let add = ["token", "add", "prometheus", "--scope", "status,nodes", "--days", "90"];
    let output = site.run(&add);
    ended(&output, 0, secret.reveal());
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", secret.reveal()));
    assert!(!String::from_utf8_lossy(&output.stderr).contains(secret.reveal()), "{output:?}");
    let output = site.run(&["token", "list"]);
    ended(&output, 0, "prometheus");
    assert!(said(&output).contains(code) && !said(&output).contains(secret.reveal()), "{output:?}");
    site.refused(&["token", "remove", "nightly"], 1, "not_found");
    let output = site.run(&["token", "remove", "prometheus"]);
    ended(&output, 0, "");
    assert!(!said(&output).contains("prometheus"), "{output:?}");
    server.done();
    for wrong in [vec!["--scope", "all", "--days", "1"], vec!["--scope", "nodes", "--days", "91"], vec!["--days", "1"]]
    {
        ended(&site.run(&[&["token", "add", "x"][..], &wrong].concat()), 64, "--");
    }
    ended(&site.run(&["token", "add", "x", "--scope", "nodes,nodes", "--days", "1"]), 64, "--scope");
    ended(&site.run(&["token", "add", "--help"]), 0, "luciactl token add prometheus");
}

// spec: AP-9
#[test]
fn a_long_list_of_nodes_is_read_to_its_end_and_one_that_does_not_go_on_is_not_believed() {
    let world = world();
    let part = |name: &str, next: &str| {
        let node = &world.node;
        let code = node.fingerprint.verification_code();
        let line = format!(
            r#"{{"nodeId":"{}","hostname":"{name}","verificationCode":"{code}","state":"Online"}}"#,
            node.node_id
        );
        let text = format!(r#"{{"serverTime":"{}","nodes":[{line}]{next}}}"#, world.now);
        lucia_proto::base::json::from_str::<NodesView>(&text, 4096, 8).unwrap()
    };
    let next = |name: &str| format!(r#","next":"{name}""#);
    let script = vec![
        get("GET /api/host/nodes", &part("a1", &next("a1"))),
        get("GET /api/host/nodes?after=a1", &part("b2", &next("b2"))),
        get("GET /api/host/nodes?after=b2", &part("c3", "")),
        get("GET /api/host/nodes", &part("a1", &next("a1"))),
        get("GET /api/host/nodes?after=a1", &part("a1", &next("a1"))),
    ];
    let server = Server::new(world.clone(), script);
    let site = Site::alice(&world, server.port);
    let output = site.run(&["nodes"]);
    ended(&output, 0, "c3");
    assert!(said(&output).contains("a1") && said(&output).contains("b2"), "{output:?}");
    site.refused(&["nodes"], 1, "answer_invalid");
    server.done();
}
