//! What the worker has in memory at most, held against what its unit gives it. Alone in its process: what is measured is
//! the most that any child of it had.
//!
//! A build without optimisation takes a minute and a half for the largest journal. So two small parts of it are measured,
//! one four times the other, and a straight line through both is followed to the whole: the same lists double their room
//! at the same places in each, since one is a power of two of the other.

#![expect(clippy::unwrap_used, reason = "this is a test, whose helpers stand outside of test functions")]

#[path = "../src/fixture.rs"]
#[allow(dead_code, reason = "shared with the unit tests, which use all of it")]
mod fixture;

use std::process::Command;

use fixture::{Controller, Scratch, rows};
use lucia_proto::base::bounded::PemText;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::json;
use lucia_proto::base::limits::{JOURNAL_MAX, QUEUE_FILE_MAX};
use lucia_proto::base::pem;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::Journal;
use lucia_proto::node::inventory::HardwareInventory;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::test_support::TestNode;
use nix::sys::resource::{UsageWho, getrusage};

/// The unit, as it is shipped.
const UNIT: &str = include_str!("../../systemd/lucia-enrollment-worker.service");
/// Entries of each directory of the queue that the worker looks at.
const ENTRIES: usize = 65_536;
/// Which parts of the largest journal and the fullest queue are measured, the smaller first.
const PARTS: [usize; 2] = [64, 16];

/// The inventory that grows most when it is read: small texts, each in a place of its own, in lists with room to spare.
fn inventory() -> HardwareInventory {
    let interface = |n| format!(r#"{{"name":"e{n}","macAddress":"52:54:00:12:34:56","addresses":["::"]}}"#);
    let interfaces: Vec<String> = (0..65).map(interface).collect();
    let text = format!(
        r#"{{"architecture":"a","bootMode":"Uefi","logicalCpuCount":1,"memoryBytes":1,"interfaces":[{}],"disks":[]}}"#,
        interfaces.join(",")
    );
    json::from_str(&text, 65_536, 24).unwrap()
}

/// A part of a journal of nearly 48 MiB.
fn journal(now: UnixTime, part: usize) -> Vec<u8> {
    let (mut row, _) = rows(&TestNode::new(1), now);
    row.inventory = inventory();
    row.inventory_hash = row.inventory.inventory_hash();
    (row.phase, row.hostname, row.task_id) = (DevicePhase::Discovered, None, None);
    let device = |number: usize| {
        // The journal knows keys by their hash and asks no curve.
        let der = number.to_be_bytes();
        let mut row = row.clone();
        row.fingerprint = Digest::of(&der).to_string().parse().unwrap();
        row.device_id = row.fingerprint.node_id();
        row.verification_code = row.fingerprint.verification_code();
        row.public_key_pem = PemText::try_from(pem::encode(&der, "PUBLIC KEY")).unwrap();
        row
    };
    let count = (JOURNAL_MAX / part - 1000) / (serde_json::to_vec(&device(0)).unwrap().len() + 1);
    let devices = (0..count).map(device);
    // Not `to_bytes`: the worker checks it, and once is long enough.
    serde_json::to_vec(&Journal { devices: devices.collect(), ..Journal::empty() }).unwrap()
}

// spec: QU-23
#[test]
#[expect(clippy::disallowed_methods, reason = "this test starts the binary under test")]
fn the_unit_leaves_room_for_the_largest_journal_and_the_fullest_queue() {
    let scratch = Scratch::new();
    let now = UnixTime::from_secs(1_795_982_400);
    let controller = Controller::new(&scratch.path().join("controller"), now);
    let config = scratch.path().join("worker.toml");
    std::fs::write(&config, controller.settings(&scratch.path().join("worker"), "")).unwrap();
    let run = |verb: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lucia-enrollment-worker"));
        command.args([verb, "--config"]).arg(&config).env_clear().output().unwrap()
    };
    assert!(run("init").status.success());
    let kinds = ["removals", "enrollment-requests"];
    // In KiB, after each part.
    let peaks = PARTS.map(|part| {
        let bytes = journal(now, part);
        assert!(bytes.len() > JOURNAL_MAX / part - 10_000, "{}", bytes.len());
        controller.put("onboarding/state.json", &bytes);
        for number in 0..128 {
            controller.put(&format!("nodes/enrollment-requests/{number:032x}.json"), &vec![b' '; QUEUE_FILE_MAX]);
        }
        for number in 128..ENTRIES / part {
            for (kind, name) in kinds.iter().zip([format!("{number:032x}.json"), format!("{number:0200}")]) {
                std::fs::File::create(controller.dir.join("nodes").join(kind).join(name)).unwrap();
            }
        }
        let ran = run("once");
        let out = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && out.contains("refused 128"), "the journal was read: {out}");
        // Another journal of the same generation would be no continuation, but these have no events.
        u64::try_from(getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss()).unwrap()
    });
    let [small, large] = PARTS.map(|part| u64::try_from(part).unwrap());
    let slope = (peaks[1] - peaks[0]) * small * large / (small - large);
    let peak = (peaks[1] + slope - slope / large) / 1024;
    let given = UNIT.lines().find_map(|line| line.strip_prefix("MemoryMax=")?.strip_suffix('M'));
    let given: u64 = given.unwrap().parse().unwrap();
    println!("{peak} MiB at most, by {} and {} KiB", peaks[0], peaks[1]);
    // A quarter more: the system counts what it keeps of the files as well.
    assert!(peak * 5 / 4 <= given, "the worker would have {peak} MiB, its unit gives {given}");
    assert!(peak > 64, "{peak} MiB: what was to be measured was not");
}
