//! The real `luciactl` against a socket that answers from a script and remembers what it was asked.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests stop the test where it stands")]

mod nodes;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use expect_test::expect_file;
use lucia_people::host_api::{EventsView, NodesView, OnboardingView};
use lucia_proto::base::json;
use lucia_proto::pki::key::Fingerprint;
use serde::Deserialize;

const FINGERPRINT: &str = "1a2b3c4d5e6f00000000000000000000ffffffffffffffffffffffffffffffff";
const ID: &str = "1a2b3c4d5e6f00000000000000000000";

#[expect(clippy::disallowed_methods, reason = "the tests of a program start it")]
fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_luciactl"))
}

/// Fakes made so far: each has its own directory.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A controller that gives each answer once, in order.
struct Fake {
    dir: PathBuf,
    asked: mpsc::Receiver<String>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    fn new(answers: Vec<(u16, String)>) -> Self {
        let dir = std::env::temp_dir().join(format!(
            "luciactl-{}-{}",
            std::process::id(),
            MADE.fetch_add(1, Ordering::Relaxed)
        ));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("socket");
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let (told, asked) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !whole(&request) {
                    let count = stream.read(&mut buffer).unwrap();
                    if count == 0 {
                        break;
                    }
                    request.extend_from_slice(&buffer[..count]);
                }
                let text = String::from_utf8(request).unwrap();
                let line = text.lines().next().unwrap_or_default().replace(" HTTP/1.1", "");
                let form = text.split("\r\n\r\n").nth(1).unwrap_or_default();
                let _ = told.send(format!("{line} {form}").trim_end().to_owned());
                let head =
                    format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
                let _ = stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes());
            }
        });
        Self { dir, asked, thread: Some(thread) }
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut program = program();
        program.env_remove("COLUMNS").arg("--socket").arg(self.dir.join("socket"));
        program.args(args).stdin(Stdio::null()).output().unwrap()
    }

    fn asked(&self) -> Vec<String> {
        self.asked.try_iter().collect()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        // A script that was not asked to its end waits in accept; its thread ends with the test.
        drop(self.thread.take());
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    body.len() >= length.unwrap_or(0)
}

fn said(output: &Output) -> String {
    String::from_utf8([output.stdout.as_slice(), output.stderr.as_slice()].concat()).unwrap()
}

fn onboarding(window: bool, devices: &[String]) -> String {
    let window = if window { r#""windowExpiresAt":"2026-11-29T20:30:00Z","# } else { "" };
    let text = format!(
        r#"{{"serverTime":"2026-11-29T20:00:00Z",{window}"worker":{{"ready":true}},"devices":[{}]}}"#,
        devices.join(",")
    );
    json::from_str::<OnboardingView>(&text, 1 << 20, 24).unwrap();
    text
}

fn device(phase: &str, more: &str) -> String {
    format!(
        r#"{{"deviceId":"{ID}","fingerprint":"{FINGERPRINT}","verificationCode":"1a2b-3c4d-5e6f","phase":"{phase}",
        "address":"192.0.2.10","discoveredAt":"2026-11-29T19:59:00Z","expiresAt":"2026-11-29T20:29:00Z","inventoryRevision":1,
        "inventory":{{"architecture":"x86_64","bootMode":"Uefi","manufacturer":"QEMU","logicalCpuCount":4,"memoryBytes":8589934592,
        "interfaces":[{{"name":"eth0","macAddress":"52:54:00:12:34:56","addresses":[]}}],
        "disks":[{{"id":"wwn-0x5","path":"/dev/vda","sizeBytes":1099511627776,"isRemovable":false,"isReadOnly":false}}]}}{more}}}"#
    )
}

fn events(lines: &str) -> (u16, String) {
    (200, format!(r#"{{"events":[{lines}],"lastSequence":{}}}"#, u8::from(!lines.is_empty())))
}

fn task(more: &str) -> String {
    format!(
        r#","task":{{"taskId":"00000000-0000-4000-8000-000000000000","phase":"AwaitingEnrollment","hostname":"web-1",
        "diskId":"wwn-0x5","authorityExpiresAt":"2026-11-29T20:10:00Z"{more}}}"#
    )
}

fn nodes(lines: &str) -> String {
    let text = format!(r#"{{"serverTime":"2026-11-29T20:00:00Z","nodes":[{lines}]}}"#);
    json::from_str::<NodesView>(&text, 1 << 20, 24).unwrap();
    text
}

const NODE: &str = r#"{"nodeId":"1a2b3c4d5e6f00000000000000000000","hostname":"web-1","verificationCode":"1a2b-3c4d-5e6f",
    "state":"Online","address":"192.0.2.10","lastSeenAt":"2026-11-29T19:59:50Z","certificateExpiresAt":"2026-12-06T20:00:00Z"}"#;

const OLD: &str = "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";
const NEW: &str = "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b";

// spec: CT-4
#[test]
fn what_is_empty_says_what_to_do_next() {
    let mut shown = String::new();
    for (args, answers, says) in [
        (vec!["onboarding"], vec![(200, onboarding(false, &[]))], "luciactl window open"),
        (vec!["onboarding"], vec![(200, onboarding(true, &[]))], "30 min"),
        (vec!["nodes"], vec![(200, nodes(""))], "luciactl onboarding"),
        (vec!["events"], vec![(200, r#"{"events":[],"lastSequence":0}"#.to_owned())], ""),
        (
            vec!["onboarding"],
            vec![(
                200,
                onboarding(
                    false,
                    &[device("AwaitingEnrollment", &task(r#","enrollmentPendingSince":"2026-11-29T19:59:49Z""#))],
                ),
            )],
            "lucia-enrollment-worker pending",
        ),
        (
            vec!["onboarding"],
            vec![(200, onboarding(true, &[device("Rejected", "")]))],
            "luciactl restore 1a2b-3c4d-5e6f",
        ),
    ] {
        let output = Fake::new(answers).run(&args);
        let said = said(&output);
        assert!(output.status.success() && said.contains(says), "{args:?} {said}");
        shown.push_str(&format!("$ luciactl {}\n{said}\n", args.join(" ")));
    }
    expect_file!["snapshots/first.txt"].assert_eq(&shown);
}

// spec: CT-5
#[test]
fn an_approval_wants_the_whole_fingerprint_and_a_yes() {
    let seen = || (200, onboarding(true, &[device("Discovered", "")]));
    let approve = |fingerprint: &str, more: &[&str], answers: Vec<(u16, String)>| {
        let fake = Fake::new(answers);
        let args =
            ["approve", "1A2B-3C4D-5E6F", "--fingerprint", fingerprint, "--hostname", "web-1", "--disk", "wwn-0x5"];
        let output = fake.run(&[&args, more].concat());
        (output.status.code(), said(&output), fake.asked())
    };
    let other = FINGERPRINT.replace("ffff", "fffe");
    let (code, text, asked) = approve(&other, &["--yes"], vec![seen()]);
    assert_eq!((code, asked.len()), (Some(1), 1), "{text}");
    for row in [FINGERPRINT, &other].iter().flat_map(|hex| hex.parse::<Fingerprint>().unwrap().rows()) {
        assert!(text.contains(&row), "{row}: {text}");
    }

    let (code, text, asked) = approve(FINGERPRINT, &[], vec![seen()]);
    assert_eq!((code, asked.len()), (Some(64), 1), "{text}");
    assert!(text.contains("--yes"), "{text}");

    for confirmed in [&["--yes"][..], &["--erase", "ERASE"]] {
        let typed = FINGERPRINT.to_uppercase();
        let (code, text, asked) = approve(&typed, confirmed, vec![seen(), (200, onboarding(true, &[]))]);
        assert_eq!(code, Some(0), "{text}");
        let form = r#"{"hostname":"web-1","diskId":"wwn-0x5","confirmation":"ERASE"}"#;
        assert_eq!(asked[1], format!("POST /api/host/devices/{ID}/approve-install {form}"));
    }
}

// spec: CT-42
#[test]
fn an_approval_in_the_place_of_another_names_it_and_then_the_act_at_the_worker() {
    let seen = || (200, onboarding(true, &[device("Discovered", "")]));
    let line = NODE.replace("1a2b3c4d5e6f0", OLD.get(..13).unwrap()).replace("1a2b-3c4d-5e6f", "0a0a-0a0a-0a0a");
    let line = line.replace("0a0a0a0a0a0a00000000000000000000", OLD);
    let base = [
        "approve",
        "1a2b-3c4d-5e6f",
        "--fingerprint",
        FINGERPRINT,
        "--hostname",
        "web-1",
        "--disk",
        "wwn-0x5",
        "--yes",
        "--replaces",
    ];
    for (named, known) in [("web-1", true), (OLD, true), ("0a0a-0a0a-0a0a", true), (OLD, false)] {
        let list = || (200, nodes(if known { &line } else { "" }));
        let mut answers = vec![seen(), list()];
        answers.push(if known { list() } else { seen() });
        if !known {
            answers.push(events(""));
        }
        answers.push((200, onboarding(true, &[])));
        let fake = Fake::new(answers);
        let output = fake.run(&[&base[..], &[named]].concat());
        assert_eq!(output.status.code(), Some(0), "{named} {}", said(&output));
        let form = format!(r#"{{"hostname":"web-1","diskId":"wwn-0x5","confirmation":"ERASE","replaces":"{OLD}"}}"#);
        assert_eq!(
            fake.asked().last().unwrap(),
            &format!("POST /api/host/devices/{ID}/approve-install {form}"),
            "{named}"
        );
    }
    // One that was removed before goes by the name it had as well.
    let removed = format!(
        r#"{{"sequence":1,"at":"2026-11-29T19:00:00Z","kind":"DeviceRemoved","actor":"owner:alice","deviceId":"{OLD}","hostname":"web-1"}}"#
    );
    let fake = Fake::new(vec![seen(), (200, nodes("")), seen(), events(&removed), (200, onboarding(true, &[]))]);
    let output = fake.run(&[&base[..], &["web-1"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(fake.asked()[4].contains(&format!(r#""replaces":"{OLD}""#)), "{:?}", fake.asked());

    let fake = Fake::new(vec![seen(), (200, nodes("")), seen(), events("")]);
    let output = fake.run(&[&base[..], &["web-9"]].concat());
    assert_eq!((output.status.code(), fake.asked().len()), (Some(1), 4), "{}", said(&output));
    assert!(said(&output).contains("web-9"), "{}", said(&output));

    let more = format!(r#","enrollmentPendingSince":"2026-11-29T19:59:59Z","replaces":"{OLD}""#);
    let waits = onboarding(true, &[device("AwaitingEnrollment", &task(&more))]);
    let output = said(&Fake::new(vec![(200, waits)]).run(&["onboarding"]));
    let act = format!("lucia-enrollment-worker admit 1a2b-3c4d-5e6f --replaces web-1 --fingerprint {FINGERPRINT}");
    assert!(output.contains(&act) && output.contains(OLD), "{output}");
}

// spec: CT-300
#[test]
fn a_machine_that_runs_is_approved_without_a_disk_and_is_asked_for_none() {
    let runs = || (200, onboarding(true, &[device("Discovered", r#","running":true"#)]));
    let base = ["approve", "1a2b-3c4d-5e6f", "--fingerprint", FINGERPRINT, "--hostname", "web-1", "--yes"];
    let fake = Fake::new(vec![runs(), (200, onboarding(true, &[]))]);
    let output = fake.run(&base);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(fake.asked()[1], format!(r#"POST /api/host/devices/{ID}/approve-install {{"hostname":"web-1"}}"#));
    // A disk of one that runs, and an installation without a disk, are refused before anything is asked of anybody.
    let installs = || (200, onboarding(true, &[device("Discovered", "")]));
    for (seen, more) in [(runs(), &["--disk", "wwn-0x5"][..]), (installs(), &[])] {
        let fake = Fake::new(vec![seen]);
        let output = fake.run(&[&base[..], more].concat());
        assert_eq!((output.status.code(), fake.asked().len()), (Some(1), 1), "{}", said(&output));
        assert!(said(&output).contains("--disk"), "{}", said(&output));
    }
    // What onboarding prints for it is what works.
    let text = said(&Fake::new(vec![runs()]).run(&["onboarding"]));
    assert!(text.contains("luciactl approve 1a2b-3c4d-5e6f --hostname NAME --fingerprint HEX"), "{text}");
}

// spec: CT-6
#[test]
fn each_verb_asks_what_it_says() {
    let list = || (200, onboarding(true, &[device("Rejected", "")]));
    let done = || (200, onboarding(true, &[]));
    for (args, answers, asked) in [
        (
            vec!["window", "open", "--minutes", "30"],
            vec![done()],
            vec![r#"POST /api/host/onboarding/window {"minutes":30}"#.to_owned()],
        ),
        (vec!["window", "close"], vec![done()], vec!["DELETE /api/host/onboarding/window".to_owned()]),
        (
            vec!["reject", "1a2b3c4d5e6f"],
            vec![list(), done()],
            vec![String::new(), format!("POST /api/host/devices/{ID}/reject")],
        ),
        (
            vec!["dismiss", "1a2b-3c4d-5e6f"],
            vec![list(), done()],
            vec![String::new(), format!("POST /api/host/devices/{ID}/dismiss")],
        ),
        (
            vec!["restore", "1a2b-3c4d-5e6f"],
            vec![list(), done()],
            vec![String::new(), format!("POST /api/host/devices/{ID}/restore")],
        ),
        (
            vec!["remove", "web-1", "--yes"],
            vec![(200, nodes(NODE)), done()],
            vec!["GET /api/host/nodes".to_owned(), format!("DELETE /api/host/nodes/{ID}")],
        ),
        (
            vec!["remove", "1A2B-3C4D-5E6F", "--yes"],
            vec![(200, nodes(NODE)), done()],
            vec![String::new(), format!("DELETE /api/host/nodes/{ID}")],
        ),
    ] {
        let count = answers.len();
        let fake = Fake::new(answers);
        let output = fake.run(&args);
        assert!(output.status.success(), "{args:?} {}", said(&output));
        let got = fake.asked();
        assert_eq!(got.len(), count);
        for (got, want) in got.iter().zip(&asked).filter(|(_, want)| !want.is_empty()) {
            assert_eq!(got, want, "{args:?}");
        }
    }
}

// spec: CT-7
#[test]
fn programs_get_json_and_exit_codes() {
    let output = Fake::new(vec![(200, nodes(NODE))]).run(&["nodes", "--json"]);
    assert_eq!(json::from_slice::<NodesView>(&output.stdout, 1 << 20, 24).unwrap().nodes.len(), 1);
    let event =
        |n| format!(r#"{{"sequence":{n},"at":"2026-11-29T20:00:00Z","kind":"AdmissionOpened","actor":"operator:0"}}"#);
    let events = format!(r#"{{"events":[{},{}],"lastSequence":2}}"#, event(1), event(2));
    json::from_str::<EventsView>(&events, 1 << 20, 24).unwrap();
    let output = Fake::new(vec![(200, events)]).run(&["events", "--json"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}\n{}\n", event(1), event(2)));

    let refusal = r#"{"error":{"code":"hostname_in_use","message":"taken","type":"invalid_request_error"}}"#;
    let nowhere = std::env::temp_dir().join("luciactl-no-such-socket");
    let output = program().arg("--socket").arg(nowhere).arg("nodes").output().unwrap();
    assert_eq!(output.status.code(), Some(69), "{}", said(&output));
    for (args, answers, code, says) in [
        (vec!["window", "open"], vec![(409, refusal.to_owned())], 1, "hostname_in_use"),
        (vec!["nodes", "--json"], vec![(200, "[]".to_owned())], 1, r#""answer_invalid""#),
        (vec!["reject", "ffff-ffff-ffff", "--json"], vec![(200, onboarding(true, &[]))], 1, r#""not_found""#),
        (
            vec!["node", "web-9"],
            vec![
                (200, nodes(NODE)),
                (200, onboarding(true, &[])),
                (200, r#"{"events":[],"lastSequence":0}"#.to_owned()),
            ],
            1,
            "web-9",
        ),
        (vec!["remove", "web-1"], vec![(200, nodes(NODE))], 64, "--yes"),
        (vec!["window", "open", "--minutes", "61"], vec![], 64, "60"),
        (vec!["approve", "1a2b-3c4d-5e6f"], vec![], 64, "--hostname"),
        (vec!["dance"], vec![], 64, "dance"),
        (vec!["--help"], vec![], 0, "69"),
    ] {
        let output = Fake::new(answers).run(&args);
        assert_eq!(output.status.code(), Some(code), "{args:?} {}", said(&output));
        assert!(said(&output).contains(says), "{args:?} {}", said(&output));
    }
}

// spec: CT-43
#[test]
fn a_node_shows_its_directory_and_its_gpus_where_it_has_them() {
    let plain = nodes(NODE);
    let failed = nodes(&NODE.replace(r#""state":"Online""#, r#""state":"Online","directory":"Failed""#));
    let list = |list: &str| said(&Fake::new(vec![(200, list.to_owned())]).run(&["nodes"]));
    assert!(list(&failed).contains("Online") && list(&failed).contains("directory"), "{}", list(&failed));
    assert!(!list(&plain).contains("directory"));
    let view = |more: &str, sample: &str| {
        let text = format!(
            r#"{{"serverTime":"2026-11-29T20:00:00Z","node":{NODE},"fingerprint":"{FINGERPRINT}",
            "taskId":"00000000-0000-4000-8000-000000000000"{more},"samples":[{{"at":"2026-11-29T19:59:50Z",
            "memoryTotalBytes":2048,"memoryAvailableBytes":1024{sample}}}]}}"#
        );
        said(&Fake::new(vec![(200, plain.clone()), (200, text)]).run(&["node", "web-1"]))
    };
    let gpu = r#","gpus":[{"vendor":"nvidia","model":"RTX 4000","memoryBytes":8589934592,"computeCapability":"8.9",
        "uuid":"GPU-1"}],"directory":{"state":"Failed","message":"sssd did not start"}"#;
    let shown = view(gpu, r#","gpuPercent":99.5,"gpuTemperatureCelsius":61"#);
    for text in ["directory", "sssd did not start", "RTX 4000", "GPU-1", "99.5 %", "61.0 °C"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let bare = view("", "");
    assert!(!bare.contains("GPU") && !bare.contains("directory"), "{bare}");
    expect_file!["snapshots/node.txt"].assert_eq(&format!("{bare}\n{shown}"));
}

// spec: LC-95, LC-101
#[test]
fn columns_makes_tables_fit_where_no_terminal_says_how_wide() {
    let empty = onboarding(true, &[]);
    let fake = Fake::new(vec![(200, nodes(NODE)), (200, nodes(NODE)), (200, nodes(NODE)), (200, empty)]);
    let run = |columns: &str, args: &[&str]| {
        let mut program = program();
        program.env("COLUMNS", columns).arg("--socket").arg(fake.dir.join("socket")).args(args);
        said(&program.stdin(Stdio::null()).output().unwrap())
    };
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
    let narrow = run("100", &["nodes"]);
    assert!(widest(&narrow) <= 100 && narrow.contains("1a2b3c") && narrow.contains('…'), "{narrow}");
    assert!(run("100", &["nodes", "-o", "wide"]).contains(ID));
    assert!(run("", &["nodes"]).contains(ID));
    // And so do sentences, between words.
    let text = run("40", &["onboarding"]);
    assert!(widest(&text) <= 40 && text.split_whitespace().any(|word| word == "installer"), "{text}");
}

// spec: LC-98
#[test]
fn the_status_says_in_words_what_was_counted() {
    let view = r#"{"version":"1.0.0","startedAt":"2026-11-29T19:00:00Z","workerAvailable":true,"auditBytes":2048,
        "counters":{"heartbeats":7,"publicKeyOperations":9,"usedChallenges":1,"refusals":{"challenge_refused":1}}}"#;
    let text = said(&Fake::new(vec![(200, view.to_owned())]).run(&["status"]));
    assert!(!text.contains("challenge_refused"), "{text}");
    let many = view.replace(r#""challenge_refused":1"#, r#""challenge_refused":51"#);
    let many = said(&Fake::new(vec![(200, many)]).run(&["status"]));
    // Its reasons stand there once there are many.
    assert!(many.lines().count() > text.lines().count() && !many.contains("challenge_refused"), "{many}");
    let wide = said(&Fake::new(vec![(200, view.to_owned())]).run(&["status", "-o", "wide"]));
    assert!(wide.contains("challenge_refused"), "{wide}");
    expect_file!["snapshots/status.txt"].assert_eq(&[text, many, wide].join("\n"));
}

// spec: CT-8, LC-103
#[test]
fn manual_and_completions_come_from_the_program_itself() {
    let output = program().arg("man").output().unwrap();
    assert!(output.status.success() && said(&output).contains(".TH luciactl"));
    let page = said(&output);
    for part in
        [".SH FILES\n.nf\n", ".SH ENVIRONMENT\n.nf\n", ".SH \"EXIT STATUS\"\n.nf\n", ".SH EXAMPLES\n.nf\n", "NO_COLOR"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("EXTRA") && page.matches(".nf\n").count() == page.matches(".fi\n").count(), "{page}");
    let pages = std::env::temp_dir().join(format!("luciactl-man-{}", std::process::id()));
    let output = program().args(["man", "--into"]).arg(&pages).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    std::fs::create_dir_all(&pages).unwrap();
    let output = program().args(["man", "--into"]).arg(&pages).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for page in ["luciactl", "luciactl-approve", "luciactl-window-open"] {
        assert!(pages.join(format!("{page}.1")).exists(), "{page}");
    }
    let page = std::fs::read_to_string(pages.join("luciactl-approve.1")).unwrap();
    let synopsis = page.split(".SH SYNOPSIS\n").nth(1).unwrap().split(".SH").next().unwrap();
    for part in ["\\-\\-disk\\fR \\fIID\\fR", "[\\fB\\-\\-yes\\fR]", "\\fICODE\\fR"] {
        assert!(synopsis.contains(part), "{part}: {synopsis}");
    }
    std::fs::remove_dir_all(&pages).unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = program().args(["completions", shell]).output().unwrap();
        assert!(output.status.success() && said(&output).contains("onboarding"), "{shell}");
    }
}

/// What programs get on standard error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    error: RefusedText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefusedText {
    code: String,
    message: String,
    r#type: String,
    cure: Option<String>,
}

// spec: LC-200, CT-440
#[test]
fn with_json_an_error_is_json_too() {
    let refusal = r#"{"error":{"code":"busy","message":"Wait.","type":"server_error"}}"#;
    let none = r#"{"machines":[],"nodes":[]}"#;
    let answered = |status, body: &str, args: &[&str]| Fake::new(vec![(status, body.to_owned())]).run(args);
    let nobody = |args: &[&str]| program().args(["--socket", "/nonexistent/socket"]).args(args).output().unwrap();
    let cases = [
        (answered(503, refusal, &["--json", "nodes"]), "busy", 1, false),
        (answered(503, refusal, &["nodes", "-o", "json"]), "busy", 1, false),
        (answered(200, none, &["--json", "nodes"]), "answer_invalid", 1, true),
        (nobody(&["--json", "nodes"]), "unreachable", 69, true),
        (nobody(&["--json", "nodes", "--nothing"]), "usage", 64, false),
        (nobody(&["--json", "reject", "not-a-code"]), "usage", 64, false),
    ];
    for (output, code, exit, cure) in cases {
        let text = String::from_utf8(output.stderr.clone()).unwrap();
        let Refused { error } = json::from_str(text.trim_end(), 4096, 4).unwrap_or_else(|_| panic!("{text}"));
        assert_eq!((error.code.as_str(), output.status.code()), (code, Some(exit)), "{text}");
        assert!(error.message.len() > 4 && error.r#type == "luciactl_error", "{text}");
        assert_eq!((text.lines().count(), output.stdout.len()), (1, 0), "{text}");
        assert_eq!(error.cure.is_some_and(|cure| cure.len() > 4), cure, "{text}");
    }
    let prose = answered(503, refusal, &["nodes"]);
    assert!(String::from_utf8(prose.stderr).unwrap().starts_with("luciactl: "));
}

// spec: CT-10
#[test]
fn a_hostile_answer_commands_no_terminal() {
    let hostile = r#"{"error":{"code":"busy","message":"\u0009x","type":"server_error"}}"#;
    let output = Fake::new(vec![(503, hostile.to_owned())]).run(&["nodes"]);
    assert!(!said(&output).contains('\t'), "{output:?}");
    let output = Fake::new(vec![(200, nodes(NODE))]).run(&["nodes"]);
    assert!(!said(&output).contains('\u{1b}'), "{output:?}");
}
