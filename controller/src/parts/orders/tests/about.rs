//! What orders are about, from those that were given before them.

use lucia_proto::orders::{Body, SshKeys};

use super::*;

// spec: PG-100
#[test]
fn an_order_about_keys_says_what_comes_and_goes() {
    let (world, fleet) = owned();
    let Body::SshKey(had) = fleet.body(OrderKind::SshKey) else { panic!("another body") };
    let none = SshKeys { keys: Vec::new(), ..had.clone() };
    let draft = |keys: &SshKeys, revision: u64| {
        let subject = "alice".parse().unwrap();
        let terms = Terms::State { subject, revision };
        let intent = OrderHead { terms, ..fleet.intent(OrderKind::SshKey) };
        let draft = Draft::new(intent, &Body::SshKey(keys.clone())).unwrap();
        world.parts.orders.add_draft(draft.clone(), &OPERATOR).unwrap();
        draft
    };
    let about = |draft: &Draft| line(&world, draft).about.unwrap().as_str().to_owned();
    let (gives, takes, late) = (draft(&had, 1), draft(&none, 2), draft(&had, 9));
    // Nobody gave the first one yet: what a later one changes is not known.
    assert_eq!(about(&gives), "alice: +laptop");
    let names_none = |about: &str| about.starts_with("alice: ") && !about.contains("laptop");
    assert!(names_none(&about(&takes)) && about(&late) == "alice: laptop", "{}", about(&takes));
    let sign = |draft: &Draft| {
        world.parts.orders.sign(&code_of(draft), fleet.alice.sign(draft), &OPERATOR).unwrap();
    };
    sign(&gives);
    assert!(names_none(&about(&late)) && about(&takes) == "alice: -laptop", "{}", about(&late));
    sign(&takes);
    assert_eq!((about(&gives), about(&late)), ("alice: +laptop".to_owned(), "alice: +laptop".to_owned()));
    let removal = fleet.draft(OrderKind::RemoveIdentity, |_| ());
    world.parts.orders.add_draft(removal.clone(), &OPERATOR).unwrap();
    assert_eq!(about(&removal), fleet.node.hostname.as_str());
}
