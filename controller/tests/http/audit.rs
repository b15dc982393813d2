//! Every change through `/api/host` is an entry of the audit, whoever made it and whatever came of it (design.md O6).

use lucia_people::audit::{AuditActor, AuditView, verify};
use lucia_people::calls::PeopleCall;
use lucia_proto::base::code::Code;
use nix::unistd::Uid;

use crate::machine::Machine;
use crate::owners::{call, owned};

/// A form that its call reads whole.
fn form(endpoint: PeopleCall) -> &'static str {
    match endpoint {
        PeopleCall::OpenWindow => r#"{"minutes":5}"#,
        PeopleCall::Approve => r#"{"hostname":"n3","diskId":"disk0","confirmation":"ERASE"}"#,
        PeopleCall::Rename => r#"{"hostname":"n4"}"#,
        PeopleCall::KeepClone => r#"{"startId":"01010101010101010101010101010101"}"#,
        _ => "",
    }
}

// spec: AU-4
#[test]
fn every_change_by_everyone_is_an_entry_with_what_came_of_it() {
    let (site, world) = owned();
    let absent = Machine::new(3);
    let read = |after: u64| -> AuditView {
        site.order("GET", &format!("{}?after={after}&limit=500", PeopleCall::Audit.path()), "").read()
    };
    let mut last = read(0).last_sequence;
    let is_of_fleet =
        |row: &&PeopleCall| ["/onboarding/", "/devices/", "/nodes/"].iter().any(|part| row.path().contains(part));
    let changes = PeopleCall::ALL.iter().filter(is_of_fleet).filter(|row| row.method() != "GET");
    let mut count = 0;
    for endpoint in changes {
        let path = endpoint.path_for(absent.id());
        let answers = [
            (site.order(endpoint.method(), &path, form(*endpoint)), AuditActor::Operator(Uid::effective().as_raw())),
            (
                call(&site, &world.alice, endpoint.method(), &path, form(*endpoint)),
                AuditActor::Owner(world.alice.id.clone(), "alice".parse().unwrap()),
            ),
        ];
        // A viewer changes nothing, and a form that is none is no change.
        assert_eq!(call(&site, &world.victor, endpoint.method(), &path, form(*endpoint)).code(), "role_required");
        if endpoint.body_max() > 0 {
            assert_eq!(site.order(endpoint.method(), &path, "{}").code(), "invalid_body", "{endpoint:?}");
        }
        let entries = read(last).entries;
        assert_eq!(entries.len(), 2, "{endpoint:?}: {entries:?}");
        for (entry, (answer, actor)) in entries.iter().zip(&answers) {
            let refused = Code::ALL.iter().copied().find(|code| code.as_str() == answer.code());
            assert_eq!(
                (Some(entry.action), entry.refused),
                (endpoint.person().and_then(|person| person.act), refused),
                "{answer:?}"
            );
            assert_eq!(&entry.actor, actor);
            assert_eq!(entry.from.is_some(), matches!(actor, AuditActor::Owner(..)), "{entry:?}");
            assert_eq!(entry.node.as_ref(), endpoint.path().contains("{id}").then(|| absent.id()));
        }
        last += 2;
        count += 1;
    }
    assert_eq!(count, 10);
    let view = read(0);
    let lines: String = view.entries.iter().map(|entry| entry.to_line().unwrap()).collect();
    let chain = verify(lines.as_bytes(), None).unwrap();
    assert_eq!((chain.entries, chain.head), (view.last_sequence, view.head), "what is read can be verified");
    assert_eq!(lines.as_bytes(), std::fs::read(site.file("audit/audit.jsonl")).unwrap());
    for query in ["?after=1&wait=5", "?limit=0", "?limit=501", "?x=1"] {
        let path = format!("{}{query}", PeopleCall::Audit.path());
        assert_eq!(call(&site, &world.victor, "GET", &path, "").code(), "invalid_onboarding_request", "{query}");
    }
    assert_eq!(call(&site, &world.victor, "GET", "/api/host/audit?after=3", "").status, 200);
}
