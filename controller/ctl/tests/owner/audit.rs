//! The audit on an owner's machine: what is shown and written out, and which changes of it are found.

use lucia_proto::audit::{AuditAction, AuditActor, AuditChain, AuditEntry, AuditNote, AuditView};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::json;
use lucia_proto::orders::{OrderCode, OrderId};
use lucia_proto::test_support::OrderWorld;

use crate::server::{By, Server, Step, get, step};
use crate::site::{Site, arg, ended, said, world};

/// So many lines, by a name that tells two histories apart.
fn history(world: &OrderWorld, count: u64, name: &str) -> (Vec<AuditEntry>, AuditChain) {
    let mut chain = AuditChain::default();
    let mut entries = Vec::new();
    for number in 0..count {
        let note = AuditNote {
            at: world.now,
            actor: AuditActor::Owner(world.alice.id.clone(), name.parse().unwrap()),
            from: Some([192, 0, 2, 7].into()),
            via: None,
            action: AuditAction::IntentSettled,
            node: Some(world.node.node_id.clone()),
            intent: Some(OrderId::of("{}")),
            refused: None,
            intent_refused: (number == 1).then_some(OrderCode::Expired),
            token: None,
            more: None,
        };
        let line = chain.add(note).unwrap();
        entries.push(json::from_str(line.trim_end(), 4096, 8).unwrap());
    }
    (entries, chain)
}

fn text(entries: &[AuditEntry]) -> String {
    entries.iter().map(|entry| entry.to_line().unwrap()).collect()
}

fn part(after: u64, entries: &[AuditEntry], chain: &AuditChain) -> Step {
    let view = AuditView { entries: entries.to_vec(), last_sequence: chain.entries, head: chain.head };
    get(format!("GET /api/host/audit?after={after}"), &view)
}

// spec: LC-12, LC-94
#[test]
fn the_audit_is_shown_and_written_out_whole() {
    let world = world();
    let (entries, chain) = history(&world, 3, "alice");
    let parts = || vec![part(0, &entries[..2], &chain), part(2, &entries[2..], &chain)];
    let [first, last] = <[Step; 2]>::try_from(parts()).ok().unwrap();
    let shown = vec![first, crate::orders::nodes(&world), last];
    let script = shown.into_iter().chain(parts()).chain(parts()).chain([part(3, &[], &chain)]).collect();
    let server = Server::new(world.clone(), script);
    let site = Site::alice(&world, server.port);
    let output = site.run(&["audit"]);
    ended(&output, 0, "Answered an order");
    for part in
        ["NUMBER  AT ", "alice", "192.0.2.7", world.node.hostname.as_str(), "refused: its time was over", "done"]
    {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
    assert_eq!(said(&output).lines().count(), 4);
    assert!(!said(&output).contains(world.node.node_id.as_str()), "{}", said(&output));
    assert_eq!(said(&site.run(&["audit", "--json"])), text(&entries));
    assert_eq!(said(&site.run(&["audit", "export"])), text(&entries));
    ended(&site.run(&["audit", "--after", "3"]), 0, "No lines yet");
    server.done();
}

// spec: LC-12
#[test]
fn an_audit_that_was_cut_edited_or_written_anew_is_found() {
    let world = world();
    let (entries, chain) = history(&world, 3, "alice");
    let (others, other) = history(&world, 4, "malice");
    let edited = |change: &dyn Fn(&mut Vec<AuditEntry>)| {
        let mut entries = entries.clone();
        change(&mut entries);
        entries
    };
    let shorter = history(&world, 2, "alice").1;
    let wrong_head = AuditChain { head: Digest::ZERO, ..chain };
    let longer = AuditChain { entries: 9, ..chain };
    for (what, script, says) in [
        ("one is gone", vec![part(0, &edited(&|all| drop(all.remove(1))), &chain)], "has the number 3"),
        ("two are swapped", vec![part(0, &edited(&|all| all.swap(0, 1)), &chain)], "has the number 2"),
        ("one was edited", vec![part(0, &edited(&|all| all[0].from = None), &chain)], "line 2 does not follow"),
        ("the last was edited", vec![part(0, &edited(&|all| all[2].from = None), &chain)], "written anew"),
        ("another head", vec![part(0, &entries, &wrong_head)], "written anew"),
        ("lines are withheld", vec![part(0, &entries, &longer), part(3, &[], &longer)], "sends no more than 3"),
        ("another history", vec![part(0, &others, &other)], "written anew: its line 3"),
        ("an earlier one", vec![part(0, &entries[..2], &shorter)], "its end was cut off"),
    ] {
        let good = part(0, &entries, &chain);
        let server = Server::new(world.clone(), [good].into_iter().chain(script).collect());
        let site = Site::alice(&world, server.port);
        let output = site.run(&["audit", "verify"]);
        ended(&output, 0, &format!("Anchor for the next time: 3:{}", chain.head));
        let noted = site.read("owner.audit");
        let output = site.run(&["audit", "verify"]);
        assert_eq!(output.status.code(), Some(1), "{what}: {}", said(&output));
        ended(&output, 1, says);
        assert_eq!(site.read("owner.audit"), noted, "{what}");
        server.done();
    }
    // What only grew is the same.
    let (more, longer) = history(&world, 5, "alice");
    let parts = vec![part(0, &entries, &chain), part(0, &more, &longer)];
    let server = Server::new(world.clone(), parts);
    let site = Site::alice(&world, server.port);
    ended(&site.run(&["audit", "verify"]), 0, "Nothing was known of it before");
    ended(&site.run(&["audit", "verify"]), 0, "Up to line 3 it is what was known before");
    server.done();
}

/// Of two runs the one that saw less may end last; the lines between would be missed by nobody then.
// spec: LC-80
#[test]
fn a_run_that_saw_less_takes_nothing_back_of_what_another_saw_meanwhile() {
    let world = world();
    let ((entries, chain), longer) = (history(&world, 3, "alice"), history(&world, 5, "alice").1);
    let note = std::sync::Arc::new(std::sync::OnceLock::<std::path::PathBuf>::new());
    let (at, noted) = (note.clone(), json::to_string(&longer).unwrap());
    let first = part(0, &entries[..2], &chain);
    let view = AuditView { entries: entries[2..].to_vec(), last_sequence: chain.entries, head: chain.head };
    let other = noted.clone();
    let second = step("GET /api/host/audit?after=2", By::Alice, move |_, _| {
        let at = at.get().unwrap();
        std::fs::write(at, other).unwrap();
        std::fs::set_permissions(at, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        (200, json::to_string(&view).unwrap())
    });
    let server = Server::new(world.clone(), vec![first, second]);
    let site = Site::alice(&world, server.port);
    note.set(site.path("owner.audit")).unwrap();
    ended(&site.run(&["audit", "verify"]), 0, "Nothing was known of it before");
    assert_eq!(site.read("owner.audit"), noted);
    server.done();
}

/// threats.md C: a controller that wrote the audit anew still has the old one, and shows it to whoever asks by the anchor.
// spec: LC-80
#[test]
fn what_was_seen_and_the_workers_anchor_are_held_against_one_reading() {
    let world = world();
    let (_, chain) = history(&world, 3, "alice");
    let (others, other) = history(&world, 4, "malice");
    let anchor = format!("3:{}", chain.head);
    let early = history(&world, 2, "malice").1;
    let seen = vec![part(0, &others[..2], &early), part(0, &others, &other)];
    for script in [vec![part(0, &others, &other)], seen] {
        let had = script.len() > 1;
        let server = Server::new(world.clone(), script);
        let site = Site::alice(&world, server.port);
        if had {
            ended(&site.run(&["audit", "verify"]), 0, "Anchor for the next time: 2:");
        }
        ended(&site.run(&["audit", "verify", "--anchor", &anchor]), 1, "written anew: its line 3");
        server.done();
    }
}

// spec: LC-12
#[test]
fn an_exported_file_is_checked_without_a_controller() {
    let world = world();
    let (entries, chain) = history(&world, 3, "alice");
    let site = Site::bare(&world);
    let good = text(&entries);
    let anchor = format!("3:{}", chain.head);
    let other = format!("3:{}", Digest::ZERO);
    let before = format!("2:{}", history(&world, 2, "alice").1.head);
    let beyond = format!("4:{}", chain.head);
    for (text, more, code, says) in [
        (good.clone(), &[][..], 0, "3 lines"),
        (good.clone(), &["--anchor", &anchor], 0, "Up to line 3"),
        (good.clone(), &["--anchor", &before], 0, "Up to line 2"),
        (good.clone(), &["--anchor", &other], 1, "written anew: its line 3"),
        (good.clone(), &["--anchor", &beyond], 1, "its end was cut off"),
        (good.clone(), &["--anchor", "3"], 64, "64 hex digits"),
        (good.replacen("alice", "malice", 1), &[], 1, "does not follow"),
        (good.trim_end().to_owned(), &[], 1, "has no end"),
        (good.replacen(":1,", ": 1,", 1), &[], 1, "was edited"),
        ("x".repeat(9000), &[], 1, "has no end"),
        (String::new(), &[], 0, "0 lines"),
    ] {
        site.write("audit.jsonl", &text, 0o644);
        let file = site.path("audit.jsonl");
        ended(&site.run(&[&["audit", "verify", arg(&file)], more].concat()), code, says);
    }
    ended(&site.run(&["audit", "verify", arg(&site.path("nowhere"))]), 1, "nowhere");
}
