//! What each document says, one file a document. `UPDATE_EXPECT=1 cargo test -p lucia-controller --lib snapshot` writes
//! them.

use std::fmt::Write as _;

use expect_test::expect_file;
use lucia_proto::node::phase::DevicePhase;

use super::*;
use crate::parts::AskedPasskey;

/// Tags that end no line.
const INLINE: [&str; 10] = ["a", "button", "code", "input", "label", "path", "span", "strong", "svg", "time"];

/// What people read of a document, without what all documents have: a line for each block, and in brackets what
/// attributes say.
fn text(html: &str) -> String {
    let (_, mut rest) = html.split_once("</noscript>").unwrap();
    let mut lines = String::new();
    while let Some((before, tag)) = rest.split_once('<') {
        lines.push_str(before);
        let (tag, after) = tag.split_once('>').unwrap();
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap();
        match name {
            "td" | "th" if tag.starts_with('/') || lines.ends_with('\n') => (),
            "td" | "th" => lines.push_str(" | "),
            name if INLINE.contains(&name) => (),
            _ => lines.push('\n'),
        }
        let attributes = tag.split("=\"").collect::<Vec<_>>();
        for pair in attributes.windows(2) {
            let name = pair[0].rsplit(' ').next().unwrap();
            let value = pair[1].split('"').next().unwrap();
            if ["title", "aria-label", "placeholder", "data-words"].contains(&name) {
                write!(lines, "[{name}: {value}] ").unwrap();
            }
        }
        rest = after;
    }
    let decoded = lines.replace("&#34;", "\"").replace("&#39;", "'");
    let lines = decoded.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}

/// The states of one document, one under the other.
fn states(documents: &[(&str, String)]) -> String {
    documents.iter().map(|(name, html)| format!("--- {name}\n{}\n", text(html))).collect()
}

fn viewer(at: &'static str) -> Frame {
    Frame::new("A title", at, Some(Who { name: "victor".parse().unwrap(), role: Role::Viewer }), time(NOW))
}

/// The full document of [`documents`] with this name.
fn full(name: &str) -> (&'static str, String) {
    ("full", documents().into_iter().find(|(other, _)| *other == name).unwrap().1)
}

fn shown<T: Template>(name: &'static str, document: T) -> (&'static str, String) {
    (name, render(&document).unwrap())
}

fn closed() -> OnboardingView {
    OnboardingView { window_expires_at: None, ..onboarding(vec![]) }
}

// spec: PG-12, PG-96
#[test]
fn servers() {
    let none = shown("no node, the window closed", Servers::new(frame("/"), &closed(), &[]));
    let open = shown("no node, the window open", Servers::new(frame("/"), &onboarding(vec![]), &[]));
    expect_file!["snapshots/servers.txt"].assert_eq(&states(&[full("servers"), none, open]));
}

// spec: PG-12, PG-32
#[test]
fn server() {
    let mut well = node();
    (well.node.frozen, well.frozen, well.node.new_hostname, well.directory) = (false, None, None, None);
    well.node.certificate_expires_at = Some(time(NOW + 6 * 24 * 3600));
    well.orders = row().orders;
    well.samples.clear();
    let of = |name, view: &NodeView, frame| {
        let why = Why::of(view, &[]);
        shown(name, Server::new(frame, &ServerFacts { view, why: &why, events: &[], certificate: None, agent: None }))
    };
    let bare = of("well, nothing measured, no certificate", &well, frame("/servers/{id}"));
    let viewed = of("seen twice, for a viewer", &node(), viewer("/servers/{id}"));
    expect_file!["snapshots/server.txt"].assert_eq(&states(&[full("server"), bare, viewed]));
}

// spec: PG-97, PG-114
#[test]
fn device() {
    let of = |name, device: &DeviceView, line: Option<&DraftLine>| {
        shown(name, Device::new(frame("/devices/{id}"), device, line))
    };
    let waiting = draft_line(DraftState::Drafted);
    let runs = DeviceView { running: true, ..super::device() };
    let mut installs = approved();
    installs.task.as_mut().unwrap().progress_expires_at = Some(time(NOW + 900));
    let asks = DeviceView { phase: DevicePhase::AwaitingEnrollment, ..approved() };
    expect_file!["snapshots/device.txt"].assert_eq(&states(&[
        full("device"),
        of("running", &runs, None),
        shown("for a viewer", Device::new(viewer("/devices/{id}"), &super::device(), None)),
        of("approved", &approved(), None),
        of("with its permission", &installs, None),
        of("its admission drafted", &asks, Some(&waiting)),
        of("its admission signed", &asks, Some(&draft_line(DraftState::Signed))),
        of("its admission done", &asks, Some(&draft_line(DraftState::Done))),
    ]));
}

// spec: PG-101
#[test]
fn orders() {
    let lines: Vec<DraftLine> = [DraftState::Drafted, DraftState::Signed, DraftState::Done, DraftState::Refused]
        .into_iter()
        .map(|state| DraftLine { about: Some("alice: +laptop".parse().unwrap()), ..draft_line(state) })
        .chain([read::nobody_left()])
        .collect();
    let all = shown("of each state", Orders::new(frame("/orders"), (&lines, &names()), true, true));
    let none = shown("none", Orders::new(frame("/orders"), (&[], &names()), true, false));
    expect_file!["snapshots/orders.txt"].assert_eq(&states(&[all, none]));
}

// spec: PG-33, PG-83, PG-86, PG-101
#[test]
fn order() {
    let mut world = OrderWorld::new(time(NOW));
    let closed = super::order(DraftState::Drafted, world.roster.roster());
    world.change_roster(|roster| roster.page_kinds = vec![OrderKind::SshKey].into());
    let roster = world.roster.roster();
    let handed_out = passkey::waits(roster, &[], |line, _| {
        (line.state, line.handed_out) = (DraftState::Signed, true);
        line.outcomes.clear();
    });
    expect_file!["snapshots/order.txt"].assert_eq(&states(&[
        ("signed on no page", closed),
        ("signed on another page", super::order(DraftState::Drafted, roster)),
        ("signed on this page", passkey::waits(roster, &[OrderKind::SshKey], |_, _| ())),
        ("handed out", handed_out),
        ("nobody left", read::order_nobody_left()),
    ]));
}

// spec: PG-102, PG-103
#[test]
fn keys() {
    let of = |name, nodes: usize, gone: usize| {
        let mut ordered = ordered();
        let given = ordered.given.as_mut().unwrap();
        (given.nodes, given.gone) = (nodes, gone);
        shown(name, Keys::new(viewer("/keys"), &[ordered], &[line()]))
    };
    let none = shown("none", Keys::new(frame("/keys"), &[], &[]));
    let some_gone = of("a node gone, for a viewer", 3, 1);
    let all_gone = of("all nodes gone, for a viewer", 2, 2);
    expect_file!["snapshots/keys.txt"].assert_eq(&states(&[full("keys"), some_gone, all_gone, none]));
}

// spec: PG-34, PG-99
#[test]
fn owners() {
    let none = shown("no roster", Owners::new(frame("/owners"), None, &[], (&[], &[])));
    expect_file!["snapshots/owners.txt"].assert_eq(&states(&[full("owners"), none]));
}

// spec: PG-35, PG-92
#[test]
fn audit() {
    let empty = AuditPart { entries: vec![], last: 0 };
    let empty = shown("empty", Audit::new(frame("/audit"), &empty, &names()));
    let refused = shown("refused", Audit::new(frame("/audit"), &refused_in_a_session(), &names()));
    expect_file!["snapshots/audit.txt"].assert_eq(&states(&[full("audit"), refused, empty]));
}

// spec: PG-12
#[test]
fn window() {
    let closed = shown("closed", Window::new(frame("/window"), &closed()));
    let viewed = shown("for a viewer", Window::new(viewer("/window"), &onboarding(vec![])));
    expect_file!["snapshots/window.txt"].assert_eq(&states(&[full("window"), closed, viewed]));
}

// spec: PG-87, PG-221
#[test]
fn passkeys() {
    let mut open = frame("/passkeys");
    open.drafting.as_mut().unwrap().page_kinds = vec![OrderKind::SshKey];
    let of = |name, frame, asked| shown(name, Passkeys::new(frame, "c.test", (&[], &[]), asked));
    let waiting = Passkeys::new(frame("/passkeys"), "c.test", (&[], &[]), None).waiting(vec![passkey::waiting()]);
    expect_file!["snapshots/passkeys.txt"].assert_eq(&states(&[
        full("passkeys"),
        shown("others wait", waiting),
        of("orders signed on this page", open, None),
        of("asked, for a viewer", viewer("/passkeys"), Some(AskedPasskey::Waits)),
        of("confirmed, for a viewer", viewer("/passkeys"), Some(AskedPasskey::Confirmed)),
        of("gone, for a viewer", viewer("/passkeys"), Some(AskedPasskey::Gone)),
    ]));
}

// spec: PG-91
#[test]
fn removed() {
    expect_file!["snapshots/removed.txt"].assert_eq(&states(&[full("removed")]));
}

#[test]
fn sign_in() {
    expect_file!["snapshots/sign-in.txt"].assert_eq(&states(&[full("sign-in")]));
}

#[test]
fn trouble() {
    expect_file!["snapshots/trouble.txt"].assert_eq(&states(&[full("trouble")]));
}
