//! Passkeys for orders, and what an order's and a node's document say of being too late.

use lucia_people::why::Readiness;
use lucia_proto::orders::owner::KeyUse;

use super::*;
use crate::parts::WaitingPasskey;

const BUTTON: &str = "data-act=\"sign-here\"";

/// The document of an order that waits, for alice, as the roster says and as `line` and `frame` are changed.
pub(super) fn waits(roster: &Roster, kinds: &[OrderKind], change: impl FnOnce(&mut DraftLine, &mut Frame)) -> String {
    let world = OrderWorld::new(time(NOW));
    let draft = world.draft(OrderKind::SshKey, |_| ());
    let mut line = draft_line(DraftState::Drafted);
    line.signers.clear();
    let mut frame = frame("/orders/{code}");
    frame.drafting.as_mut().unwrap().page_kinds = kinds.to_vec();
    change(&mut line, &mut frame);
    let facts = OrderFacts { line: &line, read: &draft.read().unwrap(), roster: Some(roster), names: &names() };
    render(&Order::new(frame, &facts)).unwrap()
}

// spec: PG-86
#[test]
fn an_order_is_signed_on_the_page_where_the_roster_names_its_kind_and_by_who_has_a_passkey_for_it() {
    let mut world = OrderWorld::new(time(NOW));
    let kinds = [OrderKind::SshKey];
    world.change_roster(|roster| roster.page_kinds = kinds.to_vec().into());
    let roster = world.roster.roster();
    let open = waits(roster, &kinds, |_, _| ());
    let credential = roster.owners[0].keys[1].credential_id.as_ref().unwrap().to_text();
    let passkeys = format!("data-passkeys=\"{credential}:{}\"", world.alice.passkey.public().fingerprint());
    assert!(
        open.contains(BUTTON) && open.contains(&passkeys) && open.contains("data-rp=\"controller.test\""),
        "{open}"
    );
    // What it means, which `snapshots/order.txt` has, and the other way.
    assert!(open.contains("<strong>") && open.contains("luciactl sign "), "{open}");
    let mut without = roster.clone();
    without.owners[0].keys.retain(|key| key.key_use == KeyUse::OwnerKey);
    let mut viewer = roster.clone();
    viewer.owners[0].role = Role::Viewer;
    for (name, text) in [
        ("at another page", waits(roster, &[], |_, _| ())),
        ("of another kind", waits(roster, &[OrderKind::Admit], |_, _| ())),
        ("without a passkey", waits(&without, &kinds, |_, _| ())),
        ("by a viewer", waits(&viewer, &kinds, |_, _| ())),
        ("by nobody who orders", waits(roster, &kinds, |_, frame| frame.drafting = None)),
        ("twice", waits(roster, &kinds, |line, _| line.signers = vec![world.alice.id.clone()])),
        ("once it is an order", waits(roster, &kinds, |line, _| line.state = DraftState::Signed)),
    ] {
        assert!(!text.contains("sign-here"), "{name}");
    }
    assert!(waits(roster, &kinds, |line, _| line.signers = vec![world.bob.id.clone()]).contains(BUTTON));
    // Which kinds are signed here the script is told: of any other it says that it is not.
    let keys = |kinds: &[OrderKind]| {
        let mut frame = frame("/keys");
        frame.drafting.as_mut().unwrap().page_kinds = kinds.to_vec();
        render(&Keys::new(frame, &[], &[line()])).unwrap()
    };
    assert!(keys(&[]).contains("data-kinds=\"\"") && keys(&kinds).contains("data-kinds=\"ssh-key \""));
}

pub(super) fn waiting() -> WaitingPasskey {
    WaitingPasskey { code: passkey().code, label: "<b>alice".parse().unwrap(), source: "2001:db8::/64".to_owned() }
}

// spec: PG-221
#[test]
fn an_owner_sees_the_passkeys_that_wait_and_dismisses_them() {
    let waiting = waiting();
    let text = |frame: Frame| {
        render(&Passkeys::new(frame, "c.test", (&[], &[]), None).waiting(vec![waiting.clone()])).unwrap()
    };
    let act = format!("data-act=\"dismiss-passkey\" data-code=\"{}\"", waiting.code);
    let shown = text(frame("/passkeys"));
    assert!(shown.contains(&act) && shown.contains("2001:db8::/64") && !shown.contains("<b>"));
    assert!(script().contains("'dismiss-passkey'"));
    let viewer = Who { name: "victor".parse().unwrap(), role: Role::Viewer };
    for who in [Some(viewer), None] {
        assert!(!text(Frame::new("Passkeys", "/passkeys", who, time(NOW))).contains("dismiss-passkey"));
    }
}

// spec: PG-87
#[test]
fn an_owner_is_told_what_a_passkey_for_orders_would_sign_and_a_viewer_makes_none() {
    let text = |frame: Frame| render(&Passkeys::new(frame, "c.test", (&[], &[]), None)).unwrap();
    let mut open = frame("/passkeys");
    open.drafting.as_mut().unwrap().page_kinds = vec![OrderKind::SshKey];
    let (closed, open) = (text(frame("/passkeys")), text(open));
    let cure = "lucia-enrollment-worker roster page-kinds";
    assert!(closed.contains(cure) && closed.contains("id=\"orders-form\"") && !closed.contains("<code>ssh-key</code>"));
    assert!(
        open.contains("<code>ssh-key</code>") && open.contains("luciactl passkey orders -") && !open.contains(cure)
    );
    let viewer = Who { name: "victor".parse().unwrap(), role: Role::Viewer };
    for who in [Some(viewer), None] {
        assert!(!text(Frame::new("Passkeys", "/passkeys", who, time(NOW))).contains("orders-form"));
    }
}

// spec: PG-83
#[test]
fn an_order_that_was_handed_out_says_that_it_cannot_be_called_back() {
    let roster = roster();
    let signed =
        |handed_out| waits(&roster, &[], |line, _| (line.state, line.handed_out) = (DraftState::Signed, handed_out));
    assert!(signed(true).contains("data-handed-out") && !signed(false).contains("data-handed-out"));
}

// spec: PG-84
#[test]
fn a_node_says_whether_it_takes_orders() {
    let mut view = node();
    (view.node.frozen, view.frozen) = (false, None);
    let document = |view: &NodeView| {
        let why = Why::of(view, &[]);
        let facts = ServerFacts { view, why: &why, events: &[], certificate: None, agent: None };
        render(&Server::new(frame("/servers/{id}"), &facts)).unwrap()
    };
    let held =
        |asks: bool| Some(read(&format!(r#"{{"bundleVersion":1,"rosterVersion":5,"rosterNewest":5,"asks":{asks}}}"#)));
    let wrong = Readiness::Asks.wrong().unwrap();
    for (orders, readiness) in
        [(held(false), Readiness::Before), (held(true), Readiness::Asks), (None, Readiness::Silent)]
    {
        view.orders = orders;
        let text = document(&view);
        assert_eq!(Why::of(&view, &[]).orders, readiness);
        assert!(text.contains(&escaped(&readiness.to_string())), "{readiness:?}: {text}");
        assert_eq!(text.contains(&escaped(&wrong)), readiness == Readiness::Asks, "{readiness:?}");
    }
}
