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

use lucia_proto::audit::{AuditAction, AuditActor, AuditChain, AuditNote};
use lucia_proto::base::bounded::Version;
use lucia_proto::files::owner_queue::{AuditHeadFile, OwnerFile};
use site::{Site, now};

fn note(uid: u32) -> AuditNote {
    AuditNote::new(now(), AuditActor::Operator(uid), AuditAction::WindowOpened)
}

/// An audit of so many lines.
fn audit(lines: u32, first: u32) -> (Vec<String>, AuditChain) {
    let mut chain = AuditChain::default();
    let lines = (0..lines).map(|n| chain.add(note(first + n)).unwrap()).collect();
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
    site.run(&["audit", "anchors"]).expect(0, "never said how far");
    let (lines, chain) = audit(5, 0);
    site.says(chain);
    site.run(&["once"]).expect(0, "issued 0");
    let text = format!("luciactl audit verify --anchor 5:{}", chain.head);
    site.run(&["audit", "anchors"]).expect(0, &text);
    site.run(&["status"]).expect(0, "first 5 lines anchored at");
    // More may have come since.
    let mut longer = chain;
    let more = [lines.clone(), vec![longer.add(note(9)).unwrap()]].concat();
    for (name, lines, code, word) in [
        ("whole", lines.clone(), 0, "proven up to line 5 by 1 anchor"),
        ("longer", more, 0, "proven up to line 5 by 1 anchor"),
        ("cut", lines[..4].to_vec(), 1, "ends at line 4, and line 5 was there"),
        ("empty", Vec::new(), 1, "ends at line 0"),
        ("rewritten", audit(5, 1).0, 1, "line 5 does not follow"),
        ("rewritten and longer", audit(9, 1).0, 1, "line 5 does not follow"),
        ("edited", [lines[0].replace("opened", "closed"), lines[1..].concat()].to_vec(), 1, "line 2"),
        ("torn", [lines[..4].concat(), lines[4].trim_end().to_owned()].to_vec(), 1, "cut off"),
    ] {
        let file = site.export(&lines);
        let ran = site.run(&["audit", "verify", &file]);
        assert_eq!(ran.code, Some(code), "{name}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains(word) || ran.err.contains(word), "{name}: {}{}", ran.out, ran.err);
    }
    site.run(&["audit", "accept", "--lines", "5"]).expect(0, "nothing to accept");
    // Put back to an older one: nothing of it counts before somebody here says so.
    let (_, older) = audit(3, 0);
    site.says(older);
    site.run(&["once"]).expect(0, "3 lines, and 5 had been seen");
    site.run(&["status"]).expect(0, "audit accept");
    site.run(&["audit", "accept", "--lines", "5"]).expect(1, "that is not 3");
    site.run(&["audit", "verify", &site.export(&audit(3, 0).0)]).expect(1, "ends at line 3");
    site.run(&["audit", "accept", "--lines", "3"]).expect(0, "accepted 3 lines");
    site.run(&["audit", "anchors"]).expect(0, "accepted here");
    site.run(&["audit", "verify", &site.export(&audit(3, 0).0)]).expect(0, "proven up to line 3 by 1 anchor");
    site.run(&["audit", "verify", "/nowhere"]).expect(1, "/nowhere");
}
