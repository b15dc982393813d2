//! Orders that the controller drafts for an owner at the page.

use lucia_people::audit::AuditVia;
use lucia_people::owner_api::DraftForm;
use lucia_proto::base::code::Code;
use lucia_proto::orders::{OrderKind, Terms};

use super::bench::{World, code};
use super::owners::{fleet, publish};
use crate::parts::By;

// spec: PG-441
#[test]
fn what_an_owner_means_is_drafted_as_their_own_and_as_the_signed_form_has_it() {
    let world = World::new();
    let fleet = fleet(&world);
    publish(&world, &fleet);
    let node = world.node(1);
    let (id, name) = (fleet.alice.id.clone(), "alice".parse().unwrap());
    let alice = By::Owner { id, name, from: "192.0.2.99".parse().unwrap(), via: AuditVia::Key };
    let form = |kind: OrderKind| {
        let body = match kind {
            OrderKind::RemoveIdentity => format!(r#"{{ "hostname": "{}" }}"#, node.node.hostname),
            _ => r#"{"account":"alice","keys":[]}"#.to_owned(),
        };
        let (subject, revision) =
            if kind.is_state() { (Some("alice".parse().unwrap()), Some(3)) } else { (None, None) };
        DraftForm { kind, nodes: vec![node.id().clone()], body, subject, revision }
    };
    for kind in [OrderKind::SshKey, OrderKind::RemoveIdentity] {
        let view = world.parts.orders.make_draft(form(kind), &alice).unwrap();
        let read = view.draft.read().unwrap();
        let head = read.intent();
        assert_eq!((head.kind, &head.owner, head.issued_at), (kind, &fleet.alice.id, world.now()));
        assert_eq!(matches!(head.terms, Terms::State { revision: 3, .. }), kind.is_state());
        assert!(!view.draft.body.contains(' '), "written as every program writes it");
        assert_eq!(world.parts.orders.draft(&read.code()).unwrap(), view);
    }
    // Twice the same is two orders: each has a nonce of its own.
    let twice = [0, 1].map(|_| world.parts.orders.make_draft(form(OrderKind::RemoveIdentity), &alice).unwrap());
    assert_ne!(twice[0].draft, twice[1].draft);

    type Spoil = fn(&mut DraftForm);
    let cases: [(Code, OrderKind, Spoil); 6] = [
        (Code::InvalidOnboardingRequest, OrderKind::SshKey, |form| form.revision = None),
        (Code::InvalidOnboardingRequest, OrderKind::RemoveIdentity, |form| form.revision = Some(1)),
        (Code::IntentRefused, OrderKind::SshKey, |form| form.subject = Some("bob".parse().unwrap())),
        (Code::IntentRefused, OrderKind::SshKey, |form| form.body = r#"{"account":"alice"}"#.to_owned()),
        (Code::IntentRefused, OrderKind::SshKey, |form| form.nodes.clear()),
        (Code::UnknownNode, OrderKind::SshKey, |form| form.nodes = vec!["00".repeat(16).parse().unwrap()]),
    ];
    for (number, (want, kind, spoil)) in cases.into_iter().enumerate() {
        let mut form = form(kind);
        spoil(&mut form);
        assert_eq!(code(world.parts.orders.make_draft(form, &alice)), Some(want), "case {number}");
    }
    let operator = world.parts.orders.make_draft(form(OrderKind::SshKey), &By::Operator(0));
    assert_eq!(code(operator), Some(Code::InvalidOnboardingRequest));
}
