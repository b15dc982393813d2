//! The real binary and the controller's audit: shown, held against an export, accepted (design.md O6).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "this is a test, whose helpers stand outside of test functions"
)]

#[path = "../src/fixture.rs"]
#[allow(dead_code, reason = "shared with the unit tests, which use all of it")]
mod fixture;
#[allow(dead_code, reason = "shared with the tests beside this one")]
mod site;

use expect_test::expect_file;
use lucia_people::audit::{AuditActor, AuditEntry};
use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::Version;
use lucia_proto::files::audit_chain::AuditChain;
use lucia_proto::files::owner_queue::{AuditHeadFile, OwnerFile};
use site::{Site, now};

fn note(uid: u32) -> AuditEntry {
    AuditEntry::new(now(), AuditActor::Operator(uid), Act::WindowOpened)
}

/// An audit of so many lines.
fn audit(lines: u32, first: u32) -> (Vec<String>, AuditChain) {
    let mut chain = AuditChain::default();
    let lines = (0..lines).map(|n| lucia_people::audit::add(&mut chain, note(first + n)).unwrap()).collect();
    (lines, chain)
}

impl Site {
    fn says(&self, chain: AuditChain) {
        let file = AuditHeadFile { schema_version: Version, chain };
        self.controller.put_owner(&OwnerFile::AuditHead, &file.to_bytes().unwrap());
    }

    fn export(&self, lines: &[String]) -> String {
        let path = self.path("export.jsonl");
        std::fs::write(&path, lines.concat()).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

// spec: OA-42
#[test]
fn an_export_that_was_cut_or_rewritten_before_the_last_anchor_is_refused() {
    let site = Site::new("");
    let none = site.run(&["audit", "anchors"]).exit(0).out.clone();
    let (lines, chain) = audit(5, 0);
    site.says(chain);
    site.once().done(0, &[("issued", 0)]);
    let text = format!("luciactl audit verify --anchor 5:{}", chain.head);
    let first = site.run(&["audit", "anchors"]).expect(0, &text).out.clone();
    let status: serde_json::Value = serde_json::from_str(&site.run(&["status", "--json"]).out).unwrap();
    assert_eq!(status["audit"]["chain"]["entries"], 5);
    // More may have come since.
    let mut longer = chain;
    let more = [lines.clone(), vec![lucia_people::audit::add(&mut longer, note(9)).unwrap()]].concat();
    for (name, lines, code, word) in [
        ("whole", lines.clone(), 0, "\"proven\": 5"),
        ("longer", more, 0, "\"proven\": 5"),
        ("cut", lines[..4].to_vec(), 1, "line 4"),
        ("empty", Vec::new(), 1, "line 0"),
        ("rewritten", audit(5, 1).0, 1, "line 5"),
        ("rewritten and longer", audit(9, 1).0, 1, "line 5"),
        ("edited", [lines[0].replace("opened", "closed"), lines[1..].concat()].to_vec(), 1, "line 2"),
        ("torn", [lines[..4].concat(), lines[4].trim_end().to_owned()].to_vec(), 1, "line 4"),
    ] {
        let file = site.export(&lines);
        let ran = site.run(&["audit", "verify", &file, "--json"]);
        assert_eq!(ran.code, Some(code), "{name}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains(word) || ran.err.contains(word), "{name}: {}{}", ran.out, ran.err);
    }
    site.run(&["audit", "accept", "--lines", "5"]).exit(0);
    assert_eq!(site.ledger_kinds("auditAccepted"), 0);
    // Put back to an older one: nothing of it counts before somebody here says so.
    let (_, older) = audit(3, 0);
    site.says(older);
    site.run(&["once"]).expect(0, "audit accept");
    site.run(&["status"]).expect(0, "audit accept");
    site.run(&["audit", "accept", "--lines", "5"]).exit(1);
    assert_eq!(site.ledger_kinds("auditAccepted"), 0);
    site.run(&["audit", "verify", &site.export(&audit(3, 0).0)]).expect(1, "line 3");
    site.run(&["audit", "accept", "--lines", "3"]).exit(0);
    assert_eq!(site.ledger_kinds("auditAccepted"), 1);
    let accepted = site.run(&["audit", "anchors"]).exit(0).out.clone();
    let views = [none, first, accepted].join("\n");
    expect_file!["snapshots/audit-anchors.txt"].assert_eq(&site.plain(&views));
    let ran = site.run(&["audit", "verify", &site.export(&audit(3, 0).0), "--json"]);
    ran.expect(0, "\"anchors\": 1").expect(0, "\"proven\": 3");
    site.run(&["audit", "verify", "/nowhere"]).expect(1, "/nowhere");
}
