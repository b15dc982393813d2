//! The real binary on a site of its own: a controller's directory, the worker's settings, and what a command said.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lucia_proto::base::time::UnixTime;
use lucia_proto::node::answer::AnswerExpectation;
use lucia_proto::pki::chain::Root;
use lucia_proto::test_support::TestNode;

use crate::fixture::{Controller, Scratch};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_lucia-enrollment-worker");

#[expect(clippy::disallowed_methods, reason = "the binary under test needs the real time of day")]
pub(crate) fn now() -> UnixTime {
    UnixTime::from_secs(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs())
}

#[expect(clippy::disallowed_methods, reason = "this test starts the binary under test")]
pub(crate) fn command() -> Command {
    Command::new(BINARY)
}

pub(crate) struct Site {
    pub(crate) scratch: Scratch,
    pub(crate) controller: Controller,
}

impl Site {
    /// A controller's directory and the worker's settings; nothing begun.
    pub(crate) fn bare(more: &str) -> Self {
        let scratch = Scratch::new();
        let controller = Controller::new(&scratch.path().join("controller"), now());
        let settings = controller.settings(&scratch.path().join("worker"), more);
        std::fs::write(scratch.path().join("worker.toml"), settings).unwrap();
        Self { scratch, controller }
    }

    pub(crate) fn new(more: &str) -> Self {
        let site = Self::bare(more);
        site.run(&["init"]).exit(0);
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let ran = run_with(&self.path("worker.toml"), args);
        // The worker goes by the time of day, and what the controller says next is not from before that.
        self.controller.now.set(now());
        ran
    }

    /// What is in the queue is answered; the counts are read by [`Ran::done`].
    pub(crate) fn once(&self) -> Ran {
        self.run(&["once", "--json"])
    }

    /// Lines of the ledger of this kind.
    pub(crate) fn ledger_kinds(&self, kind: &str) -> usize {
        let ledger = std::fs::read_to_string(self.path("worker/ledger.jsonl")).unwrap();
        ledger.matches(&format!("\"kind\":\"{kind}\"")).count()
    }

    /// A view as its snapshot has it: this run's own place, times and hashes are replaced.
    pub(crate) fn plain(&self, text: &str) -> String {
        const TIME: &[u8; 20] = b"0000-00-00T00:00:00Z";
        let fits = |(byte, want): (&u8, &u8)| if *want == b'0' { byte.is_ascii_digit() } else { byte == want };
        let is_time = |bytes: &[u8]| bytes.iter().zip(TIME).all(fits);
        let text = text.replace(self.scratch.path().to_str().unwrap(), "/site");
        let (mut out, mut rest) = (String::new(), text.as_str());
        while let Some(first) = rest.chars().next() {
            let hex = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
            let (length, shown) = match hex {
                _ if rest.as_bytes().get(..TIME.len()).is_some_and(is_time) => (TIME.len(), "<time>"),
                64 => (64, "<hash>"),
                0 => (first.len_utf8(), &rest[..first.len_utf8()]),
                _ => (hex, &rest[..hex]),
            };
            out.push_str(shown);
            rest = &rest[length..];
        }
        out
    }

    pub(crate) fn root(&self) -> Root {
        Root::from_pem(&std::fs::read_to_string(self.path("worker/ca/root.pem")).unwrap()).unwrap()
    }

    #[track_caller]
    pub(crate) fn accept(&self, node: &TestNode) {
        let answer = self.controller.answer(&node.node_id).expect("an answer").answer.expect("a success");
        let expected = AnswerExpectation {
            root: &self.root(),
            node_id: &node.node_id,
            task_id: Some(&node.task_id),
            hostname: &node.hostname,
            fingerprint: &node.fingerprint,
            csr_sha256: &node.csr_sha256(),
            now: now(),
            current_bundle: None,
        };
        answer.accept(&expected).unwrap();
    }
}

/// What a command said, and its exit code.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn run_with(config: &Path, args: &[&str]) -> Ran {
    let Output { status, stdout, stderr } =
        command().args(args).arg("--config").arg(config).env_clear().output().unwrap();
    Ran { code: status.code(), out: String::from_utf8(stdout).unwrap(), err: String::from_utf8(stderr).unwrap() }
}

impl Ran {
    #[track_caller]
    pub(crate) fn exit(&self, code: i32) -> &Self {
        let Self { out, err, .. } = self;
        assert_eq!(self.code, Some(code), "{out}{err}");
        assert!(!out.contains("PRIVATE KEY") && !err.contains("PRIVATE KEY"));
        self
    }

    /// The text is a command, a name, a path, a setting or a number: sentences are not held by tests.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, text: &str) -> &Self {
        let Self { out, err, .. } = self.exit(code);
        assert!(out.contains(text) || err.contains(text), "wanted {text:?}:\n{out}{err}");
        self
    }

    /// How often `once --json` did this.
    #[track_caller]
    pub(crate) fn done(&self, code: i32, counts: &[(&str, u64)]) -> &Self {
        self.exit(code);
        let json: serde_json::Value = serde_json::from_str(&self.out).unwrap();
        for (what, count) in counts {
            let found = json.get(*what).and_then(serde_json::Value::as_u64);
            assert_eq!(found, Some(*count), "{what}: {json} {}", self.err);
        }
        self
    }
}
