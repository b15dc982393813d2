//! The audit on an owner's machine: what is shown and written out, and which changes of it are found.

use expect_test::expect_file;
use lucia_people::audit::{AuditActor, AuditEntry, AuditView};
use lucia_proto::base::acts::Act;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::json;
use lucia_proto::files::audit_chain::AuditChain;
use lucia_proto::orders::{OrderCode, OrderId};
use lucia_proto::test_support::OrderWorld;

use crate::server::{By, Server, Step, get, step};
use crate::site::{Site, arg, ended, said, steady, world};

/// So many lines, by a name that tells two histories apart.
fn history(world: &OrderWorld, count: u64, name: &str) -> (Vec<AuditEntry>, AuditChain) {
    let mut chain = AuditChain::default();
    let mut entries = Vec::new();
    for number in 0..count {
        let actor = AuditActor::Owner(world.alice.id.clone(), name.parse().unwrap());
        let entry = AuditEntry {
            from: Some([192, 0, 2, 7].into()),
            node: Some(world.node.node_id.clone()),
            intent: Some(OrderId::of("{}")),
            intent_refused: (number == 1).then_some(OrderCode::Expired),
            ..AuditEntry::new(world.now, actor, Act::IntentSettled)
        };
        let line = lucia_people::audit::add(&mut chain, entry).unwrap();
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
    ended(&output, 0, "alice");
    expect_file!["snapshots/audit.txt"].assert_eq(&steady(&world, &said(&output), &[]));
    assert!(!said(&output).contains(world.node.node_id.as_str()), "{}", said(&output));
    assert_eq!(said(&site.run(&["audit", "--json"])), text(&entries));
    assert_eq!(said(&site.run(&["audit", "export"])), text(&entries));
    let output = site.run(&["audit", "--after", "3"]);
    ended(&output, 0, "");
    assert!(!said(&output).contains("alice"), "{}", said(&output));
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
    for (what, script, refusal, number) in [
        ("one is gone", vec![part(0, &edited(&|all| drop(all.remove(1))), &chain)], "audit_out_of_order", "3"),
        ("two are swapped", vec![part(0, &edited(&|all| all.swap(0, 1)), &chain)], "audit_out_of_order", "2"),
        ("one was edited", vec![part(0, &edited(&|all| all[0].from = None), &chain)], "audit_chain_broken", "2"),
        ("the last was edited", vec![part(0, &edited(&|all| all[2].from = None), &chain)], "audit_rewritten", "3"),
        ("another head", vec![part(0, &entries, &wrong_head)], "audit_rewritten", "3"),
        ("lines are withheld", vec![part(0, &entries, &longer), part(3, &[], &longer)], "audit_withheld", "9"),
        ("another history", vec![part(0, &others, &other)], "audit_rewritten", "3"),
        ("an earlier one", vec![part(0, &entries[..2], &shorter)], "audit_shorter", "2"),
    ] {
        let good = part(0, &entries, &chain);
        let server = Server::new(world.clone(), [good].into_iter().chain(script).collect());
        let site = Site::alice(&world, server.port);
        let output = site.run(&["audit", "verify"]);
        ended(&output, 0, &format!("3:{}", chain.head));
        let noted = site.read("owner.audit");
        let text = site.refused(&["audit", "verify"], 1, refusal);
        assert!(text.contains(&format!(" {number}")), "{what}: {text}");
        assert_eq!(site.read("owner.audit"), noted, "{what}");
        server.done();
    }
    // What only grew is the same.
    let (more, longer) = history(&world, 5, "alice");
    let parts = vec![part(0, &entries, &chain), part(0, &more, &longer)];
    let server = Server::new(world.clone(), parts);
    let site = Site::alice(&world, server.port);
    let verified = [said(&site.run(&["audit", "verify"])), said(&site.run(&["audit", "verify"]))].concat();
    let steady = verified.replace(&chain.head.to_string(), "HEAD-OF-3").replace(&longer.head.to_string(), "HEAD-OF-5");
    expect_file!["snapshots/audit-verify.txt"].assert_eq(&steady);
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
    ended(&site.run(&["audit", "verify"]), 0, "3:");
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
            ended(&site.run(&["audit", "verify"]), 0, " 2:");
        }
        site.refused(&["audit", "verify", "--anchor", &anchor], 1, "audit_rewritten");
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
    let end = format!("3:{}", chain.head);
    for (text, more, want) in [
        (good.clone(), &[][..], Ok(end.as_str())),
        (good.clone(), &["--anchor", &anchor], Ok(&end)),
        (good.clone(), &["--anchor", &before], Ok(&end)),
        (good.clone(), &["--anchor", &other], Err((1, "audit_rewritten"))),
        (good.clone(), &["--anchor", &beyond], Err((1, "audit_shorter"))),
        (good.clone(), &["--anchor", "3"], Err((64, "usage"))),
        (good.replacen("alice", "malice", 1), &[], Err((1, "audit_chain_broken"))),
        (good.trim_end().to_owned(), &[], Err((1, "audit_line_cut"))),
        (good.replacen(":1,", ": 1,", 1), &[], Err((1, "audit_edited"))),
        ("x".repeat(9000), &[], Err((1, "audit_line_cut"))),
        (String::new(), &[], Ok("0 lines")),
    ] {
        site.write("audit.jsonl", &text, 0o644);
        let file = site.path("audit.jsonl");
        let args = [&["audit", "verify", arg(&file)], more].concat();
        match want {
            Ok(shown) => ended(&site.run(&args), 0, shown),
            Err((exit, code)) => drop(site.refused(&args, exit, code)),
        }
    }
    ended(&site.run(&["audit", "verify", arg(&site.path("nowhere"))]), 1, "nowhere");
}
