//! Threats.md group Q: what may lie in the shared directories besides what belongs there.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use lucia_durable::crash_point::hold_at;
use lucia_proto::node::enrollment::request_hash;
use lucia_proto::pki::key::VerificationCode;
use lucia_proto::test_support::TestNode;

use super::{NOW, Story};
use crate::fixture::{request, secs};
use crate::ledger::Ledger;
use crate::queue::ENTRIES_A_TURN;
use crate::survey::{Outlook, survey, survey_of};

/// Puts something under a name in the requests directory.
type Put = fn(&Story, &std::path::Path);

// spec: QU-14
#[test]
fn q1_q2_what_is_not_a_plain_file_of_the_controller_is_skipped_and_others_are_served() {
    let cases: [(&str, Put); 10] = [
        ("FIFO", |_, at| nix::unistd::mkfifo(at, nix::sys::stat::Mode::from_bits_truncate(0o640)).unwrap()),
        ("socket", |_, at| drop(std::os::unix::net::UnixListener::bind(at).unwrap())),
        ("directory", |_, at| std::fs::create_dir(at).unwrap()),
        ("link to a device", |_, at| symlink("/dev/zero", at).unwrap()),
        ("link to the CA's key", |s, at| symlink(s.worker_file("ca/issuing.key"), at).unwrap()),
        ("hard link to the CA's key", |s, at| std::fs::hard_link(s.worker_file("ca/root.key"), at).unwrap()),
        ("link to nowhere", |_, at| symlink("nowhere", at).unwrap()),
        ("10 GB of nothing", |_, at| {
            std::fs::File::create(at).unwrap().set_len(10 << 30).unwrap();
            std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o640)).unwrap();
        }),
        ("writable by others", |s, at| {
            std::fs::write(at, request(&TestNode::new(2), s.controller.now.get().plus(secs(600))).to_bytes().unwrap())
                .unwrap();
            std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o666)).unwrap();
        }),
        ("no bytes", |_, at| {
            std::fs::write(at, b"").unwrap();
            std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o640)).unwrap();
        }),
    ];
    for (name, put) in cases {
        let mut story = Story::journal();
        let (good, bad) = (TestNode::new(1), TestNode::new(2));
        story.controller.approve(&good);
        story.controller.approve(&bad);
        story.controller.ask(&good);
        put(&story, &story.queue_file(&format!("enrollment-requests/{}.json", bad.node_id)));
        let summary = story.turn(NOW);
        assert_eq!(summary.issued, 1, "{name}");
        story.accept(&good, NOW);
        assert!(story.controller.answer(&bad.node_id).is_none(), "{name}");
    }
}

// spec: QU-14
#[test]
fn q2_what_is_replaced_between_read_and_answer_is_not_what_was_answered() {
    let mut story = Story::journal();
    let node = TestNode::new(1);
    story.controller.approve(&node);
    let asked = story.controller.ask(&node);
    let mut worker = story.worker();
    let plan = hold_at(story.scratch.path(), "worker/signed");
    std::thread::scope(|scope| {
        let turn = scope.spawn(|| worker.turn(NOW).unwrap());
        plan.reached("worker/signed");
        let mut forged = asked.clone();
        forged.hostname = "n2".parse().unwrap();
        story.controller.put_request(&forged);
        drop(plan);
        assert_eq!(turn.join().unwrap().issued, 1);
    });
    assert_eq!(story.controller.answer(&node.node_id).unwrap().request_hash, request_hash(&asked.to_bytes().unwrap()));
    story.accept(&node, NOW);
    assert_eq!(worker.turn(NOW).unwrap().refused, 1);
}

// spec: QU-15
#[test]
fn q3_q5_other_names_and_files_not_yet_renamed_are_ignored() {
    let mut story = Story::journal();
    let node = TestNode::new(1);
    story.controller.approve(&node);
    let bytes = request(&node, NOW.plus(secs(600))).to_bytes().unwrap();
    let id = &node.node_id;
    for name in [
        format!("{id}.json.tmp"),
        format!(".{id}.json.pending"),
        format!("{}.json", id.as_str().to_uppercase()),
        format!("{id}.JSON"),
        "x\ny.json".to_owned(),
        "x".repeat(255),
    ] {
        story.controller.put(&format!("nodes/enrollment-requests/{name}"), &bytes);
    }
    let summary = story.turn(NOW);
    assert_eq!((summary.issued, summary.refused), (0, 0), "{summary:?}");
    // The file of one node under the name of another is refused, naming the field.
    let other = TestNode::new(2);
    story.controller.put(&format!("nodes/enrollment-requests/{}.json", other.node_id), &bytes);
    assert_eq!(story.turn(NOW).refused, 1);
    assert_eq!(story.ledger_kinds("issued"), 0);
}

// spec: QU-16
#[test]
fn q4_a_full_directory_starves_nobody() {
    let mut story = Story::journal();
    let node = TestNode::new(1);
    story.controller.approve(&node);
    story.controller.ask(&node);
    for number in 0..1000_u32 {
        story.controller.put(&format!("nodes/enrollment-requests/{number:032x}.json"), b"{}");
    }
    let mut worker = story.worker();
    let mut turns = 0;
    let mut issued = 0;
    loop {
        let summary = worker.turn(NOW).unwrap();
        assert!(summary.issued + summary.refused <= ENTRIES_A_TURN);
        turns += 1;
        assert!(turns < 100, "the queue has no end");
        issued += summary.issued;
        if !summary.more {
            break;
        }
    }
    assert_eq!((turns, issued), (8, 1));
}

// spec: QU-17
#[test]
fn q7_answers_go_by_rename_into_a_directory_of_our_own() {
    let mut story = Story::journal();
    let node = TestNode::new(1);
    story.controller.approve(&node);
    story.controller.ask(&node);
    // A link under the answer's name is replaced, not followed.
    let target = story.scratch.path().join("target");
    std::fs::write(&target, b"precious").unwrap();
    symlink(&target, story.controller.answer_path(&node.node_id)).unwrap();
    assert_eq!(story.turn(NOW).issued, 1);
    story.accept(&node, NOW);
    assert_eq!(std::fs::read(&target).unwrap(), b"precious");
    // An answer that somebody forged there (with other bytes acknowledged) is replaced as well.
    std::fs::write(story.controller.answer_path(&node.node_id), b"{}").unwrap();
    assert_eq!(story.turn(NOW).reused, 1);
    story.accept(&node, NOW);
    // A directory that others can write to is not used at all.
    let responses = story.queue_file("enrollment-responses");
    std::fs::set_permissions(&responses, std::fs::Permissions::from_mode(0o2770)).unwrap();
    let summary = story.turn(NOW);
    assert!(!summary.ready && summary.problems[0].contains("chmod 2750"), "{summary:?}");
}

// spec: QU-22
#[test]
fn a_full_queue_is_shown_in_part_and_whoever_waits_is_shown_always() {
    let mut story = Story::new("");
    let node = TestNode::new(1);
    story.controller.approve(&node);
    story.controller.ask(&node);
    // What a controller can make up: well-formed requests of nobody, before and after the true one, and rubbish.
    let forged = request(&TestNode::new(2), NOW.plus(secs(600)));
    for number in 0..600_u32 {
        let file =
            format!("enrollment-requests/{:032x}.json", u128::from(number) << if number % 2 == 0 { 0 } else { 118 });
        story.controller.put(&format!("nodes/{file}"), &forged.to_bytes().unwrap());
    }
    for number in 1000..1300_u32 {
        story.controller.put(&format!("nodes/enrollment-requests/{number:032x}.json"), b"{}");
    }
    let (config, home) = (story.config(), story.home());
    let ledger = Ledger::load(&home.dir).unwrap();
    let found = survey(&config, &home, ledger.records(), NOW);
    assert_eq!(found.requests.len(), 257);
    let waits = found.requests.iter().filter(|row| row.outlook == Outlook::AwaitsAdmission);
    assert_eq!(waits.map(|row| &row.node_id).collect::<Vec<_>>(), [&node.node_id]);
    assert_eq!(found.problems.len(), 258);
    assert!(found.problems[256].starts_with("344 "), "{}", found.problems[256]);
    assert!(found.problems[257].starts_with("44 "), "{}", found.problems[257]);
    // `admit` looks at one code, so that no other requests stand in its way.
    let code = forged.public_key_fingerprint.verification_code();
    let of_code = |code: &VerificationCode| survey_of(code, &config, &home, ledger.records(), NOW).requests.len();
    assert_eq!(of_code(&node.fingerprint.verification_code()), 1);
    assert_eq!(of_code(&code), 256);
}
